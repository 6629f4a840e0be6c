//! From patterns over characters to nodes over bytes.
//!
//! A character class becomes the bytes that spell its members: UTF-8, or every spelling that a JSON
//! string allows (raw UTF-8, short escapes, `\uXXXX` with hex digits in either case, surrogate pairs).
//!
//! Assertions are resolved exactly, by lowering from the right with the rest of the text at hand: for
//! `x A y` with rest `k`, a look-ahead is an intersection of the rest with what it asks for; a
//! look-behind is an intersection of everything before it; word boundaries and `^` split what comes
//! before by its last character. Only an assertion inside an unbounded repetition is refused.

use std::ops::Range;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::hir::Assertion;
use super::{Arena, CharSet, Hir, NodeId, EMPTY, INFINITE, NEVER};
use crate::bytes::ByteSet;
use crate::error::{GrammarError, Result};
use crate::limits::Limits;

/// How characters are spelled in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Encoding {
    /// Plain UTF-8.
    Utf8,
    /// Inside the quotes of a JSON string: every spelling of a character that JSON allows.
    JsonString,
    /// Inside the quotes of a JSON string, in the one spelling that serialisers write: raw UTF-8, and
    /// the short escape (or, for other controls, lower-case `\u00xx`) only where one is needed.
    JsonCanonical,
}

/// Lowers patterns into an arena; keep one per encoding, it remembers classes.
#[derive(Debug)]
pub struct Lowering {
    encoding: Encoding,
    classes: FxHashMap<CharSet, NodeId>,
    any: Option<NodeId>,
}

/// Declares "all UTF-8 text" in an arena and returns it.
pub fn text_universe(arena: &mut Arena) -> NodeId {
    Lowering::new(Encoding::Utf8).any_text(arena)
}

/// What grammars start from, made once per process and copied.
pub(crate) struct Prepared {
    /// With "all UTF-8 text" declared.
    pub(crate) plain: Arena,
    /// The same with `json_char` in it.
    pub(crate) json: Arena,
    /// One character of a JSON string in any spelling.
    pub(crate) json_char: NodeId,
}

pub(crate) fn prepared() -> &'static Prepared {
    static PREPARED: OnceLock<Prepared> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let limits = Limits::default();
        let mut plain = Arena::new(limits.regex_nodes, limits.emptiness_search);
        text_universe(&mut plain);
        let mut json = plain.clone();
        let json_char = Lowering::new(Encoding::JsonString).class(&mut json, &CharSet::all());
        Prepared {
            plain,
            json,
            json_char,
        }
    })
}

/// Largest bounded repetition with assertions inside that is unrolled.
const UNROLL: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Start,
    Newline,
    Word,
    Other,
}

impl Lowering {
    /// A lowering with an empty memory.
    pub fn new(encoding: Encoding) -> Self {
        Lowering {
            encoding,
            classes: FxHashMap::default(),
            any: None,
        }
    }

    /// Any text: `.*` with dots that match everything. Absorbs alternatives (see
    /// [`Arena::set_universe`]).
    pub fn any_text(&mut self, arena: &mut Arena) -> NodeId {
        if let Some(any) = self.any {
            return any;
        }
        let unit = self.class(arena, &CharSet::all());
        let any = arena.star(unit);
        arena.set_universe(any);
        self.any = Some(any);
        any
    }

    /// One character of a set.
    pub fn class(&mut self, arena: &mut Arena, set: &CharSet) -> NodeId {
        if let Some(&known) = self.classes.get(set) {
            return known;
        }
        let node = match self.encoding {
            Encoding::Utf8 => utf8(arena, set),
            Encoding::JsonString => json_character(arena, set),
            Encoding::JsonCanonical => json_canonical(arena, set),
        };
        self.classes.insert(set.clone(), node);
        node
    }

