//! The slow twin: the definition of a mask, kept as the reference of all fast paths.

use crate::engine::{ConfigId, Engine, DEAD};
use crate::error::Result;
use crate::vocab::Vocabulary;

/// Every allowed token, by stepping the bytes of each one alone: no trie, no memo, no slices.
///
/// # Errors
/// As [`Engine::step`].
pub fn naive_mask(engine: &mut Engine, config: ConfigId, vocab: &Vocabulary) -> Result<Vec<u32>> {
    let mut row = vec![0u32; vocab.words()];
    for id in 0..vocab.len() {
        let bytes = vocab.token(id);
        if bytes.is_empty() {
            continue;
        }
        let mut at = config;
        for &byte in bytes {
            at = engine.step(at, byte)?;
            if at == DEAD {
                break;
            }
        }
        if at != DEAD {
            super::set(&mut row, id);
        }
    }
    for id in engine.specials(config) {
        super::set(&mut row, id);
    }
    if engine.is_accepting(config) {
        for &id in vocab.eos() {
            super::set(&mut row, id);
        }
    }
    Ok(row)
}
