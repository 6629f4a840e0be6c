//! The engine: hash-consed stacks, configurations, and the cached step by one byte.
//!
//! * A *node* is a frame with the set of nodes it may return to. Frames of one set are distinct: two
//!   stacks that differ only below an equal frame are merged there, so an ambiguous text has as many
//!   threads as there are different top frames, not as there are parses.
//! * A *configuration* is a sorted set of nodes whose frames read bytes or special tokens, plus two
//!   flags (the text may end; some thread has left the bottom). All are interned: equality is equality of
//!   ids, and forking or rolling back a matcher copies ids.
//! * `step` is a table over configurations and byte classes, filled on demand: a lazily built
//!   deterministic automaton over configurations, shared by all matchers of the grammar.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::intern::Interner;
use super::network::Start;
use super::{Frame, Grammar};
use crate::bytes::ByteSet;
use crate::error::{GrammarError, LimitKind, Result};
use crate::hash::{mix, Fingerprint};
use crate::ir::RuleId;
use crate::limits::mask_tick;
use crate::machine::{Body, Callee, Machine, MachineId, Moves, Successors};
use crate::regex::{Arena, NodeId, EMPTY, NEVER};
use crate::vocab::TokenFacts;

/// A configuration of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConfigId(pub u32);

/// The configuration without threads: nothing can complete the text.
pub const DEAD: ConfigId = ConfigId(0);

const UNKNOWN: u32 = u32::MAX;
const NO_ROW: u32 = u32::MAX;

/// Returning here ends the text.
pub(crate) const ROOT: u32 = 0;
/// Returning here leaves the frame that is looked at on its own (see `mask`).
pub(crate) const BOTTOM: u32 = 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) frame: Frame,
    pub(crate) parents: u32,
    pub(crate) depth: u32,
}

/// Calls of a machine's state, resolved once.
#[derive(Debug)]
struct Expansion {
    accept: bool,
    calls: Vec<(Frame, Option<Frame>)>,
    live: ByteSet,
    exact: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Id in `lists` of the sorted node ids.
    pub(crate) nodes: u32,
    pub(crate) accepting: bool,
    pub(crate) escaped: bool,
    /// Bytes matter beyond their class (a machine remembers text).
    exact: bool,
    row: u32,
    pub(crate) live: ByteSet,
}

/// Runs one grammar. Not shared between threads by itself; see `Matcher` for that.
#[derive(Debug)]
pub struct Engine {
    pub(crate) grammar: Arc<Grammar>,
    pub(crate) regex: Arena,
    /// Machine payloads and side memory.
    payloads: Interner,
    /// Sorted node id lists: parent sets and configurations.
    pub(crate) lists: Interner,
    nodes: Vec<Node>,
    node_ids: FxHashMap<(Frame, u32), u32>,
    configs: Vec<Config>,
    config_ids: FxHashMap<(u32, bool, bool), u32>,
    rows: Vec<u32>,
    exact_steps: FxHashMap<(u32, u8), u32>,
    expansions: FxHashMap<Frame, Arc<Expansion>>,
    returns: FxHashMap<u32, ConfigId>,
    unions: FxHashMap<(u32, u32), u32>,
    start: ConfigId,
    scratch: Scratch,
    pub(super) canonical: Canonical,
}

/// What is known of configurations that no token tells apart (see `canonical`).
#[derive(Debug, Default)]
pub(super) struct Canonical {
    /// By configuration.
    pub(super) configs: Vec<u32>,
    pub(super) frames: FxHashMap<Frame, Frame>,
    pub(super) parents: FxHashMap<u32, u32>,
    /// For what machines look at (interned): the first payload that was met with it.
    pub(super) first: FxHashMap<u32, u32>,
}

#[derive(Debug, Default)]
struct Scratch {
    pending: Vec<(Frame, u32, bool)>,
    seen: FxHashMap<(Frame, bool), u32>,
    tops: Vec<(Frame, u32)>,
    accepting: bool,
    escaped: bool,
    too_deep: bool,
}

