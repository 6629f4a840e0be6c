//! Configurations that no token can tell apart, mapped to one of them.
//!
//! Each frame of a stack is replaced by what [`Machine::canonical`] (or a regular expression's saturation)
//! says, on its own: what a frame may do for the next token's bytes does not depend on how the others are
//! written. Masks are computed for the canonical configuration only, and their walks stay among canonical
//! ones, so that they find each other's steps.

use super::core::{ConfigId, Engine, BOTTOM, ROOT};
use super::Frame;
use crate::bytes::ByteSet;
use crate::machine::Cx;
use crate::regex::NodeId;
use crate::vocab::TokenFacts;

const UNKNOWN: u32 = u32::MAX;

/// Stacks are looked at down to this depth; what is below stays as it is.
const MAX_DEPTH: u32 = 200;

impl Engine {
    /// A configuration that behaves like this one for every token.
    #[inline]
    pub(crate) fn canonical(&mut self, config: ConfigId, facts: &TokenFacts) -> ConfigId {
        match self.canonical.configs.get(config.0 as usize) {
            Some(&known) if known != UNKNOWN => ConfigId(known),
            _ => self.canonical_slowly(config, facts),
        }
    }

    #[cold]
    fn canonical_slowly(&mut self, config: ConfigId, facts: &TokenFacts) -> ConfigId {
        let threads = self.threads(config);
        let mut tops: Vec<(Frame, u32)> = Vec::with_capacity(threads.len());
        for &(frame, parents) in &threads {
            let frame = self.canonical_frame(frame, facts);
            let parents = self.canonical_parents(parents, facts, 0);
            tops.push((frame, parents));
        }
        let mut same = tops == threads;
        if !same {
            tops.sort_unstable();
            tops.dedup();
            // Threads that only now have an equal frame would have to be merged; they are left alone.
            same = tops.windows(2).any(|w| w[0].0 == w[1].0);
        }
        let found = if same {
            config
        } else {
            self.of_threads(&tops, config)
        };
        let most = config.0.max(found.0) as usize + 1;
        if self.canonical.configs.len() < most {
            self.canonical.configs.resize(most.max(64) * 2, UNKNOWN);
        }
        self.canonical.configs[config.0 as usize] = found.0;
        self.canonical.configs[found.0 as usize] = found.0;
        found
    }

    /// The configuration of some threads, with the flags of another one.
    fn of_threads(&mut self, tops: &[(Frame, u32)], flags: ConfigId) -> ConfigId {
        let (mut live, mut exact) = (ByteSet::EMPTY, false);
        let mut ids = Vec::with_capacity(tops.len());
        for &(frame, parents) in tops {
            let (l, e) = self.live_of(frame);
            live = live.union(&l);
            exact |= e;
            ids.push(self.intern_node(frame, parents));
        }
        let list = self.lists.intern(&ids);
        let (accepting, escaped) = (self.is_accepting(flags), self.has_escaped(flags));
        self.intern_config(list, accepting, escaped, live, exact)
    }

    fn canonical_frame(&mut self, frame: Frame, facts: &TokenFacts) -> Frame {
        if frame.kind == Frame::NETWORK {
            return frame;
        }
        if let Some(&known) = self.canonical.frames.get(&frame) {
            return known;
        }
        let found = if frame.kind == Frame::REGEX {
            let state = self.regex.saturate(NodeId(frame.state), facts.longest).0;
            Frame { state, ..frame }
        } else {
            let machine = self.machine(frame.kind);
            let payload = self.payload(frame.state).to_vec();
            match machine.canonical(&mut Cx { engine: self }, &payload, facts) {
                Some(words) => Frame {
                    state: self.intern_payload(&words),
                    ..frame
                },
                None => frame,
            }
        };
        self.canonical.frames.insert(frame, found);
        self.canonical.frames.insert(found, found);
        found
    }

    fn canonical_parents(&mut self, parents: u32, facts: &TokenFacts, depth: u32) -> u32 {
        if let Some(&known) = self.canonical.parents.get(&parents) {
            return known;
        }
        if depth > MAX_DEPTH {
            return parents;
        }
        let ids = self.lists.get(parents).to_vec();
        let mut found: Vec<(Frame, u32)> = Vec::with_capacity(ids.len());
        let mut out = Vec::with_capacity(ids.len());
        for &id in &ids {
            if id == ROOT || id == BOTTOM {
                out.push(id);
                continue;
            }
            let node = self.node(id);
            let frame = self.canonical_frame(node.frame, facts);
            let below = self.canonical_parents(node.parents, facts, depth + 1);
            found.push((frame, below));
        }
        found.sort_unstable();
        found.dedup();
        let list = if found.windows(2).any(|w| w[0].0 == w[1].0) {
            parents
        } else {
            for (frame, below) in found {
                out.push(self.intern_node(frame, below));
            }
            out.sort_unstable();
            self.lists.intern(&out)
        };
        self.canonical.parents.insert(parents, list);
        self.canonical.parents.insert(list, list);
        list
    }
}
