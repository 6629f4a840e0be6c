//! One tool call: its parameters as read, the arguments they make, and the report about it.

use super::json_repair::repair;
use super::schema::DeclaredTools;
use crate::json::{write_string, Value};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// Written as the format asks.
    WellFormed,
    /// Damaged, and handed out repaired.
    Repaired,
    /// Not readable: its text stayed in the answer (or reasoning).
    Malformed,
}

/// What recover mode says about one call, in the order of the calls in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallReport {
    /// Index of the call in the response; `None` when malformed.
    pub index: Option<usize>,
    /// Name of the tool as far as it was readable.
    pub name: Option<String>,
    /// Arguments handed out; `None` when malformed.
    pub arguments: Option<String>,
    /// What became of it.
    pub status: CallStatus,
    /// Names of the repairs, as listed in `docs/parsing.md`.
    pub repairs: Vec<&'static str>,
    /// Why it is malformed, or how it does not fit the declared tools.
    pub problems: Vec<String>,
    /// The text of the call as the model wrote it.
    pub raw: String,
}

/// A parameter as read.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// The `string` attribute, if readable.
    pub(super) string: Option<bool>,
    pub(super) value: String,
    /// Its closing tag was seen.
    pub(super) closed: bool,
}

/// Arguments in the making, with the repairs they needed.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    members: Vec<(String, String)>,
    pub(super) repairs: Vec<&'static str>,
}

impl Arguments {
    pub(super) fn note(&mut self, repair: &'static str) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    /// Add a parameter, or say why its value cannot be made out.
    pub(super) fn add(
        &mut self,
        tool: &str,
        parameter: &Parameter,
        declared: &DeclaredTools,
    ) -> Result<(), String> {
        let Parameter {
            name,
            string,
            value,
            closed,
        } = parameter;
        let wants_string = declared.wants_string(tool, name);
        let json = match string {
            Some(true) => quoted(value),
            Some(false) => self.json_value(name, value, *closed, wants_string)?,
            None => {
                self.note("untyped_parameter");
                let is_json =
                    wants_string != Some(true) && Value::parse(value.trim().as_bytes()).is_ok();
                if is_json {
                    value.trim().to_owned()
                } else {
                    quoted(value)
                }
            }
        };
        match self.members.iter().position(|(n, _)| n == name) {
            Some(at) => {
                self.note("duplicate_parameter");
                self.members[at].1 = json;
            }
            None => self.members.push((name.clone(), json)),
        }
        Ok(())
    }

    fn json_value(
        &mut self,
        name: &str,
        value: &str,
        closed: bool,
        wants_string: Option<bool>,
    ) -> Result<String, String> {
        if Value::parse(value.as_bytes()).is_ok() {
            return Ok(value.to_owned());
        }
        if value.trim().is_empty() {
            if wants_string != Some(true) {
                return Err(format!("parameter {name:?} has no value"));
            }
            self.note("string_for_json");
            return Ok(quoted(value));
        }
        match repair(value) {
            Some((_, true)) if !closed => {
                return Err(format!("the value of parameter {name:?} is cut off"))
            }
            Some((json, open_end)) => {
                self.note(if open_end {
                    "unclosed_json"
                } else {
                    "lenient_json"
                });
                return Ok(json);
            }
            None => {}
        }
        self.note("string_for_json");
        Ok(quoted(value))
    }

    /// JSON text of the object.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (i, (name, json)) in self.members.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            write_string(&mut out, name);
            out.push_str(": ");
            out.push_str(json);
        }
        out.push('}');
        out
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

/// Calls written as JSON between the block tags: `{"name": …, "arguments": {…}}`, one or a list, bare or in a
/// code fence. `None` unless the whole text is that.
pub(super) fn json_calls(text: &str) -> Option<Vec<(String, String)>> {
    let mut text = text.trim();
    if let Some(fenced) = text.strip_prefix("```") {
        let body = fenced.strip_prefix("json").unwrap_or(fenced);
        text = body.trim_end().strip_suffix("```").unwrap_or(body).trim();
    }
    let value = Value::parse(text.as_bytes()).ok()?;
    let calls = match &value {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    if calls.is_empty() {
        return None;
    }
    calls.iter().map(json_call).collect()
}

fn json_call(value: &Value) -> Option<(String, String)> {
    let inner = value
        .get("function")
        .filter(|f| f.as_object().is_some())
        .unwrap_or(value);
    let name = inner.get("name")?.as_str().filter(|n| !n.is_empty())?;
    let arguments = match inner.get("arguments").or_else(|| inner.get("parameters"))? {
        Value::String(text) => Value::parse(text.as_bytes()).ok()?,
        other => other.clone(),
    };
    arguments.as_object()?;
    Some((
        name.to_owned(),
        arguments.to_prompt(crate::json::FloatStyle::Short),
    ))
}
