//! Rules as networks of calls, without left recursion and without dead ends.
//!
//! Every rule becomes a small automaton whose edges are calls (of a regular expression, a machine or
//! another rule) and special tokens; bytes are read only inside regular expressions and machines.
//! Only the language matters here, not the parse tree, so rules may be rewritten freely:
//!
//! 1. Regular parts, rules included where they are small and not recursive, fold into one regular
//!    expression: one automaton then does what a chain of calls would.
//! 2. Calls never match "": a nullable part gets an edge around it, start states do not accept.
//! 3. Left recursion is solved as a linear system. Within a set `C` of rules that begin with each
//!    other, `X = base_X + sum over Y of Y rest_{Y,X}`; a word of `X` is a base of some `Y` followed by
//!    a path of rests from `Y` to `X`. Each `X` gets the automaton of just that (nodes `Y`, edges
//!    `rest`), which calls no member of `C` before it has read something.
//! 4. Shortest completions by Knuth's generalisation of Dijkstra's algorithm (1977); edges that cannot
//!    be completed are dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::counter::Counter;
use super::Grammar;
use crate::bytes::ByteClasses;
use crate::error::{GrammarError, LimitKind, Result};
use crate::ir::{Expr, ExprId, GrammarBuilder, RuleId};
use crate::limits::Budget;
use crate::machine::MachineId;
use crate::regex::{NodeId, EMPTY, INFINITE, NEVER};

/// Regular rules up to this many leaves are folded into their users.
const FOLD_WEIGHT: u32 = 200;
/// Counted repetitions up to this many leaves in all are unrolled rather than counted.
const UNROLL_WEIGHT: u32 = 24;

/// States of one rule whose counted repetitions have to be unrolled (left recursion through a count).
const UNROLLED_STATES: u64 = 20_000;

/// What a call starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Start {
    /// A state of the network.
    Network(u32),
    /// A regular expression.
    Regex(NodeId),
    /// A machine's start payload.
    Machine(MachineId, Box<[u32]>),
    /// Nothing matches: never called.
    Dead,
}

/// One state of all networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetState {
    pub(crate) accept: bool,
    pub(crate) calls: Vec<(Start, u32)>,
    pub(crate) specials: Vec<(u32, u32)>,
    /// First edge of the shortest way to the rule's end: index into `calls`, or past them into `specials`.
    pub(crate) best: u32,
}

impl NetState {
    /// The rule can only end here.
    pub(crate) fn is_end(&self) -> bool {
        self.accept && self.calls.is_empty() && self.specials.is_empty()
    }
}

/// All rules as networks.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) states: Vec<NetState>,
    /// Start of each rule.
    pub(crate) rules: Vec<Start>,
    pub(crate) root: Start,
    pub(crate) root_nullable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Symbol {
    Rule(u32),
    Regex(NodeId),
    Machine(MachineId, Box<[u32]>, u64),
    Special(u32),
}

/// A rule's automaton; state 0 is the start, has no incoming edge and does not accept.
#[derive(Clone, Debug, Default)]
struct Automaton {
    accept: Vec<bool>,
    edges: Vec<Vec<(Symbol, u32)>>,
}

/// With edges that read nothing; removed by [`Draft::finish`].
#[derive(Default)]
struct Draft {
    edges: Vec<Vec<(Option<Symbol>, u32)>>,
}

impl Draft {
    fn state(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.edges.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, symbol: Option<Symbol>, to: u32) {
        self.edges[from as usize].push((symbol, to));
    }

    fn finish(self, start: u32, end: u32, budget: &mut Budget) -> Result<Automaton> {
        let mut out = Automaton::default();
        let mut index: FxHashMap<u32, u32> = FxHashMap::default();
        // State 0 stands for the start alone, so that edges back to it do not make it accept.
        out.accept.push(false);
        out.edges.push(Vec::new());
        let mut queue = vec![(start, 0u32)];
        while let Some((at, id)) = queue.pop() {
            let mut seen = FxHashSet::default();
            let mut stack = vec![at];
            seen.insert(at);
            let mut edges = Vec::new();
            let mut accept = false;
            while let Some(state) = stack.pop() {
                budget.tick("automaton of one rule")?;
                accept |= state == end;
                for (symbol, to) in &self.edges[state as usize] {
                    match symbol {
                        None => {
                            if seen.insert(*to) {
                                stack.push(*to);
                            }
                        }
                        Some(symbol) => {
                            let next = *index.entry(*to).or_insert_with(|| {
                                out.accept.push(false);
                                out.edges.push(Vec::new());
                                queue.push((*to, out.accept.len() as u32 - 1));
                                out.accept.len() as u32 - 1
                            });
                            edges.push((symbol.clone(), next));
                        }
                    }
                }
            }
            edges.sort();
            edges.dedup();
            out.accept[id as usize] = accept && id != 0;
            out.edges[id as usize] = edges;
        }
        Ok(out)
    }
}

