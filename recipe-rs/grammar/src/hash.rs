//! Structural 128-bit hashes, the keys of hash-consing and of caches shared between grammars.
//!
//! Seeded once per process, so that nobody can prepare collisions.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

/// A structural hash, equal for equal structures within one process.
pub type Fingerprint = u128;

fn seeds() -> (u64, u64) {
    static SEEDS: OnceLock<(u64, u64)> = OnceLock::new();
    *SEEDS.get_or_init(|| {
        let draw = || {
            std::collections::hash_map::RandomState::new()
                .build_hasher()
                .finish()
                | 1
        };
        (draw(), draw())
    })
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let m = (a as u128).wrapping_mul(b as u128);
    (m as u64) ^ (m >> 64) as u64
}

/// Combine a tag and two values into one hash; not symmetric.
#[inline]
pub fn mix(tag: u64, a: Fingerprint, b: Fingerprint) -> Fingerprint {
    let (s, t) = seeds();
    let (a0, a1, b0, b1) = (a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64);
    let x = fold(a0 ^ s, b0 ^ 0x9E37_79B9_7F4A_7C15 ^ tag);
    let y = fold(a1 ^ t, b1 ^ 0xC2B2_AE3D_27D4_EB4F ^ tag.rotate_left(32));
    let low = fold(x ^ t.rotate_left(17), y ^ 0xD6E8_FEB8_6659_FD93);
    let high = fold(
        x.rotate_left(29) ^ y ^ s,
        0xA076_1D64_78BD_642F ^ y.rotate_left(11),
    );
    (high as u128) << 64 | low as u128
}

/// Hash of a string of bytes.
pub fn of_bytes(tag: u64, bytes: &[u8]) -> Fingerprint {
    let mut h = mix(tag, bytes.len() as u128, 0);
    for chunk in bytes.chunks(16) {
        let mut word = [0u8; 16];
        word[..chunk.len()].copy_from_slice(chunk);
        h = mix(tag, h, u128::from_le_bytes(word));
    }
    h
}
