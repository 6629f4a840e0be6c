//! The request settings that a Responses object repeats, as JSON text written once per stream.

use super::write::{field, float32, string_or_null};
use crate::json::{write_compact, write_string, Value};
use crate::request::responses::{
    Echo, LowMediumHigh, ResponsesFunctionTool, ResponsesNamespaceTool, ResponsesTextFormat,
    ResponsesTool, ResponsesToolChoice, ResponsesToolChoiceObject, ResponsesWebSearch,
};

/// Each field is the JSON text of the member of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct EchoJson {
    pub instructions: String,
    pub max_output_tokens: String,
    pub reasoning: String,
    pub temperature: String,
    pub text: String,
    pub tool_choice: String,
    pub tools: String,
    pub top_logprobs: String,
    pub top_p: String,
    pub user: String,
}

impl Default for EchoJson {
    /// The settings of a request that specifies nothing.
    fn default() -> Self {
        let null = || "null".to_owned();
        Self {
            instructions: null(),
            max_output_tokens: null(),
            reasoning: "{\"effort\":null,\"summary\":null}".to_owned(),
            temperature: "1.0".to_owned(),
            text: "{\"format\":{\"type\":\"text\"},\"verbosity\":null}".to_owned(),
            tool_choice: "\"auto\"".to_owned(),
            tools: "[]".to_owned(),
            top_logprobs: "0".to_owned(),
            top_p: "1.0".to_owned(),
            user: null(),
        }
    }
}

impl From<&Echo> for EchoJson {
    fn from(echo: &Echo) -> Self {
        let mut json = Self::default();
        if let Some(text) = &echo.instructions {
            json.instructions = text_of(|out| write_string(out, text));
        }
        if let Some(n) = echo.max_output_tokens {
            json.max_output_tokens = n.to_string();
        }
        if let Some(reasoning) = &echo.reasoning {
            let summary = reasoning.summary.or(reasoning.generate_summary);
            json.reasoning = text_of(|out| {
                out.push_str("{\"effort\":");
                string_or_null(out, reasoning.effort.map(|e| e.as_str()));
                out.push_str(",\"summary\":");
                string_or_null(out, summary.map(|s| s.as_str()));
                out.push('}');
            });
        }
        if let Some(x) = echo.temperature {
            json.temperature = text_of(|out| float32(out, x));
        }
        if let Some(text) = &echo.text {
            json.text = text_of(|out| {
                out.push_str("{\"format\":");
                write_format(out, &text.format);
                out.push_str(",\"verbosity\":");
                string_or_null(out, text.verbosity.map(LowMediumHigh::as_str));
                out.push('}');
            });
        }
        if let Some(choice) = &echo.tool_choice {
            json.tool_choice = text_of(|out| write_choice(out, choice));
        }
        if let Some(tools) = &echo.tools {
            json.tools = text_of(|out| write_tools(out, tools));
        }
        if let Some(n) = echo.top_logprobs {
            json.top_logprobs = n.to_string();
        }
        if let Some(x) = echo.top_p {
            json.top_p = text_of(|out| float32(out, x));
        }
        if let Some(text) = &echo.user {
            json.user = text_of(|out| write_string(out, text));
        }
        json
    }
}

fn text_of(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}

fn member_string_or_null(out: &mut String, key: &str, text: Option<&str>) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    string_or_null(out, text);
}

fn member_bool_or_null(out: &mut String, key: &str, value: Option<bool>) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str(match value {
        Some(true) => "\":true",
        Some(false) => "\":false",
        None => "\":null",
    });
}

fn member_value(out: &mut String, key: &str, value: &Value) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    write_compact(out, value);
}

fn write_format(out: &mut String, format: &ResponsesTextFormat) {
    match format {
        ResponsesTextFormat::Text => out.push_str("{\"type\":\"text\"}"),
        ResponsesTextFormat::JsonObject => out.push_str("{\"type\":\"json_object\"}"),
        ResponsesTextFormat::JsonSchema {
            name,
            schema,
            description,
            strict,
        } => {
            out.push_str("{\"type\":\"json_schema\",");
            field(out, "name", name);
            member_value(out, "schema", schema);
            member_string_or_null(out, "description", description.as_deref());
            member_bool_or_null(out, "strict", *strict);
            out.push('}');
        }
    }
}

