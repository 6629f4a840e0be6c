//! Finished masks and their parts, remembered within bounds.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::local::{self, Left, Local};
use super::units::{Loop, Profile, UnitTable, UNIT_START};
use super::walk::{Inside, Met};
use super::{Mask, NodeMask};
use crate::bytes::ByteSet;
use crate::engine::{ConfigId, Engine, Frame, BOTTOM, DEAD};
use crate::error::Result;
use crate::hash::Fingerprint;
use crate::regex::{NodeId, EMPTY, INFINITE};
use crate::vocab::Vocabulary;

/// A map that forgets what was not used for long: two generations, of which the older one is dropped
/// whole when the younger one has grown to half the bound.
#[derive(Debug)]
pub(crate) struct Aging<K, V> {
    young: FxHashMap<K, V>,
    old: FxHashMap<K, V>,
    young_bytes: usize,
    limit: usize,
}

impl<K: std::hash::Hash + Eq + Copy, V: Clone> Aging<K, V> {
    pub(crate) fn new(limit: usize) -> Self {
        Aging {
            young: FxHashMap::default(),
            old: FxHashMap::default(),
            young_bytes: 0,
            limit,
        }
    }

    pub(crate) fn get(&mut self, key: &K, bytes: impl Fn(&V) -> usize) -> Option<V> {
        if let Some(v) = self.young.get(key) {
            return Some(v.clone());
        }
        let v = self.old.remove(key)?;
        self.insert(*key, v.clone(), bytes(&v));
        Some(v)
    }

    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        if self.young_bytes + bytes > self.limit / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes + 64;
        self.young.insert(key, value);
    }
}

/// Per vocabulary: what does not depend on a grammar.
#[derive(Debug)]
pub(crate) struct SharedMasks {
    locals: Aging<Fingerprint, Arc<Local>>,
    profiles: Aging<Fingerprint, Option<Arc<Profile>>>,
    /// How often units without a profile were met.
    met: Aging<Fingerprint, u32>,
}

impl Default for SharedMasks {
    fn default() -> Self {
        SharedMasks {
            locals: Aging::new(32 << 20),
            profiles: Aging::new(32 << 20),
            met: Aging::new(1 << 20),
        }
    }
}

/// Per engine: masks by configuration and by thread.
#[derive(Debug)]
pub(crate) struct Memo {
    masks: Aging<ConfigId, Arc<Mask>>,
    threads: Aging<(Frame, u32), Arc<NodeMask>>,
    locals: Aging<Frame, Arc<Local>>,
    profiles: FxHashMap<NodeId, Option<Arc<Profile>>>,
    bodies: FxHashMap<ConfigId, Option<Inside>>,
    left: Aging<LeftKey, Arc<Left>>,
    /// Profiles whose addresses are in the keys of `left`.
    held: FxHashMap<usize, Arc<Profile>>,
    /// Room for walks.
    pub(super) met: Met,
}

/// A profile by address, an exit, bounds on units.
type LeftKey = (usize, ConfigId, u32, u32);

impl Memo {
    pub(crate) fn new(limit: usize) -> Self {
        Memo {
            masks: Aging::new(limit / 8),
            threads: Aging::new(limit / 4),
            locals: Aging::new(limit / 4),
            profiles: FxHashMap::default(),
            bodies: FxHashMap::default(),
            left: Aging::new(limit / 16),
            held: FxHashMap::default(),
            met: Met::default(),
        }
    }

