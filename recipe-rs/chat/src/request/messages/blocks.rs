//! Messages content blocks to messages: which block may stand where, and pairing of calls with results.

use super::{
    MessagesContent, MessagesContentBlock as Block, MessagesDocumentSource, MessagesImageSource,
    MessagesMessage, MessagesToolReference, MessagesToolResultBlock as ResultBlock,
};
use crate::conversation::{Content, ImageDetail, ImageLocation, ImageSource, Message, ToolCall};
use crate::error::{ChatError, Result};
use crate::json::FloatStyle;
use crate::model::ModelVersion;
use crate::options::{ConversionOptions, WebSearchBehavior};
use crate::request::common::{StringOrList, TextOrList};
use crate::request::content::Parts;
use crate::request::images;
use crate::request::tools::DeclaredTool;
use crate::special::SpecialToken;
use crate::texts::UNSUPPORTED_IMAGE;
use std::collections::{BTreeSet, HashSet};

/// A message, or a system message that reveals tools whose definitions are known only after the choice.
pub(super) enum Entry {
    Message(Message),
    Revealing {
        content: Content,
        images: Vec<ImageSource>,
        names: Vec<String>,
    },
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

/// Assembles entries from messages.
pub(super) struct Assembly<'a> {
    version: ModelVersion,
    image_token: &'a str,
    drops_server_blocks: bool,
    tool_names: HashSet<&'a str>,
    entries: Vec<Entry>,
    /// Calls of the last assistant message that wait for a result, and where that message stands.
    waiting: BTreeSet<String>,
    caller: usize,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(
        version: ModelVersion,
        options: &'a ConversionOptions,
        tools: &'a [DeclaredTool],
    ) -> Self {
        Assembly {
            version,
            image_token: options.special_tokens.get(SpecialToken::Image),
            drops_server_blocks: options.messages_web_search == WebSearchBehavior::Drop,
            tool_names: tools
                .iter()
                .map(|tool| tool.definition.name.as_str())
                .collect(),
            entries: Vec::new(),
            waiting: BTreeSet::new(),
            caller: 0,
        }
    }

    /// The entries of all messages.
    pub(super) fn assemble(mut self, messages: Vec<MessagesMessage>) -> Result<Vec<Entry>> {
        for (i, message) in messages.into_iter().enumerate() {
            match message {
                MessagesMessage::User(content) => self.user(blocks(content, i)?, i)?,
                MessagesMessage::Assistant(content) => {
                    self.check_nothing_waits(|| format!("messages.{i}"))?;
                    self.assistant(blocks(content, i)?, i)?;
                }
                MessagesMessage::System(content) => self.system(system_blocks(content), i)?,
            }
        }
        self.check_results_came()?;
        Ok(self.entries)
    }

    fn user(&mut self, blocks: Vec<Block>, i: usize) -> Result<()> {
        let mut revealed = Vec::new();
        let mut parts = Vec::new();
        let mut seen = HashSet::new();
        for (j, block) in blocks.into_iter().enumerate() {
            if matches!(
                block,
                Block::Text { .. } | Block::Document { .. } | Block::Image { .. }
            ) {
                self.check_nothing_waits(|| format!("messages.{i}"))?;
            }
            match block {
                Block::ToolResult {
                    tool_use_id,
                    content,
                    ..
                } => {
                    self.accept_result(&tool_use_id, &mut seen, i, j)?;
                    let message = self.tool_result(tool_use_id, content, &mut revealed, i, j)?;
                    self.entries.push(Entry::Message(message));
                }
                Block::Text { text } => parts.push(Message::user(text)),
                Block::Document { source } => parts.push(Message::user(document(&source))),
                Block::Image { source } => {
                    let mut part = Parts::default();
                    self.image(
                        &mut part,
                        source,
                        &format!("messages.{i}.content[{j}]"),
                        None,
                    )?;
                    let (content, images) = part.finish();
                    parts.push(Message::User { content, images });
                }
                misplaced => return Err(self.misplaced(&misplaced, i)),
            }
        }
        self.check_results_came()?;
        self.entries.extend(parts.into_iter().map(Entry::Message));
        if self.version.is_v41() && !revealed.is_empty() {
            self.entries.push(Entry::Revealing {
                content: Content::default(),
                images: Vec::new(),
                names: revealed,
            });
        }
        Ok(())
    }

