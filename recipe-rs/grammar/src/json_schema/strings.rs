//! Strings: their languages with lengths, and the spelling of a string in JSON text.
//!
//! Characters are counted and matched decoded, so every escape of a character is that character. A prefix that stops
//! inside a character (in UTF-8 or in an escape) stands for a range of characters, and lives if one of them may follow.
//! An escape of a lone surrogate is no character and never allowed.

use std::sync::Arc;

use super::chardfa::{CharDfa, INFINITE};
use super::error::SchemaError;
use super::shapes::StringSet;
use super::terms::{Terms, NEVER};
use crate::hash::{mix, Fingerprint};

/// In place of a count of characters: the lower bound is reached, the upper one further than any token
/// reaches.
pub(crate) const FAR: u32 = u32::MAX;

/// States of a product of patterns.
pub(crate) const MAX_DFA_STATES: usize = 60_000;

/// Which lengths complete each state: bit sets of states by length, eventually periodic.
#[derive(Debug)]
struct Lengths {
    rows: Vec<Box<[u64]>>,
    /// Row `first + i` equals row `first + period + i`.
    first: usize,
    period: usize,
}

impl Lengths {
    fn new(dfa: &CharDfa, max: Option<u32>) -> Result<Self, SchemaError> {
        let words = dfa.len().div_ceil(64);
        let mut row: Box<[u64]> = vec![0; words].into();
        for q in 0..dfa.len() {
            if dfa.accepts(q as u32) {
                row[q / 64] |= 1 << (q % 64);
            }
        }
        let edges: usize = (0..dfa.len()).map(|q| dfa.edges(q as u32).len()).sum();
        let mut seen = std::collections::HashMap::from([(row.clone(), 0usize)]);
        let mut rows = vec![row];
        let (mut first, mut period) = (0, 0);
        while period == 0 && max.is_none_or(|m| rows.len() <= m as usize) {
            if rows.len() * edges > 40_000_000 {
                return Err(SchemaError::limit(
                    "",
                    "lengths of strings that a pattern allows",
                    (rows.len() * edges) as u64,
                    40_000_000,
                ));
            }
            let last = &rows[rows.len() - 1];
            let mut next: Box<[u64]> = vec![0; words].into();
            for q in 0..dfa.len() {
                if dfa
                    .edges(q as u32)
                    .iter()
                    .any(|e| last[e.target as usize / 64] >> (e.target % 64) & 1 == 1)
                {
                    next[q / 64] |= 1 << (q % 64);
                }
            }
            if let Some(&i) = seen.get(&next) {
                (first, period) = (i, rows.len() - i);
            } else {
                seen.insert(next.clone(), rows.len());
                rows.push(next);
            }
        }
        Ok(Lengths {
            rows,
            first,
            period,
        })
    }

    fn has(&self, q: u32, len: usize) -> bool {
        let i = if len < self.rows.len() {
            len
        } else if self.period > 0 {
            self.first + (len - self.first) % self.period
        } else {
            return false;
        };
        self.rows[i][q as usize / 64] >> (q % 64) & 1 == 1
    }

    /// The smallest number of further characters in `low..=high` that completes `q`.
    fn shortest(&self, q: u32, low: usize, high: Option<usize>) -> Option<usize> {
        let last = high
            .unwrap_or(usize::MAX)
            .min(low + self.rows.len() + self.period);
        (low..=last).find(|&k| self.has(q, k))
    }
}

/// A finished string shape: never empty.
#[derive(Debug)]
pub(crate) struct StringShape {
    /// `None`: all strings.
    pub(crate) dfa: Option<Arc<CharDfa>>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    lengths: Option<Lengths>,
}

