//! Sets of Unicode scalar values.

use std::sync::Arc;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// A set of code points as sorted, disjoint, non-adjacent ranges (both ends included). Surrogates are
/// never members.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct CharSet(Arc<[(u32, u32)]>);

const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);
const LAST: u32 = 0x0010_FFFF;

impl CharSet {
    /// The set of these ranges, in any order, overlapping or not.
    pub fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (low, high) in ranges {
            let high = high.min(LAST);
            if low <= high && (high < SURROGATES.0 || low > SURROGATES.1) {
                all.push((low, high));
            } else if low <= high {
                if low < SURROGATES.0 {
                    all.push((low, SURROGATES.0 - 1));
                }
                if high > SURROGATES.1 {
                    all.push((SURROGATES.1 + 1, high));
                }
            }
        }
        all.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match out.last_mut() {
                // Adjacent across the surrogates stays apart, so that encoders need not split.
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => out.push((low, high)),
            }
        }
        CharSet(out.into())
    }

    /// No character.
    pub fn empty() -> Self {
        CharSet::default()
    }

    /// Every character.
    pub fn all() -> Self {
        CharSet::new([(0, LAST)])
    }

    /// One character.
    pub fn single(c: char) -> Self {
        CharSet::new([(c as u32, c as u32)])
    }

    /// The ranges.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether no character is a member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `c` is a member.
    pub fn contains(&self, c: char) -> bool {
        let c = c as u32;
        self.0
            .binary_search_by(|&(l, h)| {
                if h < c {
                    std::cmp::Ordering::Less
                } else if l > c {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }

    /// Number of members.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|(l, h)| h - l + 1).sum()
    }

    /// Union.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        CharSet::new(self.0.iter().chain(other.0.iter()).copied())
    }

    /// All characters that are not members.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(low, high) in self.0.iter() {
            if low > next {
                out.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST {
            out.push((next, LAST));
        }
        CharSet::new(out)
    }

    /// Intersection.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut i, mut j, mut out) = (0, 0, Vec::new());
        while i < self.0.len() && j < other.0.len() {
            let (a, b) = (self.0[i], other.0[j]);
            let (low, high) = (a.0.max(b.0), a.1.min(b.1));
            if low <= high {
                out.push((low, high));
            }
            if a.1 < b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        CharSet(out.into())
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.intersect(&other.complement())
    }

    /// With every character that differs from a member by case only (simple folding).
    #[must_use]
    pub fn fold_case(&self) -> Self {
        // ASCII sets without the letters that fold outside ASCII (k, s) are done by hand: they are common.
        let mut class = self.to_class();
        match class.try_case_fold_simple() {
            Ok(()) => Self::from_class(&class),
            Err(_) => self.clone(),
        }
    }

    fn to_class(&self) -> ClassUnicode {
        let ranges = self.0.iter().filter_map(|&(l, h)| {
            Some(ClassUnicodeRange::new(
                char::from_u32(l)?,
                char::from_u32(h)?,
            ))
        });
        ClassUnicode::new(ranges)
    }

    fn from_class(class: &ClassUnicode) -> Self {
        CharSet::new(class.iter().map(|r| (r.start() as u32, r.end() as u32)))
    }

    /// A class by the name of a Unicode property: `L`, `Lu`, `Greek`, `Script=Han`, `Alphabetic`, …
    /// `None` for names that are not known.
    pub fn property(name: &str) -> Option<Self> {
        if name.is_empty()
            || !name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || " _-=:.".contains(c))
        {
            return None;
        }
        let hir = regex_syntax::Parser::new()
            .parse(&format!("\\p{{{name}}}"))
            .ok()?;
        Self::from_hir(hir.kind())
    }

    fn from_hir(kind: &HirKind) -> Option<Self> {
        match kind {
            HirKind::Class(Class::Unicode(class)) => Some(Self::from_class(class)),
            HirKind::Literal(l) => {
                let text = std::str::from_utf8(&l.0).ok()?;
                Some(CharSet::new(text.chars().map(|c| (c as u32, c as u32))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_algebra_agrees_with_membership() {
        let a = CharSet::new([(97, 122), (0xD000, 0xE010), (48, 57)]);
        let b = CharSet::new([(100, 0xD900)]);
        for c in [
            "a",
            "d",
            "z",
            "5",
            "\u{D7FF}",
            "\u{E000}",
            "\u{E011}",
            "\u{10FFFF}",
        ] {
            let c = c.chars().next().unwrap();
            assert_eq!(
                a.union(&b).contains(c),
                a.contains(c) || b.contains(c),
                "{c:?}"
            );
            assert_eq!(
                a.intersect(&b).contains(c),
                a.contains(c) && b.contains(c),
                "{c:?}"
            );
            assert_eq!(a.complement().contains(c), !a.contains(c), "{c:?}");
            assert_eq!(
                a.minus(&b).contains(c),
                a.contains(c) && !b.contains(c),
                "{c:?}"
            );
        }
        assert_eq!(CharSet::all().len(), 0x11_0000 - 0x800);
        assert_eq!(CharSet::all().complement(), CharSet::empty());
    }

    #[test]
    fn properties_and_folding() {
        assert!(CharSet::property("Greek").unwrap().contains('λ'));
        assert!(CharSet::property("Script=Han").unwrap().contains('中'));
        assert!(CharSet::property("L").unwrap().contains('é'));
        assert_eq!(CharSet::property("Nonsense"), None);
        let k = CharSet::single('k').fold_case();
        assert!(k.contains('K') && k.contains('\u{212A}') && k.len() == 3);
    }
}
