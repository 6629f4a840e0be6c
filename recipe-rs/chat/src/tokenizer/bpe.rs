//! Byte-pair merging of one word.
//!
//! The definition: start from the word's bytes; while some adjacent pair has a merge rule, apply the rule
//! of lowest rank, leftmost first. `docs/tokenizer.md` derives the steps from that to what runs here:
//! whole-word lookup, a bounded cache, a scan for short words, a queue for long ones.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU8, Ordering};

use super::byte_level::char_of_byte;
use super::cache::WordCache;
use super::error::TokenizerError;
use super::file::Model;
use super::vocab::{hash_bytes, WordTable, NONE};

/// Words up to this many bytes are merged by scanning for the lowest rank; longer ones by a queue.
const SCAN_MAX_BYTES: usize = 64;

/// Memory bound of the word cache.
const CACHE_BYTES: usize = 32 << 20;

// States of `Bpe::whole`.
const UNKNOWN: u8 = 0;
const REACHED: u8 = 1;
const NOT_REACHED: u8 = 2;

/// A merge rule: rank and resulting token.
#[derive(Clone, Copy)]
struct Rule {
    rank: u32,
    id: u32,
}

const NO_RULE: Rule = Rule {
    rank: NONE,
    id: NONE,
};

pub(super) struct Bpe {
    /// Token of each single byte, `NONE` where the vocabulary lacks it (such bytes vanish, as in `tokenizers`).
    byte_ids: [u32; 256],
    rules: FxHashMap<u64, Rule>,
    words: WordTable,
    /// `ignore_merges`: a word that is a token is that token, reached by merges or not.
    ignore_merges: bool,
    /// By token: whether merging its bytes gives the token itself. Found out on first use.
    whole: Vec<AtomicU8>,
    cache: WordCache,
}

