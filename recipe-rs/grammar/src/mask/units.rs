//! Loops over units (characters of a class): every token classified once per vocabulary and unit.
//!
//! In a state `unit{m,n} rest`, where `unit` is prefix-free and `rest` begins with other bytes, a token
//! either stays inside the loop, or leaves it at a unit's end and goes on in `rest`, or dies. Which of
//! these, and after how many units, depends on the unit alone. So one walk of the vocabulary gives, for
//! good: the tokens that stay, by the number of units they need, and the places where tokens leave, by
//! the byte they leave with. A mask is then the set of stayers and a walk of the few rests that begin
//! with a byte that can follow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::bytes::ByteSet;
use crate::regex::{Arena, Node, NodeId, EMPTY, INFINITE, NEVER};
use crate::vocab::{Trie, Vocabulary};

/// A state of the shape `unit{min,max} rest`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) unit: NodeId,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) rest: NodeId,
}

impl Loop {
    /// The state as a loop, if it is one whose `rest` begins with other bytes. Whether the unit is
    /// prefix-free shows when its profile is made.
    pub(crate) fn of(arena: &Arena, state: NodeId) -> Option<Loop> {
        let (head, rest) = match arena.node(state) {
            Node::Cat(a, b) => (a, b),
            _ => (state, EMPTY),
        };
        let Node::Repeat(unit, min, max) = arena.node(head) else {
            return None;
        };
        let apart = arena
            .first_bytes(unit)
            .intersect(&arena.first_bytes(rest))
            .is_empty();
        (apart && !arena.is_nullable(unit)).then_some(Loop {
            unit,
            min,
            max,
            rest,
        })
    }
}

/// Rests of tokens behind a loop, by their bytes.
#[derive(Debug)]
pub(crate) struct Rests {
    pub(crate) trie: Trie,
    /// Units read before each rest, in the trie's order.
    pub(crate) counts: Box<[u8]>,
}

/// The automaton of a unit, as a table.
#[derive(Debug)]
pub(crate) struct UnitTable {
    /// `next[state * 256 + byte]`: 0 dead, 1 the unit is complete, else a state.
    pub(crate) next: Vec<u16>,
}

/// No unit goes on so.
pub(crate) const UNIT_DEAD: u16 = 0;
/// Between two units.
pub(crate) const UNIT_START: u16 = 1;
const DEAD: u16 = UNIT_DEAD;
const START: u16 = UNIT_START;

impl UnitTable {
    /// `None` when the unit is not prefix-free or too large.
    pub(crate) fn new(arena: &mut Arena, unit: NodeId) -> Option<Self> {
        let mut ids: FxHashMap<NodeId, u16> = FxHashMap::default();
        ids.insert(NEVER, DEAD);
        ids.insert(EMPTY, START);
        let mut table = UnitTable { next: vec![0; 512] };
        let mut queue = vec![(unit, START)];
        while let Some((node, state)) = queue.pop() {
            if arena.is_nullable(node) {
                return None; // a unit that could end or go on here is not prefix-free
            }
            let first = arena.first_bytes(node);
            for byte in first.iter() {
                let to = arena.step(node, byte);
                if to == NEVER {
                    continue;
                }
                let fresh = ids.len() as u16;
                let id = *ids.entry(to).or_insert(fresh);
                if id == fresh {
                    if ids.len() > 4000 {
                        return None;
                    }
                    table.next.resize(ids.len() * 256, 0);
                    queue.push((to, id));
                }
                table.next[state as usize * 256 + byte as usize] = id;
            }
        }
        arena.check().ok()?;
        Some(table)
    }

    /// From the table itself; entry 0 to 511 are the dead and the start state.
    pub(crate) fn from_table(next: Vec<u16>) -> Self {
        UnitTable { next }
    }

    /// A hash of the table.
    pub(crate) fn fingerprint(&self) -> crate::hash::Fingerprint {
        let bytes: Vec<u8> = self.next.iter().flat_map(|w| w.to_le_bytes()).collect();
        crate::hash::of_bytes(0x55, &bytes)
    }

    /// Bytes that units begin with.
    pub(crate) fn first(&self) -> ByteSet {
        let mut set = ByteSet::EMPTY;
        for byte in 0..=255u8 {
            if self.step(START, byte) != DEAD {
                set.insert(byte);
            }
        }
        set
    }

