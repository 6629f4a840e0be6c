//! Prompts to token ids.
//!
//! The prompt is split at its special ranges: a range becomes the id of that added token; each stretch of
//! text between is encoded on its own, without any added vocabulary.

use crate::error::{ChatError, Result};
use crate::render::RenderedPrompt;

/// What encoding needs from a tokenizer.
pub trait PromptTokenizer {
    /// Append the ids of plain text, encoded without added vocabulary.
    ///
    /// # Errors
    /// A message, when the text cannot be encoded.
    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) -> std::result::Result<(), String>;

    /// The id of an added token.
    fn special_id(&self, spelling: &str) -> Option<u32>;
}

/// Encode a rendered prompt.
///
/// # Errors
/// [`ChatError::Encode`] naming a special token that the tokenizer does not have.
pub fn encode(rendered: &RenderedPrompt, tokenizer: &impl PromptTokenizer) -> Result<Vec<u32>> {
    let text = &rendered.prompt;
    let mut ids = Vec::with_capacity(text.len() / 3 + rendered.special_ranges.len());
    let failed =
        |reason: String| ChatError::Encode(format!("failed to encode conversation: {reason}"));
    let mut from = 0;
    for range in &rendered.special_ranges {
        encode_stretch(&text[from..range.bytes.start], tokenizer, &mut ids).map_err(failed)?;
        let spelling = &text[range.bytes.clone()];
        let id = tokenizer.special_id(spelling).ok_or_else(|| {
            failed(format!(
                "special token {spelling:?} is not in the added vocabulary"
            ))
        })?;
        ids.push(id);
        from = range.bytes.end;
    }
    encode_stretch(&text[from..], tokenizer, &mut ids).map_err(failed)?;
    Ok(ids)
}

fn encode_stretch(
    text: &str,
    tokenizer: &impl PromptTokenizer,
    ids: &mut Vec<u32>,
) -> std::result::Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    tokenizer.encode_text(text, ids)
}
