//! Regular expressions: the arena of byte-level nodes, and the pattern syntax above it.

mod arena;
mod charset;
mod hir;
mod lower;
mod parse;

pub use arena::{Arena, Node, NodeId, ANY, EMPTY, INFINITE, NEVER};
pub use charset::CharSet;
pub use hir::{Assertion, Hir};
pub(crate) use lower::prepared;
pub use lower::{text_universe, Encoding, Lowering};
pub use parse::{parse, Syntax};

use crate::engine::Grammar;
use crate::error::{GrammarError, LimitKind, Result};
use crate::ir::GrammarBuilder;
use crate::limits::Budget;
use crate::stack::roomy;

/// Parse a pattern and lower it: the whole text, or (`search`) somewhere in the text.
///
/// # Errors
/// `Syntax` with the span in `pattern`, and the arena's limits.
pub fn pattern(
    arena: &mut Arena,
    lowering: &mut Lowering,
    pattern: &str,
    syntax: Syntax,
    search: bool,
) -> Result<NodeId> {
    let hir = parse(pattern, syntax)?;
    let node = if search {
        lowering.search(arena, &hir)
    } else {
        lowering.whole(arena, &hir)
    };
    node.map_err(|e| e.in_text(pattern))
}

/// Compile a pattern to a grammar: against the whole text, or somewhere in it.
///
/// # Errors
/// `Syntax` with the span of the spot (patterns that match no text included), `Limit`, `Cancelled`.
pub fn compile(text: &str, syntax: Syntax, search: bool, budget: Budget) -> Result<Grammar> {
    let most = budget.limits.source_bytes;
    if text.len() as u64 > most {
        return Err(GrammarError::limit(
            LimitKind::SourceBytes,
            "pattern",
            most,
            text.len() as u64,
        ));
    }
    roomy(|| {
        let mut b = GrammarBuilder::new(budget);
        let mut lowering = Lowering::new(Encoding::Utf8);
        let node = pattern(b.regex_mut(), &mut lowering, text, syntax, search)?;
        if !b.regex_mut().is_live(node) {
            b.regex_mut().check()?;
            return Err(GrammarError::syntax(
                "the pattern matches no text at all",
                0..text.len(),
                text,
            ));
        }
        let root = b.regex(node);
        b.finish(root)
    })
}
