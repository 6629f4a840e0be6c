//! Unicode general categories of every code point, as bit sets, in a two-level table.
//!
//! The tables come from `regex-syntax` (Unicode 16), which agree code point by code point with the
//! Oniguruma that `tokenizers` is built with; `tests/unit/recipe/test_tokenizer.py` checks that.

use regex_syntax::hir::{Class, HirKind};
use std::sync::LazyLock;

/// Letter (`\p{L}`).
pub(super) const L: u8 = 1;
/// Mark (`\p{M}`).
pub(super) const M: u8 = 2;
/// Number (`\p{N}`).
pub(super) const N: u8 = 4;
/// Punctuation (`\p{P}`).
pub(super) const P: u8 = 8;
/// Symbol (`\p{S}`).
pub(super) const S: u8 = 16;
/// White space (`\s`).
pub(super) const W: u8 = 32;
/// CR or LF.
pub(super) const NL: u8 = 64;
/// `[一-龥぀-ゟ゠-ヿ]`: the Han and kana range of the DeepSeek pre-tokenizer.
pub(super) const CJK: u8 = 128;

/// Bit sets by code point: `blocks[index[c >> 8]][c & 255]`.
pub(super) struct Classes {
    index: Vec<u8>,
    blocks: Vec<[u8; 256]>,
}

/// The table, built on first use (a few milliseconds).
pub(super) static CLASSES: LazyLock<Classes> = LazyLock::new(Classes::build);

impl Classes {
    fn build() -> Self {
        let mut flat = vec![0u8; 0x11_0000];
        let patterns = [
            (r"\p{L}", L),
            (r"\p{M}", M),
            (r"\p{N}", N),
            (r"\p{P}", P),
            (r"\p{S}", S),
            (r"\s", W),
            (r"[\r\n]", NL),
            ("[一-龥぀-ゟ゠-ヿ]", CJK),
        ];
        for (pattern, bit) in patterns {
            let hir = regex_syntax::parse(pattern).expect("constant pattern");
            let HirKind::Class(Class::Unicode(class)) = hir.kind() else {
                unreachable!("{pattern} is a class of more than one character");
            };
            for range in class.ranges() {
                for slot in &mut flat[range.start() as usize..=range.end() as usize] {
                    *slot |= bit;
                }
            }
        }
        let mut index = Vec::with_capacity(0x1100);
        let mut blocks: Vec<[u8; 256]> = Vec::new();
        for chunk in flat.chunks_exact(256) {
            // Block 0 stays Latin-1, so that ASCII needs no index.
            let known = blocks.iter().position(|block| block == chunk);
            let at = known.unwrap_or_else(|| {
                blocks.push(chunk.try_into().expect("chunks of 256"));
                blocks.len() - 1
            });
            index.push(u8::try_from(at).expect("fewer than 256 distinct blocks"));
        }
        Self { index, blocks }
    }

    /// Bit set of an ASCII byte.
    #[inline(always)]
    pub(super) fn of_ascii(&self, byte: u8) -> u8 {
        self.blocks[0][usize::from(byte)]
    }

    /// Bit set of a character.
    #[inline(always)]
    pub(super) fn of(&self, c: char) -> u8 {
        let c = c as usize;
        self.blocks[usize::from(self.index[c >> 8])][c & 255]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fused scanner relies on these (see `deepseek.rs`).
    #[test]
    fn categories_are_disjoint_where_the_scanner_needs_it() {
        for c in '\0'..=char::MAX {
            let class = CLASSES.of(c);
            assert!((class & (L | M | N | P | S)).count_ones() <= 1, "{c:?}");
            assert!(class & W == 0 || class & (L | M | N | P | S) == 0, "{c:?}");
            assert!(class & CJK == 0 || class & N == 0, "{c:?}");
            assert_eq!(class & NL != 0, c == '\r' || c == '\n');
            if c.is_ascii() {
                assert_eq!(class & (P | S) != 0, c.is_ascii_punctuation(), "{c:?}");
                assert_eq!(class & L != 0, c.is_ascii_alphabetic(), "{c:?}");
                assert_eq!(class, CLASSES.of_ascii(c as u8));
            }
        }
    }
}
