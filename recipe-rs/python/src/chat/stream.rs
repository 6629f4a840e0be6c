//! Inference chunks and the stream processor.

use std::sync::Arc;

use offseek_chat::parse::recover::{CallReport, CallStatus};
use offseek_chat::parse::{self, Generator, TokenLogprob, TokenSource};
use offseek_chat::response::{ChatGenerator, MessagesGenerator, ResponsesGenerator};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::PyClass;

use super::errors::stream_error;
use super::parsing_options::ParsingOptions;
use super::response::{
    ChatCompletionChunk, ChatCompletionChunkGenerator, MessagesChunkGenerator, MessagesStreamEvent,
    ResponsesChunkGenerator, ResponsesStreamEvent,
};
use super::tokenizer::Tokenizer;

/// Prompt-side token counts from the backend.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct PromptUsage(parse::PromptUsage);

#[pymethods]
impl PromptUsage {
    #[new]
    #[pyo3(signature = (*, prompt_tokens = 0, prompt_cache_hit_tokens = 0))]
    fn new(prompt_tokens: u64, prompt_cache_hit_tokens: u64) -> Self {
        Self(parse::PromptUsage {
            prompt_tokens,
            prompt_cache_hit_tokens,
        })
    }

    #[getter]
    fn prompt_tokens(&self) -> u64 {
        self.0.prompt_tokens
    }

    #[getter]
    fn prompt_cache_hit_tokens(&self) -> u64 {
        self.0.prompt_cache_hit_tokens
    }
}

/// Why the backend stopped.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InferenceFinishReason {
    Stop,
    Length,
    ContentFilter,
}

impl From<InferenceFinishReason> for parse::FinishReason {
    fn from(reason: InferenceFinishReason) -> Self {
        match reason {
            InferenceFinishReason::Stop => Self::Stop,
            InferenceFinishReason::Length => Self::Length,
            InferenceFinishReason::ContentFilter => Self::ContentFilter,
        }
    }
}

/// One backend update.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct InferenceChunk(parse::InferenceChunk);

#[pymethods]
impl InferenceChunk {
    #[staticmethod]
    #[pyo3(signature = (*, prompt_usage = None, system_fingerprint = None))]
    fn ready(prompt_usage: Option<&PromptUsage>, system_fingerprint: Option<String>) -> Self {
        Self(parse::InferenceChunk::Ready {
            prompt_usage: prompt_usage.map(|u| u.0),
            system_fingerprint,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (content, token_count = 0))]
    fn text(content: String, token_count: u64) -> Self {
        Self(parse::InferenceChunk::Text {
            content,
            token_count,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (token_ids, logprobs = None))]
    fn tokens(token_ids: Vec<u32>, logprobs: Option<Vec<(f32, Vec<(u32, f32)>)>>) -> Self {
        let entry = |(logprob, top)| TokenLogprob { logprob, top };
        let logprobs = logprobs.map(|all| all.into_iter().map(entry).collect());
        Self(parse::InferenceChunk::Tokens {
            token_ids,
            logprobs,
        })
    }

    #[staticmethod]
    fn finish(finish_reason: InferenceFinishReason) -> Self {
        Self(parse::InferenceChunk::Finish(finish_reason.into()))
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            parse::InferenceChunk::Ready { .. } => "ready",
            parse::InferenceChunk::Text { .. } => "text",
            parse::InferenceChunk::Tokens { .. } => "tokens",
            parse::InferenceChunk::Finish(_) => "finish",
        }
    }

    #[getter]
    fn content(&self) -> Option<&str> {
        match &self.0 {
            parse::InferenceChunk::Text { content, .. } => Some(content),
            _ => None,
        }
    }

    #[getter]
    fn token_ids(&self) -> Option<Vec<u32>> {
        match &self.0 {
            parse::InferenceChunk::Tokens { token_ids, .. } => Some(token_ids.clone()),
            _ => None,
        }
    }

    #[getter]
    fn finish_reason(&self) -> Option<InferenceFinishReason> {
        match self.0 {
            parse::InferenceChunk::Finish(reason) => Some(match reason {
                parse::FinishReason::Stop => InferenceFinishReason::Stop,
                parse::FinishReason::Length => InferenceFinishReason::Length,
                parse::FinishReason::ContentFilter => InferenceFinishReason::ContentFilter,
            }),
            _ => None,
        }
    }

    #[getter]
    fn prompt_usage(&self) -> Option<PromptUsage> {
        match self.0 {
            parse::InferenceChunk::Ready { prompt_usage, .. } => prompt_usage.map(PromptUsage),
            _ => None,
        }
    }

    #[getter]
    fn token_count(&self) -> Option<u64> {
        match self.0 {
            parse::InferenceChunk::Text { token_count, .. } => Some(token_count),
            _ => None,
        }
    }

    #[getter]
    fn system_fingerprint(&self) -> Option<&str> {
        match &self.0 {
            parse::InferenceChunk::Ready {
                system_fingerprint, ..
            } => system_fingerprint.as_deref(),
            _ => None,
        }
    }
}

/// What recover mode says about one tool call.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct ToolCallReport(CallReport);

#[pymethods]
impl ToolCallReport {
    #[getter]
    fn index(&self) -> Option<usize> {
        self.0.index
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    #[getter]
    fn arguments(&self) -> Option<&str> {
        self.0.arguments.as_deref()
    }

    #[getter]
    fn status(&self) -> &'static str {
        match self.0.status {
            CallStatus::WellFormed => "well_formed",
            CallStatus::Repaired => "repaired",
            CallStatus::Malformed => "malformed",
        }
    }

