//! The added vocabulary: tokens matched in the text before BPE sees it.
//!
//! As in `tokenizers`, tokens that are not `normalized` are looked for first, then the others in what
//! is left (our normalizer is always the identity, so only the order matters). Among tokens of one
//! pass the leftmost wins, then the longest. `single_word`, `lstrip` and `rstrip` are honoured.

use aho_corasick::{AhoCorasick, MatchKind};
use rustc_hash::FxHashMap;

use super::error::TokenizerError;
use super::file::AddedTokenEntry;

/// A stretch of text: an added token or text between added tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stretch<'t> {
    Token(u32),
    Text(&'t str),
}

pub(super) struct AddedVocabulary {
    ids: FxHashMap<String, u32>,
    passes: Vec<Pass>,
}

struct Pass {
    automaton: AhoCorasick,
    entries: Vec<AddedTokenEntry>,
}

impl AddedVocabulary {
    /// `entries` with unique contents.
    pub(super) fn new(entries: &[AddedTokenEntry]) -> Result<Self, TokenizerError> {
        let mut passes = Vec::new();
        for normalized in [false, true] {
            let entries: Vec<_> = entries
                .iter()
                .filter(|entry| entry.normalized == normalized && !entry.content.is_empty())
                .cloned()
                .collect();
            if entries.is_empty() {
                continue;
            }
            let automaton = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(entries.iter().map(|entry| &entry.content))
                .map_err(|error| TokenizerError::invalid("added_tokens", error.to_string()))?;
            passes.push(Pass { automaton, entries });
        }
        let ids = entries
            .iter()
            .map(|entry| (entry.content.clone(), entry.id))
            .collect();
        Ok(Self { ids, passes })
    }

    /// Id of the added token with exactly this spelling.
    pub(super) fn id(&self, spelling: &str) -> Option<u32> {
        self.ids.get(spelling).copied()
    }

    /// Every added token, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ids.iter().map(|(content, id)| (content.as_str(), *id))
    }

    /// Call `emit` with every stretch of `text`, in order.
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
        emit: &mut dyn FnMut(Stretch<'t>) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        split_passes(&self.passes, text, emit)
    }
}

fn split_passes<'t>(
    passes: &[Pass],
    text: &'t str,
    emit: &mut dyn FnMut(Stretch<'t>) -> Result<(), TokenizerError>,
) -> Result<(), TokenizerError> {
    let Some((pass, rest)) = passes.split_first() else {
        return if text.is_empty() {
            Ok(())
        } else {
            emit(Stretch::Text(text))
        };
    };
    let mut done = 0;
    for found in pass.automaton.find_iter(text) {
        let entry = &pass.entries[found.pattern().as_usize()];
        let (mut start, mut end) = (found.start(), found.end());
        if entry.single_word
            && (text[..start].chars().next_back().is_some_and(is_word)
                || text[end..].chars().next().is_some_and(is_word))
        {
            continue;
        }
        if entry.lstrip {
            start = text[..start].trim_end_matches(is_space).len().max(done);
        }
        if entry.rstrip {
            end = text.len() - text[end..].trim_start_matches(is_space).len();
        }
        if done < start {
            split_passes(rest, &text[done..start], emit)?;
        }
        emit(Stretch::Token(entry.id))?;
        done = end;
    }
    split_passes(rest, &text[done..], emit)
}

/// `\s` of the `regex` crate, which `tokenizers` uses here.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// `\w` of the `regex` crate.
fn is_word(c: char) -> bool {
    regex_syntax::is_word_character(c)
}
