//! States of a character automaton that behave alike for a number of characters.
//!
//! `^[a-z]{1,253}$` has a state for each count, yet no token has 128 characters: far from the bound all of
//! them allow the same tokens. This is Moore's partition refinement, stopped after as many rounds as there
//! are characters in the longest token.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use super::chardfa::Edge;
use crate::hash::{mix, Fingerprint};

/// Automata with more states are left as they are.
const MAX_STATES: usize = 8_000;

/// What [`alike`] finds for one automaton, remembered for the horizon last asked for.
#[derive(Debug, Default)]
pub(super) struct Alike(Mutex<Option<(u32, Arc<[u32]>)>>);

impl Alike {
    /// [`alike`], made once.
    pub(super) fn get<E: AsRef<[Edge]>>(
        &self,
        edges: &[E],
        label: impl Fn(usize) -> Fingerprint,
        horizon: u32,
    ) -> Arc<[u32]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((h, found)) if *h == horizon => Arc::clone(found),
            _ => {
                let found: Arc<[u32]> = alike(edges, label, horizon).into();
                *known = Some((horizon, Arc::clone(&found)));
                found
            }
        }
    }
}

/// For each state the first state that behaves alike: same labels after every text of at most `horizon`
/// characters.
pub(super) fn alike<E: AsRef<[Edge]>>(
    edges: &[E],
    label: impl Fn(usize) -> Fingerprint,
    horizon: u32,
) -> Box<[u32]> {
    let n = edges.len();
    if n > MAX_STATES {
        return (0..n as u32).collect();
    }
    let mut class: Vec<u32> = Vec::with_capacity(n);
    let mut count = 0u32;
    let mut known: FxHashMap<Fingerprint, u32> = FxHashMap::default();
    for q in 0..n {
        let id = *known.entry(label(q)).or_insert_with(|| {
            count += 1;
            count - 1
        });
        class.push(id);
    }
    let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (q, es) in edges.iter().enumerate() {
        for e in es.as_ref() {
            let to = &mut back[e.target as usize];
            if to.last() != Some(&(q as u32)) {
                to.push(q as u32);
            }
        }
    }
    let mut members: Vec<u32> = vec![0; count as usize];
    class.iter().for_each(|&c| members[c as usize] += 1);
    let mut touched: Vec<u32> = (0..n as u32).collect();
    for _ in 0..horizon {
        // States whose successors changed class, by their old class and what they do now.
        let mut groups: FxHashMap<u32, FxHashMap<Fingerprint, Vec<u32>>> = FxHashMap::default();
        for &q in &touched {
            let s = signature(edges[q as usize].as_ref(), &class);
            let of_class = groups.entry(class[q as usize]).or_default();
            of_class.entry(s).or_default().push(q);
        }
        let mut changed: Vec<u32> = Vec::new();
        for (old, by_signature) in groups {
            let mut parts: Vec<Vec<u32>> = by_signature.into_values().collect();
            let moved: usize = parts.iter().map(Vec::len).sum();
            if moved == members[old as usize] as usize {
                // Nobody stays behind: the largest part keeps the class.
                let largest = (0..parts.len())
                    .max_by_key(|&i| parts[i].len())
                    .unwrap_or(0);
                parts.swap_remove(largest);
            }
            for part in parts {
                members[old as usize] -= part.len() as u32;
                members.push(part.len() as u32);
                for &q in &part {
                    class[q as usize] = count;
                }
                count += 1;
                changed.extend(part);
            }
        }
        if changed.is_empty() {
            break;
        }
        let next: FxHashSet<u32> = changed
            .iter()
            .flat_map(|&q| back[q as usize].iter().copied())
            .collect();
        touched = next.into_iter().collect();
    }
    let mut first = vec![u32::MAX; count as usize];
    class
        .iter()
        .enumerate()
        .map(|(q, &c)| {
            let f = &mut first[c as usize];
            *f = (*f).min(q as u32);
            *f
        })
        .collect()
}

/// Where a state goes, ranges with one aim joined.
fn signature(edges: &[Edge], class: &[u32]) -> Fingerprint {
    let mut hash: Fingerprint = mix(0x48, edges.is_empty() as u128, 0);
    let mut open: Option<(u32, u32, u32)> = None;
    let mut add = |r: (u32, u32, u32)| {
        hash = mix(
            0x49,
            hash,
            u128::from(r.0) << 64 | u128::from(r.1) << 32 | u128::from(r.2),
        );
    };
    for e in edges {
        let c = class[e.target as usize];
        match &mut open {
            Some((_, high, to)) if *to == c && *high + 1 == e.low => *high = e.high,
            _ => {
                if let Some(r) = open.replace((e.low, e.high, c)) {
                    add(r);
                }
            }
        }
    }
    if let Some(r) = open {
        add(r);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(low: u32, high: u32, target: u32) -> Edge {
        Edge { low, high, target }
    }

    #[test]
    fn counters_far_from_their_bound_are_alike() {
        // a{0,9}, all states accept.
        let edges: Vec<Vec<Edge>> = (0..10u32)
            .map(|q| {
                if q < 9 {
                    vec![edge(97, 97, q + 1)]
                } else {
                    vec![]
                }
            })
            .collect();
        let found = alike(&edges, |_| 1, 4);
        assert_eq!(*found, [0, 0, 0, 0, 0, 0, 6, 7, 8, 9]);
        let found = alike(&edges, |_| 1, 100);
        assert_eq!(*found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn equal_states_stay_together() {
        let edges = vec![
            vec![edge(97, 97, 1), edge(98, 98, 2)],
            vec![edge(97, 99, 3)],
            vec![edge(97, 98, 3), edge(99, 99, 3)],
            vec![],
        ];
        let found = alike(&edges, |q| u128::from(q == 3), 50);
        assert_eq!(*found, [0, 1, 1, 3]);
    }
}
