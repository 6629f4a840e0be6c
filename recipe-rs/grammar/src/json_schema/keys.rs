//! Keys of an object: which declared name, or which class of other names, the characters typed so far can become.

use std::collections::HashMap;
use std::sync::Arc;

use super::chardfa::{CharDfa, Edge, Tuples, INFINITE};
use super::error::SchemaError;
use super::horizon::Alike;
use super::strings::MAX_DFA_STATES;
use crate::hash::mix;

/// Not on the way to any declared name.
pub(crate) const OFF: u32 = u32::MAX;

/// A state after one of `width` characters in `low..=high`.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub(crate) trie: u32,
    pub(crate) q: u32,
    pub(crate) low: u32,
    pub(crate) high: u32,
    pub(crate) width: u32,
}

struct TrieNode {
    children: Vec<(u32, u32)>,
    /// Label of the name that ends here.
    label: Option<u32>,
    /// Labels of the names below (labels are in sorted order of names).
    range: (u32, u32),
}

/// The key language of one object shape. Labels `0..names.len()` are declared names in sorted order; label
/// `names.len() + c` is the class `c` of other names.
pub(crate) struct Keys {
    pub(crate) names: Vec<Arc<str>>,
    trie: Vec<TrieNode>,
    /// Which language verdicts each class stands for.
    pub(crate) classes: Vec<Vec<bool>>,
    /// Class that each declared name would be in.
    pub(crate) class_of_name: Vec<u32>,
    edges: Vec<Vec<Edge>>,
    class_of_state: Vec<u32>,
    /// For each state: strings of each class that complete it.
    counts: Vec<Box<[u64]>>,
    endless: bool,
    /// States that behave alike for so many characters; of the horizon last asked for.
    alike: Alike,
}

impl Keys {
    /// `names` sorted and distinct; `langs` tell the other names apart.
    pub(crate) fn new(names: Vec<Arc<str>>, langs: &[&CharDfa]) -> Result<Self, SchemaError> {
        let mut trie = vec![TrieNode {
            children: vec![],
            label: None,
            range: (0, names.len() as u32),
        }];
        for (i, n) in names.iter().enumerate() {
            let mut at = 0usize;
            for c in n.chars() {
                let c = c as u32;
                at = match trie[at].children.last() {
                    Some(&(d, next)) if d == c => next as usize,
                    _ => {
                        let next = trie.len();
                        trie.push(TrieNode {
                            children: vec![],
                            label: None,
                            range: (i as u32, i as u32),
                        });
                        trie[at].children.push((c, next as u32));
                        next
                    }
                };
                trie[at].range.1 = i as u32 + 1;
            }
            trie[at].label = Some(i as u32);
        }
        for t in &mut trie {
            t.children.sort_unstable();
        }
        let all;
        let parts: Vec<(&CharDfa, bool)> = if langs.is_empty() {
            all = CharDfa::all();
            vec![(&all, false)]
        } else {
            langs.iter().map(|l| (*l, false)).collect()
        };
        let t = Tuples::build(&parts, MAX_DFA_STATES, "patterns of property names")?;
        let mut classes: Vec<Vec<bool>> = Vec::new();
        let mut ids: HashMap<Vec<bool>, u32> = HashMap::new();
        let mut class_of_state = Vec::with_capacity(t.states.len());
        for s in &t.states {
            let v = if langs.is_empty() {
                vec![]
            } else {
                t.verdicts(&parts, s)
            };
            let id = *ids.entry(v.clone()).or_insert_with(|| {
                classes.push(v);
                classes.len() as u32 - 1
            });
            class_of_state.push(id);
        }
        let counts = counts(&t.edges, &class_of_state, classes.len());
        let endless = counts.iter().flatten().all(|&n| n == 0 || n == INFINITE);
        let mut keys = Keys {
            endless,
            alike: Alike::default(),
            names,
            trie,
            classes,
            class_of_name: vec![],
            edges: t.edges,
            class_of_state,
            counts,
        };
        keys.class_of_name = keys
            .names
            .iter()
            .map(|n| {
                let q = n.chars().fold(0, |q, c| keys.step_class(q, c as u32));
                keys.class_of_state[q as usize]
            })
            .collect();
        Ok(keys)
    }

    /// Number of labels.
    pub(crate) fn labels(&self) -> usize {
        self.names.len() + self.classes.len()
    }

    fn step_class(&self, q: u32, c: u32) -> u32 {
        let es = &self.edges[q as usize];
        let i = es.partition_point(|e| e.high < c);
        es[i].target
    }

    fn step_trie(&self, t: u32, c: u32) -> u32 {
        if t == OFF {
            return OFF;
        }
        let cs = &self.trie[t as usize].children;
        cs.binary_search_by_key(&c, |x| x.0)
            .map_or(OFF, |i| cs[i].1)
    }

    /// The state (trie node, class state) after one character.
    pub(crate) fn step(&self, t: u32, q: u32, c: u32) -> (u32, u32) {
        (self.step_trie(t, c), self.step_class(q, c))
    }

    /// Label of the key that ends here.
    pub(crate) fn label(&self, t: u32, q: u32) -> u32 {
        if t != OFF {
            if let Some(l) = self.trie[t as usize].label {
                return l;
            }
        }
        self.names.len() as u32 + self.class_of_state[q as usize]
    }

    /// Declared names that the prefix can become, as a range of labels.
    pub(crate) fn named(&self, t: u32) -> (u32, u32) {
        if t == OFF {
            (0, 0)
        } else {
            self.trie[t as usize].range
        }
    }

