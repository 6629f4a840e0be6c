//! Byte-level BPE: text to token ids and back, with the ids of Hugging Face `tokenizers`.
//!
//! Reads a `tokenizer.json`; knows nothing of conversations. Two vocabularies live in a file: the BPE
//! model's, which spells any text, and the *added* tokens, which stand for roles and markers.
//! [`Tokenizer::encode`] matches added tokens in the text; prompts go through
//! [`Tokenizer::encode_prompt`], where only the ranges that the renderer wrote become added tokens, so
//! content can never forge one. Ids of added tokens are always read from the file.
//!
//! `docs/tokenizer.md` explains how the fast path follows from the simple one.

mod added;
mod bpe;
mod byte_level;
mod cache;
mod error;
mod file;
mod incremental;
mod pretokenize;
mod vocab;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use added::{AddedVocabulary, Stretch};
use bpe::Bpe;
use file::TokenizerFile;
use pretokenize::PreTokenizer;
use vocab::{TokenBytes, WordTable};

pub use error::TokenizerError;
pub use incremental::IncrementalEncoder;

/// A byte-level BPE tokenizer. Cheap to clone; clones share vocabulary and cache.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    added: AddedVocabulary,
    pre_tokenizer: PreTokenizer,
    bpe: Bpe,
    tokens: TokenBytes,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("pre_tokenizer", &self.0.pre_tokenizer)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Load a `tokenizer.json` file.
    ///
    /// # Errors
    /// As [`Tokenizer::from_bytes`], and `Io` when the file cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|source| TokenizerError::Io {
            path: path.display().to_string(),
            source,
        })?;
        Self::from_bytes(&json)
    }

    /// Load the contents of a `tokenizer.json` file.
    ///
    /// # Errors
    /// As [`Tokenizer::from_bytes`].
    #[allow(clippy::should_implement_trait)] // the name that `deepseek_recipe` gives it
    pub fn from_str(json: &str) -> Result<Self, TokenizerError> {
        Self::from_bytes(json.as_bytes())
    }

    /// Load the contents of a `tokenizer.json` file.
    ///
    /// # Errors
    /// `Json` for text that is not such a file, `Unsupported` for what byte-level BPE does not do
    /// (other models, normalizers, pre-tokenizers), `Invalid` for a file that contradicts itself.
    pub fn from_bytes(json: &[u8]) -> Result<Self, TokenizerError> {
        let file = TokenizerFile::parse(json)?;
        let pre_tokenizer = PreTokenizer::from_json(file.pre_tokenizer.as_ref())?;
        let added = AddedVocabulary::new(&file.added_tokens)?;
        let mut words = WordTable::with_capacity(file.model.vocab.0.len());
        let tokens = vocab::token_bytes(&file, &added, &mut words)?;
        let bpe = Bpe::new(&file.model, words, tokens.len())?;
        Ok(Self(Arc::new(Inner {
            added,
            pre_tokenizer,
            bpe,
            tokens,
        })))
    }

    /// Encode with the full vocabulary: spellings of added tokens in `text` become those tokens.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_ordinary_into`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::with_capacity(text.len() / 3);
        self.0.added.split(text, &mut |stretch| match stretch {
            Stretch::Token(id) => {
                out.push(id);
                Ok(())
            }
            Stretch::Text(text) => self.encode_ordinary_into(text, &mut out),
        })?;
        Ok(out)
    }

    /// Encode without the added vocabulary: every character of `text` is plain text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_ordinary_into`].
    pub fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::with_capacity(text.len() / 3);
        self.encode_ordinary_into(text, &mut out)?;
        Ok(out)
    }

    /// As [`Tokenizer::encode_ordinary`], appending to `out`.
    ///
    /// # Errors
    /// `TooLong` from 4 GiB on; `Pattern` when a file's own (not built-in) pre-tokenizer pattern exceeds
    /// its backtracking limit. `out` may then hold some ids.
    pub fn encode_ordinary_into(
        &self,
        text: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        if u32::try_from(text.len()).is_err() {
            return Err(TokenizerError::TooLong { len: text.len() });
        }
        let bpe = &self.0.bpe;
        self.0
            .pre_tokenizer
            .split(text, |word| bpe.encode_word(word.as_bytes(), out))
    }

    /// Encode a rendered prompt: each of `special_ranges` (byte ranges, ascending and disjoint) is the
    /// spelling of one added token; each stretch of text between them is plain text, encoded on its own.
    ///
    /// # Errors
    /// `MissingSpecial` for a spelling that is not an added token, `BadRange`, and those of
    /// [`Tokenizer::encode_ordinary_into`].
    pub fn encode_prompt(
        &self,
        prompt: &str,
        special_ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::with_capacity(prompt.len() / 3);
        self.encode_prompt_into(prompt, special_ranges, &mut out)?;
        Ok(out)
    }

    /// As [`Tokenizer::encode_prompt`], appending to `out`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_prompt`]. `out` may then hold some ids.
    pub fn encode_prompt_into(
        &self,
        prompt: &str,
        special_ranges: impl IntoIterator<Item = Range<usize>>,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut done = 0;
        for range in special_ranges {
            let bad = || TokenizerError::BadRange {
                range: range.clone(),
            };
            let text = prompt.get(done..range.start).ok_or_else(bad)?;
            let spelling = prompt.get(range.clone()).ok_or_else(bad)?;
            self.encode_ordinary_into(text, out)?;
            out.push(self.require_special(spelling)?);
            done = range.end;
        }
        self.encode_ordinary_into(&prompt[done..], out)
    }

    /// The words that BPE works on, in order; together they are `text`.
    ///
    /// # Errors
    /// `Pattern`, as [`Tokenizer::encode_ordinary_into`].
    pub fn pre_tokenize<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, TokenizerError> {
        let mut words = Vec::new();
        self.0.pre_tokenizer.split(text, |word| words.push(word))?;
        Ok(words)
    }

    /// Id of the added token with exactly this spelling.
    #[must_use]
    pub fn special_id(&self, spelling: &str) -> Option<u32> {
        self.0.added.id(spelling)
    }

    fn require_special(&self, spelling: &str) -> Result<u32, TokenizerError> {
        self.special_id(spelling)
            .ok_or_else(|| TokenizerError::MissingSpecial {
                spelling: spelling.to_owned(),
            })
    }

    /// Whether the id is an entry of the file's `added_tokens` (marked special or not).
    #[must_use]
    #[inline]
    pub fn is_added(&self, id: u32) -> bool {
        self.0.tokens.is_added(id)
    }

    /// The added tokens as (spelling, id), by ascending id.
    #[must_use]
    pub fn added_tokens(&self) -> Vec<(&str, u32)> {
        let mut tokens: Vec<_> = self.0.added.iter().collect();
        tokens.sort_unstable_by_key(|(_, id)| *id);
        tokens
    }

    /// Bytes that the token stands for (an added token: its spelling); `None` outside the vocabulary.
    #[must_use]
    #[inline]
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.0.tokens.get(id)
    }

    /// Decode ids to text. Runs of ordinary tokens are joined as bytes, each maximal invalid UTF-8
    /// subpart becoming U+FFFD; added tokens stand for their spelling and end a run; ids outside the
    /// vocabulary decode to nothing.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut text = String::new();
        let mut pending = Vec::new();
        for &id in ids {
            let Some(bytes) = self.token_bytes(id) else {
                continue;
            };
            if self.is_added(id) {
                text.push_str(&String::from_utf8_lossy(&pending));
                pending.clear();
                text.push_str(&String::from_utf8_lossy(bytes));
            } else {
                pending.extend_from_slice(bytes);
            }
        }
        text.push_str(&String::from_utf8_lossy(&pending));
        text
    }

    /// One more than the largest token id, added tokens included.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.0.tokens.len()
    }

    /// Whether the file's pre-tokenizer is one of the built-in scanners (linear time, cannot fail).
    #[must_use]
    pub fn has_fast_pre_tokenizer(&self) -> bool {
        self.0.pre_tokenizer.is_fast()
    }
}

#[cfg(test)]
mod tests;
