//! Deterministic automata over Unicode characters: the string languages of `pattern`, `format`, `enum` and keys.
//!
//! Trimmed: from every state an accepting one can be reached, so "there is a transition" means "can still be completed".
//! Characters are Unicode scalar values, escapes already decoded. Knows nothing of JSON text.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::error::SchemaError;
use super::horizon::Alike;
use crate::hash::{mix, Fingerprint};

/// A transition: characters `low..=high` lead to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// First character.
    pub low: u32,
    /// Last character.
    pub high: u32,
    /// State.
    pub target: u32,
}

/// How many strings lead from a state to acceptance; [`INFINITE`] when unbounded.
pub(crate) const INFINITE: u64 = u64::MAX;
const DEAD: u32 = u32::MAX;
/// The two ranges of Unicode scalar values.
pub(crate) const SCALARS: [(u32, u32); 2] = [(0, 0xd7ff), (0xe000, 0x10_ffff)];

/// A trimmed deterministic automaton over characters.
#[derive(Debug, Default)]
pub(super) struct CharDfa {
    /// Sorted, disjoint transitions of each state. Empty automaton: no states.
    edges: Vec<Box<[Edge]>>,
    accept: Vec<bool>,
    counts: OnceLock<Vec<u64>>,
    distance: OnceLock<Vec<u32>>,
    /// States that behave alike for so many characters; of the horizon last asked for.
    alike: Alike,
    fingerprint: OnceLock<Fingerprint>,
}

impl CharDfa {
    /// From states as built (state 0 starts); states that reach no accepting one are removed.
    pub(super) fn new(edges: Vec<Vec<Edge>>, accept: Vec<bool>) -> Self {
        let n = edges.len();
        let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (i, es) in edges.iter().enumerate() {
            for e in es {
                back[e.target as usize].push(i as u32);
            }
        }
        let mut live = accept.clone();
        let mut stack: Vec<u32> = (0..n as u32).filter(|&i| accept[i as usize]).collect();
        while let Some(i) = stack.pop() {
            for &j in &back[i as usize] {
                if !live[j as usize] {
                    live[j as usize] = true;
                    stack.push(j);
                }
            }
        }
        if n == 0 || !live[0] {
            return CharDfa::default();
        }
        // Keep what is live and reachable, numbered in order of first visit.
        let mut map = vec![DEAD; n];
        let mut order = vec![0u32];
        map[0] = 0;
        let mut at = 0;
        while at < order.len() {
            for e in &edges[order[at] as usize] {
                if live[e.target as usize] && map[e.target as usize] == DEAD {
                    map[e.target as usize] = order.len() as u32;
                    order.push(e.target);
                }
            }
            at += 1;
        }
        let kept = order
            .iter()
            .map(|&o| {
                let mut out: Vec<Edge> = Vec::new();
                for e in edges[o as usize].iter().filter(|e| live[e.target as usize]) {
                    let target = map[e.target as usize];
                    match out.last_mut() {
                        Some(last) if last.target == target && last.high + 1 == e.low => {
                            last.high = e.high
                        }
                        _ => out.push(Edge {
                            low: e.low,
                            high: e.high,
                            target,
                        }),
                    }
                }
                out.into_boxed_slice()
            })
            .collect();
        let accept = order.iter().map(|&o| accept[o as usize]).collect();
        CharDfa {
            edges: kept,
            accept,
            ..CharDfa::default()
        }
    }

    /// All strings.
    pub(super) fn all() -> Self {
        let edges = SCALARS
            .iter()
            .map(|&(low, high)| Edge {
                low,
                high,
                target: 0,
            })
            .collect();
        CharDfa::new(vec![edges], vec![true])
    }