struct Compiler<'a> {
    b: &'a mut GrammarBuilder,
    /// Regular expression of an expression: unknown, none, or known.
    folded: Vec<Option<Option<NodeId>>>,
    weights: Vec<u32>,
    /// 0 = not visited, 1 = being folded, 2 = done.
    visiting: Vec<u8>,
    rule_regex: Vec<Option<NodeId>>,
    nullable: Vec<bool>,
    /// Bodies of counters, appended to the rules.
    counters: FxHashMap<(ExprId, u32, u32), (MachineId, RuleId)>,
    counter_bodies: FxHashMap<MachineId, (RuleId, u32)>,
    unroll_all: bool,
}

/// Compile the rules of a builder.
pub(crate) fn compile_rules(b: &mut GrammarBuilder, root: ExprId) -> Result<Network> {
    let rules = b.rules.len();
    // The root is a rule like any other.
    let root_rule = b.rule("root of the grammar");
    b.define(root_rule, root);
    let exprs = b.exprs.len();
    let mut c = Compiler {
        b,
        folded: vec![None; exprs],
        weights: vec![0; exprs],
        visiting: vec![0; rules + 1],
        rule_regex: vec![None; rules + 1],
        nullable: vec![false; rules + 1],
        counters: FxHashMap::default(),
        counter_bodies: FxHashMap::default(),
        unroll_all: false,
    };
    c.find_nullable();
    for rule in 0..=rules {
        c.fold_rule(rule, 0);
    }
    c.b.regex.check()?;
    match c.build(root_rule) {
        Err(Built::LeftRecursiveCounter) => {
            c.unroll_all = true;
            match c.build(root_rule) {
                Err(Built::LeftRecursiveCounter) => {
                    unreachable!("nothing is counted when all is unrolled")
                }
                Err(Built::Failed(e)) => Err(e),
                Ok(network) => Ok(network),
            }
        }
        Err(Built::Failed(e)) => Err(e),
        Ok(network) => Ok(network),
    }
}

enum Built {
    Failed(GrammarError),
    LeftRecursiveCounter,
}

impl From<GrammarError> for Built {
    fn from(e: GrammarError) -> Self {
        Built::Failed(e)
    }
}

