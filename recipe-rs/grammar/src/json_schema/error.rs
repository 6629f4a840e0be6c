//! What can be wrong with a schema, always with the JSON pointer of the spot.

use crate::error::{GrammarError, LimitKind};

/// How the name of a limit on the time of one mask begins.
const MASK_TIME: &str = "mask time";

/// The class of a [`SchemaError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not JSON.
    Json,
    /// A keyword has a value that the dialect does not allow, or a reference leads nowhere.
    Invalid,
    /// A keyword, format or combination that this engine does not decide.
    Unsupported,
    /// No value satisfies the schema.
    Unsatisfiable,
    /// A compile or run limit was met.
    Limit,
    /// The caller's cancel token was set.
    Cancelled,
}

/// Facts of a limit that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFacts {
    /// What grew.
    pub name: String,
    /// What was needed (at least).
    pub needed: u64,
    /// What the setting allows.
    pub allowed: u64,
}

/// An error in a JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// Its class.
    pub kind: ErrorKind,
    /// JSON pointer as a URI fragment, `#/properties/a`; with the document's URI in front for other documents.
    pub pointer: String,
    /// One sentence for people, without the pointer.
    pub message: String,
    /// The keyword at fault, where one can be named.
    pub keyword: Option<String>,
    /// Set for [`ErrorKind::Limit`].
    pub limit: Option<LimitFacts>,
}

impl SchemaError {
    pub(crate) fn new(
        kind: ErrorKind,
        pointer: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let mut pointer = pointer.into();
        if pointer.is_empty() {
            pointer.push('#');
        }
        SchemaError {
            kind,
            pointer,
            message: message.into(),
            keyword: None,
            limit: None,
        }
    }

    pub(crate) fn invalid(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, pointer, message)
    }

    pub(crate) fn unsupported(
        pointer: impl Into<String>,
        keyword: &str,
        message: impl Into<String>,
    ) -> Self {
        let mut e = Self::new(ErrorKind::Unsupported, pointer, message);
        e.keyword = Some(keyword.into());
        e
    }

    pub(crate) fn limit(pointer: impl Into<String>, name: &str, needed: u64, allowed: u64) -> Self {
        let mut e = Self::new(
            ErrorKind::Limit,
            pointer,
            format!("{name}: {needed} needed, {allowed} allowed"),
        );
        e.limit = Some(LimitFacts {
            name: name.into(),
            needed,
            allowed,
        });
        e
    }
}

impl SchemaError {
    /// From the clock or the cancel token.
    pub(super) fn from_budget(e: GrammarError, pointer: &str) -> Self {
        match e {
            GrammarError::Limit {
                kind,
                what,
                limit,
                needed,
            } => {
                let time = if kind == LimitKind::MaskMillis {
                    MASK_TIME
                } else {
                    "compile time"
                };
                let what = if what.is_empty() { "schema" } else { &what };
                Self::limit(pointer, &format!("{time}: {what}"), needed, limit)
            }
            other => Self::new(ErrorKind::Cancelled, pointer, other.to_string()),
        }
    }
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.message, self.pointer)
    }
}

impl std::error::Error for SchemaError {}

impl From<SchemaError> for GrammarError {
    fn from(e: SchemaError) -> Self {
        let SchemaError {
            kind,
            pointer,
            message,
            keyword,
            limit,
        } = e;
        match (kind, limit) {
            (ErrorKind::Cancelled, _) => GrammarError::Cancelled,
            (ErrorKind::Limit, Some(l)) => {
                let which = if l.name.starts_with(MASK_TIME) {
                    LimitKind::MaskMillis
                } else if l.name.contains("nesting") {
                    LimitKind::SourceDepth
                } else if l.name.contains("time") {
                    LimitKind::CompileMillis
                } else if l.name.contains("states") || l.name.contains("pattern") {
                    LimitKind::RegexNodes
                } else {
                    LimitKind::Products
                };
                GrammarError::limit(
                    which,
                    format!("{} at {pointer}", l.name),
                    l.allowed,
                    l.needed,
                )
            }
            _ => GrammarError::Schema {
                message,
                pointer,
                keyword: keyword.unwrap_or_default(),
            },
        }
    }
}
