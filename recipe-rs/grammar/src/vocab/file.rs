//! A prepared vocabulary as one block of bytes, for a cache file: little-endian arrays behind a header.

use std::io;
use std::path::Path;

use super::{Trie, Vocabulary};
use crate::error::{GrammarError, Result};

const MAGIC: &[u8; 8] = b"OFFSKVC1";

fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend((words.len() as u64).to_le_bytes());
    for w in words {
        out.extend(w.to_le_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.0.len() {
            return Err(GrammarError::invalid("the vocabulary cache is cut short"));
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    fn number(&mut self) -> Result<usize> {
        let bytes = self.take(8)?;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word) as usize)
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let n = self.number()?;
        Ok(self.take(n)?.to_vec())
    }

    fn words(&mut self) -> Result<Vec<u32>> {
        let n = self.number()?;
        let bytes = self.take(
            n.checked_mul(4)
                .ok_or_else(|| GrammarError::invalid("bad vocabulary cache"))?,
        )?;
        Ok(bytes
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect())
    }
}

impl Vocabulary {
    /// Everything needed to have the vocabulary back without the tokenizer file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(&mut out, &[self.vocab_size]);
        put(&mut out, &self.eos);
        put(&mut out, &self.ends);
        put(&mut out, &self.trie.ends);
        put(&mut out, &self.trie.starts);
        put(&mut out, &self.trie.order);
        let special: Vec<u8> = self.special.iter().map(|&s| u8::from(s)).collect();
        for block in [&special, &self.trie.bytes, &self.pool] {
            out.extend((block.len() as u64).to_le_bytes());
            out.extend_from_slice(block);
        }
        out.extend(checksum(&out).to_le_bytes());
        out
    }

    /// The vocabulary that [`Vocabulary::to_bytes`] wrote.
    ///
    /// # Errors
    /// `Invalid` when the block is damaged or of another version.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        let damaged =
            || GrammarError::invalid("the vocabulary cache is damaged or of another version");
        if data.len() < 16 || &data[..8] != MAGIC {
            return Err(damaged());
        }
        let (body, sum) = data.split_at(data.len() - 8);
        if checksum(body).to_le_bytes() != sum {
            return Err(damaged());
        }
        let mut r = Reader(&body[8..]);
        let vocab_size = r.words()?.first().copied().ok_or_else(damaged)?;
        let (eos, ends) = (r.words()?, r.words()?);
        let (trie_ends, starts, order) = (r.words()?, r.words()?, r.words()?);
        let special: Vec<bool> = r.bytes()?.into_iter().map(|b| b != 0).collect();
        let (bytes, pool) = (r.bytes()?, r.bytes()?);
        let count = ends.len();
        let fine = special.len() == count
            && vocab_size as usize >= count
            && ends.last().copied().unwrap_or(0) as usize == pool.len()
            && ends.windows(2).all(|w| w[0] <= w[1])
            && bytes.len() == trie_ends.len()
            && starts.len() == bytes.len() + 1
            && starts.windows(2).all(|w| w[0] <= w[1])
            && starts.last().copied().unwrap_or(0) as usize == order.len()
            && trie_ends
                .iter()
                .enumerate()
                .all(|(i, &e)| e as usize > i && e as usize <= bytes.len())
            && order.iter().chain(&eos).all(|&id| (id as usize) < count);
        if !fine {
            return Err(damaged());
        }
        let trie = Trie {
            bytes,
            ends: trie_ends,
            starts,
            order,
        };
        Ok(Self::prepare(
            pool,
            ends,
            special,
            eos,
            vocab_size,
            Some(trie),
        ))
    }
}

/// Read a `tokenizer.json`. With `cache` (a directory), the prepared vocabulary is kept there under a name
/// made of the file's content and the arguments, and read back the next time; a damaged or unwritable
/// cache is ignored.
///
/// # Errors
/// The outer result: the file cannot be read. The inner one: as [`Vocabulary::from_tokenizer_json`].
pub fn from_file(
    path: &Path,
    eos: &[u32],
    vocab_size: Option<u32>,
    cache: Option<&Path>,
) -> io::Result<Result<Vocabulary>> {
    let data = std::fs::read(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display())))?;
    let kept = cache.map(|dir| {
        let mut key = checksum(&data);
        for word in eos
            .iter()
            .copied()
            .chain([u32::MAX, vocab_size.unwrap_or(0)])
        {
            key = (key ^ u64::from(word))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(29);
        }
        dir.join(format!("vocabulary-{key:016x}-{}.bin", data.len()))
    });
    if let Some(known) = kept.as_ref().and_then(|p| std::fs::read(p).ok()) {
        if let Ok(vocab) = Vocabulary::from_bytes(&known) {
            return Ok(Ok(vocab));
        }
    }
    let Ok(text) = std::str::from_utf8(&data) else {
        return Ok(Err(GrammarError::invalid(format!(
            "{} is not UTF-8 text",
            path.display()
        ))));
    };
    let made = Vocabulary::from_tokenizer_json(text, eos, vocab_size);
    if let (Ok(vocab), Some(to)) = (&made, &kept) {
        // Written beside and renamed, so that a reader never sees half a file.
        let beside = to.with_extension(format!("{}.tmp", std::process::id()));
        let written = to
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&beside, vocab.to_bytes()))
            .and_then(|()| std::fs::rename(&beside, to));
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
    }
    Ok(made)
}

/// FNV-1a over words: quick, and enough against truncation and stray writes.
fn checksum(data: &[u8]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64 ^ data.len() as u64;
    for chunk in data.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = (h ^ u64::from_le_bytes(word))
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29);
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_survives_its_cache() {
        let v = Vocabulary::new(&["a", "", "abc", "</s>", "b"], &[], &[3], Some(40)).unwrap();
        let data = v.to_bytes();
        let w = Vocabulary::from_bytes(&data).unwrap();
        assert_eq!(
            (w.token(2), w.eos(), w.vocab_size()),
            (&b"abc"[..], &[3u32][..], 40)
        );
        assert_eq!(w.trie().bytes, v.trie().bytes);
        for cut in [0, 7, data.len() / 2, data.len() - 1] {
            assert!(Vocabulary::from_bytes(&data[..cut]).is_err());
        }
        let mut bad = data.clone();
        bad[20] ^= 1;
        assert!(Vocabulary::from_bytes(&bad).is_err());
    }
}
