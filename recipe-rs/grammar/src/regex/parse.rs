//! The pattern syntax: what Python's `re` and ECMA-262 share, plus what one of them adds without
//! contradicting the other (named groups of both spellings, `\p{…}`, inline flags, verbose mode).
//!
//! Where they differ, [`Syntax`] decides: Python's `\d \w \s` are Unicode and its `$` may stand before a
//! final line feed (which only shows in a search); ECMA's are ASCII (`\s`: its white space), `$` is the
//! end. What a finite automaton cannot do (back-references, recursion, conditionals) or would do
//! differently (atomic and possessive groups) is refused by name.

use std::ops::Range;

use super::hir::Assertion;
use super::{CharSet, Hir, INFINITE};
use crate::error::{GrammarError, LimitKind, Result};

/// Which dialect, and the flags set from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Syntax {
    /// ECMA-262 with the `u` flag (as JSON Schema asks for) instead of Python's `re`.
    pub ecma: bool,
    /// Letters match either case.
    pub ignore_case: bool,
    /// `^` and `$` match at lines.
    pub multi_line: bool,
    /// `.` matches line ends.
    pub dot_all: bool,
    /// White space and `#` comments are skipped (Python).
    pub verbose: bool,
}

/// Deepest nesting of groups.
const MAX_DEPTH: u32 = 250;

/// Parse a pattern.
///
/// # Errors
/// `Syntax` with the span of the spot; `Limit` for groups nested too deep.
pub fn parse(pattern: &str, syntax: Syntax) -> Result<Hir> {
    let mut p = Parser {
        text: pattern,
        at: 0,
        flags: syntax,
        depth: 0,
        names: Vec::new(),
    };
    let hir = p.alternation()?;
    if p.at < pattern.len() {
        return Err(p.error("unmatched ')'", p.at..p.at + 1));
    }
    Ok(hir)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    flags: Syntax,
    depth: u32,
    names: Vec<&'a str>,
}

