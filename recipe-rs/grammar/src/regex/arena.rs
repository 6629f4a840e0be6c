//! Hash-consed regular expressions over bytes, with their derivatives.
//!
//! A node is a language of byte strings. Nodes are built only through the smart constructors, which
//! normalise (so that equal languages mostly get equal ids) and share. An automaton state *is* a node:
//! reading byte `b` in state `r` leads to the derivative of `r` by `b` (Brzozowski, "Derivatives of
//! regular expressions", 1964; Owens, Reppy and Turon, 2009). Intersection and complement are
//! ordinary nodes, and counted repetition stays a counter: `x{2,900}` is one node and has one
//! derivative per count reached, never an unrolled copy.
//!
//! Invariant: [`NEVER`] is the only node without a match, except below `And`/`Not`, where emptiness is
//! decided by search on demand ([`Arena::is_live`]); [`Arena::step`] returns [`NEVER`] for such dead
//! states too, so a state that is not [`NEVER`] can always be completed.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytes::{ByteClasses, ByteSet};
use crate::error::{GrammarError, LimitKind, Result};
use crate::hash::{mix, Fingerprint};

/// Identity of a node within one arena. Equal ids are equal languages (not the converse).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// The empty language.
pub const NEVER: NodeId = NodeId(0);
/// The language of the empty string.
pub const EMPTY: NodeId = NodeId(1);
/// Every byte string.
pub const ANY: NodeId = NodeId(2);

/// No upper bound of a repetition.
pub const INFINITE: u32 = u32::MAX;

/// Deepest nesting that derivatives recurse into.
const MAX_HEIGHT: u32 = 2_000;