    /// The pattern against the whole text.
    ///
    /// # Errors
    /// `Syntax` (with an empty `text`: see [`GrammarError::in_text`]) for assertions that are not
    /// supported where they stand, and the arena's limits.
    pub fn whole(&mut self, arena: &mut Arena, hir: &Hir) -> Result<NodeId> {
        let node = if hir.has_assertion() {
            self.sequence(
                arena,
                std::slice::from_ref(hir),
                EMPTY,
                Before::Start,
                Some(EMPTY),
            )?
        } else {
            self.plain(arena, hir)
        };
        arena.check()?;
        Ok(node)
    }

    /// The pattern somewhere in the text (search semantics, as `pattern` of JSON Schema has it).
    ///
    /// # Errors
    /// As [`Lowering::whole`].
    pub fn search(&mut self, arena: &mut Arena, hir: &Hir) -> Result<NodeId> {
        let any = self.any_text(arena);
        let node = if hir.has_assertion() {
            let parts = [Hir::any_text(), hir.clone()];
            self.sequence(arena, &parts, any, Before::Start, Some(EMPTY))?
        } else {
            let node = self.plain(arena, hir);
            let tail = arena.cat(node, any);
            arena.cat(any, tail)
        };
        arena.check()?;
        Ok(node)
    }

    /// The texts that `node` (lowered by this lowering) does not match.
    pub fn complement(&mut self, arena: &mut Arena, node: NodeId) -> NodeId {
        let any = self.any_text(arena);
        arena.minus(any, node)
    }

    fn plain(&mut self, arena: &mut Arena, hir: &Hir) -> NodeId {
        match hir {
            Hir::Empty => EMPTY,
            Hir::Class(set) => self.class(arena, set),
            Hir::Cat(parts) => {
                let mut node = EMPTY;
                for part in parts.iter().rev() {
                    let head = self.plain(arena, part);
                    node = arena.cat(head, node);
                }
                node
            }
            Hir::Alt(parts) => {
                let nodes: Vec<NodeId> = parts.iter().map(|p| self.plain(arena, p)).collect();
                arena.alt(&nodes)
            }
            Hir::Repeat(body, min, max) => {
                if let (Hir::Class(set), 0, INFINITE) = (&**body, *min, *max) {
                    if *set == CharSet::all() {
                        return self.any_text(arena);
                    }
                }
                let node = self.plain(arena, body);
                arena.repeat(node, *min, *max)
            }
            Hir::And(parts) => {
                let nodes: Vec<NodeId> = parts.iter().map(|p| self.plain(arena, p)).collect();
                arena.and(&nodes)
            }
            Hir::Not(body) => {
                let node = self.plain(arena, body);
                self.complement(arena, node)
            }
            Hir::Assert(..) => NEVER,
        }
    }

    /// `parts` in sequence, then `rest`. `before`: the character in front of the sequence; `left`: the
    /// whole text in front of it, where that is known as a language.
    fn sequence(
        &mut self,
        arena: &mut Arena,
        parts: &[Hir],
        rest: NodeId,
        before: Before,
        left: Option<NodeId>,
    ) -> Result<NodeId> {
        let Some((first, tail)) = parts.split_first() else {
            return Ok(rest);
        };
        if !parts.iter().any(Hir::has_assertion) {
            let mut node = rest;
            for part in parts.iter().rev() {
                let head = self.plain(arena, part);
                node = arena.cat(head, node);
            }
            return Ok(node);
        }
        match first {
            Hir::Cat(inner) => {
                let mut all = inner.clone();
                all.extend_from_slice(tail);
                self.sequence(arena, &all, rest, before, left)
            }
            Hir::Assert(assertion, span) => {
                self.assertion(arena, assertion, span, tail, rest, before, left)
            }
            Hir::Alt(branches) if first.has_assertion() => {
                let mut nodes = Vec::with_capacity(branches.len());
                for branch in branches {
                    let mut all = vec![branch.clone()];
                    all.extend_from_slice(tail);
                    nodes.push(self.sequence(arena, &all, rest, before, left)?);
                    arena.check()?;
                }
                Ok(arena.alt(&nodes))
            }
            Hir::Repeat(body, min, max) if first.has_assertion() => {
                if *max > UNROLL {
                    return Err(refuse(
                        "an assertion inside an unbounded repetition is not supported",
                        &span_of(body),
                    ));
                }
                let mut nodes = Vec::new();
                for count in *min..=*max {
                    let mut all = vec![(**body).clone(); count as usize];
                    all.extend_from_slice(tail);
                    nodes.push(self.sequence(arena, &all, rest, before, left)?);
                }
                Ok(arena.alt(&nodes))
            }
            Hir::And(_) | Hir::Not(_) if first.has_assertion() => Err(refuse(
                "an assertion inside an intersection is not supported",
                &span_of(first),
            )),
            _ => self.split_by_last(arena, first, tail, rest, before, left),
        }
    }

