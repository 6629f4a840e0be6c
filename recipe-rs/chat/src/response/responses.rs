//! Responses: output items and their events, and the `response` they add up to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::call_id::{call_id, Environment};
use super::custom_tool::InputReader;
use super::echo::EchoJson;
use super::items::{write_reasoning_part, write_text_part, Item, Kind, OutputText};
use super::write::{field, integer, logprob_array};
use crate::parse::recover::DeclaredTools;
use crate::parse::{Ending, FinishReason, Generator, Logprobs, Outcome, PromptUsage, Usage};

/// What all response objects of a stream have in common.
#[derive(Clone, Debug)]
struct Head {
    id: String,
    model: String,
    created_at: u64,
    echo: EchoJson,
}

#[derive(Clone, Debug)]
struct Object {
    head: Arc<Head>,
    status: &'static str,
    completed_at: Option<u64>,
    incomplete_reason: Option<&'static str>,
    output: Vec<Item>,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Reasoning,
    Text,
    Arguments,
    Input,
}

#[derive(Debug)]
enum Part {
    Reasoning(String),
    Text(OutputText),
}

#[derive(Debug)]
enum Body {
    Response {
        name: &'static str,
        object: Box<Object>,
    },
    ItemAdded(Item),
    ItemDone(Item),
    PartAdded(Part),
    PartDone(Part),
    Delta {
        kind: TextKind,
        text: Cow<'static, str>,
        logprobs: Logprobs,
    },
    Done {
        kind: TextKind,
        text: OutputText,
    },
}

/// One streamed event.
#[derive(Debug)]
pub struct ResponsesEvent {
    sequence_number: u64,
    output_index: usize,
    item_id: Arc<str>,
    body: Body,
}

/// The item that receives deltas.
struct Open {
    index: usize,
    item: Item,
    item_id: Arc<str>,
    input: InputReader,
}

/// Turns core events into Responses events.
pub struct ResponsesGenerator {
    head: Arc<Head>,
    thinking: bool,
    /// Declared custom tools: their calls are custom tool items.
    custom_tools: BTreeSet<String>,
    /// Composed function name to (namespace, local name).
    namespaces: BTreeMap<String, (String, String)>,
    environment: Box<dyn Environment>,
    /// See [`Generator::declared_tools`].
    pub(super) declared_tools: Option<DeclaredTools>,
    has_reasoning: bool,
    sequence_number: u64,
    output: Vec<Item>,
    open: Option<Open>,
}

impl ResponsesGenerator {
    /// `thinking`: the conversation is in thinking mode. `custom_tools`: names of the declared custom tools.
    pub fn new(
        id: String,
        model: String,
        thinking: bool,
        custom_tools: BTreeSet<String>,
        mut environment: Box<dyn Environment>,
    ) -> Self {
        let created_at = environment.unix_seconds();
        Self {
            head: Arc::new(Head {
                id,
                model,
                created_at,
                echo: EchoJson::default(),
            }),
            thinking,
            custom_tools,
            namespaces: BTreeMap::new(),
            environment,
            declared_tools: None,
            has_reasoning: false,
            sequence_number: 0,
            output: Vec::new(),
            open: None,
        }
    }

    /// Report these request settings in the response objects.
    pub fn with_echo(mut self, echo: EchoJson) -> Self {
        Arc::make_mut(&mut self.head).echo = echo;
        self
    }

    /// Split these composed function names into namespace and local name.
    pub fn with_namespaces(mut self, namespaces: BTreeMap<String, (String, String)>) -> Self {
        self.namespaces = namespaces;
        self
    }

    fn emit(&mut self, body: Body, out: &mut Vec<ResponsesEvent>) {
        let (output_index, item_id) = match &self.open {
            Some(open) => (open.index, Arc::clone(&open.item_id)),
            None => (0, Arc::from("")),
        };
        out.push(ResponsesEvent {
            sequence_number: self.sequence_number,
            output_index,
            item_id,
            body,
        });
        self.sequence_number += 1;
    }

    fn object(&self, status: &'static str) -> Object {
        let head = Arc::clone(&self.head);
        Object {
            head,
            status,
            completed_at: None,
            incomplete_reason: None,
            output: Vec::new(),
            usage: None,
        }
    }