impl StringShape {
    pub(crate) fn new(terms: &Terms, set: &StringSet) -> Result<Option<Self>, SchemaError> {
        let count = |s: &str| s.chars().count() as u64;
        let (min, max) = (
            set.min.min(u64::from(u32::MAX)) as u32,
            set.max.map(|m| m.min(u64::from(u32::MAX - 1)) as u32),
        );
        if max.is_some_and(|m| m < min) {
            return Ok(None);
        }
        if let Some(f) = &set.finite {
            let fits = |s: &&Arc<str>| {
                let n = count(s);
                n >= set.min
                    && set.max.is_none_or(|m| n <= m)
                    && !set.excluded.contains(s)
                    && set
                        .langs
                        .iter()
                        .all(|(l, sign)| terms.lang(*l).contains(s) == *sign)
            };
            let dfa = CharDfa::strings(f.iter().filter(fits).map(|s| &**s));
            return Ok((!dfa.is_empty()).then(|| StringShape {
                dfa: Some(Arc::new(dfa)),
                min: 0,
                max: None,
                lengths: None,
            }));
        }
        let excluded =
            (!set.excluded.is_empty()).then(|| CharDfa::strings(set.excluded.iter().map(|s| &**s)));
        let dfa = match (&set.langs[..], &excluded) {
            ([], None) => None,
            ([(l, true)], None) => Some(Arc::clone(terms.lang(*l))),
            (langs, _) => {
                let all = CharDfa::all();
                let mut parts: Vec<(&CharDfa, bool)> =
                    langs.iter().map(|(l, s)| (&**terms.lang(*l), *s)).collect();
                parts.extend(excluded.iter().map(|e| (e, false)));
                if parts.iter().all(|p| !p.1) {
                    parts.push((&all, true));
                }
                Some(Arc::new(CharDfa::product(
                    &parts,
                    MAX_DFA_STATES,
                    "patterns and formats of one string together",
                )?))
            }
        };
        let mut shape = StringShape {
            dfa,
            min,
            max,
            lengths: None,
        };
        if let Some(d) = &shape.dfa {
            if d.is_empty() {
                return Ok(None);
            }
            if min > 0 || max.is_some() {
                let l = Lengths::new(d, max)?;
                if l.shortest(0, min as usize, max.map(|m| m as usize))
                    .is_none()
                {
                    return Ok(None);
                }
                shape.lengths = Some(l);
            }
        }
        Ok(Some(shape))
    }

    /// The language with its lengths as one automaton.
    pub(crate) fn folded(&self) -> Result<Arc<CharDfa>, SchemaError> {
        let bound = self.max.unwrap_or(self.min) as usize;
        if bound > MAX_DFA_STATES {
            return Err(SchemaError::limit(
                "",
                "length of property names",
                bound as u64,
                MAX_DFA_STATES as u64,
            ));
        }
        match &self.dfa {
            None => Ok(Arc::new(CharDfa::lengths(self.min, self.max))),
            Some(d) if self.lengths.is_none() => Ok(Arc::clone(d)),
            Some(d) => {
                let l = CharDfa::lengths(self.min, self.max);
                Ok(Arc::new(CharDfa::product(
                    &[(d, true), (&l, true)],
                    MAX_DFA_STATES,
                    "property names",
                )?))
            }
        }
    }

    /// Whether a string can end in this state.
    pub(crate) fn accepts(&self, q: u32, n: u32) -> bool {
        n >= self.min
            && (n == FAR || self.max.is_none_or(|m| n <= m))
            && self.dfa.as_ref().is_none_or(|d| d.accepts(q))
    }

    /// The character count that matters after one more character.
    fn bump(&self, n: u32) -> u32 {
        match self.max {
            _ if n == FAR => FAR,
            Some(_) => n + 1,
            None => (n + 1).min(self.min),
        }
    }

    fn feasible(&self, q: u32, n: u32) -> bool {
        if n == FAR {
            return true;
        }
        if self.max.is_some_and(|m| n > m) {
            return false;
        }
        match &self.lengths {
            None => true,
            Some(l) => l
                .shortest(
                    q,
                    self.min.saturating_sub(n) as usize,
                    self.max.map(|m| (m - n) as usize),
                )
                .is_some(),
        }
    }

    /// The state after one character, if the string can still be completed.
    pub(crate) fn step(&self, q: u32, n: u32, c: u32) -> Option<(u32, u32)> {
        let q = match &self.dfa {
            None => 0,
            Some(d) => d.step(q, c)?,
        };
        let n = self.bump(n);
        self.feasible(q, n).then_some((q, n))
    }

