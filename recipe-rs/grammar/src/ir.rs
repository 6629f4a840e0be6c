//! What every front end produces: rules over regular expressions, special tokens and machines.
//!
//! ```
//! use offseek_grammar::{Budget, GrammarBuilder, Limits};
//! let mut b = GrammarBuilder::new(Budget::new(Limits::default(), None));
//! let digits = b.regex_mut().set(offseek_grammar::ByteSet::range(b'0', b'9'));
//! let number = b.regex_mut().repeat(digits, 1, 3);
//! let value = b.rule("value"); // may be used before it is defined, so rules can be recursive
//! let (open, close) = (b.literal(b"("), b.literal(b")"));
//! let nested = b.rule_ref(value);
//! let list = b.seq(&[open, nested, close]);
//! let number = b.regex(number);
//! let body = b.alt(&[number, list]);
//! b.define(value, body);
//! let root = b.rule_ref(value);
//! let grammar = b.finish(root).unwrap();
//! assert!(grammar.matches(b"((12))").unwrap() && !grammar.matches(b"((12)").unwrap());
//! ```
//!
//! Any context-free grammar will do: left recursion, ambiguity, nullable rules and nested quantifiers
//! are resolved in [`GrammarBuilder::finish`]; rules that match nothing are pruned (so are the
//! alternatives that need them), and a root that matches nothing is an error.

use std::sync::Arc;

use crate::engine::{compile_rules, Grammar};
use crate::error::{GrammarError, LimitKind, Result};
use crate::limits::Budget;
use crate::machine::{Machine, MachineId};
use crate::regex::{Arena, CharSet, Encoding, Lowering, NodeId, EMPTY, INFINITE, NEVER};

/// A rule (nonterminal) of the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RuleId(pub u32);

/// An expression; build them with the methods of [`GrammarBuilder`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExprId(pub u32);

/// One expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A regular expression ([`EMPTY`] for "", [`NEVER`] for nothing).
    Regex(NodeId),
    /// One after the other.
    Seq(Box<[ExprId]>),
    /// Any of them.
    Alt(Box<[ExprId]>),
    /// `min` to `max` times.
    Repeat(ExprId, u32, u32),
    /// A rule.
    Rule(RuleId),
    /// A token, matched by its id only.
    Special(u32),
    /// A machine from a start payload, and the length of a shortest match.
    Machine(MachineId, Box<[u32]>, u64),
}

pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) body: Option<ExprId>,
}

/// Builds one grammar.
pub struct GrammarBuilder {
    pub(crate) budget: Budget,
    pub(crate) regex: Arena,
    pub(crate) exprs: Vec<Expr>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) machines: Vec<Arc<dyn Machine>>,
}

impl GrammarBuilder {
    /// An empty grammar under a budget.
    pub fn new(budget: Budget) -> Self {
        let regex = crate::regex::prepared()
            .plain
            .clone()
            .with_limits(budget.limits.regex_nodes, budget.limits.emptiness_search);
        GrammarBuilder {
            budget,
            regex,
            exprs: Vec::new(),
            rules: Vec::new(),
            machines: Vec::new(),
        }
    }

    /// One character of a JSON string, in any spelling.
    pub(crate) fn json_char(&mut self) -> NodeId {
        let prepared = crate::regex::prepared();
        if self.regex.num_nodes() == prepared.plain.num_nodes() {
            // Nothing has been built yet: a copy is cheaper than building.
            let limits = &self.budget.limits;
            self.regex = prepared
                .json
                .clone()
                .with_limits(limits.regex_nodes, limits.emptiness_search);
            return prepared.json_char;
        }
        Lowering::new(Encoding::JsonString).class(&mut self.regex, &CharSet::all())
    }

    /// The limits and the clock.
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// The arena of regular expressions, to read.
    pub fn regex_arena(&self) -> &Arena {
        &self.regex
    }

    /// The arena of regular expressions, to build in.
    pub fn regex_mut(&mut self) -> &mut Arena {
        &mut self.regex
    }

    /// The expression behind an id.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }

    fn push(&mut self, expr: Expr) -> ExprId {
        self.exprs.push(expr);
        ExprId(self.exprs.len() as u32 - 1)
    }