fn write_choice(out: &mut String, choice: &ResponsesToolChoice) {
    let object = match choice {
        ResponsesToolChoice::None => return write_string(out, "none"),
        ResponsesToolChoice::Auto => return write_string(out, "auto"),
        ResponsesToolChoice::Required => return write_string(out, "required"),
        ResponsesToolChoice::Object(object) => object,
    };
    let (kind, name) = match object {
        ResponsesToolChoiceObject::Function { name } => ("function", Some(name)),
        ResponsesToolChoiceObject::WebSearch => ("web_search", None),
        ResponsesToolChoiceObject::WebSearch20250826 => ("web_search_2025_08_26", None),
        ResponsesToolChoiceObject::Custom { name } => ("custom", Some(name)),
    };
    out.push('{');
    field(out, "type", kind);
    if let Some(name) = name {
        out.push(',');
        field(out, "name", name);
    }
    out.push('}');
}

fn write_tools(out: &mut String, tools: &[ResponsesTool]) {
    out.push('[');
    let from = out.len();
    for tool in tools {
        let before = out.len();
        if before > from {
            out.push(',');
        }
        match tool {
            ResponsesTool::Function(function) => write_function(out, function),
            ResponsesTool::Custom(custom) => write_custom(out, &custom.name),
            ResponsesTool::Namespace(namespace) => {
                out.push_str("{\"type\":\"namespace\",");
                field(out, "name", &namespace.name);
                member_string_or_null(out, "description", namespace.description.as_deref());
                out.push_str(",\"tools\":[");
                for (i, tool) in namespace.tools.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    match tool {
                        ResponsesNamespaceTool::Function(function) => write_function(out, function),
                        ResponsesNamespaceTool::Custom(custom) => write_custom(out, &custom.name),
                    }
                }
                out.push_str("]}");
            }
            ResponsesTool::WebSearch(search) => write_web_search(out, "web_search", search),
            ResponsesTool::WebSearch20250826(search) => {
                write_web_search(out, "web_search_2025_08_26", search);
            }
            ResponsesTool::ToolSearch(search) => {
                out.push_str("{\"type\":\"tool_search\"");
                member_string_or_null(out, "execution", search.execution.map(|e| e.as_str()));
                member_string_or_null(out, "description", search.description.as_deref());
                member_value(out, "parameters", &search.parameters);
                out.push('}');
            }
            // Kinds that conversion drops are not repeated.
            ResponsesTool::Unsupported => out.truncate(before),
        }
    }
    out.push(']');
}

fn write_function(out: &mut String, function: &ResponsesFunctionTool) {
    out.push_str("{\"type\":\"function\",");
    field(out, "name", &function.name);
    member_string_or_null(out, "description", function.description.as_deref());
    member_value(out, "parameters", &function.parameters);
    member_bool_or_null(out, "strict", function.strict);
    out.push('}');
}

fn write_custom(out: &mut String, name: &str) {
    out.push_str("{\"type\":\"custom\",");
    field(out, "name", name);
    out.push('}');
}

fn write_web_search(out: &mut String, kind: &str, search: &ResponsesWebSearch) {
    out.push('{');
    field(out, "type", kind);
    member_string_or_null(
        out,
        "search_context_size",
        search.search_context_size.map(LowMediumHigh::as_str),
    );
    match &search.user_location {
        None => out.push_str(",\"user_location\":null}"),
        Some(place) => {
            out.push_str(",\"user_location\":{\"city\":");
            string_or_null(out, place.city.as_deref());
            member_string_or_null(out, "country", place.country.as_deref());
            member_string_or_null(out, "region", place.region.as_deref());
            member_string_or_null(out, "timezone", place.timezone.as_deref());
            out.push_str("}}");
        }
    }
}
