//! Requests of the three protocols and what they convert to.

use std::collections::BTreeMap;
use std::sync::Arc;

use offseek_chat::error::Result;
use offseek_chat::inference;
use offseek_chat::json::Value;
use offseek_chat::options::ConversionOptions as CoreOptions;
use offseek_chat::request::chat::ChatRequest;
use offseek_chat::request::messages::MessagesBody;
use offseek_chat::request::responses::ResponsesBody;
use offseek_chat::request::warnings;
use offseek_chat::response;
use pyo3::prelude::*;

use super::conversation::Conversation;
use super::errors::{chat_error, consumed_error, conversion_error};
use super::options::{ConversionOptions, ModelVersion};
use super::parsing_options::ParsingOptions;
use super::response::{
    ChatCompletionChunkGenerator, MessagesChunkGenerator, ResponsesChunkGenerator, ResponsesEcho,
    System,
};
use super::values::body_value;

/// A constraint on the output.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct OutputConstraint(pub(crate) inference::OutputConstraint);

#[pymethods]
impl OutputConstraint {
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.as_str()
    }

    #[getter]
    fn schema(&self) -> &str {
        &self.0.schema
    }

    fn __repr__(&self) -> String {
        format!(
            "OutputConstraint(kind={:?}, schema={:?})",
            self.0.kind.as_str(),
            self.0.schema
        )
    }
}

/// Sampling parameters of a converted request.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct InferenceOptions(Arc<inference::ConvertedRequest>);

#[pymethods]
impl InferenceOptions {
    #[getter]
    fn max_tokens(&self) -> Option<u32> {
        self.0.inference_options.max_tokens
    }

    #[getter]
    fn temperature(&self) -> Option<f32> {
        self.0.inference_options.temperature
    }

    #[getter]
    fn top_p(&self) -> Option<f32> {
        self.0.inference_options.top_p
    }

    #[getter]
    fn logprobs(&self) -> bool {
        self.0.inference_options.logprobs
    }

    #[getter]
    fn top_logprobs(&self) -> Option<u8> {
        self.0.inference_options.top_logprobs
    }

    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.inference_options.seed
    }

    #[getter]
    fn output_constraint(&self) -> Option<OutputConstraint> {
        self.0
            .inference_options
            .output_constraint
            .clone()
            .map(OutputConstraint)
    }
}

/// A field of a request without effect.
#[pyclass(frozen, eq, hash, get_all, module = "offseek._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct RequestWarning {
    pointer: String,
    reason: String,
}

#[pymethods]
impl RequestWarning {
    fn __repr__(&self) -> String {
        format!(
            "RequestWarning(pointer={:?}, reason={:?})",
            self.pointer, self.reason
        )
    }
}

impl From<&warnings::Warning> for RequestWarning {
    fn from(warning: &warnings::Warning) -> Self {
        Self {
            pointer: warning.pointer.clone(),
            reason: warning.reason.clone(),
        }
    }
}

/// A converted request.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct ConversationRequest(pub(crate) Arc<inference::ConvertedRequest>);

#[pymethods]
impl ConversationRequest {
    #[new]
    fn new(conversation: &Bound<'_, Conversation>, model_version: ModelVersion) -> Self {
        let conversation = Arc::clone(&conversation.get().0);
        Self(Arc::new(inference::ConvertedRequest::from_conversation(
            conversation,
            model_version.into(),
        )))
    }

    #[getter]
    fn conversation(&self) -> Conversation {
        Conversation(Arc::clone(&self.0.conversation))
    }

    #[getter]
    fn inference_options(&self) -> InferenceOptions {
        InferenceOptions(Arc::clone(&self.0))
    }

    #[getter]
    fn parsing_options(&self) -> ParsingOptions {
        ParsingOptions(self.0.parsing_options.clone())
    }

    #[getter]
    fn model_version(&self) -> ModelVersion {
        self.0.model_version.into()
    }

    #[getter]
    fn stream(&self) -> bool {
        self.0.stream
    }

    #[getter]
    fn enforced_constraint(&self) -> Option<OutputConstraint> {
        self.0.enforced_constraint.clone().map(OutputConstraint)
    }

    #[getter]
    fn warnings(&self) -> Vec<RequestWarning> {
        self.0.warnings.iter().map(RequestWarning::from).collect()
    }

    fn resolve_max_tokens(
        &self,
        py: Python<'_>,
        prompt_tokens: u64,
        context_limit: u64,
    ) -> PyResult<u64> {
        self.0
            .resolve_max_tokens(prompt_tokens, context_limit)
            .map_err(|e| conversion_error(py, &e))
    }
}

/// A decoded request of a protocol.
pub(crate) trait Protocol: Sized + Send {
    fn from_value(value: Value) -> Result<Self>;
    fn model(&self) -> &str;
    fn convert(self, options: &CoreOptions) -> Result<inference::ConvertedRequest>;
}

