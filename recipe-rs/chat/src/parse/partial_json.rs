//! A JSON document that is still growing.
//!
//! [`PartialJson`] reads text as it comes and can say at any time what the document is so far: containers
//! and strings appear as soon as they begin, numbers and words once they are complete, members once their
//! value has begun. So every state is a prefix of the next one. Syntax is that of RFC 8259.

use std::fmt;

use crate::json::{Object, Value, MAX_DEPTH};

/// Numbers with more characters are refused.
const MAX_NUMBER: usize = 1024;

/// The text cannot be the beginning of a JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialJsonError {
    /// Position in the text, in characters.
    pub position: usize,
    /// What was wrong there.
    pub message: String,
}

impl fmt::Display for PartialJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.message, self.position)
    }
}

impl std::error::Error for PartialJsonError {}

#[derive(Clone, Debug)]
enum Frame {
    Array(Vec<Value>),
    /// Complete members, and the key whose value is being read.
    Object(Vec<(String, Value)>, Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    KeyOrEnd,
    Key,
    Colon,
    CommaOrEnd,
    /// In a string; the text so far, and an escape that is not complete.
    String {
        is_key: bool,
        text: String,
        escape: String,
    },
    /// In a number or word.
    Scalar(String),
    Done,
}

/// Incremental reader of one document. Linear in the text; a snapshot costs its own size.
#[derive(Clone, Debug)]
pub struct PartialJson {
    stack: Vec<Frame>,
    state: State,
    root: Option<Value>,
    position: usize,
}

impl Default for PartialJson {
    fn default() -> Self {
        Self {
            stack: Vec::new(),
            state: State::Value,
            root: None,
            position: 0,
        }
    }
}

impl PartialJson {
    /// Read more text.
    ///
    /// # Errors
    /// The first character with which the text cannot be the beginning of a document. The reader stays as it
    /// was before that character.
    pub fn push(&mut self, text: &str) -> Result<(), PartialJsonError> {
        for c in text.chars() {
            self.step(c)?;
            self.position += 1;
        }
        Ok(())
    }

    /// The document so far; `None` before its first character that counts.
    pub fn snapshot(&self) -> Option<Value> {
        let mut inner = match &self.state {
            State::String {
                is_key: false,
                text,
                ..
            } => Some(Value::String(text.clone())),
            _ => self.root.clone(),
        };
        for frame in self.stack.iter().rev() {
            inner = Some(match frame {
                Frame::Array(items) => Value::Array(items.iter().cloned().chain(inner).collect()),
                Frame::Object(members, key) => {
                    let open = key.clone().zip(inner);
                    Value::Object(Object::from_members(
                        members.iter().cloned().chain(open).collect(),
                    ))
                }
            });
        }
        inner
    }

    /// Whether [`Self::snapshot`] has a value.
    pub fn has_started(&self) -> bool {
        self.root.is_some() || !self.stack.is_empty() || matches!(self.state, State::String { .. })
    }

    /// Whether the document is complete (a number at the top level is only at [`Self::finish`]).
    pub fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// End of the text: the whole document.
    ///
    /// # Errors
    /// The document is not complete.
    pub fn finish(&mut self) -> Result<Value, PartialJsonError> {
        if let State::Scalar(_) = self.state {
            if self.stack.is_empty() {
                self.end_scalar()?;
            }
        }
        match &self.root {
            Some(root) if self.is_complete() => Ok(root.clone()),
            _ => Err(self.error("the document is not complete")),
        }
    }

    fn error(&self, message: impl Into<String>) -> PartialJsonError {
        PartialJsonError {
            position: self.position,
            message: message.into(),
        }
    }

    fn unexpected<T>(&self, c: char, wanted: &str) -> Result<T, PartialJsonError> {
        Err(self.error(format!("expected {wanted}, found {c:?}")))
    }