    /// The mask of a configuration.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub(crate) fn mask(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        config: ConfigId,
    ) -> Result<Arc<Mask>> {
        let config = engine.canonical(config, vocab.facts());
        if let Some(known) = self.masks.get(&config, |_| 128) {
            return Ok(known);
        }
        let mut parts = Vec::new();
        for node in engine.threads(config) {
            let (frame, parents) = node;
            if frame.kind == Frame::NETWORK {
                continue; // reads special tokens only
            }
            parts.push(self.thread(engine, vocab, frame, parents)?);
        }
        let specials = engine.specials(config);
        let mask = Arc::new(Mask {
            parts: parts.into(),
            specials: specials.into(),
            accepting: engine.is_accepting(config),
        });
        self.masks
            .insert(config, Arc::clone(&mask), 128 + mask.parts.len() * 8);
        Ok(mask)
    }

    fn thread(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        frame: Frame,
        parents: u32,
    ) -> Result<Arc<NodeMask>> {
        let size = |m: &Arc<NodeMask>| 64 + m.extra.len() * 4;
        if let Some(known) = self.threads.get(&(frame, parents), size) {
            return Ok(known);
        }
        let local = self.local(engine, vocab, frame)?;
        let (found, whole) = local::extra(self, engine, vocab, &local, frame, parents)?;
        let mask = if whole {
            Arc::new(NodeMask {
                local: Arc::new(Local::of(found.ids, found.row, vocab.words())),
                extra: Box::default(),
            })
        } else {
            let mut ids = found.ids;
            ids.sort_unstable();
            ids.dedup();
            Arc::new(NodeMask {
                local,
                extra: ids.into(),
            })
        };
        let bytes = size(&mask) + if whole { mask.local.heap_bytes() } else { 0 };
        self.threads
            .insert((frame, parents), Arc::clone(&mask), bytes);
        Ok(mask)
    }

    fn local(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        frame: Frame,
    ) -> Result<Arc<Local>> {
        if let Some(known) = self.locals.get(&frame, |l| l.heap_bytes()) {
            return Ok(known);
        }
        let fingerprint = engine.fingerprint(frame);
        if let Some(fp) = fingerprint {
            if let Some(known) = lock(vocab).locals.get(&fp, |l| l.heap_bytes()) {
                self.locals.insert(frame, Arc::clone(&known), 64);
                return Ok(known);
            }
        }
        let local = Arc::new(local::compute(self, engine, vocab, frame)?);
        if let Some(fp) = fingerprint {
            lock(vocab)
                .locals
                .insert(fp, Arc::clone(&local), local.heap_bytes());
        }
        self.locals
            .insert(frame, Arc::clone(&local), local.heap_bytes());
        Ok(local)
    }

    pub(crate) fn left(&mut self, key: &LeftKey) -> Option<Arc<Left>> {
        self.left.get(key, |l| l.heap_bytes())
    }

    pub(crate) fn keep_left(&mut self, key: LeftKey, profile: &Arc<Profile>, left: &Arc<Left>) {
        self.held
            .entry(key.0)
            .or_insert_with(|| Arc::clone(profile));
        self.left.insert(key, Arc::clone(left), left.heap_bytes());
    }

    /// How the vocabulary behaves in a loop over a unit; `None` when the unit is not prefix-free.
    fn profile(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        unit: NodeId,
        at_once: bool,
    ) -> Option<Arc<Profile>> {
        if let Some(known) = self.profiles.get(&unit) {
            return known.clone();
        }
        // Unit counts and depths of one token are kept in a byte.
        let profile = if vocab.longest() > 250 {
            None
        } else {
            let at_once = at_once || vocab.trie().len() < 5_000;
            shared_profile(vocab, engine.regex.fingerprint(unit), at_once, || {
                UnitTable::new(&mut engine.regex, unit)
            })?
        };
        self.profiles.insert(unit, profile.clone());
        profile
    }

    /// A frame as a body of units, and whether it is tracked. `start` is the frame alone.
    pub(crate) fn shape(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        frame: Frame,
        start: ConfigId,
    ) -> Result<Option<(Inside, bool)>> {
        if frame.kind == Frame::REGEX {
            if let Some(l) = Loop::of(&engine.regex, NodeId(frame.state)) {
                if let Some(profile) = self.profile(engine, vocab, l.unit, false) {
                    let rest = Frame {
                        kind: Frame::REGEX,
                        state: l.rest.0,
                    };
                    let exit = engine.entered(rest, BOTTOM)?;
                    let exit = engine.canonical(exit, vocab.facts());
                    let first = engine.regex.first_bytes(l.unit);
                    return Ok(Some((
                        Inside {
                            profile,
                            min: l.min,
                            max: l.max,
                            exit,
                            first,
                            tracked: ByteSet::EMPTY,
                        },
                        false,
                    )));
                }
            }
        } else if frame.kind != Frame::NETWORK {
            if let Some(body) = engine.body(frame) {
                if let Some(profile) = self.profile(engine, vocab, body.unit, true) {
                    let exit = Frame {
                        kind: frame.kind,
                        state: engine.intern_payload(&body.exit),
                    };
                    let exit = engine.entered(exit, BOTTOM)?;
                    let exit = engine.canonical(exit, vocab.facts());
                    let first = engine.regex.first_bytes(body.unit);
                    let tracked = if body.tracked {
                        engine.tracked_bytes(frame)
                    } else {
                        ByteSet::EMPTY
                    };
                    let inside = Inside {
                        profile,
                        min: body.min,
                        max: body.max,
                        exit,
                        first,
                        tracked,
                    };
                    return Ok(Some((inside, body.tracked)));
                }
            }
        }
        Ok(self
            .self_loop(engine, vocab, start)?
            .map(|inside| (inside, false)))
    }

    /// A configuration that most bytes lead back to, as a body of just those units.
    fn self_loop(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        start: ConfigId,
    ) -> Result<Option<Inside>> {
        if engine.live_bytes(start).len() < 60 || engine.is_exact(start) || vocab.longest() > 250 {
            return Ok(None);
        }
        let facts = vocab.facts();
        let mut exit = None;
        let mut next = vec![0u16; 512];
        let mut middle: Vec<ConfigId> = Vec::new();
        let mut single_bytes = 0;
        let place =
            |middle: &mut Vec<ConfigId>, to: ConfigId| match middle.iter().position(|&m| m == to) {
                Some(i) => i as u16 + 2,
                None => {
                    middle.push(to);
                    middle.len() as u16 + 1
                }
            };
        for byte in 0..=0xF4u8 {
            let to = engine.step(start, byte)?;
            let to = engine.canonical(to, facts);
            if to == DEAD || (0x80..0xC2).contains(&byte) {
                continue;
            }
            let id = if engine.same_threads(to, start) {
                if *exit.get_or_insert(to) != to {
                    continue;
                }
                single_bytes += usize::from(byte < 0x80);
                UNIT_START
            } else if byte >= 0xC2 && !engine.has_escaped(to) {
                place(&mut middle, to)
            } else {
                continue;
            };
            next[256 + byte as usize] = id;
        }
        let Some(exit) = exit.filter(|_| single_bytes >= 48) else {
            return Ok(None);
        };
        // Continuations: only first bytes whose characters all lead back (or die) begin units.
        let mut impure: Vec<bool> = Vec::new();
        let mut done = 0;
        while done < middle.len() && middle.len() <= 200 {
            let from = middle[done];
            next.resize((done + 3) * 256, 0);
            let mut fine = true;
            for byte in 0..=255u8 {
                let to = engine.step(from, byte)?;
                let to = engine.canonical(to, facts);
                if to == DEAD {
                    continue;
                }
                let id = if to == exit {
                    UNIT_START
                } else if !engine.has_escaped(to) && (0x80..0xC0).contains(&byte) {
                    place(&mut middle, to)
                } else {
                    fine = false;
                    continue;
                };
                next[(done + 2) * 256 + byte as usize] = id;
            }
            impure.push(!fine);
            done += 1;
        }
        impure.resize(middle.len(), true);
        next.resize((middle.len() + 2) * 256, 0);
        for _ in 0..3 {
            for i in 0..middle.len() {
                let row = &next[(i + 2) * 256..(i + 3) * 256];
                impure[i] |= row.iter().any(|&n| n >= 2 && impure[n as usize - 2]);
            }
        }
        for entry in &mut next[256 + 0x80..512] {
            if *entry >= 2 && impure[*entry as usize - 2] {
                *entry = 0;
            }
        }
        let table = UnitTable::from_table(next);
        let first = table.first();
        let fingerprint = table.fingerprint();
        let small = vocab.trie().len() < 5_000;
        let Some(Some(profile)) = shared_profile(vocab, fingerprint, small, || Some(table)) else {
            return Ok(None);
        };
        // A body that loops on itself goes on in itself: the exit is the state after one unit.
        Ok(Some(Inside {
            profile,
            min: 0,
            max: INFINITE,
            exit,
            first,
            tracked: ByteSet::EMPTY,
        }))
    }

    /// A configuration of one thread inside an untracked body, for the walk's second gear.
    pub(crate) fn inside(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        config: ConfigId,
    ) -> Result<Option<Inside>> {
        if let Some(known) = self.bodies.get(&config) {
            return Ok(known.clone());
        }
        let mut result = None;
        let mut tracked = ByteSet::EMPTY;
        let threads = engine.threads(config);
        if let [(frame, parents)] = threads[..] {
            if !engine.has_escaped(config) {
                let parts = if frame.kind == Frame::REGEX {
                    Loop::of(&engine.regex, NodeId(frame.state))
                        .map(|l| {
                            (
                                l.unit,
                                l.min,
                                l.max,
                                Frame {
                                    kind: Frame::REGEX,
                                    state: l.rest.0,
                                },
                            )
                        })
                        .filter(|p| {
                            p.3.state != EMPTY.0 && !engine.regex.is_nullable(NodeId(p.3.state))
                        })
                } else if frame.kind == Frame::NETWORK {
                    None
                } else {
                    engine.body(frame).map(|b| {
                        if b.tracked {
                            tracked = engine.tracked_bytes(frame);
                        }
                        let exit = Frame {
                            kind: frame.kind,
                            state: engine.intern_payload(&b.exit),
                        };
                        (b.unit, b.min, b.max, exit)
                    })
                };
                if let Some((unit, min, max, exit)) = parts {
                    if let Some(profile) =
                        self.profile(engine, vocab, unit, frame.kind != Frame::REGEX)
                    {
                        let exit = engine.entered_above(exit, parents)?;
                        let exit = engine.canonical(exit, vocab.facts());
                        let first = engine.regex.first_bytes(unit);
                        // What the frame returns to must not read on where the body does.
                        if engine.live_bytes(exit).intersect(&first).is_empty() {
                            result = Some(Inside {
                                profile,
                                min,
                                max,
                                exit,
                                first,
                                tracked,
                            });
                        }
                    }
                }
            }
        }
        self.bodies.insert(config, result.clone());
        Ok(result)
    }

    /// The first bytes of words that a tracked body tells apart.
    pub(crate) fn tracked_bytes(&self, engine: &mut Engine, config: ConfigId) -> ByteSet {
        match engine.threads(config)[..] {
            [(frame, _)] => engine.tracked_bytes(frame),
            _ => ByteSet::ALL,
        }
    }

    /// Whether some thread of a configuration is in a tracked body (or in none, which is as unknown).
    pub(crate) fn is_tracked(&self, engine: &mut Engine, config: ConfigId) -> bool {
        match engine.threads(config)[..] {
            [(frame, _)] if frame.kind > Frame::REGEX => {
                engine.body(frame).is_none_or(|b| b.tracked)
            }
            _ => true,
        }
    }
}

/// A walk of the vocabulary costs much less than a profile: one is only made for units that are met often.
const OFTEN: u32 = 16;

/// The profile of a unit; the outer `None`: not made yet.
fn shared_profile(
    vocab: &Vocabulary,
    fingerprint: Fingerprint,
    at_once: bool,
    table: impl FnOnce() -> Option<UnitTable>,
) -> Option<Option<Arc<Profile>>> {
    let size = |p: &Option<Arc<Profile>>| p.as_ref().map_or(16, |p| p.heap_bytes());
    {
        let mut shared = lock(vocab);
        if let Some(known) = shared.profiles.get(&fingerprint, size) {
            return Some(known);
        }
        if !at_once {
            let met = shared.met.get(&fingerprint, |_| 64).unwrap_or(0) + 1;
            shared.met.insert(fingerprint, met, 64);
            if met < OFTEN {
                return None;
            }
        }
    }
    let made = table().map(|t| Arc::new(Profile::new(t, vocab)));
    let bytes = size(&made);
    lock(vocab)
        .profiles
        .insert(fingerprint, made.clone(), bytes);
    Some(made)
}

fn lock(vocab: &Vocabulary) -> std::sync::MutexGuard<'_, SharedMasks> {
    vocab
        .shared
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
