//! A tokenizer's vocabulary, prepared once: token bytes, special tokens, the byte trie.
//!
//! Nothing here depends on a grammar. Masks of states that occur in many grammars (the inside of a JSON
//! string, digits, …) are kept here too, bounded in bytes, so that the next grammar finds them.

mod facts;
mod file;
mod tokenizer_json;
mod trie;

use std::sync::{Mutex, OnceLock};

use crate::error::{GrammarError, Result};
use crate::mask::SharedMasks;

pub use facts::TokenFacts;
pub use file::from_file;

pub use trie::Trie;
pub(crate) use trie::{kind_of, KINDS};

/// Token ids and their bytes, with everything about them that masks need.
#[derive(Debug)]
pub struct Vocabulary {
    /// Bytes of all ordinary tokens, one after the other by id; special tokens have none.
    pool: Vec<u8>,
    ends: Vec<u32>,
    special: Vec<bool>,
    eos: Vec<u32>,
    vocab_size: u32,
    trie: Trie,
    longest: u32,
    pub(crate) shared: Mutex<SharedMasks>,
    encoder: OnceLock<Encoder>,
    facts: OnceLock<TokenFacts>,
    summaries: OnceLock<Box<[u64]>>,
}

/// The tokenizer's own tokenisation of a text, for forced tokens.
type Encode = Box<dyn Fn(&str) -> Option<Vec<u32>> + Send + Sync>;

struct Encoder(Encode);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Vocabulary {
    /// Prepare a vocabulary.
    ///
    /// tokens: bytes of each id, in order; the bytes of special ids do not matter.
    /// special: ids that are matched by id only; ids in `eos` are special too.
    /// vocab_size: the padded width of the logits; at least the number of tokens.
    ///
    /// # Errors
    /// `Invalid` for ids out of range or a vocabulary that is larger than its padded size.
    pub fn new<T: AsRef<[u8]>>(
        tokens: &[T],
        special: &[u32],
        eos: &[u32],
        vocab_size: Option<u32>,
    ) -> Result<Self> {
        let count = tokens.len() as u32;
        let vocab_size = vocab_size.unwrap_or(count);
        if vocab_size < count {
            return Err(GrammarError::invalid(format!(
                "vocab_size {vocab_size} is below the number of tokens, {count}"
            )));
        }
        let mut is_special = vec![false; count as usize];
        for &id in special.iter().chain(eos) {
            match is_special.get_mut(id as usize) {
                Some(flag) => *flag = true,
                None => {
                    return Err(GrammarError::invalid(format!(
                        "token id {id} is outside the vocabulary of {count} tokens"
                    )))
                }
            }
        }
        let mut pool = Vec::new();
        let mut ends = Vec::with_capacity(count as usize);
        for (token, special) in tokens.iter().zip(&is_special) {
            if !special {
                pool.extend_from_slice(token.as_ref());
            }
            if pool.len() > u32::MAX as usize / 2 {
                return Err(GrammarError::invalid(
                    "the vocabulary's tokens are longer than 2 GB in all",
                ));
            }
            ends.push(pool.len() as u32);
        }
        let mut eos = eos.to_vec();
        eos.sort_unstable();
        eos.dedup();
        Ok(Self::prepare(pool, ends, is_special, eos, vocab_size, None))
    }