    fn assistant(&mut self, blocks: Vec<Block>, i: usize) -> Result<()> {
        let mut text = String::new();
        let mut reasoning: Option<String> = None;
        let mut calls = Vec::new();
        for (j, block) in blocks.into_iter().enumerate() {
            if matches!(
                block,
                Block::Text { .. } | Block::Document { .. } | Block::Image { .. }
            ) {
                self.check_nothing_waits(|| format!("messages.{i}.{j}"))?;
            }
            let add = match block {
                Block::ToolUse { id, name, input } => {
                    if !self.waiting.insert(id.clone()) {
                        return Err(ChatError::invalid(format!(
                            "messages.{i}.content.{j}: `tool_use` ids must be unique"
                        )));
                    }
                    let arguments = input.to_prompt(FloatStyle::Short);
                    calls.push(ToolCall {
                        id,
                        name,
                        arguments,
                    });
                    continue;
                }
                Block::Thinking { thinking, .. } => {
                    match &mut reasoning {
                        Some(all) => {
                            all.push_str("\n\n");
                            all.push_str(&thinking);
                        }
                        None => reasoning = Some(thinking),
                    }
                    continue;
                }
                Block::ServerToolUse { .. } | Block::WebSearchToolResult { .. } => {
                    if self.drops_server_blocks {
                        continue;
                    }
                    return Err(server_block());
                }
                Block::Text { text } => text,
                Block::Document { source } => document(&source),
                Block::Image { source } => self.assistant_image(source, i, j)?,
                misplaced => return Err(self.misplaced(&misplaced, i)),
            };
            if text.is_empty() {
                text = add;
            } else {
                text.push_str("\n\n");
                text.push_str(&add);
            }
        }
        self.caller = i;
        self.entries.push(Entry::Message(Message::Assistant {
            content: text,
            reasoning_content: reasoning,
            tool_calls: (!calls.is_empty()).then_some(calls),
            prefix: false,
        }));
        Ok(())
    }

    fn system(&mut self, blocks: Vec<Block>, i: usize) -> Result<()> {
        self.check_nothing_waits(|| format!("messages.{i}"))?;
        let mut parts = Parts::default();
        let mut names = Vec::new();
        for (j, block) in blocks.into_iter().enumerate() {
            match block {
                Block::Text { text } => parts.text(&text),
                Block::Document { source } => parts.text(&document(&source)),
                Block::Image { source } => {
                    self.image(&mut parts, source, &format!("messages.{i}"), Some(j))?
                }
                Block::ToolAddition {
                    tool: MessagesToolReference::ToolReference { name },
                } => {
                    if !self.tool_names.contains(name.as_str()) {
                        return Err(ChatError::invalid(format!(
                            "messages.{i}.content.{j}: `tool_addition` references unknown tool '{name}'"
                        )));
                    }
                    names.push(name);
                }
                misplaced => return Err(self.misplaced(&misplaced, i)),
            }
        }
        let (content, images) = parts.finish();
        if !self.version.is_v41() {
            if !content.text.is_empty() {
                let text = format!("<system-reminder>\n{}\n</system-reminder>", content.text);
                self.entries.push(Entry::Message(Message::user(text)));
            }
        } else if names.is_empty() {
            self.entries.push(Entry::Message(Message::System {
                content,
                images,
                tools: None,
            }));
        } else {
            self.entries.push(Entry::Revealing {
                content,
                images,
                names,
            });
        }
        Ok(())
    }