    fn open(
        &mut self,
        prefix: &str,
        kind: impl FnOnce(usize, &str) -> Kind,
        out: &mut Vec<ResponsesEvent>,
    ) {
        let index = self.output.len();
        let id = format!("{prefix}_{}_{index}", self.head.id);
        let item = Item {
            kind: kind(index, &self.head.id),
            status: "in_progress",
            id,
        };
        let item_id = Arc::from(item.id.as_str());
        self.open = Some(Open {
            index,
            item: item.clone(),
            item_id,
            input: InputReader::default(),
        });
        self.emit(Body::ItemAdded(item), out);
    }

    fn delta(
        &mut self,
        kind: TextKind,
        text: Cow<'static, str>,
        logprobs: Logprobs,
        out: &mut Vec<ResponsesEvent>,
    ) {
        self.emit(
            Body::Delta {
                kind,
                text,
                logprobs,
            },
            out,
        );
    }

    /// Close the open item, if any. `phase` is that of a message item.
    fn close(&mut self, status: &'static str, phase: &'static str, out: &mut Vec<ResponsesEvent>) {
        let rest = self
            .open
            .as_mut()
            .map(|o| o.input.finish())
            .unwrap_or_default();
        self.custom_input(rest, out);
        let Some(open) = &mut self.open else { return };
        open.item.status = status;
        let (kind, text, part) = match &mut open.item.kind {
            Kind::Reasoning { text, .. } => {
                let text = text.clone().unwrap_or_default();
                let whole = OutputText {
                    text: text.clone(),
                    logprobs: Vec::new(),
                };
                (TextKind::Reasoning, whole, Some(Part::Reasoning(text)))
            }
            Kind::Message {
                phase: item_phase,
                content,
            } => {
                *item_phase = phase;
                let content = content.clone().unwrap_or_default();
                (TextKind::Text, content.clone(), Some(Part::Text(content)))
            }
            Kind::FunctionCall { arguments, .. } => (
                TextKind::Arguments,
                OutputText {
                    text: arguments.clone(),
                    logprobs: Vec::new(),
                },
                None,
            ),
            Kind::CustomToolCall { input, .. } => (
                TextKind::Input,
                OutputText {
                    text: input.clone(),
                    logprobs: Vec::new(),
                },
                None,
            ),
        };
        let item = open.item.clone();
        self.emit(Body::Done { kind, text }, out);
        if let Some(part) = part {
            self.emit(Body::PartDone(part), out);
        }
        self.emit(Body::ItemDone(item.clone()), out);
        self.output.push(item);
        self.open = None;
    }

    fn custom_input(&mut self, text: String, out: &mut Vec<ResponsesEvent>) {
        if text.is_empty() {
            return;
        }
        if let Some(Open {
            item:
                Item {
                    kind: Kind::CustomToolCall { input, .. },
                    ..
                },
            ..
        }) = &mut self.open
        {
            input.push_str(&text);
            self.delta(TextKind::Input, Cow::Owned(text), None, out);
        }
    }
}

impl Generator for ResponsesGenerator {
    type Event = ResponsesEvent;

    fn start(
        &mut self,
        _prompt: PromptUsage,
        _system_fingerprint: Option<&str>,
        out: &mut Vec<ResponsesEvent>,
    ) {
        for name in ["response.created", "response.in_progress"] {
            let object = Box::new(self.object("in_progress"));
            self.emit(Body::Response { name, object }, out);
        }
    }

    fn reasoning(&mut self, text: String, _logprobs: Logprobs, out: &mut Vec<ResponsesEvent>) {
        self.has_reasoning |= !text.is_empty();
        if !matches!(
            &self.open,
            Some(Open {
                item: Item {
                    kind: Kind::Reasoning { .. },
                    ..
                },
                ..
            })
        ) {
            self.close("completed", "final_answer", out);
            let kind = |index, id: &str| Kind::Reasoning {
                text: None,
                encrypted: format!("{id}-{index}"),
            };
            self.open("rs", kind, out);
            self.emit(Body::PartAdded(Part::Reasoning(String::new())), out);
        }
        if let Some(Open {
            item:
                Item {
                    kind: Kind::Reasoning { text: all, .. },
                    ..
                },
            ..
        }) = &mut self.open
        {
            all.get_or_insert_default().push_str(&text);
        }
        self.delta(TextKind::Reasoning, Cow::Owned(text), None, out);
    }