impl Engine {
    /// An engine at the start of the grammar.
    ///
    /// # Errors
    /// `Limit` when the first configuration already hits a bound.
    pub fn new(grammar: Arc<Grammar>) -> Result<Self> {
        let mut engine = Engine {
            regex: grammar.regex.clone(),
            grammar,
            payloads: Interner::default(),
            lists: Interner::default(),
            nodes: Vec::new(),
            node_ids: FxHashMap::default(),
            configs: Vec::new(),
            config_ids: FxHashMap::default(),
            rows: Vec::new(),
            exact_steps: FxHashMap::default(),
            expansions: FxHashMap::default(),
            returns: FxHashMap::default(),
            unions: FxHashMap::default(),
            start: DEAD,
            scratch: Scratch::default(),
            canonical: Canonical::default(),
        };
        let nothing = Frame {
            kind: u32::MAX,
            state: 0,
        };
        for sentinel in [ROOT, BOTTOM] {
            engine.nodes.push(Node {
                frame: Frame {
                    state: sentinel,
                    ..nothing
                },
                parents: 0,
                depth: 0,
            });
        }
        let empty = engine.lists.intern(&[]);
        let dead = engine.intern_config(empty, false, false, ByteSet::EMPTY, false);
        debug_assert_eq!(dead, DEAD);
        let root = engine.grammar.network.root.clone();
        engine.start = engine.sub_config(&root, engine.grammar.network.root_nullable, ROOT)?;
        Ok(engine)
    }

    /// The configuration before any text.
    pub fn start(&self) -> ConfigId {
        self.start
    }

    /// Whether the text so far is a full match.
    #[inline]
    pub fn is_accepting(&self, config: ConfigId) -> bool {
        self.configs[config.0 as usize].accepting
    }

    /// A superset of the bytes that may come next; empty when none may.
    #[inline]
    pub fn live_bytes(&self, config: ConfigId) -> ByteSet {
        self.configs[config.0 as usize].live
    }

    /// Bytes held, roughly.
    pub fn bytes(&self) -> usize {
        self.regex.bytes()
            + self.payloads.bytes()
            + self.lists.bytes()
            + self.nodes.len() * 48
            + self.configs.len() * 80
            + self.rows.capacity() * 4
            + self.exact_steps.len() * 16
            + self.expansions.len() * 120
    }

    /// The configuration after one more byte; [`DEAD`] when it cannot follow.
    ///
    /// # Errors
    /// `Limit` when the step hits a bound; the configuration stays usable.
    #[inline]
    pub fn step(&mut self, config: ConfigId, byte: u8) -> Result<ConfigId> {
        let c = &self.configs[config.0 as usize];
        if c.row != NO_ROW {
            let next =
                self.rows[c.row as usize + self.grammar.classes.class_of[byte as usize] as usize];
            if next != UNKNOWN {
                return Ok(ConfigId(next));
            }
        }
        self.step_slowly(config, byte)
    }