    /// Whether some character of the range may come next.
    pub(crate) fn any_in(&self, q: u32, n: u32, low: u32, high: u32) -> bool {
        match &self.dfa {
            None => (low < 0xd800 || high > 0xdfff) && self.feasible(0, self.bump(n)),
            Some(d) => {
                let n = self.bump(n);
                d.edges_in(q, low, high)
                    .iter()
                    .any(|e| self.feasible(e.target, n))
            }
        }
    }

    /// A superset of the characters that may come next, as ranges.
    pub(crate) fn next_ranges(&self, q: u32, n: u32) -> Vec<(u32, u32)> {
        if n != FAR && self.max.is_some_and(|m| n >= m) {
            return Vec::new();
        }
        match &self.dfa {
            None => super::chardfa::SCALARS.to_vec(),
            Some(d) => d.edges(q).iter().map(|e| (e.low, e.high)).collect(),
        }
    }

    /// A short text that completes the string, without the closing quote.
    pub(crate) fn completion(&self, q: u32, n: u32) -> Option<String> {
        let n = if n == FAR { self.min } else { n };
        let Some(d) = &self.dfa else {
            return Some("a".repeat(self.min.saturating_sub(n) as usize));
        };
        let mut out = String::new();
        let mut q = q;
        match &self.lengths {
            None => {
                let dist = d.distance();
                while dist[q as usize] > 0 {
                    let e = d
                        .edges(q)
                        .iter()
                        .filter(|e| dist[e.target as usize] < dist[q as usize])
                        .min_by_key(|e| plainness(e.low, e.high))?;
                    push_escaped(&mut out, nice_char(e.low, e.high));
                    q = e.target;
                }
            }
            Some(l) => {
                let mut k = l.shortest(
                    q,
                    self.min.saturating_sub(n) as usize,
                    self.max.map(|m| (m - n) as usize),
                )?;
                while k > 0 {
                    let e = d
                        .edges(q)
                        .iter()
                        .filter(|e| l.has(e.target, k - 1))
                        .min_by_key(|e| plainness(e.low, e.high))?;
                    push_escaped(&mut out, nice_char(e.low, e.high));
                    q = e.target;
                    k -= 1;
                }
            }
        }
        Some(out)
    }

    /// Length in bytes of a short text, quotes included.
    pub(crate) fn cost(&self) -> u64 {
        match &self.dfa {
            None => u64::from(self.min) + 2,
            Some(_) => self.completion(0, 0).map_or(NEVER, |s| s.len() as u64 + 2),
        }
    }

    /// How many strings, [`INFINITE`] when there is no practical bound.
    pub(crate) fn count(&self) -> u64 {
        match (&self.dfa, self.max) {
            (None, Some(0)) => 1,
            (None, _) => INFINITE,
            (Some(d), None) => d.counts()[0],
            (Some(d), Some(max)) => {
                if max > 64 {
                    return d.counts()[0];
                }
                let mut ways = vec![0u64; d.len()];
                ways[0] = 1;
                let mut total = 0u64;
                for n in 0..=max {
                    let mut next = vec![0u64; d.len()];
                    for (q, &way) in ways.iter().enumerate() {
                        if way == 0 {
                            continue;
                        }
                        if n >= self.min && d.accepts(q as u32) {
                            total = total.saturating_add(way);
                        }
                        for e in d.edges(q as u32) {
                            let t = &mut next[e.target as usize];
                            *t =
                                t.saturating_add(way.saturating_mul(u64::from(e.high - e.low + 1)));
                        }
                    }
                    ways = next;
                }
                total
            }
        }
    }

    /// Whether lengths do not interact with the automaton after `n` characters.
    pub(crate) fn plain(&self, n: u32) -> bool {
        n == FAR || self.lengths.is_none()
    }

