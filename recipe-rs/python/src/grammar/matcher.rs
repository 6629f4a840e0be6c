//! `CompiledGrammar` and `Matcher`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offseek_grammar as core;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Rows;
use super::errors::{grammar_error, matcher_error};
use super::vocab::Vocabulary;

/// A grammar tied to a vocabulary.
#[pyclass(frozen, name = "CompiledGrammar", module = "offseek._native")]
pub(crate) struct CompiledGrammar {
    pub(crate) inner: Arc<core::CompiledGrammar>,
    /// Keywords of a JSON Schema that were left out: (pointer, keyword).
    pub(crate) relaxed: Arc<[(String, String)]>,
}

#[pymethods]
impl CompiledGrammar {
    fn matcher(&self, py: Python<'_>) -> PyResult<Matcher> {
        let made = py.detach(|| self.inner.matcher());
        made.map(|m| Matcher {
            inner: Mutex::new(m),
            relaxed: Arc::clone(&self.relaxed),
        })
        .map_err(|e| grammar_error(py, &e))
    }

    #[getter]
    fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            inner: Arc::clone(self.inner.vocab()),
        }
    }

    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.inner.heap_bytes())
    }

    #[getter]
    fn relaxed_keywords(&self) -> Vec<(String, String)> {
        self.relaxed.to_vec()
    }
}

/// The state of one text.
#[pyclass(frozen, name = "Matcher", module = "offseek._native")]
pub(crate) struct Matcher {
    inner: Mutex<core::Matcher>,
    relaxed: Arc<[(String, String)]>,
}

impl Matcher {
    fn lock(&self) -> MutexGuard<'_, core::Matcher> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run without the interpreter lock. The matcher's own lock is taken and given back inside, so the
    /// two can never wait for each other.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut core::Matcher) -> core::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| f(&mut self.lock()))
            .map_err(|e| grammar_error(py, &e))
    }
}

#[pymethods]
impl Matcher {
    #[pyo3(signature = (out, row = 0))]
    fn fill_bitmask(&self, py: Python<'_>, out: &Bound<'_, PyAny>, row: usize) -> PyResult<()> {
        let words = self.words();
        let mut rows = Rows::new(out, words)?;
        let row = rows.row(row)?;
        self.run(py, |m| m.fill(row))
    }

    fn fill_bitmask_draft(
        &self,
        py: Python<'_>,
        draft_tokens: Vec<u32>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let words = self.words();
        let mut rows = Rows::new(out, words)?;
        let mut rows = rows.all(draft_tokens.len() + 1)?;
        self.run(py, |m| m.fill_draft(&draft_tokens, &mut rows))
    }

    fn accept_token(&self, py: Python<'_>, token_id: u32) -> PyResult<bool> {
        self.run(py, |m| m.accept(token_id))
    }

    fn accept_tokens(&self, py: Python<'_>, token_ids: Vec<u32>) -> PyResult<usize> {
        self.run(py, |m| m.accept_all(&token_ids))
    }

    fn validate_tokens(&self, py: Python<'_>, token_ids: Vec<u32>) -> PyResult<usize> {
        self.run(py, |m| {
            let taken = m.accept_all(&token_ids)?;
            m.rollback(taken);
            Ok(taken)
        })
    }

