//! `PartialJson`: a JSON document that is still growing, as Python objects.

use offseek_chat::json::{Number, Value};
use offseek_chat::parse::partial_json::{self, PartialJsonError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::IntoPyObjectExt;

use super::errors::answer_error;

/// Incremental reader of one JSON document.
#[pyclass(module = "offseek._native")]
pub(crate) struct PartialJson(partial_json::PartialJson);

fn error(py: Python<'_>, error: &PartialJsonError) -> PyErr {
    answer_error(py, &error.to_string())
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(b) => b.into_bound_py_any(py),
        Value::Number(Number::U64(n)) => n.into_bound_py_any(py),
        Value::Number(Number::I64(n)) => n.into_bound_py_any(py),
        Value::Number(Number::F64(x)) => x.into_bound_py_any(py),
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| to_python(py, item))
                .collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_bound_py_any(py)
        }
        Value::Object(object) => {
            let dict = PyDict::new(py);
            for (key, member) in object.iter() {
                dict.set_item(key, to_python(py, member)?)?;
            }
            dict.into_bound_py_any(py)
        }
    }
}

#[pymethods]
impl PartialJson {
    #[new]
    fn new() -> Self {
        Self(partial_json::PartialJson::default())
    }

    fn push(&mut self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.0.push(text).map_err(|e| error(py, &e))
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.snapshot() {
            Some(value) => to_python(py, &value),
            None => Ok(py.None().into_bound(py)),
        }
    }

    #[getter]
    fn started(&self) -> bool {
        self.0.has_started()
    }

    #[getter]
    fn complete(&self) -> bool {
        self.0.is_complete()
    }

    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = self.0.finish().map_err(|e| error(py, &e))?;
        to_python(py, &value)
    }
}
