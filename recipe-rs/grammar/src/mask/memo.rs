//! Finished masks and their parts, remembered within bounds.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::local::{self, Local};
use super::units::Profile;
use super::{Mask, NodeMask};
use crate::engine::{ConfigId, Engine, Frame};
use crate::error::Result;
use crate::hash::Fingerprint;
use crate::regex::NodeId;
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
}

impl Default for SharedMasks {
    fn default() -> Self {
        SharedMasks {
            locals: Aging::new(32 << 20),
            profiles: Aging::new(32 << 20),
        }
    }
}

/// Per engine: masks by configuration and by thread.
#[derive(Debug)]
pub(crate) struct Memo {
    masks: Aging<ConfigId, Arc<Mask>>,
    threads: Aging<(Frame, u32), Arc<NodeMask>>,
    locals: Aging<Frame, Arc<Local>>,
    saturated: FxHashMap<Frame, Frame>,
    profiles: FxHashMap<NodeId, Option<Arc<Profile>>>,
}

impl Memo {
    pub(crate) fn new(limit: usize) -> Self {
        Memo {
            masks: Aging::new(limit / 8),
            threads: Aging::new(limit / 4),
            locals: Aging::new(limit / 4),
            saturated: FxHashMap::default(),
            profiles: FxHashMap::default(),
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
        let same = match self.saturated.get(&frame) {
            Some(&known) => known,
            None => {
                let same = engine.saturate(frame, vocab.longest());
                self.saturated.insert(frame, same);
                same
            }
        };
        if let Some(known) = self.threads.get(&(same, parents), size) {
            return Ok(known);
        }
        let local = self.local(engine, vocab, same)?;
        let (ids, whole) = local::extra(engine, vocab, &local, same, parents)?;
        let mask = if whole {
            let (base, add) = local::pack(ids, vocab.words());
            Arc::new(NodeMask {
                local: Arc::new(Local {
                    base,
                    add,
                    ..Local::default()
                }),
                extra: Box::default(),
            })
        } else {
            let mut ids = ids;
            ids.sort_unstable();
            ids.dedup();
            Arc::new(NodeMask {
                local,
                extra: ids.into(),
            })
        };
        let bytes = size(&mask) + if whole { mask.local.heap_bytes() } else { 0 };
        self.threads
            .insert((same, parents), Arc::clone(&mask), bytes);
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

    /// How the vocabulary behaves in a loop over a unit; `None` when the unit is not prefix-free.
    pub(crate) fn profile(
        &mut self,
        engine: &mut Engine,
        vocab: &Vocabulary,
        unit: NodeId,
    ) -> Option<Arc<Profile>> {
        if let Some(known) = self.profiles.get(&unit) {
            return known.clone();
        }
        let fp = engine.regex.fingerprint(unit);
        let size = |p: &Option<Arc<Profile>>| p.as_ref().map_or(16, |p| p.heap_bytes());
        let known = lock(vocab).profiles.get(&fp, size);
        let profile = known.unwrap_or_else(|| {
            let made = Profile::new(&mut engine.regex, unit, vocab).map(Arc::new);
            let bytes = size(&made);
            lock(vocab).profiles.insert(fp, made.clone(), bytes);
            made
        });
        self.profiles.insert(unit, profile.clone());
        profile
    }
}

fn lock(vocab: &Vocabulary) -> std::sync::MutexGuard<'_, SharedMasks> {
    vocab
        .shared
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
