//! String languages from patterns: a tree over characters becomes a deterministic automaton.
//!
//! Positions of the pattern are the states of a nondeterministic automaton (Thompson's construction); sets of them are
//! the states of the deterministic one. `^` and `$` are conditions on moves that read nothing. Patterns with other
//! assertions (word boundaries, lookaround) go through the byte-level derivatives of `regex` and are read back.

use std::collections::HashMap;

use super::chardfa::{CharDfa, Edge, SCALARS};
use super::error::{ErrorKind, SchemaError};
use crate::error::GrammarError;
use crate::limits::Limits;
use crate::regex::{
    parse, Arena, Assertion, Encoding, Hir, Lowering, NodeId, Syntax, INFINITE, NEVER,
};

/// Positions of one pattern.
const MAX_POSITIONS: usize = 200_000;
/// Range borders looked at while making states.
const MAX_WORK: usize = 8_000_000;
/// States of one pattern's automaton.
const MAX_STATES: usize = 40_000;

/// The strings in which an ECMA-262 pattern matches somewhere.
///
/// # Errors
/// A pattern that is malformed or not regular, and limits.
pub(crate) fn pattern(text: &str, pointer: &str) -> Result<CharDfa, SchemaError> {
    let syntax = Syntax {
        ecma: true,
        ..Syntax::default()
    };
    let hir = parse(text, syntax).map_err(|e| pattern_error(e, text, pointer))?;
    match language(&hir) {
        Ok(Some(dfa)) => Ok(dfa),
        Ok(None) => by_derivatives(&hir).map_err(|e| pattern_error(e, text, pointer)),
        Err(mut e) => {
            e.pointer = pointer.into();
            Err(e)
        }
    }
}

/// The automaton of "matches somewhere"; `None` if the pattern needs derivatives.
///
/// Lookahead right after `^` is a condition on the whole text, so it becomes an intersection or a difference.
fn language(hir: &Hir) -> Result<Option<CharDfa>, SchemaError> {
    if let Some(dfa) = searched(hir)? {
        return Ok(Some(dfa));
    }
    match hir {
        Hir::Alt(parts) => {
            let mut all = Vec::with_capacity(parts.len());
            for p in parts {
                match language(p)? {
                    Some(d) => all.push(d),
                    None => return Ok(None),
                }
            }
            let all: Vec<&CharDfa> = all.iter().collect();
            Ok(Some(CharDfa::union(&all, MAX_STATES, "the pattern")?))
        }
        Hir::Cat(parts) => {
            let Some(Hir::Assert(Assertion::TextStart, span)) = parts.first() else {
                return Ok(None);
            };
            let start = || Hir::Assert(Assertion::TextStart, span.clone());
            let ahead = |p: &&Hir| matches!(p, Hir::Assert(Assertion::Ahead(..), _));
            let conditions = parts[1..].iter().take_while(ahead).count();
            if conditions == 0 {
                return Ok(None);
            }
            let rest = [vec![start()], parts[1 + conditions..].to_vec()].concat();
            let Some(base) = language(&Hir::Cat(rest))? else {
                return Ok(None);
            };
            let mut signs = vec![(base, true)];
            for p in &parts[1..=conditions] {
                let Hir::Assert(Assertion::Ahead(sign, body), _) = p else {
                    return Ok(None);
                };
                match language(&Hir::Cat(vec![start(), (**body).clone()]))? {
                    Some(d) => signs.push((d, *sign)),
                    None => return Ok(None),
                }
            }
            let signs: Vec<(&CharDfa, bool)> = signs.iter().map(|(d, s)| (d, *s)).collect();
            Ok(Some(CharDfa::product(&signs, MAX_STATES, "the pattern")?))
        }
        _ => Ok(None),
    }
}

fn pattern_error(e: GrammarError, text: &str, pointer: &str) -> SchemaError {
    match e {
        GrammarError::Limit {
            what,
            limit,
            needed,
            ..
        } => SchemaError::limit(pointer, &what, needed, limit),
        GrammarError::Syntax { message, span, .. } => {
            let unsupported = message.contains("not supported") || message.contains("not regular");
            let kind = if unsupported {
                ErrorKind::Unsupported
            } else {
                ErrorKind::Invalid
            };
            let shown: String = text.chars().take(200).collect();
            let mut e = SchemaError::new(
                kind,
                pointer,
                format!("pattern '{shown}': {message} (at byte {})", span.start),
            );
            e.keyword = Some("pattern".into());
            e
        }
        other => SchemaError::new(ErrorKind::Invalid, pointer, other.to_string()),
    }
}

