//! `Vocabulary`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use offseek_chat::tokenizer::Tokenizer;
use offseek_grammar as core;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::grammar_error;

/// A tokenizer's vocabulary, prepared for masks.
#[pyclass(frozen, name = "Vocabulary", module = "offseek._native")]
pub(crate) struct Vocabulary {
    pub(crate) inner: Arc<core::Vocabulary>,
}

impl Vocabulary {
    fn wrap(py: Python<'_>, made: core::Result<core::Vocabulary>) -> PyResult<Self> {
        made.map(|v| Vocabulary { inner: Arc::new(v) })
            .map_err(|e| grammar_error(py, &e))
    }
}

#[pymethods]
impl Vocabulary {
    #[new]
    #[pyo3(signature = (tokens, *, special_token_ids = Vec::new(), eos_token_ids = Vec::new(), vocab_size = None))]
    fn new(
        py: Python<'_>,
        tokens: Vec<Vec<u8>>,
        special_token_ids: Vec<u32>,
        eos_token_ids: Vec<u32>,
        vocab_size: Option<u32>,
    ) -> PyResult<Self> {
        let made = py.detach(|| {
            core::Vocabulary::new(&tokens, &special_token_ids, &eos_token_ids, vocab_size)
        });
        Self::wrap(py, made)
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, eos_token_ids, vocab_size = None, cache = None))]
    fn from_tokenizer_file(
        py: Python<'_>,
        path: PathBuf,
        eos_token_ids: Vec<u32>,
        vocab_size: Option<u32>,
        cache: Option<PathBuf>,
    ) -> PyResult<Self> {
        let made = py
            .detach(|| core::vocab::from_file(&path, &eos_token_ids, vocab_size, cache.as_deref()));
        let vocab = Self::wrap(py, made?)?;
        // Loaded when forced tokens are first asked for; a file that it cannot read has none.
        let tokenizer = OnceLock::new();
        vocab.inner.set_encoder(move |text| {
            let tokenizer = tokenizer.get_or_init(|| Tokenizer::from_file(&path).ok());
            tokenizer
                .as_ref()
                .and_then(|t| t.encode_ordinary(text).ok())
        });
        Ok(vocab)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Self::wrap(py, core::Vocabulary::from_bytes(data))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let data = py.detach(|| self.inner.to_bytes());
        PyBytes::new(py, &data)
    }

    fn token_bytes<'py>(&self, py: Python<'py>, token_id: u32) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.token(token_id))
    }

    fn is_special(&self, token_id: u32) -> bool {
        self.inner.is_special(token_id)
    }

    fn spell(&self, text: &[u8]) -> Option<Vec<u32>> {
        self.inner.spell(text)
    }

    #[getter]
    fn eos_token_ids(&self) -> Vec<u32> {
        self.inner.eos().to_vec()
    }

    #[getter]
    fn vocab_size(&self) -> u32 {
        self.inner.vocab_size()
    }

    #[getter]
    fn num_words(&self) -> usize {
        self.inner.words()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.heap_bytes()
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }
}
