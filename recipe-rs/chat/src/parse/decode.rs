//! Token ids to pieces of text.
//!
//! Ordinary ids collect in a pending group until the bytes of the group end on a whole character;
//! an added token of the tokenizer is always a piece of its own. A piece therefore never holds a
//! partial character, and special tokens stay distinguishable from the same letters spelled out.

use std::sync::Arc;

use super::chunk::TokenLogprob;
use super::marker::Class;
use crate::tokenizer::Tokenizer;

/// What decoding needs of a tokenizer.
pub trait TokenSource: Send + Sync {
    /// Bytes of an ordinary or added token; `None` outside the vocabulary.
    fn token_bytes(&self, id: u32) -> Option<&[u8]>;
    /// Whether `id` is an entry of `added_tokens` (special or not).
    fn is_added(&self, id: u32) -> bool;
    /// Number of tokens of `text`, with the added vocabulary active.
    fn count_tokens(&self, text: &str) -> usize;
}

impl TokenSource for Tokenizer {
    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        Tokenizer::token_bytes(self, id)
    }

    fn is_added(&self, id: u32) -> bool {
        Tokenizer::is_added(self, id)
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.encode(text).map_or(0, |ids| ids.len())
    }
}

/// The tokens behind a piece, with their log probabilities; text and bytes are looked up when an
/// event is written out.
pub struct TokenText {
    /// Tokenizer that names the tokens.
    pub tokenizer: Arc<dyn TokenSource>,
    /// Token ids and their log probabilities.
    pub entries: Vec<(u32, TokenLogprob)>,
}

impl std::fmt::Debug for TokenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TokenText").field(&self.entries).finish()
    }
}

/// Log probabilities shared by all deltas that one piece gives.
pub type Logprobs = Option<Arc<TokenText>>;

/// A decoded piece: the unit that the parser holds, releases and turns into a delta.
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) class: Class,
    pub(crate) logprobs: Logprobs,
    /// Tokens to add to the completion count.
    pub(crate) tokens: u64,
}

/// Incremental decoder. The pending group survives chunk borders and is dropped at the end.
pub(crate) struct Decoder {
    tokenizer: Arc<dyn TokenSource>,
    bytes: Vec<u8>,
    num_ids: u64,
    /// Entries of the pending ids; `None` as soon as one of them came without log probabilities.
    entries: Option<Vec<(u32, TokenLogprob)>>,
}

impl Decoder {
    pub(crate) fn new(tokenizer: Arc<dyn TokenSource>) -> Self {
        Self {
            tokenizer,
            bytes: Vec::new(),
            num_ids: 0,
            entries: Some(Vec::new()),
        }
    }

    /// Decode one id; at most the pending group and the added token itself come out.
    pub(crate) fn push(&mut self, id: u32, logprob: Option<&TokenLogprob>) -> [Option<Piece>; 2] {
        if self.tokenizer.is_added(id) {
            // Pending ids without text join the piece of the added token.
            let textless = self.bytes.is_empty();
            let before = if textless { None } else { self.take_pending() };
            let tokens = 1 + std::mem::take(&mut self.num_ids);
            let entries = self.entries.replace(Vec::new());
            let entries = entries.zip(logprob).map(|(mut entries, logprob)| {
                entries.push((id, logprob.clone()));
                entries
            });
            let bytes = self.tokenizer.token_bytes(id).unwrap_or_default();
            let piece = Piece {
                text: String::from_utf8_lossy(bytes).into_owned(),
                class: Class::Special,
                logprobs: entries.map(|entries| self.share(entries)),
                tokens,
            };
            return [before, Some(piece)];
        }
        self.num_ids += 1;
        self.bytes
            .extend_from_slice(self.tokenizer.token_bytes(id).unwrap_or_default());
        match (logprob, &mut self.entries) {
            (Some(lp), Some(entries)) => entries.push((id, lp.clone())),
            (None, entries) => *entries = None,
            _ => {}
        }
        [None, None]
    }

    /// The pending group, if its text is not empty and ends on a whole character. Called at the end of a chunk.
    pub(crate) fn end_chunk(&mut self) -> Option<Piece> {
        if self.bytes.is_empty() || ends_in_replacement(&self.bytes) {
            return None;
        }
        self.take_pending()
    }

    /// Clear the pending group.
    fn take_pending(&mut self) -> Option<Piece> {
        if self.num_ids == 0 {
            return None;
        }
        let text = match String::from_utf8(std::mem::take(&mut self.bytes)) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        };
        let entries = self.entries.replace(Vec::new());
        let logprobs = entries.filter(|e| !e.is_empty()).map(|e| self.share(e));
        Some(Piece {
            text,
            class: Class::Ordinary,
            logprobs,
            tokens: std::mem::take(&mut self.num_ids),
        })
    }

    fn share(&self, entries: Vec<(u32, TokenLogprob)>) -> Arc<TokenText> {
        Arc::new(TokenText {
            tokenizer: Arc::clone(&self.tokenizer),
            entries,
        })
    }
}

/// Whether the lossy decoding of non-empty `bytes` ends with U+FFFD. Looks at the last four bytes only:
/// a lead byte always starts a new character, so what is before it cannot matter.
fn ends_in_replacement(bytes: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(4)..];
    let Some(lead) = tail.iter().rposition(|b| b & 0xC0 != 0x80) else {
        return true;
    };
    match std::str::from_utf8(&tail[lead..]) {
        Ok(text) => text.ends_with('\u{FFFD}'),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_check_agrees_with_lossy_decoding() {
        let alphabet = [0x41, 0x80, 0xBD, 0xBF, 0xC3, 0xE4, 0xEF, 0xF0, 0x9F, 0xFF];
        for n in 0..10usize.pow(5) {
            let bytes: Vec<u8> = (0..5).map(|i| alphabet[n / 10usize.pow(i) % 10]).collect();
            let lossy = String::from_utf8_lossy(&bytes).ends_with('\u{FFFD}');
            assert_eq!(ends_in_replacement(&bytes), lossy, "{bytes:x?}");
        }
    }
}
