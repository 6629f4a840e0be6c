//! Warnings that only conversion can give: they depend on the model version and on thinking.

use super::warnings::{Warning, IMAGE_UNSEEN};
use crate::conversation::{Conversation, Message};
use crate::model::ModelVersion;

/// Requested sampling values.
pub(crate) struct Requested {
    pub(crate) temperature: Option<f32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) tool_choice_given: bool,
}

/// Append what has no effect on this conversation.
pub(crate) fn warn(
    warnings: &mut Vec<Warning>,
    conversation: &Conversation,
    version: ModelVersion,
    requested: &Requested,
    used_top_p: f32,
    dropped_reasoning: usize,
) {
    if conversation.thinking_mode && requested.temperature.is_some_and(|t| t != 1.0) {
        warnings.push(Warning::new(
            "/temperature",
            "temperature is always 1 in thinking mode",
        ));
    }
    if requested.top_p.is_some_and(|p| p != used_top_p) {
        warnings.push(Warning::new(
            "/top_p",
            format!("this model and mode sample with top_p {used_top_p}"),
        ));
    }
    if requested.tool_choice_given && conversation.tools.is_empty() {
        warnings.push(Warning::new(
            "/tool_choice",
            "no tools are shown to the model",
        ));
    }
    let keeps_reasoning = conversation.thinking_mode && conversation.renders_tools();
    let reasoning = conversation.messages.iter().filter(|message| {
        matches!(message, Message::Assistant { reasoning_content: Some(text), prefix: false, .. } if !text.is_empty())
    });
    let unused = dropped_reasoning
        + if keeps_reasoning {
            0
        } else {
            reasoning.count()
        };
    if unused > 0 {
        let reason = "reasoning of history is shown only in thinking mode with tools";
        warnings.push(Warning::new(
            "/messages",
            format!("{unused} assistant messages: {reason}"),
        ));
    }
    if version.is_v41() {
        warnings.retain(|warning| warning.reason != IMAGE_UNSEEN);
        let is_reminder = |message: &Message| matches!(message, Message::LatestReminder { .. });
        let lost = conversation
            .messages
            .windows(2)
            .filter(|pair| pair.iter().all(is_reminder))
            .count();
        if lost > 0 {
            warnings.push(Warning::new(
                "/messages",
                format!("of adjacent reminders only the first is shown; {lost} lost"),
            ));
        }
    }
}
