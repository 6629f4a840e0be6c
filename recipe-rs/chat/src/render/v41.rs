//! The V4.1 prompt: system messages stay where they stand, tools can be revealed later.

use super::tools::{has_format_text, V41};
use super::{order, Prompt};
use crate::conversation::{Conversation, Effort, Message, ToolCall, ToolChoice, ToolDefinition};
use crate::special::SpecialToken;
use crate::texts;

pub(super) fn render(prompt: &mut Prompt<'_>, conversation: &Conversation) {
    prompt.token(SpecialToken::Bos);
    let messages = &conversation.messages[opening(prompt, conversation)..];
    let keeps_reasoning = conversation.thinking_mode && conversation.renders_tools();
    let mut calls: &[ToolCall] = &[];
    let mut at = 0;
    while at < messages.len() {
        match &messages[at] {
            Message::System {
                content,
                images,
                tools,
            } => {
                prompt.token(SpecialToken::System);
                prompt.content(content, images);
                revealed(prompt, tools.as_deref());
                at += 1;
            }
            Message::LatestReminder { content } => {
                prompt.token(SpecialToken::LatestReminder);
                prompt.text(content);
                // Of adjacent reminders only the first reaches the prompt.
                at += messages[at..]
                    .iter()
                    .take_while(|m| matches!(m, Message::LatestReminder { .. }))
                    .count();
            }
            Message::Assistant {
                content,
                reasoning_content,
                tool_calls,
                prefix,
            } => {
                prompt.token(SpecialToken::Assistant);
                let reasoning = reasoning_content.as_deref().unwrap_or("");
                if *prefix {
                    let is_first = at == 0 && messages.len() == conversation.messages.len();
                    let drops_reasoning =
                        is_first && !conversation.renders_tools() && !has_format_text(conversation);
                    let thinking = conversation.thinking_mode && !drops_reasoning;
                    let has_calls = tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
                    prefix_text(prompt, content, reasoning, thinking, has_calls);
                } else {
                    let end = prompt.special.get(SpecialToken::ThinkingEnd);
                    if keeps_reasoning && !(reasoning.is_empty() && end.is_empty()) {
                        prompt.token(SpecialToken::ThinkingStart);
                        prompt.text(reasoning);
                    }
                    prompt.token(SpecialToken::ThinkingEnd);
                    prompt.text(content);
                }
                // Results may stand behind later messages without calls.
                if let Some(made) = tool_calls.as_deref().filter(|made| !made.is_empty()) {
                    calls = made;
                    prompt.tool_calls(made, V41);
                }
                if !prefix {
                    prompt.token(SpecialToken::Eos);
                }
                at += 1;
            }
            Message::User { .. } | Message::Tool { .. } => {
                let in_turn =
                    |m: &&Message| matches!(m, Message::User { .. } | Message::Tool { .. });
                let turn: Vec<&Message> = messages[at..].iter().take_while(in_turn).collect();
                user_turn(prompt, &turn, calls);
                at += turn.len();
            }
        }
    }
    let is_prefix = matches!(
        messages.last(),
        Some(Message::Assistant { prefix: true, .. })
    );
    generation_prompt(prompt, conversation, is_prefix);
}

/// The opening system block; returns how many messages it took in.
fn opening(prompt: &mut Prompt<'_>, conversation: &Conversation) -> usize {
    let renders_tools = conversation.renders_tools();
    let first = match conversation.messages.first() {
        Some(Message::System {
            content,
            images,
            tools,
        }) => Some((content, images, tools)),
        _ => None,
    };
    let has_effort = conversation.thinking_mode && !conversation.messages.is_empty();
    if first.is_none() && !has_effort && !renders_tools && !has_format_text(conversation) {
        return 0;
    }
    prompt.token(SpecialToken::System);
    if conversation.thinking_mode {
        let effort = match conversation.reasoning_effort {
            Some(Effort::Low) => "50",
            Some(Effort::Max) => "100",
            None | Some(Effort::High | Effort::Xhigh) => "75",
        };
        prompt.text(texts::V41_EFFORT[0]);
        prompt.text(effort);
        prompt.text(texts::V41_EFFORT[1]);
    }
    if let Some((content, images, _)) = first {
        prompt.content(content, images);
    }
    if renders_tools {
        prompt.tool_section(&conversation.tools, V41);
    }
    prompt.response_format(&conversation.response_format, V41);
    match first {
        Some((_, _, tools)) => {
            revealed(prompt, tools.as_deref());
            1
        }
        None => 0,
    }
}

fn revealed(prompt: &mut Prompt<'_>, tools: Option<&[ToolDefinition]>) {
    if let Some(tools) = tools.filter(|tools| !tools.is_empty()) {
        prompt.tool_update(tools, V41);
    }
}

fn user_turn(prompt: &mut Prompt<'_>, turn: &[&Message], calls: &[ToolCall]) {
    prompt.token(SpecialToken::User);
    for (i, at) in order::v41_turn_order(turn, calls).into_iter().enumerate() {
        if i > 0 {
            prompt.text("\n\n");
        }
        match turn[at] {
            Message::Tool {
                content, images, ..
            } => {
                prompt.text("<tool_result>");
                prompt.content(content, images);
                prompt.text("</tool_result>");
            }
            Message::User { content, images } => prompt.content(content, images),
            _ => {}
        }
    }
}

fn prefix_text(
    prompt: &mut Prompt<'_>,
    content: &str,
    reasoning: &str,
    thinking: bool,
    has_calls: bool,
) {
    if !thinking {
        prompt.token(SpecialToken::ThinkingEnd);
        prompt.text(content);
        return;
    }
    prompt.token(SpecialToken::ThinkingStart);
    prompt.text(reasoning);
    if !content.is_empty() || has_calls {
        prompt.token(SpecialToken::ThinkingEnd);
        prompt.text(content);
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
        prompt.open_calls(V41);
    }
}
