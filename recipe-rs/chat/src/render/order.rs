//! The order of tool results: that of the calls they answer.

use crate::conversation::{Message, ToolCall};
use crate::model::ModelVersion;
use std::ops::Range;

/// Calls in the order to render them: V4 orders them by id, V4.1 leaves them as they are.
pub(super) fn call_order(calls: &[ToolCall], version: ModelVersion) -> Vec<&ToolCall> {
    let mut ordered: Vec<&ToolCall> = calls.iter().collect();
    if !version.is_v41() {
        ordered.sort_by(|a, b| a.id.cmp(&b.id));
    }
    ordered
}

/// V4: the entries of a conversation, with the results of each turn in the order of their call ids. An entry is one
/// message, or all user messages that stand side by side.
///
/// An assistant message with n calls is followed by n results; exactly the n entries behind it are ordered, or none
/// where fewer follow. In a conversation built by hand they need not be results: other entries move behind the
/// results. Places are those before any ordering, so that overlapping
/// stretches are ordered one after the other.
pub(super) fn v4_entries<'a, 'm>(messages: &'a [&'m Message]) -> Vec<&'a [&'m Message]> {
    let is_user = |at: usize| matches!(messages[at], Message::User { .. });
    let mut entries: Vec<Range<usize>> = Vec::with_capacity(messages.len());
    let mut stretches = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match entries.last_mut() {
            Some(last) if is_user(at) && is_user(last.start) => last.end = at + 1,
            _ => entries.push(at..at + 1),
        }
        if let Message::Assistant {
            tool_calls: Some(calls),
            ..
        } = message
        {
            stretches.push(entries.len()..entries.len() + calls.len());
        }
    }
    for stretch in stretches {
        if let Some(stretch) = entries.get_mut(stretch) {
            stretch.sort_by_key(|entry| match messages[entry.start] {
                Message::Tool { tool_call_id, .. } => (false, tool_call_id.as_deref()),
                _ => (true, None),
            });
        }
    }
    entries.into_iter().map(|entry| &messages[entry]).collect()
}

/// V4.1: indexes into a user turn, in the order to render it.
///
/// `calls` are those of the assistant message before. Results without an id stay where they are; results
/// of unknown ids count as answers to the first call.
pub(super) fn v41_turn_order(turn: &[&Message], calls: &[ToolCall]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..turn.len()).collect();
    let answers = |at: usize| match turn[at] {
        Message::Tool {
            tool_call_id: Some(id),
            ..
        } => Some(calls.iter().position(|call| call.id == *id).unwrap_or(0)),
        _ => None,
    };
    let slots: Vec<usize> = order
        .iter()
        .copied()
        .filter(|&at| answers(at).is_some())
        .collect();
    if calls.len() < 2 || slots.len() < 2 {
        return order;
    }
    let mut sorted = slots.clone();
    sorted.sort_by_key(|&at| answers(at));
    for (slot, at) in slots.into_iter().zip(sorted) {
        order[slot] = at;
    }
    order
}