    #[inline]
    fn step(&self, state: u16, byte: u8) -> u16 {
        self.next[state as usize * 256 + byte as usize]
    }
}

/// Where every token goes in a loop over one unit.
#[derive(Debug)]
pub(crate) struct Profile {
    table: UnitTable,
    /// Tokens that stay inside, whatever the count.
    stay: Arc<[u32]>,
    /// Stayers that need many units, most first: (units, id). Ends where `kept_above` says.
    long: Vec<(u8, u32)>,
    /// `long` holds every stayer that needs more units than this.
    kept_above: u32,
    /// Most units in one token.
    most: u32,
    /// Trie nodes at which a token leaves, by byte: (node, depth of the node, units before it).
    leaves: BTreeMap<u8, Vec<(u32, u8, u8)>>,
    /// Bytes whose leaving places were too many to keep.
    dropped: ByteSet,
    made: Mutex<Made>,
}

/// What is made on demand.
#[derive(Debug, Default)]
struct Made {
    rests: BTreeMap<u8, Arc<Rests>>,
    at_most: BTreeMap<u32, Arc<[u32]>>,
    leavers: Vec<(ByteSet, Arc<Trie>)>,
}

/// Most leaving places kept for one byte.
const MAX_LEAVES: usize = 6_000;
/// Most long stayers kept.
const MAX_LONG: usize = 4_096;

impl Profile {
    /// Classify the vocabulary.
    pub(crate) fn new(table: UnitTable, vocab: &Vocabulary) -> Profile {
        let trie = vocab.trie();
        let mut stay = vec![0u32; vocab.words()];
        let mut needs = vec![0u8; vocab.len() as usize];
        let mut histogram = [0u32; 256];
        let mut leaves: Vec<Vec<(u32, u8, u8)>> = vec![Vec::new(); 256];
        let mut dropped = ByteSet::EMPTY;
        walk_units(&table, trie, u32::MAX, |event| match event {
            Event::Stay(node, need) => {
                for &id in trie.ids_at(node) {
                    super::set(&mut stay, id);
                    needs[id as usize] = need as u8;
                    histogram[need as usize & 255] += 1;
                }
            }
            Event::Leave(node, depth, count) => {
                let byte = trie.bytes[node];
                let places = &mut leaves[byte as usize];
                if places.len() < MAX_LEAVES {
                    places.push((node as u32, depth as u8, count as u8));
                } else {
                    dropped.insert(byte);
                }
            }
        });
        let most = histogram.iter().rposition(|&n| n > 0).unwrap_or(0) as u32;
        let (mut kept_above, mut kept) = (most, 0usize);
        while kept_above > 0 && kept + histogram[kept_above as usize] as usize <= MAX_LONG {
            kept += histogram[kept_above as usize] as usize;
            kept_above -= 1;
        }
        let mut long = Vec::with_capacity(kept);
        for (id, &need) in needs.iter().enumerate() {
            if u32::from(need) > kept_above {
                long.push((need, id as u32));
            }
        }
        long.sort_unstable_by(|a, b| b.cmp(a));
        let leaves: BTreeMap<u8, Vec<(u32, u8, u8)>> = (0..=255u8)
            .zip(leaves)
            .filter(|(byte, places)| !places.is_empty() && !dropped.contains(*byte))
            .collect();
        let mut leaves = leaves;
        for places in leaves.values_mut() {
            places.shrink_to_fit();
        }
        Profile {
            table,
            stay: stay.into(),
            long,
            kept_above,
            most,
            leaves,
            dropped,
            made: Mutex::new(Made::default()),
        }
    }

    /// The unit's automaton: the state after a byte.
    #[inline]
    pub(crate) fn step(&self, state: u16, byte: u8) -> u16 {
        self.table.step(state, byte)
    }