#[derive(Debug)]
enum Move {
    /// Reads a character of the ranges.
    Read(Vec<(u32, u32)>, u32),
    AtStart(u32),
    AtEnd(u32),
    Split(Vec<u32>),
    Match,
}

struct Nfa {
    moves: Vec<Move>,
    too_big: bool,
}

impl Nfa {
    fn add(&mut self, m: Move) -> u32 {
        if self.moves.len() >= MAX_POSITIONS {
            self.too_big = true;
            return 0;
        }
        self.moves.push(m);
        self.moves.len() as u32 - 1
    }

    /// Compiles a tree to end in `next`; `None` for assertions that need the other way.
    fn compile(&mut self, hir: &Hir, next: u32) -> Option<u32> {
        if self.too_big {
            return Some(0);
        }
        Some(match hir {
            Hir::Empty => next,
            Hir::Class(set) => self.add(Move::Read(set.ranges().to_vec(), next)),
            Hir::Cat(parts) => {
                let mut at = next;
                for p in parts.iter().rev() {
                    at = self.compile(p, at)?;
                }
                at
            }
            Hir::Alt(parts) => {
                let mut out = Vec::with_capacity(parts.len());
                for p in parts {
                    out.push(self.compile(p, next)?);
                }
                self.add(Move::Split(out))
            }
            Hir::Repeat(body, min, max) => {
                let mut at = if *max == INFINITE {
                    let hub = self.add(Move::Split(vec![]));
                    let inner = self.compile(body, hub)?;
                    if !self.too_big {
                        self.moves[hub as usize] = Move::Split(vec![inner, next]);
                    }
                    hub
                } else {
                    let mut at = next;
                    for _ in *min..*max {
                        let inner = self.compile(body, at)?;
                        at = self.add(Move::Split(vec![inner, next]));
                        if self.too_big {
                            return Some(0);
                        }
                    }
                    at
                };
                for _ in 0..*min {
                    at = self.compile(body, at)?;
                    if self.too_big {
                        return Some(0);
                    }
                }
                at
            }
            Hir::Assert(Assertion::TextStart, _) => self.add(Move::AtStart(next)),
            Hir::Assert(Assertion::TextEnd, _) => self.add(Move::AtEnd(next)),
            Hir::And(_) | Hir::Not(_) | Hir::Assert(..) => return None,
        })
    }

    /// Adds the positions reachable without reading. Returns whether the match is reached.
    fn close(
        &self,
        seeds: &[u32],
        start: bool,
        end: bool,
        out: &mut Vec<u32>,
        mark: &mut [u32],
        stamp: u32,
    ) -> bool {
        let mut stack = seeds.to_vec();
        let mut matched = false;
        out.clear();
        while let Some(i) = stack.pop() {
            if mark[i as usize] == stamp {
                continue;
            }
            mark[i as usize] = stamp;
            match &self.moves[i as usize] {
                Move::Read(..) => out.push(i),
                Move::AtStart(n) => {
                    if start {
                        stack.push(*n);
                    }
                }
                Move::AtEnd(n) => {
                    if end {
                        stack.push(*n);
                    }
                }
                Move::Split(ns) => stack.extend(ns),
                Move::Match => matched = true,
            }
        }
        out.sort_unstable();
        matched
    }
}