    fn content(
        &mut self,
        text: Cow<'static, str>,
        logprobs: Logprobs,
        out: &mut Vec<ResponsesEvent>,
    ) {
        if !matches!(
            &self.open,
            Some(Open {
                item: Item {
                    kind: Kind::Message { .. },
                    ..
                },
                ..
            })
        ) {
            self.close("completed", "final_answer", out);
            self.open(
                "msg",
                |_, _| Kind::Message {
                    phase: "final_answer",
                    content: None,
                },
                out,
            );
            self.emit(Body::PartAdded(Part::Text(OutputText::default())), out);
        }
        if let Some(Open {
            item:
                Item {
                    kind: Kind::Message { content, .. },
                    ..
                },
            ..
        }) = &mut self.open
        {
            let content = content.get_or_insert_default();
            content.text.push_str(&text);
            content
                .logprobs
                .extend(logprobs.is_some().then(|| logprobs.clone()));
        }
        self.delta(TextKind::Text, text, logprobs, out);
    }

    fn tool_start(&mut self, index: usize, name: String, out: &mut Vec<ResponsesEvent>) {
        self.close("completed", "commentary", out);
        let call_id = call_id(
            index,
            self.thinking && !self.has_reasoning,
            &mut *self.environment,
        );
        if self.custom_tools.contains(&name) {
            self.open(
                "ctc",
                |_, _| Kind::CustomToolCall {
                    call_id,
                    name,
                    input: String::new(),
                },
                out,
            );
            return;
        }
        let (namespace, name) = match self.namespaces.get(&name) {
            Some((namespace, local)) => (Some(namespace.clone()), local.clone()),
            None => (None, name),
        };
        let kind = |_, _: &str| Kind::FunctionCall {
            call_id,
            name,
            namespace,
            arguments: String::new(),
        };
        self.open("fc", kind, out);
    }

    fn tool_args(
        &mut self,
        _index: usize,
        fragment: Cow<'static, str>,
        out: &mut Vec<ResponsesEvent>,
    ) {
        match &mut self.open {
            Some(Open {
                item:
                    Item {
                        kind: Kind::FunctionCall { arguments, .. },
                        ..
                    },
                ..
            }) => {
                arguments.push_str(&fragment);
                self.delta(TextKind::Arguments, fragment, None, out);
            }
            Some(Open { input, .. }) => {
                let text = input.push(&fragment);
                self.custom_input(text, out);
            }
            None => {}
        }
    }

    fn declared_tools(&self) -> Option<&DeclaredTools> {
        self.declared_tools.as_ref()
    }

    fn finish(&mut self, outcome: &Outcome, out: &mut Vec<ResponsesEvent>) {
        let incomplete_reason = match outcome.ending {
            Ending::Backend(FinishReason::Length) => Some("max_output_tokens"),
            Ending::Backend(FinishReason::ContentFilter) => Some("content_filter"),
            Ending::Backend(FinishReason::Stop) | Ending::StopSequence(_) | Ending::Closed => None,
        };
        let (status, name) = match incomplete_reason {
            None => ("completed", "response.completed"),
            Some(_) => ("incomplete", "response.incomplete"),
        };
        self.close(status, "final_answer", out);
        let mut object = Box::new(self.object(status));
        object.completed_at = Some(self.environment.unix_seconds());
        object.incomplete_reason = incomplete_reason;
        object.output = std::mem::take(&mut self.output);
        object.usage = Some(outcome.usage);
        self.emit(Body::Response { name, object }, out);
    }
}

