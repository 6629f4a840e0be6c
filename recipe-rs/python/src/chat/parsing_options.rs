//! `ParsingOptions` and `ThinkingInitialStage`.

use offseek_chat::inference;
use pyo3::prelude::*;

use super::special::SpecialTokens;

/// Where parsing begins in thinking mode.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub(crate) enum ThinkingInitialStage {
    ReasoningStart,
    ReasoningContinuation,
    ContentContinuation,
}

impl From<ThinkingInitialStage> for inference::ThinkingInitialStage {
    fn from(stage: ThinkingInitialStage) -> Self {
        match stage {
            ThinkingInitialStage::ReasoningStart => Self::ReasoningStart,
            ThinkingInitialStage::ReasoningContinuation => Self::ReasoningContinuation,
            ThinkingInitialStage::ContentContinuation => Self::ContentContinuation,
        }
    }
}

impl From<inference::ThinkingInitialStage> for ThinkingInitialStage {
    fn from(stage: inference::ThinkingInitialStage) -> Self {
        match stage {
            inference::ThinkingInitialStage::ReasoningStart => Self::ReasoningStart,
            inference::ThinkingInitialStage::ReasoningContinuation => Self::ReasoningContinuation,
            inference::ThinkingInitialStage::ContentContinuation => Self::ContentContinuation,
        }
    }
}

#[pymethods]
impl ThinkingInitialStage {
    fn starts_in_reasoning(&self) -> bool {
        inference::ThinkingInitialStage::from(*self).starts_in_reasoning()
    }
}

/// Settings of the stream parser.
#[pyclass(module = "offseek._native")]
pub(crate) struct ParsingOptions(pub(crate) inference::ParsingOptions);

#[pymethods]
impl ParsingOptions {
    #[new]
    #[pyo3(signature = (*, parse_tool_calls = true, starts_in_tool_calls = false, parse_json_output = false,
        thinking_initial_stage = None, stop_sequences = None, special_tokens = None, recover = false))]
    fn new(
        parse_tool_calls: bool,
        starts_in_tool_calls: bool,
        parse_json_output: bool,
        thinking_initial_stage: Option<ThinkingInitialStage>,
        stop_sequences: Option<Vec<String>>,
        special_tokens: Option<&SpecialTokens>,
        recover: bool,
    ) -> Self {
        Self(inference::ParsingOptions {
            parse_tool_calls,
            starts_in_tool_calls,
            parse_json_output,
            thinking_initial_stage: thinking_initial_stage.map(Into::into),
            stop_sequences: stop_sequences.unwrap_or_default(),
            special_tokens: special_tokens.map(|t| t.0.clone()).unwrap_or_default(),
            recover,
        })
    }

    #[getter]
    fn parse_tool_calls(&self) -> bool {
        self.0.parse_tool_calls
    }

    #[setter]
    fn set_parse_tool_calls(&mut self, value: bool) {
        self.0.parse_tool_calls = value;
    }

    #[getter]
    fn starts_in_tool_calls(&self) -> bool {
        self.0.starts_in_tool_calls
    }

    #[setter]
    fn set_starts_in_tool_calls(&mut self, value: bool) {
        self.0.starts_in_tool_calls = value;
    }

    #[getter]
    fn parse_json_output(&self) -> bool {
        self.0.parse_json_output
    }

    #[setter]
    fn set_parse_json_output(&mut self, value: bool) {
        self.0.parse_json_output = value;
    }

    #[getter]
    fn thinking_initial_stage(&self) -> Option<ThinkingInitialStage> {
        self.0.thinking_initial_stage.map(Into::into)
    }

    #[setter]
    fn set_thinking_initial_stage(&mut self, value: Option<ThinkingInitialStage>) {
        self.0.thinking_initial_stage = value.map(Into::into);
    }

    #[getter]
    fn stop_sequences(&self) -> Vec<String> {
        self.0.stop_sequences.clone()
    }

    #[setter]
    fn set_stop_sequences(&mut self, value: Vec<String>) {
        self.0.stop_sequences = value;
    }

    #[getter]
    fn special_tokens(&self) -> SpecialTokens {
        SpecialTokens(self.0.special_tokens.clone())
    }

    #[setter]
    fn set_special_tokens(&mut self, value: &SpecialTokens) {
        self.0.special_tokens = value.0.clone();
    }

    #[getter]
    fn recover(&self) -> bool {
        self.0.recover
    }

    #[setter]
    fn set_recover(&mut self, value: bool) {
        self.0.recover = value;
    }
}
