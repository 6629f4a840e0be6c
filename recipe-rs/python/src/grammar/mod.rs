//! Bindings of the grammar crate.

use pyo3::prelude::*;

mod buffer;
mod compile;
mod ebnf;
mod errors;
mod json_schema;
mod matcher;
mod vocab;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<vocab::Vocabulary>()?;
    m.add_class::<matcher::CompiledGrammar>()?;
    m.add_class::<matcher::Matcher>()?;
    m.add_function(wrap_pyfunction!(json_schema::compile_json_schema, m)?)?;
    m.add_function(wrap_pyfunction!(json_schema::json_fingerprint, m)?)?;
    compile::init(m)?;
    ebnf::init(m)
}
