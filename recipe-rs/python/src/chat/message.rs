//! Messages, tool calls, tool definitions and image sources.

use offseek_chat::conversation::{self, Content, ImageDetail, ImageLocation};
use offseek_chat::special::SpecialToken;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::value_error;
use super::values::{to_python, to_value};

/// A tool call of the history.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct ToolCall(pub(crate) conversation::ToolCall);

#[pymethods]
impl ToolCall {
    #[new]
    fn new(id: String, name: String, arguments: String) -> Self {
        Self(conversation::ToolCall {
            id,
            name,
            arguments,
        })
    }

    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn arguments(&self) -> &str {
        &self.0.arguments
    }

    fn __repr__(&self) -> String {
        let call = &self.0;
        format!(
            "ToolCall(id={:?}, name={:?}, arguments={:?})",
            call.id, call.name, call.arguments
        )
    }
}

/// A tool the model may call.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct ToolDefinition(pub(crate) conversation::ToolDefinition);

#[pymethods]
impl ToolDefinition {
    #[new]
    #[pyo3(signature = (name, description=None, parameters=None, strict=None, defer_loading=false))]
    fn new(
        name: String,
        description: Option<String>,
        parameters: Option<&Bound<'_, PyAny>>,
        strict: Option<bool>,
        defer_loading: bool,
    ) -> PyResult<Self> {
        let parameters = parameters.map(to_value).transpose()?.unwrap_or_default();
        Ok(Self(conversation::ToolDefinition {
            name,
            description,
            parameters,
            strict,
            defer_loading,
        }))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.parameters)
    }

    #[getter]
    fn strict(&self) -> Option<bool> {
        self.0.strict
    }

    #[getter]
    fn defer_loading(&self) -> bool {
        self.0.defer_loading
    }

    fn __repr__(&self) -> String {
        let optional = |text: Option<String>| text.unwrap_or_else(|| "None".to_owned());
        let description = optional(self.0.description.as_ref().map(|d| format!("{d:?}")));
        let strict = optional(self.0.strict.map(|s| python_bool(s).to_owned()));
        format!(
            "ToolDefinition(name={:?}, description={description}, strict={strict})",
            self.0.name
        )
    }
}

pub(crate) fn python_bool(value: bool) -> &'static str {
    if value {
        "True"
    } else {
        "False"
    }
}

fn parse_detail(py: Python<'_>, detail: &str) -> PyResult<ImageDetail> {
    Ok(match detail {
        "low" => ImageDetail::Low,
        "high" => ImageDetail::High,
        "original" => ImageDetail::Original,
        "auto" => ImageDetail::Auto,
        _ => {
            let expected = "expected \"low\", \"high\", \"original\", or \"auto\"";
            return Err(value_error(
                py,
                format!("invalid detail {detail:?}; {expected}"),
            ));
        }
    })
}

/// Base class of image sources.
#[pyclass(frozen, subclass, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct ImageSource(pub(crate) conversation::ImageSource);

#[pymethods]
impl ImageSource {
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.location {
            ImageLocation::DataUrl(_) => "data_url",
            ImageLocation::Url(_) => "url",
            ImageLocation::Bytes(_) => "bytes",
        }
    }

    #[getter]
    fn detail(&self) -> &'static str {
        self.0.detail.as_str()
    }

    #[getter]
    fn data_url(&self) -> Option<&str> {
        match &self.0.location {
            ImageLocation::DataUrl(url) => Some(url),
            _ => None,
        }
    }

    #[getter]
    fn url(&self) -> Option<&str> {
        match &self.0.location {
            ImageLocation::Url(url) => Some(url),
            _ => None,
        }
    }

    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.0.location {
            ImageLocation::Bytes(data) => Some(PyBytes::new(py, data)),
            _ => None,
        }
    }

    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    fn __repr__(&self) -> String {
        let (name, value) = match &self.0.location {
            ImageLocation::DataUrl(url) => ("DataUrlImageSource", format!("{url:?}")),
            ImageLocation::Url(url) => ("UrlImageSource", format!("{url:?}")),
            ImageLocation::Bytes(data) => ("BytesImageSource", format!("<{} bytes>", data.len())),
        };
        format!(
            "{name}({value}, detail={:?}, path={:?})",
            self.0.detail.as_str(),
            self.0.path
        )
    }
}

fn source(
    py: Python<'_>,
    location: ImageLocation,
    detail: &str,
    path: String,
) -> PyResult<ImageSource> {
    Ok(ImageSource(conversation::ImageSource {
        location,
        detail: parse_detail(py, detail)?,
        path,
    }))
}