    fn step(&mut self, c: char) -> Result<(), PartialJsonError> {
        let is_blank = matches!(c, ' ' | '\t' | '\n' | '\r');
        match &mut self.state {
            State::String { .. } => return self.in_string(c),
            State::Scalar(text) if c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.') => {
                text.push(c);
                let text = text.clone();
                return match scalar_may_grow(&text) {
                    true => Ok(()),
                    false => {
                        self.state = State::Scalar(text[..text.len() - 1].to_owned());
                        self.unexpected(c, "the rest of a number, true, false or null")
                    }
                };
            }
            State::Scalar(_) => self.end_scalar()?,
            _ => {}
        }
        if is_blank {
            return Ok(());
        }
        match (&self.state, c) {
            (State::ValueOrEnd, ']') | (State::KeyOrEnd, '}') => self.close(c),
            (State::CommaOrEnd, ']' | '}') => self.close(c),
            (State::CommaOrEnd, ',') => {
                self.state = match self.stack.last() {
                    Some(Frame::Object(..)) => State::Key,
                    _ => State::Value,
                };
                Ok(())
            }
            (State::Value | State::ValueOrEnd, _) => self.begin_value(c),
            (State::Key | State::KeyOrEnd, '"') => {
                self.state = State::String {
                    is_key: true,
                    text: String::new(),
                    escape: String::new(),
                };
                Ok(())
            }
            (State::Colon, ':') => {
                self.state = State::Value;
                Ok(())
            }
            (State::Key | State::KeyOrEnd, _) => self.unexpected(c, "a key"),
            (State::Colon, _) => self.unexpected(c, "':'"),
            (State::CommaOrEnd, _) => self.unexpected(c, "',' or the end of the container"),
            (State::Done | State::String { .. } | State::Scalar(_), _) => {
                self.unexpected(c, "the end of the text")
            }
        }
    }

    fn begin_value(&mut self, c: char) -> Result<(), PartialJsonError> {
        match c {
            '{' | '[' if self.stack.len() + 1 >= MAX_DEPTH => {
                Err(self.error("the document nests too deeply"))
            }
            '{' => {
                self.stack.push(Frame::Object(Vec::new(), None));
                self.state = State::KeyOrEnd;
                Ok(())
            }
            '[' => {
                self.stack.push(Frame::Array(Vec::new()));
                self.state = State::ValueOrEnd;
                Ok(())
            }
            '"' => {
                self.state = State::String {
                    is_key: false,
                    text: String::new(),
                    escape: String::new(),
                };
                Ok(())
            }
            '-' | '0'..='9' | 't' | 'f' | 'n' => {
                self.state = State::Scalar(c.to_string());
                Ok(())
            }
            _ => self.unexpected(c, "a value"),
        }
    }

    fn end_scalar(&mut self) -> Result<(), PartialJsonError> {
        let State::Scalar(text) = &self.state else {
            return Ok(());
        };
        match Value::parse(text.as_bytes()) {
            Ok(value) => {
                self.put(value);
                Ok(())
            }
            Err(_) => Err(self.error(format!("{text:?} is not a value"))),
        }
    }

    /// A value is complete.
    fn put(&mut self, value: Value) {
        self.state = State::CommaOrEnd;
        match self.stack.last_mut() {
            Some(Frame::Array(items)) => items.push(value),
            Some(Frame::Object(members, key)) => {
                members.push((key.take().unwrap_or_default(), value))
            }
            None => {
                self.root = Some(value);
                self.state = State::Done;
            }
        }
    }

    fn close(&mut self, c: char) -> Result<(), PartialJsonError> {
        match (self.stack.pop(), c) {
            (Some(Frame::Array(items)), ']') => self.put(Value::Array(items)),
            (Some(Frame::Object(members, _)), '}') => {
                self.put(Value::Object(Object::from_members(members)))
            }
            (Some(frame), _) => {
                self.stack.push(frame);
                return self.unexpected(c, "the other closing bracket");
            }
            (None, _) => return self.unexpected(c, "the end of the text"),
        }
        Ok(())
    }

    fn in_string(&mut self, c: char) -> Result<(), PartialJsonError> {
        let State::String {
            is_key,
            text,
            escape,
        } = &mut self.state
        else {
            return Ok(());
        };
        if !escape.is_empty() {
            let before = escape.len();
            escape.push(c);
            match decode_escape(escape) {
                Escape::Open => {}
                Escape::Char(decoded) => {
                    text.push(decoded);
                    escape.clear();
                }
                Escape::Wrong => {
                    escape.truncate(before);
                    return self.unexpected(c, "the rest of an escape");
                }
            }
            return Ok(());
        }
        match c {
            '\\' => escape.push(c),
            '"' => {
                let (is_key, text) = (*is_key, std::mem::take(text));
                if is_key {
                    if let Some(Frame::Object(_, key)) = self.stack.last_mut() {
                        *key = Some(text);
                    }
                    self.state = State::Colon;
                } else {
                    self.put(Value::String(text));
                }
            }
            c if c < ' ' => return Err(self.error("control character in a string")),
            c => text.push(c),
        }
        Ok(())
    }
}

/// Whether `text` can be the beginning of a number or of a word.
fn scalar_may_grow(text: &str) -> bool {
    if ["true", "false", "null"]
        .iter()
        .any(|word| word.starts_with(text))
    {
        return true;
    }
    number_may_grow(text.as_bytes())
}

