//! Bindings of the grammar crate.

use pyo3::prelude::*;

mod buffer;
mod compile;
mod errors;
mod matcher;
mod vocab;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<vocab::Vocabulary>()?;
    m.add_class::<matcher::CompiledGrammar>()?;
    m.add_class::<matcher::Matcher>()?;
    compile::init(m)
}
