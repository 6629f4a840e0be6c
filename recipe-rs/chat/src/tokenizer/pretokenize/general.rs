//! Any other `Split` pattern, through `fancy-regex`.
//!
//! `tokenizers` runs these patterns with Oniguruma. Constructs that the two engines read differently
//! are refused by name instead of being silently wrong.

use serde_json::Value;

use super::super::error::TokenizerError;

/// A compiled pattern and its spelling in the file.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    regex: fancy_regex::Regex,
}

/// Constructs whose meaning differs: word characters (Oniguruma counts all of `\p{N}`), POSIX brackets
/// (Unicode there, ASCII here), inline flags other than `i` (`m` means dot-all there), other escapes.
const REFUSED: [&str; 12] = [
    r"\w", r"\W", r"\b", r"\B", "[:", "(?m", "(?s", "(?x", "(?-", r"\X", r"\R", r"\K",
];

impl Pattern {
    pub(super) fn from_json(value: &Value, part: &str) -> Result<Self, TokenizerError> {
        let regex = value.get("Regex").and_then(Value::as_str);
        let string = value.get("String").and_then(Value::as_str);
        let (source, pattern) = match (regex, string) {
            (Some(regex), None) => {
                if let Some(found) = REFUSED.iter().find(|r| contains_unescaped(regex, r)) {
                    return Err(TokenizerError::unsupported(
                        part,
                        format!("regex construct {found:?}"),
                    ));
                }
                // Oniguruma's `^` and `$` match at line borders.
                (regex, format!("(?m:{regex})"))
            }
            (None, Some(string)) => (string, fancy_regex::escape(string).into_owned()),
            _ => {
                return Err(TokenizerError::invalid(
                    part,
                    "a pattern must be {\"Regex\": …} or {\"String\": …}",
                ))
            }
        };
        let regex = fancy_regex::Regex::new(&pattern)
            .map_err(|error| TokenizerError::invalid(part, error.to_string()))?;
        if regex.is_match("").unwrap_or(true) {
            return Err(TokenizerError::unsupported(
                part,
                "a pattern that matches the empty string",
            ));
        }
        let source = if string.is_some() {
            String::new() // never equal to a built-in regex
        } else {
            source.to_owned()
        };
        Ok(Self { source, regex })
    }

    /// The regex as the file spells it.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Call `emit` with the borders of every match and of the text between matches.
    pub(super) fn split(
        &self,
        text: &str,
        emit: &mut impl FnMut(usize, usize),
    ) -> Result<(), TokenizerError> {
        let mut last = 0;
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|error| TokenizerError::Pattern(Box::new(error)))?;
            if found.start() == found.end() {
                continue;
            }
            if last < found.start() {
                emit(last, found.start());
            }
            emit(found.start(), found.end());
            last = found.end();
        }
        if last < text.len() {
            emit(last, text.len());
        }
        Ok(())
    }
}

/// Whether `needle` occurs in `regex` other than right after a backslash that escapes it.
fn contains_unescaped(regex: &str, needle: &str) -> bool {
    let mut escaped = false;
    for (i, c) in regex.char_indices() {
        if !escaped && regex[i..].starts_with(needle) {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}
