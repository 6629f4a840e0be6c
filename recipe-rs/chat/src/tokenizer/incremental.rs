//! Encoding a conversation that grows: only what changed since the last call is encoded.
//!
//! Special ranges cut a prompt into stretches, and each stretch is encoded on its own, so the ids of a
//! prompt are the ids of its stretches one after another. Ids of a stretch depend on nothing but its
//! text. The encoder therefore remembers the last prompt with its stretches and ids, keeps the leading
//! stretches that are byte for byte the same, looks the others up among the old ones by content, and
//! encodes what is left. It compares text, never positions or message numbers: an edit anywhere simply
//! ends the equal prefix.

use rustc_hash::FxHashMap;
use std::ops::Range;

use super::vocab::hash_bytes;
use super::{Tokenizer, TokenizerError};

/// A special token or the text up to the next one; a prompt is a list of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    is_special: bool,
    end_byte: usize,
    end_id: usize,
}

/// Remembers one prompt and its ids; see the module.
#[derive(Debug, Clone)]
pub struct IncrementalEncoder {
    tokenizer: Tokenizer,
    prompt: String,
    stretches: Vec<Stretch>,
    ids: Vec<u32>,
    num_reused_ids: usize,
}

impl IncrementalEncoder {
    /// An encoder that remembers nothing yet.
    #[must_use]
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            prompt: String::new(),
            stretches: Vec::new(),
            ids: Vec::new(),
            num_reused_ids: 0,
        }
    }

    /// The ids of a rendered prompt: always those of [`Tokenizer::encode_prompt`].
    ///
    /// # Errors
    /// As [`Tokenizer::encode_prompt`]; the encoder then remembers nothing.
    pub fn encode(
        &mut self,
        prompt: &str,
        special_ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<&[u32], TokenizerError> {
        let result = self.update(prompt, special_ranges.into_iter());
        if let Err(error) = result {
            self.clear();
            return Err(error);
        }
        Ok(&self.ids)
    }

    /// How many leading or looked-up ids of the last prompt came from the one before.
    #[must_use]
    pub fn num_reused_ids(&self) -> usize {
        self.num_reused_ids
    }

    /// The tokenizer in use.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Forget the remembered prompt.
    pub fn clear(&mut self) {
        self.prompt.clear();
        self.stretches.clear();
        self.ids.clear();
        self.num_reused_ids = 0;
    }

    fn update(
        &mut self,
        prompt: &str,
        special_ranges: impl Iterator<Item = Range<usize>>,
    ) -> Result<(), TokenizerError> {
        let common = common_prefix(self.prompt.as_bytes(), prompt.as_bytes());
        let mut plan = Plan {
            encoder: self,
            prompt,
            common,
            num_kept: 0,
            old: None,
        };
        let mut done = 0;
        for range in special_ranges {
            // Also refuses ranges that are reversed, overlap or split a character.
            if prompt.get(done..range.start).is_none() || prompt.get(range.clone()).is_none() {
                return Err(TokenizerError::BadRange { range });
            }
            plan.stretch(done..range.start, false)?;
            done = range.end;
            plan.stretch(range, true)?;
        }
        plan.stretch(done..prompt.len(), false)?;
        plan.finish();
        Ok(())
    }
}

/// One update: stretches of the new prompt arrive in order.
struct Plan<'e, 'p> {
    encoder: &'e mut IncrementalEncoder,
    prompt: &'p str,
    /// Bytes that the old and the new prompt share at the start.
    common: usize,
    /// Leading stretches known to be the old ones.
    num_kept: usize,
    /// What was behind them, once the first new stretch has come.
    old: Option<Old>,
}

/// The old prompt behind the kept stretches, by content.
struct Old {
    ids: Vec<u32>,
    text: String,
    /// Hash of a text stretch to its byte and id ranges in `text` and `ids`.
    by_hash: FxHashMap<u64, (Range<usize>, Range<usize>)>,
}

