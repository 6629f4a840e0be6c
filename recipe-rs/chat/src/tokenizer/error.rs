//! What can go wrong when a `tokenizer.json` is loaded or a text is encoded.

use std::fmt;
use std::ops::Range;

/// A tokenizer file that cannot be used, or a text that cannot be encoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file could not be read.
    Io {
        /// Path as given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not the JSON of a tokenizer.
    Json(serde_json::Error),
    /// The file is well-formed but asks for something this tokenizer does not do.
    Unsupported {
        /// Where in the file, such as `pre_tokenizer.pretokenizers[0]`.
        part: String,
        /// What was found there.
        found: String,
    },
    /// The file contradicts itself.
    Invalid {
        /// Where in the file.
        part: String,
        /// What is wrong.
        message: String,
    },
    /// A prompt needs a special token that the added vocabulary lacks.
    MissingSpecial {
        /// Spelling of the token.
        spelling: String,
    },
    /// Special ranges are not ascending, disjoint, inside the text and on character borders.
    BadRange {
        /// The first offending byte range.
        range: Range<usize>,
    },
    /// The text is too long to be indexed by the merge queue (4 GiB).
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
    /// A pre-tokenizer pattern outside the built-in ones gave up (backtracking limit).
    Pattern(Box<fancy_regex::Error>),
}

impl TokenizerError {
    pub(super) fn unsupported(part: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Unsupported {
            part: part.into(),
            found: found.into(),
        }
    }

    pub(super) fn invalid(part: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            part: part.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for TokenizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "cannot read tokenizer file {path:?}: {source}"),
            Self::Json(source) => write!(f, "invalid tokenizer JSON: {source}"),
            Self::Unsupported { part, found } => {
                write!(f, "unsupported tokenizer: {found} at {part}")
            }
            Self::Invalid { part, message } => {
                write!(f, "invalid tokenizer: {message} at {part}")
            }
            Self::MissingSpecial { spelling } => {
                write!(
                    f,
                    "special token \"{spelling}\" is not in the added vocabulary"
                )
            }
            Self::BadRange { range } => write!(
                f,
                "special range {}..{} is not an ascending, disjoint range of whole characters of the prompt",
                range.start, range.end
            ),
            Self::TooLong { len } => {
                write!(f, "text of {len} bytes is too long: the limit is 4294967295")
            }
            Self::Pattern(source) => write!(f, "pre-tokenizer pattern failed: {source}"),
        }
    }
}

impl std::error::Error for TokenizerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Json(source) => Some(source),
            Self::Pattern(source) => Some(source.as_ref()),
            _ => None,
        }
    }
}