    /// A state that behaves alike for the next `horizon` characters.
    pub(crate) fn saturated(&self, q: u32, n: u32, horizon: u32) -> (u32, u32) {
        let alike = || {
            self.dfa
                .as_ref()
                .map_or(q, |d| d.alike(horizon)[q as usize])
        };
        if n == FAR {
            return (alike(), FAR);
        }
        if n >= self.min {
            // The way to the end that the automaton needs must fit too.
            let needed = match (&self.lengths, &self.dfa) {
                (Some(_), Some(d)) => d.distance().iter().copied().max().unwrap_or(0),
                _ => 0,
            };
            let far = u64::from(horizon) + u64::from(needed);
            return match self.max {
                Some(m) if u64::from(m.saturating_sub(n)) <= far => (q, n),
                _ => (alike(), FAR),
            };
        }
        // Far from the lower bound, and so from the upper one.
        if self.lengths.is_none() && n <= self.min.saturating_sub(horizon + 1) {
            return (q, 0);
        }
        (q, n)
    }

    /// The state after every character of a range, if it is the same for all.
    pub(crate) fn one_target(&self, q: u32, low: u32, high: u32) -> Option<u32> {
        match &self.dfa {
            None => Some(0),
            Some(d) => match d.edges_in(q, low, high) {
                [e] if e.low <= low && high <= e.high => Some(e.target),
                _ => None,
            },
        }
    }

    /// Determines the language of a state.
    pub(crate) fn fingerprint(&self, q: u32, n: u32) -> Fingerprint {
        if self.is_free(q, n) {
            return mix(0x53, 1, 0);
        }
        let dfa = self.dfa.as_ref().map_or(0, |d| d.fingerprint());
        let bounds = u128::from(self.min) << 64 | u128::from(self.max.map_or(u64::MAX, u64::from));
        let at = u128::from(q) << 32 | u128::from(n);
        mix(0x54, mix(0x55, dfa, bounds), at)
    }

    /// Whether every text completes the string from here.
    pub(crate) fn is_free(&self, q: u32, n: u32) -> bool {
        (n == FAR || (self.min == 0 && self.max.is_none()))
            && self
                .dfa
                .as_ref()
                .is_none_or(|d| d.accepts(q) && is_sink(d, q))
    }

    /// Where all but single strings are allowed: the characters after which it is still to be seen whether
    /// the string is one of these; after all others every text completes it.
    pub(crate) fn told_apart(&self, q: u32, n: u32) -> Option<Vec<u32>> {
        let d = self.dfa.as_ref()?;
        if (n != FAR && (self.min > 0 || self.max.is_some())) || d.len() > 10_000 {
            return None;
        }
        let free = |t: u32| d.accepts(t) && is_sink(d, t);
        let whole = |t: u32| {
            d.edges(t)
                .iter()
                .try_fold(0u32, |from, e| {
                    let fits = e.low == from || (from == 0xd800 && e.low == 0xe000);
                    fits.then_some(e.high + 1)
                })
                .is_some_and(|end| end == 0x11_0000)
        };
        let mut heads = Vec::new();
        let (mut seen, mut queue) = (vec![false; d.len()], vec![q]);
        while let Some(t) = queue.pop() {
            if std::mem::replace(&mut seen[t as usize], true) || free(t) {
                continue;
            }
            if !whole(t) {
                return None;
            }
            for e in d.edges(t).iter().filter(|e| !free(e.target)) {
                if e.high - e.low > 8 {
                    return None;
                }
                queue.push(e.target);
                if t == q {
                    heads.extend(e.low..=e.high);
                }
            }
        }
        Some(heads)
    }

    /// Whether every character leads back to the same state of the automaton.
    pub(crate) fn loops(&self, q: u32) -> bool {
        match &self.dfa {
            None => true,
            Some(d) => is_sink(d, q),
        }
    }
}

/// Whether all characters lead from `q` to `q`.
pub(crate) fn is_sink(d: &CharDfa, q: u32) -> bool {
    matches!(d.edges(q), [a, b] if a.target == q && b.target == q && (a.low, a.high) == (0, 0xd7ff) && (b.low, b.high) == (0xe000, 0x10_ffff))
}