macro_rules! image_source {
    ($(#[$doc:meta])* $name:ident, $argument:ident: $type:ty, $variant:ident) => {
        $(#[$doc])*
        #[pyclass(frozen, extends = ImageSource, module = "offseek._native")]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = ($argument, detail="high", *, path=String::new()))]
            fn new(py: Python<'_>, $argument: $type, detail: &str, path: String) -> PyResult<PyClassInitializer<Self>> {
                let base = source(py, ImageLocation::$variant($argument), detail, path)?;
                Ok(PyClassInitializer::from(base).add_subclass($name))
            }
        }
    };
}

image_source!(
    /// An image in a data URL.
    DataUrlImageSource, data_url: String, DataUrl
);
image_source!(
    /// An image at an external address.
    UrlImageSource, url: String, Url
);
image_source!(
    /// An image as encoded bytes.
    BytesImageSource, data: Vec<u8>, Bytes
);

/// The Python object of the right subclass.
pub(crate) fn image_source_object<'py>(
    py: Python<'py>,
    source: &conversation::ImageSource,
) -> PyResult<Bound<'py, PyAny>> {
    let base = PyClassInitializer::from(ImageSource(source.clone()));
    Ok(match source.location {
        ImageLocation::DataUrl(_) => {
            Bound::new(py, base.add_subclass(DataUrlImageSource))?.into_any()
        }
        ImageLocation::Url(_) => Bound::new(py, base.add_subclass(UrlImageSource))?.into_any(),
        ImageLocation::Bytes(_) => Bound::new(py, base.add_subclass(BytesImageSource))?.into_any(),
    })
}

pub(crate) fn image_source_list<'py>(
    py: Python<'py>,
    sources: &[conversation::ImageSource],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    sources
        .iter()
        .map(|source| image_source_object(py, source))
        .collect()
}

/// Base class of messages.
#[pyclass(frozen, subclass, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct Message(pub(crate) conversation::Message);

#[pymethods]
impl Message {
    #[getter]
    fn role(&self) -> &'static str {
        self.0.role()
    }

    #[getter]
    fn content(&self) -> &str {
        match &self.0 {
            conversation::Message::System { content, .. }
            | conversation::Message::User { content, .. }
            | conversation::Message::Tool { content, .. } => &content.text,
            conversation::Message::Assistant { content, .. }
            | conversation::Message::LatestReminder { content } => content,
        }
    }

    #[getter]
    fn reasoning_content(&self) -> Option<&str> {
        match &self.0 {
            conversation::Message::Assistant {
                reasoning_content, ..
            } => reasoning_content.as_deref(),
            _ => None,
        }
    }

    #[getter]
    fn tool_calls(&self) -> Option<Vec<ToolCall>> {
        match &self.0 {
            conversation::Message::Assistant { tool_calls, .. } => tool_calls
                .as_ref()
                .map(|calls| calls.iter().cloned().map(ToolCall).collect()),
            _ => None,
        }
    }

    #[getter]
    fn tool_call_id(&self) -> Option<&str> {
        match &self.0 {
            conversation::Message::Tool { tool_call_id, .. } => tool_call_id.as_deref(),
            _ => None,
        }
    }

    #[getter]
    fn image_sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        image_source_list(py, self.0.images())
    }

    #[getter]
    fn prefix(&self) -> bool {
        matches!(
            self.0,
            conversation::Message::Assistant { prefix: true, .. }
        )
    }

    fn __repr__(&self) -> String {
        let content = self.content();
        match &self.0 {
            conversation::Message::System { .. } => format!("SystemMessage({content:?})"),
            conversation::Message::User { images, .. } => {
                format!("UserMessage({content:?}, image_sources={})", images.len())
            }
            conversation::Message::Assistant {
                reasoning_content,
                tool_calls,
                prefix,
                ..
            } => format!(
                "AssistantMessage({content:?}, reasoning_content={}, tool_calls={}, prefix={})",
                python_bool(reasoning_content.is_some()),
                tool_calls.as_ref().map_or(0, Vec::len),
                python_bool(*prefix)
            ),
            conversation::Message::Tool {
                tool_call_id,
                images,
                ..
            } => {
                let id = tool_call_id
                    .as_ref()
                    .map_or_else(|| "None".to_owned(), |id| format!("{id:?}"));
                format!(
                    "ToolMessage({content:?}, tool_call_id={id}, image_sources={})",
                    images.len()
                )
            }
            conversation::Message::LatestReminder { .. } => {
                format!("LatestReminderMessage({content:?})")
            }
        }
    }
}

type Sources<'py> = Option<Vec<PyRef<'py, ImageSource>>>;

fn content_and_images(
    py: Python<'_>,
    content: String,
    sources: Sources<'_>,
    image_token: Option<&str>,
) -> PyResult<(Content, Vec<conversation::ImageSource>)> {
    let image_token = image_token.unwrap_or(SpecialToken::Image.default_str());
    if image_token.is_empty() {
        return Err(value_error(py, "image_token must not be empty"));
    }
    let images: Vec<_> = sources
        .unwrap_or_default()
        .iter()
        .map(|source| source.0.clone())
        .collect();
    Ok((
        Content::with_placeholders(content, images.len(), image_token),
        images,
    ))
}

