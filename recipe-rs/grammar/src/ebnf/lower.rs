//! A [`Tree`] into the rules of a [`GrammarBuilder`].

use std::sync::Arc;

use super::any_order::{AnyOrder, AnyOrderMachine};
use super::tree::{JsonForm, Node, NodeIx, RuleIx, Tree, UNBOUNDED};
use crate::bytes::ByteSet;
use crate::error::{GrammarError, Result};
use crate::ir::{ExprId, GrammarBuilder, RuleId};
use crate::regex::{self, CharSet, Encoding, Lowering, NodeId, Syntax, INFINITE};

/// Turns the text of an embedded JSON Schema into an expression of the builder; `None` when it matches
/// nothing and the form allows that.
pub type EmbedJson<'a> =
    dyn FnMut(&mut GrammarBuilder, &str, JsonForm) -> Result<Option<ExprId>> + 'a;

/// Deepest chain of rules that a difference or a lazy pattern may go through.
const REGULAR_DEPTH: u32 = 200;

/// Lower all rules; gives the expression of the root rule.
///
/// # Errors
/// `Syntax` for patterns that are malformed or not regular (the span is the node's, in `text`), what
/// `embed` returns, `Limit` and `Cancelled` from the budget.
pub(crate) fn lower(
    b: &mut GrammarBuilder,
    tree: &Tree,
    root: RuleIx,
    text: &str,
    embed: &mut EmbedJson<'_>,
) -> Result<ExprId> {
    let rules: Vec<RuleId> = tree.rules.iter().map(|r| b.rule(r.name.clone())).collect();
    let mut lowering = Lowering::new(Encoding::Utf8);
    let mut exprs: Vec<ExprId> = Vec::with_capacity(tree.nodes.len());
    // Nodes that match nothing because a schema does not; rules are taken to match something.
    let mut dead: Vec<bool> = Vec::with_capacity(tree.nodes.len());
    for (i, node) in tree.nodes.iter().enumerate() {
        b.budget().tick("rules of the grammar")?;
        let pick =
            |ids: &[NodeIx]| -> Vec<ExprId> { ids.iter().map(|&x| exprs[x as usize]).collect() };
        let mut is_dead = match node {
            Node::Seq(parts) => parts.iter().any(|&x| dead[x as usize]),
            Node::Alt(parts) => !parts.is_empty() && parts.iter().all(|&x| dead[x as usize]),
            Node::Repeat(x, min, _) => *min > 0 && dead[*x as usize],
            _ => false,
        };
        let expr = match node {
            Node::Seq(parts) => b.seq(&pick(parts)),
            Node::Alt(parts) => b.alt(&pick(parts)),
            Node::Repeat(x, min, max) => b.repeat(exprs[*x as usize], *min, bound(*max)),
            Node::Rule(r) => b.rule_ref(rules[*r as usize]),
            Node::Special(id) => b.special(*id),
            Node::AnyOrder {
                items,
                rule,
                context,
            } => {
                let mut alive: Vec<bool> = items.iter().map(|&x| !dead[x as usize]).collect();
                let made =
                    any_order(b, &pick(items), &mut alive, rule).map_err(|e| within(context, e))?;
                is_dead = made.is_none();
                made.unwrap_or_else(|| b.never())
            }
            Node::Json {
                schema,
                form,
                context,
            } => {
                let made = embed(b, schema, *form).map_err(|e| within(context, e))?;
                is_dead = made.is_none();
                made.unwrap_or_else(|| b.never())
            }
            _ => {
                let node = Regular {
                    b,
                    tree,
                    text,
                    lowering: &mut lowering,
                    root: i as NodeIx,
                }
                .node(i as NodeIx, 0)?;
                b.regex(node)
            }
        };
        exprs.push(expr);
        dead.push(is_dead);
    }
    for (rule, id) in tree.rules.iter().zip(&rules) {
        if let Some(body) = rule.body {
            b.define(*id, exprs[body as usize]);
        }
    }
    Ok(b.rule_ref(rules[root as usize]))
}

/// An error with the spot's name in front of its message.
fn within(context: &str, mut error: GrammarError) -> GrammarError {
    if !context.is_empty() {
        match &mut error {
            GrammarError::Schema { message, .. } | GrammarError::Invalid { message } => {
                *message = format!("{context}: {message}");
            }
            GrammarError::Limit { what, .. } => *what = format!("{context}: {what}"),
            _ => {}
        }
    }
    error
}

/// The items as one expression; `None` when no set of items that are alive will do.
fn any_order(
    b: &mut GrammarBuilder,
    items: &[ExprId],
    alive: &mut [bool],
    rule: &AnyOrder,
) -> Result<Option<ExprId>> {
    let named = rule
        .dependent
        .iter()
        .flat_map(|(i, others)| others.iter().chain([i]));
    if !rule
        .required
        .iter()
        .chain(named)
        .all(|i| (*i as usize) < items.len())
    {
        return Err(GrammarError::invalid(
            "an item in any order is named that does not exist",
        ));
    }
    let Some(rule) = rule.restricted(alive) else {
        return Err(GrammarError::invalid(
            "something that is required can have no value",
        ));
    };
    let items: Vec<ExprId> = items
        .iter()
        .zip(alive)
        .filter(|(_, a)| **a)
        .map(|(x, _)| *x)
        .collect();
    let rules: Vec<RuleId> = (0..items.len())
        .map(|i| b.rule(format!("item {i}")))
        .collect();
    for (id, body) in rules.iter().zip(&items) {
        b.define(*id, *body);
    }
    let machine = AnyOrderMachine { items: rules, rule };
    if !machine.is_satisfiable() {
        return Ok(None);
    }
    let start = AnyOrderMachine::start(items.len());
    let id = b.add_machine(Arc::new(machine));
    // An overestimate: completions take the way without items where there is one.
    let cost = 1_000 * (1 + items.len() as u64);
    Ok(Some(b.machine(id, &start, cost)))
}