    #[getter]
    fn repairs(&self) -> Vec<&'static str> {
        self.0.repairs.clone()
    }

    #[getter]
    fn problems(&self) -> Vec<String> {
        self.0.problems.clone()
    }

    #[getter]
    fn raw(&self) -> &str {
        &self.0.raw
    }

    fn __repr__(&self) -> String {
        let CallReport {
            index,
            name,
            repairs,
            problems,
            ..
        } = &self.0;
        let status = self.status();
        format!("ToolCallReport(index={index:?}, name={name:?}, status={status:?}, repairs={repairs:?}, problems={problems:?})")
    }
}

/// A processor and the buffer its events pass through.
struct Stream<G: Generator> {
    processor: parse::StreamProcessor<G>,
    events: Vec<G::Event>,
}

enum AnyStream {
    Chat(Stream<ChatGenerator>),
    Responses(Stream<ResponsesGenerator>),
    Messages(Stream<MessagesGenerator>),
}

/// Run an expression for whichever protocol the stream has.
macro_rules! with_stream {
    ($any:expr, $stream:ident => $body:expr) => {
        match $any {
            AnyStream::Chat($stream) => $body,
            AnyStream::Responses($stream) => $body,
            AnyStream::Messages($stream) => $body,
        }
    };
}

/// Parses the chunks of one stream into the events of a protocol.
#[pyclass(module = "offseek._native")]
pub(crate) struct StreamProcessor(AnyStream);

fn stream<G: Generator>(
    generator: G,
    options: &offseek_chat::inference::ParsingOptions,
    tokenizer: Option<Arc<dyn TokenSource>>,
) -> Stream<G> {
    Stream {
        processor: parse::StreamProcessor::new(generator, options, tokenizer),
        events: Vec::new(),
    }
}

impl AnyStream {
    fn take_events<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self {
            AnyStream::Chat(s) => list(
                py,
                s.events
                    .drain(..)
                    .map(|e| Py::new(py, ChatCompletionChunk::from(e))),
            ),
            AnyStream::Responses(s) => list(
                py,
                s.events
                    .drain(..)
                    .map(|e| Py::new(py, ResponsesStreamEvent::from(e))),
            ),
            AnyStream::Messages(s) => list(
                py,
                s.events
                    .drain(..)
                    .map(|e| Py::new(py, MessagesStreamEvent::from(e))),
            ),
        }
    }
}

fn list<'py, T: PyClass>(
    py: Python<'py>,
    events: impl Iterator<Item = PyResult<Py<T>>>,
) -> PyResult<Bound<'py, PyList>> {
    let events: Vec<Py<T>> = events.collect::<PyResult<_>>()?;
    PyList::new(py, events)
}

#[pymethods]
impl StreamProcessor {
    #[new]
    #[pyo3(signature = (generator, options, tokenizer = None))]
    fn new(
        generator: &Bound<'_, PyAny>,
        options: &ParsingOptions,
        tokenizer: Option<&Tokenizer>,
    ) -> PyResult<Self> {
        let options = &options.0;
        let tokenizer = tokenizer.map(|t| Arc::new(t.0.clone()) as Arc<dyn TokenSource>);
        let stream = if let Ok(g) = generator.cast::<ChatCompletionChunkGenerator>() {
            AnyStream::Chat(stream(g.borrow_mut().take()?, options, tokenizer))
        } else if let Ok(g) = generator.cast::<ResponsesChunkGenerator>() {
            AnyStream::Responses(stream(g.borrow_mut().take()?, options, tokenizer))
        } else if let Ok(g) = generator.cast::<MessagesChunkGenerator>() {
            AnyStream::Messages(stream(g.borrow_mut().take()?, options, tokenizer))
        } else {
            let given = generator.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "argument 'generator': '{given}' object is not a chunk generator"
            )));
        };
        Ok(Self(stream))
    }

    #[getter]
    fn finished(&self) -> bool {
        with_stream!(&self.0, s => s.processor.finished())
    }

    #[getter]
    fn state(&self) -> &'static str {
        with_stream!(&self.0, s => s.processor.state_name())
    }

    #[getter]
    fn call_reports(&self) -> Vec<ToolCallReport> {
        with_stream!(&self.0, s => s.processor.call_reports().iter().cloned().map(ToolCallReport).collect())
    }

    fn push<'py>(
        &mut self,
        py: Python<'py>,
        chunk: &InferenceChunk,
    ) -> PyResult<Bound<'py, PyList>> {
        with_stream!(&mut self.0, s => {
            s.processor.push(&chunk.0, &mut s.events).map_err(|e| {
                s.events.clear();
                stream_error(py, &e)
            })?;
        });
        self.0.take_events(py)
    }

    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        with_stream!(&mut self.0, s => s.processor.finish(&mut s.events).map_err(|e| stream_error(py, &e))?);
        self.0.take_events(py)
    }

    fn close(&mut self) {
        with_stream!(&mut self.0, s => s.processor.close());
    }
}
