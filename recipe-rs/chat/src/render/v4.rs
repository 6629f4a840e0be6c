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
    let mut calls: &[ToolCall] = &[];
    let mut at = 0;
    while at < messages.len() {
        match messages[at] {
            message @ Message::Assistant {
                tool_calls, prefix, ..
            } => {
                prompt.token(SpecialToken::Assistant);
                assistant(prompt, message, renders_tools, conversation.thinking_mode);
                if !*prefix || at + 1 < messages.len() {
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
    generation_prompt(prompt, conversation, is_prefix);
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

/// A run of user and tool messages: turns of results followed by user text. A result after user text
/// begins the next turn.
fn user_turns(prompt: &mut Prompt<'_>, run: &[&Message], calls: &[ToolCall]) {
    let order = order::turn_order(run, calls, ModelVersion::DeepseekV4Pro);
    let ordered: Vec<&Message> = order.into_iter().map(|at| run[at]).collect();
    let is_tool = |m: &&Message| matches!(m, Message::Tool { .. });
    let mut rest = &ordered[..];
    while !rest.is_empty() {
        let tools = rest.iter().copied().take_while(is_tool).count();
        let users = rest[tools..]
            .iter()
            .copied()
            .take_while(|m| !is_tool(m))
            .count();
        user_turn(prompt, &rest[..tools + users]);
        rest = &rest[tools + users..];
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

/// What follows the assistant token of a message of the history, up to its end token.
fn assistant(prompt: &mut Prompt<'_>, message: &Message, renders_tools: bool, thinking: bool) {
    let Message::Assistant {
        content,
        reasoning_content,
        tool_calls,
        prefix,
    } = message
    else {
        return;
    };
    if let Some(reasoning) = reasoning_content
        .as_deref()
        .filter(|_| *prefix || renders_tools)
    {
        prompt.token(SpecialToken::ThinkingStart);
        prompt.text(reasoning);
    }
    // A prefix without content ends inside the reasoning.
    if !*prefix || !thinking || !content.is_empty() {
        prompt.token(SpecialToken::ThinkingEnd);
    }
    prompt.text(content);
    if let Some(calls) = tool_calls {
        prompt.tool_calls(calls, V4);
    }
}

/// Opens the assistant turn to generate, unless a prefix did.
fn generation_prompt(prompt: &mut Prompt<'_>, conversation: &Conversation, is_prefix: bool) {
    if !is_prefix {
        prompt.token(SpecialToken::Assistant);
        let is_thinking = conversation.thinking_mode;
        prompt.token(if is_thinking {
            SpecialToken::ThinkingStart
        } else {
            SpecialToken::ThinkingEnd
        });
    }
    if conversation.renders_tools() && conversation.tool_choice == ToolChoice::Required {
        prompt.open_calls(V4);
    }
}