    /// `first` has no assertion but something after it has: split `first` by its last character.
    fn split_by_last(
        &mut self,
        arena: &mut Arena,
        first: &Hir,
        tail: &[Hir],
        rest: NodeId,
        before: Before,
        left: Option<NodeId>,
    ) -> Result<NodeId> {
        let head = self.plain(arena, first);
        let needs = Needs::of(tail);
        let new_left = match (left, needs.behind) {
            (Some(l), true) => Some(arena.cat(l, head)),
            _ => None,
        };
        if !needs.last {
            if new_left.is_none() {
                let after = self.sequence(arena, tail, rest, Before::Other, None)?;
                return Ok(arena.cat(head, after));
            }
            // A look-behind resolves the whole text up to it, `head` included.
            return self.sequence(arena, tail, rest, Before::Other, new_left);
        }
        if needs.behind {
            return Err(refuse(
                "a look-behind together with \\b or a line anchor is not supported",
                &tail
                    .iter()
                    .map(span_of)
                    .find(|s| !s.is_empty())
                    .unwrap_or(0..0),
            ));
        }
        let word = needs.word.clone().unwrap_or_else(CharSet::empty);
        let newline = CharSet::single('\n');
        let other = word.union(&newline).complement();
        let mut nodes = Vec::new();
        for (kind, set) in [
            (Before::Word, word.clone()),
            (Before::Newline, newline.minus(&word)),
            (Before::Other, other),
        ] {
            let ends = match first {
                Hir::Class(c) => {
                    let both = c.intersect(&set);
                    if both.is_empty() {
                        continue;
                    }
                    self.class(arena, &both)
                }
                _ => {
                    let any = self.any_text(arena);
                    let last = self.class(arena, &set);
                    let ends = arena.cat(any, last);
                    if head == any {
                        ends
                    } else {
                        arena.and(&[head, ends])
                    }
                }
            };
            let after = self.sequence(arena, tail, rest, kind, None)?;
            nodes.push(arena.cat(ends, after));
        }
        if arena.is_nullable(head) {
            nodes.push(self.sequence(arena, tail, rest, before, left)?);
        }
        Ok(arena.alt(&nodes))
    }

