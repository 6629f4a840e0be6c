//! EBNF: grammar text in the GBNF dialect, or a tree of rules from another front end, to a grammar.
//!
//! * `tree` holds a grammar as written;
//! * `any_order` is the machine behind items that come in any order (parameters of tool calls);
//! * `gbnf` reads text (llama.cpp's, XGrammar's and W3C's notation) into a tree; the Lark front end and
//!   that for assistant turns (both in Python) build trees node by node;
//! * `check` finds rules that cannot be meant;
//! * `lower` gives the tree's rules to a [`GrammarBuilder`], which copes with any context-free grammar.

mod any_order;
mod check;
mod gbnf;
mod gbnf_chars;
mod json;
mod lower;
#[cfg(test)]
mod tests;
mod tree;

use crate::engine::Grammar;
use crate::error::{GrammarError, Result};
use crate::ir::GrammarBuilder;
use crate::limits::Budget;
use crate::stack::roomy;

pub use any_order::AnyOrder;
pub use check::{Finding, FindingKind};
pub use json::embed_json;
pub use lower::EmbedJson;
pub use tree::{JsonForm, Node, NodeIx, RuleIx, Tree, UNBOUNDED};

/// A grammar that compiled, and remarks about it.
#[derive(Debug)]
pub struct Compiled {
    /// The grammar.
    pub grammar: Grammar,
    /// Unreachable and non-productive rules.
    pub findings: Vec<Finding>,
}

/// Compile a grammar in the GBNF dialect. `start` names the root rule; `specials` maps the spelling of a
/// special token to its id (for `<text>`); `embed` compiles the schemas of `%json`.
///
/// # Errors
/// `Syntax` with the spot: malformed text, an undefined rule, a start rule that matches nothing. What
/// `embed` returns. `Limit` and `Cancelled` from the budget.
pub fn compile_gbnf(
    text: &str,
    start: &str,
    specials: &dyn Fn(&str) -> Option<u32>,
    embed: &mut EmbedJson<'_>,
    mut budget: Budget,
) -> Result<Compiled> {
    roomy(|| {
        let tree = gbnf::parse(text, specials, &mut budget)?;
        compile_tree(&tree, start, text, embed, budget)
    })
}

/// Compile a tree. Spans of its nodes are into `text`, the source as the user wrote it.
///
/// # Errors
/// As [`compile_gbnf`].
pub fn compile_tree(
    tree: &Tree,
    start: &str,
    text: &str,
    embed: &mut EmbedJson<'_>,
    budget: Budget,
) -> Result<Compiled> {
    roomy(|| compile_rules(tree, start, text, embed, budget))
}

fn compile_rules(
    tree: &Tree,
    start: &str,
    text: &str,
    embed: &mut EmbedJson<'_>,
    budget: Budget,
) -> Result<Compiled> {
    let Some(root) = tree.rules.iter().position(|r| r.name == start) else {
        let message = format!("the grammar has no rule {start:?} to start from");
        let first = tree.rules.first().map_or(0..0, |r| r.span.clone());
        return Err(GrammarError::syntax(message, first, text));
    };
    if let Some(rule) = tree.rules.iter().find(|r| r.body.is_none()) {
        return Err(GrammarError::syntax(
            format!("rule {} is not defined", rule.name),
            rule.span.clone(),
            text,
        ));
    }
    let findings = check::findings(tree, root as u32);
    let rule = &tree.rules[root];
    if !check::productive(tree)[root] {
        let message = format!("rule {start} matches no finite text");
        return Err(GrammarError::syntax(message, rule.span.clone(), text));
    }
    let mut builder = GrammarBuilder::new(budget);
    let root = lower::lower(&mut builder, tree, root as u32, text, embed)?;
    match builder.finish(root) {
        Ok(grammar) => Ok(Compiled { grammar, findings }),
        // Productive by its rules, but some pattern or difference in the way matches nothing.
        Err(GrammarError::Invalid { message }) => {
            Err(GrammarError::syntax(message, rule.span.clone(), text))
        }
        Err(e) => Err(e),
    }
}