    /// All strings with a length in `min..=max` (no upper bound: `None`).
    pub(super) fn lengths(min: u32, max: Option<u32>) -> Self {
        let last = max.unwrap_or(min);
        let (mut edges, mut accept) = (Vec::new(), Vec::new());
        for i in 0..=last {
            let target = if i < last {
                Some(i + 1)
            } else {
                max.is_none().then_some(i)
            };
            edges.push(target.map_or(Vec::new(), |t| {
                SCALARS
                    .iter()
                    .map(|&(low, high)| Edge {
                        low,
                        high,
                        target: t,
                    })
                    .collect()
            }));
            accept.push(i >= min);
        }
        CharDfa::new(edges, accept)
    }

    /// Exactly the given strings.
    pub(super) fn strings<'a>(strings: impl IntoIterator<Item = &'a str>) -> Self {
        let mut edges: Vec<HashMap<u32, u32>> = vec![HashMap::new()];
        let mut accept = vec![false];
        for s in strings {
            let mut at = 0usize;
            for c in s.chars() {
                let fresh = edges.len() as u32;
                let next = *edges[at].entry(c as u32).or_insert(fresh);
                if next == fresh {
                    edges.push(HashMap::new());
                    accept.push(false);
                }
                at = next as usize;
            }
            accept[at] = true;
        }
        let edges = edges
            .into_iter()
            .map(|m| {
                let mut v: Vec<Edge> = m
                    .into_iter()
                    .map(|(c, target)| Edge {
                        low: c,
                        high: c,
                        target,
                    })
                    .collect();
                v.sort_by_key(|e| e.low);
                v
            })
            .collect();
        CharDfa::new(edges, accept)
    }

    /// Whether no string is in the language.
    pub(super) fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Number of states.
    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether the string read so far is in the language.
    pub(super) fn accepts(&self, state: u32) -> bool {
        self.accept[state as usize]
    }

    /// Transitions of a state.
    pub(super) fn edges(&self, state: u32) -> &[Edge] {
        &self.edges[state as usize]
    }

    /// The state after `c`, or `None` if no string of the language goes on like that.
    pub(super) fn step(&self, state: u32, c: u32) -> Option<u32> {
        let es = &self.edges[state as usize];
        let i = es.partition_point(|e| e.high < c);
        es.get(i).filter(|e| e.low <= c).map(|e| e.target)
    }

    /// Transitions that meet the characters `low..=high`.
    pub(super) fn edges_in(&self, state: u32, low: u32, high: u32) -> &[Edge] {
        let es = &self.edges[state as usize];
        let a = es.partition_point(|e| e.high < low);
        let b = a + es[a..].partition_point(|e| e.low <= high);
        &es[a..b]
    }

    /// Whether the whole string is in the language.
    pub(super) fn contains(&self, text: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut q = 0;
        for c in text.chars() {
            match self.step(q, c as u32) {
                Some(n) => q = n,
                None => return false,
            }
        }
        self.accepts(q)
    }

    /// For each state the first one that behaves alike for `horizon` characters.
    pub(super) fn alike(&self, horizon: u32) -> Arc<[u32]> {
        let label = |q: usize| Fingerprint::from(self.accept[q]);
        self.alike.get(&self.edges, label, horizon)
    }

    /// Determines the automaton, numbers of states included.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hash = mix(0x43, self.len() as u128, 0);
            for (es, &accept) in self.edges.iter().zip(&self.accept) {
                hash = mix(0x44, hash, (es.len() as u128) << 1 | u128::from(accept));
                for e in es.iter() {
                    let words = [e.low, e.high, e.target].map(u128::from);
                    hash = mix(0x45, hash, words[0] << 64 | words[1] << 32 | words[2]);
                }
            }
            hash
        })
    }

    /// Number of strings that complete each state ([`INFINITE`] when there is a loop).
    pub(crate) fn counts(&self) -> &[u64] {
        self.counts.get_or_init(|| {
            let n = self.len();
            let mut open: Vec<usize> = self.edges.iter().map(|e| e.len()).collect();
            let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
            for (i, es) in self.edges.iter().enumerate() {
                for e in es.iter() {
                    back[e.target as usize].push(i as u32);
                }
            }
            let mut counts = vec![INFINITE; n];
            let mut ready: Vec<u32> = (0..n as u32).filter(|&i| open[i as usize] == 0).collect();
            while let Some(i) = ready.pop() {
                let mut c = u64::from(self.accept[i as usize]);
                for e in self.edges[i as usize].iter() {
                    let width = u64::from(e.high - e.low + 1);
                    c = c
                        .saturating_add(width.saturating_mul(counts[e.target as usize]))
                        .min(INFINITE - 1);
                }
                counts[i as usize] = c;
                for &j in &back[i as usize] {
                    open[j as usize] -= 1;
                    if open[j as usize] == 0 {
                        ready.push(j);
                    }
                }
            }
            counts
        })
    }

    /// Characters to the nearest accepting state.
    pub(crate) fn distance(&self) -> &[u32] {
        self.distance.get_or_init(|| {
            let n = self.len();
            let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
            for (i, es) in self.edges.iter().enumerate() {
                for e in es.iter() {
                    back[e.target as usize].push(i as u32);
                }
            }
            let mut d = vec![u32::MAX; n];
            let mut queue: std::collections::VecDeque<u32> =
                (0..n as u32).filter(|&i| self.accept[i as usize]).collect();
            for &i in &queue {
                d[i as usize] = 0;
            }
            while let Some(i) = queue.pop_front() {
                for &j in &back[i as usize] {
                    if d[j as usize] == u32::MAX {
                        d[j as usize] = d[i as usize] + 1;
                        queue.push_back(j);
                    }
                }
            }
            d
        })
    }

    /// Up to `cap` strings of a finite language, in no particular order.
    pub(crate) fn enumerate(&self, cap: usize) -> Vec<String> {
        let mut out = Vec::new();
        if self.is_empty() || self.counts()[0] == INFINITE {
            return out;
        }
        let mut stack = vec![(0u32, String::new())];
        while let Some((q, s)) = stack.pop() {
            if out.len() >= cap {
                break;
            }
            if self.accepts(q) {
                out.push(s.clone());
            }
            for e in self.edges(q) {
                for c in (e.low..=e.high).take(cap) {
                    if let Some(c) = char::from_u32(c) {
                        let mut t = s.clone();
                        t.push(c);
                        stack.push((e.target, t));
                    }
                }
            }
        }
        out
    }

    /// Strings that are in every `(language, true)` and in no `(language, false)`.
    ///
    /// # Errors
    /// A limit error naming `what` if more than `max_states` states are needed.
    pub(super) fn product(
        parts: &[(&CharDfa, bool)],
        max_states: usize,
        what: &str,
    ) -> Result<CharDfa, SchemaError> {
        Self::combine(parts, max_states, what, |bits| {
            parts.iter().zip(bits).all(|((_, want), got)| *want == *got)
        })
    }

    /// Strings in at least one of the languages.
    ///
    /// # Errors
    /// As [`CharDfa::product`].
    pub(super) fn union(
        parts: &[&CharDfa],
        max_states: usize,
        what: &str,
    ) -> Result<CharDfa, SchemaError> {
        let parts: Vec<(&CharDfa, bool)> = parts.iter().map(|p| (*p, false)).collect();
        Self::combine(&parts, max_states, what, |bits| bits.contains(&true))
    }

    fn combine(
        parts: &[(&CharDfa, bool)],
        max_states: usize,
        what: &str,
        decide: impl Fn(&[bool]) -> bool,
    ) -> Result<CharDfa, SchemaError> {
        let t = Tuples::build(parts, max_states, what)?;
        let accept = t
            .states
            .iter()
            .map(|s| decide(&t.verdicts(parts, s)))
            .collect();
        Ok(CharDfa::new(t.edges, accept))
    }
}