    fn assertion(
        &mut self,
        arena: &mut Arena,
        assertion: &Assertion,
        span: &Range<usize>,
        tail: &[Hir],
        rest: NodeId,
        before: Before,
        left: Option<NodeId>,
    ) -> Result<NodeId> {
        if let Assertion::Behind(positive, body) = assertion {
            let Some(left) = left else {
                return Err(refuse(
                    "a look-behind is only supported outside groups",
                    span,
                ));
            };
            if body.has_assertion() || tail.iter().any(|t| Needs::of(std::slice::from_ref(t)).last)
            {
                return Err(refuse(
                    "a look-behind together with other assertions is not supported",
                    span,
                ));
            }
            let any = self.any_text(arena);
            let body = self.plain(arena, body);
            let ends = arena.cat(any, body);
            let kept = if *positive {
                arena.and(&[left, ends])
            } else {
                arena.minus(left, ends)
            };
            if Needs::of(tail).behind {
                return self.sequence(arena, tail, rest, Before::Other, Some(kept));
            }
            let after = self.sequence(arena, tail, rest, Before::Other, None)?;
            return Ok(arena.cat(kept, after));
        }
        if left.is_some_and(|l| l != EMPTY) && Needs::of(tail).behind {
            return Err(refuse(
                "other assertions before a look-behind are not supported",
                span,
            ));
        }
        let after = self.sequence(arena, tail, rest, before, left)?;
        if after == NEVER {
            return Ok(NEVER);
        }
        Ok(match assertion {
            Assertion::TextStart => {
                if before == Before::Start {
                    after
                } else {
                    NEVER
                }
            }
            Assertion::LineStart => {
                if matches!(before, Before::Start | Before::Newline) {
                    after
                } else {
                    NEVER
                }
            }
            Assertion::TextEnd => arena.and(&[after, EMPTY]),
            Assertion::TextEndOrLastNewline => {
                let newline = self.class(arena, &CharSet::single('\n'));
                let end = arena.optional(newline);
                arena.and(&[after, end])
            }
            Assertion::LineEnd => {
                let any = self.any_text(arena);
                let newline = self.class(arena, &CharSet::single('\n'));
                let line = arena.cat(newline, any);
                let end = arena.optional(line);
                arena.and(&[after, end])
            }
            Assertion::WordBoundary(wanted, word) => {
                let any = self.any_text(arena);
                let head = self.class(arena, word);
                let starts = arena.cat(head, any);
                let next_is_word = (before == Before::Word) != *wanted;
                if next_is_word {
                    arena.and(&[after, starts])
                } else {
                    arena.minus(after, starts)
                }
            }
            Assertion::Ahead(positive, body) => {
                let any = self.any_text(arena);
                let ahead =
                    self.sequence(arena, std::slice::from_ref(&**body), any, before, None)?;
                if *positive {
                    arena.and(&[after, ahead])
                } else {
                    arena.minus(after, ahead)
                }
            }
            Assertion::Behind(..) => unreachable!("handled above"),
        })
    }
}

/// What some parts ask of the text before them.
struct Needs {
    /// The last character matters (`^`, `\b`).
    last: bool,
    /// A look-behind.
    behind: bool,
    word: Option<CharSet>,
}

impl Needs {
    fn of(parts: &[Hir]) -> Needs {
        let mut needs = Needs {
            last: false,
            behind: false,
            word: None,
        };
        for part in parts {
            needs.visit(part);
        }
        needs
    }

    fn visit(&mut self, hir: &Hir) {
        match hir {
            Hir::Empty | Hir::Class(_) => {}
            Hir::Cat(parts) | Hir::Alt(parts) | Hir::And(parts) => {
                parts.iter().for_each(|p| self.visit(p))
            }
            Hir::Repeat(body, ..) | Hir::Not(body) => self.visit(body),
            Hir::Assert(assertion, _) => match assertion {
                Assertion::TextStart | Assertion::LineStart => self.last = true,
                Assertion::WordBoundary(_, word) => {
                    self.last = true;
                    self.word = Some(
                        self.word
                            .as_ref()
                            .map_or_else(|| word.clone(), |w| w.union(word)),
                    );
                }
                Assertion::Ahead(_, body) => self.visit(body),
                Assertion::Behind(_, body) => {
                    self.behind = true;
                    self.visit(body);
                }
                Assertion::TextEnd | Assertion::TextEndOrLastNewline | Assertion::LineEnd => {}
            },
        }
    }
}

