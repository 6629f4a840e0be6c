//! Wire types that the protocols share.

use crate::json::{decode, Value};
use serde::de::{self, Deserialize, Deserializer};
use std::marker::PhantomData;

/// The sentence that refuses anything but a string or a list; protocols word it differently.
pub trait Sentence {
    /// The whole message.
    const TEXT: &'static str;
}

/// Chat content.
#[derive(Clone, Copy, Debug)]
pub struct ChatContent;
impl Sentence for ChatContent {
    const TEXT: &'static str = "content should be a string or a list";
}

/// Responses message content.
#[derive(Clone, Copy, Debug)]
pub struct ResponsesContent;
impl Sentence for ResponsesContent {
    const TEXT: &'static str = "content should be a string or a list of content blocks";
}

/// Responses tool output.
#[derive(Clone, Copy, Debug)]
pub struct ResponsesOutput;
impl Sentence for ResponsesOutput {
    const TEXT: &'static str = "output should be a string or a list of output content parts";
}

/// Messages content, system and tool results; Chat `stop`.
#[derive(Clone, Copy, Debug)]
pub struct StringOrList;
impl Sentence for StringOrList {
    const TEXT: &'static str = "expected a string or a list";
}

/// A string, or a list of `T`; anything else is refused with the sentence of `S`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TextOrList<T, S> {
    Text(String),
    List(Vec<T>, PhantomData<S>),
}

impl<'de, T: Deserialize<'de>, S: Sentence> Deserialize<'de> for TextOrList<T, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(TextOrList::Text(text)),
            Value::Array(items) => {
                let items: Result<Vec<T>, _> = items.into_iter().map(decode).collect();
                Ok(TextOrList::List(
                    items.map_err(de::Error::custom)?,
                    PhantomData,
                ))
            }
            _ => Err(de::Error::custom(S::TEXT)),
        }
    }
}

/// Requested effort as the wire spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum WireEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Ultra,
    Max,
}

impl WireEffort {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            WireEffort::None => "none",
            WireEffort::Minimal => "minimal",
            WireEffort::Low => "low",
            WireEffort::Medium => "medium",
            WireEffort::High => "high",
            WireEffort::Xhigh => "xhigh",
            WireEffort::Ultra => "ultra",
            WireEffort::Max => "max",
        }
    }
}

/// Requested thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ThinkingType {
    Adaptive,
    Enabled,
    Disabled,
}

/// The `type` of a tool, tool call or tool choice where only functions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum FunctionType {
    Function,
}
