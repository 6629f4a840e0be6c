//! A conversation: messages, tools and prompt settings, independent of the protocol it came from.

use crate::json::Value;
use std::ops::Range;

/// Text in which some ranges are placeholders of images. Only these ranges become image tokens; the same
/// spelling elsewhere in the text stays text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The text, placeholders spelled out.
    pub text: String,
    /// Ascending, disjoint byte ranges of `text` that are placeholders.
    pub placeholders: Vec<Range<usize>>,
}

impl Content {
    /// `text`, whose first `count` occurrences of `image_token` are placeholders.
    pub fn with_placeholders(text: String, count: usize, image_token: &str) -> Content {
        let occurrences = text.match_indices(image_token).take(count);
        let placeholders = occurrences
            .map(|(at, token)| at..at + token.len())
            .collect();
        Content { text, placeholders }
    }

    /// Whether there is neither text nor an image.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Content {
            text,
            placeholders: Vec::new(),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::from(text.to_owned())
    }
}

/// How closely an image is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ImageDetail {
    Low,
    #[default]
    High,
    Original,
    Auto,
}

impl ImageDetail {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            ImageDetail::Low => "low",
            ImageDetail::High => "high",
            ImageDetail::Original => "original",
            ImageDetail::Auto => "auto",
        }
    }
}

/// Where the bytes of an image come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ImageLocation {
    DataUrl(String),
    Url(String),
    Bytes(Vec<u8>),
}

/// One image of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSource {
    /// Its bytes or address.
    pub location: ImageLocation,
    /// Requested detail.
    pub detail: ImageDetail,
    /// Place in the request, as error messages spell it; empty when made directly.
    pub path: String,
}

/// A tool call of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Call id.
    pub id: String,
    /// Tool name as rendered.
    pub name: String,
    /// JSON text, not validated.
    pub arguments: String,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Tool name as rendered.
    pub name: String,
    /// Absent reads as empty.
    pub description: Option<String>,
    /// JSON Schema of the arguments; `Null` reads as `{}`.
    pub parameters: Value,
    /// Passed through to the output constraint.
    pub strict: Option<bool>,
    /// Hidden until revealed (V4.1).
    pub defer_loading: bool,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Message {
    System {
        content: Content,
        images: Vec<ImageSource>,
        /// Tools that this message reveals (V4.1).
        tools: Option<Vec<ToolDefinition>>,
    },
    User {
        content: Content,
        images: Vec<ImageSource>,
    },
    Assistant {
        content: String,
        reasoning_content: Option<String>,
        tool_calls: Option<Vec<ToolCall>>,
        prefix: bool,
    },
    Tool {
        content: Content,
        tool_call_id: Option<String>,
        images: Vec<ImageSource>,
    },
    LatestReminder {
        content: String,
    },
}

impl Message {
    /// A system message of text alone.
    pub fn system(text: impl Into<String>) -> Message {
        Message::System {
            content: Content::from(text.into()),
            images: Vec::new(),
            tools: None,
        }
    }

    /// A user message of text alone.
    pub fn user(text: impl Into<String>) -> Message {
        Message::User {
            content: Content::from(text.into()),
            images: Vec::new(),
        }
    }

    /// The wire name of the role.
    pub fn role(&self) -> &'static str {
        match self {
            Message::System { .. } => "system",
            Message::User { .. } => "user",
            Message::Assistant { .. } => "assistant",
            Message::Tool { .. } => "tool",
            Message::LatestReminder { .. } => "latest_reminder",
        }
    }

    /// The images of the message, in placeholder order.
    pub fn images(&self) -> &[ImageSource] {
        match self {
            Message::System { images, .. }
            | Message::User { images, .. }
            | Message::Tool { images, .. } => images,
            _ => &[],
        }
    }
}

/// Which tool calls are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
}

/// Requested reasoning effort. `Xhigh` renders as `High`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Effort {
    Low,
    High,
    Xhigh,
    Max,
}

/// Requested form of the answer.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub enum ResponseFormat {
    #[default]
    Text,
    JsonObject,
    JsonSchema(Value),
    Regex(String),
}

/// Messages and prompt settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// In order.
    pub messages: Vec<Message>,
    /// Whether the model reasons before it answers.
    pub thinking_mode: bool,
    /// All tools, deferred ones included.
    pub tools: Vec<ToolDefinition>,
    /// A named choice is `Required` with the list narrowed to that tool.
    pub tool_choice: ToolChoice,
    /// `None` reads as high.
    pub reasoning_effort: Option<Effort>,
    /// Requested form of the answer.
    pub response_format: ResponseFormat,
}

impl Default for Conversation {
    fn default() -> Self {
        Conversation {
            messages: Vec::new(),
            thinking_mode: true,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            reasoning_effort: None,
            response_format: ResponseFormat::Text,
        }
    }
}

impl Conversation {
    /// Whether tool definitions and calls are rendered: there are tools and the choice is not `none`.
    pub fn renders_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }
}
