//! Messages: content blocks and their events, and the `message` they add up to.

use std::borrow::Cow;

use super::call_id::{call_id, Environment};
use super::write::{field, integer, string_or_null};
use crate::json::Value;
use crate::parse::recover::DeclaredTools;
use crate::parse::{Ending, FinishReason, Generator, Logprobs, Outcome, PromptUsage};

#[derive(Clone, Debug)]
enum Block {
    Thinking {
        text: String,
        signature: String,
    },
    Text(String),
    /// `partial` collects the argument text; it becomes the `input` when the block stops.
    ToolUse {
        id: String,
        name: String,
        partial: String,
        input: Option<Value>,
    },
}

#[derive(Debug)]
enum BlockDelta {
    Thinking(String),
    Signature(String),
    Text(Cow<'static, str>),
    Json(Cow<'static, str>),
}

#[derive(Clone, Copy, Debug, Default)]
struct MessageUsage {
    prompt: PromptUsage,
    output_tokens: u64,
}

#[derive(Debug)]
enum Body {
    Start {
        id: String,
        model: String,
        usage: MessageUsage,
    },
    BlockStart {
        index: usize,
        block: Block,
    },
    Ping,
    BlockDelta {
        index: usize,
        delta: BlockDelta,
    },
    BlockStop {
        index: usize,
    },
    Delta {
        stop_reason: &'static str,
        stop_sequence: Option<String>,
        usage: MessageUsage,
    },
    Stop,
}

/// One streamed event.
#[derive(Debug)]
pub struct MessagesEvent(Body);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Thinking,
    Text,
    ToolUse,
}

/// Turns core events into Messages events.
pub struct MessagesGenerator {
    id: String,
    model: String,
    thinking: bool,
    signature: Option<String>,
    environment: Box<dyn Environment>,
    /// See [`Generator::declared_tools`].
    pub(super) declared_tools: Option<DeclaredTools>,
    has_reasoning: bool,
    prompt: PromptUsage,
    open: Option<Open>,
    num_blocks: usize,
}

impl MessagesGenerator {
    /// `thinking`: the conversation is in thinking mode, so a thinking block opens at once.
    pub fn new(
        id: String,
        model: String,
        thinking: bool,
        environment: Box<dyn Environment>,
    ) -> Self {
        Self {
            id,
            model,
            thinking,
            signature: None,
            environment,
            declared_tools: None,
            has_reasoning: false,
            prompt: PromptUsage::default(),
            open: None,
            num_blocks: 0,
        }
    }

    /// Replace the signature of thinking blocks, which is the response id otherwise.
    pub fn with_signature(mut self, signature: String) -> Self {
        self.signature = Some(signature);
        self
    }

    fn close(&mut self, out: &mut Vec<MessagesEvent>) {
        let Some(open) = self.open.take() else { return };
        let index = self.num_blocks - 1;
        if open == Open::Thinking {
            let signature = self.signature.as_ref().unwrap_or(&self.id).clone();
            out.push(MessagesEvent(Body::BlockDelta {
                index,
                delta: BlockDelta::Signature(signature),
            }));
        }
        out.push(MessagesEvent(Body::BlockStop { index }));
    }

    fn open(&mut self, kind: Open, block: Block, out: &mut Vec<MessagesEvent>) {
        self.close(out);
        out.push(MessagesEvent(Body::BlockStart {
            index: self.num_blocks,
            block,
        }));
        if self.num_blocks == 0 {
            out.push(MessagesEvent(Body::Ping));
        }
        self.num_blocks += 1;
        self.open = Some(kind);
    }

    fn open_thinking(&mut self, out: &mut Vec<MessagesEvent>) {
        if self.open != Some(Open::Thinking) {
            self.open(
                Open::Thinking,
                Block::Thinking {
                    text: String::new(),
                    signature: String::new(),
                },
                out,
            );
        }
    }

    fn delta(&self, delta: BlockDelta, out: &mut Vec<MessagesEvent>) {
        out.push(MessagesEvent(Body::BlockDelta {
            index: self.num_blocks.saturating_sub(1),
            delta,
        }));
    }
}

impl Generator for MessagesGenerator {
    type Event = MessagesEvent;

    fn start(
        &mut self,
        prompt: PromptUsage,
        _system_fingerprint: Option<&str>,
        out: &mut Vec<MessagesEvent>,
    ) {
        self.prompt = prompt;
        let usage = MessageUsage {
            prompt,
            output_tokens: 0,
        };
        out.push(MessagesEvent(Body::Start {
            id: self.id.clone(),
            model: self.model.clone(),
            usage,
        }));
        if self.thinking {
            self.open_thinking(out);
        }
    }

