//! `IncrementalEncoder`: token ids of a conversation that grows.

use std::sync::{Mutex, PoisonError};

use offseek_chat::error::ChatError;
use offseek_chat::tokenizer;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::conversation::Conversation;
use super::encoding::{DeepseekV41Encoding, DeepseekV4Encoding, Encoding};
use super::errors::chat_error;
use super::tokenizer::fill_buffer;

#[derive(FromPyObject)]
enum AnyEncoding<'py> {
    V4(PyRef<'py, DeepseekV4Encoding>),
    V41(PyRef<'py, DeepseekV41Encoding>),
}

#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct IncrementalEncoder {
    encoding: Encoding,
    // A call that panicked may leave ids that do not fit their prompt, so a poisoned state is cleared.
    state: Mutex<tokenizer::IncrementalEncoder>,
}

impl IncrementalEncoder {
    fn with_state<T>(&self, work: impl FnOnce(&mut tokenizer::IncrementalEncoder) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = PoisonError::into_inner(poisoned);
            state.clear();
            state
        });
        work(&mut state)
    }

    fn ids(&self, py: Python<'_>, conversation: &Conversation) -> PyResult<Vec<u32>> {
        let ids = py.detach(|| {
            let rendered = self.encoding.render(conversation);
            let ranges = rendered
                .special_ranges
                .iter()
                .map(|range| range.bytes.clone());
            self.with_state(|state| state.encode(&rendered.prompt, ranges).map(<[u32]>::to_vec))
        });
        ids.map_err(|error| {
            chat_error(
                py,
                ChatError::Encode(format!("failed to encode conversation: {error}")),
            )
        })
    }
}

#[pymethods]
impl IncrementalEncoder {
    #[new]
    fn new(encoding: AnyEncoding<'_>) -> PyResult<Self> {
        let encoding = match &encoding {
            AnyEncoding::V4(encoding) => encoding.0.clone(),
            AnyEncoding::V41(encoding) => encoding.0.clone(),
        };
        let tokenizer = encoding.tokenizer()?.clone();
        Ok(Self {
            encoding,
            state: Mutex::new(tokenizer::IncrementalEncoder::new(tokenizer)),
        })
    }

    fn encode<'py>(
        &self,
        py: Python<'py>,
        conversation: &Conversation,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.ids(py, conversation)?)
    }

    fn encode_into(
        &self,
        py: Python<'_>,
        conversation: &Conversation,
        buffer: PyBuffer<u32>,
    ) -> PyResult<usize> {
        fill_buffer(py, &self.ids(py, conversation)?, &buffer)
    }

    #[getter]
    fn num_reused_ids(&self, py: Python<'_>) -> usize {
        py.detach(|| self.with_state(|state| state.num_reused_ids()))
    }

    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.with_state(tokenizer::IncrementalEncoder::clear));
    }
}