macro_rules! protocol {
    ($body:ty) => {
        impl Protocol for $body {
            fn from_value(value: Value) -> Result<Self> {
                <$body>::from_value(value)
            }
            fn model(&self) -> &str {
                &self.body.model
            }
            fn convert(self, options: &CoreOptions) -> Result<inference::ConvertedRequest> {
                <$body>::convert(self, options)
            }
        }
    };
}

protocol!(ChatRequest);
protocol!(ResponsesBody);
protocol!(MessagesBody);

fn decode<P: Protocol>(body: &Bound<'_, PyAny>) -> PyResult<Option<P>> {
    let value = body_value(body)?;
    P::from_value(value)
        .map(Some)
        .map_err(|e| chat_error(body.py(), e))
}

fn model<'r, P: Protocol>(py: Python<'_>, request: &'r Option<P>) -> PyResult<&'r str> {
    request
        .as_ref()
        .map(P::model)
        .ok_or_else(|| consumed_error(py))
}

fn convert<P: Protocol>(
    py: Python<'_>,
    request: &mut Option<P>,
    options: &ConversionOptions,
) -> PyResult<ConversationRequest> {
    let request = request.take().ok_or_else(|| consumed_error(py))?;
    match request.convert(&options.0) {
        Ok(converted) => Ok(ConversationRequest(Arc::new(converted))),
        Err(error) => Err(chat_error(py, error)),
    }
}

/// A Chat Completions request; `convert` consumes it.
#[pyclass(module = "offseek._native")]
pub(crate) struct ChatCompletionRequest(Option<ChatRequest>);

#[pymethods]
impl ChatCompletionRequest {
    #[new]
    fn new(body: &Bound<'_, PyAny>) -> PyResult<Self> {
        decode(body).map(Self)
    }

    #[getter]
    fn model(&self, py: Python<'_>) -> PyResult<&str> {
        model(py, &self.0)
    }

    fn convert(
        &mut self,
        py: Python<'_>,
        options: &ConversionOptions,
    ) -> PyResult<ConversationRequest> {
        convert(py, &mut self.0, options)
    }

    #[staticmethod]
    fn chunk_generator(
        request: &ConversationRequest,
        id: String,
        model: String,
    ) -> ChatCompletionChunkGenerator {
        response::ChatGenerator::for_request(&request.0, id, model, System::boxed()).into()
    }
}

/// A Responses request; `convert` consumes it.
#[pyclass(module = "offseek._native")]
pub(crate) struct ResponsesRequest(Option<ResponsesBody>);

#[pymethods]
impl ResponsesRequest {
    #[new]
    fn new(body: &Bound<'_, PyAny>) -> PyResult<Self> {
        decode(body).map(Self)
    }

    #[getter]
    fn model(&self, py: Python<'_>) -> PyResult<&str> {
        model(py, &self.0)
    }

    fn namespace_tool_map(
        &self,
        py: Python<'_>,
        options: &ConversionOptions,
    ) -> PyResult<BTreeMap<String, (String, String)>> {
        let request = self.0.as_ref().ok_or_else(|| consumed_error(py))?;
        request
            .namespace_tool_map(&options.0)
            .map_err(|e| chat_error(py, e))
    }

    fn echo(&self, py: Python<'_>) -> PyResult<ResponsesEcho> {
        let request = self.0.as_ref().ok_or_else(|| consumed_error(py))?;
        Ok(ResponsesEcho(request.body.echo()))
    }

    fn convert(
        &mut self,
        py: Python<'_>,
        options: &ConversionOptions,
    ) -> PyResult<ConversationRequest> {
        convert(py, &mut self.0, options)
    }

    #[staticmethod]
    fn chunk_generator(
        request: &ConversationRequest,
        id: String,
        model: String,
    ) -> ResponsesChunkGenerator {
        response::ResponsesGenerator::for_request(&request.0, id, model, System::boxed()).into()
    }
}

/// A Messages request; `convert` consumes it.
#[pyclass(module = "offseek._native")]
pub(crate) struct MessagesRequest(Option<MessagesBody>);

#[pymethods]
impl MessagesRequest {
    #[new]
    fn new(body: &Bound<'_, PyAny>) -> PyResult<Self> {
        decode(body).map(Self)
    }

    #[getter]
    fn model(&self, py: Python<'_>) -> PyResult<&str> {
        model(py, &self.0)
    }

    fn convert(
        &mut self,
        py: Python<'_>,
        options: &ConversionOptions,
    ) -> PyResult<ConversationRequest> {
        convert(py, &mut self.0, options)
    }

    #[staticmethod]
    fn chunk_generator(
        request: &ConversationRequest,
        id: String,
        model: String,
    ) -> MessagesChunkGenerator {
        response::MessagesGenerator::for_request(&request.0, id, model, System::boxed()).into()
    }
}