fn bound(max: u32) -> u32 {
    if max == UNBOUNDED {
        INFINITE
    } else {
        max
    }
}

/// Nodes as one regular expression.
struct Regular<'a> {
    b: &'a mut GrammarBuilder,
    tree: &'a Tree,
    text: &'a str,
    lowering: &'a mut Lowering,
    /// The node that has to be regular.
    root: NodeIx,
}

impl Regular<'_> {
    fn fail<T>(&self, message: &str) -> Result<T> {
        Err(GrammarError::syntax(
            message,
            self.tree.spans[self.root as usize].clone(),
            self.text,
        ))
    }

    fn node(&mut self, at: NodeIx, depth: u32) -> Result<NodeId> {
        if depth > REGULAR_DEPTH {
            return self.fail("the operands of a difference must be regular: not recursive, and not nested this deep");
        }
        let node = match &self.tree.nodes[at as usize] {
            Node::Literal(text) => self.b.regex_mut().literal(text.as_bytes()),
            Node::Class { negated, ranges } => {
                let set = CharSet::new(ranges.iter().map(|&(a, z)| (u32::from(a), u32::from(z))));
                let set = if *negated { set.complement() } else { set };
                self.lowering.class(self.b.regex_mut(), &set)
            }
            Node::Pattern { pattern, flags } => return self.pattern(pattern, flags, at),
            Node::Seq(parts) => {
                let nodes = parts
                    .iter()
                    .map(|&p| self.node(p, depth + 1))
                    .collect::<Result<Vec<_>>>()?;
                self.b.regex_mut().concat(&nodes)
            }
            Node::Alt(parts) => {
                let nodes = parts
                    .iter()
                    .map(|&p| self.node(p, depth + 1))
                    .collect::<Result<Vec<_>>>()?;
                self.b.regex_mut().alt(&nodes)
            }
            Node::Repeat(x, min, max) => {
                let node = self.node(*x, depth + 1)?;
                self.b.regex_mut().repeat(node, *min, bound(*max))
            }
            Node::Rule(r) => {
                let rule = &self.tree.rules[*r as usize];
                let Some(body) = rule.body else {
                    return self.fail(&format!("rule {} is not defined", rule.name));
                };
                return self.node(body, depth + 1);
            }
            Node::Minus(a, z) => {
                let (a, z) = (self.node(*a, depth + 1)?, self.node(*z, depth + 1)?);
                self.b.regex_mut().minus(a, z)
            }
            Node::Shortest(x) => {
                let node = self.node(*x, depth + 1)?;
                let arena = self.b.regex_mut();
                let any = arena.set(ByteSet::ALL);
                let more = arena.repeat(any, 1, INFINITE);
                let longer = arena.cat(node, more);
                arena.minus(node, longer)
            }
            Node::Json { .. } => {
                return self.fail("a schema is not regular: it cannot be part of a difference")
            }
            Node::Special(_) | Node::AnyOrder { .. } => {
                return self
                    .fail("a special token is not regular: it cannot be part of a difference")
            }
        };
        self.b.regex_arena().check()?;
        Ok(node)
    }

    fn pattern(&mut self, pattern: &str, flags: &str, at: NodeIx) -> Result<NodeId> {
        let mut syntax = Syntax::default();
        for flag in flags.chars() {
            match flag {
                'i' => syntax.ignore_case = true,
                's' => syntax.dot_all = true,
                'm' => syntax.multi_line = true,
                'x' => syntax.verbose = true,
                'u' => {}
                _ => {
                    return self.fail(&format!(
                        "unknown pattern flag {flag:?}: i, m, s, u and x are known"
                    ))
                }
            }
        }
        let lowered = regex::parse(pattern, syntax)
            .and_then(|hir| self.lowering.whole(self.b.regex_mut(), &hir));
        lowered.map_err(|e| self.place(e, pattern, at))
    }

    /// A pattern's error, with the caret in the grammar where the pattern stands there as written.
    fn place(&self, error: GrammarError, pattern: &str, at: NodeIx) -> GrammarError {
        let GrammarError::Syntax { message, span, .. } = error else {
            return error;
        };
        let start = self.tree.spans[at as usize].start;
        if self
            .text
            .get(start..)
            .is_some_and(|t| t.strip_prefix('/').is_some_and(|t| t.starts_with(pattern)))
        {
            return GrammarError::syntax(
                message,
                span.start + start + 1..span.end + start + 1,
                self.text,
            );
        }
        GrammarError::syntax(message, span, pattern)
    }
}
