//! Depth-first walk of a trie with a configuration: the tokens that survive, and where frames end.
//!
//! Two gears. In the general one each byte is a step of the engine. Where the configuration is inside a
//! body of units whose words all lead to the same place (a string that is not a key seen before), the
//! subtree is walked with the unit's own small table, and the engine steps again where a token leaves
//! the body.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::memo::Memo;
use super::units::{Profile, UNIT_DEAD, UNIT_START};
use crate::bytes::ByteSet;
use crate::engine::{ConfigId, Engine, DEAD};
use crate::error::Result;
use crate::vocab::{kind_of, Trie, Vocabulary, KINDS};

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Ids of surviving strings, unsorted.
    pub(crate) ids: Vec<u32>,
    /// More of them, as words.
    pub(crate) row: Option<Vec<u32>>,
    /// Nodes at which the bottom frame may have ended.
    pub(crate) ends: Vec<u32>,
    /// There are more rests than are kept; `ends` is not complete.
    pub(crate) too_many_ends: bool,
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

/// Vocabularies with fewer nodes are walked with the engine's own steps.
const MANY_NODES: usize = 2_000;
/// Most configurations in the table of one walk.
const MAX_MET: usize = 4_000;
/// Subtrees with fewer nodes are walked node by node.
const PASSED_OVER: usize = 6;
/// Which characters lead back to a state is asked for a subtree of so many nodes.
const WORTH_ASKING: usize = 100;
const DEAD_STATE: u16 = 0;
const TOO_MANY: u16 = u16::MAX - 1;
const UNKNOWN: u16 = u16::MAX;

/// How to go on below a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gear {
    Table,
    /// Nothing can follow.
    Nothing,
    /// A body of units.
    Slow,
}

/// Configurations met in one walk, numbered; 0 is the dead one.
#[derive(Debug, Default)]
pub(crate) struct Met {
    next: Vec<u16>,
    configs: Vec<ConfigId>,
    /// How to go on, and whether the bottom frame may have ended.
    gears: Vec<(Gear, bool)>,
    ids: FxHashMap<ConfigId, u16>,
    /// Kinds of characters that lead back to each state.
    closed: Vec<Option<u64>>,
    /// Whether all continuations from a state inside a character lead to another one.
    inside: FxHashMap<(u16, u16), bool>,
}

impl Met {
    fn clear(&mut self) {
        if self.configs.len() > 500 {
            *self = Met::default();
        }
        self.next.clear();
        self.configs.clear();
        self.gears.clear();
        self.ids.clear();
        self.closed.clear();
        self.inside.clear();
    }

    fn add(&mut self, config: ConfigId, gear: Gear) -> u16 {
        let id = self.configs.len() as u16;
        self.configs.push(config);
        self.gears.push((gear, false));
        self.closed.push(None);
        self.next.resize(self.next.len() + 256, UNKNOWN);
        self.ids.insert(config, id);
        id
    }
}

/// Walks one trie.
pub(crate) struct Walker<'a> {
    pub(crate) memo: &'a mut Memo,
    pub(crate) engine: &'a mut Engine,
    pub(crate) vocab: &'a Vocabulary,
}