impl Plan<'_, '_> {
    fn stretch(&mut self, bytes: Range<usize>, is_special: bool) -> Result<(), TokenizerError> {
        if bytes.is_empty() && !is_special {
            return Ok(());
        }
        if self.old.is_none() {
            let old = self.encoder.stretches.get(self.num_kept);
            let same = old.is_some_and(|old| {
                old.is_special == is_special
                    && old.end_byte == bytes.end
                    && bytes.end <= self.common
            });
            if same {
                self.num_kept += 1;
                return Ok(());
            }
            self.old = Some(self.detach_old());
        }
        let text = &self.prompt[bytes.clone()];
        let encoder = &mut *self.encoder;
        if is_special {
            let id = encoder.tokenizer.require_special(text)?;
            encoder.ids.push(id);
        } else {
            let known = self.old.as_ref().and_then(|old| old.find(text));
            match known {
                Some(ids) => {
                    encoder.ids.extend_from_slice(ids);
                    encoder.num_reused_ids += ids.len();
                }
                None => encoder
                    .tokenizer
                    .encode_ordinary_into(text, &mut encoder.ids)?,
            }
        }
        encoder.stretches.push(Stretch {
            is_special,
            end_byte: bytes.end,
            end_id: encoder.ids.len(),
        });
        Ok(())
    }

    /// Cut the remembered prompt behind the kept stretches.
    fn detach_old(&mut self) -> Old {
        let encoder = &mut *self.encoder;
        let (byte, id) = match self.num_kept.checked_sub(1) {
            Some(last) => {
                let last = encoder.stretches[last];
                (last.end_byte, last.end_id)
            }
            None => (0, 0),
        };
        let mut old = Old {
            ids: encoder.ids.split_off(id),
            text: encoder.prompt.split_off(byte),
            by_hash: FxHashMap::default(),
        };
        let (mut start_byte, mut start_id) = (byte, id);
        for stretch in encoder.stretches.drain(self.num_kept..) {
            if !stretch.is_special {
                let bytes = start_byte - byte..stretch.end_byte - byte;
                let ids = start_id - id..stretch.end_id - id;
                let hash = hash_bytes(&old.text.as_bytes()[bytes.clone()]);
                old.by_hash.insert(hash, (bytes, ids));
            }
            (start_byte, start_id) = (stretch.end_byte, stretch.end_id);
        }
        encoder.num_reused_ids = id;
        old
    }

    fn finish(mut self) {
        if self.old.is_none() {
            // Nothing new: the old prompt, or a prefix of it.
            self.detach_old();
        }
        let known = self.encoder.prompt.len();
        self.encoder.prompt.push_str(&self.prompt[known..]);
    }
}

impl Old {
    /// Ids of a stretch with exactly this text.
    fn find(&self, text: &str) -> Option<&[u32]> {
        if self.by_hash.is_empty() {
            return None;
        }
        let (bytes, ids) = self.by_hash.get(&hash_bytes(text.as_bytes()))?;
        (self.text[bytes.clone()] == *text).then(|| &self.ids[ids.clone()])
    }
}

/// Length of the longest common prefix.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let len = a.len().min(b.len());
    let mut at = 0;
    while at + BLOCK <= len && a[at..at + BLOCK] == b[at..at + BLOCK] {
        at += BLOCK;
    }
    let rest = std::iter::zip(&a[at..len], &b[at..len]);
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // prompts with a single special range
mod tests {
    use super::super::tests::{load, tiny};
    use super::*;
    use serde_json::json;

    fn encoder() -> IncrementalEncoder {
        let added = json!([{"id": 300, "content": "<t>"}, {"id": 301, "content": "<u>"}]);
        IncrementalEncoder::new(load(&tiny(&[("a", "b"), ("ab", "c"), ("c", "c")], added)).unwrap())
    }

