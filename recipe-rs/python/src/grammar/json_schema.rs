//! `compile_json_schema`.

use offseek_grammar::json_schema::{compile, Dialect, Settings, Whitespace};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::compile::{budget, compiled, CancelToken};
use super::matcher::CompiledGrammar;
use super::vocab::Vocabulary;

/// Compile the text of a schema.
#[pyfunction]
#[pyo3(signature = (vocab, schema, *, whitespace, canonical_numbers, any_order, assert_format, dialect, relax, registry, limits, cancel))]
#[expect(clippy::fn_params_excessive_bools)]
pub(crate) fn compile_json_schema(
    py: Python<'_>,
    vocab: &Vocabulary,
    schema: &str,
    whitespace: &str,
    canonical_numbers: bool,
    any_order: bool,
    assert_format: bool,
    dialect: Option<&str>,
    relax: bool,
    registry: Vec<(String, String)>,
    limits: Vec<(String, u64)>,
    cancel: Option<&CancelToken>,
) -> PyResult<CompiledGrammar> {
    let whitespace = match whitespace {
        "spaced" => Whitespace::Spaced,
        "compact" => Whitespace::Compact,
        "any" => Whitespace::Any,
        other => {
            return Err(PyValueError::new_err(format!(
                "unknown whitespace setting {other:?}"
            )))
        }
    };
    let dialect = match dialect {
        None => None,
        Some(name) => Some(
            Dialect::from_name(name)
                .ok_or_else(|| PyValueError::new_err(format!("unknown dialect {name:?}")))?,
        ),
    };
    let settings = Settings {
        whitespace,
        canonical_numbers,
        any_order,
        assert_format,
        dialect,
        relax,
        ..Settings::default()
    };
    let budget = budget(&limits, cancel)?;
    let mut relaxed = Vec::new();
    let mut grammar = compiled(py, vocab, || {
        let (grammar, left_out) = compile(schema, &registry, &settings, budget)?;
        relaxed = left_out;
        Ok(grammar)
    })?;
    grammar.relaxed = relaxed.into();
    Ok(grammar)
}

/// A hash of a JSON text's value that other spellings of it share, within this process; `None`: not JSON.
#[pyfunction]
pub(crate) fn json_fingerprint(py: Python<'_>, text: &str) -> Option<[u8; 16]> {
    py.detach(|| offseek_grammar::json_schema::fingerprint(text))
        .map(u128::to_le_bytes)
}
