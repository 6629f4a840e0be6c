//! From a configuration to the set of tokens that may come next.
//!
//! The definition is one line: a token is allowed when stepping its bytes leads to a configuration that
//! is not dead ([`naive`]). Everything else here is about doing that once for many tokens, and once for
//! many configurations; `docs/masks.md` derives it step by step.
//!
//! * `walk`: depth first over the trie, dead subtrees skipped.
//! * `local`: what a frame allows *on its own*, whatever lies below it, plus the rests of tokens that
//!   run over its end. Shared between configurations and, by fingerprint, between grammars.
//! * `units`: the same for loops over characters, without walking the vocabulary again.
//! * `memo`: finished masks by configuration, bounded in bytes.

mod local;
mod memo;
mod naive;
mod units;
mod walk;

use std::sync::Arc;

pub(crate) use local::Local;
pub(crate) use memo::{Memo, SharedMasks};
pub use naive::naive_mask;

/// The tokens one thread allows: what its top frame allows by itself, and those that run over its end.
#[derive(Debug)]
pub(crate) struct NodeMask {
    pub(crate) local: Arc<Local>,
    pub(crate) extra: Box<[u32]>,
}

/// The finished mask of one configuration.
#[derive(Debug)]
pub struct Mask {
    parts: Box<[Arc<NodeMask>]>,
    /// Special tokens that the grammar names here.
    specials: Box<[u32]>,
    /// The text may end here.
    accepting: bool,
}

#[inline]
fn set(row: &mut [u32], id: u32) {
    row[(id >> 5) as usize] |= 1 << (id & 31);
}

impl Mask {
    /// Write the row: bit `t % 32` of word `t / 32` is set exactly when token `t` is allowed. `eos` are
    /// set when the text may end; words past the mask are cleared.
    pub fn write(&self, row: &mut [u32], eos: &[u32]) {
        let mut filled = false;
        for part in &self.parts {
            if let Some(base) = &part.local.base {
                if filled {
                    for (word, b) in row.iter_mut().zip(base.iter()) {
                        *word |= b;
                    }
                } else {
                    let n = base.len().min(row.len());
                    row[..n].copy_from_slice(&base[..n]);
                    row[n..].fill(0);
                    filled = true;
                }
            }
        }
        if !filled {
            row.fill(0);
        }
        for part in &self.parts {
            for &id in part.local.add.iter().chain(part.extra.iter()) {
                set(row, id);
            }
        }
        for &id in &self.specials {
            set(row, id);
        }
        if self.accepting {
            for &id in eos {
                set(row, id);
            }
        }
    }

    /// Whether no token is allowed (and the text may not end).
    pub fn is_empty(&self) -> bool {
        !self.accepting
            && self.specials.is_empty()
            && self
                .parts
                .iter()
                .all(|p| p.local.is_empty() && p.extra.is_empty())
    }
}
