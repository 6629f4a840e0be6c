//! Responses: the typed request body. Conversion is in [`convert`].
//!
//! Type names and field order are part of the interface: decoding errors quote them.

use super::common::{ResponsesContent, ResponsesOutput, TextOrList, WireEffort};
use super::warnings::{self, Warning};
use crate::conversation::ImageDetail;
use crate::error::{ChatError, Result};
use crate::json::{decode, Object, Value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

mod convert;
mod declared;
mod items;
mod search;

/// A decoded request and what its body held beyond the typed fields.
#[derive(Clone, Debug)]
pub struct ResponsesBody {
    /// The typed fields.
    pub body: ResponsesRequest,
    /// Fields that decoding ignored.
    pub ignored: Vec<Warning>,
}

impl ResponsesBody {
    /// Decode a parsed body.
    ///
    /// # Errors
    /// [`ChatError::Decode`] naming the first mismatch.
    pub fn from_value(value: Value) -> Result<ResponsesBody> {
        let ignored = warnings::ignored_responses(&value);
        let body =
            decode(value).map_err(|e| ChatError::Decode(format!("invalid request body: {e}")))?;
        Ok(ResponsesBody { body, ignored })
    }
}

/// Body of `POST /responses`.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesRequest {
    pub model: String,
    pub input: Option<ResponsesInput>,
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub reasoning: Option<ResponsesReasoningConfig>,
    pub stream: Option<bool>,
    pub temperature: Option<f32>,
    pub text: Option<ResponsesTextConfig>,
    pub tool_choice: Option<ResponsesToolChoice>,
    pub tools: Option<Vec<ResponsesTool>>,
    pub top_logprobs: Option<u8>,
    pub top_p: Option<f32>,
    pub user: Option<String>,
}

/// The settings of a request that its response objects repeat, as the request specified them.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Echo {
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_logprobs: Option<u8>,
    pub user: Option<String>,
    pub reasoning: Option<ResponsesReasoningConfig>,
    pub text: Option<ResponsesTextConfig>,
    pub tool_choice: Option<ResponsesToolChoice>,
    pub tools: Option<Vec<ResponsesTool>>,
}

