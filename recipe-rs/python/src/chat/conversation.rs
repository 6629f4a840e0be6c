//! `Conversation`.

use std::sync::Arc;

use offseek_chat::conversation::{self, Effort, ResponseFormat, ToolChoice};
use pyo3::prelude::*;

use super::errors::value_error;
use super::message::{message_object, python_bool, Message, ToolDefinition};
use super::values::{to_python, to_value};

/// Messages and prompt settings; immutable.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct Conversation(pub(crate) Arc<conversation::Conversation>);

fn parse_choice(py: Python<'_>, choice: &str) -> PyResult<ToolChoice> {
    match choice {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => {
            let expected = "expected \"auto\", \"none\", or \"required\"";
            Err(value_error(
                py,
                format!("invalid tool_choice {choice:?}; {expected}"),
            ))
        }
    }
}

fn parse_effort(py: Python<'_>, effort: &str) -> PyResult<Effort> {
    match effort {
        "low" => Ok(Effort::Low),
        "high" => Ok(Effort::High),
        "xhigh" => Ok(Effort::Xhigh),
        "max" => Ok(Effort::Max),
        _ => {
            let expected = "expected \"low\", \"high\", \"xhigh\", or \"max\"";
            Err(value_error(
                py,
                format!("invalid reasoning_effort {effort:?}; {expected}"),
            ))
        }
    }
}

fn parse_format(
    py: Python<'_>,
    format: &str,
    schema: Option<&Bound<'_, PyAny>>,
    regex: Option<String>,
) -> PyResult<ResponseFormat> {
    let is_object = match format {
        "text" => false,
        "json_object" => true,
        _ => {
            let expected = "expected \"text\" or \"json_object\"";
            return Err(value_error(
                py,
                format!("invalid response_format {format:?}; {expected}"),
            ));
        }
    };
    match (schema, regex) {
        (Some(_), Some(_)) => Err(value_error(py, "response_schema and response_regex cannot be combined")),
        (None, None) if is_object => Ok(ResponseFormat::JsonObject),
        (None, None) => Ok(ResponseFormat::Text),
        _ if is_object => Err(value_error(
            py,
            "response_format \"json_object\" cannot be combined with response_schema or response_regex",
        )),
        (Some(schema), None) => Ok(ResponseFormat::JsonSchema(to_value(schema)?)),
        (None, Some(regex)) => Ok(ResponseFormat::Regex(regex)),
    }
}

#[pymethods]
impl Conversation {
    #[new]
    #[pyo3(signature = (messages=None, *, thinking_mode=true, tools=None, tool_choice="auto",
        reasoning_effort=None, response_format="text", response_schema=None, response_regex=None))]
    fn new(
        py: Python<'_>,
        messages: Option<Vec<PyRef<'_, Message>>>,
        thinking_mode: bool,
        tools: Option<Vec<PyRef<'_, ToolDefinition>>>,
        tool_choice: &str,
        reasoning_effort: Option<&str>,
        response_format: &str,
        response_schema: Option<&Bound<'_, PyAny>>,
        response_regex: Option<String>,
    ) -> PyResult<Self> {
        Ok(Self(Arc::new(conversation::Conversation {
            messages: messages
                .unwrap_or_default()
                .iter()
                .map(|message| message.0.clone())
                .collect(),
            thinking_mode,
            tools: tools
                .unwrap_or_default()
                .iter()
                .map(|tool| tool.0.clone())
                .collect(),
            tool_choice: parse_choice(py, tool_choice)?,
            reasoning_effort: reasoning_effort
                .map(|effort| parse_effort(py, effort))
                .transpose()?,
            response_format: parse_format(py, response_format, response_schema, response_regex)?,
        })))
    }

    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0
            .messages
            .iter()
            .map(|message| message_object(py, message))
            .collect()
    }

    #[getter]
    fn thinking_mode(&self) -> bool {
        self.0.thinking_mode
    }

    #[getter]
    fn tools(&self) -> Vec<ToolDefinition> {
        self.0.tools.iter().cloned().map(ToolDefinition).collect()
    }

    #[getter]
    fn tool_choice(&self) -> &'static str {
        match self.0.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
        }
    }

    #[getter]
    fn reasoning_effort(&self) -> Option<&'static str> {
        self.0.reasoning_effort.map(|effort| match effort {
            Effort::Low => "low",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        })
    }

    #[getter]
    fn response_format(&self) -> &'static str {
        match self.0.response_format {
            ResponseFormat::Text => "text",
            ResponseFormat::JsonObject => "json_object",
            ResponseFormat::JsonSchema(_) => "json_schema",
            ResponseFormat::Regex(_) => "regex",
        }
    }

    #[getter]
    fn response_schema<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.0.response_format {
            ResponseFormat::JsonSchema(schema) => to_python(py, schema).map(Some),
            _ => Ok(None),
        }
    }

    #[getter]
    fn response_regex(&self) -> Option<&str> {
        match &self.0.response_format {
            ResponseFormat::Regex(regex) => Some(regex),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        let effort = self
            .reasoning_effort()
            .map_or_else(|| "None".to_owned(), |effort| format!("{effort:?}"));
        format!(
            "Conversation(messages={}, thinking_mode={}, tools={}, tool_choice={:?}, reasoning_effort={effort}, \
             response_format={:?})",
            self.0.messages.len(),
            python_bool(self.0.thinking_mode),
            self.0.tools.len(),
            self.tool_choice(),
            self.response_format()
        )
    }
}