/// The untrimmed product of several automata: which of them accept is read off each state.
pub(crate) struct Tuples {
    pub(crate) states: Vec<Box<[u32]>>,
    pub(crate) edges: Vec<Vec<Edge>>,
}

impl Tuples {
    /// A component marked `true` must stay alive; one marked `false` may die.
    pub(crate) fn build(
        parts: &[(&CharDfa, bool)],
        max_states: usize,
        what: &str,
    ) -> Result<Tuples, SchemaError> {
        let mut t = Tuples {
            states: Vec::new(),
            edges: Vec::new(),
        };
        if parts.iter().any(|(d, must)| *must && d.is_empty()) {
            return Ok(t);
        }
        let mut ids: HashMap<Box<[u32]>, u32> = HashMap::new();
        let start: Box<[u32]> = parts
            .iter()
            .map(|(d, _)| if d.is_empty() { DEAD } else { 0 })
            .collect();
        ids.insert(start.clone(), 0);
        t.states.push(start);
        let mut at = 0;
        let mut cuts: Vec<u32> = Vec::new();
        while at < t.states.len() {
            let state = t.states[at].clone();
            cuts.clear();
            cuts.extend([0, 0xd800, 0xe000, 0x11_0000]);
            for ((d, _), &q) in parts.iter().zip(state.iter()) {
                if q != DEAD {
                    for e in d.edges(q) {
                        cuts.push(e.low);
                        cuts.push(e.high + 1);
                    }
                }
            }
            cuts.sort_unstable();
            cuts.dedup();
            let mut cursors = vec![0usize; parts.len()];
            let mut out: Vec<Edge> = Vec::new();
            for w in cuts.windows(2) {
                let (low, high) = (w[0], w[1] - 1);
                if low == 0xd800 {
                    continue;
                }
                let mut next: Box<[u32]> = vec![DEAD; parts.len()].into();
                let mut ok = true;
                for (i, ((d, must), &q)) in parts.iter().zip(state.iter()).enumerate() {
                    if q == DEAD {
                        continue;
                    }
                    let es = d.edges(q);
                    while cursors[i] < es.len() && es[cursors[i]].high < low {
                        cursors[i] += 1;
                    }
                    match es.get(cursors[i]).filter(|e| e.low <= low) {
                        Some(e) => next[i] = e.target,
                        None if *must => {
                            ok = false;
                            break;
                        }
                        None => {}
                    }
                }
                if !ok {
                    continue;
                }
                let target = match ids.get(&next) {
                    Some(&id) => id,
                    None => {
                        let id = t.states.len() as u32;
                        if t.states.len() >= max_states {
                            return Err(SchemaError::limit(
                                "",
                                &format!("states of {what}"),
                                max_states as u64 + 1,
                                max_states as u64,
                            ));
                        }
                        ids.insert(next.clone(), id);
                        t.states.push(next);
                        id
                    }
                };
                match out.last_mut() {
                    Some(last) if last.target == target && last.high + 1 == low => last.high = high,
                    _ => out.push(Edge { low, high, target }),
                }
            }
            t.edges.push(out);
            at += 1;
        }
        Ok(t)
    }