/// The span of the first assertion inside.
fn span_of(hir: &Hir) -> Range<usize> {
    match hir {
        Hir::Empty | Hir::Class(_) => 0..0,
        Hir::Cat(parts) | Hir::Alt(parts) | Hir::And(parts) => parts
            .iter()
            .map(span_of)
            .find(|s| !s.is_empty())
            .unwrap_or(0..0),
        Hir::Repeat(body, ..) | Hir::Not(body) => span_of(body),
        Hir::Assert(_, span) => span.clone(),
    }
}

fn refuse(message: &str, span: &Range<usize>) -> GrammarError {
    GrammarError::syntax(message, span.clone(), "")
}

// ------------------------------------------------------------ spelling

/// Byte ranges of one length, one after the other.
type Ranges = Vec<(u8, u8)>;

fn utf8(arena: &mut Arena, set: &CharSet) -> NodeId {
    let mut sequences = Vec::new();
    for &(low, high) in set.ranges() {
        utf8_ranges(low, high, &mut sequences);
    }
    from_sequences(arena, &sequences)
}

/// Split a range of code points so that each part is a product of byte ranges (RFC 3629).
fn utf8_ranges(low: u32, high: u32, out: &mut Vec<Ranges>) {
    for (first, last) in [
        (0, 0x7F),
        (0x80, 0x7FF),
        (0x800, 0xFFFF),
        (0x1_0000, 0x10_FFFF),
    ] {
        let (l, h) = (low.max(first), high.min(last));
        if l > h {
            continue;
        }
        let width = match last {
            0x7F => {
                out.push(vec![(l as u8, h as u8)]);
                continue;
            }
            0x7FF => 2,
            0xFFFF => 3,
            _ => 4,
        };
        let digits = |c: u32| -> Vec<u8> {
            let mut buffer = [0u8; 4];
            let mut c = c;
            for i in (0..width).rev() {
                buffer[i] = 0x80 | (c & 0x3F) as u8;
                c >>= 6;
            }
            // The lead byte holds what is left under its length mark.
            let top = [0, 0, 0xC0, 0xE0, 0xF0][width];
            buffer[0] = top | (buffer[0] & 0x3F);
            buffer[..width].to_vec()
        };
        product_ranges(&digits(l), &digits(h), 0x80, 0xBF, out);
    }
}

/// All strings between `low` and `high` (same length) as products of byte ranges; below the first
/// byte, digits run from `min` to `max`.
fn product_ranges(low: &[u8], high: &[u8], min: u8, max: u8, out: &mut Vec<Ranges>) {
    let n = low.len();
    if n == 1 {
        out.push(vec![(low[0], high[0])]);
        return;
    }
    let with_head = |head: (u8, u8), inner: Vec<Ranges>, out: &mut Vec<Ranges>| {
        for mut tail in inner {
            tail.insert(0, head);
            out.push(tail);
        }
    };
    if low[0] == high[0] {
        let mut inner = Vec::new();
        product_ranges(&low[1..], &high[1..], min, max, &mut inner);
        with_head((low[0], low[0]), inner, out);
        return;
    }
    let (mut from, mut to) = (low[0], high[0]);
    if low[1..].iter().any(|&b| b != min) {
        let mut inner = Vec::new();
        product_ranges(&low[1..], &vec![max; n - 1], min, max, &mut inner);
        with_head((from, from), inner, out);
        from += 1;
    }
    let partial_end = high[1..].iter().any(|&b| b != max);
    if partial_end {
        to -= 1;
    }
    if from <= to {
        let mut full = vec![(from, to)];
        full.extend(std::iter::repeat_n((min, max), n - 1));
        out.push(full);
    }
    if partial_end {
        let mut inner = Vec::new();
        product_ranges(&vec![min; n - 1], &high[1..], min, max, &mut inner);
        with_head((high[0], high[0]), inner, out);
    }
}

