//! Reasoning content that history must carry in thinking mode.

use crate::conversation::Message;
use crate::error::{ChatError, Result};
use crate::options::{ConversionOptions, ReasoningContentBehavior};

/// Where the options say so, refuse history after the last user message whose reasoning was not sent back.
///
/// `field` is how the protocol calls it; `lists_tools` whether the request names tools, whatever the choice.
pub(crate) fn require<'m>(
    messages: impl Iterator<Item = &'m Message>,
    thinking: bool,
    lists_tools: bool,
    field: &str,
    options: &ConversionOptions,
) -> Result<()> {
    if !thinking || options.reasoning_content_behavior != ReasoningContentBehavior::Reject {
        return Ok(());
    }
    let mut is_missing = false;
    for message in messages {
        match message {
            Message::User { .. } => is_missing = false,
            Message::Assistant {
                reasoning_content: None,
                tool_calls,
                ..
            } => {
                is_missing |= tool_calls.is_some() || lists_tools;
            }
            _ => {}
        }
    }
    if is_missing {
        return Err(ChatError::invalid(format!(
            "The `{field}` in the thinking mode must be passed back to the API."
        )));
    }
    Ok(())
}

/// Fill in missing reasoning while thinking, else drop it; returns how many non-empty ones were dropped.
pub(crate) fn settle(messages: &mut [Message], thinking: bool) -> usize {
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
    dropped
}
