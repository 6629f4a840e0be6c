//! What the protocols share about thinking, sampling parameters and stop sequences.

use super::common::{ThinkingType, WireEffort};
use crate::conversation::Effort;
use crate::error::{ChatError, Result};
use crate::model::ModelVersion;
use crate::options::ConversionOptions;

const MAX_STOP_SEQUENCES: usize = 16;
const MAX_TOP_LOGPROBS: u8 = 20;

/// Thinking mode and effort of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thinking {
    pub(crate) on: bool,
    /// `None` while thinking is off.
    pub(crate) effort: Option<Effort>,
}

/// An explicit type decides; else an effort; else the option.
pub(crate) fn thinking(
    kind: Option<ThinkingType>,
    effort: Option<WireEffort>,
    options: &ConversionOptions,
) -> Thinking {
    let on = match (kind, effort) {
        (Some(ThinkingType::Disabled), _) => false,
        (Some(ThinkingType::Enabled | ThinkingType::Adaptive), _) => true,
        (None, Some(effort)) => effort != WireEffort::None,
        (None, None) => options.default_thinking_mode,
    };
    let effort = match effort {
        Some(WireEffort::Minimal | WireEffort::Low) => Effort::Low,
        Some(WireEffort::Xhigh) => Effort::Xhigh,
        Some(WireEffort::Ultra | WireEffort::Max) => Effort::Max,
        None | Some(WireEffort::None | WireEffort::Medium | WireEffort::High) => Effort::High,
    };
    Thinking {
        on,
        effort: on.then_some(effort),
    }
}

fn out_of_range(name: &str, range: &str) -> ChatError {
    ChatError::invalid(format!(
        "Invalid {name} value, the valid range of {name} is {range}"
    ))
}

/// The temperature to sample with; checked even where it has no effect.
pub(crate) fn temperature(requested: Option<f32>, thinking: bool) -> Result<f32> {
    if requested.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
        return Err(out_of_range("temperature", "[0, 2]"));
    }
    Ok(if thinking {
        1.0
    } else {
        requested.unwrap_or(1.0)
    })
}

/// The `top_p` to sample with; checked even where it has no effect.
pub(crate) fn top_p(
    requested: Option<f32>,
    version: ModelVersion,
    thinking: bool,
    has_tools: bool,
) -> Result<f32> {
    if requested.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
        return Err(out_of_range("top_p", "(0, 1.0]"));
    }
    let requested = requested.unwrap_or(1.0);
    Ok(match (version, thinking) {
        (ModelVersion::DeepseekV4Pro, false) => requested,
        (ModelVersion::DeepseekV4Pro, true) => {
            if has_tools {
                0.95
            } else {
                1.0
            }
        }
        (ModelVersion::DeepseekV41Flash, false) => 1.0,
        (ModelVersion::DeepseekV41Flash, true) => requested.max(0.95),
    })
}

/// Chat penalties: checked, without effect.
pub(crate) fn penalty(name: &str, requested: Option<f32>) -> Result<()> {
    match requested {
        Some(value) if !(-2.0..=2.0).contains(&value) => Err(out_of_range(name, "[-2, 2]")),
        _ => Ok(()),
    }
}

/// Alternatives per token.
pub(crate) fn top_logprobs(requested: Option<u8>) -> Result<()> {
    if requested.is_some_and(|n| n > MAX_TOP_LOGPROBS) {
        return Err(ChatError::invalid(
            "Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].",
        ));
    }
    Ok(())
}

/// The bound of `max_tokens` in force.
pub(crate) fn max_tokens_bound(options: &ConversionOptions, thinking: bool) -> u32 {
    if thinking {
        options.thinking_max_tokens_upper_bound
    } else {
        options.non_thinking_max_tokens_upper_bound
    }
}

/// The output limit; `clamps` lowers it to the bound where it would be refused.
pub(crate) fn max_tokens(requested: Option<u32>, bound: u32, clamps: bool) -> Result<Option<u32>> {
    match requested {
        Some(n) if clamps && n > bound => Ok(Some(bound)),
        Some(n) if n == 0 || n > bound => Err(out_of_range("max_tokens", &format!("[1, {bound}]"))),
        other => Ok(other),
    }
}

/// A list of stop sequences.
pub(crate) fn stop_sequences(list: Vec<String>) -> Result<Vec<String>> {
    if list.len() > MAX_STOP_SEQUENCES {
        return Err(ChatError::invalid(format!(
            "Stop string array too long: {}",
            list.len()
        )));
    }
    if let Some(at) = list.iter().position(String::is_empty) {
        return Err(super::tools::empty_string(&format!("stop[{at}]")));
    }
    Ok(list)
}

/// The model version that a requested name stands for.
pub(crate) fn model_version(model: &str, options: &ConversionOptions) -> Result<ModelVersion> {
    options
        .model_versions_by_name
        .get(model)
        .copied()
        .ok_or_else(|| {
            let names: Vec<&str> = options
                .model_versions_by_name
                .keys()
                .map(String::as_str)
                .collect();
            ChatError::invalid(format!(
                "The supported API model names are {}, but you passed {model}.",
                names.join(", ")
            ))
        })
}

/// Whether `text` holds the word that JSON mode asks for.
pub(crate) fn mentions_json(text: &str) -> bool {
    text.as_bytes()
        .windows(4)
        .any(|window| window.eq_ignore_ascii_case(b"json"))
}