/// The same for patterns whose only assertions are `^` and `$`.
fn searched(hir: &Hir) -> Result<Option<CharDfa>, SchemaError> {
    let mut nfa = Nfa {
        moves: vec![Move::Match],
        too_big: false,
    };
    let Some(entry) = nfa.compile(hir, 0) else {
        return Ok(None);
    };
    let hub = nfa.add(Move::Split(vec![]));
    let any = nfa.add(Move::Read(SCALARS.to_vec(), hub));
    if nfa.too_big {
        return Err(SchemaError::limit(
            "",
            "positions of the pattern",
            MAX_POSITIONS as u64 + 1,
            MAX_POSITIONS as u64,
        ));
    }
    nfa.moves[hub as usize] = Move::Split(vec![any, entry]);

    // State 0 is the start; a state that has matched for good is `everything`.
    let mut ids: HashMap<Vec<u32>, u32> = HashMap::new();
    let mut edges: Vec<Vec<Edge>> = Vec::new();
    let mut accept: Vec<bool> = Vec::new();
    let mut sets: Vec<Vec<u32>> = Vec::new();
    let mut mark = vec![0u32; nfa.moves.len()];
    let mut stamp = 0u32;
    let mut everything: Option<u32> = None;
    let mut work = 0usize;
    let mut make = |seeds: &[u32],
                    start: bool,
                    edges: &mut Vec<Vec<Edge>>,
                    accept: &mut Vec<bool>,
                    sets: &mut Vec<Vec<u32>>|
     -> Result<u32, SchemaError> {
        let mut set = Vec::new();
        stamp += 1;
        let done = nfa.close(seeds, start, false, &mut set, &mut mark, stamp);
        let fresh = sets.len() as u32;
        if done {
            return Ok(*everything.get_or_insert_with(|| {
                sets.push(Vec::new());
                accept.push(true);
                edges.push(
                    SCALARS
                        .iter()
                        .map(|&(low, high)| Edge {
                            low,
                            high,
                            target: fresh,
                        })
                        .collect(),
                );
                fresh
            }));
        }
        let mut scratch = Vec::new();
        stamp += 1;
        let at_end = nfa.close(seeds, start, true, &mut scratch, &mut mark, stamp);
        // Whether the text may end here belongs to the state.
        set.push(u32::MAX - u32::from(at_end));
        if let Some(&id) = ids.get(&set) {
            return Ok(id);
        }
        if sets.len() >= MAX_STATES {
            return Err(SchemaError::limit(
                "",
                "states of the pattern",
                MAX_STATES as u64 + 1,
                MAX_STATES as u64,
            ));
        }
        ids.insert(set.clone(), fresh);
        set.pop();
        sets.push(set);
        accept.push(at_end);
        edges.push(Vec::new());
        Ok(fresh)
    };
    make(&[hub], true, &mut edges, &mut accept, &mut sets)?;
    let mut at = 0;
    let mut events: Vec<(u32, bool, u32)> = Vec::new();
    while at < sets.len() {
        let set = sets[at].clone();
        if everything_like(&set, &edges[at]) {
            at += 1;
            continue;
        }
        // Sweep over the borders of all ranges, keeping the multiset of active targets.
        events.clear();
        for &i in &set {
            if let Move::Read(ranges, next) = &nfa.moves[i as usize] {
                for &(a, b) in ranges {
                    events.push((a, true, *next));
                    events.push((b + 1, false, *next));
                }
            }
        }
        work += events.len();
        if work > MAX_WORK {
            return Err(SchemaError::limit(
                "",
                "work on the pattern's states",
                work as u64,
                MAX_WORK as u64,
            ));
        }
        events.sort_unstable();
        let mut active: Vec<u32> = Vec::new();
        let mut out: Vec<Edge> = Vec::new();
        let mut cache: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut i = 0;
        while i < events.len() {
            let from = events[i].0;
            while i < events.len() && events[i].0 == from {
                let (_, enter, t) = events[i];
                if enter {
                    let p = active.partition_point(|x| *x < t);
                    active.insert(p, t);
                } else if let Ok(p) = active.binary_search(&t) {
                    active.remove(p);
                }
                i += 1;
            }
            if active.is_empty() || i >= events.len() {
                continue;
            }
            let to = events[i].0 - 1;
            let mut seeds = active.clone();
            seeds.dedup();
            let target = match cache.get(&seeds) {
                Some(&t) => t,
                None => {
                    let t = make(&seeds, false, &mut edges, &mut accept, &mut sets)?;
                    cache.insert(seeds, t);
                    t
                }
            };
            push_edge(&mut out, from, to, target);
        }
        edges[at] = out;
        at += 1;
    }
    Ok(Some(CharDfa::new(edges, accept)))
}

fn everything_like(set: &[u32], edges: &[Edge]) -> bool {
    set.is_empty() && !edges.is_empty()
}

/// Appends a transition, leaving surrogates out.
fn push_edge(out: &mut Vec<Edge>, from: u32, to: u32, target: u32) {
    for (low, high) in SCALARS {
        let (a, b) = (from.max(low), to.min(high));
        if a <= b {
            match out.last_mut() {
                Some(last) if last.target == target && last.high + 1 == a => last.high = b,
                _ => out.push(Edge {
                    low: a,
                    high: b,
                    target,
                }),
            }
        }
    }
}

