//! Rules that cannot be meant: ones the start rule never reaches, and ones that match no finite text.

use std::ops::Range;

use super::tree::{Node, RuleIx, Tree};

/// What is odd about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// No way leads from the start rule to it.
    Unreachable,
    /// It matches no finite text, such as `a ::= "x" a`; alternatives that need it are dead.
    NonProductive,
}

impl FindingKind {
    /// The name used in the Python API.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Unreachable => "unreachable",
            FindingKind::NonProductive => "non-productive",
        }
    }
}

/// One remark about a grammar that compiles all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is odd.
    pub kind: FindingKind,
    /// The rule's name.
    pub rule: String,
    /// Byte range of its name in the source.
    pub span: Range<usize>,
}

/// All findings, in the order of the rules' definitions.
pub(crate) fn findings(tree: &Tree, root: RuleIx) -> Vec<Finding> {
    let (reached, productive) = (reachable(tree, root), productive(tree));
    let mut out: Vec<Finding> = Vec::new();
    for (i, rule) in tree.rules.iter().enumerate() {
        let mut add = |kind| {
            out.push(Finding {
                kind,
                rule: rule.name.clone(),
                span: rule.span.clone(),
            })
        };
        if !reached[i] {
            add(FindingKind::Unreachable);
        }
        if !productive[i] {
            add(FindingKind::NonProductive);
        }
    }
    out.sort_by_key(|f| f.span.start);
    out
}

fn reachable(tree: &Tree, root: RuleIx) -> Vec<bool> {
    let mut reached = vec![false; tree.rules.len()];
    let (callees, mut work) = (tree.callees(), vec![root]);
    while let Some(rule) = work.pop() {
        if !std::mem::replace(&mut reached[rule as usize], true) {
            work.extend(&callees[rule as usize]);
        }
    }
    reached
}

/// Least fixpoint by counting what each node still waits for: linear in the size of the grammar.
pub(crate) fn productive(tree: &Tree) -> Vec<bool> {
    let count = tree.nodes.len();
    let mut parents: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); tree.rules.len()];
    let mut owners: Vec<Vec<RuleIx>> = vec![Vec::new(); count];
    let mut waiting: Vec<usize> = vec![0; count];
    let mut work: Vec<u32> = Vec::new();
    for (i, rule) in tree.rules.iter().enumerate() {
        if let Some(body) = rule.body {
            owners[body as usize].push(i as RuleIx);
        }
    }
    for (i, node) in tree.nodes.iter().enumerate() {
        node.children()
            .for_each(|c| parents[c as usize].push(i as u32));
        waiting[i] = match node {
            Node::Seq(parts) | Node::AnyOrder { items: parts, .. } => parts.len(),
            Node::Repeat(_, 0, _) => 0,
            Node::Alt(_) | Node::Repeat(..) | Node::Minus(..) | Node::Shortest(_) => 1,
            Node::Rule(r) => {
                users[*r as usize].push(i as u32);
                1
            }
            _ => 0,
        };
        if waiting[i] == 0 {
            work.push(i as u32);
        }
    }
    let mut done = vec![false; count];
    let mut productive = vec![false; tree.rules.len()];
    while let Some(node) = work.pop() {
        if std::mem::replace(&mut done[node as usize], true) {
            continue;
        }
        let mut wake = parents[node as usize].clone();
        for &rule in &owners[node as usize] {
            productive[rule as usize] = true;
            wake.extend(&users[rule as usize]);
        }
        for parent in wake {
            let left = &mut waiting[parent as usize];
            *left = left.saturating_sub(1);
            if *left == 0 {
                work.push(parent);
            }
        }
    }
    productive
}