    #[cold]
    fn step_slowly(&mut self, config: ConfigId, byte: u8) -> Result<ConfigId> {
        let c = self.configs[config.0 as usize];
        if !c.live.contains(byte) {
            return Ok(DEAD);
        }
        if c.exact {
            if let Some(&next) = self.exact_steps.get(&(config.0, byte)) {
                return Ok(ConfigId(next));
            }
        }
        mask_tick("states of the grammar")?;
        self.check_size()?;
        self.scratch_clear();
        let nodes: Vec<u32> = self.lists.get(c.nodes).to_vec();
        let mut successors = Successors::default();
        for id in nodes {
            let node = self.nodes[id as usize];
            match node.frame.kind {
                Frame::NETWORK => {}
                Frame::REGEX => {
                    let next = self.regex.step(NodeId(node.frame.state), byte);
                    if next != NEVER {
                        self.scratch.pending.push((
                            Frame {
                                kind: Frame::REGEX,
                                state: next.0,
                            },
                            node.parents,
                            false,
                        ));
                    }
                }
                kind => {
                    if !self.expansion(node.frame).live.contains(byte) {
                        continue;
                    }
                    let machine = self.machine(kind);
                    let payload = self.payloads.get(node.frame.state).to_vec();
                    successors.clear();
                    machine.step(&mut Cx { engine: self }, &payload, byte, &mut successors);
                    if let Some(error) = successors.error.take() {
                        return Err(error);
                    }
                    for words in successors.iter() {
                        let state = self.payloads.intern(words);
                        self.scratch
                            .pending
                            .push((Frame { kind, state }, node.parents, false));
                    }
                }
            }
        }
        let next = self.close()?;
        if c.exact {
            self.exact_steps.insert((config.0, byte), next.0);
        } else {
            let count = self.grammar.classes.count;
            let c = &mut self.configs[config.0 as usize];
            if c.row == NO_ROW {
                c.row = self.rows.len() as u32;
                self.rows.resize(self.rows.len() + count, UNKNOWN);
                // Whole classes without a live byte are dead from the start.
                for (class, &byte) in self.grammar.classes.representative.iter().enumerate() {
                    if !c.live.contains(byte) {
                        self.rows[c.row as usize + class] = DEAD.0;
                    }
                }
            }
            let row = c.row as usize;
            self.rows[row + self.grammar.classes.class_of[byte as usize] as usize] = next.0;
        }
        Ok(next)
    }