/// A deterministic tree over the sequences: bytes with equal tails share an edge.
fn from_sequences(arena: &mut Arena, sequences: &[Ranges]) -> NodeId {
    let mut tails: Vec<Vec<&[(u8, u8)]>> = vec![Vec::new(); 256];
    for s in sequences {
        for b in s[0].0..=s[0].1 {
            tails[b as usize].push(&s[1..]);
        }
    }
    tree(arena, tails, 0x00..=0xFF)
}

fn tree(
    arena: &mut Arena,
    tails: Vec<Vec<&[(u8, u8)]>>,
    bytes: std::ops::RangeInclusive<u8>,
) -> NodeId {
    let mut groups: FxHashMap<Vec<&[(u8, u8)]>, ByteSet> = FxHashMap::default();
    for b in bytes {
        let t = &tails[b as usize];
        if !t.is_empty() {
            groups.entry(t.clone()).or_default().insert(b);
        }
    }
    let mut groups: Vec<(Vec<&[(u8, u8)]>, ByteSet)> = groups.into_iter().collect();
    groups.sort_unstable();
    let mut branches = Vec::with_capacity(groups.len());
    for (below, set) in groups {
        let head = arena.set(set);
        let mut next: Vec<Vec<&[(u8, u8)]>> = Vec::new();
        let mut ends = false;
        for s in below {
            match s.first() {
                None => ends = true,
                Some(&(low, high)) => {
                    if next.is_empty() {
                        next = vec![Vec::new(); 256];
                    }
                    for b in low..=high {
                        next[b as usize].push(&s[1..]);
                    }
                }
            }
        }
        let tail = if next.is_empty() {
            EMPTY
        } else {
            tree(arena, next, 0..=255)
        };
        let tail = if ends && tail != EMPTY {
            arena.optional(tail)
        } else {
            tail
        };
        branches.push(arena.cat(head, tail));
    }
    arena.alt(&branches)
}

