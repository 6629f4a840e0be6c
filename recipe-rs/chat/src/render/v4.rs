//! The V4 prompt: all system text first, then user and assistant turns.

use super::tools::V4;
use super::{order, Prompt};
use crate::conversation::{Conversation, Effort, Message, ToolCall, ToolChoice};
use crate::model::ModelVersion;
use crate::special::SpecialToken;
use crate::texts;

pub(super) fn render(prompt: &mut Prompt<'_>, conversation: &Conversation) {
    let renders_tools = conversation.renders_tools();
    prompt.token(SpecialToken::Bos);
    if conversation.thinking_mode {
        prompt.text(match conversation.reasoning_effort {
            Some(Effort::Low) => "",
            Some(Effort::Max) => texts::V4_EFFORT_MAX,
            None | Some(Effort::High | Effort::Xhigh) => texts::V4_EFFORT_HIGH,
        });
    }
    system_text(prompt, conversation);
    if renders_tools {
        prompt.tool_section(&conversation.tools, V4);
    }
    prompt.response_format(&conversation.response_format, V4);

    let messages: Vec<&Message> = conversation
        .messages
        .iter()
        .filter(|m| !matches!(m, Message::System { .. }))
        .collect();
    let keeps_reasoning = conversation.thinking_mode && renders_tools;
    let mut calls: &[ToolCall] = &[];
    let mut at = 0;
    while at < messages.len() {
        match messages[at] {
            Message::Assistant {
                content,
                reasoning_content,
                tool_calls,
                prefix,
            } => {
                prompt.token(SpecialToken::Assistant);
                let is_last = at + 1 == messages.len();
                assistant(
                    prompt,
                    Assistant {
                        content,
                        reasoning: reasoning_content.as_deref(),
                        calls: tool_calls.as_deref(),
                    },
                    *prefix,
                    keeps_reasoning,
                    conversation.thinking_mode,
                );
                if !(*prefix && is_last) {
                    prompt.token(SpecialToken::Eos);
                }
                calls = tool_calls.as_deref().unwrap_or(&[]);
                at += 1;
            }
            Message::LatestReminder { content } => {
                prompt.token(SpecialToken::LatestReminder);
                prompt.text(content);
                at += 1;
            }
            _ => {
                let in_turn =
                    |m: &&&Message| matches!(m, Message::User { .. } | Message::Tool { .. });
                let len = messages[at..].iter().take_while(in_turn).count();
                user_turns(prompt, &messages[at..at + len], calls);
                at += len;
            }
        }
    }
    let is_prefix = matches!(
        messages.last(),
        Some(Message::Assistant { prefix: true, .. })
    );
    if !is_prefix {
        generation_prompt(prompt, conversation, renders_tools);
    }
}

fn system_text(prompt: &mut Prompt<'_>, conversation: &Conversation) {
    let mut is_first = true;
    for message in &conversation.messages {
        let Message::System {
            content, images, ..
        } = message
        else {
            continue;
        };
        if content.is_empty() {
            continue;
        }
        if !is_first {
            prompt.text("\n\n");
        }
        is_first = false;
        prompt.content(content, images);
    }
}

/// A run of user and tool messages: results first, then the user text as one part. A result after user
/// text that already followed results begins a turn of its own.
fn user_turns(prompt: &mut Prompt<'_>, run: &[&Message], calls: &[ToolCall]) {
    let ordered: Vec<&Message> = order::turn_order(run, calls, ModelVersion::DeepseekV4Pro)
        .into_iter()
        .map(|at| run[at])
        .collect();
    let is_tool = |m: &Message| matches!(m, Message::Tool { .. });
    let mut rest = &ordered[..];
    while !rest.is_empty() {
        let (mut tools, mut users) = (0, 0);
        let mut len = 0;
        for message in rest {
            if is_tool(message) {
                if tools > 0 && users > 0 {
                    break;
                }
                tools += 1;
            } else {
                users += 1;
            }
            len += 1;
        }
        user_turn(prompt, &rest[..len]);
        rest = &rest[len..];
    }
}

fn user_turn(prompt: &mut Prompt<'_>, turn: &[&Message]) {
    prompt.token(SpecialToken::User);
    let mut has_part = false;
    for message in turn {
        if let Message::Tool {
            content, images, ..
        } = message
        {
            if has_part {
                prompt.text("\n\n");
            }
            has_part = true;
            prompt.text("<tool_result>");
            prompt.content(content, images);
            prompt.text("</tool_result>");
        }
    }
    let mut users = turn
        .iter()
        .filter(|m| matches!(m, Message::User { .. }))
        .peekable();
    if users.peek().is_some() && has_part {
        prompt.text("\n\n");
    }
    let mut has_text = false;
    for message in users {
        if let Message::User { content, images } = message {
            if content.is_empty() {
                continue;
            }
            if has_text {
                prompt.text("\n\n");
            }
            has_text = true;
            prompt.content(content, images);
        }
    }
}

struct Assistant<'a> {
    content: &'a str,
    reasoning: Option<&'a str>,
    calls: Option<&'a [ToolCall]>,
}

fn assistant(
    prompt: &mut Prompt<'_>,
    message: Assistant<'_>,
    is_prefix: bool,
    keeps_reasoning: bool,
    thinking: bool,
) {
    let reasoning = message.reasoning.unwrap_or("");
    if is_prefix && (thinking || !reasoning.is_empty()) {
        prompt.token(SpecialToken::ThinkingStart);
        prompt.text(reasoning);
        if !message.content.is_empty() || message.calls.is_some() {
            prompt.token(SpecialToken::ThinkingEnd);
        }
    } else {
        if keeps_reasoning {
            prompt.token(SpecialToken::ThinkingStart);
            prompt.text(reasoning);
        }
        prompt.token(SpecialToken::ThinkingEnd);
    }
    prompt.text(message.content);
    if let Some(calls) = message.calls {
        prompt.tool_calls(calls, V4);
    }
}

/// Opens the assistant turn to generate.
fn generation_prompt(prompt: &mut Prompt<'_>, conversation: &Conversation, renders_tools: bool) {
    prompt.token(SpecialToken::Assistant);
    prompt.token(if conversation.thinking_mode {
        SpecialToken::ThinkingStart
    } else {
        SpecialToken::ThinkingEnd
    });
    if renders_tools && conversation.tool_choice == ToolChoice::Required {
        prompt.open_calls(V4);
    }
}
