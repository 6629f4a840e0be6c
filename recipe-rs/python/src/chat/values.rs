//! JSON values between Python and Rust.

use offseek_chat::json::{Number, Object, Value, MAX_DEPTH};
use pyo3::exceptions::{PyOverflowError, PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::errors::{chat_error, value_error};
use offseek_chat::ChatError;

/// Texts from this length on are parsed without the interpreter lock.
pub(crate) const DETACH_BYTES: usize = 16 * 1024;

/// A request body: JSON text as `bytes` or `str`, or parsed JSON.
///
/// # Errors
/// RequestError for text that is not JSON; as [`to_value`] for anything else.
pub(crate) fn body_value(body: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = body.py();
    let text = if let Ok(bytes) = body.cast::<PyBytes>() {
        bytes.as_bytes()
    } else if let Ok(text) = body.cast::<PyString>() {
        text.to_str()?.as_bytes()
    } else {
        return to_value(body);
    };
    let parsed = if text.len() >= DETACH_BYTES {
        py.detach(|| Value::parse(text))
    } else {
        Value::parse(text)
    };
    parsed.map_err(|e| chat_error(py, ChatError::Decode(format!("invalid JSON request: {e}"))))
}

/// A Python object as JSON.
///
/// # Errors
/// TypeError for what is not JSON, OverflowError for integers outside [-2^63, 2^64 - 1], RecursionError
/// from 128 levels on, RequestError (a ValueError) for NaN, infinities and cycles, UnicodeEncodeError for
/// lone surrogates.
pub(crate) fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(object, &mut Vec::new())
}

/// `ancestors`: addresses of the containers that are being converted.
fn convert(object: &Bound<'_, PyAny>, ancestors: &mut Vec<usize>) -> PyResult<Value> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if let Ok(integer) = object.cast::<PyInt>() {
        return integer_value(integer);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        let value = float.value();
        if value.is_finite() {
            return Ok(Value::Number(Number::F64(value)));
        }
        return Err(value_error(
            object.py(),
            format!("{value} is not a finite JSON number"),
        ));
    }
    let is_dict = object.is_instance_of::<PyDict>();
    if !is_dict && !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() {
        let name = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} is not a JSON value")));
    }
    let address = object.as_ptr() as usize;
    if ancestors.contains(&address) {
        return Err(value_error(object.py(), "circular reference in JSON input"));
    }
    if ancestors.len() + 1 >= MAX_DEPTH {
        return Err(PyRecursionError::new_err(
            "JSON input exceeds the maximum nesting depth of 128",
        ));
    }
    ancestors.push(address);
    let value = container(object, is_dict, ancestors);
    ancestors.pop();
    value
}

fn container(
    object: &Bound<'_, PyAny>,
    is_dict: bool,
    ancestors: &mut Vec<usize>,
) -> PyResult<Value> {
    if is_dict {
        let dict = object.cast::<PyDict>()?;
        let mut members = Vec::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let key = key
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err("JSON object keys must be str"))?;
            members.push((key.to_str()?.to_owned(), convert(&value, ancestors)?));
        }
        return Ok(Value::Object(Object::from_members(members)));
    }
    let mut items = Vec::with_capacity(object.len()?);
    if let Ok(list) = object.cast::<PyList>() {
        for item in list.iter() {
            items.push(convert(&item, ancestors)?);
        }
    } else {
        for item in object.cast::<PyTuple>()?.iter() {
            items.push(convert(&item, ancestors)?);
        }
    }
    Ok(Value::Array(items))
}

fn integer_value(integer: &Bound<'_, PyInt>) -> PyResult<Value> {
    if let Ok(n) = integer.extract::<i64>() {
        return Ok(Value::Number(Number::from(n)));
    }
    match integer.extract::<u64>() {
        Ok(n) => Ok(Value::Number(Number::U64(n))),
        Err(_) => Err(PyOverflowError::new_err(
            "integer is outside the JSON number range",
        )),
    }
}

/// JSON as Python objects.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(Number::U64(n)) => n.into_pyobject(py)?.into_any(),
        Value::Number(Number::I64(n)) => n.into_pyobject(py)?.into_any(),
        Value::Number(Number::F64(x)) => PyFloat::new(py, *x).into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(object) => {
            let dict = PyDict::new(py);
            for (key, member) in object.iter() {
                dict.set_item(key, to_python(py, member)?)?;
            }
            dict.into_any()
        }
    })
}