/// `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?` or a beginning of it.
fn number_may_grow(text: &[u8]) -> bool {
    if text.len() > MAX_NUMBER {
        return false;
    }
    let digits = |t: &[u8]| t.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let len = digits(rest);
    if rest.first() == Some(&b'0') && len > 1 {
        return false;
    }
    rest = &rest[len..];
    if len == 0 || rest.is_empty() {
        return rest.is_empty();
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let len = digits(fraction);
        rest = &fraction[len..];
        if len == 0 || rest.is_empty() {
            return rest.is_empty();
        }
    }
    let Some((b'e' | b'E', exponent)) = rest.split_first() else {
        return false;
    };
    let exponent = exponent
        .strip_prefix(b"-")
        .or_else(|| exponent.strip_prefix(b"+"))
        .unwrap_or(exponent);
    digits(exponent) == exponent.len()
}

enum Escape {
    Open,
    Char(char),
    Wrong,
}

fn decode_escape(escape: &str) -> Escape {
    let rest = &escape[1..];
    let simple = match rest.chars().next() {
        None => return Escape::Open,
        Some(c @ ('"' | '\\' | '/')) => c,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return decode_unicode(rest),
        Some(_) => return Escape::Wrong,
    };
    Escape::Char(simple)
}

/// `uXXXX`, or two of them for a surrogate pair.
fn decode_unicode(rest: &str) -> Escape {
    let unit = |digits: &str| {
        let hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        hex.then(|| u32::from_str_radix(digits, 16).unwrap_or(0))
    };
    let first = &rest[1..rest.len().min(5)];
    let Some(high) = unit(first) else {
        return Escape::Wrong;
    };
    if first.len() < 4 {
        return Escape::Open;
    }
    if let Some(c) = char::from_u32(high) {
        return Escape::Char(c);
    }
    let second = &rest[5..];
    if high >= 0xDC00 || !"\\u".starts_with(&second[..second.len().min(2)]) {
        return Escape::Wrong;
    }
    let digits = second.get(2..).unwrap_or("");
    match unit(digits) {
        None => Escape::Wrong,
        Some(_) if digits.len() < 4 => Escape::Open,
        Some(low) if (0xDC00..0xE000).contains(&low) => {
            char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                .map_or(Escape::Wrong, Escape::Char)
        }
        Some(_) => Escape::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(text: &str) -> Vec<String> {
        let mut reader = PartialJson::default();
        let mut states = Vec::new();
        for c in text.chars() {
            reader.push(&c.to_string()).unwrap();
            if let Some(value) = reader.snapshot() {
                let json = value.to_compact();
                if states.last() != Some(&json) {
                    states.push(json);
                }
            }
        }
        states
    }

    #[test]
    fn the_document_grows() {
        assert_eq!(
            states(r#" {"a": [1, -2.5e3, "x\n\u00e9\ud83d\ude00"], "b": true}"#),
            [
                "{}",
                r#"{"a":[]}"#,
                r#"{"a":[1]}"#,
                r#"{"a":[1,-2500.0]}"#,
                r#"{"a":[1,-2500.0,""]}"#,
                r#"{"a":[1,-2500.0,"x"]}"#,
                r#"{"a":[1,-2500.0,"x\n"]}"#,
                r#"{"a":[1,-2500.0,"x\né"]}"#,
                r#"{"a":[1,-2500.0,"x\né😀"]}"#,
                r#"{"a":[1,-2500.0,"x\né😀"],"b":true}"#,
            ]
        );
    }

    #[test]
    fn what_is_not_json_is_an_error_at_its_place() {
        for (text, position) in [
            ("{'a'", 1),
            ("[1,]", 3),
            ("{\"a\" 1", 5),
            ("[01", 2),
            ("[1.e", 3),
            ("[1.2.", 4),
            ("[--", 2),
            ("[tru}", 4),
            ("[tx", 2),
            ("\"\\ud83dx", 7),
            ("\"\\udc00", 6),
            ("\"\\x", 2),
            ("\"a\nb", 2),
            ("{} x", 3),
            ("[}", 1),
            ("x", 0),
            ("[1e400]", 6),
        ] {
            let error = PartialJson::default().push(text).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
        }
        assert!(PartialJson::default().push(&"[".repeat(1000)).is_err());
    }

    #[test]
    fn the_end_completes_a_number_only() {
        let finish = |text: &str| {
            let mut reader = PartialJson::default();
            reader.push(text).unwrap();
            reader.finish().map(|v| v.to_compact())
        };
        assert_eq!(finish("12 "), Ok("12".to_owned()));
        assert_eq!(finish("12"), Ok("12".to_owned()));
        for cut in ["", "[1", "\"a", "-", "tru", "{\"a\":"] {
            assert!(finish(cut).is_err(), "{cut}");
        }
    }
}
