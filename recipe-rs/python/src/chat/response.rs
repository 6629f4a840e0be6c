//! Chunk generators, protocol events and the complete responses.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use offseek_chat::parse::PromptUsage;
use offseek_chat::request::responses::Echo;
use offseek_chat::response as chat;
use pyo3::prelude::*;

use super::errors::consumed;

/// System clock, and random bits from a SplitMix64 sequence with a seed of the operating system.
pub(crate) struct System(u64);

impl System {
    pub(crate) fn boxed() -> Box<dyn chat::Environment> {
        Box::new(Self(RandomState::new().build_hasher().finish()))
    }
}

impl chat::Environment for System {
    fn unix_seconds(&mut self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs())
    }

    fn random_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A value that Python may use once.
macro_rules! single_use {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $what:literal) => {
        $(#[$doc])*
        #[pyclass(module = "offseek._native")]
        pub(crate) struct $name(Option<$inner>);

        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self(Some(inner))
            }
        }

        impl $name {
            pub(crate) fn take(&mut self) -> PyResult<$inner> {
                self.0.take().ok_or_else(|| consumed($what))
            }
        }
    };
}

single_use!(
    /// Makes Chat Completions chunks.
    ChatCompletionChunkGenerator, chat::ChatGenerator, "chunk generator"
);
single_use!(
    /// Makes Responses events.
    ResponsesChunkGenerator, chat::ResponsesGenerator, "chunk generator"
);
single_use!(
    /// Makes Messages events.
    MessagesChunkGenerator, chat::MessagesGenerator, "chunk generator"
);
single_use!(
    /// A Chat Completions chunk.
    ChatCompletionChunk, chat::ChatCompletionChunk, "protocol chunk"
);
single_use!(
    /// A Responses event.
    ResponsesStreamEvent, chat::ResponsesEvent, "protocol chunk"
);
single_use!(
    /// A Messages event.
    MessagesStreamEvent, chat::MessagesEvent, "protocol chunk"
);

/// Request settings that Responses objects repeat.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct ResponsesEcho(pub(crate) Echo);

#[pymethods]
impl ResponsesEcho {
    #[new]
    fn new() -> Self {
        Self(Echo::default())
    }

    #[getter]
    fn instructions(&self) -> Option<&str> {
        self.0.instructions.as_deref()
    }

    #[getter]
    fn max_output_tokens(&self) -> Option<u32> {
        self.0.max_output_tokens
    }

    #[getter]
    fn temperature(&self) -> f32 {
        self.0.temperature.unwrap_or(1.0)
    }

    #[getter]
    fn top_p(&self) -> f32 {
        self.0.top_p.unwrap_or(1.0)
    }

    #[getter]
    fn top_logprobs(&self) -> u8 {
        self.0.top_logprobs.unwrap_or(0)
    }

    #[getter]
    fn user(&self) -> Option<&str> {
        self.0.user.as_deref()
    }
}

#[pymethods]
impl ResponsesChunkGenerator {
    fn with_namespace_tool_map(
        &mut self,
        namespace_tool_map: BTreeMap<String, (String, String)>,
    ) -> PyResult<Self> {
        Ok(self.take()?.with_namespaces(namespace_tool_map).into())
    }

    fn with_echo(&mut self, echo: &ResponsesEcho) -> PyResult<Self> {
        Ok(self.take()?.with_echo(chat::EchoJson::from(&echo.0)).into())
    }
}

#[pymethods]
impl MessagesChunkGenerator {
    #[new]
    fn new(id: String, model: String, thinking_mode: bool) -> Self {
        chat::MessagesGenerator::new(id, model, thinking_mode, System::boxed()).into()
    }

    fn with_signature(&mut self, signature: String) -> PyResult<Self> {
        Ok(self.take()?.with_signature(signature).into())
    }
}

/// `to_json` of an event that was not accumulated yet, and its name.
macro_rules! event {
    ($name:ident) => {
        #[pymethods]
        impl $name {
            fn to_json(&self) -> PyResult<String> {
                Ok(self
                    .0
                    .as_ref()
                    .ok_or_else(|| consumed("protocol chunk"))?
                    .to_json())
            }
        }
    };
}

event!(ChatCompletionChunk);
event!(ResponsesStreamEvent);
event!(MessagesStreamEvent);

/// A Chat Completions response that chunks accumulate into.
#[pyclass(module = "offseek._native")]
pub(crate) struct ChatCompletionResponse(chat::ChatCompletionResponse);

#[pymethods]
impl ChatCompletionResponse {
    #[new]
    #[allow(unused_variables)]
    fn new(
        id: String,
        model: String,
        created: u64,
        prompt_tokens: u64,
        prompt_cache_hit_tokens: u64,
    ) -> Self {
        Self(chat::ChatCompletionResponse::new(id, model, created))
    }

    fn accumulate(&mut self, chunk: &mut ChatCompletionChunk) -> PyResult<()> {
        self.0.accumulate(chunk.take()?);
        Ok(())
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    #[staticmethod]
    fn sse_event_name(chunk: &ChatCompletionChunk) -> PyResult<Option<&'static str>> {
        chunk
            .0
            .as_ref()
            .map(|_| None)
            .ok_or_else(|| consumed("protocol chunk"))
    }

    #[staticmethod]
    fn sse_done_data() -> Option<&'static str> {
        Some("[DONE]")
    }
}

/// A Responses response that events accumulate into.
#[pyclass(module = "offseek._native")]
pub(crate) struct ResponsesResponse(chat::ResponsesResponse);

#[pymethods]
impl ResponsesResponse {
    #[new]
    #[allow(unused_variables)]
    fn new(
        id: String,
        model: String,
        created: u64,
        prompt_tokens: u64,
        prompt_cache_hit_tokens: u64,
    ) -> Self {
        Self(chat::ResponsesResponse::new(id, model, created))
    }

    fn accumulate(&mut self, chunk: &mut ResponsesStreamEvent) -> PyResult<()> {
        self.0.accumulate(chunk.take()?);
        Ok(())
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    #[staticmethod]
    fn sse_event_name(chunk: &ResponsesStreamEvent) -> PyResult<Option<&'static str>> {
        chunk
            .0
            .as_ref()
            .map(|e| Some(e.name()))
            .ok_or_else(|| consumed("protocol chunk"))
    }

    #[staticmethod]
    fn sse_done_data() -> Option<&'static str> {
        None
    }
}

/// A Messages response that events accumulate into.
#[pyclass(module = "offseek._native")]
pub(crate) struct MessagesResponse(chat::MessagesResponse);

#[pymethods]
impl MessagesResponse {
    #[new]
    #[allow(unused_variables)]
    fn new(
        id: String,
        model: String,
        created: u64,
        prompt_tokens: u64,
        prompt_cache_hit_tokens: u64,
    ) -> Self {
        let prompt = PromptUsage {
            prompt_tokens,
            prompt_cache_hit_tokens,
        };
        Self(chat::MessagesResponse::new(id, model, prompt))
    }

    fn accumulate(&mut self, chunk: &mut MessagesStreamEvent) -> PyResult<()> {
        self.0.accumulate(chunk.take()?);
        Ok(())
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    #[staticmethod]
    fn sse_event_name(chunk: &MessagesStreamEvent) -> PyResult<Option<&'static str>> {
        chunk
            .0
            .as_ref()
            .map(|e| Some(e.name()))
            .ok_or_else(|| consumed("protocol chunk"))
    }

    #[staticmethod]
    fn sse_done_data() -> Option<&'static str> {
        None
    }
}