    /// Every `<t>` and `<u>` that follows a `!` is special.
    fn ranges(prompt: &str) -> Vec<Range<usize>> {
        prompt
            .match_indices('!')
            .map(|(at, _)| at + 1..at + 4)
            .filter(|range| matches!(prompt.get(range.clone()), Some("<t>" | "<u>")))
            .collect()
    }

    #[test]
    fn random_edits_give_the_ids_of_encoding_from_scratch() {
        let mut seed = 0x5EED_CAFEu64;
        let mut below = move |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % n as u64) as usize
        };
        const PIECES: [&str; 9] = ["ab", "abc", "cc", " ", "!<t>", "!<u>", "<t>", "é", "世"];
        let mut encoder = encoder();
        let mut parts: Vec<&str> = Vec::new();
        let mut reused = 0;
        for _ in 0..20_000 {
            match below(10) {
                0 if !parts.is_empty() => {
                    parts.remove(below(parts.len()));
                }
                1 if !parts.is_empty() => {
                    let at = below(parts.len());
                    parts[at] = PIECES[below(PIECES.len())];
                }
                2 => parts.insert(below(parts.len() + 1), PIECES[below(PIECES.len())]),
                3 => parts.truncate(below(parts.len() + 1)),
                4 => parts.clear(),
                _ => parts.extend((0..below(6)).map(|_| PIECES[below(PIECES.len())])),
            }
            let prompt = parts.concat();
            let ranges = ranges(&prompt);
            let expected = encoder
                .tokenizer
                .encode_prompt(&prompt, ranges.clone())
                .unwrap();
            assert_eq!(
                encoder.encode(&prompt, ranges).unwrap(),
                expected,
                "{prompt}"
            );
            assert!(encoder.num_reused_ids() <= expected.len());
            reused += encoder.num_reused_ids();
        }
        assert!(reused > 100_000, "{reused}");
    }

    #[test]
    fn grown_prompt_reuses_everything_before_the_new_stretch() {
        let mut encoder = encoder();
        encoder.encode("!<t>abc abc!<u>cc", [1..4, 12..15]).unwrap();
        assert_eq!(encoder.num_reused_ids(), 0);
        encoder
            .encode("!<t>abc abc!<u>cc!<t>ab", [1..4, 12..15, 18..21])
            .unwrap();
        let head = encoder
            .tokenizer
            .encode_prompt("!<t>abc abc!<u>", [1..4, 12..15])
            .unwrap();
        assert_eq!(encoder.num_reused_ids(), head.len());
    }

    #[test]
    fn stretch_behind_an_edit_is_found_again_by_its_text() {
        let mut encoder = encoder();
        encoder.encode("cc!<t>abc abc abc", [3..6]).unwrap();
        encoder.encode("cc cc!<t>abc abc abc", [6..9]).unwrap();
        let tail = encoder.tokenizer.encode_ordinary("abc abc abc").unwrap();
        assert_eq!(encoder.num_reused_ids(), tail.len());
    }

    #[test]
    fn same_text_under_other_ranges_is_not_mistaken() {
        let mut encoder = encoder();
        for ranges in [vec![0..3], vec![], vec![3..6], vec![0..3, 3..6]] {
            let expected = encoder
                .tokenizer
                .encode_prompt("<t><t>", ranges.clone())
                .unwrap();
            assert_eq!(encoder.encode("<t><t>", ranges).unwrap(), expected);
        }
    }

    #[test]
    fn failed_call_leaves_an_encoder_that_works() {
        let mut encoder = encoder();
        encoder.encode("ab<t>cc", [2..5]).unwrap();
        assert!(encoder.encode("ab<t>ccab", [2..5, 5..7]).is_err());
        assert!(encoder.encode("ab<t>ccab", [2..50]).is_err());
        let expected = encoder.tokenizer.encode_prompt("ab<t>cc", [2..5]).unwrap();
        assert_eq!(encoder.encode("ab<t>cc", [2..5]).unwrap(), expected);
        assert_eq!(encoder.num_reused_ids(), 0);
    }
}