impl ResponsesRequest {
    /// What response objects repeat of this request.
    pub fn echo(&self) -> Echo {
        Echo {
            instructions: self.instructions.clone(),
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            top_logprobs: self.top_logprobs,
            user: self.user.clone(),
            reasoning: self.reasoning.clone(),
            text: self.text.clone(),
            tool_choice: self.tool_choice.clone(),
            tools: self.tools.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesReasoningConfig {
    pub effort: Option<WireEffort>,
    pub summary: Option<ReasoningSummary>,
    pub generate_summary: Option<ReasoningSummary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ReasoningSummary {
    Auto,
    Concise,
    Detailed,
}

impl ReasoningSummary {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            ReasoningSummary::Auto => "auto",
            ReasoningSummary::Concise => "concise",
            ReasoningSummary::Detailed => "detailed",
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesTextConfig {
    #[serde(default)]
    pub format: ResponsesTextFormat,
    pub verbosity: Option<LowMediumHigh>,
}

/// `text.verbosity` and a web search's `search_context_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LowMediumHigh {
    Low,
    Medium,
    High,
}

impl LowMediumHigh {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            LowMediumHigh::Low => "low",
            LowMediumHigh::Medium => "medium",
            LowMediumHigh::High => "high",
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesTextFormat {
    #[default]
    Text,
    JsonSchema {
        name: String,
        schema: Value,
        description: Option<String>,
        strict: Option<bool>,
    },
    JsonObject,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesTool {
    Function(ResponsesFunctionTool),
    Custom(ResponsesCustomTool),
    Namespace(ResponsesNamespace),
    WebSearch(ResponsesWebSearch),
    #[serde(rename = "web_search_2025_08_26")]
    WebSearch20250826(ResponsesWebSearch),
    ToolSearch(ResponsesToolSearch),
    #[serde(other)]
    Unsupported,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesFunctionTool {
    pub name: String,
    pub description: Option<String>,
    #[serde(default)]
    pub parameters: Value,
    pub strict: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesCustomTool {
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesNamespace {
    pub name: String,
    pub description: Option<String>,
    pub tools: Vec<ResponsesNamespaceTool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesNamespaceTool {
    Function(ResponsesFunctionTool),
    Custom(ResponsesCustomTool),
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesWebSearch {
    pub search_context_size: Option<LowMediumHigh>,
    pub user_location: Option<ResponsesUserLocation>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesUserLocation {
    pub city: Option<String>,
    pub country: Option<String>,
    pub region: Option<String>,
    pub timezone: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesToolSearch {
    pub execution: Option<ToolSearchExecution>,
    pub description: Option<String>,
    #[serde(default)]
    pub parameters: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ToolSearchExecution {
    Client,
    Server,
}

impl ToolSearchExecution {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolSearchExecution::Client => "client",
            ToolSearchExecution::Server => "server",
        }
    }
}

/// Requested tool choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ResponsesToolChoice {
    None,
    Auto,
    Required,
    Object(ResponsesToolChoiceObject),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesToolChoiceObject {
    Function {
        name: String,
    },
    WebSearch,
    #[serde(rename = "web_search_2025_08_26")]
    WebSearch20250826,
    Custom {
        name: String,
    },
}

impl<'de> Deserialize<'de> for ResponsesToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let word = match &value {
            Value::String(word) => word.as_str(),
            Value::Object(object) if object.get("type").is_some() => {
                return decode(value)
                    .map(ResponsesToolChoice::Object)
                    .map_err(D::Error::custom);
            }
            _ => "",
        };
        match word {
            "none" => Ok(ResponsesToolChoice::None),
            "auto" => Ok(ResponsesToolChoice::Auto),
            "required" => Ok(ResponsesToolChoice::Required),
            _ => Err(D::Error::custom(
                "expected one of `none`, `auto`, `required` or a tool choice object",
            )),
        }
    }
}

/// `input`: one user text, or items.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ResponsesInput {
    Text(String),
    Items(Vec<ResponsesInputItem>),
}

impl<'de> Deserialize<'de> for ResponsesInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(ResponsesInput::Text(text)),
            Value::Array(items) => {
                let items: std::result::Result<Vec<_>, _> = items.into_iter().map(decode).collect();
                Ok(ResponsesInput::Items(items.map_err(D::Error::custom)?))
            }
            _ => Err(D::Error::custom(
                "input should be a string or a list of input items",
            )),
        }
    }
}

/// One input item; an object without `type` is a message when it has a `role`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ResponsesInputItem {
    Message(ResponsesInputMessage),
    Item(Box<ResponsesTypedItem>),
}

impl<'de> Deserialize<'de> for ResponsesInputItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.get("type").is_some() {
            return match decode(value).map_err(D::Error::custom)? {
                ResponsesTypedItem::Message(message) => Ok(ResponsesInputItem::Message(message)),
                other => Ok(ResponsesInputItem::Item(Box::new(other))),
            };
        }
        if value.get("role").is_some() {
            return decode(value)
                .map(ResponsesInputItem::Message)
                .map_err(D::Error::custom);
        }
        Err(D::Error::custom("invalid input item"))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesTypedItem {
    Message(ResponsesInputMessage),
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
        namespace: Option<String>,
    },
    FunctionCallOutput {
        call_id: Option<String>,
        output: TextOrList<ResponsesToolCallOutputItem, ResponsesOutput>,
    },
    CustomToolCall {
        call_id: String,
        name: String,
        input: String,
    },
    /// Unlike the output of a function it needs its `call_id` but may lack `output`.
    CustomToolCallOutput {
        call_id: String,
        output: Option<TextOrList<ResponsesToolCallOutputItem, ResponsesOutput>>,
    },
    Reasoning {
        content: Option<Vec<ResponsesReasoningContent>>,
        #[allow(dead_code)]
        encrypted_content: Option<String>,
    },
    ToolSearchCall {
        call_id: String,
        arguments: JsonMap,
        #[allow(dead_code)]
        execution: Option<ToolSearchExecution>,
    },
    ToolSearchOutput {
        call_id: String,
        tools: Vec<ResponsesTool>,
        #[allow(dead_code)]
        execution: Option<ToolSearchExecution>,
    },
    #[serde(other)]
    Unsupported,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesInputMessage {
    pub role: ResponsesRole,
    pub content: TextOrList<ResponsesContentBlock, ResponsesContent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ResponsesRole {
    User,
    Assistant,
    System,
    Developer,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesContentBlock {
    InputText {
        text: String,
    },
    OutputText {
        text: String,
    },
    InputImage {
        image_url: Option<String>,
        file_id: Option<String>,
        detail: Option<ImageDetail>,
    },
    InputFile {},
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ResponsesToolCallOutputItem {
    InputText {
        text: String,
    },
    InputImage {
        image_url: Option<String>,
        file_id: Option<String>,
        detail: Option<ImageDetail>,
    },
    InputFile {},
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ResponsesReasoningContent {
    pub text: String,
}

/// An object of any members.
#[derive(Clone, Debug)]
pub struct JsonMap(pub Object);

impl<'de> Deserialize<'de> for JsonMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(object) => Ok(JsonMap(object)),
            other => Err(D::Error::custom(other.mismatch("a map"))),
        }
    }
}
