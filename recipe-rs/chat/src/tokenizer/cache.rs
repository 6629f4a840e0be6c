//! A thread-safe, byte-bounded memory of words and their ids.
//!
//! Sharded by hash, so that threads seldom meet; each shard keeps two generations and forgets the
//! older one when the younger is full, which keeps what is in use without per-entry bookkeeping.

use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

const NUM_SHARDS: usize = 64;
/// Words longer than this are not remembered: they hardly repeat, and they would push others out.
const MAX_WORD_BYTES: usize = 256;
/// What an entry costs besides its word and ids: two boxes, the table slot, the allocator's headers.
const ENTRY_OVERHEAD_BYTES: usize = 96;

#[derive(Default)]
struct Shard {
    young: FxHashMap<Box<[u8]>, Box<[u32]>>,
    old: FxHashMap<Box<[u8]>, Box<[u32]>>,
    young_bytes: usize,
}

pub(super) struct WordCache {
    shards: Vec<Mutex<Shard>>,
    generation_bytes: usize,
}

impl WordCache {
    /// A cache that holds at most about `capacity_bytes`.
    pub(super) fn new(capacity_bytes: usize) -> Self {
        Self {
            shards: (0..NUM_SHARDS).map(|_| Mutex::default()).collect(),
            generation_bytes: capacity_bytes / NUM_SHARDS / 2,
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 58) as usize % NUM_SHARDS]
    }

    /// Append the ids of `word` if they are known. `hash` is any good hash of `word`.
    pub(super) fn get(&self, word: &[u8], hash: u64, out: &mut Vec<u32>) -> bool {
        if word.len() > MAX_WORD_BYTES {
            return false;
        }
        // Entries are inserted whole, so a shard left by a panicking thread is still consistent.
        let mut shard = self
            .shard(hash)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(ids) = shard.young.get(word) {
            out.extend_from_slice(ids);
            return true;
        }
        if let Some((word, ids)) = shard.old.remove_entry(word) {
            out.extend_from_slice(&ids);
            self.insert_into(&mut shard, word, ids);
            return true;
        }
        false
    }

    /// Remember the ids of `word`.
    pub(super) fn insert(&self, word: &[u8], hash: u64, ids: &[u32]) {
        if word.len() > MAX_WORD_BYTES {
            return;
        }
        let mut shard = self
            .shard(hash)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.insert_into(&mut shard, word.into(), ids.into());
    }

    fn insert_into(&self, shard: &mut Shard, word: Box<[u8]>, ids: Box<[u32]>) {
        let bytes = word.len() + 4 * ids.len() + ENTRY_OVERHEAD_BYTES;
        if shard.young_bytes + bytes > self.generation_bytes {
            shard.old = std::mem::take(&mut shard.young);
            shard.young_bytes = 0;
        }
        if shard.young.insert(word, ids).is_none() {
            shard.young_bytes += bytes;
        }
    }

    #[cfg(test)]
    fn counted_bytes(&self) -> usize {
        let weight = |map: &FxHashMap<Box<[u8]>, Box<[u32]>>| {
            map.iter()
                .map(|(word, ids)| word.len() + 4 * ids.len() + ENTRY_OVERHEAD_BYTES)
                .sum::<usize>()
        };
        self.shards
            .iter()
            .map(|shard| {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                weight(&shard.young) + weight(&shard.old)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn cache_stays_under_its_bound_and_keeps_what_is_in_use() {
        let cache = WordCache::new(1 << 20);
        let mut out = Vec::new();
        cache.insert(b"hot", hash(0), &[1, 2, 3]);
        for n in 1..200_000u64 {
            cache.insert(
                format!("word number {n}").as_bytes(),
                hash(n),
                &[n as u32; 9],
            );
            if n % 100 == 0 {
                out.clear();
                assert!(cache.get(b"hot", hash(0), &mut out), "{n}");
                assert_eq!(out, [1, 2, 3]);
            }
        }
        assert!(cache.counted_bytes() <= 1 << 20);
        assert!(!cache.get(b"word number 1", hash(1), &mut out));
        let long = vec![b'a'; MAX_WORD_BYTES + 1];
        cache.insert(&long, hash(5), &[7]);
        assert!(!cache.get(&long, hash(5), &mut out));
    }
}
