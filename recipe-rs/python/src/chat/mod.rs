//! Bindings of the chat crate.

#[allow(dead_code)] // used as the request and encoding classes land
mod errors;

use pyo3::prelude::*;

pub(crate) fn init(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