fn plainness(low: u32, high: u32) -> u32 {
    let c = nice_char(low, high) as u32;
    match c {
        0x61..=0x7a => 0,
        0x30..=0x39 => 1,
        0x20..=0x7e => 2,
        _ => 3,
    }
}

/// A character of the range that looks well in a completion.
fn nice_char(low: u32, high: u32) -> char {
    for (a, b) in [(0x61, 0x7a), (0x30, 0x39), (0x41, 0x5a), (0x20, 0x7e)] {
        let c = low.max(a);
        if c <= high.min(b) {
            if c == 0x22 && high > 0x22 {
                return '#';
            }
            return char::from_u32(c).unwrap_or('a');
        }
    }
    char::from_u32(low).unwrap_or('\u{fffd}')
}

/// Appends a character as it stands in a JSON string.
pub(crate) fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push(c),
    }
}

/// What one byte of a string's JSON text does.
pub(crate) enum Decoded {
    /// Inside a character now; the new escape state.
    Partial(u32),
    /// A whole character.
    Char(u32),
    /// The closing quote.
    Quote,
}

const BODY: u32 = 0;
const UTF8_2: u32 = 1;
const UTF8_3: u32 = 2;
const UTF8_4: u32 = 3;
const BACKSLASH: u32 = 4;
const HEX: u32 = 5;
const HIGH: u32 = 6;
const LOW_HEX: u32 = 7;

fn pack(mode: u32, count: u32, rest: u32) -> u32 {
    mode | count << 3 | rest << 6
}

/// Reads one byte of a JSON string's text. `esc` is 0 between characters; `any` says whether some character of a range
/// may come next.
pub(crate) fn decode(esc: u32, byte: u8, any: impl Fn(u32, u32) -> bool) -> Option<Decoded> {
    let (mode, count, rest) = (esc & 7, esc >> 3 & 7, esc >> 6);
    let whole = |c: u32| any(c, c).then_some(Decoded::Char(c));
    let partial = |alive: bool, esc: u32| alive.then_some(Decoded::Partial(esc));
    match mode {
        BODY => match byte {
            b'"' => Some(Decoded::Quote),
            b'\\' => partial(any(0, 0x10_ffff), pack(BACKSLASH, 0, 0)),
            0x20..=0x7f => whole(u32::from(byte)),
            0xc2..=0xdf => utf8(UTF8_2, 1, u32::from(byte & 0x1f), &any),
            0xe0..=0xef => utf8(UTF8_3, 2, u32::from(byte & 0x0f), &any),
            0xf0..=0xf4 => utf8(UTF8_4, 3, u32::from(byte & 0x07), &any),
            _ => None,
        },
        UTF8_2 | UTF8_3 | UTF8_4 => {
            if !(0x80..=0xbf).contains(&byte) {
                return None;
            }
            utf8(mode, count - 1, rest << 6 | u32::from(byte & 0x3f), &any)
        }
        BACKSLASH => match byte {
            b'"' | b'\\' | b'/' => whole(u32::from(byte)),
            b'b' => whole(8),
            b'f' => whole(12),
            b'n' => whole(10),
            b'r' => whole(13),
            b't' => whole(9),
            b'u' => partial(any(0, 0x10_ffff), pack(HEX, 0, 0)),
            _ => None,
        },
        HEX => {
            let v = rest << 4 | (byte as char).to_digit(16)?;
            let n = count + 1;
            if n == 4 {
                return match v {
                    0xd800..=0xdbff => {
                        let low = 0x10000 + ((v - 0xd800) << 10);
                        partial(any(low, low + 0x3ff), pack(HIGH, 0, v - 0xd800))
                    }
                    0xdc00..=0xdfff => None,
                    _ => whole(v),
                };
            }
            let shift = 4 * (4 - n);
            let (low, high) = (v << shift, ((v + 1) << shift) - 1);
            let mut alive = (low < 0xd800 && any(low, high.min(0xd7ff)))
                || (high > 0xdfff && any(low.max(0xe000), high));
            let (a, b) = (low.max(0xd800), high.min(0xdbff));
            alive = alive
                || (a <= b
                    && any(
                        0x10000 + ((a - 0xd800) << 10),
                        0x10000 + ((b - 0xd800) << 10) + 0x3ff,
                    ));
            partial(alive, pack(HEX, n, v))
        }
        HIGH => match (count, byte) {
            (0, b'\\') => Some(Decoded::Partial(pack(HIGH, 1, rest))),
            (1, b'u') => Some(Decoded::Partial(pack(LOW_HEX, 0, rest << 16))),
            _ => None,
        },
        _ => {
            let (high, v) = (
                rest >> 16,
                (rest & 0xffff) << 4 | (byte as char).to_digit(16)?,
            );
            let n = count + 1;
            let base = 0x10000 + (high << 10);
            if n == 4 {
                return (0xdc00..=0xdfff)
                    .contains(&v)
                    .then(|| whole(base + (v - 0xdc00)))
                    .flatten();
            }
            let shift = 4 * (4 - n);
            let (a, b) = (
                (v << shift).max(0xdc00),
                (((v + 1) << shift) - 1).min(0xdfff),
            );
            partial(
                a <= b && any(base + (a - 0xdc00), base + (b - 0xdc00)),
                pack(LOW_HEX, n, high << 16 | v),
            )
        }
    }
}