/// The same through byte-level derivatives: for lookaround and word boundaries.
fn by_derivatives(hir: &Hir) -> Result<CharDfa, GrammarError> {
    let limits = Limits::default();
    let mut arena = Arena::new(limits.regex_nodes, limits.emptiness_search);
    let mut lowering = Lowering::new(Encoding::Utf8);
    let root = lowering.search(&mut arena, hir)?;
    let mut ids: HashMap<NodeId, u32> = HashMap::from([(root, 0)]);
    let mut states = vec![root];
    let mut edges: Vec<Vec<Edge>> = Vec::new();
    let mut accept = Vec::new();
    let mut at = 0;
    while at < states.len() {
        let node = states[at];
        accept.push(arena.is_nullable(node));
        let mut raw: Vec<(u32, u32, NodeId)> = Vec::new();
        for byte in 0..0x80u32 {
            let next = arena.step(node, byte as u8);
            if next != NEVER {
                raw.push((byte, byte, next));
            }
        }
        for byte in 0xc2..=0xf4u32 {
            let next = arena.step(node, byte as u8);
            if next != NEVER {
                let (left, bits) = match byte {
                    0xc2..=0xdf => (1, byte & 0x1f),
                    0xe0..=0xef => (2, byte & 0x0f),
                    _ => (3, byte & 0x07),
                };
                continuation(&mut arena, next, left, bits, &mut raw);
            }
        }
        arena.check()?;
        raw.sort_unstable_by_key(|r| r.0);
        let mut out = Vec::new();
        for (a, b, n) in raw {
            let fresh = states.len() as u32;
            let target = *ids.entry(n).or_insert_with(|| {
                states.push(n);
                fresh
            });
            push_edge(&mut out, a, b, target);
        }
        edges.push(out);
        at += 1;
        if states.len() > MAX_STATES / 20 {
            return Err(GrammarError::limit(
                crate::error::LimitKind::RegexNodes,
                "states of a pattern with lookaround",
                MAX_STATES as u64 / 20,
                states.len() as u64,
            ));
        }
    }
    Ok(CharDfa::new(edges, accept))
}

fn continuation(
    arena: &mut Arena,
    node: NodeId,
    left: u32,
    bits: u32,
    out: &mut Vec<(u32, u32, NodeId)>,
) {
    let mut last: Option<(u32, NodeId)> = None;
    for byte in 0x80..=0xbfu32 {
        let next = arena.step(node, byte as u8);
        let acc = bits << 6 | byte & 0x3f;
        if next == NEVER {
            last = None;
        } else if left == 1 {
            match (last, out.last_mut()) {
                (Some((c, n)), Some(r)) if n == next && c + 1 == acc => r.1 = acc,
                _ => out.push((acc, acc, next)),
            }
            last = Some((acc, next));
        } else {
            continuation(arena, next, left - 1, acc, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_search_the_text() {
        for (p, yes, no) in [
            ("ab", vec!["zzabzz", "ab"], vec!["a b", ""]),
            ("^x", vec!["x!", "x"], vec!["ax", ""]),
            ("^a{2,3}$", vec!["aa", "aaa"], vec!["a", "aaaa", "aa\n"]),
            ("^(|b)$|c", vec!["", "b", "xcx"], vec!["a", "bb"]),
            (r"\S", vec![" a ", "."], vec!["   ", ""]),
            (r"^\p{Letter}+$", vec!["aé", "日本"], vec!["1", ""]),
            (r"^[^\u{1F600}]$", vec!["a"], vec!["\u{1F600}"]),
            (r"^(?!foo).*$", vec!["bar", "fo"], vec!["foobar", "foo"]),
            (
                r"^(?!.*(x|y))(?=.{2,3}$)[a-z]*$|^z$",
                vec!["ab", "abc", "z"],
                vec!["ax", "a", "abcd", "aby"],
            ),
            (r"\bcat\b", vec!["a cat", "cat"], vec!["cats", "concat"]),
            ("$^", vec![""], vec!["a"]),
            ("a$b", vec![], vec!["ab", "a"]),
        ] {
            let d = pattern(p, "#").unwrap_or_else(|e| panic!("{p}: {e}"));
            for t in yes {
                assert!(d.contains(t), "{p} should match {t:?}");
            }
            for t in no {
                assert!(!d.contains(t), "{p} should not match {t:?}");
            }
        }
    }
}
