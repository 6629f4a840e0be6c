//! `offseek._native`: thin PyO3 bindings. Each area registers its own classes; no logic here.

use pyo3::prelude::*;

mod chat;
mod cpu;
mod grammar;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    chat::init(m)?;
    cpu::init(m)?;
    grammar::init(m)?;
    Ok(())
}