    fn prepare(
        pool: Vec<u8>,
        ends: Vec<u32>,
        special: Vec<bool>,
        eos: Vec<u32>,
        vocab_size: u32,
        trie: Option<Trie>,
    ) -> Self {
        let slice = |id: u32| -> &[u8] {
            let start = if id == 0 { 0 } else { ends[id as usize - 1] };
            &pool[start as usize..ends[id as usize] as usize]
        };
        let longest = (0..ends.len() as u32)
            .map(|id| slice(id).len())
            .max()
            .unwrap_or(0) as u32;
        let trie = trie.unwrap_or_else(|| {
            // Sort by the first eight bytes as a number, then by the rest: much cheaper than slices.
            let mut keyed: Vec<(u64, u32)> = (0..ends.len() as u32)
                .filter(|&id| !slice(id).is_empty())
                .map(|id| {
                    let s = slice(id);
                    let mut head = [0u8; 8];
                    let n = s.len().min(8);
                    head[..n].copy_from_slice(&s[..n]);
                    (u64::from_be_bytes(head), id)
                })
                .collect();
            keyed.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0)
                    .then_with(|| slice(a.1).cmp(slice(b.1)))
                    .then(a.1.cmp(&b.1))
            });
            Trie::from_sorted(keyed.iter().map(|&(_, id)| (slice(id), id)))
        });
        Vocabulary {
            pool,
            ends,
            special,
            eos,
            vocab_size,
            trie,
            longest,
            shared: Mutex::new(SharedMasks::default()),
            encoder: OnceLock::new(),
            facts: OnceLock::new(),
            summaries: OnceLock::new(),
        }
    }

    /// Bytes of a token; empty for special ones and for ids without a token.
    pub fn token(&self, id: u32) -> &[u8] {
        match self.ends.get(id as usize) {
            None => &[],
            Some(&end) => {
                let start = if id == 0 {
                    0
                } else {
                    self.ends[id as usize - 1]
                };
                &self.pool[start as usize..end as usize]
            }
        }
    }

    /// Whether a token is matched by id only.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// The ids that end a text, ascending.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// Number of tokens.
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Padded width of the logits.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Words of 32 bits in a bitmask row.
    pub fn words(&self) -> usize {
        (self.vocab_size as usize).div_ceil(32)
    }

    /// The ordinary tokens by their bytes.
    pub fn trie(&self) -> &Trie {
        &self.trie
    }

    /// Bytes of the longest token.
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// The kinds of characters below each node of the trie (see `trie::summaries`); made once.
    pub(crate) fn summaries(&self) -> &[u64] {
        self.summaries.get_or_init(|| trie::summaries(&self.trie))
    }

    /// What no token can do; looked up once.
    pub fn facts(&self) -> &TokenFacts {
        self.facts
            .get_or_init(|| TokenFacts::new((0..self.len()).map(|id| self.token(id))))
    }

    /// Bytes held, without shared masks.
    pub fn heap_bytes(&self) -> usize {
        self.pool.len() + self.ends.len() * 5 + self.trie.heap_bytes()
    }

    /// Say how the tokenizer itself tokenises text; only the first call counts.
    pub fn set_encoder(&self, encode: impl Fn(&str) -> Option<Vec<u32>> + Send + Sync + 'static) {
        let _ = self.encoder.set(Encoder(Box::new(encode)));
    }

    /// The tokenizer's own tokenisation, if it was said and takes the text.
    pub(crate) fn encode(&self, text: &str) -> Option<Vec<u32>> {
        self.encoder.get().and_then(|e| (e.0)(text))
    }

    /// Whether some token is longer than `text` and begins with it.
    pub(crate) fn is_inner_prefix(&self, text: &[u8]) -> bool {
        let trie = &self.trie;
        let (mut node, mut end) = (0usize, trie.len());
        for &byte in text {
            let mut child = node + 1;
            while child < end && trie.bytes[child] != byte {
                child = trie.ends[child] as usize;
            }
            if child >= end {
                return false;
            }
            (node, end) = (child, trie.ends[child] as usize);
        }
        end > node + 1
    }

    /// Tokens that spell `text` one after the other, each as long as possible; `None` when some byte
    /// starts no token that fits.
    pub fn spell(&self, text: &[u8]) -> Option<Vec<u32>> {
        let trie = &self.trie;
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let (mut node, mut end, mut best, mut pos) = (0usize, trie.len(), None, at);
            while pos < text.len() {
                let mut child = node + 1;
                while child < end && trie.bytes[child] != text[pos] {
                    child = trie.ends[child] as usize;
                }
                if child >= end {
                    break;
                }
                pos += 1;
                (node, end) = (child, trie.ends[child] as usize);
                if let Some(&id) = trie.ids_at(node).first() {
                    best = Some((id, pos));
                }
            }
            let (id, next) = best?;
            out.push(id);
            at = next;
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_takes_the_longest_token_first() {
        let v = Vocabulary::new(&["a", "b", "ab", "<s>"], &[3], &[], None).unwrap();
        assert_eq!(v.spell(b"abba"), Some(vec![2, 1, 0]));
        assert_eq!(v.spell(b"abc"), None);
        assert!(v.is_special(3) && v.token(3).is_empty());
    }
}