    /// Which component languages hold the string that leads to `state`.
    pub(crate) fn verdicts(&self, parts: &[(&CharDfa, bool)], state: &[u32]) -> Vec<bool> {
        parts
            .iter()
            .zip(state)
            .map(|((d, _), &q)| q != DEAD && d.accepts(q))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_complement() {
        let ab = CharDfa::strings(["ab", "abc", "x"]);
        assert!(ab.contains("abc") && !ab.contains("a") && !ab.contains("xx"));
        assert_eq!(ab.counts()[0], 3);
        let not = CharDfa::product(&[(&CharDfa::all(), true), (&ab, false)], 1000, "test").unwrap();
        assert!(!not.contains("ab") && not.contains("a") && not.contains("") && not.contains("é"));
        assert_eq!(not.counts()[0], INFINITE);
        let short = CharDfa::lengths(0, Some(2));
        let both = CharDfa::product(&[(&ab, true), (&short, true)], 1000, "test").unwrap();
        assert_eq!(both.counts()[0], 2);
        assert_eq!(both.distance()[0], 1);
        let none = CharDfa::product(&[(&ab, true), (&ab, false)], 1000, "test").unwrap();
        assert!(none.is_empty());
        let mut all = both.enumerate(10);
        all.sort();
        assert_eq!(all, ["ab", "x"]);
    }
}
