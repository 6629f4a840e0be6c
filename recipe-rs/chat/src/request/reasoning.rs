//! Reasoning content that history must carry in thinking mode.

use crate::conversation::Message;
use crate::error::{ChatError, Result};
use crate::options::{ConversionOptions, ReasoningContentBehavior};

/// Drop, fill or require the reasoning of assistant messages; returns how many non-empty ones were dropped.
///
/// `field` is how the protocol calls it; `lists_tools` whether the request names tools, whatever the choice.
pub(crate) fn settle(
    messages: &mut [Message],
    thinking: bool,
    lists_tools: bool,
    field: &str,
    options: &ConversionOptions,
) -> Result<usize> {
    if thinking && options.reasoning_content_behavior == ReasoningContentBehavior::Reject {
        require(messages, lists_tools, field)?;
    }
    let mut dropped = 0;
    for message in messages {
        if let Message::Assistant {
            reasoning_content, ..
        } = message
        {
            if thinking {
                reasoning_content.get_or_insert_with(String::new);
            } else {
                dropped += usize::from(
                    reasoning_content
                        .take()
                        .is_some_and(|text| !text.is_empty()),
                );
            }
        }
    }
    Ok(dropped)
}

fn require(messages: &[Message], lists_tools: bool, field: &str) -> Result<()> {
    let after_user = messages
        .iter()
        .rposition(|m| matches!(m, Message::User { .. }))
        .map_or(0, |at| at + 1);
    let is_missing = |message: &Message| match message {
        Message::Assistant {
            reasoning_content: None,
            tool_calls,
            ..
        } => tool_calls.is_some() || lists_tools,
        _ => false,
    };
    if messages[after_user..].iter().any(is_missing) {
        return Err(ChatError::invalid(format!(
            "The `{field}` in the thinking mode must be passed back to the API."
        )));
    }
    Ok(())
}
