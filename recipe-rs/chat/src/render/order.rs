//! The order of tool results inside one user turn: that of the calls they answer.

use crate::conversation::{Message, ToolCall};
use crate::model::ModelVersion;

/// Indexes into `turn`, in the order to render it.
///
/// `calls` are those of the assistant message before. Results without an id stay where they are; results
/// of unknown ids count as answers to the first call. V4 orders calls by id, V4.1 leaves them as they are.
pub(super) fn turn_order(
    turn: &[&Message],
    calls: &[ToolCall],
    version: ModelVersion,
) -> Vec<usize> {
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
    let ranks = call_ranks(calls, version);
    let mut sorted = slots.clone();
    sorted.sort_by_key(|&at| answers(at).map(|call| ranks[call]));
    for (slot, at) in slots.into_iter().zip(sorted) {
        order[slot] = at;
    }
    order
}

/// Calls in the order to render them.
pub(super) fn call_order(calls: &[ToolCall], version: ModelVersion) -> Vec<&ToolCall> {
    let mut ordered: Vec<&ToolCall> = calls.iter().collect();
    if !version.is_v41() {
        ordered.sort_by(|a, b| a.id.cmp(&b.id));
    }
    ordered
}

/// For each call, its place in [`call_order`].
fn call_ranks(calls: &[ToolCall], version: ModelVersion) -> Vec<usize> {
    let mut by_place: Vec<usize> = (0..calls.len()).collect();
    if !version.is_v41() {
        by_place.sort_by(|&a, &b| calls[a].id.cmp(&calls[b].id));
    }
    let mut ranks = vec![0; calls.len()];
    for (rank, &call) in by_place.iter().enumerate() {
        ranks[call] = rank;
    }
    ranks
}
