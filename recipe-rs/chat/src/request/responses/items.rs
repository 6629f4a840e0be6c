//! Responses input items to messages: assembling assistant turns and pairing calls with outputs.

use super::declared::Registry;
use super::search::search_result;
use super::{
    ResponsesContentBlock as Block, ResponsesInputItem, ResponsesInputMessage, ResponsesRole,
    ResponsesToolCallOutputItem as OutputBlock, ResponsesTypedItem as Item,
};
use crate::conversation::{Content, ImageDetail, ImageSource, Message, ToolCall, ToolDefinition};
use crate::error::{ChatError, Result};
use crate::json::{write_compact, write_string, Value};
use crate::model::ModelVersion;
use crate::request::common::TextOrList;
use crate::request::content::Parts;
use crate::request::{images, tools};
use crate::texts::{UNSUPPORTED_DOCUMENT, UNSUPPORTED_IMAGE};
use std::collections::HashSet;

/// A message, or a block of revealed tools whose definitions are known only after the tool choice.
pub(super) enum Entry {
    Message(Message),
    Revealed(Vec<String>),
}

impl Entry {
    /// The message, where it is known already.
    pub(super) fn message(&self) -> Option<&Message> {
        match self {
            Entry::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// An assistant turn while it is assembled.
#[derive(Default)]
struct Turn {
    reasoning: String,
    text: String,
    calls: Vec<ToolCall>,
}

/// Assembles entries from items.
pub(super) struct Assembly<'r, 'o> {
    version: ModelVersion,
    image_token: &'o str,
    registry: &'r Registry<'o>,
    entries: Vec<Entry>,
    turn: Option<Turn>,
    /// Results of the calls of `turn`, and what they reveal.
    outputs: Vec<Message>,
    revealed: Vec<Vec<String>>,
    /// Ids of calls without an output yet, in order.
    unanswered: Vec<String>,
    call_ids: HashSet<String>,
    answered: HashSet<String>,
}

impl<'r, 'o> Assembly<'r, 'o> {
    pub(super) fn new(
        version: ModelVersion,
        image_token: &'o str,
        registry: &'r Registry<'o>,
    ) -> Self {
        Assembly {
            version,
            image_token,
            registry,
            entries: Vec::new(),
            turn: None,
            outputs: Vec::new(),
            revealed: Vec::new(),
            unanswered: Vec::new(),
            call_ids: HashSet::new(),
            answered: HashSet::new(),
        }
    }

    /// The entries of all items.
    pub(super) fn assemble(mut self, items: Vec<ResponsesInputItem>) -> Result<Vec<Entry>> {
        for (i, item) in items.into_iter().enumerate() {
            match item {
                ResponsesInputItem::Message(message) => self.message(message, i)?,
                ResponsesInputItem::Item(item) => self.item(*item, i)?,
            }
        }
        self.close()?;
        Ok(self.entries)
    }

    fn item(&mut self, item: Item, i: usize) -> Result<()> {
        match item {
            Item::Message(message) => self.message(message, i),
            Item::FunctionCall {
                call_id,
                name,
                arguments,
                namespace,
            } => {
                let name = self.registry.call_name(namespace, name);
                self.call(call_id, name, arguments, i)
            }
            Item::CustomToolCall {
                call_id,
                name,
                input,
            } => {
                let mut arguments = String::from("{\"input\":");
                write_string(&mut arguments, &input);
                arguments.push('}');
                self.call(call_id, name, arguments, i)
            }
            Item::ToolSearchCall {
                call_id, arguments, ..
            } if self.version.is_v41() => {
                let mut text = String::new();
                write_compact(&mut text, &Value::Object(arguments.0));
                self.call(call_id, "tool_search".to_owned(), text, i)
            }
            Item::FunctionCallOutput { call_id, output } => {
                let (content, images) = self.output_content(output, i)?;
                self.output(call_id, content, images, i)
            }
            Item::CustomToolCallOutput { call_id, output } => {
                let output = output.unwrap_or_else(|| TextOrList::Text(String::new()));
                let (content, images) = self.output_content(output, i)?;
                self.output(Some(call_id), content, images, i)
            }
            Item::ToolSearchOutput { call_id, tools, .. } if self.version.is_v41() => {
                self.search_output(call_id, &tools, i)
            }
            Item::Reasoning { content, .. } => self.reasoning(content.unwrap_or_default()),
            Item::ToolSearchCall { .. } | Item::ToolSearchOutput { .. } | Item::Unsupported => {
                Ok(())
            }
        }
    }

    fn message(&mut self, message: ResponsesInputMessage, i: usize) -> Result<()> {
        let is_system = match message.role {
            ResponsesRole::Assistant => return self.assistant(message, i),
            ResponsesRole::User => false,
            ResponsesRole::System => true,
            ResponsesRole::Developer => self.version.is_v41(),
        };
        self.close()?;
        let (content, images) = self.content(message, i)?;
        self.entries.push(Entry::Message(if is_system {
            Message::System {
                content,
                images,
                tools: None,
            }
        } else {
            Message::User { content, images }
        }));
        Ok(())
    }

    fn assistant(&mut self, message: ResponsesInputMessage, i: usize) -> Result<()> {
        self.check_answered()?;
        let (content, images) = self.content(message, i)?;
        if !images.is_empty() {
            return Err(ChatError::invalid(format!(
                "input[{i}]: Image in assistant message is unsupported"
            )));
        }
        if self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.calls.is_empty())
        {
            self.close()?;
        }
        let turn = self.turn.get_or_insert_with(Turn::default);
        if !content.text.is_empty() {
            if !turn.text.is_empty() {
                turn.text.push_str("\n\n");
            }
            turn.text.push_str(&content.text);
        }
        Ok(())
    }

    fn reasoning(&mut self, content: Vec<super::ResponsesReasoningContent>) -> Result<()> {
        self.check_answered()?;
        let texts: Vec<&str> = content.iter().map(|part| part.text.as_str()).collect();
        let text = texts.join("\n");
        if text.is_empty() {
            return Ok(());
        }
        if self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.text.is_empty() || !turn.calls.is_empty())
        {
            self.close()?;
        }
        let turn = self.turn.get_or_insert_with(Turn::default);
        if !turn.reasoning.is_empty() {
            turn.reasoning.push('\n');
        }
        turn.reasoning.push_str(&text);
        Ok(())
    }

    fn call(&mut self, id: String, name: String, arguments: String, i: usize) -> Result<()> {
        if id.is_empty() {
            return Err(tools::empty_string(&format!("input[{i}].call_id")));
        }
        if !self.call_ids.insert(id.clone()) {
            return Err(ChatError::invalid(format!("Duplicate 'call_id': {id}.")));
        }
        if !self.outputs.is_empty() && self.unanswered.is_empty() {
            self.close()?;
        }
        self.unanswered.push(id.clone());
        self.turn
            .get_or_insert_with(Turn::default)
            .calls
            .push(ToolCall {
                id,
                name,
                arguments,
            });
        Ok(())
    }

    fn output(
        &mut self,
        id: Option<String>,
        content: Content,
        images: Vec<ImageSource>,
        i: usize,
    ) -> Result<()> {
        let Some(id) = id else {
            // Without an id it answers nothing: a tool message of its own.
            self.close()?;
            self.entries.push(Entry::Message(Message::Tool {
                content,
                tool_call_id: None,
                images,
            }));
            return Ok(());
        };
        self.answer(&id, i)?;
        self.outputs.push(Message::Tool {
            content,
            tool_call_id: Some(id),
            images,
        });
        Ok(())
    }

    fn answer(&mut self, id: &str, i: usize) -> Result<()> {
        if id.is_empty() {
            return Err(tools::empty_string(&format!("input[{i}].call_id")));
        }
        if self.answered.contains(id) {
            return Err(ChatError::invalid(format!(
                "Duplicate tool output for call_id: {id}."
            )));
        }
        let Some(at) = self.unanswered.iter().position(|open| open == id) else {
            return Err(ChatError::invalid(format!(
                "No tool call found for tool output with call_id {id}."
            )));
        };
        self.unanswered.remove(at);
        self.answered.insert(id.to_owned());
        Ok(())
    }

    fn search_output(
        &mut self,
        id: String,
        tools: &[super::ResponsesTool],
        i: usize,
    ) -> Result<()> {
        self.answer(&id, i)?;
        let text = search_result(tools)
            .map_err(|reason| ChatError::invalid(format!("input[{i}]: {reason}")))?;
        self.outputs.push(Message::Tool {
            content: text.into(),
            tool_call_id: Some(id),
            images: Vec::new(),
        });
        let names = self.registry.revealed_by(i);
        if !names.is_empty() {
            self.revealed.push(names);
        }
        Ok(())
    }

    fn check_answered(&self) -> Result<()> {
        match self.unanswered.first() {
            Some(id) => Err(ChatError::invalid(format!(
                "No tool output found for tool call {id}."
            ))),
            None => Ok(()),
        }
    }

    /// Move the pending turn, its results and what they reveal to the entries.
    fn close(&mut self) -> Result<()> {
        self.check_answered()?;
        if let Some(mut turn) = self.turn.take() {
            turn.calls.sort_by(|a, b| a.id.cmp(&b.id));
            self.entries.push(Entry::Message(Message::Assistant {
                content: turn.text,
                reasoning_content: (!turn.reasoning.is_empty()).then_some(turn.reasoning),
                tool_calls: (!turn.calls.is_empty()).then_some(turn.calls),
                prefix: false,
            }));
        }
        let id = |message: &Message| match message {
            Message::Tool { tool_call_id, .. } => tool_call_id.clone(),
            _ => None,
        };
        self.outputs.sort_by_key(id);
        self.entries
            .extend(self.outputs.drain(..).map(Entry::Message));
        self.entries
            .extend(self.revealed.drain(..).map(Entry::Revealed));
        Ok(())
    }

    fn content(
        &self,
        message: ResponsesInputMessage,
        i: usize,
    ) -> Result<(Content, Vec<ImageSource>)> {
        let blocks = match message.content {
            TextOrList::Text(text) => return Ok((text.into(), Vec::new())),
            TextOrList::List(blocks, _) => blocks,
        };
        let mut parts = Parts::default();
        for (j, block) in blocks.into_iter().enumerate() {
            match block {
                Block::InputText { text } | Block::OutputText { text } => parts.text(&text),
                Block::InputFile {} => parts.text(UNSUPPORTED_DOCUMENT),
                Block::InputImage {
                    image_url,
                    file_id,
                    detail,
                } => {
                    self.image(&mut parts, image_url, file_id, detail, i, || {
                        format!("input[{i}].content[{j}]")
                    })?;
                }
            }
        }
        Ok(parts.finish())
    }

    fn output_content(
        &self,
        output: TextOrList<OutputBlock, crate::request::common::ResponsesOutput>,
        i: usize,
    ) -> Result<(Content, Vec<ImageSource>)> {
        let blocks = match output {
            TextOrList::Text(text) => return Ok((text.into(), Vec::new())),
            TextOrList::List(blocks, _) => blocks,
        };
        let mut parts = Parts::default();
        for (j, block) in blocks.into_iter().enumerate() {
            match block {
                OutputBlock::InputText { text } => parts.text(&text),
                OutputBlock::InputFile {} => parts.text(UNSUPPORTED_DOCUMENT),
                OutputBlock::InputImage {
                    image_url,
                    file_id,
                    detail,
                } => {
                    self.image(&mut parts, image_url, file_id, detail, i, || {
                        format!("input[{i}].output[{j}]")
                    })?;
                }
            }
        }
        Ok(parts.finish())
    }

    fn image(
        &self,
        parts: &mut Parts,
        image_url: Option<String>,
        file_id: Option<String>,
        detail: Option<ImageDetail>,
        i: usize,
        path: impl Fn() -> String,
    ) -> Result<()> {
        if !self.version.is_v41() {
            parts.text(UNSUPPORTED_IMAGE);
            return Ok(());
        }
        let refuse = |reason: &str| Err(ChatError::invalid(format!("{}: {reason}", path())));
        let url = match (image_url.filter(|url| !url.is_empty()), file_id) {
            (Some(_), Some(_)) => {
                return refuse("input_image cannot have both image_url and file_id")
            }
            (None, Some(_)) => return refuse(images::FILE_ID),
            (None, None) => return refuse("input_image must have image_url or file_id"),
            (Some(url), None) => url,
        };
        parts.image(
            images::image_url(url, detail, &format!("input[{i}]"))?,
            self.image_token,
        );
        Ok(())
    }
}

/// Replace revealed names by the definitions still listed; a block without any disappears.
pub(super) fn resolve_entries(entries: Vec<Entry>, tools: &[ToolDefinition]) -> Vec<Message> {
    let mut messages = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry {
            Entry::Message(message) => messages.push(message),
            Entry::Revealed(names) => {
                let listed: Vec<ToolDefinition> = names
                    .iter()
                    .filter_map(|name| tools.iter().find(|tool| tool.name == *name).cloned())
                    .collect();
                if !listed.is_empty() {
                    messages.push(Message::System {
                        content: Content::default(),
                        images: Vec::new(),
                        tools: Some(listed),
                    });
                }
            }
        }
    }
    messages
}
