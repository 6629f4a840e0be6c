//! Items in any order, each at most once: the parameters of a tool call.
//!
//! The frame's state is the set of items seen. Every item is a rule of its own, called when it is not
//! seen yet; the frame may end when what is required has been seen.

use crate::bytes::ByteSet;
use crate::ir::RuleId;
use crate::machine::{Callee, Cx, Finish, Machine, Moves, Successors};

/// What a set of items must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnyOrder {
    /// Items that must come.
    pub required: Vec<u32>,
    /// (item, others): once the item has come, the others must come.
    pub dependent: Vec<(u32, Vec<u32>)>,
    /// Fewest items.
    pub min: u32,
    /// Most items.
    pub max: u32,
}

impl AnyOrder {
    /// The same over the items that are alive, renumbered; `None` when one that must come is not. Items
    /// that need a dead one die too.
    pub(crate) fn restricted(&self, alive: &mut [bool]) -> Option<AnyOrder> {
        while let Some((item, _)) = self
            .dependent
            .iter()
            .find(|(i, others)| alive[*i as usize] && others.iter().any(|&o| !alive[o as usize]))
        {
            alive[*item as usize] = false;
        }
        let number = |i: u32| alive[..i as usize].iter().filter(|a| **a).count() as u32;
        let all = |list: &[u32]| {
            list.iter()
                .map(|&i| alive[i as usize].then(|| number(i)))
                .collect::<Option<Vec<u32>>>()
        };
        let dependent = self.dependent.iter().filter(|(i, _)| alive[*i as usize]);
        Some(AnyOrder {
            required: all(&self.required)?,
            dependent: dependent
                .map(|(i, others)| Some((number(*i), all(others)?)))
                .collect::<Option<_>>()?,
            min: self.min,
            max: self.max,
        })
    }

    /// Items that must come, given some: a fixpoint over the dependencies.
    pub(crate) fn needed(&self, seen: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut needed: Vec<u32> = self.required.clone();
        let mut grown = true;
        while grown {
            grown = false;
            for (item, others) in &self.dependent {
                if seen(*item) || needed.contains(item) {
                    for other in others {
                        if !needed.contains(other) {
                            needed.push(*other);
                            grown = true;
                        }
                    }
                }
            }
        }
        needed.retain(|&i| !seen(i));
        needed
    }
}

/// The machine; items are rules.
#[derive(Debug)]
pub(crate) struct AnyOrderMachine {
    pub(crate) items: Vec<RuleId>,
    pub(crate) rule: AnyOrder,
}

impl AnyOrderMachine {
    /// The empty set.
    pub(crate) fn start(count: usize) -> Vec<u32> {
        vec![0; count.div_ceil(32)]
    }

    /// Whether any set of items will do.
    pub(crate) fn is_satisfiable(&self) -> bool {
        !self.items.is_empty() && self.rule.max > 0 && self.is_live(&Self::start(self.items.len()))
    }

    fn with(state: &[u32], item: u32) -> Vec<u32> {
        let mut next = state.to_vec();
        next[item as usize / 32] |= 1 << (item % 32);
        next
    }

    fn has(state: &[u32], item: u32) -> bool {
        state[item as usize / 32] >> (item % 32) & 1 == 1
    }

    fn count(state: &[u32]) -> u32 {
        state.iter().map(|w| w.count_ones()).sum()
    }

    fn may_end(&self, state: &[u32]) -> bool {
        let count = Self::count(state);
        count > 0 && count >= self.rule.min && self.rule.needed(|i| Self::has(state, i)).is_empty()
    }

    /// Whether a set of seen items can still be completed: what it needs fits, and enough items are left.
    fn is_live(&self, state: &[u32]) -> bool {
        let count = Self::count(state);
        let needed = self.rule.needed(|i| Self::has(state, i)).len() as u32;
        count + needed <= self.rule.max && self.rule.min <= self.items.len() as u32
    }

    fn candidates<'a>(&'a self, state: &'a [u32]) -> impl Iterator<Item = (u32, Vec<u32>)> + 'a {
        let open = (0..self.items.len() as u32).filter(|&i| !Self::has(state, i));
        open.map(|i| (i, Self::with(state, i)))
            .filter(|(_, next)| self.is_live(next))
    }
}

impl Machine for AnyOrderMachine {
    fn expand(&self, _cx: &mut Cx<'_>, state: &[u32], out: &mut Moves) {
        if self.may_end(state) {
            out.accept();
        }
        for (item, next) in self.candidates(state) {
            out.call(Callee::Rule(self.items[item as usize]), &next);
        }
    }

    fn step(&self, _cx: &mut Cx<'_>, _state: &[u32], _byte: u8, _out: &mut Successors) {}

    fn live_bytes(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> ByteSet {
        ByteSet::EMPTY
    }

    fn byte_sets(&self) -> Vec<ByteSet> {
        Vec::new()
    }

    fn finish(&self, _cx: &mut Cx<'_>, state: &[u32]) -> Finish {
        if self.may_end(state) {
            return Finish::Accept;
        }
        let needed = self.rule.needed(|i| Self::has(state, i));
        let pick = self
            .candidates(state)
            .find(|(i, _)| needed.is_empty() || needed.contains(i));
        match pick {
            Some((item, next)) => Finish::Call(Callee::Rule(self.items[item as usize]), Some(next)),
            None => Finish::Accept, // not reached: every state yielded is live
        }
    }
}