fn needs_escape() -> CharSet {
    CharSet::new([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
}

const SHORT: [(char, u8); 8] = [
    ('"', b'"'),
    ('\\', b'\\'),
    ('/', b'/'),
    ('\u{8}', b'b'),
    ('\u{c}', b'f'),
    ('\n', b'n'),
    ('\r', b'r'),
    ('\t', b't'),
];

/// Every JSON spelling of the members of `set` (RFC 8259, section 7).
fn json_character(arena: &mut Arena, set: &CharSet) -> NodeId {
    let raw = utf8(arena, &set.minus(&needs_escape()));
    let mut short = ByteSet::EMPTY;
    for (c, letter) in SHORT {
        if set.contains(c) {
            short.insert(letter);
        }
    }
    let mut escapes = vec![arena.set(short)];
    let basic = set.intersect(&CharSet::new([(0, 0xFFFF)]));
    let u = arena.byte(b'u');
    if !basic.is_empty() {
        let mut sequences = Vec::new();
        for &(low, high) in basic.ranges() {
            product_ranges(&nibbles(low), &nibbles(high), 0, 15, &mut sequences);
        }
        let digits = hex_sequences(arena, &sequences);
        escapes.push(arena.cat(u, digits));
    }
    let astral = set.intersect(&CharSet::new([(0x1_0000, 0x10_FFFF)]));
    if !astral.is_empty() {
        // Eight nibbles: high and low surrogate; the low one runs over its 1,024 values.
        let mut parts: FxHashMap<(u32, u32), Vec<(u32, u32)>> = FxHashMap::default();
        for &(low, high) in astral.ranges() {
            let (l, h) = (low - 0x1_0000, high - 0x1_0000);
            let (first, last) = (l >> 10, h >> 10);
            if first == last {
                parts
                    .entry((l & 0x3FF, h & 0x3FF))
                    .or_default()
                    .push((first, first));
                continue;
            }
            let (mut from, mut to) = (first, last);
            if l & 0x3FF != 0 {
                parts
                    .entry((l & 0x3FF, 0x3FF))
                    .or_default()
                    .push((first, first));
                from += 1;
            }
            if h & 0x3FF != 0x3FF {
                parts.entry((0, h & 0x3FF)).or_default().push((last, last));
                to -= 1;
            }
            if from <= to {
                parts.entry((0, 0x3FF)).or_default().push((from, to));
            }
        }
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.sort_unstable();
        let middle = arena.literal(b"\\u");
        for (low, highs) in parts {
            let mut sequences = Vec::new();
            product_ranges(
                &nibbles(0xDC00 + low.0),
                &nibbles(0xDC00 + low.1),
                0,
                15,
                &mut sequences,
            );
            let low = hex_sequences(arena, &sequences);
            let mut sequences = Vec::new();
            for (first, last) in highs {
                product_ranges(
                    &nibbles(0xD800 + first),
                    &nibbles(0xD800 + last),
                    0,
                    15,
                    &mut sequences,
                );
            }
            let high = hex_sequences(arena, &sequences);
            let pair = arena.concat(&[u, high, middle, low]);
            escapes.push(pair);
        }
    }
    let escaped = arena.alt(&escapes);
    let backslash = arena.byte(b'\\');
    let escaped = arena.cat(backslash, escaped);
    arena.alt(&[raw, escaped])
}

fn json_canonical(arena: &mut Arena, set: &CharSet) -> NodeId {
    let raw = utf8(arena, &set.minus(&needs_escape()));
    let mut escapes = Vec::new();
    let mut short = ByteSet::EMPTY;
    let mut long = Vec::new();
    for &(low, high) in set.intersect(&needs_escape()).ranges() {
        for c in (low..=high).filter_map(char::from_u32) {
            match SHORT.iter().find(|s| s.0 == c) {
                Some(&(_, letter)) => short.insert(letter),
                None => long.push(format!("u{:04x}", c as u32)),
            }
        }
    }
    escapes.push(arena.set(short));
    escapes.push(arena.literals(&long));
    let escaped = arena.alt(&escapes);
    let backslash = arena.byte(b'\\');
    let escaped = arena.cat(backslash, escaped);
    arena.alt(&[raw, escaped])
}

fn nibbles(c: u32) -> [u8; 4] {
    [
        (c >> 12 & 15) as u8,
        (c >> 8 & 15) as u8,
        (c >> 4 & 15) as u8,
        (c & 15) as u8,
    ]
}

/// Sequences of nibble ranges as hex digits of either case.
fn hex_sequences(arena: &mut Arena, sequences: &[Ranges]) -> NodeId {
    let mut spelled: Vec<Ranges> = Vec::new();
    for s in sequences {
        spelled.push(s.clone());
    }
    let node = from_sequences(arena, &spelled);
    hex_digits(arena, node, &mut FxHashMap::default())
}

/// Replace sets of nibble values (bytes 0 to 15) by sets of hex digits.
fn hex_digits(arena: &mut Arena, node: NodeId, memo: &mut FxHashMap<NodeId, NodeId>) -> NodeId {
    if let Some(&known) = memo.get(&node) {
        return known;
    }
    let out = match arena.node(node) {
        super::Node::Set(set) => {
            let mut digits = ByteSet::EMPTY;
            for v in set.iter() {
                if v < 10 {
                    digits.insert(b'0' + v);
                } else {
                    digits.insert(b'a' + v - 10);
                    digits.insert(b'A' + v - 10);
                }
            }
            arena.set(digits)
        }
        super::Node::Cat(a, b) => {
            let a = hex_digits(arena, a, memo);
            let b = hex_digits(arena, b, memo);
            arena.cat(a, b)
        }
        super::Node::Alt(parts) => {
            let parts = parts.to_vec();
            let parts: Vec<NodeId> = parts
                .into_iter()
                .map(|p| hex_digits(arena, p, memo))
                .collect();
            arena.alt(&parts)
        }
        _ => node,
    };
    memo.insert(node, out);
    out
}
