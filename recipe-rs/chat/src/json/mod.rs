//! JSON values that keep what prompts depend on: key order, the last of duplicate keys at the place of
//! the first, and whether a number was an integer.
//!
//! Text is parsed by `serde_json` (its syntax errors are part of the interface, and it limits nesting
//! to [`MAX_DEPTH`] - 1 levels, so every recursion over a [`Value`] is bounded). Typed requests are
//! decoded from a [`Value`] through [`decode`], with the error wording of serde.

mod de;
mod write;

pub use de::{decode, DecodeError};
pub use write::{write_compact, write_prompt, write_string, FloatStyle};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// Containers may nest less deep than this.
pub const MAX_DEPTH: usize = 128;

/// A JSON number: an integer in [-2^63, 2^64 - 1], or a finite double.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Not negative.
    U64(u64),
    /// Negative.
    I64(i64),
    /// Spelled with a fraction or exponent, `-0`, or beyond the integers above.
    F64(f64),
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(Object),
}

/// Members in order, keys unique.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Object {
    members: Vec<(String, Value)>,
}

impl Object {
    /// From members with possible duplicates: the last value wins and stands where the key first stood.
    pub fn from_members(members: Vec<(String, Value)>) -> Object {
        const SMALL: usize = 12;
        let duplicated = if members.len() <= SMALL {
            members
                .iter()
                .enumerate()
                .any(|(i, (key, _))| members[..i].iter().any(|(k, _)| k == key))
        } else {
            let mut seen = std::collections::HashSet::with_capacity(members.len());
            members.iter().any(|(key, _)| !seen.insert(key.as_str()))
        };
        if !duplicated {
            return Object { members };
        }
        let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
        let mut unique: Vec<(String, Value)> = Vec::with_capacity(members.len());
        for (key, value) in members {
            match places.get(&key) {
                Some(&at) => unique[at].1 = value,
                None => {
                    places.insert(key.clone(), unique.len());
                    unique.push((key, value));
                }
            }
        }
        Object { members: unique }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.members.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Append a member whose key is known to be new.
    pub fn push(&mut self, key: impl Into<String>, value: Value) {
        self.members.push((key.into(), value));
    }

    /// The members, moved out.
    pub fn into_members(self) -> Vec<(String, Value)> {
        self.members
    }
}

impl Value {
    /// Parse JSON text.
    ///
    /// # Errors
    /// `serde_json`'s message with line and column.
    pub fn parse(text: &[u8]) -> Result<Value, String> {
        serde_json::from_slice(text).map_err(|error| {
            end_of_broken_string(text, &error).unwrap_or_else(|| error.to_string())
        })
    }

    /// The text of a string value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The members of an object value.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The elements of an array value.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The member `key` of an object value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Compact JSON text (`,` and `:` without spaces).
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        write_compact(&mut out, self);
        out
    }

    /// JSON text as prompts spell it (`, ` and `: `).
    pub fn to_prompt(&self, floats: FloatStyle) -> String {
        let mut out = String::new();
        write_prompt(&mut out, self, floats);
        out
    }
}

/// The message for a string that is not UTF-8: it names the string's end, whichever byte of it is wrong (versions of
/// `serde_json` differ). `None` for other errors, and where the string has no end.
fn end_of_broken_string(text: &[u8], error: &serde_json::Error) -> Option<String> {
    const MESSAGE: &str = "invalid unicode code point";
    if !error.to_string().starts_with(MESSAGE) || std::str::from_utf8(text).is_ok() {
        return None;
    }
    let mut lines = text.split(|&byte| byte == b'\n');
    let line = lines.nth(error.line().checked_sub(1)?)?;
    let mut at = error.column().checked_sub(1)?;
    while *line.get(at)? != b'"' {
        at += if line[at] == b'\\' { 2 } else { 1 };
    }
    Some(format!(
        "{MESSAGE} at line {} column {}",
        error.line(),
        at + 1
    ))
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        if value < 0 {
            Number::I64(value)
        } else {
            Number::U64(value as u64)
        }
    }
}

/// An object literal: `object([("type", "object".into())])`.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(Object {
        members: members
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect(),
    })
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(Number::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(Number::U64(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(if value.is_finite() {
            Value::Number(Number::F64(value))
        } else {
            Value::Null
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Value::Object(Object::from_members(members)))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}
