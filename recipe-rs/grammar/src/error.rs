//! Everything that can go wrong between a grammar's source text and a mask.

use std::fmt;
use std::ops::Range;

/// Which bound a compile or a step ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// Bytes of source text.
    SourceBytes,
    /// Nesting of the source (parentheses, objects, arrays).
    SourceDepth,
    /// Nodes of regular expressions and of their derivatives.
    RegexNodes,
    /// Expressions and rules of the grammar.
    Rules,
    /// States and stack nodes built while matching.
    States,
    /// Threads alive at the same time (ambiguity).
    Threads,
    /// Nesting of the matched text.
    StackDepth,
    /// States searched to decide whether an intersection or complement is empty.
    EmptinessSearch,
    /// Combinations of sub-schemas (`allOf`, `oneOf`, `not`).
    Products,
    /// Bytes held by the grammar.
    Bytes,
    /// Processor milliseconds of one compile.
    CompileMillis,
    /// Processor milliseconds of one mask, token or completion.
    MaskMillis,
}

impl LimitKind {
    /// The setting's name, as in `Limits` and in the Python API.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::SourceBytes => "source_bytes",
            LimitKind::SourceDepth => "source_depth",
            LimitKind::RegexNodes => "regex_nodes",
            LimitKind::Rules => "rules",
            LimitKind::States => "states",
            LimitKind::Threads => "threads",
            LimitKind::StackDepth => "stack_depth",
            LimitKind::EmptinessSearch => "emptiness_search",
            LimitKind::Products => "products",
            LimitKind::Bytes => "bytes",
            LimitKind::CompileMillis => "compile_ms",
            LimitKind::MaskMillis => "mask_ms",
        }
    }
}

/// Why a grammar was refused, or why a matcher stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarError {
    /// The source text is malformed or uses something that is not supported there.
    Syntax {
        /// What is wrong, in one sentence.
        message: String,
        /// Byte range of the spot in the source.
        span: Range<usize>,
        /// The source text (for line, column and caret).
        text: String,
    },
    /// A JSON Schema that cannot be compiled exactly, or that no value satisfies.
    Schema {
        /// What is wrong, in one sentence.
        message: String,
        /// JSON pointer of the keyword, such as `#/properties/a/not`.
        pointer: String,
        /// The keyword, or empty.
        keyword: String,
    },
    /// The grammar matches nothing or is otherwise unusable as a whole.
    Invalid {
        /// What is wrong, in one sentence.
        message: String,
    },
    /// A bound was hit.
    Limit {
        /// Which bound.
        kind: LimitKind,
        /// What grew, in the words of the source where possible.
        what: String,
        /// The bound's value.
        limit: u64,
        /// How much was needed, at least.
        needed: u64,
    },
    /// The caller's cancel token was set.
    Cancelled,
}

impl GrammarError {
    /// A syntax error at a byte range of `text`.
    pub fn syntax(message: impl Into<String>, span: Range<usize>, text: &str) -> Self {
        GrammarError::Syntax {
            message: message.into(),
            span,
            text: text.to_owned(),
        }
    }

    /// An error of a grammar as a whole.
    pub fn invalid(message: impl Into<String>) -> Self {
        GrammarError::Invalid {
            message: message.into(),
        }
    }

    /// A bound that was hit.
    pub fn limit(kind: LimitKind, what: impl Into<String>, limit: u64, needed: u64) -> Self {
        GrammarError::Limit {
            kind,
            what: what.into(),
            limit,
            needed,
        }
    }

    /// The same syntax error with its source text filled in where it is missing.
    #[must_use]
    pub fn in_text(mut self, source: &str) -> Self {
        if let GrammarError::Syntax { text, .. } = &mut self {
            if text.is_empty() {
                source.clone_into(text);
            }
        }
        self
    }

    /// Line and column (both from 1, columns in characters) of a syntax error's start.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        let GrammarError::Syntax { span, text, .. } = self else {
            return None;
        };
        let mut at = span.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Some((line, column))
    }

    /// The source line of a syntax error with a caret under the spot.
    pub fn caret(&self) -> Option<String> {
        let GrammarError::Syntax { span, text, .. } = self else {
            return None;
        };
        let (line, column) = self.line_column()?;
        let shown = text.split('\n').nth(line - 1).unwrap_or("");
        // A window of the line, so that a pattern of a megabyte gives a readable message.
        let skip = column.saturating_sub(40).saturating_sub(1);
        let window: String = shown
            .chars()
            .skip(skip)
            .take(100)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let mut end = span.end.clamp(span.start.min(text.len()), text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut start = span.start.min(end);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let wide = text[start..end]
            .split('\n')
            .next()
            .map_or(0, |s| s.chars().count());
        let pad = " ".repeat(column - 1 - skip);
        Some(format!("{window}\n{pad}{}", "^".repeat(wide.clamp(1, 60))))
    }
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrammarError::Syntax { message, .. } => {
                let (line, column) = self.line_column().unwrap_or((1, 1));
                write!(
                    f,
                    "{message} (line {line}, column {column})\n{}",
                    self.caret().unwrap_or_default()
                )
            }
            GrammarError::Schema {
                message, pointer, ..
            } => write!(f, "{message} at {pointer}"),
            GrammarError::Invalid { message } => write!(f, "{message}"),
            GrammarError::Limit {
                kind,
                what,
                limit,
                needed,
            } => {
                write!(
                    f,
                    "{what}: needs {needed}, over the limit {}={limit}",
                    kind.name()
                )
            }
            GrammarError::Cancelled => write!(f, "cancelled"),
        }
    }
}

impl std::error::Error for GrammarError {}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, GrammarError>;