impl ResponsesEvent {
    /// The event type, which is also the SSE event name.
    pub fn name(&self) -> &'static str {
        match &self.body {
            Body::Response { name, .. } => name,
            Body::ItemAdded(_) => "response.output_item.added",
            Body::ItemDone(_) => "response.output_item.done",
            Body::PartAdded(_) => "response.content_part.added",
            Body::PartDone(_) => "response.content_part.done",
            Body::Delta { kind, .. } => match kind {
                TextKind::Reasoning => "response.reasoning_text.delta",
                TextKind::Text => "response.output_text.delta",
                TextKind::Arguments => "response.function_call_arguments.delta",
                TextKind::Input => "response.custom_tool_call_input.delta",
            },
            Body::Done { kind, .. } => match kind {
                TextKind::Reasoning => "response.reasoning_text.done",
                TextKind::Text => "response.output_text.done",
                TextKind::Arguments => "response.function_call_arguments.done",
                TextKind::Input => "response.custom_tool_call_input.done",
            },
        }
    }

    /// Compact JSON of the event: `type` or `type` and `response`, then the other keys in alphabetical order.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(192);
        out.push('{');
        field(&mut out, "type", self.name());
        let out = &mut out;
        match &self.body {
            Body::Response { object, .. } => {
                out.push_str(",\"response\":");
                object.write(out);
            }
            Body::ItemAdded(item) | Body::ItemDone(item) => {
                out.push_str(",\"item\":");
                item.write(out);
                self.write_output_index(out);
            }
            Body::PartAdded(part) | Body::PartDone(part) => {
                out.push_str(",\"content_index\":0");
                self.write_place(out);
                out.push_str(",\"part\":");
                match part {
                    Part::Reasoning(text) => write_reasoning_part(out, text),
                    Part::Text(content) => write_text_part(out, content),
                }
            }
            Body::Delta {
                kind,
                text,
                logprobs,
            } => {
                if matches!(kind, TextKind::Reasoning | TextKind::Text) {
                    out.push_str(",\"content_index\":0");
                }
                out.push(',');
                field(out, "delta", text);
                if *kind == TextKind::Text {
                    self.write_item_id(out);
                    out.push_str(",\"logprobs\":");
                    logprob_array(out, [logprobs]);
                    self.write_output_index(out);
                } else {
                    self.write_place(out);
                }
            }
            Body::Done {
                kind: TextKind::Reasoning,
                ..
            } => {
                out.push_str(",\"content_index\":0");
                self.write_place(out);
            }
            Body::Done {
                kind: TextKind::Text,
                text,
            } => {
                out.push_str(",\"content_index\":0");
                self.write_item_id(out);
                out.push_str(",\"logprobs\":");
                logprob_array(out, &text.logprobs);
                self.write_output_index(out);
            }
            Body::Done { kind, text } => {
                out.push(',');
                field(
                    out,
                    if *kind == TextKind::Arguments {
                        "arguments"
                    } else {
                        "input"
                    },
                    &text.text,
                );
                self.write_place(out);
            }
        }
        out.push_str(",\"sequence_number\":");
        integer(out, self.sequence_number);
        if let Body::Done {
            kind: TextKind::Reasoning | TextKind::Text,
            text,
        } = &self.body
        {
            out.push(',');
            field(out, "text", &text.text);
        }
        out.push('}');
        std::mem::take(out)
    }

    fn write_item_id(&self, out: &mut String) {
        out.push(',');
        field(out, "item_id", &self.item_id);
    }

    fn write_output_index(&self, out: &mut String) {
        out.push_str(",\"output_index\":");
        integer(out, self.output_index as u64);
    }

    fn write_place(&self, out: &mut String) {
        self.write_item_id(out);
        self.write_output_index(out);
    }
}

impl Object {
    fn write(&self, out: &mut String) {
        let head = &*self.head;
        let echo = &head.echo;
        out.push('{');
        field(out, "id", &head.id);
        out.push_str(",\"object\":\"response\",\"created_at\":");
        integer(out, head.created_at);
        out.push(',');
        field(out, "status", self.status);
        out.push_str(",\"background\":false,\"completed_at\":");
        match self.completed_at {
            Some(seconds) => integer(out, seconds),
            None => out.push_str("null"),
        }
        out.push_str(",\"content_filters\":null,\"error\":null,\"frequency_penalty\":0.0,\"incomplete_details\":");
        match self.incomplete_reason {
            Some(reason) => {
                out.push('{');
                field(out, "reason", reason);
                out.push('}');
            }
            None => out.push_str("null"),
        }
        for (key, json) in [
            (",\"instructions\":", &echo.instructions),
            (",\"max_output_tokens\":", &echo.max_output_tokens),
        ] {
            out.push_str(key);
            out.push_str(json);
        }
        out.push_str(",\"max_tool_calls\":null,");
        field(out, "model", &head.model);
        out.push_str(",\"moderation\":null,\"output\":[");
        for (i, item) in self.output.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            item.write(out);
        }
        out.push_str(
            "],\"parallel_tool_calls\":true,\"presence_penalty\":0.0,\"previous_response_id\":null",
        );
        out.push_str(",\"prompt_cache_key\":null,\"prompt_cache_retention\":null,\"reasoning\":");
        out.push_str(&echo.reasoning);
        out.push_str(",\"safety_identifier\":null,\"service_tier\":\"default\",\"store\":false");
        for (key, json) in [
            (",\"temperature\":", &echo.temperature),
            (",\"text\":", &echo.text),
            (",\"tool_choice\":", &echo.tool_choice),
            (",\"tools\":", &echo.tools),
            (",\"top_logprobs\":", &echo.top_logprobs),
            (",\"top_p\":", &echo.top_p),
        ] {
            out.push_str(key);
            out.push_str(json);
        }
        out.push_str(",\"truncation\":\"disabled\",\"usage\":");
        match &self.usage {
            Some(usage) => write_usage(out, usage),
            None => out.push_str("null"),
        }
        out.push_str(",\"user\":");
        out.push_str(&echo.user);
        out.push_str(",\"metadata\":{}}");
    }
}

