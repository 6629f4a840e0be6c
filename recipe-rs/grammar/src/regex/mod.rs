//! Regular expressions: the arena of byte-level nodes, and the pattern syntax above it.

mod arena;
mod charset;
mod hir;
mod lower;
mod parse;

pub use arena::{Arena, Node, NodeId, ANY, EMPTY, INFINITE, NEVER};
pub use charset::CharSet;
pub use hir::{Assertion, Hir};
pub use lower::{text_universe, Encoding, Lowering};
pub use parse::{parse, Syntax};

use crate::error::Result;

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