    fn reasoning(&mut self, text: String, _logprobs: Logprobs, out: &mut Vec<MessagesEvent>) {
        self.has_reasoning |= !text.is_empty();
        self.open_thinking(out);
        self.delta(BlockDelta::Thinking(text), out);
    }

    fn content(
        &mut self,
        text: Cow<'static, str>,
        _logprobs: Logprobs,
        out: &mut Vec<MessagesEvent>,
    ) {
        if self.open != Some(Open::Text) {
            self.open(Open::Text, Block::Text(String::new()), out);
        }
        self.delta(BlockDelta::Text(text), out);
    }

    fn tool_start(&mut self, index: usize, name: String, out: &mut Vec<MessagesEvent>) {
        let id = call_id(
            index,
            self.thinking && !self.has_reasoning,
            &mut *self.environment,
        );
        self.open(
            Open::ToolUse,
            Block::ToolUse {
                id,
                name,
                partial: String::new(),
                input: None,
            },
            out,
        );
    }

    fn tool_args(
        &mut self,
        _index: usize,
        fragment: Cow<'static, str>,
        out: &mut Vec<MessagesEvent>,
    ) {
        self.delta(BlockDelta::Json(fragment), out);
    }

    fn declared_tools(&self) -> Option<&DeclaredTools> {
        self.declared_tools.as_ref()
    }

    fn finish(&mut self, outcome: &Outcome, out: &mut Vec<MessagesEvent>) {
        self.close(out);
        let (stop_reason, stop_sequence) = match &outcome.ending {
            Ending::Backend(FinishReason::Stop) if outcome.has_tool_calls => ("tool_use", None),
            Ending::Backend(FinishReason::Length) => ("max_tokens", None),
            Ending::Backend(FinishReason::ContentFilter) => ("refusal", None),
            Ending::Backend(FinishReason::Stop) | Ending::Closed => ("end_turn", None),
            Ending::StopSequence(text) => ("stop_sequence", Some(text.clone())),
        };
        let usage = MessageUsage {
            prompt: self.prompt,
            output_tokens: outcome.usage.completion_tokens,
        };
        out.push(MessagesEvent(Body::Delta {
            stop_reason,
            stop_sequence,
            usage,
        }));
        out.push(MessagesEvent(Body::Stop));
    }
}

impl MessagesEvent {
    /// The event type, which is also the SSE event name.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            Body::Start { .. } => "message_start",
            Body::BlockStart { .. } => "content_block_start",
            Body::Ping => "ping",
            Body::BlockDelta { .. } => "content_block_delta",
            Body::BlockStop { .. } => "content_block_stop",
            Body::Delta { .. } => "message_delta",
            Body::Stop => "message_stop",
        }
    }

    /// Compact JSON of the event.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(96);
        out.push_str("{\"type\":\"");
        out.push_str(self.name());
        out.push('"');
        match &self.0 {
            Body::Ping | Body::Stop => {}
            Body::Start { id, model, usage } => {
                out.push_str(",\"message\":");
                write_message(&mut out, id, model, &[], None, None, usage);
            }
            Body::BlockStart { index, block } => {
                out.push_str(",\"index\":");
                integer(&mut out, *index as u64);
                out.push_str(",\"content_block\":");
                write_block(&mut out, block);
            }
            Body::BlockDelta { index, delta } => {
                out.push_str(",\"index\":");
                integer(&mut out, *index as u64);
                out.push_str(",\"delta\":{\"type\":\"");
                let (kind, key, text): (_, _, &str) = match delta {
                    BlockDelta::Thinking(text) => ("thinking_delta", "thinking", text),
                    BlockDelta::Signature(text) => ("signature_delta", "signature", text),
                    BlockDelta::Text(text) => ("text_delta", "text", text),
                    BlockDelta::Json(text) => ("input_json_delta", "partial_json", text),
                };
                out.push_str(kind);
                out.push_str("\",");
                field(&mut out, key, text);
                out.push('}');
            }
            Body::BlockStop { index } => {
                out.push_str(",\"index\":");
                integer(&mut out, *index as u64);
            }
            Body::Delta {
                stop_reason,
                stop_sequence,
                usage,
            } => {
                out.push_str(",\"delta\":{");
                field(&mut out, "stop_reason", stop_reason);
                out.push_str(",\"stop_sequence\":");
                string_or_null(&mut out, stop_sequence.as_deref());
                out.push_str("},\"usage\":");
                write_usage(&mut out, usage);
            }
        }
        out.push('}');
        out
    }
}