    /// The configuration after a special token, matched by id; [`DEAD`] when none is expected.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_special(&mut self, config: ConfigId, token: u32) -> Result<ConfigId> {
        self.scratch_clear();
        let list = self.configs[config.0 as usize].nodes;
        let nodes: Vec<u32> = self.lists.get(list).to_vec();
        for id in nodes {
            let node = self.nodes[id as usize];
            if node.frame.kind == Frame::NETWORK {
                for &(special, next) in
                    &self.grammar.network.states[node.frame.state as usize].specials
                {
                    if special == token {
                        let frame = Frame {
                            kind: Frame::NETWORK,
                            state: next,
                        };
                        self.scratch.pending.push((frame, node.parents, false));
                    }
                }
            }
        }
        self.close()
    }

    /// The special tokens that may come next, ascending.
    pub fn specials(&self, config: ConfigId) -> Vec<u32> {
        let mut out = Vec::new();
        for &id in self.lists.get(self.configs[config.0 as usize].nodes) {
            let node = self.nodes[id as usize];
            if node.frame.kind == Frame::NETWORK {
                out.extend(
                    self.grammar.network.states[node.frame.state as usize]
                        .specials
                        .iter()
                        .map(|s| s.0),
                );
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Whether the engine has outgrown its bounds, so that a fresh one should take over.
    pub(crate) fn is_full(&self) -> bool {
        let l = &self.grammar.limits;
        let states = self.configs.len() + self.nodes.len() + self.payloads.len();
        // The exact size is only summed up now and then.
        states as u64 * 2 > l.states || (states > 20_000 && self.bytes() as u64 > l.bytes)
    }

    pub(crate) fn node(&self, id: u32) -> Node {
        self.nodes[id as usize]
    }

    pub(crate) fn payload(&self, state: u32) -> &[u32] {
        self.payloads.get(state)
    }

    pub(crate) fn intern_payload(&mut self, words: &[u32]) -> u32 {
        self.payloads.intern(words)
    }

    // ------------------------------------------------------------ for masks

    /// Whether some thread has returned to the bottom sentinel.
    #[inline]
    pub(crate) fn has_escaped(&self, config: ConfigId) -> bool {
        self.configs[config.0 as usize].escaped
    }

    /// Top frames of a configuration with their parent sets.
    pub(crate) fn threads(&self, config: ConfigId) -> Vec<(Frame, u32)> {
        let list = self.configs[config.0 as usize].nodes;
        self.lists
            .get(list)
            .iter()
            .map(|&id| self.nodes[id as usize])
            .map(|n| (n.frame, n.parents))
            .collect()
    }

    /// The configuration of one frame alone, above a sentinel; what it may do without reading is left out.
    pub(crate) fn single(&mut self, frame: Frame, sentinel: u32) -> ConfigId {
        let parents = self.lists.intern(&[sentinel]);
        self.single_above(frame, parents)
    }

    /// The configuration of one frame alone, above a parent set.
    pub(crate) fn single_above(&mut self, frame: Frame, parents: u32) -> ConfigId {
        let (live, exact) = self.live_of(frame);
        if live.is_empty() {
            return DEAD;
        }
        let id = self.intern_node(frame, parents);
        let list = self.lists.intern(&[id]);
        self.intern_config(list, false, false, live, exact)
    }

    /// Bytes that a frame may read, and whether bytes matter beyond their class.
    pub(super) fn live_of(&mut self, frame: Frame) -> (ByteSet, bool) {
        match frame.kind {
            Frame::NETWORK => (ByteSet::EMPTY, false),
            Frame::REGEX => (self.regex.first_bytes(NodeId(frame.state)), false),
            _ => {
                let expansion = self.expansion(frame);
                (expansion.live, expansion.exact)
            }
        }
    }

    /// The configuration of a frame above a sentinel, with what it may do without reading.
    pub(crate) fn entered(&mut self, frame: Frame, sentinel: u32) -> Result<ConfigId> {
        let parents = self.lists.intern(&[sentinel]);
        self.entered_above(frame, parents)
    }

    /// The configuration of a frame above a parent set, with what it may do without reading.
    pub(crate) fn entered_above(&mut self, frame: Frame, parents: u32) -> Result<ConfigId> {
        self.scratch_clear();
        self.scratch.pending.push((frame, parents, false));
        self.close()
    }

    /// Whether two configurations have the same threads.
    pub(crate) fn same_threads(&self, a: ConfigId, b: ConfigId) -> bool {
        self.configs[a.0 as usize].nodes == self.configs[b.0 as usize].nodes
    }

    /// Whether steps depend on bytes beyond their class.
    pub(crate) fn is_exact(&self, config: ConfigId) -> bool {
        self.configs[config.0 as usize].exact
    }

    /// A machine's frame as a body of units.
    pub(crate) fn body(&mut self, frame: Frame) -> Option<Body> {
        let machine = self.machine(frame.kind);
        let payload = self.payloads.get(frame.state).to_vec();
        machine.body(&mut Cx { engine: self }, &payload)
    }

    /// Bytes that begin the words which a machine's tracked body tells apart.
    pub(crate) fn tracked_bytes(&mut self, frame: Frame) -> ByteSet {
        if frame.kind <= Frame::REGEX {
            return ByteSet::ALL;
        }
        let machine = self.machine(frame.kind);
        let payload = self.payloads.get(frame.state).to_vec();
        machine.tracked_bytes(&mut Cx { engine: self }, &payload)
    }

    /// The configuration after a frame above `parents` has ended.
    pub(crate) fn returned(&mut self, parents: u32) -> Result<ConfigId> {
        if let Some(&known) = self.returns.get(&parents) {
            return Ok(known);
        }
        self.scratch_clear();
        self.pop(parents);
        let config = self.close()?;
        self.returns.insert(parents, config);
        Ok(config)
    }

    /// A hash that determines the frame's language across grammars, if there is one.
    pub(crate) fn fingerprint(&mut self, frame: Frame) -> Option<Fingerprint> {
        match frame.kind {
            Frame::NETWORK => None,
            Frame::REGEX => Some(self.regex.fingerprint(NodeId(frame.state))),
            kind => {
                let machine = self.machine(kind);
                let payload = self.payloads.get(frame.state).to_vec();
                machine.fingerprint(&mut Cx { engine: self }, &payload)
            }
        }
    }

    // ------------------------------------------------------------ closure

    fn scratch_clear(&mut self) {
        let s = &mut self.scratch;
        s.pending.clear();
        s.seen.clear();
        s.tops.clear();
        (s.accepting, s.escaped, s.too_deep) = (false, false, false);
    }

    /// Follow all moves that read nothing from `scratch.pending` and intern the configuration reached.
    fn close(&mut self) -> Result<ConfigId> {
        let mut rounds = 0;
        while let Some(item) = self.scratch.pending.pop() {
            let (frame, mut parents, entry) = item;
            // A frame met again is merged with what is known of it, and only gone through again when that
            // adds something: so ambiguity costs by frames, not by parses.
            match self.scratch.seen.get(&(frame, entry)).copied() {
                None => {}
                Some(known) => {
                    let merged = self.union(known, parents, 0)?;
                    if merged == known {
                        continue;
                    }
                    parents = merged;
                }
            }
            self.scratch.seen.insert((frame, entry), parents);
            mask_tick("ways to go on")?;
            rounds += 1;
            if rounds > 16 * self.grammar.limits.threads {
                return Err(self.limit(LimitKind::Threads, "ways to go on", rounds as usize));
            }
            match frame.kind {
                Frame::REGEX => {
                    let node = NodeId(frame.state);
                    if !entry && self.regex.is_nullable(node) {
                        self.pop(parents);
                    }
                    if node != EMPTY {
                        self.add_top(frame, parents)?;
                    }
                }
                Frame::NETWORK => {
                    let grammar = Arc::clone(&self.grammar);
                    let state = &grammar.network.states[frame.state as usize];
                    if state.accept && !entry {
                        self.pop(parents);
                    }
                    for (start, next) in &state.calls {
                        let below = if grammar.network.states[*next as usize].is_end() {
                            parents
                        } else {
                            match self.push(
                                Frame {
                                    kind: Frame::NETWORK,
                                    state: *next,
                                },
                                parents,
                            ) {
                                Some(below) => below,
                                None => continue,
                            }
                        };
                        let callee = self.start_frame(start);
                        self.scratch.pending.push((callee, below, true));
                    }
                    if !state.specials.is_empty() {
                        self.add_top(frame, parents)?;
                    }
                }
                _ => {
                    let expansion = self.expansion(frame);
                    if expansion.accept && !entry {
                        self.pop(parents);
                    }
                    for &(callee, next) in &expansion.calls {
                        let below = match next {
                            None => parents,
                            Some(next) => match self.push(next, parents) {
                                Some(below) => below,
                                None => continue,
                            },
                        };
                        self.scratch.pending.push((callee, below, true));
                    }
                    if !expansion.live.is_empty() {
                        self.add_top(frame, parents)?;
                    }
                }
            }
        }
        self.regex.check()?;
        let mut tops = std::mem::take(&mut self.scratch.tops);
        tops.sort_unstable();
        let (mut live, mut exact) = (ByteSet::EMPTY, false);
        let mut ids = Vec::with_capacity(tops.len());
        for &(frame, parents) in &tops {
            match frame.kind {
                Frame::NETWORK => {}
                Frame::REGEX => live = live.union(&self.regex.first_bytes(NodeId(frame.state))),
                _ => {
                    let expansion = self.expansion(frame);
                    live = live.union(&expansion.live);
                    exact |= expansion.exact;
                }
            }
            ids.push(self.intern_node(frame, parents));
        }
        self.scratch.tops = tops;
        let list = self.lists.intern(&ids);
        Ok(self.intern_config(
            list,
            self.scratch.accepting,
            self.scratch.escaped,
            live,
            exact,
        ))
    }

    fn pop(&mut self, parents: u32) {
        for &id in self.lists.get(parents) {
            match id {
                ROOT => self.scratch.accepting = true,
                BOTTOM => self.scratch.escaped = true,
                _ => {
                    let node = self.nodes[id as usize];
                    self.scratch.pending.push((node.frame, node.parents, false));
                }
            }
        }
    }

    /// The parent set of a callee: one node that returns to `next` above `parents`.
    fn push(&mut self, next: Frame, parents: u32) -> Option<u32> {
        let id = self.intern_node(next, parents);
        if self.nodes[id as usize].depth as u64 > self.grammar.limits.stack_depth {
            // Deeper nesting is not offered; what is open can still be closed.
            self.scratch.too_deep = true;
            return None;
        }
        Some(self.lists.intern(&[id]))
    }

    fn add_top(&mut self, frame: Frame, parents: u32) -> Result<()> {
        if let Some(i) = self.scratch.tops.iter().position(|t| t.0 == frame) {
            let merged = self.union(self.scratch.tops[i].1, parents, 0)?;
            self.scratch.tops[i].1 = merged;
            return Ok(());
        }
        if self.scratch.tops.len() as u64 >= self.grammar.limits.threads {
            return Err(self.limit(
                LimitKind::Threads,
                "ways to read the text",
                self.scratch.tops.len() + 1,
            ));
        }
        self.scratch.tops.push((frame, parents));
        Ok(())
    }

    /// Union of two parent sets, merging nodes of equal frame all the way down.
    fn union(&mut self, a: u32, b: u32, depth: u32) -> Result<u32> {
        if a == b {
            return Ok(a);
        }
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return Ok(known);
        }
        mask_tick("ambiguous nesting")?;
        if depth > 2_000 {
            return Err(self.limit(LimitKind::StackDepth, "ambiguous nesting", depth as usize));
        }
        let mut ids: Vec<u32> = self.lists.get(a).to_vec();
        let other: Vec<u32> = self.lists.get(b).to_vec();
        for id in other {
            if ids.contains(&id) {
                continue;
            }
            let node = self.nodes[id as usize];
            match ids
                .iter()
                .position(|&x| self.nodes[x as usize].frame == node.frame)
            {
                Some(i) => {
                    let mine = self.nodes[ids[i] as usize];
                    let parents = self.union(mine.parents, node.parents, depth + 1)?;
                    ids[i] = self.intern_node(node.frame, parents);
                }
                None => ids.push(id),
            }
        }
        ids.sort_unstable();
        let merged = self.lists.intern(&ids);
        if self.unions.len() > 100_000 {
            self.unions.clear();
        }
        self.unions.insert(key, merged);
        Ok(merged)
    }

    pub(super) fn intern_node(&mut self, frame: Frame, parents: u32) -> u32 {
        if let Some(&id) = self.node_ids.get(&(frame, parents)) {
            return id;
        }
        let below = self
            .lists
            .get(parents)
            .iter()
            .map(|&p| self.nodes[p as usize].depth)
            .max()
            .unwrap_or(0);
        let id = self.nodes.len() as u32;
        self.nodes.push(Node {
            frame,
            parents,
            depth: below + 1,
        });
        self.node_ids.insert((frame, parents), id);
        id
    }

    pub(super) fn intern_config(
        &mut self,
        nodes: u32,
        accepting: bool,
        escaped: bool,
        live: ByteSet,
        exact: bool,
    ) -> ConfigId {
        if let Some(&id) = self.config_ids.get(&(nodes, accepting, escaped)) {
            return ConfigId(id);
        }
        let id = self.configs.len() as u32;
        self.configs.push(Config {
            nodes,
            accepting,
            escaped,
            exact,
            row: NO_ROW,
            live,
        });
        self.config_ids.insert((nodes, accepting, escaped), id);
        ConfigId(id)
    }

    pub(crate) fn start_frame(&mut self, start: &Start) -> Frame {
        match start {
            Start::Network(state) => Frame {
                kind: Frame::NETWORK,
                state: *state,
            },
            Start::Regex(node) => Frame {
                kind: Frame::REGEX,
                state: node.0,
            },
            Start::Machine(m, payload) => Frame {
                kind: m.0 + 2,
                state: self.payloads.intern(payload),
            },
            Start::Dead => Frame {
                kind: Frame::REGEX,
                state: NEVER.0,
            },
        }
    }

    pub(crate) fn callee_frame(&mut self, callee: &Callee) -> Frame {
        match callee {
            Callee::Rule(rule) => {
                let grammar = Arc::clone(&self.grammar);
                self.start_frame(&grammar.network.rules[rule.0 as usize])
            }
            Callee::Regex(node) => Frame {
                kind: Frame::REGEX,
                state: node.0,
            },
            Callee::Machine(m, payload) => Frame {
                kind: m.0 + 2,
                state: self.payloads.intern(payload),
            },
        }
    }

    pub(crate) fn machine(&self, kind: u32) -> Arc<dyn Machine> {
        Arc::clone(&self.grammar.machines[kind as usize - 2])
    }

    fn expansion(&mut self, frame: Frame) -> Arc<Expansion> {
        if let Some(known) = self.expansions.get(&frame) {
            return Arc::clone(known);
        }
        let machine = self.machine(frame.kind);
        let payload = self.payloads.get(frame.state).to_vec();
        let mut moves = Moves::default();
        let mut cx = Cx { engine: self };
        machine.expand(&mut cx, &payload, &mut moves);
        let live = machine.live_bytes(&mut cx, &payload);
        let exact = machine.remembers_text(&mut cx, &payload);
        let calls = moves
            .calls
            .iter()
            .map(|(callee, next)| {
                let callee = self.callee_frame(callee);
                let next = next.as_ref().map(|words| Frame {
                    kind: frame.kind,
                    state: self.payloads.intern(words),
                });
                (callee, next)
            })
            .collect();
        let expansion = Arc::new(Expansion {
            accept: moves.accept,
            calls,
            live,
            exact,
        });
        self.expansions.insert(frame, Arc::clone(&expansion));
        expansion
    }

    /// The configuration at the start of a callee whose end returns to a sentinel.
    fn sub_config(&mut self, start: &Start, nullable: bool, sentinel: u32) -> Result<ConfigId> {
        let saved = std::mem::take(&mut self.scratch);
        let frame = self.start_frame(start);
        let parents = self.lists.intern(&[sentinel]);
        self.scratch.accepting = nullable;
        self.scratch.pending.push((frame, parents, true));
        let config = self.close();
        self.scratch = saved;
        config
    }

    fn check_size(&self) -> Result<()> {
        let states = self.configs.len() + self.nodes.len() + self.payloads.len();
        if states as u64 > self.grammar.limits.states {
            return Err(self.limit(LimitKind::States, "states of the grammar", states));
        }
        if self.configs.len() & 1023 == 0 && self.bytes() as u64 > 2 * self.grammar.limits.bytes {
            return Err(self.limit(LimitKind::Bytes, "states of the grammar", self.bytes()));
        }
        Ok(())
    }

    fn limit(&self, kind: LimitKind, what: &str, needed: usize) -> GrammarError {
        let l = &self.grammar.limits;
        let limit = match kind {
            LimitKind::Threads => l.threads,
            LimitKind::StackDepth => l.stack_depth,
            LimitKind::States => l.states,
            _ => l.bytes,
        };
        GrammarError::limit(kind, what, limit, needed as u64)
    }
}

/// What a machine may use of the engine: regular expressions, side memory and nested texts.
#[derive(Debug)]
pub struct Cx<'a> {
    pub(crate) engine: &'a mut Engine,
}

