//! The tool result text of a `tool_search_output`: its tools as a compact JSON list.

use super::{
    ResponsesFunctionTool, ResponsesNamespace, ResponsesNamespaceTool, ResponsesTool,
    ResponsesUserLocation, ResponsesWebSearch,
};
use crate::json::{object, Object, Value};

/// The list, or what cannot be written.
pub(super) fn search_result(tools: &[ResponsesTool]) -> Result<String, &'static str> {
    let mut list = Vec::with_capacity(tools.len());
    for tool in tools {
        match tool {
            ResponsesTool::Function(function) => list.push(function_value(function, None)),
            ResponsesTool::Custom(custom) => {
                list.push(object([
                    ("type", "custom".into()),
                    ("name", custom.name.as_str().into()),
                ]));
            }
            ResponsesTool::Namespace(namespace) => {
                for tool in &namespace.tools {
                    match tool {
                        ResponsesNamespaceTool::Function(function) => {
                            list.push(function_value(function, Some(namespace)));
                        }
                        ResponsesNamespaceTool::Custom(custom) => {
                            list.push(object([
                                ("type", "custom".into()),
                                ("name", custom.name.as_str().into()),
                            ]));
                        }
                    }
                }
            }
            ResponsesTool::WebSearch(search) => list.push(web_search_value("web_search", search)),
            ResponsesTool::WebSearch20250826(search) => {
                list.push(web_search_value("web_search_2025_08_26", search));
            }
            ResponsesTool::ToolSearch(search) => list.push(object([
                ("type", "tool_search".into()),
                ("execution", optional(search.execution.map(|e| e.as_str()))),
                ("description", optional(search.description.as_deref())),
                ("parameters", search.parameters.clone()),
            ])),
            ResponsesTool::Unsupported => {
                return Err("the enum variant ResponsesTool::Unsupported cannot be serialized");
            }
        }
    }
    Ok(Value::Array(list).to_compact())
}

fn optional(text: Option<&str>) -> Value {
    text.map_or(Value::Null, Value::from)
}

fn function_value(tool: &ResponsesFunctionTool, namespace: Option<&ResponsesNamespace>) -> Value {
    let mut out = Object::default();
    out.push("type", "function".into());
    out.push("name", tool.name.as_str().into());
    out.push("description", optional(tool.description.as_deref()));
    out.push("parameters", tool.parameters.clone());
    out.push("strict", tool.strict.map_or(Value::Null, Value::Bool));
    if let Some(namespace) = namespace {
        let description = namespace.description.as_deref().unwrap_or("");
        let value = object([
            ("name", namespace.name.as_str().into()),
            ("description", description.into()),
        ]);
        out.push("namespace", value);
    }
    Value::Object(out)
}

fn web_search_value(kind: &str, search: &ResponsesWebSearch) -> Value {
    object([
        ("type", kind.into()),
        (
            "search_context_size",
            optional(search.search_context_size.map(|size| size.as_str())),
        ),
        (
            "user_location",
            search
                .user_location
                .as_ref()
                .map_or(Value::Null, location_value),
        ),
    ])
}

fn location_value(location: &ResponsesUserLocation) -> Value {
    object([
        ("city", optional(location.city.as_deref())),
        ("country", optional(location.country.as_deref())),
        ("region", optional(location.region.as_deref())),
        ("timezone", optional(location.timezone.as_deref())),
    ])
}
