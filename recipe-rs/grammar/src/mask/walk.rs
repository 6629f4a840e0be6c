//! Depth-first walk of a trie with a configuration: the tokens that survive, and where frames end.

use crate::engine::{ConfigId, Engine, DEAD};
use crate::error::Result;
use crate::vocab::Trie;

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Ids of surviving strings, unsorted.
    pub(crate) ids: Vec<u32>,
    /// Nodes (with their depth) at which the bottom frame may have ended.
    pub(crate) ends: Vec<(u32, u32)>,
}

/// Walk all strings of `trie` from `start`. Strings that pass `keep` (given their place in the trie's
/// order) and do not die are found.
pub(crate) fn walk(
    engine: &mut Engine,
    trie: &Trie,
    start: ConfigId,
    found: &mut Found,
    keep: impl Fn(u32) -> bool,
) -> Result<()> {
    let n = trie.len();
    if n < 2 || engine.live_bytes(start).is_empty() {
        return Ok(());
    }
    // Configurations along the path; `stack[d]` is the one before the byte at depth d + 1.
    let mut stack: Vec<(u32, ConfigId)> = Vec::with_capacity(32);
    stack.push((n as u32, start));
    let mut i = 1usize;
    loop {
        let (end, config) = stack[stack.len() - 1];
        if i >= end as usize {
            stack.pop();
            if stack.is_empty() {
                return Ok(());
            }
            continue;
        }
        let next = engine.step(config, trie.bytes[i])?;
        let below = trie.ends[i];
        if next == DEAD {
            i = below as usize;
            continue;
        }
        for at in trie.starts[i]..trie.starts[i + 1] {
            if keep(at) {
                found.ids.push(trie.order[at as usize]);
            }
        }
        if engine.has_escaped(next) {
            found.ends.push((i as u32, stack.len() as u32));
        }
        i += 1;
        if below as usize > i {
            if engine.live_bytes(next).is_empty() {
                i = below as usize;
            } else {
                stack.push((below, next));
            }
        }
    }
}