    /// How many other names of a class the prefix can become, declared ones not counted.
    pub(crate) fn others(&self, t: u32, q: u32, class: u32) -> u64 {
        let n = self.counts[q as usize][class as usize];
        if n == INFINITE {
            return n;
        }
        let (a, b) = self.named(t);
        n - (a..b)
            .filter(|&l| self.class_of_name[l as usize] == class)
            .count() as u64
    }

    /// Whether each state completes no or endlessly many names of each class, so that used ones leave others.
    pub(crate) fn endless(&self) -> bool {
        self.endless
    }

    /// For each class state the first one that behaves alike for `horizon` characters: it stands for the
    /// same class, and the same classes are still possible.
    pub(crate) fn alike(&self, horizon: u32) -> Arc<[u32]> {
        let label = |q: usize| {
            self.counts[q]
                .iter()
                .fold(u128::from(self.class_of_state[q]), |hash, &n| {
                    mix(0x4b, hash, u128::from(n != 0))
                })
        };
        self.alike.get(&self.edges, label, horizon)
    }

    /// Next states for the characters `low..=high`: each child of the trie node, and each range of the class automaton
    /// without those children.
    pub(crate) fn next_states(
        &self,
        t: u32,
        q: u32,
        low: u32,
        high: u32,
        mut visit: impl FnMut(Next) -> bool,
    ) -> bool {
        let mut taken: &[(u32, u32)] = &[];
        if t != OFF {
            let cs = &self.trie[t as usize].children;
            let a = cs.partition_point(|x| x.0 < low);
            let b = a + cs[a..].partition_point(|x| x.0 <= high);
            taken = &cs[a..b];
            for &(c, next) in taken {
                if visit(Next {
                    trie: next,
                    q: self.step_class(q, c),
                    low: c,
                    high: c,
                    width: 1,
                }) {
                    return true;
                }
            }
        }
        let es = &self.edges[q as usize];
        let from = es.partition_point(|e| e.high < low);
        for e in es[from..].iter().take_while(|e| e.low <= high) {
            let (low, high) = (e.low.max(low), e.high.min(high));
            let used = taken
                .iter()
                .filter(|(c, _)| (low..=high).contains(c))
                .count() as u32;
            let width = high - low + 1 - used;
            if width > 0
                && visit(Next {
                    trie: OFF,
                    q: e.target,
                    low,
                    high,
                    width,
                })
            {
                return true;
            }
        }
        false
    }

    /// The class state after every character of a range, if it is the same for all and no declared name goes on
    /// with one of them.
    pub(crate) fn one_target(&self, t: u32, q: u32, low: u32, high: u32) -> Option<u32> {
        if self.children(t).iter().any(|c| (low..=high).contains(&c.0)) {
            return None;
        }
        let es = &self.edges[q as usize];
        let e = es.get(es.partition_point(|e| e.high < low))?;
        (e.low <= low && high <= e.high).then_some(e.target)
    }

    /// Whether every character keeps the class state.
    pub(crate) fn class_loops(&self, q: u32) -> bool {
        self.edges[q as usize].iter().all(|e| e.target == q)
    }

    /// The class state's edges and the trie node's children as character ranges, and what they lead to.
    pub(crate) fn children(&self, t: u32) -> &[(u32, u32)] {
        if t == OFF {
            &[]
        } else {
            &self.trie[t as usize].children
        }
    }

    /// Edges of a class state.
    pub(crate) fn class_edges(&self, q: u32) -> &[Edge] {
        &self.edges[q as usize]
    }
}

/// Strings of each class that complete each state.
#[allow(clippy::needless_range_loop)] // one class column at a time of a table by state
fn counts(edges: &[Vec<Edge>], class_of_state: &[u32], classes: usize) -> Vec<Box<[u64]>> {
    let n = edges.len();
    let mut out: Vec<Box<[u64]>> = vec![vec![0u64; classes].into(); n];
    let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (i, es) in edges.iter().enumerate() {
        for e in es {
            back[e.target as usize].push(i as u32);
        }
    }
    for class in 0..classes {
        let mut live = vec![false; n];
        let mut stack: Vec<u32> = (0..n as u32)
            .filter(|&i| class_of_state[i as usize] == class as u32)
            .collect();
        for &i in &stack {
            live[i as usize] = true;
        }
        while let Some(i) = stack.pop() {
            for &j in &back[i as usize] {
                if !live[j as usize] {
                    live[j as usize] = true;
                    stack.push(j);
                }
            }
        }
        let mut open: Vec<usize> = edges
            .iter()
            .map(|es| es.iter().filter(|e| live[e.target as usize]).count())
            .collect();
        let mut ready: Vec<u32> = (0..n as u32)
            .filter(|&i| live[i as usize] && open[i as usize] == 0)
            .collect();
        for i in 0..n {
            if live[i] {
                out[i][class] = INFINITE;
            }
        }
        while let Some(i) = ready.pop() {
            let mut c = u64::from(class_of_state[i as usize] == class as u32);
            for e in edges[i as usize].iter().filter(|e| live[e.target as usize]) {
                c = c
                    .saturating_add(
                        u64::from(e.high - e.low + 1).saturating_mul(out[e.target as usize][class]),
                    )
                    .min(INFINITE - 1);
            }
            out[i as usize][class] = c;
            for &j in &back[i as usize] {
                if live[j as usize] {
                    open[j as usize] -= 1;
                    if open[j as usize] == 0 {
                        ready.push(j);
                    }
                }
            }
        }
    }
    out
}