impl<'a> Parser<'a> {
    fn error(&self, message: impl Into<String>, span: Range<usize>) -> GrammarError {
        GrammarError::syntax(message, span, self.text)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.text[self.at..].starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    fn skip_space(&mut self) {
        while self.flags.verbose {
            match self.peek() {
                Some(c) if c.is_ascii_whitespace() || c == '\u{b}' => self.at += 1,
                Some('#') => match self.text[self.at..].find('\n') {
                    Some(n) => self.at += n + 1,
                    None => self.at = self.text.len(),
                },
                _ => return,
            }
        }
    }

    fn alternation(&mut self) -> Result<Hir> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(GrammarError::limit(
                LimitKind::SourceDepth,
                "nesting of groups in a pattern",
                u64::from(MAX_DEPTH),
                u64::from(self.depth),
            ));
        }
        let outer = self.flags;
        let mut branches = Vec::new();
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                None | Some(')') => break,
                Some('|') => {
                    self.at += 1;
                    branches.push(join(std::mem::take(&mut items)));
                }
                _ => {
                    if let Some(item) = self.term()? {
                        items.push(item);
                    }
                }
            }
        }
        branches.push(join(items));
        self.flags = outer;
        self.depth -= 1;
        Ok(if branches.len() == 1 {
            branches.remove(0)
        } else {
            Hir::Alt(branches)
        })
    }

    /// One atom with its quantifier; `None` for comments and flags.
    fn term(&mut self) -> Result<Option<Hir>> {
        let start = self.at;
        let Some(atom) = self.atom()? else {
            return Ok(None);
        };
        let mut atom = atom;
        let mut quantified = false;
        loop {
            self.skip_space();
            let from = self.at;
            let Some((min, max)) = self.quantifier()? else {
                break;
            };
            if quantified {
                return Err(self.error(
                    "multiple repeat: put the inner repetition in a group",
                    from..self.at,
                ));
            }
            if matches!(atom, Hir::Assert(..)) {
                return Err(self.error(
                    "nothing to repeat: an assertion reads no text",
                    start..self.at,
                ));
            }
            if self.eat("+") {
                return Err(self.error(
                    "possessive repetition is not supported: it depends on the order of tries",
                    from..self.at,
                ));
            }
            self.eat("?"); // laziness does not change the language of a match
            atom = Hir::Repeat(Box::new(atom), min, max);
            quantified = true;
        }
        Ok(Some(atom))
    }

    fn quantifier(&mut self) -> Result<Option<(u32, u32)>> {
        let start = self.at;
        Ok(match self.peek() {
            Some('*') => {
                self.at += 1;
                Some((0, INFINITE))
            }
            Some('+') => {
                self.at += 1;
                Some((1, INFINITE))
            }
            Some('?') => {
                self.at += 1;
                Some((0, 1))
            }
            Some('{') => {
                self.at += 1;
                let min = self.number(start)?;
                let comma = self.eat(",");
                let max = if comma { self.number(start)? } else { min };
                let open_start = min.is_none() && (self.flags.ecma || !comma || max.is_none());
                if open_start || !self.eat("}") {
                    self.at = start; // a literal brace
                    return Ok(None);
                }
                let (min, max) = (min.unwrap_or(0), max.unwrap_or(INFINITE));
                if min > max {
                    return Err(self.error(
                        "the repetition's minimum is above its maximum",
                        start..self.at,
                    ));
                }
                Some((min, max))
            }
            _ => None,
        })
    }

    fn number(&mut self, start: usize) -> Result<Option<u32>> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if from == self.at {
            return Ok(None);
        }
        match self.text[from..self.at].parse::<u32>() {
            Ok(n) if n < INFINITE => Ok(Some(n)),
            _ => Err(self.error("the repetition count is too large", start..self.at)),
        }
    }

    fn atom(&mut self) -> Result<Option<Hir>> {
        let start = self.at;
        let Some(c) = self.next() else {
            return Ok(Some(Hir::Empty));
        };
        Ok(Some(match c {
            '.' => Hir::Class(self.dot()),
            '^' => {
                let a = if self.flags.multi_line {
                    Assertion::LineStart
                } else {
                    Assertion::TextStart
                };
                Hir::Assert(a, start..self.at)
            }
            '$' => {
                let a = match (self.flags.multi_line, self.flags.ecma) {
                    (true, _) => Assertion::LineEnd,
                    (false, true) => Assertion::TextEnd,
                    (false, false) => Assertion::TextEndOrLastNewline,
                };
                Hir::Assert(a, start..self.at)
            }
            '(' => return self.group(start),
            '[' => Hir::Class(self.class(start)?),
            '\\' => self.escape(start)?,
            '*' | '+' | '?' => return Err(self.error("nothing to repeat", start..self.at)),
            '{' => {
                self.at = start;
                if self.quantifier()?.is_some() {
                    return Err(self.error("nothing to repeat", start..self.at));
                }
                self.at = start + 1;
                self.literal('{')
            }
            c => self.literal(c),
        }))
    }

    fn literal(&self, c: char) -> Hir {
        Hir::Class(self.folded(CharSet::single(c)))
    }

    fn folded(&self, set: CharSet) -> CharSet {
        if self.flags.ignore_case {
            set.fold_case()
        } else {
            set
        }
    }

    fn dot(&self) -> CharSet {
        if self.flags.dot_all {
            return CharSet::all();
        }
        let ends: &[(u32, u32)] = if self.flags.ecma {
            &[(10, 10), (13, 13), (0x2028, 0x2029)]
        } else {
            &[(10, 10)]
        };
        CharSet::new(ends.iter().copied()).complement()
    }

    fn group(&mut self, start: usize) -> Result<Option<Hir>> {
        let outer = self.flags;
        let mut wrap: Option<fn(Box<Hir>) -> Assertion> = None;
        if self.eat("?") {
            if self.eat("#") {
                match self.text[self.at..].find(')') {
                    Some(n) => self.at += n + 1,
                    None => {
                        return Err(self.error("the comment is not closed", start..self.text.len()))
                    }
                }
                return Ok(None);
            } else if self.eat(":") {
            } else if self.eat("=") {
                wrap = Some(|b| Assertion::Ahead(true, b));
            } else if self.eat("!") {
                wrap = Some(|b| Assertion::Ahead(false, b));
            } else if self.eat("<=") {
                wrap = Some(|b| Assertion::Behind(true, b));
            } else if self.eat("<!") {
                wrap = Some(|b| Assertion::Behind(false, b));
            } else if self.eat("P<") || self.eat("<") {
                let from = self.at;
                let Some(n) = self.text[from..].find('>') else {
                    return Err(self.error(
                        "the group's name is not closed by '>'",
                        start..self.text.len(),
                    ));
                };
                let name = &self.text[from..from + n];
                let fine = name
                    .chars()
                    .next()
                    .is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
                    && name
                        .chars()
                        .all(|c| c.is_alphanumeric() || c == '_' || c == '$');
                if !fine {
                    return Err(self.error("bad group name", from..from + n.max(1)));
                }
                if self.names.contains(&name) {
                    return Err(
                        self.error(format!("group name {name} is used twice"), from..from + n)
                    );
                }
                self.names.push(name);
                self.at = from + n + 1;
            } else if self.eat(">") {
                return Err(self.error(
                    "atomic groups are not supported: they depend on the order of tries",
                    start..self.at,
                ));
            } else if self.eat("P=") {
                return Err(self.error(
                    "back-references are not supported: they are not regular",
                    start..self.at,
                ));
            } else if self.eat("(") {
                return Err(self.error("conditional groups are not supported", start..self.at));
            } else if self.eat("|") {
                return Err(self.error("branch-reset groups are not supported", start..self.at));
            } else if self.eat("R")
                || self.eat("&")
                || self.eat("P>")
                || self.peek().is_some_and(|c| c.is_ascii_digit())
            {
                return Err(self.error(
                    "recursion is not supported in patterns: use a grammar",
                    start..self.at + 1,
                ));
            } else {
                return self.flag_group(start, outer);
            }
        } else if self.text[self.at..].starts_with('*') {
            return Err(self.error("control verbs are not supported", start..self.at + 1));
        }
        let body = self.alternation()?;
        if !self.eat(")") {
            return Err(self.error("the group is not closed", start..start + 1));
        }
        self.flags = outer;
        Ok(Some(match wrap {
            Some(wrap) => Hir::Assert(wrap(Box::new(body)), start..self.at),
            // Kept as a unit so that a quantifier applies to all of it.
            None => match body {
                Hir::Cat(parts) if parts.len() == 1 => {
                    parts.into_iter().next().unwrap_or(Hir::Empty)
                }
                // An anchor in a group may be quantified: `(?:^)?`.
                Hir::Assert(..) => Hir::Cat(vec![body]),
                other => other,
            },
        }))
    }

    fn flag_group(&mut self, start: usize, outer: Syntax) -> Result<Option<Hir>> {
        let mut on = true;
        let mut flags = outer;
        loop {
            let from = self.at;
            match self.next() {
                Some('-') if on => on = false,
                Some('i') => flags.ignore_case = on,
                Some('m') => flags.multi_line = on,
                Some('s') => flags.dot_all = on,
                Some('x') => flags.verbose = on,
                Some('u') if on => {}
                Some(')') => {
                    // Applies to the rest of the enclosing group, which restores its flags at its end.
                    self.flags = flags;
                    return Ok(None);
                }
                Some(':') => {
                    self.flags = flags;
                    let body = self.alternation()?;
                    if !self.eat(")") {
                        return Err(self.error("the group is not closed", start..start + 1));
                    }
                    self.flags = outer;
                    return Ok(Some(body));
                }
                Some(c) => {
                    return Err(
                        self.error(format!("unknown group syntax or flag {c:?}"), from..self.at)
                    );
                }
                None => return Err(self.error("the group is not closed", start..self.text.len())),
            }
        }
    }

    /// An escape outside a class.
    fn escape(&mut self, start: usize) -> Result<Hir> {
        let Some(c) = self.peek() else {
            return Err(self.error("a backslash ends the pattern", start..self.at));
        };
        let assertion = match c {
            'A' if !self.flags.ecma => Some(Assertion::TextStart),
            'Z' | 'z' if !self.flags.ecma => Some(Assertion::TextEnd),
            'b' => Some(Assertion::WordBoundary(true, self.word())),
            'B' => Some(Assertion::WordBoundary(false, self.word())),
            _ => None,
        };
        if let Some(a) = assertion {
            self.at += 1;
            return Ok(Hir::Assert(a, start..self.at));
        }
        if c.is_ascii_digit() && c != '0' || c == 'k' || c == 'g' {
            let octal = !self.flags.ecma
                && self.text[self.at..].len() >= 3
                && self.text[self.at..]
                    .bytes()
                    .take(3)
                    .all(|b| (b'0'..=b'7').contains(&b));
            if !octal {
                return Err(self.error(
                    "back-references are not supported: they are not regular",
                    start..self.at + 1,
                ));
            }
        }
        Ok(Hir::Class(self.class_escape(start)?))
    }

    fn word(&self) -> CharSet {
        if self.flags.ecma {
            return CharSet::new([(48, 57), (65, 90), (95, 95), (97, 122)]);
        }
        ["Alphabetic", "M", "Nd", "Pc", "Join_Control"]
            .iter()
            .filter_map(|n| CharSet::property(n))
            .fold(CharSet::empty(), |a, b| a.union(&b))
    }

    fn space(&self) -> CharSet {
        if self.flags.ecma {
            return CharSet::new([
                (9, 13),
                (32, 32),
                (0xA0, 0xA0),
                (0x1680, 0x1680),
                (0x2000, 0x200A),
                (0x2028, 0x2029),
                (0x202F, 0x202F),
                (0x205F, 0x205F),
                (0x3000, 0x3000),
                (0xFEFF, 0xFEFF),
            ]);
        }
        CharSet::property("White_Space").unwrap_or_default()
    }

    fn digit(&self) -> CharSet {
        if self.flags.ecma {
            return CharSet::new([(48, 57)]);
        }
        CharSet::property("Nd").unwrap_or_default()
    }

    /// An escape as a set of characters (inside and outside classes); `self.at` is behind the backslash.
    fn class_escape(&mut self, start: usize) -> Result<CharSet> {
        let Some(c) = self.next() else {
            return Err(self.error("a backslash ends the pattern", start..self.at));
        };
        let code = match c {
            'd' => return Ok(self.digit()),
            'D' => return Ok(self.digit().complement()),
            'w' => return Ok(self.word()),
            'W' => return Ok(self.word().complement()),
            's' => return Ok(self.space()),
            'S' => return Ok(self.space().complement()),
            'p' | 'P' => return self.property(start, c == 'P'),
            'n' => 10,
            't' => 9,
            'r' => 13,
            'f' => 12,
            'v' => 11,
            'a' if !self.flags.ecma => 7,
            'x' => {
                if self.peek() == Some('{') {
                    self.braced(start)?
                } else {
                    self.hex(2, start)?
                }
            }
            'u' => {
                if self.peek() == Some('{') {
                    self.braced(start)?
                } else {
                    let high = self.hex(4, start)?;
                    if (0xD800..0xDC00).contains(&high) && self.eat("\\u") {
                        let low = self.hex(4, start)?;
                        if !(0xDC00..0xE000).contains(&low) {
                            return Err(
                                self.error("a high surrogate without its low one", start..self.at)
                            );
                        }
                        0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                    } else {
                        high
                    }
                }
            }
            'U' if !self.flags.ecma => self.hex(8, start)?,
            'c' if self.flags.ecma => match self.next() {
                Some(l) if l.is_ascii_alphabetic() => l as u32 % 32,
                _ => return Err(self.error("\\c needs a letter", start..self.at)),
            },
            'N' => return Err(self.error("\\N{…} names are not supported", start..self.at)),
            '0'..='7' => {
                if self.flags.ecma && self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    return Err(self.error("octal escapes are not supported", start..self.at + 1));
                }
                let mut value = c as u32 - 48;
                for _ in 0..2 {
                    match self.peek() {
                        Some(d @ '0'..='7') => {
                            value = value * 8 + (d as u32 - 48);
                            self.at += 1;
                        }
                        _ => break,
                    }
                }
                value
            }
            c if c.is_ascii_alphanumeric() => {
                return Err(self.error(format!("unknown escape \\{c}"), start..self.at));
            }
            c => c as u32,
        };
        match char::from_u32(code) {
            Some(c) => Ok(self.folded(CharSet::single(c))),
            None => Err(self.error("not a Unicode character", start..self.at)),
        }
    }

    fn hex(&mut self, digits: usize, start: usize) -> Result<u32> {
        let end = self.at + digits;
        let text = self.text.as_bytes().get(self.at..end).unwrap_or(b"");
        if text.len() < digits || !text.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.error(
                format!("the escape needs {digits} hex digits"),
                start..self.at,
            ));
        }
        let value = text
            .iter()
            .fold(0u32, |v, &b| v << 4 | (b as char).to_digit(16).unwrap_or(0));
        self.at = end;
        Ok(value)
    }

    fn braced(&mut self, start: usize) -> Result<u32> {
        let Some(n) = self.text[self.at..].find('}') else {
            return Err(self.error("the escape is not closed by '}'", start..self.at));
        };
        let digits = &self.text[self.at + 1..self.at + n];
        let end = self.at + n + 1;
        match u32::from_str_radix(digits, 16) {
            Ok(v) if v <= 0x10_FFFF && digits.len() <= 8 => {
                self.at = end;
                Ok(v)
            }
            _ => Err(self.error("not a code point", start..end)),
        }
    }

    fn property(&mut self, start: usize, negated: bool) -> Result<CharSet> {
        let name = if self.eat("{") {
            let from = self.at;
            let Some(n) = self.text[from..].find('}') else {
                return Err(self.error("the property is not closed by '}'", start..self.text.len()));
            };
            self.at = from + n + 1;
            &self.text[from..from + n]
        } else {
            let from = self.at;
            if self.next().is_none() {
                return Err(self.error("\\p needs a property", start..self.at));
            }
            &self.text[from..self.at]
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(rest) => (rest, !negated),
            None => (name, negated),
        };
        let Some(set) = CharSet::property(name) else {
            return Err(self.error(format!("unknown Unicode property {name:?}"), start..self.at));
        };
        let set = self.folded(set);
        Ok(if negated { set.complement() } else { set })
    }

    fn class(&mut self, start: usize) -> Result<CharSet> {
        let negated = self.eat("^");
        let mut set = CharSet::empty();
        let mut first = true;
        loop {
            let from = self.at;
            let Some(c) = self.next() else {
                return Err(self.error("the character class is not closed", start..start + 1));
            };
            // Python reads a first ']' as itself, ECMA as the end.
            if c == ']' && (!first || self.flags.ecma) {
                break;
            }
            first = false;
            if c == '['
                && self.text[self.at..].starts_with(':')
                && self.text[self.at..].contains(":]")
            {
                return Err(self.error(
                    "POSIX classes are not supported: use \\p{…}",
                    from..self.at + 1,
                ));
            }
            let low = if c == '\\' {
                self.class_member(from)?
            } else {
                CharSet::single(c)
            };
            let rest = &self.text[self.at..];
            if rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
                self.at += 1;
                let high_from = self.at;
                let Some(h) = self.next() else {
                    return Err(self.error("the character class is not closed", start..start + 1));
                };
                let high = if h == '\\' {
                    self.class_member(high_from)?
                } else {
                    CharSet::single(h)
                };
                match (single(&low), single(&high)) {
                    (Some(l), Some(h)) if l <= h => {
                        set = set.union(&self.folded(CharSet::new([(l, h)])))
                    }
                    (Some(_), Some(_)) => {
                        return Err(
                            self.error("the range's end is before its start", from..self.at)
                        );
                    }
                    _ => {
                        // `\w-x`: ECMA without the u flag takes the hyphen as itself, Python refuses it.
                        if !self.flags.ecma {
                            return Err(
                                self.error("a class cannot be the end of a range", from..self.at)
                            );
                        }
                        set = set.union(&low).union(&high).union(&CharSet::single('-'));
                    }
                }
            } else {
                set = set.union(&self.folded(low));
            }
        }
        Ok(if negated { set.complement() } else { set })
    }

    /// An escape inside a class, unfolded so that it can end a range.
    fn class_member(&mut self, start: usize) -> Result<CharSet> {
        if self.eat("b") {
            return Ok(CharSet::new([(8, 8)]));
        }
        let folding = std::mem::replace(&mut self.flags.ignore_case, false);
        let set = self.class_escape(start);
        self.flags.ignore_case = folding;
        set
    }
}

fn single(set: &CharSet) -> Option<u32> {
    match set.ranges() {
        [(l, h)] if l == h => Some(*l),
        _ => None,
    }
}

fn join(mut items: Vec<Hir>) -> Hir {
    match items.len() {
        0 => Hir::Empty,
        1 => items.remove(0),
        _ => Hir::Cat(items),
    }
}