/// Inside a character's UTF-8 where any continuation bytes may follow: how many, and the characters they lead to.
pub(crate) fn partial_range(esc: u32) -> Option<(u32, u32, u32)> {
    let (mode, left, acc) = (esc & 7, esc >> 3 & 7, esc >> 6);
    let (least, most) = match mode {
        UTF8_2 => (0x80, 0x7ff),
        UTF8_3 => (0x800, 0xffff),
        UTF8_4 => (0x10000, 0x10_ffff),
        _ => return None,
    };
    let (low, high) = (acc << (6 * left), ((acc + 1) << (6 * left)) - 1);
    let whole = low >= least && high <= most && (high < 0xd800 || low > 0xdfff);
    whole.then_some((left, low, high))
}

/// Reads one byte of a string that is written as it is: no escapes, no quotes.
pub(crate) fn decode_raw(esc: u32, byte: u8, any: impl Fn(u32, u32) -> bool) -> Option<Decoded> {
    if esc == 0 && byte < 0x80 {
        let c = u32::from(byte);
        return any(c, c).then_some(Decoded::Char(c));
    }
    decode(esc, byte, any)
}

fn utf8(mode: u32, left: u32, acc: u32, any: &impl Fn(u32, u32) -> bool) -> Option<Decoded> {
    let (least, most) = match mode {
        UTF8_2 => (0x80, 0x7ff),
        UTF8_3 => (0x800, 0xffff),
        _ => (0x10000, 0x10_ffff),
    };
    let low = (acc << (6 * left)).max(least);
    let high = (((acc + 1) << (6 * left)) - 1).min(most);
    if low > high || (low >= 0xd800 && high <= 0xdfff) || !any(low, high) {
        return None;
    }
    Some(if left == 0 {
        Decoded::Char(acc)
    } else {
        Decoded::Partial(pack(mode, left, acc))
    })
}

/// Bytes that bring an unfinished character to an end with some character of `pick`'s choice: (bytes, character).
pub(crate) fn finish_char(
    esc: u32,
    any: impl Fn(u32, u32) -> bool + Copy,
) -> Option<(Vec<u8>, u32)> {
    let mut esc = esc;
    let mut out = Vec::new();
    let order: Vec<u8> = b"nabcdef0123456789tr/u\\\""
        .iter()
        .copied()
        .chain(0x80..=0xbf)
        .chain(b"ABCDEF".iter().copied())
        .collect();
    for _ in 0..16 {
        let mut next = None;
        for &b in &order {
            if esc & 7 == BACKSLASH && b == b'u' && next.is_some() {
                continue;
            }
            match decode(esc, b, any) {
                Some(Decoded::Char(c)) => {
                    out.push(b);
                    return Some((out, c));
                }
                Some(Decoded::Partial(e)) if next.is_none() => next = Some((b, e)),
                _ => {}
            }
        }
        let (b, e) = next?;
        out.push(b);
        esc = e;
    }
    None
}