impl Compiler<'_> {
    fn expr(&self, id: ExprId) -> &Expr {
        &self.b.exprs[id.0 as usize]
    }

    /// Which rules match "": least fixpoint. Children have smaller ids, so one pass settles expressions.
    fn find_nullable(&mut self) {
        loop {
            let mut null = vec![false; self.b.exprs.len()];
            for (i, expr) in self.b.exprs.iter().enumerate() {
                null[i] = match expr {
                    Expr::Regex(n) => self.b.regex.is_nullable(*n),
                    Expr::Seq(parts) => parts.iter().all(|p| null[p.0 as usize]),
                    Expr::Alt(parts) => parts.iter().any(|p| null[p.0 as usize]),
                    Expr::Repeat(x, min, _) => *min == 0 || null[x.0 as usize],
                    Expr::Rule(r) => self.nullable[r.0 as usize],
                    Expr::Special(_) | Expr::Machine(..) => false,
                };
            }
            let mut changed = false;
            for (i, rule) in self.b.rules.iter().enumerate() {
                let body = rule.body.expect("checked by the builder");
                if null[body.0 as usize] && !self.nullable[i] {
                    self.nullable[i] = true;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn fold_rule(&mut self, rule: usize, depth: u32) -> Option<NodeId> {
        match self.visiting[rule] {
            1 => return None,
            2 => return self.rule_regex[rule],
            _ => {}
        }
        self.visiting[rule] = 1;
        let body = self.b.rules[rule].body.expect("checked by the builder");
        let node = self.fold(body, depth + 1);
        self.visiting[rule] = 2;
        self.rule_regex[rule] = node;
        node
    }

    /// The expression as one regular expression, if it is regular and not too large.
    fn fold(&mut self, id: ExprId, depth: u32) -> Option<NodeId> {
        if let Some(known) = self.folded[id.0 as usize] {
            return known;
        }
        if depth > 400 {
            return None;
        }
        let (node, weight) = match self.expr(id).clone() {
            Expr::Regex(n) => (Some(n), 1),
            Expr::Special(_) | Expr::Machine(..) => (None, 1),
            Expr::Rule(r) => {
                let in_progress = self.visiting[r.0 as usize] == 1;
                let node = self.fold_rule(r.0 as usize, depth);
                if in_progress {
                    // Recursive: not regular here, whatever comes out in the end.
                    return None;
                }
                let body = self.b.rules[r.0 as usize]
                    .body
                    .expect("checked by the builder");
                let weight = self.weights[body.0 as usize];
                (node.filter(|_| weight <= FOLD_WEIGHT), weight)
            }
            Expr::Repeat(x, min, max) => {
                let node = self.fold(x, depth + 1);
                (
                    node.map(|n| self.b.regex.repeat(n, min, max)),
                    self.weights[x.0 as usize],
                )
            }
            Expr::Seq(parts) => {
                let nodes: Vec<Option<NodeId>> =
                    parts.iter().map(|&p| self.fold(p, depth + 1)).collect();
                let weight = parts
                    .iter()
                    .map(|p| self.weights[p.0 as usize])
                    .fold(0u32, u32::saturating_add);
                let all: Option<Vec<NodeId>> = nodes.into_iter().collect();
                (all.map(|n| self.b.regex.concat(&n)), weight)
            }
            Expr::Alt(parts) => {
                let nodes: Vec<Option<NodeId>> =
                    parts.iter().map(|&p| self.fold(p, depth + 1)).collect();
                let weight = parts
                    .iter()
                    .map(|p| self.weights[p.0 as usize])
                    .fold(0u32, u32::saturating_add);
                let all: Option<Vec<NodeId>> = nodes.into_iter().collect();
                (all.map(|n| self.b.regex.alt(&n)), weight)
            }
        };
        self.weights[id.0 as usize] = weight;
        self.folded[id.0 as usize] = Some(node);
        node
    }

    // ------------------------------------------------------------ automata

    fn nullable_expr(&self, id: ExprId) -> bool {
        match self.expr(id) {
            Expr::Regex(n) => self.b.regex.is_nullable(*n),
            Expr::Seq(parts) => parts.iter().all(|&p| self.nullable_expr(p)),
            Expr::Alt(parts) => parts.iter().any(|&p| self.nullable_expr(p)),
            Expr::Repeat(x, min, _) => *min == 0 || self.nullable_expr(*x),
            Expr::Rule(r) => self.nullable[r.0 as usize],
            Expr::Special(_) | Expr::Machine(..) => false,
        }
    }

    fn draft(&mut self, draft: &mut Draft, id: ExprId, from: u32, to: u32) -> Result<()> {
        self.b.budget.tick("rules of the grammar")?;
        let most = if self.unroll_all {
            UNROLLED_STATES
        } else {
            self.b.limits_rules()
        };
        if draft.edges.len() as u64 > most {
            let what = if self.unroll_all {
                "counted repetition that begins with its own rule"
            } else {
                "automaton of one rule"
            };
            return Err(GrammarError::limit(
                LimitKind::Rules,
                what,
                most,
                draft.edges.len() as u64,
            ));
        }
        let folded = self.folded.get(id.0 as usize).copied().flatten().flatten();
        if let Some(node) = folded {
            self.draft_regex(draft, node, from, to);
            return Ok(());
        }
        match self.expr(id).clone() {
            Expr::Regex(node) => self.draft_regex(draft, node, from, to),
            Expr::Special(token) => draft.edge(from, Some(Symbol::Special(token)), to),
            Expr::Machine(m, payload, cost) => {
                draft.edge(from, Some(Symbol::Machine(m, payload, cost)), to)
            }
            Expr::Rule(r) => {
                if self.nullable[r.0 as usize] {
                    draft.edge(from, None, to);
                }
                draft.edge(from, Some(Symbol::Rule(r.0)), to);
            }
            Expr::Seq(parts) => {
                // Neighbouring regular parts read as one.
                let mut at = from;
                let mut i = 0;
                while i < parts.len() {
                    let mut j = i;
                    let mut run = Vec::new();
                    while j < parts.len() {
                        match self
                            .folded
                            .get(parts[j].0 as usize)
                            .copied()
                            .flatten()
                            .flatten()
                        {
                            Some(node) => run.push(node),
                            None => break,
                        }
                        j += 1;
                    }
                    if run.is_empty() {
                        j = i + 1;
                    }
                    let next = if j == parts.len() { to } else { draft.state() };
                    if run.is_empty() {
                        self.draft(draft, parts[i], at, next)?;
                    } else {
                        let node = self.b.regex.concat(&run);
                        self.draft_regex(draft, node, at, next);
                    }
                    at = next;
                    i = j;
                }
                if parts.is_empty() {
                    draft.edge(from, None, to);
                }
            }
            Expr::Alt(parts) => {
                let mut regular = Vec::new();
                for &part in parts.iter() {
                    match self
                        .folded
                        .get(part.0 as usize)
                        .copied()
                        .flatten()
                        .flatten()
                    {
                        Some(node) => regular.push(node),
                        None => self.draft(draft, part, from, to)?,
                    }
                }
                if !regular.is_empty() {
                    let node = self.b.regex.alt(&regular);
                    self.draft_regex(draft, node, from, to);
                }
            }
            Expr::Repeat(x, min, max) => self.draft_repeat(draft, x, min, max, from, to)?,
        }
        Ok(())
    }

    fn draft_regex(&mut self, draft: &mut Draft, node: NodeId, from: u32, to: u32) {
        if self.b.regex.is_nullable(node) {
            draft.edge(from, None, to);
        }
        if node != NEVER && node != EMPTY && self.b.regex.is_live(node) {
            draft.edge(from, Some(Symbol::Regex(node)), to);
        }
    }

    fn draft_repeat(
        &mut self,
        draft: &mut Draft,
        x: ExprId,
        min: u32,
        max: u32,
        from: u32,
        to: u32,
    ) -> Result<()> {
        if min > max {
            return Ok(());
        }
        if max == 0 {
            draft.edge(from, None, to);
            return Ok(());
        }
        let min = if self.nullable_expr(x) { 0 } else { min };
        let weight = self.weights.get(x.0 as usize).copied().unwrap_or(1).max(1);
        let copies = if max == INFINITE { min } else { max };
        if min > 1 || (max != INFINITE && max > 1) {
            let small = weight.saturating_mul(copies) <= UNROLL_WEIGHT;
            if !small && !self.unroll_all {
                let (machine, _) = self.counter(x, min, max);
                if min == 0 {
                    draft.edge(from, None, to);
                }
                let cost = min as u64;
                draft.edge(
                    from,
                    Some(Symbol::Machine(machine, Box::new([0]), cost)),
                    to,
                );
                return Ok(());
            }
        }
        let mut at = from;
        for _ in 0..min {
            let next = draft.state();
            self.draft(draft, x, at, next)?;
            at = next;
        }
        if max == INFINITE {
            let hub = draft.state();
            draft.edge(at, None, hub);
            self.draft(draft, x, hub, hub)?;
            draft.edge(hub, None, to);
        } else {
            for _ in min..max {
                let next = draft.state();
                draft.edge(at, None, to);
                self.draft(draft, x, at, next)?;
                at = next;
            }
            draft.edge(at, None, to);
        }
        Ok(())
    }

    fn counter(&mut self, x: ExprId, min: u32, max: u32) -> (MachineId, RuleId) {
        if let Some(&known) = self.counters.get(&(x, min, max)) {
            return known;
        }
        let body = self.b.rule("a repeated part");
        self.b.define(body, x);
        self.nullable.push(self.nullable_expr(x));
        self.visiting.push(2);
        self.rule_regex.push(None);
        let machine = self.b.add_machine(Arc::new(Counter { body, min, max }));
        self.counters.insert((x, min, max), (machine, body));
        self.counter_bodies.insert(machine, (body, min));
        (machine, body)
    }

    fn build(&mut self, root: RuleId) -> std::result::Result<Network, Built> {
        // Counters add rules while automata are drafted, so the count is read anew each time.
        let mut automata: Vec<Automaton> = Vec::new();
        while automata.len() < self.b.rules.len() {
            let rule = automata.len();
            let body = self.b.rules[rule].body.expect("checked by the builder");
            let mut draft = Draft::default();
            let (start, end) = (draft.state(), draft.state());
            self.draft(&mut draft, body, start, end)?;
            automata.push(draft.finish(start, end, &mut self.b.budget)?);
        }
        self.b.regex.check()?;
        self.remove_left_recursion(&mut automata)?;
        Ok(self.assemble(&automata, root)?)
    }

    /// Rules that a rule's start state calls, through counters too (then the flag is set).
    fn corners(&self, automaton: &Automaton) -> Vec<(u32, bool)> {
        let mut out = Vec::new();
        for (symbol, _) in &automaton.edges[0] {
            match symbol {
                Symbol::Rule(r) => out.push((*r, false)),
                Symbol::Machine(m, ..) => {
                    if let Some((body, _)) = self.counter_bodies.get(m) {
                        out.push((body.0, true));
                    }
                }
                _ => {}
            }
        }
        out
    }

    fn remove_left_recursion(
        &mut self,
        automata: &mut [Automaton],
    ) -> std::result::Result<(), Built> {
        let graph: Vec<Vec<(u32, bool)>> = automata.iter().map(|a| self.corners(a)).collect();
        let component = strong_components(&graph);
        let mut members: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (rule, &c) in component.iter().enumerate() {
            members.entry(c).or_default().push(rule as u32);
        }
        let mut groups: Vec<Vec<u32>> = members.into_values().collect();
        groups.sort();
        for group in groups {
            let inside = |r: u32| group.binary_search(&r).is_ok();
            let mut recursive = false;
            for &rule in &group {
                for &(to, counted) in &graph[rule as usize] {
                    if inside(to) {
                        recursive = true;
                        if counted {
                            return Err(Built::LeftRecursiveCounter);
                        }
                    }
                }
            }
            if !recursive {
                continue;
            }
            let old: Vec<Automaton> = group
                .iter()
                .map(|&r| automata[r as usize].clone())
                .collect();
            let total: usize = old.iter().map(|a| a.accept.len()).sum();
            let needed = (total * group.len()) as u64;
            if needed > self.b.limits_rules() {
                return Err(Built::Failed(GrammarError::limit(
                    LimitKind::Rules,
                    "rules that are left-recursive through each other",
                    self.b.limits_rules(),
                    needed,
                )));
            }
            for (k, &rule) in group.iter().enumerate() {
                automata[rule as usize] = solve(&group, &old, k, &mut self.b.budget)?;
            }
        }
        Ok(())
    }

    // ------------------------------------------------------------ assembly

    fn assemble(&mut self, automata: &[Automaton], root: RuleId) -> Result<Network> {
        // Number the states of all rules one after the other.
        let mut base = Vec::with_capacity(automata.len());
        let mut total = 0u32;
        for a in automata {
            base.push(total);
            total += a.accept.len() as u32;
        }
        if total as u64 > self.b.limits_rules() {
            return Err(GrammarError::limit(
                LimitKind::Rules,
                "grammar",
                self.b.limits_rules(),
                total as u64,
            ));
        }
        let costs = self.costs(automata, &base, total as usize);
        // A rule that is one call and nothing else is an alias of what it calls.
        let mut starts = Vec::with_capacity(automata.len());
        for (rule, a) in automata.iter().enumerate() {
            starts.push(if costs[base[rule] as usize] == u64::MAX {
                Start::Dead
            } else {
                match a.edges[0].as_slice() {
                    [(Symbol::Regex(n), to)]
                        if a.accept[*to as usize] && a.edges[*to as usize].is_empty() =>
                    {
                        Start::Regex(*n)
                    }
                    [(Symbol::Machine(m, p, _), to)]
                        if a.accept[*to as usize] && a.edges[*to as usize].is_empty() =>
                    {
                        Start::Machine(*m, p.clone())
                    }
                    _ => Start::Network(base[rule]),
                }
            });
        }
        let mut states = Vec::with_capacity(total as usize);
        for (rule, a) in automata.iter().enumerate() {
            for (i, edges) in a.edges.iter().enumerate() {
                let mut state = NetState {
                    accept: a.accept[i],
                    ..NetState::default()
                };
                let mut best = u64::MAX;
                let mut best_special = None;
                for (symbol, to) in edges {
                    let next = base[rule] + to;
                    if costs[next as usize] == u64::MAX {
                        continue;
                    }
                    let (other, factor, fixed) = self.edge_cost(symbol, &base);
                    let other = other.map_or(0, |o| costs[o as usize]);
                    let cost = costs[next as usize]
                        .saturating_add(other.saturating_mul(factor))
                        .saturating_add(fixed);
                    let better = cost < best;
                    let start = match symbol {
                        Symbol::Special(token) => {
                            if better {
                                best = cost;
                                best_special = Some(state.specials.len() as u32);
                            }
                            state.specials.push((*token, next));
                            continue;
                        }
                        Symbol::Rule(r) => starts[*r as usize].clone(),
                        Symbol::Regex(n) => Start::Regex(*n),
                        Symbol::Machine(m, p, _) => {
                            let dead_body = self
                                .counter_bodies
                                .get(m)
                                .is_some_and(|(body, _)| starts[body.0 as usize] == Start::Dead);
                            if dead_body {
                                continue;
                            }
                            Start::Machine(*m, p.clone())
                        }
                    };
                    if start != Start::Dead {
                        if better {
                            best = cost;
                            best_special = None;
                            state.best = state.calls.len() as u32;
                        }
                        state.calls.push((start, next));
                    }
                }
                if let Some(i) = best_special {
                    state.best = state.calls.len() as u32 + i;
                }
                states.push(state);
            }
        }
        let root_start = starts[root.0 as usize].clone();
        let root_nullable = self.nullable[root.0 as usize];
        if root_start == Start::Dead && !root_nullable {
            return Err(GrammarError::invalid("the grammar matches no text at all"));
        }
        Ok(Network {
            states,
            rules: starts,
            root: root_start,
            root_nullable,
        })
    }

    /// What an edge costs: the start of a rule (whose cost counts so many times) and a fixed part.
    fn edge_cost(&self, symbol: &Symbol, base: &[u32]) -> (Option<u32>, u64, u64) {
        match symbol {
            Symbol::Special(_) => (None, 1, 1),
            Symbol::Regex(n) => (None, 1, self.b.regex.rough_length(*n).max(1)),
            Symbol::Rule(r) => (Some(base[*r as usize]), 1, 1),
            Symbol::Machine(m, _, c) => match self.counter_bodies.get(m) {
                Some((body, min)) => (Some(base[body.0 as usize]), u64::from(*min).max(1), 1),
                None => (None, 1, (*c).max(1)),
            },
        }
    }

    /// Shortest way from each state to the end of its rule, by Knuth's algorithm.
    fn costs(&mut self, automata: &[Automaton], base: &[u32], total: usize) -> Vec<u64> {
        let mut cost = vec![u64::MAX; total];
        let mut heap = BinaryHeap::new();
        // For each state: edges (user state, other state needed or none, fixed part).
        let mut users: Vec<Vec<(u32, Option<u32>, u64, u64)>> = vec![Vec::new(); total];
        for (rule, a) in automata.iter().enumerate() {
            for (i, edges) in a.edges.iter().enumerate() {
                let from = base[rule] + i as u32;
                if a.accept[i] {
                    heap.push(Reverse((0u64, from)));
                }
                for (symbol, to) in edges {
                    let next = base[rule] + to;
                    let (other, factor, fixed) = match symbol {
                        Symbol::Special(_) => (None, 1, 1),
                        Symbol::Regex(n) => (None, 1, self.b.regex.rough_length(*n).max(1)),
                        Symbol::Rule(r) => (Some(base[*r as usize]), 1, 1),
                        Symbol::Machine(m, _, c) => match self.counter_bodies.get(m) {
                            Some((body, min)) => {
                                (Some(base[body.0 as usize]), (*min as u64).max(1), 1)
                            }
                            None => (None, 1, (*c).max(1)),
                        },
                    };
                    users[next as usize].push((from, other, factor, fixed));
                    if let Some(start) = other {
                        users[start as usize].push((from, Some(next | 1 << 31), factor, fixed));
                    }
                }
            }
        }
        let mut settled = vec![false; total];
        while let Some(Reverse((c, state))) = heap.pop() {
            if settled[state as usize] {
                continue;
            }
            settled[state as usize] = true;
            cost[state as usize] = c;
            for &(from, other, factor, fixed) in &users[state as usize] {
                // The callee's cost counts `factor` times; which side was settled now depends on the flag.
                let sum = match other {
                    None => c.saturating_add(fixed),
                    Some(o) if o >> 31 == 0 => {
                        if !settled[o as usize] {
                            continue;
                        }
                        c.saturating_add(cost[o as usize].saturating_mul(factor))
                            .saturating_add(fixed)
                    }
                    Some(o) => {
                        let next = o & !(1 << 31);
                        if !settled[next as usize] {
                            continue;
                        }
                        cost[next as usize]
                            .saturating_add(c.saturating_mul(factor))
                            .saturating_add(fixed)
                    }
                };
                if !settled[from as usize] && sum < u64::MAX {
                    heap.push(Reverse((sum, from)));
                }
            }
        }
        cost
    }
}

/// The automaton of group member `k` without left recursion (see the module's text, point 3).
fn solve(group: &[u32], old: &[Automaton], k: usize, budget: &mut Budget) -> Result<Automaton> {
    let mut draft = Draft::default();
    let start = draft.state();
    let end = draft.state();
    let done: Vec<u32> = group.iter().map(|_| draft.state()).collect();
    let copies: Vec<Vec<u32>> = old
        .iter()
        .map(|a| a.accept.iter().map(|_| draft.state()).collect())
        .collect();
    for (z, a) in old.iter().enumerate() {
        for (i, edges) in a.edges.iter().enumerate() {
            for (symbol, to) in edges {
                let target = copies[z][*to as usize];
                if i > 0 {
                    draft.edge(copies[z][i], Some(symbol.clone()), target);
                    continue;
                }
                match symbol {
                    Symbol::Rule(r) => match group.binary_search(r) {
                        Ok(y) => draft.edge(done[y], None, target),
                        Err(_) => draft.edge(start, Some(symbol.clone()), target),
                    },
                    _ => draft.edge(start, Some(symbol.clone()), target),
                }
            }
            if a.accept[i] {
                draft.edge(copies[z][i], None, done[z]);
            }
        }
    }
    draft.edge(done[k], None, end);
    draft.finish(start, end, budget)
}

/// Tarjan's strongly connected components, without recursion; gives each node its component's number.
fn strong_components(graph: &[Vec<(u32, bool)>]) -> Vec<u32> {
    let n = graph.len();
    let (mut index, mut low) = (vec![u32::MAX; n], vec![0u32; n]);
    let mut component = vec![u32::MAX; n];
    let (mut stack, mut counter, mut components) = (Vec::new(), 0u32, 0u32);
    for root in 0..n {
        if index[root] != u32::MAX {
            continue;
        }
        let mut work = vec![(root, 0usize)];
        while let Some(&mut (v, ref mut i)) = work.last_mut() {
            if *i == 0 {
                index[v] = counter;
                low[v] = counter;
                counter += 1;
                stack.push(v);
            }
            if let Some(&(w, _)) = graph[v].get(*i) {
                *i += 1;
                let w = w as usize;
                if index[w] == u32::MAX {
                    work.push((w, 0));
                } else if component[w] == u32::MAX {
                    low[v] = low[v].min(index[w]);
                }
                continue;
            }
            work.pop();
            if let Some(&(parent, _)) = work.last() {
                low[parent] = low[parent].min(low[v]);
            }
            if low[v] == index[v] {
                while let Some(w) = stack.pop() {
                    component[w] = components;
                    if w == v {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}

impl Network {
    /// Join the network with the rest of the builder.
    pub(crate) fn finish(self, b: GrammarBuilder) -> Result<Grammar> {
        let mut sets: Vec<_> = b.regex.byte_sets().copied().collect();
        for machine in &b.machines {
            sets.extend(machine.byte_sets());
        }
        sets.sort_unstable();
        sets.dedup();
        let classes = ByteClasses::from_sets(&sets);
        b.budget.check_time("grammar")?;
        Ok(Grammar {
            regex: b.regex,
            network: self,
            machines: b.machines.into(),
            classes,
            limits: b.budget.limits,
        })
    }
}

impl GrammarBuilder {
    fn limits_rules(&self) -> u64 {
        self.budget.limits.rules
    }
}
