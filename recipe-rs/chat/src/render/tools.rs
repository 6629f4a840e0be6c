//! Tool definitions, tool calls of the history, and response formats in prompts.

use super::{order, Prompt};
use crate::conversation::{Conversation, ResponseFormat, ToolCall, ToolDefinition};
use crate::json::{write_prompt, write_string, FloatStyle, Value};
use crate::model::ModelVersion;
use crate::texts;

/// How a version spells the DSML elements, and its numbers.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) version: ModelVersion,
    calls: &'static str,
    invoke: &'static str,
    parameter: &'static str,
    floats: FloatStyle,
}

pub(super) const V4: Style = Style {
    version: ModelVersion::DeepseekV4Pro,
    calls: "tool_calls",
    invoke: "invoke",
    parameter: "parameter",
    floats: FloatStyle::Short,
};

pub(super) const V41: Style = Style {
    version: ModelVersion::DeepseekV41Flash,
    calls: " calls",
    invoke: " invoke",
    parameter: " parameter",
    floats: FloatStyle::Python,
};

impl Prompt<'_> {
    /// The tool section: instructions, one line per tool that is not deferred, closing.
    pub(super) fn tool_section(&mut self, tools: &[ToolDefinition], style: Style) {
        self.text("\n\n");
        if style.version.is_v41() {
            self.spaced_instructions(style);
        } else {
            self.markup(texts::V4_TOOL_INSTRUCTIONS);
        }
        let mut has_lines = false;
        let visible = tools.iter().filter(|tool| !tool.defer_loading);
        self.tool_lines(visible.inspect(|_| has_lines = true), style);
        // V4 ends each line, V4.1 begins the closing with an empty one.
        if has_lines || style.version.is_v41() {
            self.text("\n");
        }
        self.text(texts::TOOL_CLOSING);
    }

    /// The V4 instructions with the element names of `style`.
    fn spaced_instructions(&mut self, style: Style) {
        for (i, piece) in texts::V4_TOOL_INSTRUCTIONS.split("{D}").enumerate() {
            if i == 0 {
                self.markup(piece);
                continue;
            }
            self.token(crate::special::SpecialToken::Dsml);
            let names = [
                (V4.calls, style.calls),
                (V4.invoke, style.invoke),
                (V4.parameter, style.parameter),
            ];
            match names.iter().find(|(name, _)| piece.starts_with(name)) {
                Some((name, spaced)) => {
                    self.text(spaced);
                    self.markup(&piece[name.len()..]);
                }
                None => self.markup(piece),
            }
        }
    }

    /// Tools revealed later.
    pub(super) fn tool_update(&mut self, tools: &[ToolDefinition], style: Style) {
        self.text(texts::TOOL_UPDATE);
        self.tool_lines(tools.iter(), style);
    }

    fn tool_lines<'t>(&mut self, tools: impl Iterator<Item = &'t ToolDefinition>, style: Style) {
        for (i, tool) in tools.enumerate() {
            if i > 0 {
                self.text("\n");
            }
            let out = &mut self.out.prompt;
            out.push_str("{\"name\": ");
            write_string(out, &tool.name);
            out.push_str(", \"description\": ");
            write_string(out, tool.description.as_deref().unwrap_or(""));
            out.push_str(", \"parameters\": ");
            write_prompt(out, &tool.parameters, style.floats);
            out.push('}');
        }
    }

    /// Opens a block of calls.
    pub(super) fn open_calls(&mut self, style: Style) {
        self.text("\n\n<");
        self.token(crate::special::SpecialToken::Dsml);
        self.text(style.calls);
        self.text(">\n");
    }

    /// A block of calls.
    pub(super) fn tool_calls(&mut self, calls: &[ToolCall], style: Style) {
        self.open_calls(style);
        for call in order::call_order(calls, style.version) {
            self.tool_call(call, style);
            self.text("\n");
        }
        self.text("</");
        self.token(crate::special::SpecialToken::Dsml);
        self.text(style.calls);
        self.text(">");
    }

    fn tool_call(&mut self, call: &ToolCall, style: Style) {
        self.open(style.invoke, &call.name);
        self.text(">\n");
        match Value::parse(call.arguments.as_bytes()) {
            Ok(Value::Object(arguments)) => {
                let is_empty = arguments.is_empty();
                for (i, (key, value)) in arguments.iter().enumerate() {
                    if i > 0 {
                        self.text("\n");
                    }
                    self.parameter(key, value, style);
                }
                if !is_empty || style.version.is_v41() {
                    self.text("\n");
                }
            }
            _ => {
                self.open(style.parameter, "arguments");
                self.text(" string=\"true\">");
                self.text(&call.arguments);
                self.close(style.parameter);
                self.text("\n");
            }
        }
        self.close(style.invoke);
    }

    fn parameter(&mut self, key: &str, value: &Value, style: Style) {
        self.open(style.parameter, key);
        if let Value::String(text) = value {
            self.text(" string=\"true\">");
            self.text(text);
        } else {
            self.text(" string=\"false\">");
            write_prompt(&mut self.out.prompt, value, style.floats);
        }
        self.close(style.parameter);
    }

    fn open(&mut self, element: &str, name: &str) {
        self.text("<");
        self.token(crate::special::SpecialToken::Dsml);
        self.text(element);
        self.text(" name=\"");
        self.text(name);
        self.text("\"");
    }

    fn close(&mut self, element: &str) {
        self.text("</");
        self.token(crate::special::SpecialToken::Dsml);
        self.text(element);
        self.text(">");
    }

    /// The response-format text.
    pub(super) fn response_format(&mut self, format: &ResponseFormat, style: Style) {
        match format {
            ResponseFormat::Text | ResponseFormat::Regex(_) => {}
            ResponseFormat::JsonObject if style.version.is_v41() => {
                self.text(texts::RESPONSE_SCHEMA);
                self.text(texts::V41_JSON_OBJECT);
            }
            ResponseFormat::JsonObject => self.text(texts::V4_JSON_OBJECT),
            ResponseFormat::JsonSchema(schema) => {
                self.text(texts::RESPONSE_SCHEMA);
                write_prompt(&mut self.out.prompt, schema, style.floats);
            }
        }
    }
}

/// Whether a response format puts text into the prompt.
pub(super) fn has_format_text(conversation: &Conversation) -> bool {
    matches!(
        conversation.response_format,
        ResponseFormat::JsonObject | ResponseFormat::JsonSchema(_)
    )
}