fn write_usage(out: &mut String, usage: &Usage) {
    let PromptUsage {
        prompt_tokens,
        prompt_cache_hit_tokens,
    } = usage.prompt;
    let mut member = |text: &str, n: u64| {
        out.push_str(text);
        integer(out, n);
    };
    member("{\"input_tokens\":", prompt_tokens);
    member(
        ",\"input_tokens_details\":{\"cached_tokens\":",
        prompt_cache_hit_tokens,
    );
    member("},\"output_tokens\":", usage.completion_tokens);
    member(
        ",\"output_tokens_details\":{\"reasoning_tokens\":",
        usage.reasoning_tokens.unwrap_or(0),
    );
    member(
        "},\"total_tokens\":",
        prompt_tokens.saturating_add(usage.completion_tokens),
    );
    out.push('}');
}

/// The complete response, built from events.
#[derive(Debug)]
pub struct ResponsesResponse(Object);

impl ResponsesResponse {
    /// An empty response; the first event that carries a response object replaces it.
    pub fn new(id: String, model: String, created_at: u64) -> Self {
        let head = Arc::new(Head {
            id,
            model,
            created_at,
            echo: EchoJson::default(),
        });
        let status = "in_progress";
        Self(Object {
            head,
            status,
            completed_at: None,
            incomplete_reason: None,
            output: Vec::new(),
            usage: None,
        })
    }

    /// Apply an event.
    pub fn accumulate(&mut self, event: ResponsesEvent) {
        let output = &mut self.0.output;
        let index = event.output_index;
        match event.body {
            Body::Response { object, .. } => self.0 = *object,
            Body::ItemAdded(item) => {
                if index == output.len() {
                    output.push(item);
                }
            }
            Body::ItemDone(item) => {
                if let Some(place) = output.get_mut(index) {
                    *place = item;
                }
            }
            Body::PartAdded(part) => match (output.get_mut(index).map(|i| &mut i.kind), part) {
                (Some(Kind::Reasoning { text, .. }), Part::Reasoning(new)) => *text = Some(new),
                (Some(Kind::Message { content, .. }), Part::Text(new)) => *content = Some(new),
                _ => {}
            },
            Body::PartDone(part) => match (output.get_mut(index).map(|i| &mut i.kind), part) {
                (
                    Some(Kind::Reasoning {
                        text: Some(text), ..
                    }),
                    Part::Reasoning(new),
                ) => *text = new,
                (
                    Some(Kind::Message {
                        content: Some(content),
                        ..
                    }),
                    Part::Text(new),
                ) => *content = new,
                _ => {}
            },
            Body::Delta {
                text: more,
                logprobs,
                ..
            } => match output.get_mut(index).map(|i| &mut i.kind) {
                Some(Kind::Reasoning {
                    text: Some(text), ..
                }) => text.push_str(&more),
                Some(Kind::Message {
                    content: Some(content),
                    ..
                }) => {
                    content.text.push_str(&more);
                    content
                        .logprobs
                        .extend(logprobs.is_some().then_some(logprobs));
                }
                Some(
                    Kind::FunctionCall {
                        arguments: text, ..
                    }
                    | Kind::CustomToolCall { input: text, .. },
                ) => {
                    text.push_str(&more);
                }
                _ => {}
            },
            Body::Done { text: whole, .. } => match output.get_mut(index).map(|i| &mut i.kind) {
                Some(Kind::Reasoning {
                    text: Some(text), ..
                }) => *text = whole.text,
                Some(Kind::Message {
                    content: Some(content),
                    ..
                }) => *content = whole,
                Some(
                    Kind::FunctionCall {
                        arguments: text, ..
                    }
                    | Kind::CustomToolCall { input: text, .. },
                ) => {
                    *text = whole.text;
                }
                _ => {}
            },
        }
    }

    /// Compact JSON of the response so far.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(1024);
        self.0.write(&mut out);
        out
    }
}
