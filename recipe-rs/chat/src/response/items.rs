//! Output items of the Responses protocol and how they are written.

use super::write::{field, logprob_array};
use crate::json::write_string;
use crate::parse::Logprobs;

/// Text of a message item with the log probabilities of its deltas.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputText {
    pub(super) text: String,
    pub(super) logprobs: Vec<Logprobs>,
}

/// What an item is; its texts grow while it is open.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Reasoning {
        text: Option<String>,
        encrypted: String,
    },
    Message {
        phase: &'static str,
        content: Option<OutputText>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        namespace: Option<String>,
        arguments: String,
    },
    CustomToolCall {
        call_id: String,
        name: String,
        input: String,
    },
}

/// One entry of `output`.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) kind: Kind,
}

impl Item {
    pub(super) fn write(&self, out: &mut String) {
        let type_name = match &self.kind {
            Kind::Reasoning { .. } => "reasoning",
            Kind::Message { .. } => "message",
            Kind::FunctionCall { .. } => "function_call",
            Kind::CustomToolCall { .. } => "custom_tool_call",
        };
        out.push('{');
        field(out, "type", type_name);
        out.push(',');
        field(out, "id", &self.id);
        out.push(',');
        field(out, "status", self.status);
        match &self.kind {
            Kind::Reasoning { text, encrypted } => {
                out.push_str(",\"content\":[");
                if let Some(text) = text {
                    write_reasoning_part(out, text);
                }
                out.push_str("],\"summary\":[],");
                field(out, "encrypted_content", encrypted);
            }
            Kind::Message { phase, content } => {
                out.push_str(",\"role\":\"assistant\",");
                field(out, "phase", phase);
                out.push_str(",\"content\":[");
                if let Some(content) = content {
                    write_text_part(out, content);
                }
                out.push(']');
            }
            Kind::FunctionCall {
                call_id,
                name,
                namespace,
                arguments,
            } => {
                out.push(',');
                field(out, "call_id", call_id);
                out.push(',');
                field(out, "name", name);
                if let Some(namespace) = namespace {
                    out.push(',');
                    field(out, "namespace", namespace);
                }
                out.push(',');
                field(out, "arguments", arguments);
            }
            Kind::CustomToolCall {
                call_id,
                name,
                input,
            } => {
                out.push(',');
                field(out, "call_id", call_id);
                out.push(',');
                field(out, "name", name);
                out.push(',');
                field(out, "input", input);
            }
        }
        out.push('}');
    }
}

pub(super) fn write_reasoning_part(out: &mut String, text: &str) {
    out.push_str("{\"type\":\"reasoning_text\",\"text\":");
    write_string(out, text);
    out.push('}');
}

pub(super) fn write_text_part(out: &mut String, content: &OutputText) {
    out.push_str("{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":");
    logprob_array(out, &content.logprobs);
    out.push(',');
    field(out, "text", &content.text);
    out.push('}');
}
