//! Prompts to token ids.
//!
//! The prompt is split at its special ranges: a range becomes the id of that added token; each stretch of
//! text between is encoded on its own, without any added vocabulary.

use crate::error::{ChatError, Result};
use crate::render::RenderedPrompt;
use crate::tokenizer::Tokenizer;

/// Encode a rendered prompt.
///
/// # Errors
/// [`ChatError::Encode`] naming a special token that the tokenizer does not have.
pub fn encode(rendered: &RenderedPrompt, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let mut ids = Vec::with_capacity(rendered.prompt.len() / 3);
    encode_into(rendered, tokenizer, &mut ids)?;
    Ok(ids)
}

/// As [`encode`], appending to `ids`, which may hold some of the ids when an error is returned.
///
/// # Errors
/// As [`encode`].
pub fn encode_into(
    rendered: &RenderedPrompt,
    tokenizer: &Tokenizer,
    ids: &mut Vec<u32>,
) -> Result<()> {
    let failed =
        |reason: String| ChatError::Encode(format!("failed to encode conversation: {reason}"));
    let text = &rendered.prompt;
    let mut from = 0;
    for range in &rendered.special_ranges {
        tokenizer
            .encode_ordinary_into(&text[from..range.bytes.start], ids)
            .map_err(|e| failed(e.to_string()))?;
        let spelling = &text[range.bytes.clone()];
        let id = tokenizer.special_id(spelling).ok_or_else(|| {
            failed(format!(
                "special token \"{spelling}\" is not in the added vocabulary"
            ))
        })?;
        ids.push(id);
        from = range.bytes.end;
    }
    tokenizer
        .encode_ordinary_into(&text[from..], ids)
        .map_err(|e| failed(e.to_string()))
}
