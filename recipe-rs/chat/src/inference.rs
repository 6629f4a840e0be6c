//! What a converted request asks of the inference backend and of the stream parser.

use crate::conversation::{Conversation, Effort};
use crate::error::ConversionError;
use crate::model::ModelVersion;
use crate::request::warnings::Warning;
use crate::request::Echo;
use crate::special::SpecialTokens;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A constraint on the output that constrained decoding can enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConstraint {
    /// What `schema` is.
    pub kind: ConstraintKind,
    /// Compact JSON of a schema or tool list, a regular expression, or `""` for any JSON value.
    pub schema: String,
}

/// The kinds of [`OutputConstraint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// One JSON document that satisfies the schema.
    Json,
    /// Text that matches the expression as a whole.
    Regex,
    /// Text and tool calls of the listed tools.
    ToolCall,
    /// Tool calls only.
    ToolCallRequired,
}

impl ConstraintKind {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            ConstraintKind::Json => "json",
            ConstraintKind::Regex => "regex",
            ConstraintKind::ToolCall => "tool_call",
            ConstraintKind::ToolCallRequired => "tool_call_required",
        }
    }
}

/// Sampling parameters extracted by conversion.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct InferenceOptions {
    /// Requested output limit in tokens.
    pub max_tokens: Option<u32>,
    /// Always set by conversion.
    pub temperature: Option<f32>,
    /// Always set by conversion.
    pub top_p: Option<f32>,
    /// Whether log probabilities are wanted.
    pub logprobs: bool,
    /// Alternatives per token, 0..=20.
    pub top_logprobs: Option<u8>,
    /// Sampling seed below 2^63.
    pub seed: Option<u64>,
    /// As the reference package gives it.
    pub output_constraint: Option<OutputConstraint>,
}

/// Where parsing begins in thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingInitialStage {
    /// A new turn: leading newlines of the reasoning are dropped.
    ReasoningStart,
    /// A prefix inside the reasoning.
    ReasoningContinuation,
    /// A prefix whose reasoning has ended.
    ContentContinuation,
}

impl ThinkingInitialStage {
    /// Whether the first text is reasoning.
    pub fn starts_in_reasoning(self) -> bool {
        self != ThinkingInitialStage::ContentContinuation
    }
}

/// Settings of the stream parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsingOptions {
    /// Parse tool-call markup.
    pub parse_tool_calls: bool,
    /// The prompt already opened a tool-call block.
    pub starts_in_tool_calls: bool,
    /// Keep only the fenced or bare JSON of the answer.
    pub parse_json_output: bool,
    /// `None`: thinking is off.
    pub thinking_initial_stage: Option<ThinkingInitialStage>,
    /// Texts that end the answer, in request order.
    pub stop_sequences: Vec<String>,
    /// Spellings of the special tokens in the output.
    pub special_tokens: SpecialTokens,
    /// Repair or report damaged tool calls instead of following the markup to the letter.
    pub recover: bool,
}

impl Default for ParsingOptions {
    fn default() -> Self {
        ParsingOptions {
            parse_tool_calls: true,
            starts_in_tool_calls: false,
            parse_json_output: false,
            thinking_initial_stage: None,
            stop_sequences: Vec::new(),
            special_tokens: SpecialTokens::default(),
            recover: false,
        }
    }
}

/// A converted request: the conversation and everything needed to run it and to read the answer.
#[derive(Clone, Debug)]
pub struct ConvertedRequest {
    /// What to render.
    pub conversation: Arc<Conversation>,
    /// Which encoding renders it.
    pub model_version: ModelVersion,
    /// Sampling parameters and constraint.
    pub inference_options: InferenceOptions,
    /// Settings of the stream parser.
    pub parsing_options: ParsingOptions,
    /// Whether the request asked for a stream.
    pub stream: bool,
    /// Chat Completions: `stream_options.include_usage`.
    pub include_usage: bool,
    /// The constraint an engine should enforce: like `inference_options.output_constraint` but with the
    /// definitions that strict normalisation drops, so that no reference dangles.
    pub enforced_constraint: Option<OutputConstraint>,
    /// What the request said and this conversion does not honour.
    pub warnings: Vec<Warning>,
    /// Responses: the settings its response objects repeat. `None` for the other protocols.
    pub echo: Option<Echo>,
    /// Responses: composed tool name -> (namespace, local name).
    pub namespace_tool_map: BTreeMap<String, (String, String)>,
}

impl ConvertedRequest {
    /// A request made from a conversation alone, with default options.
    pub fn from_conversation(
        conversation: impl Into<Arc<Conversation>>,
        model_version: ModelVersion,
    ) -> Self {
        ConvertedRequest {
            conversation: conversation.into(),
            model_version,
            inference_options: InferenceOptions::default(),
            parsing_options: ParsingOptions::default(),
            stream: false,
            include_usage: false,
            enforced_constraint: None,
            warnings: Vec::new(),
            echo: None,
            namespace_tool_map: BTreeMap::new(),
        }
    }

    /// The `max_tokens` to run with, for a prompt of `prompt_tokens` in a context of `context_limit`.
    ///
    /// # Errors
    /// When the prompt, or the prompt and the requested tokens, do not fit.
    pub fn resolve_max_tokens(
        &self,
        prompt_tokens: u64,
        context_limit: u64,
    ) -> Result<u64, ConversionError> {
        let too_long = |completion: u64| {
            let sum = prompt_tokens.saturating_add(completion);
            ConversionError::new(format!(
                "This model's maximum context length is {context_limit} tokens. However, you requested {sum} tokens \
                 ({prompt_tokens} in the messages, {completion} in the completion). Please reduce the length of the \
                 messages or completion."
            ))
        };
        if let Some(requested) = self.inference_options.max_tokens {
            let requested = u64::from(requested);
            if prompt_tokens.saturating_add(requested) > context_limit {
                return Err(too_long(requested));
            }
            return Ok(requested);
        }
        if prompt_tokens > context_limit {
            return Err(too_long(0));
        }
        let default = match (
            self.conversation.thinking_mode,
            self.conversation.reasoning_effort,
        ) {
            (false, _) => 8192,
            (true, Some(Effort::Max)) => 131_072,
            (true, _) => 65_536,
        };
        Ok(default.min(context_limit - prompt_tokens).max(1))
    }
}
