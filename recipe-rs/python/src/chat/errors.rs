//! The one place where errors of the chat crate become Python exceptions (`offseek.recipe.errors`).

use offseek_chat::error::{ChatError, ConversionError};
use offseek_chat::tokenizer::TokenizerError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A class of `offseek.recipe.errors`, imported on first use and kept.
fn class<'py>(
    py: Python<'py>,
    cell: &PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<Bound<'py, PyType>> {
    cell.import(py, "offseek.recipe.errors", name).cloned()
}

macro_rules! raise {
    ($py:expr, $name:literal, $arguments:expr) => {{
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        match class($py, &CLASS, $name) {
            Ok(class) => PyErr::from_type(class, $arguments),
            Err(error) => error,
        }
    }};
}

/// `ConversionError(message, status_code, body)`.
pub(crate) fn conversion_error(py: Python<'_>, error: &ConversionError) -> PyErr {
    raise!(
        py,
        "ConversionError",
        (error.message.clone(), error.status_code, error.body())
    )
}

/// The exception for `error`.
pub(crate) fn chat_error(py: Python<'_>, error: ChatError) -> PyErr {
    match error {
        ChatError::Conversion(error) => conversion_error(py, &error),
        ChatError::Decode(message) | ChatError::Value(message) => {
            raise!(py, "RequestError", (message,))
        }
        ChatError::Encode(message) => raise!(py, "EncodeError", (message,)),
        ChatError::Stream(message) => raise!(py, "StreamError", (message,)),
        other => raise!(py, "RecipeError", (other.to_string(),)),
    }
}

/// `TokenizerError`.
pub(crate) fn tokenizer_error(py: Python<'_>, error: &TokenizerError) -> PyErr {
    raise!(py, "TokenizerError", (error.to_string(),))
}

/// `ConsumedError`: a request object was used after `convert`.
pub(crate) fn consumed_error(py: Python<'_>) -> PyErr {
    raise!(py, "ConsumedError", ("protocol request has been consumed",))
}

/// A `ValueError` of ours, for constructor arguments.
pub(crate) fn value_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    chat_error(py, ChatError::Value(message.into()))
}

/// `ConsumedError`: `what` may be used once.
pub(crate) fn consumed(what: &str) -> PyErr {
    Python::attach(|py| raise!(py, "ConsumedError", (format!("{what} has been consumed"),)))
}

/// The exception for a chunk that the stream processor cannot take.
pub(crate) fn stream_error(py: Python<'_>, error: &offseek_chat::parse::StreamError) -> PyErr {
    chat_error(py, ChatError::Stream(error.to_string()))
}

/// `AnswerError`: the answer is not the JSON that was asked for.
pub(crate) fn answer_error(py: Python<'_>, message: &str) -> PyErr {
    raise!(py, "AnswerError", (message.to_owned(),))
}

/// `ImageError(message, kind, False)`: nothing that bytes or sizes decide gets better by trying again.
pub(crate) fn image_error(py: Python<'_>, message: String, kind: &'static str) -> PyErr {
    raise!(py, "ImageError", (message, kind, false))
}

/// `CalcResizeError`.
pub(crate) fn calc_resize_error(py: Python<'_>, message: String) -> PyErr {
    raise!(py, "CalcResizeError", (message,))
}
