//! What the protocols share about tools: names, schemas, choices, and the output constraint.

use super::schema::check_schema;
use super::strict::{self, StrictUse};
use crate::conversation::{ResponseFormat, ToolChoice, ToolDefinition};
use crate::error::{ChatError, Result};
use crate::inference::{ConstraintKind, OutputConstraint};
use crate::json::{write_string, Value};
use crate::model::ModelVersion;
use crate::texts;
use std::collections::HashSet;

const MAX_NAME_BYTES: usize = 128;

/// A tool choice as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Auto,
    None,
    Required,
    Named(String),
}

/// A declared tool before its checks.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredTool {
    pub(crate) definition: ToolDefinition,
    /// Whether `parameters` were given at all; absent ones are not checked.
    pub(crate) has_parameters: bool,
    /// The parameters an engine should enforce, where they differ from `definition.parameters`.
    pub(crate) enforced: Option<Value>,
}

impl DeclaredTool {
    /// A tool whose null parameters read as absent.
    pub(crate) fn new(
        name: String,
        description: Option<String>,
        parameters: Value,
        strict: Option<bool>,
        defer_loading: bool,
    ) -> DeclaredTool {
        let has_parameters = !parameters.is_null();
        DeclaredTool {
            definition: ToolDefinition {
                name,
                description,
                parameters,
                strict,
                defer_loading,
            },
            has_parameters,
            enforced: None,
        }
    }

    /// The one custom tool there is.
    pub(crate) fn apply_patch(version: ModelVersion, defer_loading: bool) -> DeclaredTool {
        let gap = if version.is_v41() { "\n" } else { "" };
        let description = [texts::APPLY_PATCH_HEAD, gap, texts::APPLY_PATCH_TAIL].concat();
        let parameters = Value::parse(texts::APPLY_PATCH_PARAMETERS.as_bytes()).unwrap_or_default();
        DeclaredTool::new(
            "apply_patch".to_owned(),
            Some(description),
            parameters,
            None,
            defer_loading,
        )
    }
}

/// Check the name of a tool; `path` is where it stands in the request.
pub(crate) fn check_name(path: impl FnOnce() -> String, name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "empty string. Expected a string with minimum length 1, but got an empty string instead."
            .to_owned()
    } else if name.len() > MAX_NAME_BYTES {
        format!(
            "string too long. Expected a string with maximum length {MAX_NAME_BYTES}, but got a string with length \
             {} instead.",
            name.len()
        )
    } else if !name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    {
        "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.".to_owned()
    } else {
        return Ok(());
    };
    Err(ChatError::invalid(format!(
        "Invalid '{}': {problem}",
        path()
    )))
}

/// The message for an empty string where none may be.
pub(crate) fn empty_string(path: &str) -> ChatError {
    ChatError::invalid(format!(
        "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
    ))
}

/// Tools and choice as the conversation has them.
pub(crate) struct Selected {
    pub(crate) tools: Vec<DeclaredTool>,
    pub(crate) choice: ToolChoice,
}

/// Check names, schemas and the choice, and narrow the list to a named choice.
pub(crate) fn select(
    mut tools: Vec<DeclaredTool>,
    choice: Choice,
    thinking: bool,
) -> Result<Selected> {
    if choice == Choice::None {
        return Ok(Selected {
            tools: Vec::new(),
            choice: ToolChoice::None,
        });
    }
    if tools.is_empty() {
        return Ok(Selected {
            tools,
            choice: ToolChoice::Auto,
        });
    }
    let mut names = HashSet::with_capacity(tools.len());
    for tool in &mut tools {
        if !names.insert(tool.definition.name.clone()) {
            return Err(ChatError::invalid("Tool names must be unique."));
        }
        check_parameters(tool)?;
    }
    let choice = match choice {
        Choice::Named(name) => {
            tools.retain(|tool| tool.definition.name == name);
            if tools.is_empty() {
                return Err(ChatError::invalid(format!(
                    "Invalid value for 'tool_call': no function named '{name}' was specified in the 'tools' parameter."
                )));
            }
            ToolChoice::Required
        }
        Choice::Required => ToolChoice::Required,
        _ => ToolChoice::Auto,
    };
    if thinking && choice == ToolChoice::Required {
        return Err(ChatError::invalid(
            "Thinking mode does not support this tool_choice",
        ));
    }
    Ok(Selected { tools, choice })
}

fn check_parameters(tool: &mut DeclaredTool) -> Result<()> {
    let definition = &mut tool.definition;
    if definition.strict == Some(true) {
        if !tool.has_parameters {
            definition.parameters = strict::empty_parameters();
            return Ok(());
        }
        tool.enforced = Some(strict::enforced(&definition.parameters));
        definition.parameters = strict::normalise(&definition.parameters, StrictUse::Tool)?;
        return Ok(());
    }
    if !tool.has_parameters {
        definition.parameters = crate::json::object([]);
        return Ok(());
    }
    let refuse = |reason: String| {
        Err(ChatError::invalid(format!(
            "Invalid schema for function '{}': {reason}",
            definition.name
        )))
    };
    if let Err(reason) = check_schema(&definition.parameters) {
        return refuse(reason);
    }
    let kind = definition
        .parameters
        .get("type")
        .cloned()
        .unwrap_or_default();
    if kind.as_str() != Some("object") {
        let kind = kind.to_compact();
        return refuse(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'."
        ));
    }
    Ok(())
}

