//! Messages: the typed request body. Conversion is in [`convert`].
//!
//! Type names and field order are part of the interface: decoding errors quote them.

use super::common::{StringOrList, TextOrList, ThinkingType, WireEffort};
use super::warnings::{self, Warning};
use crate::error::{ChatError, Result};
use crate::json::{decode, DecodeError, Value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

mod blocks;
mod convert;

/// A decoded request and what its body held beyond the typed fields.
#[derive(Clone, Debug)]
pub struct MessagesBody {
    /// The typed fields.
    pub body: MessagesRequest,
    /// Fields that decoding ignored.
    pub ignored: Vec<Warning>,
}

impl MessagesBody {
    /// Decode a parsed body.
    ///
    /// # Errors
    /// [`ChatError::Decode`] naming the first mismatch.
    pub fn from_value(value: Value) -> Result<MessagesBody> {
        let ignored = warnings::ignored_messages(&value);
        let body =
            decode(value).map_err(|e| ChatError::Decode(format!("invalid request body: {e}")))?;
        Ok(MessagesBody { body, ignored })
    }
}

/// Body of `POST /anthropic/v1/messages`.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MessagesRequest {
    pub model: String,
    pub messages: Vec<MessagesMessage>,
    pub system: Option<TextOrList<MessagesSystemBlock, StringOrList>>,
    pub max_tokens: Option<u32>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub stop_sequences: Option<Vec<String>>,
    pub stream: Option<bool>,
    pub tools: Option<Vec<MessagesTool>>,
    pub tool_choice: Option<MessagesToolChoice>,
    pub thinking: Option<MessagesThinking>,
    pub output_config: Option<MessagesOutputConfig>,
    pub metadata: Option<MessagesMetadata>,
}

/// Content of a message.
pub type MessagesContent = TextOrList<MessagesContentBlock, StringOrList>;

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", content = "content", rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum MessagesMessage {
    User(MessagesContent),
    Assistant(MessagesContent),
    System(MessagesContent),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesSystemBlock {
    Text { text: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesContentBlock {
    Text {
        text: String,
    },
    Image {
        source: MessagesImageSource,
    },
    Document {
        source: MessagesDocumentSource,
    },
    Thinking {
        thinking: String,
        #[allow(dead_code)]
        signature: Option<String>,
    },
    ServerToolUse {
        #[allow(dead_code)]
        id: String,
        #[allow(dead_code)]
        name: String,
        #[allow(dead_code)]
        input: Value,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<TextOrList<MessagesToolResultBlock, StringOrList>>,
        #[allow(dead_code)]
        is_error: Option<bool>,
    },
    WebSearchToolResult {
        #[allow(dead_code)]
        tool_use_id: String,
        #[allow(dead_code)]
        content: Value,
    },
    ToolAddition {
        tool: MessagesToolReference,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesToolReference {
    ToolReference { name: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesToolResultBlock {
    Text { text: String },
    Image { source: MessagesImageSource },
    Document { source: MessagesDocumentSource },
    ToolReference { tool_name: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesImageSource {
    Base64 {
        media_type: MessagesMediaType,
        data: String,
    },
    Url {
        url: String,
    },
    File {
        file_id: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub enum MessagesMediaType {
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/jpg")]
    Jpg,
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
}

impl MessagesMediaType {
    /// The registered name.
    pub fn as_str(self) -> &'static str {
        match self {
            MessagesMediaType::Jpeg | MessagesMediaType::Jpg => "image/jpeg",
            MessagesMediaType::Png => "image/png",
            MessagesMediaType::Gif => "image/gif",
            MessagesMediaType::Webp => "image/webp",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MessagesDocumentSource {
    pub media_type: Option<String>,
}

/// A tool; whatever has a `type` is a server tool.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum MessagesTool {
    Client {
        name: String,
        description: Option<String>,
        input_schema: Value,
        defer_loading: Option<bool>,
    },
    Server {
        kind: String,
        name: Option<String>,
    },
}

#[derive(Deserialize)]
struct MessagesServerTool {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
}

impl<'de> Deserialize<'de> for MessagesTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.get("type").is_some() {
            let tool: MessagesServerTool = decode(value).map_err(D::Error::custom)?;
            return Ok(MessagesTool::Server {
                kind: tool.kind,
                name: tool.name,
            });
        }
        let in_field =
            |name: &str, e: DecodeError| D::Error::custom(format!("field `{name}`: {e}"));
        let (mut name, mut description, mut input_schema, mut defer_loading) =
            (None, Value::Null, Value::Null, Value::Null);
        if let Value::Object(object) = value {
            for (key, value) in object.into_members() {
                match key.as_str() {
                    "name" => name = Some(value),
                    "description" => description = value,
                    "input_schema" => input_schema = value,
                    "defer_loading" => defer_loading = value,
                    _ => {}
                }
            }
        }
        let name = name.ok_or_else(|| D::Error::missing_field("name"))?;
        Ok(MessagesTool::Client {
            name: decode(name).map_err(|e| in_field("name", e))?,
            description: decode(description).map_err(|e| in_field("description", e))?,
            input_schema,
            defer_loading: decode(defer_loading).map_err(|e| in_field("defer_loading", e))?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MessagesToolChoice {
    Auto {
        #[allow(dead_code)]
        disable_parallel_tool_use: Option<bool>,
    },
    Any {
        #[allow(dead_code)]
        disable_parallel_tool_use: Option<bool>,
    },
    Tool {
        name: String,
        #[allow(dead_code)]
        disable_parallel_tool_use: Option<bool>,
    },
    None,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MessagesThinking {
    #[serde(rename = "type")]
    pub kind: ThinkingType,
    pub budget_tokens: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MessagesOutputConfig {
    pub effort: Option<WireEffort>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MessagesMetadata {
    pub user_id: Option<String>,
}
