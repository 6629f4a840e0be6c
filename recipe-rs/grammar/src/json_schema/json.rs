//! JSON text of a schema: key order kept, numbers exact, depth bounded.
//!
//! `Json` is the document as written; `Value` is what an instance value *is* (numbers by value, object keys sorted),
//! the form in which `enum`, `const` and `uniqueItems` compare.

use std::sync::Arc;

use super::decimal::Decimal;
use super::error::{ErrorKind, SchemaError};
use crate::hash::{mix, of_bytes, Fingerprint};

/// Powers of ten beyond this in a schema's numbers are refused.
pub(crate) const MAX_EXPONENT: i64 = 20_000;

/// A parsed JSON document; objects keep their order, a repeated key keeps the last value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Num(Decimal),
    Str(Arc<str>),
    Arr(Vec<Json>),
    Obj(Vec<(Arc<str>, Json)>),
}

/// A JSON value compared by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Num(Decimal),
    Str(Arc<str>),
    Arr(Vec<Arc<Value>>),
    /// Sorted by key.
    Obj(Vec<(Arc<str>, Arc<Value>)>),
}

impl Json {
    /// Member of an object.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Obj(m) => m.iter().find(|(k, _)| &**k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Determines the document, members in their order.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        match self {
            Json::Null => mix(0x70, 0, 0),
            Json::Bool(b) => mix(0x71, u128::from(*b), 0),
            Json::Num(n) => of_bytes(0x72, n.to_string().as_bytes()),
            Json::Str(s) => of_bytes(0x73, s.as_bytes()),
            Json::Arr(a) => a.iter().fold(mix(0x74, a.len() as u128, 0), |h, x| {
                mix(0x75, h, x.fingerprint())
            }),
            Json::Obj(m) => m.iter().fold(mix(0x76, m.len() as u128, 0), |h, (k, x)| {
                mix(
                    0x77,
                    mix(0x78, h, of_bytes(0x79, k.as_bytes())),
                    x.fingerprint(),
                )
            }),
        }
    }

    /// The value that the text denotes.
    pub(super) fn to_value(&self) -> Arc<Value> {
        Arc::new(match self {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Num(n) => Value::Num(n.clone()),
            Json::Str(s) => Value::Str(s.clone()),
            Json::Arr(a) => Value::Arr(a.iter().map(Json::to_value).collect()),
            Json::Obj(m) => {
                let mut v: Vec<_> = m.iter().map(|(k, x)| (k.clone(), x.to_value())).collect();
                v.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Obj(v)
            }
        })
    }

    /// The JSON name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Num(_) => "a number",
            Json::Str(_) => "a string",
            Json::Arr(_) => "an array",
            Json::Obj(_) => "an object",
        }
    }
}

/// Parses a JSON text.
///
/// # Errors
/// [`ErrorKind::Json`] with the byte offset if the text is not JSON, [`ErrorKind::Limit`] if it nests deeper than `max_depth`.
pub(super) fn parse(text: &str, max_depth: usize) -> Result<Json, SchemaError> {
    let mut p = Parser {
        src: text.as_bytes(),
        text,
        pos: 0,
        max_depth,
    };
    p.space();
    let v = p.value(0)?;
    p.space();
    if p.pos < p.src.len() {
        return Err(p.fail("text after the end of the JSON value"));
    }
    Ok(v)
}

struct Parser<'a> {
    src: &'a [u8],
    text: &'a str,
    pos: usize,
    max_depth: usize,
}

