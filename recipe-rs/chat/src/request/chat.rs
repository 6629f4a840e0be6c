//! Chat Completions: the typed request body. Conversion is in [`convert`].
//!
//! Type names and field order are part of the interface: decoding errors quote them.

use super::common::{
    ChatContent, FunctionType, StringOrList, TextOrList, ThinkingType, WireEffort,
};
use super::warnings::{self, Warning};
use crate::conversation::ImageDetail;
use crate::error::{ChatError, Result};
use crate::json::{decode, DecodeError, Value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

mod convert;

/// A decoded request and what its body held beyond the typed fields.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The typed fields.
    pub body: ChatCompletionRequest,
    /// Fields that decoding ignored.
    pub ignored: Vec<Warning>,
}

impl ChatRequest {
    /// Decode a parsed body.
    ///
    /// # Errors
    /// [`ChatError::Decode`] naming the first mismatch.
    pub fn from_value(value: Value) -> Result<ChatRequest> {
        let ignored = warnings::ignored_chat(&value);
        let body =
            decode(value).map_err(|e| ChatError::Decode(format!("invalid request body: {e}")))?;
        Ok(ChatRequest { body, ignored })
    }
}

/// Body of `POST /chat/completions`.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionRequest {
    pub messages: Vec<ChatCompletionRequestMessage>,
    pub model: String,
    pub frequency_penalty: Option<f32>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<u8>,
    pub max_tokens: Option<u32>,
    pub n: Option<u8>,
    pub presence_penalty: Option<f32>,
    pub seed: Option<u64>,
    pub stop: Option<TextOrList<String, StringOrList>>,
    pub stream: Option<bool>,
    pub stream_options: Option<ChatCompletionStreamOptions>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub response_format: Option<ChatCompletionResponseFormat>,
    pub tools: Option<Vec<ChatCompletionTool>>,
    pub tool_choice: Option<ChatCompletionToolChoice>,
    pub reasoning_effort: Option<WireEffort>,
    pub thinking: Option<ChatCompletionThinking>,
    pub parallel_tool_calls: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ChatCompletionRequestMessage {
    System {
        content: TextOrList<ChatCompletionRequestContentBlock, ChatContent>,
        #[allow(dead_code)]
        name: Option<String>,
    },
    User {
        content: TextOrList<ChatCompletionRequestContentBlock, ChatContent>,
        #[allow(dead_code)]
        name: Option<String>,
    },
    Assistant {
        content: Option<TextOrList<ChatCompletionRequestContentBlock, ChatContent>>,
        reasoning_content: Option<String>,
        #[allow(dead_code)]
        name: Option<String>,
        tool_calls: Option<Vec<ChatCompletionRequestToolCall>>,
        prefix: Option<bool>,
    },
    Tool {
        content: TextOrList<ChatCompletionRequestContentBlock, ChatContent>,
        tool_call_id: String,
    },
    LatestReminder {
        content: String,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ChatCompletionRequestContentBlock {
    Text {
        text: String,
    },
    ImageUrl {
        image_url: ChatCompletionImageUrl,
    },
    File {
        file_id: Option<String>,
        file_data: Option<String>,
        #[allow(dead_code)]
        filename: Option<String>,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionImageUrl {
    pub url: String,
    #[serde(default)]
    pub detail: Option<ImageDetail>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionRequestToolCall {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: FunctionType,
    pub function: ChatCompletionRequestFunctionCall,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionRequestFunctionCall {
    pub name: String,
    pub arguments: String,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionStreamOptions {
    pub include_usage: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ChatCompletionResponseFormat {
    JsonObject,
    JsonSchema {
        json_schema: ChatCompletionResponseFormatJsonSchema,
    },
    Regex {
        regex: String,
    },
    Text,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionResponseFormatJsonSchema {
    pub schema: Value,
    pub name: Option<String>,
    pub strict: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionTool {
    #[serde(rename = "type")]
    pub kind: FunctionType,
    pub function: ChatCompletionFunctionDefinition,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionFunctionDefinition {
    pub name: String,
    pub description: Option<String>,
    pub parameters: Option<Value>,
    pub strict: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ChatCompletionThinking {
    #[serde(rename = "type")]
    pub kind: ThinkingType,
    pub budget_tokens: Option<u64>,
}

/// Requested tool choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChatCompletionToolChoice {
    None,
    Auto,
    Required,
    Function(String),
}

#[derive(Deserialize)]
struct ChatCompletionToolChoiceFunction {
    name: String,
}

impl<'de> Deserialize<'de> for ChatCompletionToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        const OTHERWISE: &str = "expected one of `none`, `auto`, `required` or a tool";
        let in_field =
            |name: &str, e: DecodeError| D::Error::custom(format!("field `{name}`: {e}"));
        match Value::deserialize(deserializer)? {
            Value::String(word) => match word.as_str() {
                "none" => Ok(ChatCompletionToolChoice::None),
                "auto" => Ok(ChatCompletionToolChoice::Auto),
                "required" => Ok(ChatCompletionToolChoice::Required),
                _ => Err(D::Error::custom(OTHERWISE)),
            },
            Value::Object(object) => {
                let (mut kind, mut function) = (None, Value::Null);
                for (key, value) in object.into_members() {
                    match key.as_str() {
                        "type" => kind = Some(value),
                        "function" => function = value,
                        _ => {}
                    }
                }
                let kind = kind.ok_or_else(|| D::Error::custom(OTHERWISE))?;
                decode::<FunctionType>(kind).map_err(|e| in_field("type", e))?;
                let function: ChatCompletionToolChoiceFunction =
                    decode(function).map_err(|e| in_field("function", e))?;
                Ok(ChatCompletionToolChoice::Function(function.name))
            }
            _ => Err(D::Error::custom(OTHERWISE)),
        }
    }
}