/// Chat and Responses: strict tools do not mix with others, nor with a response format.
pub(crate) fn check_strict_mix(tools: &[DeclaredTool], has_format: bool) -> Result<()> {
    let strict = tools
        .iter()
        .filter(|tool| tool.definition.strict == Some(true))
        .count();
    if strict != 0 && strict != tools.len() {
        return Err(ChatError::invalid(
            "Cannot use strict tool with non-strict tool in the same request",
        ));
    }
    if strict != 0 && has_format {
        return Err(ChatError::invalid(
            "response_format should not be used with tools",
        ));
    }
    Ok(())
}

/// Response format of a request: what is rendered and what is enforced.
pub(crate) struct CheckedFormat {
    pub(crate) format: ResponseFormat,
    /// Normal form of a strict schema.
    pub(crate) normalised: Option<Value>,
    /// Schema an engine should enforce, where it differs from the normal form.
    pub(crate) enforced: Option<Value>,
}

impl CheckedFormat {
    /// A format without a schema of its own.
    pub(crate) fn plain(format: ResponseFormat) -> CheckedFormat {
        CheckedFormat {
            format,
            normalised: None,
            enforced: None,
        }
    }

    /// A `json_schema` format, its schema checked.
    pub(crate) fn json_schema(schema: Value, is_strict: bool) -> Result<CheckedFormat> {
        let (mut normalised, mut enforced) = (None, None);
        if is_strict {
            normalised = Some(strict::normalise(&schema, StrictUse::Format)?);
            enforced = Some(strict::enforced(&schema));
        } else {
            check_schema(&schema)
                .map_err(|e| ChatError::invalid(format!("Invalid json schema: {e}")))?;
        }
        Ok(CheckedFormat {
            format: ResponseFormat::JsonSchema(schema),
            normalised,
            enforced,
        })
    }
}

/// The reference's constraint and the one to enforce.
pub(crate) fn constraints(
    selected: &Selected,
    format: &CheckedFormat,
) -> (Option<OutputConstraint>, Option<OutputConstraint>) {
    if !selected.tools.is_empty() {
        let kind = match selected.choice {
            ToolChoice::Required => ConstraintKind::ToolCallRequired,
            _ => ConstraintKind::ToolCall,
        };
        let reference = OutputConstraint {
            kind,
            schema: tool_list(&selected.tools, false),
        };
        let enforced = if selected.tools.iter().any(|tool| tool.enforced.is_some()) {
            OutputConstraint {
                kind,
                schema: tool_list(&selected.tools, true),
            }
        } else {
            reference.clone()
        };
        return (Some(reference), Some(enforced));
    }
    let json = |schema: String| {
        Some(OutputConstraint {
            kind: ConstraintKind::Json,
            schema,
        })
    };
    match &format.format {
        ResponseFormat::Text => (None, None),
        ResponseFormat::JsonObject => (json(String::new()), json(String::new())),
        ResponseFormat::Regex(expression) => {
            let regex = OutputConstraint {
                kind: ConstraintKind::Regex,
                schema: expression.clone(),
            };
            (Some(regex.clone()), Some(regex))
        }
        ResponseFormat::JsonSchema(schema) => {
            let reference = format.normalised.as_ref().unwrap_or(schema).to_compact();
            let enforced = format
                .enforced
                .as_ref()
                .map_or_else(|| reference.clone(), Value::to_compact);
            (json(reference), json(enforced))
        }
    }
}

fn tool_list(tools: &[DeclaredTool], enforced: bool) -> String {
    let mut out = String::from("[");
    for (i, tool) in tools.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let definition = &tool.definition;
        out.push_str("{\"type\":\"function\",\"function\":{\"name\":");
        write_string(&mut out, &definition.name);
        out.push_str(",\"description\":");
        match &definition.description {
            Some(text) => write_string(&mut out, text),
            None => out.push_str("null"),
        }
        out.push_str(",\"parameters\":");
        let parameters = if enforced {
            tool.enforced.as_ref()
        } else {
            None
        };
        crate::json::write_compact(&mut out, parameters.unwrap_or(&definition.parameters));
        out.push_str(match definition.strict {
            None => ",\"strict\":null}",
            Some(true) => ",\"strict\":true}",
            Some(false) => ",\"strict\":false}",
        });
        if definition.defer_loading {
            out.push_str(",\"defer_loading\":true");
        }
        out.push('}');
    }
    out.push(']');
    out
}