impl Parser<'_> {
    fn fail(&self, what: &str) -> SchemaError {
        SchemaError::new(
            ErrorKind::Json,
            "",
            format!("the schema is not valid JSON: {what} at byte {}", self.pos),
        )
    }

    fn peek(&self) -> Option<u8> {
        self.src.get(self.pos).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
    }

    fn eat(&mut self, b: u8) -> bool {
        let hit = self.peek() == Some(b);
        self.pos += usize::from(hit);
        hit
    }

    fn word(&mut self, w: &str, v: Json) -> Result<Json, SchemaError> {
        if self.text[self.pos..].starts_with(w) {
            self.pos += w.len();
            Ok(v)
        } else {
            Err(self.fail("unknown word"))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, SchemaError> {
        if depth > self.max_depth {
            return Err(SchemaError::limit(
                "",
                "nesting depth of the schema",
                depth as u64,
                self.max_depth as u64,
            ));
        }
        match self.peek() {
            None => Err(self.fail("the text ends too early")),
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'"') => Ok(Json::Str(self.string()?)),
            Some(b'[') => {
                self.pos += 1;
                let mut items = Vec::new();
                self.space();
                if self.eat(b']') {
                    return Ok(Json::Arr(items));
                }
                loop {
                    self.space();
                    items.push(self.value(depth + 1)?);
                    self.space();
                    if self.eat(b']') {
                        return Ok(Json::Arr(items));
                    }
                    if !self.eat(b',') {
                        return Err(self.fail("expected ',' or ']'"));
                    }
                }
            }
            Some(b'{') => {
                self.pos += 1;
                let mut items: Vec<(Arc<str>, Json)> = Vec::new();
                let mut index = std::collections::HashMap::new();
                self.space();
                if self.eat(b'}') {
                    return Ok(Json::Obj(items));
                }
                loop {
                    self.space();
                    if self.peek() != Some(b'"') {
                        return Err(self.fail("expected a string as key"));
                    }
                    let key = self.string()?;
                    self.space();
                    if !self.eat(b':') {
                        return Err(self.fail("expected ':'"));
                    }
                    self.space();
                    let v = self.value(depth + 1)?;
                    match index.entry(key.clone()) {
                        std::collections::hash_map::Entry::Occupied(e) => {
                            let at: usize = *e.get();
                            items[at].1 = v;
                        }
                        std::collections::hash_map::Entry::Vacant(e) => {
                            e.insert(items.len());
                            items.push((key, v));
                        }
                    }
                    self.space();
                    if self.eat(b'}') {
                        return Ok(Json::Obj(items));
                    }
                    if !self.eat(b',') {
                        return Err(self.fail("expected ',' or '}'"));
                    }
                }
            }
            Some(_) => self.number(),
        }
    }

    fn number(&mut self) -> Result<Json, SchemaError> {
        let start = self.pos;
        while matches!(
            self.peek(),
            Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
        ) {
            self.pos += 1;
        }
        let text = &self.text[start..self.pos];
        Decimal::parse(text, MAX_EXPONENT)
            .map(Json::Num)
            .ok_or_else(|| {
                self.pos = start;
                self.fail("not a JSON number (or a power of ten beyond the limit)")
            })
    }

    fn hex4(&mut self) -> Result<u32, SchemaError> {
        let s = self
            .text
            .get(self.pos..self.pos + 4)
            .ok_or_else(|| self.fail("a \\u escape needs four hex digits"))?;
        let v = u32::from_str_radix(s, 16)
            .map_err(|_| self.fail("a \\u escape needs four hex digits"))?;
        self.pos += 4;
        Ok(v)
    }

    fn string(&mut self) -> Result<Arc<str>, SchemaError> {
        self.pos += 1;
        let mut out = String::new();
        loop {
            let start = self.pos;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.pos += 1;
            }
            out.push_str(&self.text[start..self.pos]);
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(out.into());
                }
                Some(b'\\') => {
                    self.pos += 1;
                    let c = self
                        .peek()
                        .ok_or_else(|| self.fail("the text ends inside a string"))?;
                    self.pos += 1;
                    let plain = match c {
                        b'"' | b'\\' | b'/' => c as char,
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'u' => {
                            let mut v = self.hex4()?;
                            if (0xd800..0xdc00).contains(&v)
                                && self.text[self.pos..].starts_with("\\u")
                            {
                                self.pos += 2;
                                let low = self.hex4()?;
                                if (0xdc00..0xe000).contains(&low) {
                                    v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
                                }
                            }
                            char::from_u32(v)
                                .ok_or_else(|| self.fail("a lone surrogate escape in a string"))?
                        }
                        _ => return Err(self.fail("unknown escape")),
                    };
                    out.push(plain);
                }
                _ => return Err(self.fail("a string is not closed, or holds a control character")),
            }
        }
    }
}
