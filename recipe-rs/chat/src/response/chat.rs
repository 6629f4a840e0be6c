//! Chat Completions: `chat.completion.chunk` objects and the `chat.completion` they add up to.

use std::borrow::Cow;
use std::sync::Arc;

use super::call_id::{call_id, Environment};
use super::write::{field, integer, logprob_array, string_or_null};
use crate::json::write_string;
use crate::parse::recover::DeclaredTools;
use crate::parse::{Ending, FinishReason, Generator, Logprobs, Outcome, PromptUsage, Usage};

/// What all chunks of a stream have in common.
#[derive(Debug)]
struct Head {
    id: String,
    model: String,
    created: u64,
    system_fingerprint: Option<String>,
    thinking: bool,
    starts_in_reasoning: bool,
    /// Whether chunks without usage say so (`"usage":null`).
    null_usage: bool,
}

#[derive(Debug)]
enum Delta {
    Start,
    Reasoning {
        text: String,
        logprobs: Logprobs,
    },
    Content {
        text: Cow<'static, str>,
        logprobs: Logprobs,
    },
    ToolStart {
        index: usize,
        id: String,
        name: String,
    },
    ToolArgs {
        index: usize,
        fragment: Cow<'static, str>,
    },
    Finish {
        reason: &'static str,
        usage: Usage,
    },
}

/// One streamed chunk.
#[derive(Debug)]
pub struct ChatCompletionChunk {
    head: Arc<Head>,
    delta: Delta,
}

/// Turns core events into Chat Completions chunks.
pub struct ChatGenerator {
    head: Arc<Head>,
    environment: Box<dyn Environment>,
    /// See [`Generator::declared_tools`].
    pub(super) declared_tools: Option<DeclaredTools>,
    has_reasoning: bool,
}

impl ChatGenerator {
    /// `thinking` and `starts_in_reasoning` as the request was converted; `null_usage`: chunks before the
    /// last one carry `"usage":null`.
    pub fn new(
        id: String,
        model: String,
        thinking: bool,
        starts_in_reasoning: bool,
        null_usage: bool,
        mut environment: Box<dyn Environment>,
    ) -> Self {
        let created = environment.unix_seconds();
        let head = Head {
            id,
            model,
            created,
            system_fingerprint: None,
            thinking,
            starts_in_reasoning,
            null_usage,
        };
        Self {
            head: Arc::new(head),
            environment,
            declared_tools: None,
            has_reasoning: false,
        }
    }

    fn chunk(&self, delta: Delta) -> ChatCompletionChunk {
        ChatCompletionChunk {
            head: Arc::clone(&self.head),
            delta,
        }
    }
}

impl Generator for ChatGenerator {
    type Event = ChatCompletionChunk;

    fn start(
        &mut self,
        _prompt: PromptUsage,
        system_fingerprint: Option<&str>,
        out: &mut Vec<ChatCompletionChunk>,
    ) {
        if let Some(head) = Arc::get_mut(&mut self.head) {
            head.system_fingerprint = system_fingerprint.map(str::to_owned);
        }
        out.push(self.chunk(Delta::Start));
    }

    fn reasoning(&mut self, text: String, logprobs: Logprobs, out: &mut Vec<ChatCompletionChunk>) {
        self.has_reasoning |= !text.is_empty();
        out.push(self.chunk(Delta::Reasoning { text, logprobs }));
    }

    fn content(
        &mut self,
        text: Cow<'static, str>,
        logprobs: Logprobs,
        out: &mut Vec<ChatCompletionChunk>,
    ) {
        out.push(self.chunk(Delta::Content { text, logprobs }));
    }

    fn tool_start(&mut self, index: usize, name: String, out: &mut Vec<ChatCompletionChunk>) {
        let id = call_id(
            index,
            self.head.thinking && !self.has_reasoning,
            &mut *self.environment,
        );
        out.push(self.chunk(Delta::ToolStart { index, id, name }));
    }

    fn tool_args(
        &mut self,
        index: usize,
        fragment: Cow<'static, str>,
        out: &mut Vec<ChatCompletionChunk>,
    ) {
        out.push(self.chunk(Delta::ToolArgs { index, fragment }));
    }

    fn declared_tools(&self) -> Option<&DeclaredTools> {
        self.declared_tools.as_ref()
    }

    fn finish(&mut self, outcome: &Outcome, out: &mut Vec<ChatCompletionChunk>) {
        let reason = match outcome.ending {
            Ending::Backend(FinishReason::Stop) if outcome.has_tool_calls => "tool_calls",
            Ending::Backend(FinishReason::Length) => "length",
            Ending::Backend(FinishReason::ContentFilter) => "content_filter",
            Ending::Backend(FinishReason::Stop) | Ending::StopSequence(_) | Ending::Closed => {
                "stop"
            }
        };
        let mut usage = outcome.usage;
        usage.reasoning_tokens = usage.reasoning_tokens.filter(|_| self.head.thinking);
        out.push(self.chunk(Delta::Finish { reason, usage }));
    }
}