impl Walker<'_> {
    /// The canonical configuration after one more byte.
    #[inline]
    pub(crate) fn step(&mut self, config: ConfigId, byte: u8) -> Result<ConfigId> {
        let next = self.engine.step(config, byte)?;
        Ok(if next == DEAD {
            DEAD
        } else {
            self.engine.canonical(next, self.vocab.facts())
        })
    }

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
                let next = self.step(start, trie.bytes[i])?;
                if next != DEAD {
                    self.below(trie, i, next, found, keep)?;
                }
            }
            i = below;
        }
        Ok(())
    }

    /// Walk the whole vocabulary. In wide states a small table of what was met so far takes the place of the
    /// engine's, and tokens go into words at once.
    pub(crate) fn walk_vocabulary(
        &mut self,
        start: ConfigId,
        heads: &ByteSet,
        found: &mut Found,
    ) -> Result<()> {
        let trie = self.vocab.trie();
        let live = heads.intersect(&self.engine.live_bytes(start));
        if trie.len() < MANY_NODES || live.len() < 4 {
            return self.walk(trie, start, heads, found, &|_| true);
        }
        let mut row = vec![0u32; self.vocab.words()];
        let mut met = std::mem::take(&mut self.memo.met);
        met.clear();
        met.add(DEAD, Gear::Nothing);
        let first = met.add(start, Gear::Table);
        for byte in live.complement().iter() {
            met.next[first as usize * 256 + byte as usize] = DEAD_STATE;
        }
        // Where the start is met again, no byte is left out.
        met.ids.remove(&start);
        let mut stack: Vec<(u32, u16)> = Vec::with_capacity(64);
        let (mut end, mut state) = (trie.len() as u32, first);
        let summaries = self.vocab.summaries();
        let mut rests = 0usize;
        let mut i = 1usize;
        loop {
            if i >= end as usize {
                let Some(above) = stack.pop() else { break };
                (end, state) = above;
                continue;
            }
            let below = trie.ends[i];
            let mut next = met.next[state as usize * 256 + trie.bytes[i] as usize];
            if next == UNKNOWN {
                next = self.meet(&mut met, state, trie.bytes[i])?;
            }
            if next == DEAD_STATE {
                i = below as usize;
                continue;
            }
            if next == TOO_MANY {
                let to = self.step(met.configs[state as usize], trie.bytes[i])?;
                self.below(trie, i, to, found, &|_| true)?;
                i = below as usize;
                continue;
            }
            for at in trie.starts[i]..trie.starts[i + 1] {
                super::set(&mut row, trie.order[at as usize]);
            }
            let gear = met.gears[next as usize];
            if gear.1 && !found.too_many_ends {
                found.ends.push(i as u32);
                rests += (trie.starts[below as usize] - trie.starts[i + 1]) as usize;
                found.too_many_ends = rests > super::local::MAX_RESTS;
            }
            i += 1;
            if below as usize > i {
                match gear.0 {
                    Gear::Table
                        if below as usize - i >= PASSED_OVER
                            && (!gear.1 || found.too_many_ends)
                            && (below as usize - i >= WORTH_ASKING
                                || met.closed[next as usize].is_some())
                            && summaries[i - 1] & !self.closed(&mut met, next)? == 0 =>
                    {
                        // All that is below leads back here, character by character.
                        let (from, to) = (trie.starts[i], trie.starts[below as usize]);
                        for &id in &trie.order[from as usize..to as usize] {
                            super::set(&mut row, id);
                        }
                        i = below as usize;
                    }
                    Gear::Table => {
                        stack.push((end, state));
                        (end, state) = (below, next);
                    }
                    Gear::Nothing => i = below as usize,
                    Gear::Slow => {
                        let config = met.configs[next as usize];
                        if !self.unit_gear(trie, i, below, config, found, &|_| true)? {
                            self.children(trie, i, below, config, found)?;
                        }
                        i = below as usize;
                    }
                }
            }
        }
        found.row = Some(row);
        self.memo.met = met;
        Ok(())
    }

    /// The kinds of characters of which each leads from a state back to it, as bits.
    fn closed(&mut self, met: &mut Met, state: u16) -> Result<u64> {
        if let Some(known) = met.closed[state as usize] {
            return Ok(known);
        }
        let mut kinds = (1u64 << (KINDS - 1)) - 1;
        for byte in (0..=0x7fu8).chain(0xc2..=0xf4) {
            let bit = 1u64 << kind_of(byte);
            if kinds & bit == 0 {
                continue;
            }
            let more = match byte {
                0x00..=0x7f => 0,
                0xc2..=0xdf => 1,
                0xe0..=0xef => 2,
                _ => 3,
            };
            if !self.leads_to(met, state, byte, state, more)? {
                kinds &= !bit;
            }
        }
        met.closed[state as usize] = Some(kinds);
        Ok(kinds)
    }

    /// Whether `byte` and any `more` continuation bytes lead from a state to `aim`, the frame never ending on the way.
    fn leads_to(
        &mut self,
        met: &mut Met,
        from: u16,
        byte: u8,
        aim: u16,
        more: u32,
    ) -> Result<bool> {
        let mut next = met.next[from as usize * 256 + byte as usize];
        if next == UNKNOWN {
            next = self.meet(met, from, byte)?;
        }
        if more == 0 || next == DEAD_STATE || next == TOO_MANY {
            return Ok(next == aim);
        }
        if met.gears[next as usize] != (Gear::Table, false) {
            return Ok(false);
        }
        if let Some(&known) = met.inside.get(&(next, aim)) {
            return Ok(known);
        }
        let mut all = true;
        for byte in 0x80..=0xbf {
            all = all && self.leads_to(met, next, byte, aim, more - 1)?;
        }
        met.inside.insert((next, aim), all);
        Ok(all)
    }

    /// The children `i..end` of a node that was reached in `config`.
    fn children(
        &mut self,
        trie: &Trie,
        i: usize,
        end: u32,
        config: ConfigId,
        found: &mut Found,
    ) -> Result<()> {
        let mut i = i;
        while i < end as usize {
            let next = self.step(config, trie.bytes[i])?;
            if next != DEAD {
                self.below(trie, i, next, found, &|_| true)?;
            }
            i = trie.ends[i] as usize;
        }
        Ok(())
    }

    /// A step that the table does not have yet.
    #[cold]
    fn meet(&mut self, met: &mut Met, state: u16, byte: u8) -> Result<u16> {
        let to = self.step(met.configs[state as usize], byte)?;
        let next = if to == DEAD {
            DEAD_STATE
        } else if let Some(&known) = met.ids.get(&to) {
            known
        } else if met.configs.len() >= MAX_MET {
            TOO_MANY
        } else {
            let gear = if self.engine.live_bytes(to).is_empty() {
                Gear::Nothing
            } else if self.memo.inside(self.engine, self.vocab, to)?.is_some() {
                Gear::Slow
            } else {
                Gear::Table
            };
            let id = met.add(to, gear);
            met.gears[id as usize].1 = self.engine.has_escaped(to);
            id
        };
        met.next[state as usize * 256 + byte as usize] = next;
        Ok(next)
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
                next = self.step(config, trie.bytes[i])?;
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
                let next = self.step(config, trie.bytes[i])?;
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
                        let next = self.step(from, trie.bytes[i])?;
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
