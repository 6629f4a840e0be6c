//! Lenient reading of a JSON value that a model damaged.
//!
//! Accepts, besides JSON: single-quoted strings, raw control characters in strings, unquoted keys, Python's
//! `True`, `False` and `None`, commas before a closing bracket, and brackets or quotes that are never
//! closed. Anything left over after the value is an error, so that prose is never taken for data.

use crate::json::{write_prompt, FloatStyle, Object, Value, MAX_DEPTH};

/// The repaired value as JSON text, and whether something was left open at the end.
pub(super) fn repair(text: &str) -> Option<(String, bool)> {
    let mut reader = Reader {
        rest: text.trim(),
        open_end: false,
    };
    let value = reader.value(MAX_DEPTH - 1)?;
    reader.blanks();
    if !reader.rest.is_empty() {
        return None;
    }
    let mut out = String::new();
    write_prompt(&mut out, &value, FloatStyle::Short);
    Some((out, reader.open_end))
}

struct Reader<'t> {
    rest: &'t str,
    open_end: bool,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, literal: &str) -> bool {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        let first = self.rest.chars().next()?;
        match first {
            '{' | '[' if depth == 0 => None,
            '{' => self.object(depth - 1),
            '[' => self.array(depth - 1),
            '"' | '\'' => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Option<Value> {
        let len = self
            .rest
            .find([',', ']', '}', ':'])
            .unwrap_or(self.rest.len());
        let word = self.rest[..len].trim();
        let value = match word {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            _ => Value::parse(word.as_bytes()).ok()?,
        };
        self.rest = &self.rest[len..];
        Some(value)
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut out = String::from("\"");
        let mut chars = self.rest.char_indices().skip(1);
        let mut end = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, '\'')) => out.push('\''),
                    Some((_, escaped)) => {
                        out.push('\\');
                        out.push(escaped);
                    }
                    None => {}
                },
                _ if c == quote => {
                    end = Some(at + 1);
                    break;
                }
                '"' => out.push_str("\\\""),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => out.push(c),
            }
        }
        self.open_end |= end.is_none();
        self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
        out.push('"');
        match Value::parse(out.as_bytes()) {
            Ok(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.take("]") {
                return Some(Value::Array(items));
            }
            if self.rest.is_empty() {
                self.open_end = true;
                return Some(Value::Array(items));
            }
            items.push(self.value(depth)?);
            self.blanks();
            if !self.take(",") && !self.rest.starts_with(']') && !self.rest.is_empty() {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.rest = &self.rest[1..];
        let mut members = Vec::new();
        loop {
            self.blanks();
            let closed = self.take("}");
            if closed || self.rest.is_empty() {
                self.open_end |= !closed;
                return Some(Value::Object(Object::from_members(members)));
            }
            let key = match self.rest.chars().next()? {
                '"' | '\'' => self.string()?,
                _ => {
                    let len = self
                        .rest
                        .find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
                    let (key, rest) = self.rest.split_at(len);
                    self.rest = rest;
                    key.to_owned()
                }
            };
            self.blanks();
            if !self.take(":") {
                return None;
            }
            let value = self.value(depth)?;
            members.push((key, value));
            self.blanks();
            if !self.take(",") && !self.rest.starts_with('}') && !self.rest.is_empty() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::repair;

    #[test]
    fn each_defect_has_its_repair() {
        for (text, want) in [
            (
                "{'a': True, b: None,}",
                Some(("{\"a\": true, \"b\": null}", false)),
            ),
            ("[1, 2", Some(("[1, 2]", true))),
            ("[1,", Some(("[1]", true))),
            ("{\"a\": \"x\ny\"}", Some(("{\"a\": \"x\\ny\"}", false))),
            (
                "{\"a\": {\"b\": \"c",
                Some(("{\"a\": {\"b\": \"c\"}}", true)),
            ),
            ("'it\\'s \"q\"'", Some(("\"it's \\\"q\\\"\"", false))),
            ("[]", Some(("[]", false))),
            ("{}", Some(("{}", false))),
            ("not json", None),
            ("{\"a\": 1} and more", None),
            ("1e400", None),
            ("", None),
        ] {
            let got = repair(text);
            assert_eq!(got.as_ref().map(|(t, o)| (t.as_str(), *o)), want, "{text}");
        }
        assert_eq!(repair(&"[".repeat(100_000)), None);
    }
}
