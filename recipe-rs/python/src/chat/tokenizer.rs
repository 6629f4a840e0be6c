//! `Tokenizer`: byte-level BPE for Python.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use offseek_chat::{parallel, tokenizer};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyImportError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::errors::tokenizer_error;

/// Texts from this length on are encoded without the interpreter lock.
const DETACH_BYTES: usize = 2048;

#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct Tokenizer(pub(crate) tokenizer::Tokenizer);

/// Run `work` without the interpreter lock if `len` bytes are worth the switch.
fn maybe_detached<T: Send>(py: Python<'_>, len: usize, work: impl FnOnce() -> T + Send) -> T {
    if len >= DETACH_BYTES {
        py.detach(work)
    } else {
        work()
    }
}

/// Copy `ids` to the front of a writable, C-contiguous uint32 buffer; returns how many there are.
pub(crate) fn fill_buffer(_py: Python<'_>, ids: &[u32], buffer: &PyBuffer<u32>) -> PyResult<usize> {
    let room = buffer.item_count();
    if room < ids.len() {
        return Err(PyBufferError::new_err(format!(
            "buffer holds {room} ids, {} are needed",
            ids.len()
        )));
    }
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "buffer must be writable and C-contiguous",
        ));
    }
    // SAFETY: `PyBuffer<u32>` guarantees aligned items of this type; the buffer is contiguous, writable and
    // has room. The lock is held (`_py`), so no Python code can free or resize it meanwhile; `ids` is a Rust
    // slice that no Python buffer aliases.
    unsafe {
        std::ptr::copy_nonoverlapping(ids.as_ptr(), buffer.buf_ptr().cast::<u32>(), ids.len());
    }
    Ok(ids.len())
}

#[pymethods]
impl Tokenizer {
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| tokenizer::Tokenizer::from_file(path))
            .map(Self)
            .map_err(|error| tokenizer_error(py, &error))
    }

    #[staticmethod]
    fn from_str(py: Python<'_>, text: &str) -> PyResult<Self> {
        py.detach(|| tokenizer::Tokenizer::from_str(text))
            .map(Self)
            .map_err(|error| tokenizer_error(py, &error))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        py.detach(|| tokenizer::Tokenizer::from_bytes(data))
            .map(Self)
            .map_err(|error| tokenizer_error(py, &error))
    }

    #[staticmethod]
    #[pyo3(signature = (identifier, revision=None, token=None))]
    fn from_pretrained(
        py: Python<'_>,
        identifier: &str,
        revision: Option<&str>,
        token: Option<&str>,
    ) -> PyResult<Self> {
        let hub = py.import("huggingface_hub").map_err(|_| {
            PyImportError::new_err(
                "Tokenizer.from_pretrained needs huggingface-hub: pip install 'offseek[engine]'",
            )
        })?;
        let options = PyDict::new(py);
        options.set_item("revision", revision)?;
        options.set_item("token", token)?;
        let path = hub
            .call_method(
                "hf_hub_download",
                (identifier, "tokenizer.json"),
                Some(&options),
            )
            .map_err(|error| {
                let wrapped = PyRuntimeError::new_err(error.to_string());
                wrapped.set_cause(py, Some(error));
                wrapped
            })?;
        Self::from_file(py, path.extract()?)
    }

    fn encode<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.ids(py, text, false)?)
    }

    fn encode_ordinary<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.ids(py, text, true)?)
    }

    #[pyo3(signature = (text, buffer, *, ordinary=false))]
    fn encode_into(
        &self,
        py: Python<'_>,
        text: &str,
        buffer: PyBuffer<u32>,
        ordinary: bool,
    ) -> PyResult<usize> {
        fill_buffer(py, &self.ids(py, text, ordinary)?, &buffer)
    }

    #[pyo3(signature = (texts, *, ordinary=false, num_threads=None))]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<PyBackedStr>,
        ordinary: bool,
        num_threads: Option<NonZeroUsize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let encode = |text: &PyBackedStr| {
            if ordinary {
                self.0.encode_ordinary(text)
            } else {
                self.0.encode(text)
            }
        };
        let all = py.detach(|| parallel::map(&texts, num_threads, encode));
        let lists = PyList::empty(py);
        for ids in all {
            let ids = ids.map_err(|error| tokenizer_error(py, &error))?;
            lists.append(PyList::new(py, ids)?)?;
        }
        Ok(lists)
    }

    fn pre_tokenize<'t>(&self, py: Python<'_>, text: &'t str) -> PyResult<Vec<&'t str>> {
        self.0
            .pre_tokenize(text)
            .map_err(|error| tokenizer_error(py, &error))
    }

    fn decode(&self, ids: Vec<u32>) -> String {
        self.0.decode(&ids)
    }

    fn token_bytes<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        self.0.token_bytes(id).map(|bytes| PyBytes::new(py, bytes))
    }

    fn special_id(&self, spelling: &str) -> Option<u32> {
        self.0.special_id(spelling)
    }

    fn is_added(&self, id: u32) -> bool {
        self.0.is_added(id)
    }

    #[getter]
    fn added_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tokens = PyDict::new(py);
        for (spelling, id) in self.0.added_tokens() {
            tokens.set_item(spelling, id)?;
        }
        Ok(tokens)
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn __repr__(&self) -> String {
        format!("<Tokenizer vocab_size={}>", self.0.vocab_size())
    }
}

impl Tokenizer {
    fn ids(&self, py: Python<'_>, text: &str, ordinary: bool) -> PyResult<Vec<u32>> {
        maybe_detached(py, text.len(), || {
            if ordinary {
                self.0.encode_ordinary(text)
            } else {
                self.0.encode(text)
            }
        })
        .map_err(|error| tokenizer_error(py, &error))
    }
}