    fn is_accepting(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_accepting())
    }

    fn is_finished(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_finished())
    }

    fn rollback(&self, py: Python<'_>, num_tokens: usize) -> PyResult<()> {
        let (done, have) = py.detach(|| {
            let mut m = self.lock();
            (
                m.rollback(num_tokens),
                m.tokens().len() + usize::from(m.has_ended()),
            )
        });
        if done {
            return Ok(());
        }
        Err(matcher_error(
            py,
            format!("cannot roll back {num_tokens} tokens: only {have} were accepted"),
        ))
    }

    fn reset(&self, py: Python<'_>) {
        py.detach(|| self.lock().reset());
    }

    fn fork(&self, py: Python<'_>) -> Matcher {
        Matcher {
            inner: Mutex::new(py.detach(|| self.lock().clone())),
            relaxed: Arc::clone(&self.relaxed),
        }
    }

    fn shortest_completion(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.run(py, core::Matcher::shortest_completion)
    }

    #[pyo3(signature = (*, max_tokens = 64))]
    fn forced_tokens(&self, py: Python<'_>, max_tokens: usize) -> PyResult<Vec<u32>> {
        self.run(py, |m| m.forced_tokens(max_tokens))
    }

    #[pyo3(signature = (*, max_bytes = 4096))]
    fn forced_bytes<'py>(
        &self,
        py: Python<'py>,
        max_bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.run(py, |m| m.forced_text(max_bytes))?;
        Ok(PyBytes::new(py, &text))
    }

    fn allowed_tokens(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.run(py, |m| {
            let mut row = vec![0u32; m.compiled().vocab().words()];
            m.fill(&mut row)?;
            Ok((0..row.len() as u32 * 32)
                .filter(|&t| row[t as usize / 32] >> (t % 32) & 1 == 1)
                .collect())
        })
    }

    #[getter]
    fn token_ids(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.lock().tokens().to_vec())
    }

    #[getter]
    fn grammar(&self, py: Python<'_>) -> CompiledGrammar {
        CompiledGrammar {
            relaxed: Arc::clone(&self.relaxed),
            inner: py.detach(|| Arc::clone(self.lock().compiled())),
        }
    }

    fn __copy__(&self, py: Python<'_>) -> Matcher {
        self.fork(py)
    }
}

impl Matcher {
    fn words(&self) -> usize {
        // The vocabulary never changes, so the short lock cannot be held by a thread that waits for us:
        // it is held without the interpreter lock only inside calls that end by themselves.
        self.lock().compiled().vocab().words()
    }
}

/// Rows for many matchers; a matcher that occurs twice is an error (its lock is taken once per row).
pub(crate) fn fill_batch(
    py: Python<'_>,
    matchers: &[PyRef<'_, Matcher>],
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    let words = matchers.first().map_or(0, |m| m.words());
    let mut rows = Rows::new(out, words)?;
    let inner: Vec<&Mutex<core::Matcher>> = matchers.iter().map(|m| &m.inner).collect();
    let mut sorted: Vec<*const Mutex<core::Matcher>> =
        inner.iter().map(|m| std::ptr::from_ref(*m)).collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(matcher_error(
            py,
            "a matcher occurs twice in the batch: fork it".to_owned(),
        ));
    }
    let rows = rows.all(inner.len())?;
    let results = py.detach(|| {
        // Locks are taken in order of address, so that two batches cannot wait for each other.
        let mut order: Vec<usize> = (0..inner.len()).collect();
        order.sort_unstable_by_key(|&i| std::ptr::from_ref(inner[i]) as usize);
        let mut guards: Vec<Option<MutexGuard<'_, core::Matcher>>> =
            inner.iter().map(|_| None).collect();
        for i in order {
            guards[i] = Some(inner[i].lock().unwrap_or_else(PoisonError::into_inner));
        }
        let work = guards.into_iter().flatten().zip(rows).collect();
        core::batch::fill_rows(work, threads)
    });
    match results.into_iter().find_map(Result::err) {
        None => Ok(()),
        Some(error) => Err(grammar_error(py, &error)),
    }
}

/// Accept one token per matcher. Results: 0 = refused, 1 = accepted, 2 = accepted and the text must end here,
/// -1 = the matcher failed (ask it alone for its error).
pub(crate) fn accept_batch(
    py: Python<'_>,
    matchers: &[PyRef<'_, Matcher>],
    token_ids: &[u32],
) -> PyResult<Vec<i8>> {
    if matchers.len() != token_ids.len() {
        return Err(PyValueError::new_err(format!(
            "{} matchers but {} tokens",
            matchers.len(),
            token_ids.len()
        )));
    }
    let inner: Vec<&Mutex<core::Matcher>> = matchers.iter().map(|m| &m.inner).collect();
    // One lock at a time, so that nothing can wait in a circle.
    Ok(py.detach(|| {
        inner
            .iter()
            .zip(token_ids)
            .map(|(matcher, &token)| {
                let mut matcher = matcher.lock().unwrap_or_else(PoisonError::into_inner);
                match matcher.accept(token) {
                    Ok(true) => 1 + i8::from(matcher.is_finished()),
                    Ok(false) => 0,
                    Err(_) => -1,
                }
            })
            .collect()
    }))
}
