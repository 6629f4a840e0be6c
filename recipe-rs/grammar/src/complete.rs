//! Ways to the end of a text: forced bytes and short completions.

use crate::engine::{ConfigId, Engine, DEAD};
use crate::error::{GrammarError, LimitKind, Result};
use crate::vocab::Vocabulary;

/// A stretch of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    Special(u32),
}

/// Most bytes of one completion.
const MAX_COMPLETION: usize = 4 << 20;

/// Bytes that must come next, while exactly one can and the text may not end.
pub(crate) fn forced_text(
    engine: &mut Engine,
    config: ConfigId,
    max_bytes: usize,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = config;
    while out.len() < max_bytes && !engine.is_accepting(at) {
        // Bytes of one class behave alike, so two live bytes of which one works are two ways.
        let mut only = None;
        for byte in engine.live_bytes(at).iter() {
            let next = engine.step(at, byte)?;
            if next == DEAD {
                continue;
            }
            if only.is_some() {
                return Ok(out);
            }
            only = Some((byte, next));
        }
        let Some((byte, next)) = only else { break };
        if engine.has_specials(at) {
            break;
        }
        out.push(byte);
        at = next;
    }
    Ok(out)
}

/// The tokens that the tokenizer itself would produce for forced text, after the tokens so far.
///
/// `encode` tokenises text canonically. Tokens at the end are held back from the first boundary at which
/// some longer token begins with all that is left: what follows might be joined with it. `last`: nothing
/// can follow, so nothing is held back. Empty when the tokens so far are not canonical themselves.
pub(crate) fn canonical(
    vocab: &Vocabulary,
    before: &[u32],
    forced: &[u8],
    last: bool,
    encode: &dyn Fn(&str) -> Option<Vec<u32>>,
) -> Vec<u32> {
    let forced = match std::str::from_utf8(forced) {
        Ok(_) => forced,
        Err(e) => &forced[..e.valid_up_to()],
    };
    if forced.is_empty() {
        return Vec::new();
    }
    let ordinary = before
        .iter()
        .rev()
        .take_while(|&&t| !vocab.is_special(t))
        .count();
    for context in [16, 512] {
        let context = &before[before.len() - ordinary.min(context)..];
        let mut text: Vec<u8> = context
            .iter()
            .flat_map(|&t| vocab.token(t))
            .copied()
            .collect();
        text.extend_from_slice(forced);
        let Some(ids) = std::str::from_utf8(&text).ok().and_then(encode) else {
            continue;
        };
        if !ids.starts_with(context) {
            continue;
        }
        let mut out = Vec::new();
        let mut at = 0;
        for &id in &ids[context.len()..] {
            if !last && vocab.is_inner_prefix(&forced[at..]) {
                break;
            }
            at += vocab.token(id).len();
            out.push(id);
        }
        return out;
    }
    Vec::new()
}

/// A short way from a configuration to the end of a match.
pub(crate) fn shortest(engine: &mut Engine, config: ConfigId) -> Result<Vec<Piece>> {
    if engine.is_accepting(config) {
        return Ok(Vec::new());
    }
    let mut out: Vec<Piece> = Vec::new();
    let mut length = 0;
    for piece in engine.finish(config, MAX_COMPLETION)? {
        match (out.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => {
                length += more.len();
                text.extend(more);
            }
            (_, piece) => out.push(piece),
        }
        if length > MAX_COMPLETION {
            return Err(GrammarError::limit(
                LimitKind::Bytes,
                "shortest completion",
                MAX_COMPLETION as u64,
                length as u64,
            ));
        }
    }
    Ok(out)
}

/// Spell a completion in tokens.
pub(crate) fn spell(pieces: &[Piece], vocab: &Vocabulary) -> Result<Vec<u32>> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Special(id) => out.push(*id),
            Piece::Text(text) => match vocab.spell(text) {
                Some(tokens) => out.extend(tokens),
                None => {
                    return Err(GrammarError::invalid(format!(
                        "the vocabulary has no tokens to spell {:?}",
                        String::from_utf8_lossy(text)
                    )))
                }
            },
        }
    }
    Ok(out)
}
