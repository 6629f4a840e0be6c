//! What one frame allows on its own, whatever it returns to.
//!
//! A frame is looked at above a sentinel: tokens whose bytes stay inside it (and inside what it calls)
//! are allowed for good; a token that runs over the frame's end is kept as a *rest*, to be judged by
//! what the frame returns to. Deep in a document the frames below change all the time, the top frame
//! hardly: so this part of the mask is computed once.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::memo::Memo;
use super::units::{Profile, Rests};
use super::walk::{Found, Inside, Walker};
use crate::bytes::ByteSet;
use crate::engine::{ConfigId, Engine, Frame, BOTTOM, DEAD};
use crate::error::Result;
use crate::vocab::{Trie, Vocabulary};

/// The part of a mask that depends on the top frame only.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// Allowed tokens as words, shared with other masks.
    pub(crate) base: Option<Arc<[u32]>>,
    /// More allowed tokens, sorted.
    pub(crate) add: Box<[u32]>,
    /// Rests of tokens that run over the frame's end.
    pub(crate) rests: Option<Arc<Rests>>,
    /// The frame is a loop that may end after `min..=max` units: its leaving tokens run over the end.
    pub(crate) tail: Option<(Arc<Profile>, u32, u32)>,
    /// If what follows the frame can begin with one of these bytes, the rests are not all known and the
    /// thread is walked as a whole.
    pub(crate) blind: ByteSet,
    /// Whether `base` is held by this mask alone.
    own_base: bool,
}

/// More rests than this are not kept: the thread is walked as a whole instead.
pub(super) const MAX_RESTS: usize = 4_000;
/// Ids kept as a list; above, as words.
const MAX_IDS: usize = 1_500;

impl Local {
    /// Whether it allows nothing by itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.base.is_none() && self.add.is_empty()
    }

    /// Bytes held by it alone.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rests = self
            .rests
            .as_ref()
            .map_or(0, |r| r.trie.heap_bytes() + r.counts.len());
        let base = if self.own_base {
            self.base.as_ref().map_or(0, |b| b.len() * 4)
        } else {
            0
        };
        128 + self.add.len() * 4 + rests + base
    }

    /// A mask without rests.
    pub(crate) fn of(ids: Vec<u32>, row: Option<Vec<u32>>, words: usize) -> Local {
        let (base, add) = pack(ids, row, words);
        Local {
            own_base: base.is_some(),
            base,
            add,
            ..Local::default()
        }
    }
}

/// Sort ids, and turn many of them into words.
fn pack(
    mut ids: Vec<u32>,
    row: Option<Vec<u32>>,
    words: usize,
) -> (Option<Arc<[u32]>>, Box<[u32]>) {
    let in_row: u32 = row.iter().flatten().map(|w| w.count_ones()).sum();
    if ids.len() + in_row as usize <= MAX_IDS {
        for (i, word) in row.iter().flatten().enumerate() {
            let mut word = *word;
            while word != 0 {
                ids.push(i as u32 * 32 + word.trailing_zeros());
                word &= word - 1;
            }
        }
        ids.sort_unstable();
        ids.dedup();
        return (None, ids.into());
    }
    let mut row = row.unwrap_or_else(|| vec![0u32; words]);
    for id in ids {
        super::set(&mut row, id);
    }
    (Some(row.into()), Box::default())
}

/// Compute the local mask of a frame (already saturated).
pub(crate) fn compute(
    memo: &mut Memo,
    engine: &mut Engine,
    vocab: &Vocabulary,
    frame: Frame,
) -> Result<Local> {
    let start = engine.single(frame, BOTTOM);
    let start = engine.canonical(start, vocab.facts());
    if let Some((inside, tracked)) = memo.shape(engine, vocab, frame, start)? {
        if let Some(local) = looped(memo, engine, vocab, start, &inside, tracked)? {
            return Ok(local);
        }
    }
    let mut found = Found::default();
    let mut walker = Walker {
        memo,
        engine,
        vocab,
    };
    walker.walk_vocabulary(start, &ByteSet::ALL, &mut found)?;
    let mut local = Local::of(found.ids, found.row, vocab.words());
    let mut items = Vec::new();
    if !found.too_many_ends
        && collect_rests(vocab, vocab.trie(), &found.ends, &|_| true, &mut items)
    {
        local.rests = build_rests(items);
    } else {
        local.blind = ByteSet::ALL;
    }
    Ok(local)
}

