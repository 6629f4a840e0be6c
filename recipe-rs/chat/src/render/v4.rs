//! The V4 prompt: all system text first, then user and assistant turns.

use super::tools::V4;
use super::{order, Prompt};
use crate::conversation::{Conversation, Effort, Message, ToolChoice};
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
    let entries = order::v4_entries(&messages);
    let mut at = 0;
    while at < entries.len() {
        match entries[at] {
            [message @ Message::Assistant { prefix, .. }] => {
                prompt.token(SpecialToken::Assistant);
                assistant(prompt, message, renders_tools, conversation.thinking_mode);
                if !*prefix || at + 1 < entries.len() {
                    prompt.token(SpecialToken::Eos);
                }
                at += 1;
            }
            [Message::LatestReminder { content }] => {
                prompt.token(SpecialToken::LatestReminder);
                prompt.text(content);
                at += 1;
            }
            _ => at += user_turn(prompt, &entries[at..]),
        }
    }
    let is_prefix = matches!(
        entries.last(),
        Some([Message::Assistant { prefix: true, .. }])
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
        separate(prompt, !is_first);
        is_first = false;
        prompt.content(content, images);
    }
}

/// One turn: results, then user text; a result after user text begins the next turn. Returns how many entries
/// it took.
fn user_turn(prompt: &mut Prompt<'_>, entries: &[&[&Message]]) -> usize {
    prompt.token(SpecialToken::User);
    let mut has_text = false;
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            [Message::Tool {
                content, images, ..
            }] if !has_text => {
                separate(prompt, at > 0);
                prompt.text("<tool_result>");
                prompt.content(content, images);
                prompt.text("</tool_result>");
            }
            [Message::User { .. }, ..] => {
                separate(prompt, at > 0);
                user_text(prompt, entry);
                has_text = true;
            }
            _ => return at,
        }
    }
    entries.len()
}

/// User messages side by side: the texts that are not empty.
fn user_text(prompt: &mut Prompt<'_>, users: &[&Message]) {
    let mut has_text = false;
    for message in users {
        if let Message::User { content, images } = message {
            separate(prompt, has_text && !content.is_empty());
            has_text |= !content.is_empty();
            prompt.content(content, images);
        }
    }
}

fn separate(prompt: &mut Prompt<'_>, is_needed: bool) {
    if is_needed {
        prompt.text("\n\n");
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