fn write_usage(out: &mut String, usage: &MessageUsage) {
    let PromptUsage {
        prompt_tokens,
        prompt_cache_hit_tokens,
    } = usage.prompt;
    out.push_str("{\"input_tokens\":");
    integer(out, prompt_tokens.saturating_sub(prompt_cache_hit_tokens));
    out.push_str(",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
    integer(out, prompt_cache_hit_tokens);
    out.push_str(",\"output_tokens\":");
    integer(out, usage.output_tokens);
    out.push_str(",\"service_tier\":\"standard\"}");
}

fn write_block(out: &mut String, block: &Block) {
    match block {
        Block::Thinking { text, signature } => {
            out.push_str("{\"type\":\"thinking\",");
            field(out, "thinking", text);
            out.push(',');
            field(out, "signature", signature);
            out.push('}');
        }
        Block::Text(text) => {
            out.push_str("{\"type\":\"text\",");
            field(out, "text", text);
            out.push('}');
        }
        Block::ToolUse {
            id, name, input, ..
        } => {
            out.push_str("{\"type\":\"tool_use\",");
            field(out, "id", id);
            out.push(',');
            field(out, "name", name);
            out.push_str(",\"input\":");
            match input {
                Some(input) => out.push_str(&input.to_compact()),
                None => out.push_str("{}"),
            }
            out.push('}');
        }
    }
}

fn write_message(
    out: &mut String,
    id: &str,
    model: &str,
    content: &[Block],
    stop_reason: Option<&str>,
    stop_sequence: Option<&str>,
    usage: &MessageUsage,
) {
    out.push('{');
    field(out, "id", id);
    out.push_str(",\"type\":\"message\",\"role\":\"assistant\",");
    field(out, "model", model);
    out.push_str(",\"content\":[");
    for (i, block) in content.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_block(out, block);
    }
    out.push_str("],\"stop_reason\":");
    string_or_null(out, stop_reason);
    out.push_str(",\"stop_sequence\":");
    string_or_null(out, stop_sequence);
    out.push_str(",\"usage\":");
    write_usage(out, usage);
    out.push('}');
}

/// The complete response, built from events.
#[derive(Debug)]
pub struct MessagesResponse {
    id: String,
    model: String,
    content: Vec<Block>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<String>,
    usage: MessageUsage,
}

impl MessagesResponse {
    /// An empty response; a `message_start` event replaces what is given here.
    pub fn new(id: String, model: String, prompt: PromptUsage) -> Self {
        let usage = MessageUsage {
            prompt,
            output_tokens: 0,
        };
        Self {
            id,
            model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage,
        }
    }

    /// Apply an event.
    pub fn accumulate(&mut self, event: MessagesEvent) {
        match event.0 {
            Body::Start { id, model, usage } => {
                *self = Self::new(id, model, usage.prompt);
            }
            Body::BlockStart { index, block } if index == self.content.len() => {
                self.content.push(block)
            }
            Body::BlockDelta { index, delta } => match (self.content.get_mut(index), delta) {
                (Some(Block::Thinking { text, .. }), BlockDelta::Thinking(more)) => {
                    text.push_str(&more)
                }
                (Some(Block::Thinking { signature, .. }), BlockDelta::Signature(new)) => {
                    *signature = new
                }
                (Some(Block::Text(text)), BlockDelta::Text(more)) => text.push_str(&more),
                (Some(Block::ToolUse { partial, .. }), BlockDelta::Json(more)) => {
                    partial.push_str(&more)
                }
                _ => {}
            },
            Body::Delta {
                stop_reason,
                stop_sequence,
                usage,
            } => {
                self.stop_reason = Some(stop_reason);
                self.stop_sequence = stop_sequence;
                self.usage = usage;
            }
            Body::BlockStop { index } => {
                if let Some(Block::ToolUse { partial, input, .. }) = self.content.get_mut(index) {
                    *input = Value::parse(partial.as_bytes()).ok();
                }
            }
            Body::BlockStart { .. } | Body::Ping | Body::Stop => {}
        }
    }

    /// Compact JSON of the response so far.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(512);
        let (reason, sequence) = (self.stop_reason, self.stop_sequence.as_deref());
        write_message(
            &mut out,
            &self.id,
            &self.model,
            &self.content,
            reason,
            sequence,
            &self.usage,
        );
        out
    }
}
