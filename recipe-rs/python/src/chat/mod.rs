//! Bindings of the chat crate.

use pyo3::prelude::*;

pub(crate) fn init(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