    /// Bytes held, roughly.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.next.len() * 2
            + self.stay.len() * 4
            + self.long.len() * 8
            + self.leaves.values().map(|v| v.len() * 8).sum::<usize>()
            + 40_000
    }

    /// Bytes on which leaving tokens are not known.
    pub(crate) fn dropped(&self) -> ByteSet {
        self.dropped
    }

    /// Whether a loop with these bounds treats all tokens alike, whatever their number of units.
    pub(crate) fn unbounded(&self, min: u32, max: u32) -> bool {
        min <= 1 && max >= self.most
    }

    /// Tokens that stay within at most `max` units, as words.
    pub(crate) fn stayers(&self, vocab: &Vocabulary, max: u32) -> Arc<[u32]> {
        if max >= self.most || max == INFINITE {
            return Arc::clone(&self.stay);
        }
        let mut made = self
            .made
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = made.at_most.get(&max) {
            return Arc::clone(known);
        }
        let mut row;
        if max >= self.kept_above {
            row = self.stay.to_vec();
            for &(_, id) in self
                .long
                .iter()
                .take_while(|(need, _)| u32::from(*need) > max)
            {
                row[(id >> 5) as usize] &= !(1 << (id & 31));
            }
        } else {
            row = vec![0u32; vocab.words()];
            let trie = vocab.trie();
            walk_units(&self.table, trie, max, |event| {
                if let Event::Stay(node, _) = event {
                    for &id in trie.ids_at(node) {
                        super::set(&mut row, id);
                    }
                }
            });
        }
        let row: Arc<[u32]> = row.into();
        made.at_most.insert(max, Arc::clone(&row));
        row
    }

    /// The tokens that leave with one of these bytes after one unit or more, whole.
    pub(crate) fn leavers(&self, vocab: &Vocabulary, bytes: &ByteSet) -> Arc<Trie> {
        let mut made = self
            .made
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, known)) = made.leavers.iter().find(|(b, _)| b == bytes) {
            return Arc::clone(known);
        }
        let trie = vocab.trie();
        let mut places: Vec<u32> = Vec::new();
        for byte in bytes.iter() {
            for &(node, _, _) in self.leaves.get(&byte).into_iter().flatten() {
                let (from, to) = (node as usize, trie.ends[node as usize] as usize);
                places.extend(trie.starts[from]..trie.starts[to]);
            }
        }
        places.sort_unstable();
        places.dedup();
        let ids = places.into_iter().map(|at| trie.order[at as usize]);
        let found = Arc::new(Trie::from_sorted(ids.map(|id| (vocab.token(id), id))));
        made.leavers.push((*bytes, Arc::clone(&found)));
        found
    }

    /// The rests that begin with `byte`, of tokens that leave with it after one unit or more.
    pub(crate) fn rests(&self, vocab: &Vocabulary, byte: u8) -> Option<Arc<Rests>> {
        let places = self.leaves.get(&byte)?;
        let mut made = self
            .made
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = made.rests.get(&byte) {
            return Some(Arc::clone(known));
        }
        let trie = vocab.trie();
        let mut items: Vec<(&[u8], u32, u8)> = Vec::new();
        for &(node, depth, count) in places {
            for &id in trie.ids_below(node as usize) {
                items.push((&vocab.token(id)[depth as usize - 1..], id, count));
            }
        }
        items.sort_unstable();
        let rests = Arc::new(Rests {
            trie: Trie::from_sorted(items.iter().map(|i| (i.0, i.1))),
            counts: items.iter().map(|i| i.2).collect(),
        });
        made.rests.insert(byte, Arc::clone(&rests));
        Some(rests)
    }
}

enum Event {
    /// Tokens at this node stay inside and need this many units.
    Stay(usize, u32),
    /// Tokens at or below this node leave with its byte: (node, its depth, units before it).
    Leave(usize, u32, u32),
}

/// Walk the trie in a loop over the unit; tokens that need more than `max` units are cut off.
fn walk_units(table: &UnitTable, trie: &Trie, max: u32, mut on: impl FnMut(Event)) {
    let n = trie.len() as u32;
    let mut stack: Vec<(u32, u16, u32)> = vec![(n, START, 0)];
    let mut i = 1u32;
    while let Some(&(end, state, count)) = stack.last() {
        if i >= end {
            stack.pop();
            continue;
        }
        let node = i as usize;
        let next = table.step(state, trie.bytes[node]);
        let below = trie.ends[node];
        if next == DEAD {
            if state == START && count > 0 {
                on(Event::Leave(node, stack.len() as u32, count));
            }
            i = below;
            continue;
        }
        let (count, need) = if next == START {
            (count + 1, count + 1)
        } else {
            (count, count + 1)
        };
        if need > max {
            i = below;
            continue;
        }
        if trie.starts[node] < trie.starts[node + 1] {
            on(Event::Stay(node, need));
        }
        i += 1;
        if below > i {
            stack.push((below, next, count));
        }
    }
}
