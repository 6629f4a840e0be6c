//! Bindings of the chat crate.

#[allow(dead_code)] // used as the request and encoding classes land
mod errors;
mod tokenizer;

use pyo3::prelude::*;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<tokenizer::Tokenizer>()?;
    Ok(())
}