#[inline(always)]
fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl Bpe {
    /// `vocab_size`: one more than the largest id.
    pub(super) fn new(
        model: &Model,
        words: WordTable,
        vocab_size: usize,
    ) -> Result<Self, TokenizerError> {
        let mut byte_ids = [NONE; 256];
        let mut missing = None;
        for byte in 0..=255u8 {
            let spelling = char_of_byte(byte).to_string();
            match model.vocab.0.get(&spelling) {
                Some(&id) => byte_ids[usize::from(byte)] = id,
                None => missing = Some(byte),
            }
        }
        if let Some(byte) = missing {
            if let Some(unk) = &model.unk_token {
                return Err(TokenizerError::unsupported(
                    "model.unk_token",
                    format!("unk_token {unk:?} with a vocabulary that lacks byte {byte:#04x}"),
                ));
            }
            if model.byte_fallback {
                return Err(TokenizerError::unsupported(
                    "model.byte_fallback",
                    format!("byte_fallback with a vocabulary that lacks byte {byte:#04x}"),
                ));
            }
        }
        let mut rules = FxHashMap::default();
        rules.reserve(model.merges.len());
        let mut spelling = String::new();
        for (rank, merge) in model.merges.iter().enumerate() {
            let find = |token: &str| {
                model.vocab.0.get(token).copied().ok_or_else(|| {
                    TokenizerError::invalid(
                        format!("model.merges[{rank}]"),
                        format!("token {token:?} is not in the vocabulary"),
                    )
                })
            };
            spelling.clear();
            spelling.push_str(&merge.0);
            spelling.push_str(&merge.1);
            let rule = Rule {
                rank: rank as u32,
                id: find(&spelling)?,
            };
            rules.insert(pair_key(find(&merge.0)?, find(&merge.1)?), rule);
        }
        Ok(Self {
            byte_ids,
            rules,
            words,
            ignore_merges: model.ignore_merges,
            whole: (0..vocab_size).map(|_| AtomicU8::new(UNKNOWN)).collect(),
            cache: WordCache::new(CACHE_BYTES),
        })
    }

    #[inline]
    fn rule(&self, left: u32, right: u32) -> Rule {
        self.rules
            .get(&pair_key(left, right))
            .copied()
            .unwrap_or(NO_RULE)
    }

    /// Append the ids of one pre-tokenized word. At most 4 GiB long.
    #[inline]
    pub(super) fn encode_word(&self, word: &[u8], out: &mut Vec<u32>) {
        if let [byte] = word {
            let id = self.byte_ids[usize::from(*byte)];
            if id != NONE {
                out.push(id);
            }
            return;
        }
        let hash = hash_bytes(word);
        if let Some(id) = self.words.get(word, hash) {
            if self.ignore_merges || self.is_reached(id, word) {
                out.push(id);
                return;
            }
        }
        if self.cache.get(word, hash, out) {
            return;
        }
        let start = out.len();
        self.merge_word(word, out);
        self.cache.insert(word, hash, &out[start..]);
    }

    /// Whether merging `word`, the bytes of token `id`, gives `[id]`.
    fn is_reached(&self, id: u32, word: &[u8]) -> bool {
        let Some(state) = self.whole.get(id as usize) else {
            return false;
        };
        match state.load(Ordering::Relaxed) {
            UNKNOWN => {
                let mut ids = Vec::new();
                self.merge_word(word, &mut ids);
                let reached = ids == [id];
                // Threads that race compute the same answer.
                let found = if reached { REACHED } else { NOT_REACHED };
                state.store(found, Ordering::Relaxed);
                reached
            }
            found => found == REACHED,
        }
    }

    /// Merge without any shortcut.
    fn merge_word(&self, word: &[u8], out: &mut Vec<u32>) {
        if word.len() <= SCAN_MAX_BYTES {
            self.merge_by_scan(word, out);
        } else {
            self.merge_by_queue(word, out);
        }
    }

    /// Quadratic, with everything on the stack: the fastest way for short words.
    fn merge_by_scan(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut ids = [0u32; SCAN_MAX_BYTES];
        let mut len = 0;
        for &byte in word {
            let id = self.byte_ids[usize::from(byte)];
            if id != NONE {
                ids[len] = id;
                len += 1;
            }
        }
        // rules[i] joins ids[i] and ids[i + 1].
        let mut rules = [NO_RULE; SCAN_MAX_BYTES];
        for i in 1..len {
            rules[i - 1] = self.rule(ids[i - 1], ids[i]);
        }
        while len > 1 {
            let mut at = 0;
            let mut rank = NONE;
            for (i, rule) in rules[..len - 1].iter().enumerate() {
                if rule.rank < rank {
                    rank = rule.rank;
                    at = i;
                }
            }
            if rank == NONE {
                break;
            }
            ids[at] = rules[at].id;
            ids.copy_within(at + 2..len, at + 1);
            rules.copy_within(at + 1..len - 1, at);
            len -= 1;
            rules[len - 1] = NO_RULE;
            if at + 1 < len {
                rules[at] = self.rule(ids[at], ids[at + 1]);
            }
            if at > 0 {
                rules[at - 1] = self.rule(ids[at - 1], ids[at]);
            }
        }
        out.extend_from_slice(&ids[..len]);
    }

    /// O(n log n): a queue of candidate merges over a linked list of symbols.
    fn merge_by_queue(&self, word: &[u8], out: &mut Vec<u32>) {
        #[derive(Clone, Copy)]
        struct Symbol {
            id: u32,
            prev: u32,
            next: u32,
            /// The rule that joins this symbol and the next.
            rule: Rule,
        }
        let mut symbols: Vec<Symbol> = word
            .iter()
            .map(|byte| self.byte_ids[usize::from(*byte)])
            .filter(|&id| id != NONE)
            .zip(0u32..)
            .map(|(id, at)| Symbol {
                id,
                prev: at.wrapping_sub(1),
                next: at + 1,
                rule: NO_RULE,
            })
            .collect();
        let Some(last) = symbols.last_mut() else {
            return;
        };
        last.next = NONE;
        let mut candidates = Vec::with_capacity(symbols.len());
        for at in 1..symbols.len() {
            let rule = self.rule(symbols[at - 1].id, symbols[at].id);
            symbols[at - 1].rule = rule;
            if rule.rank != NONE {
                candidates.push(Reverse((rule.rank, at as u32 - 1)));
            }
        }
        let mut queue = BinaryHeap::from(candidates);
        while let Some(Reverse((rank, at))) = queue.pop() {
            let Symbol {
                prev, next, rule, ..
            } = symbols[at as usize];
            // A symbol that was joined to its left, or whose pair changed since, has another rule now.
            if rule.rank != rank || next == NONE {
                continue;
            }
            let after = symbols[next as usize].next;
            symbols[next as usize].rule = NO_RULE;
            let joined = &mut symbols[at as usize];
            joined.id = rule.id;
            joined.next = after;
            joined.rule = NO_RULE;
            if after != NONE {
                symbols[after as usize].prev = at;
                let rule = self.rule(symbols[at as usize].id, symbols[after as usize].id);
                symbols[at as usize].rule = rule;
                if rule.rank != NONE {
                    queue.push(Reverse((rule.rank, at)));
                }
            }
            if prev != NONE {
                let rule = self.rule(symbols[prev as usize].id, symbols[at as usize].id);
                symbols[prev as usize].rule = rule;
                if rule.rank != NONE {
                    queue.push(Reverse((rule.rank, prev)));
                }
            }
        }
        let mut at = 0;
        while at != NONE {
            let symbol = symbols[at as usize];
            out.push(symbol.id);
            at = symbol.next;
        }
    }

    /// The definition, word for word: the reference of the tests.
    #[cfg(test)]
    pub(super) fn merge_by_definition(&self, word: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = word
            .iter()
            .map(|byte| self.byte_ids[usize::from(*byte)])
            .filter(|&id| id != NONE)
            .collect();
        loop {
            let best = (1..ids.len())
                .map(|i| (self.rule(ids[i - 1], ids[i]), i - 1))
                .filter(|(rule, _)| rule.rank != NONE)
                .min_by_key(|(rule, at)| (rule.rank, *at));
            let Some((rule, at)) = best else { return ids };
            ids.splice(at..at + 2, [rule.id]);
        }
    }

    #[cfg(test)]
    pub(super) fn merge_both_ways(&self, word: &[u8]) -> [Vec<u32>; 2] {
        let mut ways = [Vec::new(), Vec::new()];
        if word.len() <= SCAN_MAX_BYTES {
            self.merge_by_scan(word, &mut ways[0]);
        } else {
            self.merge_word(word, &mut ways[0]);
        }
        self.merge_by_queue(word, &mut ways[1]);
        ways
    }
}