/// A system message.
#[pyclass(frozen, extends = Message, module = "offseek._native")]
pub(crate) struct SystemMessage;

#[pymethods]
impl SystemMessage {
    #[new]
    #[pyo3(signature = (content, image_sources=None, tools=None, *, image_token=None))]
    fn new(
        py: Python<'_>,
        content: String,
        image_sources: Sources<'_>,
        tools: Option<Vec<PyRef<'_, ToolDefinition>>>,
        image_token: Option<&str>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (content, images) = content_and_images(py, content, image_sources, image_token)?;
        let tools = tools.map(|tools| tools.iter().map(|tool| tool.0.clone()).collect());
        let message = conversation::Message::System {
            content,
            images,
            tools,
        };
        Ok(PyClassInitializer::from(Message(message)).add_subclass(SystemMessage))
    }

    #[getter]
    fn tools(this: PyRef<'_, Self>) -> Option<Vec<ToolDefinition>> {
        match &this.as_super().0 {
            conversation::Message::System {
                tools: Some(tools), ..
            } => Some(tools.iter().cloned().map(ToolDefinition).collect()),
            _ => None,
        }
    }
}

/// A user message.
#[pyclass(frozen, extends = Message, module = "offseek._native")]
pub(crate) struct UserMessage;

#[pymethods]
impl UserMessage {
    #[new]
    #[pyo3(signature = (content, image_sources=None, *, image_token=None))]
    fn new(
        py: Python<'_>,
        content: String,
        image_sources: Sources<'_>,
        image_token: Option<&str>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (content, images) = content_and_images(py, content, image_sources, image_token)?;
        let message = conversation::Message::User { content, images };
        Ok(PyClassInitializer::from(Message(message)).add_subclass(UserMessage))
    }
}

/// An assistant message.
#[pyclass(frozen, extends = Message, module = "offseek._native")]
pub(crate) struct AssistantMessage;

#[pymethods]
impl AssistantMessage {
    #[new]
    #[pyo3(signature = (content, reasoning_content=None, tool_calls=None, prefix=false))]
    fn new(
        content: String,
        reasoning_content: Option<String>,
        tool_calls: Option<Vec<PyRef<'_, ToolCall>>>,
        prefix: bool,
    ) -> PyClassInitializer<Self> {
        let tool_calls = tool_calls.map(|calls| calls.iter().map(|call| call.0.clone()).collect());
        let message = conversation::Message::Assistant {
            content,
            reasoning_content,
            tool_calls,
            prefix,
        };
        PyClassInitializer::from(Message(message)).add_subclass(AssistantMessage)
    }
}

/// A tool result message.
#[pyclass(frozen, extends = Message, module = "offseek._native")]
pub(crate) struct ToolMessage;

#[pymethods]
impl ToolMessage {
    #[new]
    #[pyo3(signature = (content, tool_call_id=None, image_sources=None, *, image_token=None))]
    fn new(
        py: Python<'_>,
        content: String,
        tool_call_id: Option<String>,
        image_sources: Sources<'_>,
        image_token: Option<&str>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (content, images) = content_and_images(py, content, image_sources, image_token)?;
        let message = conversation::Message::Tool {
            content,
            tool_call_id,
            images,
        };
        Ok(PyClassInitializer::from(Message(message)).add_subclass(ToolMessage))
    }
}

/// A reminder with additional instructions.
#[pyclass(frozen, extends = Message, module = "offseek._native")]
pub(crate) struct LatestReminderMessage;

#[pymethods]
impl LatestReminderMessage {
    #[new]
    fn new(content: String) -> PyClassInitializer<Self> {
        let message = conversation::Message::LatestReminder { content };
        PyClassInitializer::from(Message(message)).add_subclass(LatestReminderMessage)
    }
}

/// The Python object of the right subclass.
pub(crate) fn message_object<'py>(
    py: Python<'py>,
    message: &conversation::Message,
) -> PyResult<Bound<'py, PyAny>> {
    let base = PyClassInitializer::from(Message(message.clone()));
    Ok(match message {
        conversation::Message::System { .. } => {
            Bound::new(py, base.add_subclass(SystemMessage))?.into_any()
        }
        conversation::Message::User { .. } => {
            Bound::new(py, base.add_subclass(UserMessage))?.into_any()
        }
        conversation::Message::Assistant { .. } => {
            Bound::new(py, base.add_subclass(AssistantMessage))?.into_any()
        }
        conversation::Message::Tool { .. } => {
            Bound::new(py, base.add_subclass(ToolMessage))?.into_any()
        }
        conversation::Message::LatestReminder { .. } => {
            Bound::new(py, base.add_subclass(LatestReminderMessage))?.into_any()
        }
    })
}
