//! What one frame allows on its own, whatever it returns to.
//!
//! A frame is looked at above a sentinel: tokens whose bytes stay inside it (and inside what it calls)
//! are allowed for good; a token that runs over the frame's end is kept as a *rest*, to be judged by
//! what the frame returns to. Deep in a document the frames below change all the time, the top frame
//! hardly: so this part of the mask is computed once.

use std::sync::Arc;

use super::memo::Memo;
use super::units::{Loop, Profile, Rests};
use super::walk::{walk, Found};
use crate::bytes::ByteSet;
use crate::engine::{ConfigId, Engine, Frame, BOTTOM};
use crate::error::Result;
use crate::regex::NodeId;
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
}

/// More rests than this are not kept: the thread is walked as a whole instead.
const MAX_RESTS: usize = 4_000;
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
        128 + self.add.len() * 4
            + rests
            + if self.base.is_some() && self.tail.is_none() {
                self.base.as_ref().map_or(0, |b| b.len() * 4)
            } else {
                0
            }
    }
}

/// Sort ids, and turn many of them into words.
pub(crate) fn pack(mut ids: Vec<u32>, words: usize) -> (Option<Arc<[u32]>>, Box<[u32]>) {
    if ids.len() <= MAX_IDS {
        ids.sort_unstable();
        ids.dedup();
        return (None, ids.into());
    }
    let mut row = vec![0u32; words];
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
    if frame.kind == Frame::REGEX {
        if let Some(shape) = Loop::of(&engine.regex, NodeId(frame.state)) {
            if let Some(profile) = memo.profile(engine, vocab, shape.unit) {
                return looped(engine, vocab, shape, profile);
            }
        }
    }
    let start = engine.single(frame, BOTTOM);
    let mut found = Found::default();
    walk(engine, vocab.trie(), start, &mut found, |_| true)?;
    let (rests, blind) = rests_of(vocab, vocab.trie(), &found.ends, 0);
    let (base, add) = pack(found.ids, vocab.words());
    Ok(Local {
        base,
        add,
        rests,
        tail: None,
        blind,
    })
}