impl ChatCompletionChunk {
    /// Compact JSON of the chunk.
    pub fn to_json(&self) -> String {
        let head = &*self.head;
        let mut out = String::with_capacity(256);
        out.push('{');
        field(&mut out, "id", &head.id);
        out.push_str(",\"object\":\"chat.completion.chunk\",\"created\":");
        integer(&mut out, head.created);
        out.push(',');
        field(&mut out, "model", &head.model);
        out.push_str(",\"system_fingerprint\":");
        string_or_null(&mut out, head.system_fingerprint.as_deref());
        out.push_str(",\"choices\":[{\"index\":0,\"delta\":{");
        self.write_delta(&mut out);
        out.push_str("},\"logprobs\":");
        match &self.delta {
            Delta::Reasoning {
                logprobs: lp @ Some(_),
                ..
            } => {
                out.push_str("{\"reasoning_content\":");
                logprob_array(&mut out, [lp]);
                out.push('}');
            }
            Delta::Content {
                logprobs: lp @ Some(_),
                ..
            } => {
                out.push_str("{\"content\":");
                logprob_array(&mut out, [lp]);
                out.push('}');
            }
            _ => out.push_str("null"),
        }
        out.push_str(",\"finish_reason\":");
        match &self.delta {
            Delta::Finish { reason, usage } => {
                write_string(&mut out, reason);
                out.push_str("}],\"usage\":");
                write_usage(&mut out, usage);
            }
            _ => {
                out.push_str("null}]");
                if head.null_usage {
                    out.push_str(",\"usage\":null");
                }
            }
        }
        out.push('}');
        out
    }

    fn write_delta(&self, out: &mut String) {
        let thinking = self.head.thinking;
        match &self.delta {
            Delta::Start => {
                out.push_str("\"role\":\"assistant\",");
                out.push_str(match (thinking, self.head.starts_in_reasoning) {
                    (false, _) => "\"content\":\"\"",
                    (true, true) => "\"content\":null,\"reasoning_content\":\"\"",
                    (true, false) => "\"content\":\"\",\"reasoning_content\":null",
                });
            }
            Delta::Reasoning { text, .. } => {
                out.push_str("\"content\":null,");
                field(out, "reasoning_content", text);
            }
            Delta::Content { text, .. } => write_content(out, text, thinking),
            Delta::Finish { .. } => write_content(out, "", thinking),
            Delta::ToolStart { index, id, name } => {
                out.push_str("\"tool_calls\":[{\"index\":");
                integer(out, *index as u64);
                out.push(',');
                field(out, "id", id);
                out.push_str(",\"type\":\"function\",\"function\":{");
                field(out, "name", name);
                out.push_str(",\"arguments\":\"\"}}]");
            }
            Delta::ToolArgs { index, fragment } => {
                out.push_str("\"tool_calls\":[{\"index\":");
                integer(out, *index as u64);
                out.push_str(",\"function\":{");
                field(out, "arguments", fragment);
                out.push_str("}}]");
            }
        }
    }
}

fn write_content(out: &mut String, text: &str, thinking: bool) {
    field(out, "content", text);
    if thinking {
        out.push_str(",\"reasoning_content\":null");
    }
}

fn write_usage(out: &mut String, usage: &Usage) {
    let PromptUsage {
        prompt_tokens: prompt,
        prompt_cache_hit_tokens: hit,
    } = usage.prompt;
    let mut member = |text: &str, n: u64| {
        out.push_str(text);
        integer(out, n);
    };
    member("{\"prompt_tokens\":", prompt);
    member(",\"completion_tokens\":", usage.completion_tokens);
    member(
        ",\"total_tokens\":",
        prompt.saturating_add(usage.completion_tokens),
    );
    member(",\"prompt_tokens_details\":{\"cached_tokens\":", hit);
    if let Some(reasoning) = usage.reasoning_tokens {
        member(
            "},\"completion_tokens_details\":{\"reasoning_tokens\":",
            reasoning,
        );
    }
    member("},\"prompt_cache_hit_tokens\":", hit);
    member(",\"prompt_cache_miss_tokens\":", prompt.saturating_sub(hit));
    out.push('}');
}

#[derive(Debug)]
struct Call {
    index: usize,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Debug, Default)]
struct Choice {
    content: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Call>>,
    content_logprobs: Vec<Logprobs>,
    reasoning_logprobs: Vec<Logprobs>,
    finish_reason: Option<&'static str>,
}

