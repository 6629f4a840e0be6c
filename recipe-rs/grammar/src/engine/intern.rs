//! Interning of short `u32` strings: equal content, equal id.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// A table of distinct `u32` strings, numbered in order of first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    pool: Vec<u32>,
    ends: Vec<u32>,
    table: HashTable<u32>,
}

fn hash(words: &[u32]) -> u64 {
    let mut h = FxHasher::default();
    h.write_usize(words.len());
    for &w in words {
        h.write_u32(w);
    }
    h.finish()
}

impl Interner {
    /// The id of `words`, new or known.
    pub(crate) fn intern(&mut self, words: &[u32]) -> u32 {
        let h = hash(words);
        let (pool, ends) = (&self.pool, &self.ends);
        let slice = |id: u32| span(pool, ends, id);
        if let Some(&id) = self.table.find(h, |&id| slice(id) == words) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.pool.extend_from_slice(words);
        self.ends.push(self.pool.len() as u32);
        let (pool, ends) = (&self.pool, &self.ends);
        self.table
            .insert_unique(h, id, |&id| hash(span(pool, ends, id)));
        id
    }

    /// The id of `words`, if it is known.
    pub(crate) fn find(&self, words: &[u32]) -> Option<u32> {
        let (pool, ends) = (&self.pool, &self.ends);
        self.table
            .find(hash(words), |&id| span(pool, ends, id) == words)
            .copied()
    }

    /// The content of an id.
    pub(crate) fn get(&self, id: u32) -> &[u32] {
        span(&self.pool, &self.ends, id)
    }

    /// Number of strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes held, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.pool.capacity() * 4 + self.ends.capacity() * 4 + self.table.capacity() * 5
    }
}

fn span<'a>(pool: &'a [u32], ends: &[u32], id: u32) -> &'a [u32] {
    let start = if id == 0 { 0 } else { ends[id as usize - 1] };
    &pool[start as usize..ends[id as usize] as usize]
}
