//! Wire types that the protocols share.

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
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

struct TextOrListVisitor<T, S>(PhantomData<(T, S)>);

impl<'de, T: Deserialize<'de>, S: Sentence> Visitor<'de> for TextOrListVisitor<T, S> {
    type Value = TextOrList<T, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrList::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(TextOrList::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Ok(TextOrList::List(
            Vec::deserialize(SeqAccessDeserializer::new(seq))?,
            PhantomData,
        ))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Err(E::custom(S::TEXT))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Err(E::custom(S::TEXT))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Err(E::custom(S::TEXT))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Err(E::custom(S::TEXT))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Err(E::custom(S::TEXT))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(de::Error::custom(S::TEXT))
    }
}

impl<'de, T: Deserialize<'de>, S: Sentence> Deserialize<'de> for TextOrList<T, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrListVisitor(PhantomData))
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
