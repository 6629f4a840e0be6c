//! `ModelVersion` and the options of conversion.

use std::collections::BTreeMap;

use offseek_chat::{model, options};
use pyo3::prelude::*;

use super::special::SpecialTokens;

/// The model version a conversation targets.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ModelVersion {
    DeepseekV4Pro,
    DeepseekV41Flash,
}

impl From<ModelVersion> for model::ModelVersion {
    fn from(version: ModelVersion) -> Self {
        match version {
            ModelVersion::DeepseekV4Pro => Self::DeepseekV4Pro,
            ModelVersion::DeepseekV41Flash => Self::DeepseekV41Flash,
        }
    }
}

impl From<model::ModelVersion> for ModelVersion {
    fn from(version: model::ModelVersion) -> Self {
        match version {
            model::ModelVersion::DeepseekV4Pro => Self::DeepseekV4Pro,
            model::ModelVersion::DeepseekV41Flash => Self::DeepseekV41Flash,
        }
    }
}

/// What to do with web-search tools, choices and blocks.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WebSearchBehavior {
    Drop,
    Reject,
}

impl From<WebSearchBehavior> for options::WebSearchBehavior {
    fn from(behavior: WebSearchBehavior) -> Self {
        match behavior {
            WebSearchBehavior::Drop => Self::Drop,
            WebSearchBehavior::Reject => Self::Reject,
        }
    }
}

impl From<options::WebSearchBehavior> for WebSearchBehavior {
    fn from(behavior: options::WebSearchBehavior) -> Self {
        match behavior {
            options::WebSearchBehavior::Drop => Self::Drop,
            options::WebSearchBehavior::Reject => Self::Reject,
        }
    }
}

/// What to do with history that lacks reasoning in thinking mode.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReasoningContentBehavior {
    FillEmpty,
    Reject,
}

impl From<ReasoningContentBehavior> for options::ReasoningContentBehavior {
    fn from(behavior: ReasoningContentBehavior) -> Self {
        match behavior {
            ReasoningContentBehavior::FillEmpty => Self::FillEmpty,
            ReasoningContentBehavior::Reject => Self::Reject,
        }
    }
}

impl From<options::ReasoningContentBehavior> for ReasoningContentBehavior {
    fn from(behavior: options::ReasoningContentBehavior) -> Self {
        match behavior {
            options::ReasoningContentBehavior::FillEmpty => Self::FillEmpty,
            options::ReasoningContentBehavior::Reject => Self::Reject,
        }
    }
}

/// Options of request conversion; immutable, `with_*` give changed copies.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct ConversionOptions(pub(crate) options::ConversionOptions);

impl ConversionOptions {
    fn with(&self, change: impl FnOnce(&mut options::ConversionOptions)) -> Self {
        let mut copy = self.0.clone();
        change(&mut copy);
        Self(copy)
    }
}

#[pymethods]
impl ConversionOptions {
    #[new]
    #[pyo3(signature = (*, default_thinking_mode = true,
        reasoning_content_behavior = ReasoningContentBehavior::FillEmpty,
        responses_web_search = WebSearchBehavior::Drop, messages_web_search = WebSearchBehavior::Reject,
        thinking_max_tokens_upper_bound = options::DEFAULT_MAX_TOKENS_UPPER_BOUND,
        non_thinking_max_tokens_upper_bound = options::DEFAULT_MAX_TOKENS_UPPER_BOUND))]
    fn new(
        default_thinking_mode: bool,
        reasoning_content_behavior: ReasoningContentBehavior,
        responses_web_search: WebSearchBehavior,
        messages_web_search: WebSearchBehavior,
        thinking_max_tokens_upper_bound: u32,
        non_thinking_max_tokens_upper_bound: u32,
    ) -> Self {
        Self(options::ConversionOptions {
            default_thinking_mode,
            reasoning_content_behavior: reasoning_content_behavior.into(),
            responses_web_search: responses_web_search.into(),
            messages_web_search: messages_web_search.into(),
            thinking_max_tokens_upper_bound,
            non_thinking_max_tokens_upper_bound,
            ..options::ConversionOptions::default()
        })
    }

    #[getter]
    fn default_thinking_mode(&self) -> bool {
        self.0.default_thinking_mode
    }

    #[getter]
    fn model_versions_by_name(&self) -> BTreeMap<String, ModelVersion> {
        self.0
            .model_versions_by_name
            .iter()
            .map(|(name, version)| (name.clone(), (*version).into()))
            .collect()
    }

    #[getter]
    fn thinking_max_tokens_upper_bound(&self) -> u32 {
        self.0.thinking_max_tokens_upper_bound
    }

    #[getter]
    fn non_thinking_max_tokens_upper_bound(&self) -> u32 {
        self.0.non_thinking_max_tokens_upper_bound
    }

    #[getter]
    fn reasoning_content_behavior(&self) -> ReasoningContentBehavior {
        self.0.reasoning_content_behavior.into()
    }

    #[getter]
    fn responses_web_search(&self) -> WebSearchBehavior {
        self.0.responses_web_search.into()
    }

    #[getter]
    fn messages_web_search(&self) -> WebSearchBehavior {
        self.0.messages_web_search.into()
    }

    #[getter]
    fn special_tokens(&self) -> SpecialTokens {
        SpecialTokens(self.0.special_tokens.clone())
    }

    fn with_default_thinking_mode(&self, default_thinking_mode: bool) -> Self {
        self.with(|o| o.default_thinking_mode = default_thinking_mode)
    }

    fn with_reasoning_content_behavior(
        &self,
        reasoning_content_behavior: ReasoningContentBehavior,
    ) -> Self {
        self.with(|o| o.reasoning_content_behavior = reasoning_content_behavior.into())
    }

    fn with_responses_web_search(&self, responses_web_search: WebSearchBehavior) -> Self {
        self.with(|o| o.responses_web_search = responses_web_search.into())
    }

    fn with_messages_web_search(&self, messages_web_search: WebSearchBehavior) -> Self {
        self.with(|o| o.messages_web_search = messages_web_search.into())
    }

    fn with_special_tokens(&self, special_tokens: &SpecialTokens) -> Self {
        self.with(|o| o.special_tokens = special_tokens.0.clone())
    }

    fn with_model_alias(&self, model: String, model_version: ModelVersion) -> Self {
        self.with(|o| {
            o.model_versions_by_name.insert(model, model_version.into());
        })
    }

    fn with_model_versions_by_name(
        &self,
        model_versions_by_name: BTreeMap<String, ModelVersion>,
    ) -> Self {
        self.with(|o| {
            o.model_versions_by_name = model_versions_by_name
                .into_iter()
                .map(|(name, version)| (name, version.into()))
                .collect();
        })
    }

    fn with_thinking_max_tokens_upper_bound(&self, thinking_max_tokens_upper_bound: u32) -> Self {
        self.with(|o| o.thinking_max_tokens_upper_bound = thinking_max_tokens_upper_bound)
    }

    fn with_non_thinking_max_tokens_upper_bound(
        &self,
        non_thinking_max_tokens_upper_bound: u32,
    ) -> Self {
        self.with(|o| o.non_thinking_max_tokens_upper_bound = non_thinking_max_tokens_upper_bound)
    }
}