/// A frame inside a body of units; `None` when too many tokens leave it to be judged by their rests.
fn looped(
    memo: &mut Memo,
    engine: &mut Engine,
    vocab: &Vocabulary,
    start: ConfigId,
    inside: &Inside,
    tracked: bool,
) -> Result<Option<Local>> {
    let profile = &inside.profile;
    let trie = vocab.trie();
    let follow = engine
        .live_bytes(inside.exit)
        .intersect(&inside.first.complement());
    if !follow.intersect(&profile.dropped()).is_empty() {
        return Ok(None);
    }
    let all = profile.unbounded(inside.min, inside.max);
    let fits = |counts: &[u8], at: u32| {
        all || (inside.min..=inside.max).contains(&u32::from(counts[at as usize]))
    };
    let exit = left(memo, engine, vocab, inside, &follow)?;
    let mut ids = exit.ids.clone();
    let mut walker = Walker {
        memo,
        engine,
        vocab,
    };
    // Tokens that do not enter the body at all.
    let mut direct = Found::default();
    walker.walk_vocabulary(start, &inside.first.complement(), &mut direct)?;
    ids.append(&mut direct.ids);
    let (wide, few) = pack(Vec::new(), direct.row.take(), vocab.words());
    ids.extend(few.iter());
    let mut items: Vec<(&[u8], u32)> = Vec::new();
    let mut complete =
        !direct.too_many_ends && collect_rests(vocab, trie, &direct.ends, &|_| true, &mut items);
    for (rests, places) in &exit.ends {
        complete &= collect_rests(
            vocab,
            &rests.trie,
            places,
            &|at| fits(&rests.counts, at),
            &mut items,
        );
    }
    if tracked {
        // Along words that are told apart, what the exit said is replaced by real steps.
        let leavers = profile.leavers(vocab, &follow);
        let mut special = Found::default();
        let mut replaced = FxHashSet::default();
        track(
            &mut walker,
            &leavers,
            start,
            inside,
            &mut special,
            &mut replaced,
        )?;
        ids.retain(|id| !replaced.contains(id));
        items.retain(|item| !replaced.contains(&item.1));
        ids.append(&mut special.ids);
        complete &= collect_rests(vocab, &leavers, &special.ends, &|_| true, &mut items);
    }
    let stayers = profile.stayers(vocab, inside.max);
    let (mut base, mut own_base) = (stayers, false);
    if let Some(row) = wide {
        base = base.iter().zip(row.iter()).map(|(a, b)| a | b).collect();
        own_base = true;
    }
    let mut local = Local {
        base: Some(base),
        own_base,
        ..Local::default()
    };
    if complete {
        local.rests = build_rests(items);
    } else {
        local.blind = ByteSet::ALL;
    }
    if walker.engine.has_escaped(inside.exit) {
        if tracked {
            local.blind = ByteSet::ALL;
        }
        local.blind = local.blind.union(&inside.first).union(&profile.dropped());
        local.tail = Some((Arc::clone(profile), inside.min.max(1), inside.max));
    }
    ids.sort_unstable();
    ids.dedup();
    local.add = ids.into();
    Ok(Some(local))
}

/// Tokens that leave a body by its exit.
#[derive(Debug, Default)]
pub(crate) struct Left {
    ids: Vec<u32>,
    /// Nodes of rests at which the frame may have ended.
    ends: Vec<(Arc<Rests>, Vec<u32>)>,
}

impl Left {
    /// Bytes held by it alone.
    pub(crate) fn heap_bytes(&self) -> usize {
        let ends: usize = self.ends.iter().map(|e| 32 + e.1.len() * 4).sum();
        64 + self.ids.len() * 4 + ends
    }
}

/// The tokens that leave a body after one unit or more; remembered by exit.
fn left(
    memo: &mut Memo,
    engine: &mut Engine,
    vocab: &Vocabulary,
    inside: &Inside,
    follow: &ByteSet,
) -> Result<Arc<Left>> {
    let profile = &inside.profile;
    let all = profile.unbounded(inside.min, inside.max);
    let bounds = if all {
        (0, 0)
    } else {
        (inside.min, inside.max)
    };
    let key = (
        Arc::as_ptr(profile) as usize,
        inside.exit,
        bounds.0,
        bounds.1,
    );
    if let Some(known) = memo.left(&key) {
        return Ok(known);
    }
    let mut left = Left::default();
    let mut walker = Walker {
        memo,
        engine,
        vocab,
    };
    for byte in follow.iter() {
        let Some(rests) = profile.rests(vocab, byte) else {
            continue;
        };
        let mut found = Found::default();
        walker.walk(&rests.trie, inside.exit, &ByteSet::ALL, &mut found, &|at| {
            all || (inside.min..=inside.max).contains(&u32::from(rests.counts[at as usize]))
        })?;
        left.ids.append(&mut found.ids);
        if !found.ends.is_empty() {
            left.ends.push((rests, found.ends));
        }
    }
    let left = Arc::new(left);
    memo.keep_left(key, profile, &left);
    Ok(left)
}

