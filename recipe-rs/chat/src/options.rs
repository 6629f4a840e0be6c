//! Options of request conversion.

use crate::model::ModelVersion;
use crate::special::SpecialTokens;
use std::collections::BTreeMap;

/// The largest `max_tokens` of the official service.
pub const DEFAULT_MAX_TOKENS_UPPER_BOUND: u32 = 393_216;

/// What to do with assistant history that lacks reasoning in thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum ReasoningContentBehavior {
    #[default]
    FillEmpty,
    Reject,
}

/// What to do with web-search tools, choices and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WebSearchBehavior {
    Drop,
    Reject,
}

/// Options of request conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversionOptions {
    /// Mode of requests that name none.
    pub default_thinking_mode: bool,
    /// See [`ReasoningContentBehavior`].
    pub reasoning_content_behavior: ReasoningContentBehavior,
    /// Responses web search.
    pub responses_web_search: WebSearchBehavior,
    /// Messages web search.
    pub messages_web_search: WebSearchBehavior,
    /// Bound of `max_tokens` while thinking.
    pub thinking_max_tokens_upper_bound: u32,
    /// Bound of `max_tokens` otherwise.
    pub non_thinking_max_tokens_upper_bound: u32,
    /// Accepted model names.
    pub model_versions_by_name: BTreeMap<String, ModelVersion>,
    /// Spellings of the special tokens.
    pub special_tokens: SpecialTokens,
}

impl Default for ConversionOptions {
    fn default() -> Self {
        ConversionOptions {
            default_thinking_mode: true,
            reasoning_content_behavior: ReasoningContentBehavior::FillEmpty,
            responses_web_search: WebSearchBehavior::Drop,
            messages_web_search: WebSearchBehavior::Reject,
            thinking_max_tokens_upper_bound: DEFAULT_MAX_TOKENS_UPPER_BOUND,
            non_thinking_max_tokens_upper_bound: DEFAULT_MAX_TOKENS_UPPER_BOUND,
            model_versions_by_name: BTreeMap::from([
                ("DeepSeek-V4-Pro".to_owned(), ModelVersion::DeepseekV4Pro),
                (
                    "DeepSeek-V4.1-Flash".to_owned(),
                    ModelVersion::DeepseekV41Flash,
                ),
            ]),
            special_tokens: SpecialTokens::default(),
        }
    }
}
