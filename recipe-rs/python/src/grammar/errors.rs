//! The one place where errors of the grammar crate become Python exceptions (`offseek.grammars.errors`).

use offseek_grammar::GrammarError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

macro_rules! raise {
    ($py:expr, $name:literal, $arguments:expr) => {{
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        match CLASS.import($py, "offseek.grammars.errors", $name) {
            Ok(class) => PyErr::from_type(class.clone(), $arguments),
            Err(error) => error,
        }
    }};
}

/// The exception for an error of the grammar crate.
pub(crate) fn grammar_error(py: Python<'_>, error: &GrammarError) -> PyErr {
    let text = error.to_string();
    match error {
        GrammarError::Syntax { message, span, .. } => {
            let (line, column) = error.line_column().unwrap_or((1, 1));
            let caret = error.caret().unwrap_or_default();
            raise!(
                py,
                "GrammarSyntaxError",
                (message.clone(), (span.start, span.end), line, column, caret)
            )
        }
        GrammarError::Schema {
            message,
            pointer,
            keyword,
        } => {
            raise!(
                py,
                "UnsupportedSchemaError",
                (message.clone(), pointer.clone(), keyword.clone())
            )
        }
        GrammarError::Limit {
            kind,
            limit,
            needed,
            ..
        } => {
            raise!(
                py,
                "GrammarLimitError",
                (text, kind.name(), *limit, *needed)
            )
        }
        GrammarError::Cancelled => raise!(py, "GrammarCancelledError", (text,)),
        _ => raise!(py, "GrammarError", (text,)),
    }
}

/// `MatcherError`: a call that the matcher's state does not allow.
pub(crate) fn matcher_error(py: Python<'_>, message: String) -> PyErr {
    raise!(py, "MatcherError", (message,))
}