/// Walk the words of a tracked body for real, as long as they are tracked, and judge the tokens that
/// leave along them.
fn track(
    walker: &mut Walker<'_>,
    trie: &Trie,
    start: ConfigId,
    inside: &Inside,
    found: &mut Found,
    replaced: &mut FxHashSet<u32>,
) -> Result<()> {
    let mut stack = vec![(0usize, start, UNIT_AT_START)];
    while let Some((node, config, state)) = stack.pop() {
        let heads = if state == UNIT_AT_START {
            walker.memo.tracked_bytes(walker.engine, config)
        } else {
            ByteSet::ALL
        };
        let mut child = node + 1;
        let end = trie.ends[node] as usize;
        while child < end {
            let byte = trie.bytes[child];
            let below = trie.ends[child] as usize;
            let unit = inside.profile.step(state, byte);
            if unit == super::units::UNIT_DEAD {
                if node != 0 && state == UNIT_AT_START {
                    replaced.extend(trie.ids_below(child));
                    let next = walker.step(config, byte)?;
                    if next != DEAD {
                        walker.below(trie, child, next, found, &|_| true)?;
                    }
                }
            } else if heads.contains(byte) {
                let next = walker.step(config, byte)?;
                let on = next != DEAD
                    && (unit != UNIT_AT_START || walker.memo.is_tracked(walker.engine, next));
                if on && below > child + 1 {
                    stack.push((child, next, unit));
                }
            }
            child = below;
        }
    }
    Ok(())
}

const UNIT_AT_START: u16 = super::units::UNIT_START;

/// Add the rests of all strings below some nodes of a trie whose ids are tokens and whose strings are
/// ends of these tokens. `false` when there are too many.
fn collect_rests<'v>(
    vocab: &'v Vocabulary,
    trie: &Trie,
    places: &[u32],
    keep: &dyn Fn(u32) -> bool,
    items: &mut Vec<(&'v [u8], u32)>,
) -> bool {
    let strings =
        |node: u32| trie.starts[trie.ends[node as usize] as usize] - trie.starts[node as usize + 1];
    let total: usize = places.iter().map(|&node| strings(node) as usize).sum();
    if total + items.len() > MAX_RESTS {
        return false;
    }
    for &node in places {
        let mut below = node as usize + 1;
        let end = trie.ends[node as usize] as usize;
        // The stack's height is the length of the rest.
        let mut stack: Vec<u32> = Vec::new();
        while below < end {
            while stack.last().is_some_and(|&e| below >= e as usize) {
                stack.pop();
            }
            stack.push(trie.ends[below]);
            for at in trie.starts[below]..trie.starts[below + 1] {
                if keep(at) {
                    let id = trie.order[at as usize];
                    let token = vocab.token(id);
                    items.push((&token[token.len() - stack.len()..], id));
                }
            }
            below += 1;
        }
    }
    true
}

fn build_rests(mut items: Vec<(&[u8], u32)>) -> Option<Arc<Rests>> {
    if items.is_empty() {
        return None;
    }
    items.sort_unstable();
    items.dedup();
    let trie = Trie::from_sorted(items.iter().copied());
    let counts = vec![1u8; items.len()].into();
    Some(Arc::new(Rests { trie, counts }))
}

/// The tokens of a thread beyond its frame's own: rests judged by what the frame returns to. The second
/// result replaces the local mask when the thread had to be walked as a whole.
pub(crate) fn extra(
    memo: &mut Memo,
    engine: &mut Engine,
    vocab: &Vocabulary,
    local: &Local,
    frame: Frame,
    parents: u32,
) -> Result<(Found, bool)> {
    if local.rests.is_none() && local.tail.is_none() && local.blind.is_empty() {
        return Ok((Found::default(), false));
    }
    let back: ConfigId = engine.returned(parents)?;
    let back = engine.canonical(back, vocab.facts());
    let live = engine.live_bytes(back);
    if live.is_empty() {
        return Ok((Found::default(), false));
    }
    let mut found = Found::default();
    let blind = !live.intersect(&local.blind).is_empty();
    let start = if blind {
        let whole = engine.single_above(frame, parents);
        engine.canonical(whole, vocab.facts())
    } else {
        back
    };
    let mut walker = Walker {
        memo,
        engine,
        vocab,
    };
    if blind {
        walker.walk_vocabulary(start, &ByteSet::ALL, &mut found)?;
        return Ok((found, true));
    }
    if let Some(rests) = &local.rests {
        walker.walk(&rests.trie, back, &ByteSet::ALL, &mut found, &|_| true)?;
    }
    if let Some((profile, min, max)) = &local.tail {
        let all = profile.unbounded(*min, *max);
        for byte in live.iter() {
            let Some(rests) = profile.rests(vocab, byte) else {
                continue;
            };
            let counts = &rests.counts;
            walker.walk(&rests.trie, back, &ByteSet::ALL, &mut found, &|at| {
                all || (*min..=*max).contains(&u32::from(counts[at as usize]))
            })?;
        }
    }
    Ok((found, false))
}