    fn accept_result(
        &mut self,
        id: &str,
        seen: &mut HashSet<String>,
        i: usize,
        j: usize,
    ) -> Result<()> {
        if seen.contains(id) {
            return Err(ChatError::invalid(format!(
                "messages.{i}.content.{j}: each tool_use must have a single result. Found multiple `tool_result` \
                 blocks with id: {id}"
            )));
        }
        if !self.waiting.remove(id) {
            return Err(ChatError::invalid(format!(
                "unexpected `messages.{i}.content.{j}: tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )));
        }
        seen.insert(id.to_owned());
        Ok(())
    }

    fn tool_result(
        &self,
        id: String,
        content: Option<TextOrList<ResultBlock, StringOrList>>,
        revealed: &mut Vec<String>,
        i: usize,
        j: usize,
    ) -> Result<Message> {
        let mut parts = Parts::default();
        match content {
            None => {}
            Some(TextOrList::Text(text)) => parts.text(&text),
            Some(TextOrList::List(blocks, _)) => {
                for (k, block) in blocks.into_iter().enumerate() {
                    match block {
                        ResultBlock::Text { text } => parts.text(&text),
                        ResultBlock::Document { source } => parts.text(&document(&source)),
                        ResultBlock::Image { source } => {
                            self.image(
                                &mut parts,
                                source,
                                &format!("messages.{i}.content.{j}.tool_result"),
                                Some(k),
                            )?;
                        }
                        ResultBlock::ToolReference { tool_name } => {
                            if !self.tool_names.contains(tool_name.as_str()) {
                                return Err(ChatError::invalid(format!(
                                    "messages.{i}.content.{j}: tool reference '{tool_name}' not found in available \
                                     tools"
                                )));
                            }
                            parts.text(&tool_name);
                            revealed.push(tool_name);
                        }
                    }
                }
            }
        }
        let (content, images) = parts.finish();
        Ok(Message::Tool {
            content,
            tool_call_id: Some(id),
            images,
        })
    }

    /// Refuses a block while calls wait for their results; `place` is where that block stands.
    fn check_nothing_waits(&self, place: impl FnOnce() -> String) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        Err(missing_results(&format!("{}: ", place()), &self.waiting))
    }

    /// Refuses the end of a message or of the list while calls wait for their results.
    fn check_results_came(&self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        Err(missing_results(
            &format!("messages.{}:", self.caller),
            &self.waiting,
        ))
    }

    fn misplaced(&self, block: &Block, i: usize) -> ChatError {
        ChatError::invalid(match block {
            Block::ToolResult { .. } => {
                format!("messages.{i}: `tool_result` blocks can only be in `user` messages")
            }
            Block::ToolUse { .. } | Block::ServerToolUse { .. } => {
                format!("messages.{i}: `tool_use` blocks can only be in `assistant` messages")
            }
            Block::WebSearchToolResult { .. } => {
                format!("messages.{i}: `web_search_tool_result` blocks can only be in `assistant` messages")
            }
            Block::ToolAddition { .. } => {
                format!("messages.{i}: `tool_addition` blocks can only be in `system` messages")
            }
            _ => {
                format!("messages.{i}.content: thinking blocks may only be in `assistant` messages")
            }
        })
    }

    /// `place` is what the source records; errors add the index of the block.
    fn image(
        &self,
        parts: &mut Parts,
        source: MessagesImageSource,
        place: &str,
        block: Option<usize>,
    ) -> Result<()> {
        if !self.version.is_v41() {
            parts.text(UNSUPPORTED_IMAGE);
            return Ok(());
        }
        let path = block.map_or_else(|| place.to_owned(), |j| format!("{place}.content[{j}]"));
        let source = ImageSource {
            path: place.to_owned(),
            ..image_source(source, &path)?
        };
        parts.image(source, self.image_token);
        Ok(())
    }

    fn assistant_image(&self, source: MessagesImageSource, i: usize, j: usize) -> Result<String> {
        if !self.version.is_v41() {
            return Ok(UNSUPPORTED_IMAGE.to_owned());
        }
        image_source(source, &format!("messages.{i}.content[{j}]"))?;
        Err(ChatError::invalid(
            "Image in assistant message is unsupported",
        ))
    }
}

fn blocks(content: MessagesContent, i: usize) -> Result<Vec<Block>> {
    match content {
        TextOrList::Text(text) => Ok(vec![Block::Text { text }]),
        TextOrList::List(blocks, _) if blocks.is_empty() => Err(ChatError::invalid(format!(
            "messages.{i}: all messages must have non-empty content"
        ))),
        TextOrList::List(blocks, _) => Ok(blocks),
    }
}

fn system_blocks(content: MessagesContent) -> Vec<Block> {
    match content {
        TextOrList::Text(text) => vec![Block::Text { text }],
        TextOrList::List(blocks, _) => blocks,
    }
}

fn missing_results(place: &str, waiting: &BTreeSet<String>) -> ChatError {
    let ids: Vec<&str> = waiting.iter().map(String::as_str).collect();
    ChatError::invalid(format!(
        "{place}`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block \
         must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    ))
}

fn server_block() -> ChatError {
    ChatError::invalid("Unsupported content block: server tools are not supported")
}

fn document(source: &MessagesDocumentSource) -> String {
    format!(
        "[Unsupported document type: {}]",
        source.media_type.as_deref().unwrap_or("unknown")
    )
}

fn image_source(source: MessagesImageSource, path: &str) -> Result<ImageSource> {
    let location = match source {
        MessagesImageSource::Base64 { media_type, data } => match images::strict_base64(&data) {
            Some(data) => {
                ImageLocation::DataUrl(format!("data:{};base64,{data}", media_type.as_str()))
            }
            None => return Err(ChatError::invalid(format!("{path}: base64 decode error"))),
        },
        MessagesImageSource::Url { url } if images::is_external(&url) => ImageLocation::Url(url),
        MessagesImageSource::Url { url } => {
            return Err(ChatError::invalid(format!("{path}: invalid url: {url:?}")));
        }
        MessagesImageSource::File { .. } => {
            return Err(ChatError::invalid(format!("{path}: {}", images::FILE_ID)));
        }
    };
    Ok(ImageSource {
        location,
        detail: ImageDetail::High,
        path: path.to_owned(),
    })
}
