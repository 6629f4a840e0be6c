//! Depth-first walk of a trie with a configuration: the tokens that survive, and where frames end.
//!
//! Two gears. In the general one each byte is a step of the engine. Where the configuration is inside a
//! body of units whose words all lead to the same place (a string that is not a key seen before), the
//! subtree is walked with the unit's own small table, and the engine steps again where a token leaves
//! the body.

use std::sync::Arc;

use super::memo::Memo;
use super::units::{Profile, UNIT_DEAD, UNIT_START};
use crate::bytes::ByteSet;
use crate::engine::{ConfigId, Engine, DEAD};
use crate::error::Result;
use crate::vocab::{Trie, Vocabulary};

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Ids of surviving strings, unsorted.
    pub(crate) ids: Vec<u32>,
    /// Nodes at which the bottom frame may have ended.
    pub(crate) ends: Vec<u32>,
}

/// A configuration as a body of units.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub(crate) profile: Arc<Profile>,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// After one unit or more, on bytes that no unit begins with.
    pub(crate) exit: ConfigId,
    /// Bytes that units begin with.
    pub(crate) first: ByteSet,
    /// Bytes that begin words which the body tells apart; those are stepped for real.
    pub(crate) tracked: ByteSet,
}

/// Walks one trie.
pub(crate) struct Walker<'a> {
    pub(crate) memo: &'a mut Memo,
    pub(crate) engine: &'a mut Engine,
    pub(crate) vocab: &'a Vocabulary,
}

impl Walker<'_> {
    /// Walk all strings of `trie` from `start` that begin with a byte of `heads`. Strings that pass `keep`
    /// (given their place in the trie's order) and do not die are found.
    pub(crate) fn walk(
        &mut self,
        trie: &Trie,
        start: ConfigId,
        heads: &ByteSet,
        found: &mut Found,
        keep: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let heads = heads.intersect(&self.engine.live_bytes(start));
        if trie.len() < 2 || heads.is_empty() {
            return Ok(());
        }
        let (mut i, end) = (1usize, trie.len());
        while i < end {
            let below = trie.ends[i] as usize;
            if heads.contains(trie.bytes[i]) {
                let next = self.engine.step(start, trie.bytes[i])?;
                if next != DEAD {
                    self.below(trie, i, next, found, keep)?;
                }
            }
            i = below;
        }
        Ok(())
    }

    /// Node `i` has been reached in `config`: take its strings and walk what is below it.
    pub(crate) fn below(
        &mut self,
        trie: &Trie,
        i: usize,
        config: ConfigId,
        found: &mut Found,
        keep: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        // Configurations along the path.
        let mut stack: Vec<(u32, ConfigId)> = Vec::with_capacity(32);
        let mut i = i;
        let mut next = config;
        loop {
            for at in trie.starts[i]..trie.starts[i + 1] {
                if keep(at) {
                    found.ids.push(trie.order[at as usize]);
                }
            }
            if self.engine.has_escaped(next) {
                found.ends.push(i as u32);
            }
            let below = trie.ends[i];
            i += 1;
            if below as usize > i {
                if self.engine.live_bytes(next).is_empty()
                    || (below as usize - i > 3
                        && self.unit_gear(trie, i, below, next, found, keep)?)
                {
                    i = below as usize;
                } else {
                    stack.push((below, next));
                }
            }
            // To the next child of some node on the path that does not die.
            loop {
                let Some(&(end, config)) = stack.last() else {
                    return Ok(());
                };
                if i >= end as usize {
                    stack.pop();
                    continue;
                }
                next = self.engine.step(config, trie.bytes[i])?;
                if next != DEAD {
                    break;
                }
                i = trie.ends[i] as usize;
            }
        }
    }

    /// Walk the nodes `i..end` (below one node, reached in `config`) with the table of a unit, if the
    /// configuration is a body of units.
    fn unit_gear(
        &mut self,
        trie: &Trie,
        i: usize,
        end: u32,
        config: ConfigId,
        found: &mut Found,
        keep: &dyn Fn(u32) -> bool,
    ) -> Result<bool> {
        let Some(inside) = self.memo.inside(self.engine, self.vocab, config)? else {
            return Ok(false);
        };
        let exit_ends = self.engine.has_escaped(inside.exit);
        let mut stack: Vec<(u32, u16, u32)> = vec![(end, UNIT_START, 0)];
        let mut i = i;
        while let Some(&(end, state, count)) = stack.last() {
            if i >= end as usize {
                stack.pop();
                continue;
            }
            let below = trie.ends[i];
            if stack.len() == 1 && inside.tracked.contains(trie.bytes[i]) {
                let next = self.engine.step(config, trie.bytes[i])?;
                if next != DEAD {
                    self.below(trie, i, next, found, keep)?;
                }
                i = below as usize;
                continue;
            }
            let next = inside.profile.step(state, trie.bytes[i]);
            if next == UNIT_DEAD {
                if state == UNIT_START {
                    // The token leaves the body here (or never was in it).
                    let from = if count == 0 {
                        Some(config)
                    } else {
                        (inside.min..=inside.max)
                            .contains(&count)
                            .then_some(inside.exit)
                    };
                    if let Some(from) = from {
                        let next = self.engine.step(from, trie.bytes[i])?;
                        if next != DEAD {
                            self.below(trie, i, next, found, keep)?;
                        }
                    }
                }
                i = below as usize;
                continue;
            }
            let whole = next == UNIT_START;
            let (count, need) = if whole {
                (count + 1, count + 1)
            } else {
                (count, count + 1)
            };
            if need > inside.max {
                i = below as usize;
                continue;
            }
            for at in trie.starts[i]..trie.starts[i + 1] {
                if keep(at) {
                    found.ids.push(trie.order[at as usize]);
                }
            }
            if exit_ends && whole && count >= inside.min {
                found.ends.push(i as u32);
            }
            i += 1;
            if below as usize > i {
                stack.push((below, next, count));
            }
        }
        Ok(true)
    }
}