impl Cx<'_> {
    /// Step a regular expression; [`NEVER`] when it cannot match any more.
    pub fn regex_step(&mut self, node: NodeId, byte: u8) -> NodeId {
        self.engine.regex.step(node, byte)
    }

    /// Whether the regular expression may end here.
    pub fn regex_accepts(&self, node: NodeId) -> bool {
        self.engine.regex.is_nullable(node)
    }

    /// A superset of the bytes that the regular expression may read next.
    pub fn regex_live(&self, node: NodeId) -> ByteSet {
        self.engine.regex.first_bytes(node)
    }

    /// The arena, for anything else (new nodes included).
    pub fn regex(&mut self) -> &mut Arena {
        &mut self.engine.regex
    }

    /// Side memory: the id of a `u32` string, equal for equal content. Ids fit payload words.
    pub fn intern(&mut self, words: &[u32]) -> u32 {
        self.engine.payloads.intern(words)
    }

    /// The content of an id of [`Cx::intern`].
    pub fn get(&self, id: u32) -> &[u32] {
        self.engine.payloads.get(id)
    }

    /// The first payload that was given for what `key` says of it; for [`crate::Machine::canonical`].
    pub fn first_met(&mut self, key: &[u32], payload: &[u32]) -> Vec<u32> {
        let engine = &mut *self.engine;
        let key = engine.payloads.intern(key);
        let payload = engine.payloads.intern(payload);
        let first = *engine.canonical.first.entry(key).or_insert(payload);
        engine.payloads.get(first).to_vec()
    }

    /// What was given first for `key` with [`Cx::first_met`].
    pub fn remembered(&mut self, key: &[u32]) -> Option<Vec<u32>> {
        let engine = &mut *self.engine;
        let key = engine.payloads.find(key)?;
        let first = *engine.canonical.first.get(&key)?;
        Some(engine.payloads.get(first).to_vec())
    }

    /// A nested text that no token can tell from this one.
    pub fn nested_canonical(&mut self, config: ConfigId, facts: &TokenFacts) -> ConfigId {
        self.engine.canonical(config, facts)
    }

    /// The machine state on top of a nested text, when it is one state of machine `id` above nothing.
    pub fn nested_state(&self, config: ConfigId, id: MachineId) -> Option<Vec<u32>> {
        let engine = &*self.engine;
        let c = engine.configs[config.0 as usize];
        let &[only] = engine.lists.get(c.nodes) else {
            return None;
        };
        let node = engine.nodes[only as usize];
        let alone = engine.lists.get(node.parents) == [ROOT] && !c.accepting;
        (alone && node.frame.kind == id.0 + 2)
            .then(|| engine.payloads.get(node.frame.state).to_vec())
    }

    /// The nested text whose only state is `payload` of machine `id`.
    ///
    /// # Errors
    /// `Limit` when a bound is hit.
    pub fn nested_at(&mut self, id: MachineId, payload: &[u32]) -> Result<ConfigId> {
        let saved = std::mem::take(&mut self.engine.scratch);
        let state = self.engine.payloads.intern(payload);
        let frame = Frame {
            kind: id.0 + 2,
            state,
        };
        let config = self.engine.entered(frame, ROOT);
        self.engine.scratch = saved;
        config
    }

    /// A nested text of its own: the configuration before anything of `callee` is read. Machines that
    /// have to see the bytes of a child (unique items) run it this way instead of calling it.
    ///
    /// # Errors
    /// `Limit` when a bound is hit.
    pub fn nested_start(&mut self, callee: &Callee) -> Result<ConfigId> {
        let saved = std::mem::take(&mut self.engine.scratch);
        let frame = self.engine.callee_frame(callee);
        let parents = self.engine.lists.intern(&[ROOT]);
        self.engine.scratch.pending.push((frame, parents, true));
        let config = self.engine.close();
        self.engine.scratch = saved;
        config
    }

    /// The nested text one byte later; [`DEAD`] when the byte cannot follow.
    ///
    /// # Errors
    /// `Limit` when a bound is hit.
    pub fn nested_step(&mut self, config: ConfigId, byte: u8) -> Result<ConfigId> {
        let saved = std::mem::take(&mut self.engine.scratch);
        let next = self.engine.step(config, byte);
        self.engine.scratch = saved;
        next
    }

    /// Whether the nested text may end here.
    pub fn nested_accepts(&self, config: ConfigId) -> bool {
        self.engine.is_accepting(config)
    }

    /// A superset of the bytes the nested text may read next.
    pub fn nested_live(&self, config: ConfigId) -> ByteSet {
        self.engine.live_bytes(config)
    }

    /// A hash of a rule's identity, for fingerprints that are only equal within one grammar.
    pub fn rule_fingerprint(&self, rule: RuleId) -> Fingerprint {
        mix(
            0x52,
            rule.0 as u128,
            Arc::as_ptr(&self.engine.grammar) as usize as u128,
        )
    }
}
