//! What all front ends share: limits, cancel token, and the step from source text to `CompiledGrammar`.

use std::sync::Arc;

use offseek_grammar as core;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::errors::grammar_error;
use super::matcher::{CompiledGrammar, Matcher};
use super::vocab::Vocabulary;

/// Set from any thread to stop a compile.
#[pyclass(frozen, name = "CancelToken", module = "offseek._native")]
#[derive(Default)]
pub(crate) struct CancelToken {
    inner: core::CancelToken,
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.inner.cancel();
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }
}

/// Limits as (name, value) pairs over the defaults, with the clock started.
pub(crate) fn budget(
    limits: &[(String, u64)],
    cancel: Option<&CancelToken>,
) -> PyResult<core::Budget> {
    let mut all = core::Limits::default();
    for (name, value) in limits {
        if !all.set(name, *value) {
            return Err(PyValueError::new_err(format!("unknown limit {name:?}")));
        }
    }
    Ok(core::Budget::new(all, cancel.map(|c| c.inner.clone())))
}

/// Run a front end without the interpreter lock and tie its grammar to the vocabulary.
pub(crate) fn compiled(
    py: Python<'_>,
    vocab: &Vocabulary,
    front_end: impl FnOnce() -> core::Result<core::Grammar> + Send,
) -> PyResult<CompiledGrammar> {
    let vocab = Arc::clone(&vocab.inner);
    py.detach(move || core::CompiledGrammar::new(front_end()?, vocab))
        .map(|inner| CompiledGrammar {
            inner,
            relaxed: Arc::default(),
        })
        .map_err(|e| grammar_error(py, &e))
}

/// Names and default values of all limits.
#[pyfunction]
fn grammar_limits() -> Vec<(&'static str, u64)> {
    core::Limits::default().all()
}

/// Compile a pattern.
#[pyfunction]
#[pyo3(signature = (vocab, pattern, *, search, ecma, ignore_case, multi_line, dot_all, verbose, limits, cancel))]
#[expect(clippy::fn_params_excessive_bools)]
fn compile_regex(
    py: Python<'_>,
    vocab: &Vocabulary,
    pattern: &str,
    search: bool,
    ecma: bool,
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    verbose: bool,
    limits: Vec<(String, u64)>,
    cancel: Option<&CancelToken>,
) -> PyResult<CompiledGrammar> {
    let budget = budget(&limits, cancel)?;
    let syntax = core::regex::Syntax {
        ecma,
        ignore_case,
        multi_line,
        dot_all,
        verbose,
    };
    compiled(py, vocab, || {
        core::regex::compile(pattern, syntax, search, budget)
    })
}

/// Fill one row per matcher.
#[pyfunction]
#[pyo3(signature = (matchers, out, *, threads = 1))]
fn fill_bitmask_batch(
    py: Python<'_>,
    matchers: Vec<PyRef<'_, Matcher>>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    super::matcher::fill_batch(py, &matchers, out, threads)
}

/// Accept one token per matcher.
#[pyfunction]
fn accept_token_batch(
    py: Python<'_>,
    matchers: Vec<PyRef<'_, Matcher>>,
    token_ids: Vec<u32>,
) -> PyResult<Vec<i8>> {
    super::matcher::accept_batch(py, &matchers, &token_ids)
}

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<CancelToken>()?;
    m.add_function(wrap_pyfunction!(grammar_limits, m)?)?;
    m.add_function(wrap_pyfunction!(compile_regex, m)?)?;
    m.add_function(wrap_pyfunction!(accept_token_batch, m)?)?;
    m.add_function(wrap_pyfunction!(fill_bitmask_batch, m)?)
}