/// The complete response, built from chunks.
#[derive(Debug)]
pub struct ChatCompletionResponse {
    id: String,
    model: String,
    created: u64,
    system_fingerprint: Option<String>,
    choice: Option<Choice>,
    usage: Option<Usage>,
}

fn append(target: &mut Option<String>, text: &str) {
    target.get_or_insert_with(String::new).push_str(text);
}

impl ChatCompletionResponse {
    /// An empty response. `id`, `model` and `created` stay as given here.
    pub fn new(id: String, model: String, created: u64) -> Self {
        Self {
            id,
            model,
            created,
            system_fingerprint: None,
            choice: None,
            usage: None,
        }
    }

    /// Apply the delta of a chunk.
    pub fn accumulate(&mut self, chunk: ChatCompletionChunk) {
        if chunk.head.system_fingerprint.is_some() {
            self.system_fingerprint
                .clone_from(&chunk.head.system_fingerprint);
        }
        let choice = self.choice.get_or_insert_with(Choice::default);
        match chunk.delta {
            Delta::Start if chunk.head.thinking && chunk.head.starts_in_reasoning => {
                append(&mut choice.reasoning_content, "");
            }
            Delta::Start => append(&mut choice.content, ""),
            Delta::Reasoning { text, logprobs } => {
                append(&mut choice.reasoning_content, &text);
                choice
                    .reasoning_logprobs
                    .extend(logprobs.is_some().then_some(logprobs));
            }
            Delta::Content { text, logprobs } => {
                append(&mut choice.content, &text);
                choice
                    .content_logprobs
                    .extend(logprobs.is_some().then_some(logprobs));
            }
            Delta::ToolStart { index, id, name } => {
                let call = Call {
                    index,
                    id,
                    name,
                    arguments: String::new(),
                };
                choice.tool_calls.get_or_insert_with(Vec::new).push(call);
            }
            Delta::ToolArgs { index, fragment } => {
                let calls = choice.tool_calls.get_or_insert_with(Vec::new);
                // Usually the latest call.
                let latest = calls
                    .len()
                    .checked_sub(1)
                    .filter(|&i| i == index && calls[i].index == index);
                let at = latest.or_else(|| calls.iter().position(|c| c.index == index));
                if let Some(at) = at {
                    calls[at].arguments.push_str(&fragment);
                }
            }
            Delta::Finish { reason, usage } => {
                append(&mut choice.content, "");
                choice.finish_reason = Some(reason);
                self.usage = Some(usage);
            }
        }
    }

    /// Compact JSON of the response so far.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(512);
        out.push('{');
        field(&mut out, "id", &self.id);
        out.push_str(",\"object\":\"chat.completion\",\"created\":");
        integer(&mut out, self.created);
        out.push(',');
        field(&mut out, "model", &self.model);
        out.push_str(",\"choices\":[");
        if let Some(choice) = &self.choice {
            choice.write(&mut out);
        }
        out.push(']');
        if let Some(usage) = &self.usage {
            out.push_str(",\"usage\":");
            write_usage(&mut out, usage);
        }
        out.push_str(",\"system_fingerprint\":");
        string_or_null(&mut out, self.system_fingerprint.as_deref());
        out.push('}');
        out
    }
}

impl Choice {
    fn write(&self, out: &mut String) {
        out.push_str("{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
        string_or_null(out, self.content.as_deref());
        if let Some(text) = &self.reasoning_content {
            out.push(',');
            field(out, "reasoning_content", text);
        }
        if let Some(calls) = &self.tool_calls {
            out.push_str(",\"tool_calls\":[");
            for (i, call) in calls.iter().enumerate() {
                out.push_str(if i > 0 { ",{\"index\":" } else { "{\"index\":" });
                integer(out, call.index as u64);
                out.push(',');
                field(out, "id", &call.id);
                out.push_str(",\"type\":\"function\",\"function\":{");
                field(out, "name", &call.name);
                out.push(',');
                field(out, "arguments", &call.arguments);
                out.push_str("}}");
            }
            out.push(']');
        }
        out.push_str("},\"logprobs\":");
        let kinds = [
            ("content", &self.content_logprobs),
            ("reasoning_content", &self.reasoning_logprobs),
        ];
        let mut any = false;
        for (name, blocks) in kinds.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
            out.push_str(if any { ",\"" } else { "{\"" });
            any = true;
            out.push_str(name);
            out.push_str("\":");
            logprob_array(out, blocks);
        }
        out.push_str(if any {
            "},\"finish_reason\":"
        } else {
            "null,\"finish_reason\":"
        });
        string_or_null(out, self.finish_reason);
        out.push('}');
    }
}
