//! The BPE vocabulary: token id ↔ bytes.

use rustc_hash::FxHashMap;

use super::added::AddedVocabulary;
use super::byte_level::ByteAlphabet;
use super::error::TokenizerError;
use super::file::TokenizerFile;

/// "No such token".
pub(super) const NONE: u32 = u32::MAX;

/// Hash of a word, good in all bits: used by the word table and the cache.
#[inline]
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    #[inline(always)]
    fn mix(a: u64, b: u64) -> u64 {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ ((wide >> 64) as u64)
    }
    let mut h = K ^ (bytes.len() as u64);
    let mut rest = bytes;
    while let [a, b, c, d, e, f, g, i, tail @ ..] = rest {
        h = mix(
            h ^ u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *i]),
            K | 1,
        );
        rest = tail;
    }
    let mut last = 0u64;
    for &b in rest {
        last = (last << 8) | u64::from(b);
    }
    mix(h ^ last, 0xD6E8_FEB8_6659_FD93)
}

/// Bytes of every token, in one arena.
pub(super) struct TokenBytes {
    arena: Vec<u8>,
    /// `(start, len)` in the arena by id; `len` is `NONE` where an id has no token.
    spans: Vec<(u32, u32)>,
    added: Vec<bool>,
}

impl TokenBytes {
    /// Bytes of a token; `None` outside the vocabulary.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let &(start, len) = self.spans.get(id as usize)?;
        if len == NONE {
            return None;
        }
        self.arena
            .get(start as usize..start as usize + len as usize)
    }

    /// Whether the id belongs to an added token.
    #[inline]
    pub(super) fn is_added(&self, id: u32) -> bool {
        self.added.get(id as usize).copied().unwrap_or(false)
    }

    /// One more than the largest id.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    fn set(&mut self, id: u32, bytes: &[u8]) {
        let id = id as usize;
        if self.spans.len() <= id {
            self.spans.resize(id + 1, (0, NONE));
            self.added.resize(id + 1, false);
        }
        self.spans[id] = (self.arena.len() as u32, bytes.len() as u32);
        self.arena.extend_from_slice(bytes);
    }
}

/// Largest id accepted: far above any real vocabulary, small enough that a bad file cannot ask for gigabytes.
const MAX_ID: u32 = 1 << 24;

/// Read the vocabulary of `file`; `added` gives added tokens their literal spelling as bytes.
pub(super) fn token_bytes(
    file: &TokenizerFile,
    added: &AddedVocabulary,
    words: &mut WordTable,
) -> Result<TokenBytes, TokenizerError> {
    let alphabet = ByteAlphabet::new();
    let mut tokens = TokenBytes {
        arena: Vec::new(),
        spans: Vec::new(),
        added: Vec::new(),
    };
    let mut owner: FxHashMap<u32, &str> = FxHashMap::default();
    let mut bytes = Vec::new();
    for (spelling, &id) in &file.model.vocab.0 {
        let part = || format!("model.vocab[{spelling:?}]");
        if id > MAX_ID {
            return Err(TokenizerError::invalid(
                part(),
                format!("id {id} is too large"),
            ));
        }
        if let Some(other) = owner.insert(id, spelling) {
            return Err(TokenizerError::invalid(
                part(),
                format!("id {id} also belongs to {other:?}"),
            ));
        }
        bytes.clear();
        if alphabet.push_bytes(spelling, &mut bytes) {
            tokens.set(id, &bytes);
            words.insert(&bytes, id);
        } else {
            tokens.set(id, spelling.as_bytes());
        }
    }
    for (content, id) in added.iter() {
        let part = || format!("added_tokens[{content:?}]");
        if id > MAX_ID {
            return Err(TokenizerError::invalid(
                part(),
                format!("id {id} is too large"),
            ));
        }
        if let Some(&own) = file.model.vocab.0.get(content).filter(|&&own| own != id) {
            return Err(TokenizerError::invalid(
                part(),
                format!("id {id} differs from the vocabulary's {own}"),
            ));
        }
        if let Some(other) = owner.insert(id, content).filter(|other| *other != content) {
            return Err(TokenizerError::invalid(
                part(),
                format!("id {id} also belongs to {other:?}"),
            ));
        }
        tokens.set(id, content.as_bytes());
        tokens.added[id as usize] = true;
    }
    Ok(tokens)
}

/// Open-addressing table from a token's bytes to its id.
pub(super) struct WordTable {
    /// `(tag, entry)`; `entry` is `NONE` in empty slots. Length is a power of two, at most half full.
    slots: Vec<(u32, u32)>,
    entries: Vec<Entry>,
    arena: Vec<u8>,
}

struct Entry {
    start: u32,
    len: u32,
    id: u32,
}

impl WordTable {
    pub(super) fn with_capacity(num_words: usize) -> Self {
        let len = (num_words.max(8) * 2).next_power_of_two();
        Self {
            slots: vec![(0, NONE); len],
            entries: Vec::with_capacity(num_words),
            arena: Vec::new(),
        }
    }

    /// Add a word that is not in the table yet; at most as many as the capacity given.
    fn insert(&mut self, bytes: &[u8], id: u32) {
        let hash = hash_bytes(bytes);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = ((hash >> 32) as u32, self.entries.len() as u32);
        self.entries.push(Entry {
            start: self.arena.len() as u32,
            len: bytes.len() as u32,
            id,
        });
        self.arena.extend_from_slice(bytes);
    }

    /// Id of the token that is exactly `word`, if there is one; `hash` is its [`hash_bytes`].
    #[inline]
    pub(super) fn get(&self, word: &[u8], hash: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let tag = (hash >> 32) as u32;
        let mut at = hash as usize & mask;
        loop {
            let (found, entry) = self.slots[at];
            if entry == NONE {
                return None;
            }
            if found == tag {
                let entry = &self.entries[entry as usize];
                let start = entry.start as usize;
                if self.arena[start..start + entry.len as usize] == *word {
                    return Some(entry.id);
                }
            }
            at = (at + 1) & mask;
        }
    }
}
