//! A grammar as written, in any dialect: rules over literals, character classes, patterns and schemas.
//!
//! Nodes live in one list and children come before their parents, so most passes over a tree are a
//! loop. Front ends outside this crate (Lark, assistant turns) build trees through [`Tree::push`].

use std::ops::Range;

use super::any_order::AnyOrder;
use crate::error::{GrammarError, LimitKind, Result};
use crate::limits::Limits;

/// Index of a [`Node`] in its [`Tree`].
pub type NodeIx = u32;
/// Index of a [`TreeRule`] in its [`Tree`].
pub type RuleIx = u32;

/// No upper bound of a repetition.
pub const UNBOUNDED: u32 = u32::MAX;

/// How a value of an embedded schema is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// As JSON; a schema that nothing satisfies is an error.
    Value,
    /// As JSON; a schema that nothing satisfies matches nothing.
    ValueOrNothing,
    /// Strings only, their characters as they are: no quotes, no escapes. Matches nothing when the schema
    /// allows no string.
    RawString,
}

/// One node of a rule's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Exactly this text ("" matches the empty text).
    Literal(String),
    /// One character in (or, negated, outside) the ranges, both ends included.
    Class {
        /// Outside rather than in.
        negated: bool,
        /// First and last character of each range.
        ranges: Vec<(char, char)>,
    },
    /// A regular expression in the syntax of [`crate::regex`], matched in full.
    Pattern {
        /// The pattern.
        pattern: String,
        /// Letters of `i`, `m`, `s`, `u` and `x`.
        flags: String,
    },
    /// JSON that a schema accepts.
    Json {
        /// The schema as JSON text.
        schema: String,
        /// What is written.
        form: JsonForm,
        /// Put in front of the messages of the schema's errors.
        context: String,
    },
    /// A special token, by id.
    Special(u32),
    /// One after the other.
    Seq(Vec<NodeIx>),
    /// Any of them; nothing when there is none.
    Alt(Vec<NodeIx>),
    /// `min` to `max` times; [`UNBOUNDED`] for no upper bound.
    Repeat(NodeIx, u32, u32),
    /// Another rule.
    Rule(RuleIx),
    /// What the first matches and the second does not. Both must be regular.
    Minus(NodeIx, NodeIx),
    /// The matches that have no shorter match as a proper prefix (lazy terminals). Must be regular.
    Shortest(NodeIx),
    /// At least one of the items, in any order, none twice. Items must match something, and not "".
    AnyOrder {
        /// The items.
        items: Vec<NodeIx>,
        /// Which of them must come.
        rule: AnyOrder,
        /// Put in front of messages.
        context: String,
    },
}

impl Node {
    /// Children, in order.
    pub(crate) fn children(&self) -> impl Iterator<Item = NodeIx> + '_ {
        let (list, pair): (&[NodeIx], [Option<NodeIx>; 2]) = match self {
            Node::Seq(parts) | Node::Alt(parts) | Node::AnyOrder { items: parts, .. } => {
                (parts, [None, None])
            }
            Node::Repeat(x, ..) | Node::Shortest(x) => (&[], [Some(*x), None]),
            Node::Minus(a, b) => (&[], [Some(*a), Some(*b)]),
            _ => (&[], [None, None]),
        };
        list.iter().copied().chain(pair.into_iter().flatten())
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct TreeRule {
    pub(crate) name: String,
    /// Where the name stands in the source, for messages.
    pub(crate) span: Range<usize>,
    pub(crate) body: Option<NodeIx>,
}

/// A whole grammar.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// Source range of each node.
    pub(crate) spans: Vec<Range<usize>>,
    pub(crate) rules: Vec<TreeRule>,
}

impl Tree {
    /// Add a node after its children; `span` is its place in the source text.
    ///
    /// # Errors
    /// `Invalid` when a child or rule does not exist; `Limit` of `rules`.
    pub fn push(&mut self, node: Node, span: Range<usize>) -> Result<NodeIx> {
        if !node.children().all(|c| (c as usize) < self.nodes.len()) {
            return Err(GrammarError::invalid("a node is used before it is made"));
        }
        if matches!(node, Node::Rule(r) if r as usize >= self.rules.len()) {
            return Err(GrammarError::invalid(
                "a rule is used before it is declared",
            ));
        }
        let (most, needed) = (Limits::default().rules, self.nodes.len() as u64 + 1);
        if needed > most {
            return Err(GrammarError::limit(
                LimitKind::Rules,
                "grammar",
                most,
                needed,
            ));
        }
        self.nodes.push(node);
        self.spans.push(span);
        Ok(self.nodes.len() as NodeIx - 1)
    }

    /// A new rule without a body yet; `span` is the place of its name.
    pub fn declare(&mut self, name: impl Into<String>, span: Range<usize>) -> RuleIx {
        self.rules.push(TreeRule {
            name: name.into(),
            span,
            body: None,
        });
        self.rules.len() as RuleIx - 1
    }

    /// Give a rule its body.
    ///
    /// # Errors
    /// `Invalid` when there is no such rule or node, or the rule has a body.
    pub fn define(&mut self, rule: RuleIx, body: NodeIx) -> Result<()> {
        let known = (body as usize) < self.nodes.len();
        match self.rules.get_mut(rule as usize) {
            Some(rule) if known && rule.body.is_none() => rule.body = Some(body),
            _ => {
                return Err(GrammarError::invalid(
                    "no such rule or node, or the rule is defined twice",
                ))
            }
        }
        Ok(())
    }

    /// The rules that each rule's body names.
    pub(crate) fn callees(&self) -> Vec<Vec<RuleIx>> {
        let mut seen = vec![RuleIx::MAX; self.nodes.len()];
        let mut all = Vec::with_capacity(self.rules.len());
        for (i, rule) in self.rules.iter().enumerate() {
            let mut found = Vec::new();
            let mut work: Vec<NodeIx> = rule.body.into_iter().collect();
            while let Some(at) = work.pop() {
                if std::mem::replace(&mut seen[at as usize], i as RuleIx) == i as RuleIx {
                    continue;
                }
                match &self.nodes[at as usize] {
                    Node::Rule(r) => found.push(*r),
                    node => work.extend(node.children()),
                }
            }
            all.push(found);
        }
        all
    }
}
