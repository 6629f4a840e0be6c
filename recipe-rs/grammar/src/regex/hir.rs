//! Patterns as trees over code points, before they are spelled in bytes.

use std::ops::Range;

use super::CharSet;

/// A pattern over Unicode characters. Front ends may build it by hand and combine parsed patterns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hir {
    /// The empty text.
    Empty,
    /// One character of the set (an empty set matches nothing).
    Class(CharSet),
    /// One after the other.
    Cat(Vec<Hir>),
    /// Any of them; nothing when there is none.
    Alt(Vec<Hir>),
    /// `min` to `max` times; `max` may be [`super::INFINITE`].
    Repeat(Box<Hir>, u32, u32),
    /// All of them at once, over the same stretch of text. No assertions inside.
    And(Vec<Hir>),
    /// Every text that it does not match. No assertions inside.
    Not(Box<Hir>),
    /// A condition on what stands before or after; reads nothing.
    Assert(Assertion, Range<usize>),
}

/// A condition between two characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assertion {
    /// At the start of the text.
    TextStart,
    /// At the end of the text.
    TextEnd,
    /// At the end of the text, or before a line feed that ends it (`$` of Python).
    TextEndOrLastNewline,
    /// At the start of a line.
    LineStart,
    /// At the end of a line.
    LineEnd,
    /// Between a word character and another or an end (`true`), or not so (`false`). The set: word
    /// characters.
    WordBoundary(bool, CharSet),
    /// What follows matches (`true`) or does not.
    Ahead(bool, Box<Hir>),
    /// What stands before matches up to here (`true`) or does not.
    Behind(bool, Box<Hir>),
}

impl Hir {
    /// A character.
    pub fn char(c: char) -> Hir {
        Hir::Class(CharSet::single(c))
    }

    /// Exactly this text.
    pub fn literal(text: &str) -> Hir {
        Hir::Cat(text.chars().map(Hir::char).collect())
    }

    /// Any text.
    pub fn any_text() -> Hir {
        Hir::Repeat(Box::new(Hir::Class(CharSet::all())), 0, super::INFINITE)
    }

    /// Texts of `min` to `max` characters.
    pub fn length(min: u32, max: u32) -> Hir {
        Hir::Repeat(Box::new(Hir::Class(CharSet::all())), min, max)
    }

    /// Whether an assertion occurs anywhere inside.
    pub fn has_assertion(&self) -> bool {
        match self {
            Hir::Empty | Hir::Class(_) => false,
            Hir::Cat(parts) | Hir::Alt(parts) | Hir::And(parts) => {
                parts.iter().any(Hir::has_assertion)
            }
            Hir::Repeat(body, ..) | Hir::Not(body) => body.has_assertion(),
            Hir::Assert(..) => true,
        }
    }

    /// Whether the empty text may match (assertions counted as passable).
    pub fn may_be_empty(&self) -> bool {
        match self {
            Hir::Empty | Hir::Assert(..) => true,
            Hir::Class(_) => false,
            Hir::Cat(parts) | Hir::And(parts) => parts.iter().all(Hir::may_be_empty),
            Hir::Alt(parts) => parts.iter().any(Hir::may_be_empty),
            Hir::Repeat(body, min, _) => *min == 0 || body.may_be_empty(),
            Hir::Not(body) => !body.may_be_empty(),
        }
    }
}