    /// The empty string.
    pub fn empty(&mut self) -> ExprId {
        self.push(Expr::Regex(EMPTY))
    }

    /// Nothing at all.
    pub fn never(&mut self) -> ExprId {
        self.push(Expr::Regex(NEVER))
    }

    /// A regular expression.
    pub fn regex(&mut self, node: NodeId) -> ExprId {
        self.push(Expr::Regex(node))
    }

    /// Exactly these bytes.
    pub fn literal(&mut self, bytes: &[u8]) -> ExprId {
        let node = self.regex.literal(bytes);
        self.regex(node)
    }

    /// One after the other.
    pub fn seq(&mut self, parts: &[ExprId]) -> ExprId {
        match parts {
            [one] => *one,
            _ => self.push(Expr::Seq(parts.into())),
        }
    }

    /// Any of them; nothing when there is none.
    pub fn alt(&mut self, parts: &[ExprId]) -> ExprId {
        match parts {
            [one] => *one,
            _ => self.push(Expr::Alt(parts.into())),
        }
    }

    /// `min` to `max` times, [`INFINITE`] for no bound. Counted, not copied.
    pub fn repeat(&mut self, body: ExprId, min: u32, max: u32) -> ExprId {
        self.push(Expr::Repeat(body, min, max))
    }

    /// Any number of times.
    pub fn star(&mut self, body: ExprId) -> ExprId {
        self.repeat(body, 0, INFINITE)
    }

    /// Once or not at all.
    pub fn optional(&mut self, body: ExprId) -> ExprId {
        self.repeat(body, 0, 1)
    }

    /// A special token, matched by id; its spelling as ordinary text does not match.
    pub fn special(&mut self, token_id: u32) -> ExprId {
        self.push(Expr::Special(token_id))
    }

    /// A machine from a start payload. `cost` is the length in bytes of a short match, used to steer
    /// completions away from recursion; it must exceed that of whatever the machine has to call.
    pub fn machine(&mut self, machine: MachineId, start: &[u32], cost: u64) -> ExprId {
        self.push(Expr::Machine(machine, start.into(), cost))
    }

    /// A new rule, to be defined later. The name is for messages only.
    pub fn rule(&mut self, name: impl Into<String>) -> RuleId {
        self.rules.push(Rule {
            name: name.into(),
            body: None,
        });
        RuleId(self.rules.len() as u32 - 1)
    }

    /// A use of a rule.
    pub fn rule_ref(&mut self, rule: RuleId) -> ExprId {
        self.push(Expr::Rule(rule))
    }

    /// Give a rule its body.
    pub fn define(&mut self, rule: RuleId, body: ExprId) {
        self.rules[rule.0 as usize].body = Some(body);
    }

    /// Add a machine; it may call rules that are not defined yet. Rules that only machines call are
    /// kept as they are: the front end answers for their being productive.
    pub fn add_machine(&mut self, machine: Arc<dyn Machine>) -> MachineId {
        self.machines.push(machine);
        MachineId(self.machines.len() as u32 - 1)
    }

    /// The id that the next [`GrammarBuilder::add_machine`] will give, for machines that call themselves.
    pub fn next_machine_id(&self) -> MachineId {
        MachineId(self.machines.len() as u32)
    }

    /// Resolve everything into a grammar that matchers can run.
    ///
    /// # Errors
    /// `Invalid` when a rule is undefined or the root matches nothing; `Limit` and `Cancelled` from the
    /// budget.
    pub fn finish(mut self, root: ExprId) -> Result<Grammar> {
        self.regex.check()?;
        let needed = (self.exprs.len() + self.rules.len()) as u64;
        if needed > self.budget.limits.rules {
            return Err(GrammarError::limit(
                LimitKind::Rules,
                "grammar",
                self.budget.limits.rules,
                needed,
            ));
        }
        if let Some(rule) = self.rules.iter().find(|r| r.body.is_none()) {
            return Err(GrammarError::invalid(format!(
                "rule {} is used but not defined",
                rule.name
            )));
        }
        compile_rules(&mut self, root)?.finish(self)
    }
}