/// One node, for readers; children are nodes of the same arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// No string.
    Never,
    /// The empty string.
    Empty,
    /// One byte of the set.
    Set(ByteSet),
    /// The first, then the second; the first is never itself a `Cat`.
    Cat(NodeId, NodeId),
    /// Any of them.
    Alt(&'a [NodeId]),
    /// All of them.
    And(&'a [NodeId]),
    /// Every byte string that is not in it.
    Not(NodeId),
    /// `min` to `max` times (`max` may be [`INFINITE`]); `min` is 0 when the body matches "".
    Repeat(NodeId, u32, u32),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Never,
    Empty,
    Set(u32),
    Cat(NodeId, NodeId),
    Alt(u32, u32),
    And(u32, u32),
    Not(NodeId),
    Repeat(NodeId, u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct Info {
    fingerprint: Fingerprint,
    /// Index into `sets`: a superset of the bytes that a match can begin with.
    first: u32,
    /// Nesting that a derivative recurses through.
    height: u32,
    nullable: bool,
    /// Holds `And` or `Not`, so it may be empty although it is not [`NEVER`].
    boolean: bool,
}

/// The store of nodes. Cloning it gives an independent arena in which all ids so far are valid.
#[derive(Clone, Debug)]
pub struct Arena {
    kinds: Vec<Kind>,
    infos: Vec<Info>,
    lists: Vec<NodeId>,
    sets: Vec<ByteSet>,
    set_ids: FxHashMap<ByteSet, u32>,
    ids: FxHashMap<Fingerprint, NodeId>,
    steps: FxHashMap<(NodeId, u8), NodeId>,
    live: FxHashMap<NodeId, bool>,
    /// Nodes that swallow every alternative beside them (see [`Arena::set_universe`]).
    universes: Vec<NodeId>,
    failure: Option<GrammarError>,
    max_nodes: usize,
    max_search: usize,
}

impl Arena {
    /// Makes [`Arena::check`] fail: for machines that meet a limit while they step.
    pub(crate) fn fail(&mut self, error: GrammarError) {
        self.failure.get_or_insert(error);
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.kinds.len()
    }

    /// The same arena under other limits (see [`Arena::new`]).
    #[must_use]
    pub fn with_limits(mut self, max_nodes: u64, max_search: u64) -> Self {
        (self.max_nodes, self.max_search) = (max_nodes as usize, max_search as usize);
        self
    }

    /// An empty arena that refuses to grow past `max_nodes` nodes, and to visit more than
    /// `max_search` states for one emptiness question.
    pub fn new(max_nodes: u64, max_search: u64) -> Self {
        let mut arena = Arena {
            kinds: Vec::new(),
            infos: Vec::new(),
            lists: Vec::new(),
            sets: Vec::new(),
            set_ids: FxHashMap::default(),
            ids: FxHashMap::default(),
            steps: FxHashMap::default(),
            live: FxHashMap::default(),
            universes: Vec::new(),
            failure: None,
            max_nodes: max_nodes as usize,
            max_search: max_search as usize,
        };
        let never = arena.intern(Kind::Never);
        let empty = arena.intern(Kind::Empty);
        let any = arena.intern(Kind::Not(NEVER));
        debug_assert_eq!((never, empty, any), (NEVER, EMPTY, ANY));
        arena
    }

    // ------------------------------------------------------------ reading

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether the arena holds no node (never: three are built in).
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Bytes held, roughly.
    pub fn bytes(&self) -> usize {
        self.kinds.len() * 100 + self.lists.len() * 4 + self.sets.len() * 80 + self.steps.len() * 16
    }

    /// The node behind an id.
    pub fn node(&self, id: NodeId) -> Node<'_> {
        match self.kinds[id.0 as usize] {
            Kind::Never => Node::Never,
            Kind::Empty => Node::Empty,
            Kind::Set(s) => Node::Set(self.sets[s as usize]),
            Kind::Cat(a, b) => Node::Cat(a, b),
            Kind::Alt(at, n) => Node::Alt(&self.lists[at as usize..(at + n) as usize]),
            Kind::And(at, n) => Node::And(&self.lists[at as usize..(at + n) as usize]),
            Kind::Not(x) => Node::Not(x),
            Kind::Repeat(x, min, max) => Node::Repeat(x, min, max),
        }
    }

    /// Whether the empty string matches: the state is accepting.
    #[inline]
    pub fn is_nullable(&self, id: NodeId) -> bool {
        self.infos[id.0 as usize].nullable
    }

    /// A superset of the bytes that a match can begin with (exact below no `And`/`Not`).
    #[inline]
    pub fn first_bytes(&self, id: NodeId) -> ByteSet {
        self.sets[self.infos[id.0 as usize].first as usize]
    }

    /// A hash of the node's structure that is equal across arenas of one process.
    #[inline]
    pub fn fingerprint(&self, id: NodeId) -> Fingerprint {
        self.infos[id.0 as usize].fingerprint
    }

    /// Every byte set that some node reads, for [`ByteClasses`].
    pub fn byte_sets(&self) -> impl Iterator<Item = &ByteSet> {
        self.kinds.iter().filter_map(|k| match k {
            Kind::Set(s) => Some(&self.sets[*s as usize]),
            _ => None,
        })
    }

    /// The error of the first constructor or step that hit a limit; after it, every result is void.
    ///
    /// # Errors
    /// `Limit` of `regex_nodes`, `source_depth` or `emptiness_search`.
    pub fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    // ------------------------------------------------------------ building

    /// One byte of a set.
    pub fn set(&mut self, set: ByteSet) -> NodeId {
        if set.is_empty() {
            return NEVER;
        }
        let s = self.intern_set(set);
        self.intern(Kind::Set(s))
    }

    /// One byte.
    pub fn byte(&mut self, byte: u8) -> NodeId {
        self.set(ByteSet::single(byte))
    }

    /// Exactly these bytes.
    pub fn literal(&mut self, bytes: &[u8]) -> NodeId {
        self.literal_then(bytes, EMPTY)
    }

    /// These bytes, then `tail`.
    pub fn literal_then(&mut self, bytes: &[u8], tail: NodeId) -> NodeId {
        let mut node = tail;
        for &b in bytes.iter().rev() {
            let head = self.byte(b);
            node = self.cat(head, node);
        }
        node
    }

    /// Any of many byte strings; builds a shared prefix tree, so 100,000 words are fine.
    pub fn literals<W: AsRef<[u8]>>(&mut self, words: &[W]) -> NodeId {
        let mut words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        words.sort_unstable();
        words.dedup();
        self.word_tree(&words, 0)
    }

    fn word_tree(&mut self, words: &[&[u8]], depth: usize) -> NodeId {
        match words {
            [] => return NEVER,
            [word] => return self.literal(&word[depth..]),
            _ => {}
        }
        if self.failure.is_some() {
            return NEVER;
        }
        // The shared prefix of a sorted list is that of its first and last word.
        let (low, high) = (words[0], words[words.len() - 1]);
        let common = low[depth..]
            .iter()
            .zip(&high[depth..])
            .take_while(|(a, b)| a == b)
            .count();
        let at = depth + common;
        if at as u32 > u32::MAX / 2 {
            return NEVER;
        }
        let mut branches = Vec::new();
        let mut rest = words;
        if rest[0].len() == at {
            branches.push(EMPTY);
            rest = &rest[1..];
        }
        while !rest.is_empty() {
            let byte = rest[0][at];
            let n = rest.partition_point(|w| w[at] == byte);
            let below = self.word_tree(&rest[..n], at + 1);
            let head = self.byte(byte);
            let branch = self.cat(head, below);
            branches.push(branch);
            rest = &rest[n..];
        }
        let tail = self.alt(&branches);
        self.literal_then(&low[depth..at], tail)
    }

    /// `a`, then `b`.
    pub fn cat(&mut self, a: NodeId, b: NodeId) -> NodeId {
        if a == NEVER || b == NEVER {
            return NEVER;
        }
        if a == EMPTY {
            return b;
        }
        if b == EMPTY {
            return a;
        }
        // Right-associate: (x y) b = x (y b). The spine of `a` is walked, not recursed.
        if let Kind::Cat(..) = self.kinds[a.0 as usize] {
            let mut heads = Vec::new();
            let mut rest = a;
            while let Kind::Cat(x, y) = self.kinds[rest.0 as usize] {
                heads.push(x);
                rest = y;
            }
            let mut node = self.cat(rest, b);
            for head in heads.into_iter().rev() {
                node = self.cat(head, node);
            }
            return node;
        }
        // x* x* = x*, and x* (x* y) = x* y.
        if let Kind::Repeat(_, 0, INFINITE) = self.kinds[a.0 as usize] {
            if a == b {
                return a;
            }
            if let Kind::Cat(x, _) = self.kinds[b.0 as usize] {
                if x == a {
                    return b;
                }
            }
        }
        if a == ANY && (b == ANY) {
            return ANY;
        }
        self.intern(Kind::Cat(a, b))
    }

    /// All in sequence.
    pub fn concat(&mut self, parts: &[NodeId]) -> NodeId {
        let mut node = EMPTY;
        for &part in parts.iter().rev() {
            node = self.cat(part, node);
        }
        node
    }

    /// Either of two.
    pub fn or(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.alt(&[a, b])
    }

    /// Any of them.
    pub fn alt(&mut self, parts: &[NodeId]) -> NodeId {
        let mut items = Vec::with_capacity(parts.len());
        let mut bytes = ByteSet::EMPTY;
        for &part in parts {
            match self.kinds[part.0 as usize] {
                Kind::Never => {}
                Kind::Alt(at, n) => {
                    for i in at..at + n {
                        let x = self.lists[i as usize];
                        match self.kinds[x.0 as usize] {
                            Kind::Set(s) => bytes = bytes.union(&self.sets[s as usize]),
                            _ => items.push(x),
                        }
                    }
                }
                Kind::Set(s) => bytes = bytes.union(&self.sets[s as usize]),
                _ => items.push(part),
            }
        }
        if !bytes.is_empty() {
            let set = self.set(bytes);
            items.push(set);
        }
        items.sort_unstable();
        items.dedup();
        if items.contains(&ANY) {
            return ANY;
        }
        if let Some(&u) = self
            .universes
            .iter()
            .find(|u| items.binary_search(u).is_ok())
        {
            return u;
        }
        if items.len() > 1 {
            self.factor(&mut items);
        }
        if items.len() > 1 && items[0] == EMPTY && items[1..].iter().any(|&x| self.is_nullable(x)) {
            items.remove(0);
        }
        match items.as_slice() {
            [] => NEVER,
            [one] => *one,
            _ => {
                let at = self.push_list(&items);
                self.intern_list(Kind::Alt(at, items.len() as u32))
            }
        }
    }

    /// In an alternation: `h x | h y` becomes `h (x|y)`, and `r{a,b} t | r{c,d} t` one repetition
    /// where the counts meet.
    fn factor(&mut self, items: &mut Vec<NodeId>) {
        // (r, t) -> ranges, for items r{..} t.
        let mut counted: Vec<(NodeId, NodeId, u32, u32, usize)> = Vec::new();
        for (i, &x) in items.iter().enumerate() {
            let (head, tail) = self.split(x);
            if let Kind::Repeat(r, min, max) = self.kinds[head.0 as usize] {
                counted.push((r, tail, min, max, i));
            }
        }
        if counted.len() > 1 {
            counted.sort_unstable();
            let mut dropped = vec![false; items.len()];
            let mut added = Vec::new();
            let mut k = 0;
            while k < counted.len() {
                let (r, tail, min, mut max, i) = counted[k];
                let mut j = k + 1;
                while j < counted.len()
                    && counted[j].0 == r
                    && counted[j].1 == tail
                    && (max == INFINITE || counted[j].2 <= max.saturating_add(1))
                {
                    max = max.max(counted[j].3);
                    dropped[counted[j].4] = true;
                    j += 1;
                }
                if j > k + 1 {
                    dropped[i] = true;
                    let head = self.repeat(r, min, max);
                    let merged = self.cat(head, tail);
                    added.push(merged);
                }
                k = j;
            }
            if !added.is_empty() {
                let mut keep: Vec<NodeId> = items
                    .iter()
                    .zip(&dropped)
                    .filter(|(_, d)| !**d)
                    .map(|(x, _)| *x)
                    .collect();
                keep.extend(added);
                keep.sort_unstable();
                keep.dedup();
                *items = keep;
            }
        }
        // Equal heads. Only worth the table when some head occurs twice.
        let mut heads: Vec<(NodeId, NodeId)> = items.iter().map(|&x| self.split(x)).collect();
        heads.sort_unstable();
        if heads
            .windows(2)
            .all(|w| w[0].0 != w[1].0 || w[0].0 == EMPTY)
        {
            return;
        }
        let mut merged = Vec::with_capacity(items.len());
        let mut k = 0;
        while k < heads.len() {
            let head = heads[k].0;
            let mut j = k + 1;
            while j < heads.len() && heads[j].0 == head {
                j += 1;
            }
            if head == EMPTY {
                merged.push(EMPTY);
            } else {
                let tails: Vec<NodeId> = heads[k..j].iter().map(|h| h.1).collect();
                let tail = self.alt(&tails);
                let node = self.cat(head, tail);
                merged.push(node);
            }
            k = j;
        }
        merged.sort_unstable();
        merged.dedup();
        *items = merged;
    }

    /// First factor and rest.
    fn split(&self, x: NodeId) -> (NodeId, NodeId) {
        match self.kinds[x.0 as usize] {
            Kind::Cat(a, b) => (a, b),
            _ => (x, EMPTY),
        }
    }

    /// All of them at once.
    pub fn and(&mut self, parts: &[NodeId]) -> NodeId {
        let mut items = Vec::with_capacity(parts.len());
        for &part in parts {
            match self.kinds[part.0 as usize] {
                Kind::Never => return NEVER,
                Kind::And(at, n) => {
                    items.extend_from_slice(&self.lists[at as usize..(at + n) as usize])
                }
                _ if part == ANY => {}
                _ => items.push(part),
            }
        }
        items.sort_unstable();
        items.dedup();
        if items.contains(&EMPTY) {
            return if items.iter().all(|&x| self.is_nullable(x)) {
                EMPTY
            } else {
                NEVER
            };
        }
        for &x in &items {
            if let Kind::Not(y) = self.kinds[x.0 as usize] {
                if items.binary_search(&y).is_ok() {
                    return NEVER;
                }
            }
        }
        let mut bytes: Option<ByteSet> = None;
        let mut first = ByteSet::ALL;
        let mut nullable = true;
        for &x in &items {
            first = first.intersect(&self.first_bytes(x));
            nullable &= self.is_nullable(x);
            if let Kind::Set(s) = self.kinds[x.0 as usize] {
                let set = self.sets[s as usize];
                bytes = Some(bytes.map_or(set, |b| b.intersect(&set)));
            }
        }
        if first.is_empty() {
            return if nullable { EMPTY } else { NEVER };
        }
        if let Some(set) = bytes {
            items.retain(|x| !matches!(self.kinds[x.0 as usize], Kind::Set(_)));
            let node = self.set(set);
            items.push(node);
            items.sort_unstable();
        }
        match items.as_slice() {
            [] => ANY,
            [one] => *one,
            _ => {
                let at = self.push_list(&items);
                self.intern_list(Kind::And(at, items.len() as u32))
            }
        }
    }

    /// Every byte string that `x` does not match. Note that this includes strings that are not
    /// UTF-8: intersect with the universe you mean.
    pub fn not(&mut self, x: NodeId) -> NodeId {
        match self.kinds[x.0 as usize] {
            Kind::Not(y) => y,
            _ => self.intern(Kind::Not(x)),
        }
    }

    /// `a` without the strings of `b`.
    pub fn minus(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let not_b = self.not(b);
        self.and(&[a, not_b])
    }

    /// `x`, `min` to `max` times ([`INFINITE`] for no upper bound); [`NEVER`] when `min > max`.
    pub fn repeat(&mut self, x: NodeId, min: u32, max: u32) -> NodeId {
        if min > max {
            return NEVER;
        }
        if max == 0 || x == EMPTY {
            return EMPTY;
        }
        if x == NEVER {
            return if min == 0 { EMPTY } else { NEVER };
        }
        if x == ANY {
            return ANY;
        }
        let min = if self.is_nullable(x) { 0 } else { min };
        if (min, max) == (1, 1) {
            return x;
        }
        if (min, max) == (0, 1) {
            return self.alt(&[EMPTY, x]);
        }
        match self.kinds[x.0 as usize] {
            // (r{0|1,})* and the like collapse.
            Kind::Repeat(r, a, INFINITE) if a <= 1 && (min == 0 || a == 1) && max > 1 => {
                return self.repeat(r, if min == 0 { 0 } else { min }, INFINITE);
            }
            // (r?)* = r*
            Kind::Alt(at, n)
                if max == INFINITE
                    && self.lists[at as usize..(at + n) as usize].contains(&EMPTY) =>
            {
                let rest: Vec<NodeId> = self.lists[at as usize..(at + n) as usize]
                    .iter()
                    .copied()
                    .filter(|&y| y != EMPTY)
                    .collect();
                let body = self.alt(&rest);
                return self.repeat(body, 0, INFINITE);
            }
            _ => {}
        }
        self.intern(Kind::Repeat(x, min, max))
    }

    /// `x*`.
    pub fn star(&mut self, x: NodeId) -> NodeId {
        self.repeat(x, 0, INFINITE)
    }

    /// `x?`.
    pub fn optional(&mut self, x: NodeId) -> NodeId {
        self.alt(&[EMPTY, x])
    }

    /// Declare that every node ever alternated with `u` is a subset of `u` (as any text is of "all
    /// valid text"), so that `u | x` is `u`. Makes search patterns (`.*x.*`) collapse once matched.
    pub fn set_universe(&mut self, u: NodeId) {
        if !self.universes.contains(&u) {
            self.universes.push(u);
        }
    }

    fn intern_set(&mut self, set: ByteSet) -> u32 {
        if let Some(&s) = self.set_ids.get(&set) {
            return s;
        }
        let s = self.sets.len() as u32;
        self.sets.push(set);
        self.set_ids.insert(set, s);
        s
    }

    fn push_list(&mut self, items: &[NodeId]) -> u32 {
        let at = self.lists.len() as u32;
        self.lists.extend_from_slice(items);
        at
    }

    /// As `intern`, but gives the list's room back when the node exists already.
    fn intern_list(&mut self, kind: Kind) -> NodeId {
        let before = self.kinds.len();
        let id = self.intern(kind);
        if self.kinds.len() == before {
            if let Kind::Alt(at, _) | Kind::And(at, _) = kind {
                self.lists.truncate(at as usize);
            }
        }
        id
    }

    fn list(&self, at: u32, n: u32) -> &[NodeId] {
        &self.lists[at as usize..(at + n) as usize]
    }

    fn intern(&mut self, kind: Kind) -> NodeId {
        let fp = |id: NodeId| self.infos[id.0 as usize].fingerprint;
        let fingerprint = match kind {
            Kind::Never => mix(1, 0, 0),
            Kind::Empty => mix(2, 0, 0),
            Kind::Set(s) => {
                let w = self.sets[s as usize].0;
                mix(
                    3,
                    mix(30, w[0] as u128, w[1] as u128),
                    mix(31, w[2] as u128, w[3] as u128),
                )
            }
            Kind::Cat(a, b) => mix(4, fp(a), fp(b)),
            Kind::Alt(at, n) => {
                let sum = self
                    .list(at, n)
                    .iter()
                    .fold(0u128, |h, &x| h.wrapping_add(mix(50, fp(x), 0)));
                mix(5, sum, n as u128)
            }
            Kind::And(at, n) => {
                let sum = self
                    .list(at, n)
                    .iter()
                    .fold(0u128, |h, &x| h.wrapping_add(mix(60, fp(x), 0)));
                mix(6, sum, n as u128)
            }
            Kind::Not(x) => mix(7, fp(x), 0),
            Kind::Repeat(x, min, max) => mix(8, fp(x), (min as u128) << 32 | max as u128),
        };
        if let Some(&id) = self.ids.get(&fingerprint) {
            return id;
        }
        if self.failure.is_some() {
            return NEVER;
        }
        if self.kinds.len() >= self.max_nodes {
            self.failure = Some(GrammarError::limit(
                LimitKind::RegexNodes,
                "regular expression",
                self.max_nodes as u64,
                self.kinds.len() as u64 + 1,
            ));
            return NEVER;
        }
        let info = |id: NodeId| &self.infos[id.0 as usize];
        let (nullable, boolean, first, height) = match kind {
            Kind::Never => (false, false, ByteSet::EMPTY, 0),
            Kind::Empty => (true, false, ByteSet::EMPTY, 0),
            Kind::Set(s) => (false, false, self.sets[s as usize], 0),
            Kind::Cat(a, b) => {
                let (i, j) = (info(a), info(b));
                let mut first = self.first_bytes(a);
                let mut height = i.height;
                if i.nullable {
                    first = first.union(&self.first_bytes(b));
                    height = height.max(j.height);
                }
                (
                    i.nullable && j.nullable,
                    i.boolean || j.boolean,
                    first,
                    height + 1,
                )
            }
            Kind::Alt(at, n) | Kind::And(at, n) => {
                let all = matches!(kind, Kind::And(..));
                let mut first = if all { ByteSet::ALL } else { ByteSet::EMPTY };
                let (mut nullable, mut boolean, mut height) = (all, all, 0);
                for &x in self.list(at, n) {
                    let i = info(x);
                    let f = self.first_bytes(x);
                    if all {
                        nullable &= i.nullable;
                        first = first.intersect(&f);
                    } else {
                        nullable |= i.nullable;
                        first = first.union(&f);
                    }
                    boolean |= i.boolean;
                    height = height.max(i.height);
                }
                (nullable, boolean, first, height + 1)
            }
            Kind::Not(x) => (
                !info(x).nullable,
                x != NEVER,
                ByteSet::ALL,
                info(x).height + 1,
            ),
            Kind::Repeat(x, min, _) => {
                let i = info(x);
                (min == 0, i.boolean, self.first_bytes(x), i.height + 1)
            }
        };
        if height > MAX_HEIGHT {
            self.failure = Some(GrammarError::limit(
                LimitKind::SourceDepth,
                "nesting of a regular expression",
                MAX_HEIGHT as u64,
                height as u64,
            ));
            return NEVER;
        }
        let first = self.intern_set(first);
        let id = NodeId(self.kinds.len() as u32);
        self.kinds.push(kind);
        self.infos.push(Info {
            fingerprint,
            first,
            height,
            nullable,
            boolean,
        });
        self.ids.insert(fingerprint, id);
        id
    }

    // ------------------------------------------------------------ stepping

    /// The state after reading `byte` in state `id`; [`NEVER`] when no match remains possible.
    /// Check [`Arena::check`] after a batch of steps.
    pub fn step(&mut self, id: NodeId, byte: u8) -> NodeId {
        if !self.first_bytes(id).contains(byte) && id != ANY {
            return NEVER;
        }
        if let Kind::Set(_) = self.kinds[id.0 as usize] {
            return EMPTY;
        }
        if let Some(&next) = self.steps.get(&(id, byte)) {
            return next;
        }
        let mut next = self.derivative(id, byte);
        if !self.is_live(next) {
            next = NEVER;
        }
        self.steps.insert((id, byte), next);
        next
    }

    /// Brzozowski derivative: the strings `w` with `byte w` in `id`. May be empty below `And`/`Not`.
    fn derivative(&mut self, id: NodeId, byte: u8) -> NodeId {
        if !self.first_bytes(id).contains(byte) {
            return NEVER;
        }
        match self.kinds[id.0 as usize] {
            Kind::Never | Kind::Empty => NEVER,
            Kind::Set(_) => EMPTY,
            Kind::Cat(a, b) => {
                let da = self.derivative(a, byte);
                let head = self.cat(da, b);
                if self.is_nullable(a) {
                    let db = self.derivative(b, byte);
                    return self.alt(&[head, db]);
                }
                head
            }
            Kind::Alt(at, n) => {
                let mut parts = Vec::new();
                for i in at..at + n {
                    let d = self.derivative(self.lists[i as usize], byte);
                    if d != NEVER {
                        parts.push(d);
                    }
                }
                self.alt(&parts)
            }
            Kind::And(at, n) => {
                let mut parts = Vec::with_capacity(n as usize);
                for i in at..at + n {
                    let d = self.derivative(self.lists[i as usize], byte);
                    if d == NEVER {
                        return NEVER;
                    }
                    parts.push(d);
                }
                self.and(&parts)
            }
            Kind::Not(x) => {
                let d = self.derivative(x, byte);
                self.not(d)
            }
            Kind::Repeat(x, min, max) => {
                let d = self.derivative(x, byte);
                if d == NEVER {
                    return NEVER;
                }
                let max = if max == INFINITE { INFINITE } else { max - 1 };
                let rest = self.repeat(x, min.saturating_sub(1), max);
                self.cat(d, rest)
            }
        }
    }

    /// Whether some byte string matches. Searched (and remembered) below `And`/`Not`.
    pub fn is_live(&mut self, id: NodeId) -> bool {
        if let Some(known) = self.structural_life(id) {
            return known;
        }
        self.search_life(id)
    }

    /// Life by structure alone, or `None` when a search is needed.
    fn structural_life(&self, id: NodeId) -> Option<bool> {
        let mut id = id;
        let mut sure = true;
        loop {
            let info = &self.infos[id.0 as usize];
            if !info.boolean || info.nullable {
                return if id == NEVER {
                    Some(false)
                } else if sure {
                    Some(true)
                } else {
                    None
                };
            }
            if let Some(&known) = self.live.get(&id) {
                return if !known {
                    Some(false)
                } else if sure {
                    Some(true)
                } else {
                    None
                };
            }
            match self.kinds[id.0 as usize] {
                Kind::Cat(a, b) => {
                    match self.structural_life(a) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => sure = false,
                    }
                    id = b;
                }
                Kind::Alt(at, n) => {
                    let mut all_dead = true;
                    for &x in self.list(at, n) {
                        match self.structural_life(x) {
                            Some(true) if sure => return Some(true),
                            Some(false) => {}
                            _ => all_dead = false,
                        }
                    }
                    return if all_dead { Some(false) } else { None };
                }
                Kind::Repeat(x, min, _) => {
                    return if min == 0 {
                        if sure {
                            Some(true)
                        } else {
                            None
                        }
                    } else {
                        match self.structural_life(x) {
                            Some(true) if !sure => None,
                            other => other,
                        }
                    };
                }
                _ => return None,
            }
        }
    }

    /// Breadth-first search for an accepting state; all states on the way found are live, and when the
    /// search is exhausted all of it is dead.
    fn search_life(&mut self, start: NodeId) -> bool {
        // A concatenation lives when its parts do: search those, they are shared more widely.
        match self.kinds[start.0 as usize] {
            Kind::Cat(a, b) => {
                let mut id = b;
                let mut alive = self.is_live(a);
                while alive {
                    match self.kinds[id.0 as usize] {
                        Kind::Cat(x, y) if self.infos[id.0 as usize].boolean => {
                            alive = self.is_live(x);
                            id = y;
                        }
                        _ => {
                            alive = self.is_live(id);
                            break;
                        }
                    }
                }
                self.live.insert(start, alive);
                return alive;
            }
            Kind::Repeat(x, _, _) => {
                let alive = self.is_live(x);
                self.live.insert(start, alive);
                return alive;
            }
            Kind::Alt(at, n) => {
                let mut alive = false;
                for i in at..at + n {
                    if self.is_live(self.lists[i as usize]) {
                        alive = true;
                        break;
                    }
                }
                self.live.insert(start, alive);
                return alive;
            }
            _ => {}
        }
        let mut seen: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        seen.insert(start, start);
        let mut queue = std::collections::VecDeque::from([start]);
        let mut found = None;
        'search: while let Some(at) = queue.pop_front() {
            for byte in self.representatives(at) {
                let next = self.derivative(at, byte);
                if next == NEVER || seen.contains_key(&next) {
                    continue;
                }
                seen.insert(next, at);
                match self.structural_life(next) {
                    Some(true) => {
                        found = Some(next);
                        break 'search;
                    }
                    Some(false) => continue,
                    None => {}
                }
                if !matches!(self.kinds[next.0 as usize], Kind::And(..) | Kind::Not(..))
                    && self.is_live(next)
                {
                    found = Some(next);
                    break 'search;
                }
                if matches!(self.kinds[next.0 as usize], Kind::And(..) | Kind::Not(..)) {
                    queue.push_back(next);
                }
                if seen.len() > self.max_search {
                    self.fail_search(seen.len());
                    return false;
                }
            }
            if self.failure.is_some() {
                return false;
            }
        }
        match found {
            Some(mut at) => {
                loop {
                    self.live.insert(at, true);
                    let before = seen[&at];
                    if before == at {
                        break;
                    }
                    at = before;
                }
                true
            }
            None => {
                for id in seen.into_keys() {
                    self.live.insert(id, false);
                }
                false
            }
        }
    }

    fn fail_search(&mut self, needed: usize) {
        self.failure.get_or_insert_with(|| {
            GrammarError::limit(
                LimitKind::EmptinessSearch,
                "intersection or complement of patterns",
                self.max_search as u64,
                needed as u64,
            )
        });
    }

    /// One byte of each class of bytes that the derivatives of `id` can tell apart, letters and digits
    /// preferred.
    pub fn representatives(&self, id: NodeId) -> Vec<u8> {
        let mut heads = FxHashSet::default();
        self.collect_heads(id, &mut heads);
        let sets: Vec<&ByteSet> = heads.iter().map(|&s| &self.sets[s as usize]).collect();
        let classes = ByteClasses::from_sets(sets);
        let first = self.first_bytes(id);
        let mut chosen = vec![None; classes.count];
        for &byte in PREFERRED.iter() {
            let slot = &mut chosen[classes.class_of[byte as usize] as usize];
            if slot.is_none() && first.contains(byte) {
                *slot = Some(byte);
            }
        }
        let mut bytes: Vec<u8> = chosen.into_iter().flatten().collect();
        bytes.sort_unstable_by_key(|&b| PREFERRED.iter().position(|&p| p == b));
        bytes
    }

    fn collect_heads(&self, id: NodeId, out: &mut FxHashSet<u32>) {
        match self.kinds[id.0 as usize] {
            Kind::Never | Kind::Empty => {}
            Kind::Set(s) => {
                out.insert(s);
            }
            Kind::Cat(a, b) => {
                self.collect_heads(a, out);
                if self.is_nullable(a) {
                    self.collect_heads(b, out);
                }
            }
            Kind::Alt(at, n) | Kind::And(at, n) => {
                for &x in self.list(at, n) {
                    self.collect_heads(x, out);
                }
            }
            Kind::Not(x) | Kind::Repeat(x, _, _) => self.collect_heads(x, out),
        }
    }

    /// A shortest (or, below counters, at least short) match, printable where there is a choice.
    /// `None` when nothing matches or the search limit is hit.
    pub fn shortest(&mut self, id: NodeId) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.append_shortest(id, &mut out).then_some(out)
    }

    fn append_shortest(&mut self, id: NodeId, out: &mut Vec<u8>) -> bool {
        let mut id = id;
        loop {
            if self.is_nullable(id) {
                return true;
            }
            match self.kinds[id.0 as usize] {
                Kind::Never => return false,
                Kind::Empty => return true,
                Kind::Set(s) => {
                    let set = self.sets[s as usize];
                    out.push(
                        *PREFERRED
                            .iter()
                            .find(|&&b| set.contains(b))
                            .expect("sets are not empty"),
                    );
                    return true;
                }
                Kind::Cat(a, b) => {
                    if !self.append_shortest(a, out) {
                        return false;
                    }
                    id = b;
                }
                Kind::Repeat(x, min, _) => {
                    let at = out.len();
                    if !self.append_shortest(x, out) {
                        return false;
                    }
                    let word = out[at..].to_vec();
                    if word.len() as u64 * min as u64 > 1 << 24 {
                        return false;
                    }
                    for _ in 1..min {
                        out.extend_from_slice(&word);
                    }
                    return true;
                }
                Kind::Alt(at, n) => {
                    let mut best: Option<Vec<u8>> = None;
                    for i in at..at + n {
                        let mut word = Vec::new();
                        if self.append_shortest(self.lists[i as usize], &mut word)
                            && best.as_ref().is_none_or(|b| word.len() < b.len())
                        {
                            best = Some(word);
                        }
                    }
                    let Some(word) = best else { return false };
                    out.extend(word);
                    return true;
                }
                Kind::And(..) | Kind::Not(..) => return self.search_shortest(id, out),
            }
        }
    }

    fn search_shortest(&mut self, start: NodeId, out: &mut Vec<u8>) -> bool {
        let mut seen: FxHashMap<NodeId, (NodeId, u8)> = FxHashMap::default();
        seen.insert(start, (start, 0));
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for byte in self.representatives(at) {
                let next = self.step(at, byte);
                if next == NEVER || seen.contains_key(&next) {
                    continue;
                }
                seen.insert(next, (at, byte));
                let done = self.is_nullable(next);
                if done || !self.infos[next.0 as usize].boolean {
                    let mut path = Vec::new();
                    let mut node = next;
                    while node != start {
                        let (before, byte) = seen[&node];
                        path.push(byte);
                        node = before;
                    }
                    out.extend(path.iter().rev());
                    return done || self.append_shortest(next, out);
                }
                if seen.len() > 4 * self.max_search {
                    self.fail_search(seen.len());
                    return false;
                }
                queue.push_back(next);
            }
        }
        false
    }

    /// A rough length of a short match, for steering completions: structural, capped, never a search.
    pub fn rough_length(&self, id: NodeId) -> u64 {
        let (mut id, mut sum) = (id, 0u64);
        for _ in 0..10_000 {
            match self.kinds[id.0 as usize] {
                Kind::Never | Kind::Empty => return sum,
                Kind::Set(_) => return sum + 1,
                Kind::Cat(a, b) => {
                    sum += self.rough_length(a);
                    id = b;
                }
                Kind::Alt(at, n) => {
                    if self.is_nullable(id) {
                        return sum;
                    }
                    let few = &self.list(at, n)[..(n as usize).min(16)];
                    return sum + few.iter().map(|&x| self.rough_length(x)).min().unwrap_or(0);
                }
                Kind::Repeat(x, min, _) => {
                    return sum.saturating_add(self.rough_length(x) * u64::from(min))
                }
                Kind::And(..) | Kind::Not(_) => {
                    return sum + if self.is_nullable(id) { 0 } else { 8 }
                }
            }
        }
        sum
    }

    /// A node that matches alike for the next `horizon` bytes (same bytes allowed, accepting at the
    /// same points, dead at the same points): counters beyond the horizon are set to "many".
    /// Below `And`/`Not` counters stay, since there they decide emptiness.
    pub fn saturate(&mut self, id: NodeId, horizon: u32) -> NodeId {
        match self.kinds[id.0 as usize] {
            Kind::Never | Kind::Empty | Kind::Set(_) | Kind::And(..) | Kind::Not(_) => id,
            Kind::Cat(..) => {
                // Walk the spine; what lies behind `horizon` certain bytes cannot matter, but is kept.
                let mut heads = Vec::new();
                let mut rest = id;
                let mut changed = false;
                while let Kind::Cat(x, y) = self.kinds[rest.0 as usize] {
                    let s = self.saturate(x, horizon);
                    changed |= s != x;
                    heads.push(s);
                    rest = y;
                    if heads.len() as u32 > horizon {
                        break;
                    }
                }
                let last = if heads.len() as u32 > horizon {
                    rest
                } else {
                    self.saturate(rest, horizon)
                };
                if !changed && last == rest {
                    return id;
                }
                let mut node = last;
                for head in heads.into_iter().rev() {
                    node = self.cat(head, node);
                }
                node
            }
            Kind::Alt(at, n) => {
                let parts: Vec<NodeId> = self.list(at, n).to_vec();
                let saturated: Vec<NodeId> =
                    parts.iter().map(|&x| self.saturate(x, horizon)).collect();
                if parts == saturated {
                    return id;
                }
                self.alt(&saturated)
            }
            Kind::Repeat(x, min, max) => {
                let body = self.saturate(x, horizon);
                if self.is_nullable(x) {
                    return if body == x {
                        id
                    } else {
                        self.repeat(body, min, max)
                    };
                }
                let min = min.min(horizon + 1);
                let max = if max > horizon { INFINITE } else { max };
                self.repeat(body, min, max)
            }
        }
    }
}

/// All bytes, the ones that look best in a completion first.
static PREFERRED: [u8; 256] = preferred();

const fn preferred() -> [u8; 256] {
    let mut out = [0u8; 256];
    let mut n = 0;
    let ranges: [(u8, u8); 9] = [
        (b'a', b'z'),
        (b'0', b'9'),
        (b'A', b'Z'),
        (b' ', b' '),
        (b'!', b'/'),
        (b':', b'@'),
        (b'[', b'`'),
        (b'{', b'~'),
        (b'\n', b'\n'),
    ];
    let mut r = 0;
    while r < 9 {
        let mut b = ranges[r].0;
        while b <= ranges[r].1 {
            out[n] = b;
            n += 1;
            b += 1;
        }
        r += 1;
    }
    let mut b = 0usize;
    while b < 256 {
        let mut seen = false;
        let mut i = 0;
        while i < n {
            if out[i] as usize == b {
                seen = true;
            }
            i += 1;
        }
        if !seen {
            out[n] = b as u8;
            n += 1;
        }
        b += 1;
    }
    out
}
