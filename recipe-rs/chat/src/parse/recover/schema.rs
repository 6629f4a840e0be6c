//! The declared tools: what a call is compared with, and what decides untyped parameters.

use std::sync::Arc;

use crate::conversation::{Conversation, Message, ToolDefinition};
use crate::inference::ConvertedRequest;
use crate::json::Value;

/// At most this many misfits are listed per call.
const MAX_MISFITS: usize = 8;

/// The tools of a request; shared by all streams that answer it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Arc<Vec<ToolDefinition>>);

impl DeclaredTools {
    /// The tools that the conversation of `request` declares, those revealed by messages included.
    pub fn of_request(request: &ConvertedRequest) -> Self {
        let Conversation {
            tools, messages, ..
        } = &*request.conversation;
        let revealed = messages.iter().flat_map(|message| match message {
            Message::System {
                tools: Some(tools), ..
            } => tools.as_slice(),
            _ => &[],
        });
        Self(Arc::new(tools.iter().chain(revealed).cloned().collect()))
    }

    pub(super) fn get(&self, name: &str) -> Option<&ToolDefinition> {
        self.0.iter().find(|tool| tool.name == name)
    }

    /// Whether the declared schema asks for a string (true) or for something else (false); `None` if it does
    /// not say.
    pub(super) fn wants_string(&self, tool: &str, parameter: &str) -> Option<bool> {
        let schema = self
            .get(tool)?
            .parameters
            .get("properties")?
            .get(parameter)?;
        match schema.get("type")? {
            Value::String(kind) => Some(kind == "string"),
            Value::Array(kinds) if !kinds.iter().any(|k| k.as_str() == Some("string")) => {
                Some(false)
            }
            _ => None,
        }
    }

    /// In what way a call does not fit the declared tools.
    pub(super) fn misfits(&self, tool: &str, arguments: &str) -> Vec<String> {
        let Some(definition) = self.get(tool) else {
            return vec![format!("unknown tool {tool:?}")];
        };
        if definition.parameters.is_null() {
            return Vec::new();
        }
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text);
        let (Ok(schema), Ok(instance)) =
            (parse(&definition.parameters.to_compact()), parse(arguments))
        else {
            return Vec::new();
        };
        let validator = match jsonschema::validator_for(&schema) {
            Ok(validator) => validator,
            Err(error) => return vec![format!("the declared schema cannot be used: {error}")],
        };
        let misfit =
            |error: jsonschema::ValidationError<'_>| format!("#{}: {error}", error.instance_path());
        validator
            .iter_errors(&instance)
            .take(MAX_MISFITS)
            .map(misfit)
            .collect()
    }
}