/// `unit{min,max} rest`.
fn looped(
    engine: &mut Engine,
    vocab: &Vocabulary,
    shape: Loop,
    profile: Arc<Profile>,
) -> Result<Local> {
    let base = profile.stayers(vocab, shape.max);
    let rest = Frame {
        kind: Frame::REGEX,
        state: shape.rest.0,
    };
    let rest_accepts = engine.regex.is_nullable(shape.rest);
    let follow = engine.regex.first_bytes(shape.rest);
    let start = engine.single(rest, BOTTOM);
    let mut ids = Vec::new();
    let mut ends: Vec<(Arc<Rests>, Vec<(u32, u32)>)> = Vec::new();
    let known = follow.intersect(&profile.dropped()).is_empty();
    let mut blind = ByteSet::EMPTY;
    if !known {
        // Too many tokens leave with a byte that may follow: walk the state like any other.
        let whole = engine.regex.repeat(shape.unit, shape.min, shape.max);
        let whole = engine.regex.cat(whole, shape.rest);
        let start = engine.single(
            Frame {
                kind: Frame::REGEX,
                state: whole.0,
            },
            BOTTOM,
        );
        let mut found = Found::default();
        walk(engine, vocab.trie(), start, &mut found, |_| true)?;
        let (rests, blind) = rests_of(vocab, vocab.trie(), &found.ends, 0);
        let (base, add) = pack(found.ids, vocab.words());
        return Ok(Local {
            base,
            add,
            rests,
            tail: None,
            blind,
        });
    }
    let all = profile.unbounded(shape.min, shape.max);
    for byte in follow.iter() {
        let Some(rests) = profile.rests(vocab, byte) else {
            continue;
        };
        let mut found = Found::default();
        let counts = &rests.counts;
        walk(engine, &rests.trie, start, &mut found, |at| {
            all || (shape.min..=shape.max).contains(&u32::from(counts[at as usize]))
        })?;
        ids.append(&mut found.ids);
        if !found.ends.is_empty() {
            ends.push((Arc::clone(&rests), found.ends));
        }
    }
    // Tokens that do not enter the loop at all.
    let mut direct = Found::default();
    if shape.min == 0 {
        walk(engine, vocab.trie(), start, &mut direct, |_| true)?;
        ids.append(&mut direct.ids);
    }
    let mut items: Vec<(&[u8], u32)> = Vec::new();
    let mut too_many =
        collect_rests(vocab, vocab.trie(), &direct.ends, |_| true, &mut items).is_none();
    for (rests, places) in &ends {
        let counts = &rests.counts;
        let fits =
            |at: u32| all || (shape.min..=shape.max).contains(&u32::from(counts[at as usize]));
        too_many |= collect_rests(vocab, &rests.trie, places, fits, &mut items).is_none();
    }
    if too_many {
        blind = ByteSet::ALL;
        items.clear();
    }
    let rests = build_rests(items);
    let mut tail = None;
    if rest_accepts {
        blind = blind
            .union(&engine.regex.first_bytes(shape.unit))
            .union(&profile.dropped());
        tail = Some((profile, shape.min, shape.max));
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(Local {
        base: Some(base),
        add: ids.into(),
        rests,
        tail,
        blind,
    })
}

/// The rests behind all places where the frame may have ended.
fn rests_of(
    vocab: &Vocabulary,
    trie: &Trie,
    ends: &[(u32, u32)],
    _min: u32,
) -> (Option<Arc<Rests>>, ByteSet) {
    let mut items = Vec::new();
    match collect_rests(vocab, trie, ends, |_| true, &mut items) {
        Some(()) => (build_rests(items), ByteSet::EMPTY),
        None => (None, ByteSet::ALL),
    }
}

/// Add the rests of all strings below some nodes of a trie whose ids are tokens and whose strings are
/// ends of these tokens. `None` when there are too many.
fn collect_rests<'v>(
    vocab: &'v Vocabulary,
    trie: &Trie,
    places: &[(u32, u32)],
    keep: impl Fn(u32) -> bool,
    items: &mut Vec<(&'v [u8], u32)>,
) -> Option<()> {
    let total: usize = places
        .iter()
        .map(|&(node, _)| {
            trie.starts[trie.ends[node as usize] as usize] - trie.starts[node as usize + 1]
        })
        .map(|n| n as usize)
        .sum();
    if total + items.len() > MAX_RESTS {
        return None;
    }
    for &(node, depth) in places {
        let mut below = node as usize + 1;
        let end = trie.ends[node as usize] as usize;
        // Lengths of the strings below, relative to this node, by walking the subtree.
        let mut stack: Vec<u32> = Vec::new();
        let _ = depth;
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
    Some(())
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
    engine: &mut Engine,
    vocab: &Vocabulary,
    local: &Local,
    frame: Frame,
    parents: u32,
) -> Result<(Vec<u32>, bool)> {
    if local.rests.is_none() && local.tail.is_none() && local.blind.is_empty() {
        return Ok((Vec::new(), false));
    }
    let back: ConfigId = engine.returned(parents)?;
    let live = engine.live_bytes(back);
    if live.is_empty() {
        return Ok((Vec::new(), false));
    }
    let mut found = Found::default();
    if !live.intersect(&local.blind).is_empty() {
        let start = engine.single_above(frame, parents);
        walk(engine, vocab.trie(), start, &mut found, |_| true)?;
        return Ok((found.ids, true));
    }
    if let Some(rests) = &local.rests {
        walk(engine, &rests.trie, back, &mut found, |_| true)?;
    }
    if let Some((profile, min, max)) = &local.tail {
        let all = profile.unbounded(*min, *max);
        for byte in live.iter() {
            let Some(rests) = profile.rests(vocab, byte) else {
                continue;
            };
            let counts = &rests.counts;
            walk(engine, &rests.trie, back, &mut found, |at| {
                all || (*min..=*max).contains(&u32::from(counts[at as usize]))
            })?;
        }
    }
    Ok((found.ids, false))
}
