//! The machine that reads JSON text of a term: values, strings, numbers, arrays and objects as states of a few words.
//!
//! ```text
//! VALUE ─► LITERAL / STRING / NUMBER ─► DONE
//!       ─► ARRAY  ⇄ call VALUE            (unique items: read in place, so that their text is known)
//!       ─► OBJECT ─► KEY ─► COLON ─► MEMBER, calls VALUE, back to OBJECT
//! ```
//! A value of a union of shapes is one thread for each shape; a key or item that may count in several ways is one
//! thread for each. Every state yielded can be completed: `objects`, `arrays`, `strings` and `numbers` say so.

use std::sync::Arc;

use super::arrays::{ArrayShape, ArrayState};
use super::chardfa::INFINITE;
use super::error::SchemaError;
use super::json::{self, Value};
use super::keys::OFF;
use super::numbers::NumberPrefix;
use super::objects::{
    bit, members, text_of, with_member, Memory, ObjectShape, ObjectState, FRESH, NONE,
};
use super::shapes::{Atom, Kind, TermId, FALSE, KINDS};
use super::strings::{decode, finish_char, push_escaped, Decoded, FAR};
use super::terms::{add, Terms, Walk, NEVER};
use super::Whitespace;
use crate::bytes::ByteSet;
use crate::complete::Piece;
use crate::engine::DEAD;
use crate::hash::Fingerprint;
use crate::machine::{Body, Callee, Cx, Finish, Machine, MachineId, Moves, Successors};
use crate::regex::NodeId;
use crate::vocab::TokenFacts;

const ROOT: u32 = 0;
const ROOT_END: u32 = 1;
pub(super) const VALUE: u32 = 2;
pub(super) const LITERAL: u32 = 3;
pub(super) const STRING: u32 = 4;
pub(super) const NUMBER: u32 = 5;
pub(super) const ARRAY: u32 = 6;
pub(super) const UNIQUE: u32 = 7;
pub(super) const OBJECT: u32 = 8;
pub(super) const KEY: u32 = 9;
pub(super) const COLON: u32 = 10;
pub(super) const MEMBER: u32 = 11;
const DONE: u32 = 12;
pub(super) const QUOTE: u32 = 13;
pub(super) const KEY_QUOTE: u32 = 14;

/// Marks keys of what `allowed` remembers.
const ALLOWED: u32 = u32::MAX;

/// After the opening bracket.
const OPEN: u32 = 0;
/// After an item or member.
pub(super) const AFTER: u32 = 1;
/// After a comma, a space still to come.
const COMMA: u32 = 2;
/// After a comma (and its space).
const NEXT: u32 = 3;

const LITERALS: [&str; 3] = ["null", "false", "true"];

impl Memory for Cx<'_> {
    fn intern(&mut self, words: &[u32]) -> u32 {
        Cx::intern(self, words)
    }

    fn get(&self, id: u32) -> &[u32] {
        Cx::get(self, id)
    }
}

/// Reads the JSON texts of one schema.
pub(crate) struct JsonMachine {
    pub(crate) terms: Arc<Terms>,
    pub(crate) root: TermId,
    pub(crate) id: MachineId,
    /// One character of a JSON string, any spelling.
    pub(crate) unit: NodeId,
    pub(crate) byte_sets: Vec<ByteSet>,
}

impl std::fmt::Debug for JsonMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonMachine")
            .field("root", &self.root)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

pub(super) fn object_words(phase: u32, shape: u32, st: &ObjectState) -> Vec<u32> {
    let mut w = vec![OBJECT, phase, shape];
    st.push_words(&mut w);
    w
}

pub(super) fn member_words(lead: u32, term: TermId, shape: u32, st: &ObjectState) -> Vec<u32> {
    let mut w = vec![MEMBER, lead, term, shape];
    st.push_words(&mut w);
    w
}

pub(super) fn array_words(phase: u32, shape: u32, seen: u32, st: &ArrayState) -> Vec<u32> {
    let mut w = vec![ARRAY, phase, shape, seen];
    st.push_words(&mut w);
    w
}

fn number_words(shape: u32, p: &NumberPrefix) -> Vec<u32> {
    let mut w = vec![NUMBER, shape];
    p.push_words(&mut w);
    w
}

impl JsonMachine {
    /// The start payload for a whole text (white space around it where the setting allows).
    pub(crate) fn start(&self) -> Vec<u32> {
        vec![ROOT]
    }

    fn any_space(&self) -> bool {
        self.terms.settings.whitespace == Whitespace::Any
    }

    fn spaced(&self) -> bool {
        self.terms.settings.whitespace == Whitespace::Spaced
    }

    fn value(&self, term: TermId) -> Callee {
        Callee::Machine(self.id, vec![VALUE, term])
    }

    pub(super) fn walk(&self) -> Walk {
        Walk::new(&self.terms.settings)
    }

    /// Live shapes of a term for one kind.
    pub(super) fn live_shapes(
        &self,
        w: &mut Walk,
        term: TermId,
        kind: Kind,
    ) -> Result<Vec<u32>, SchemaError> {
        let mut out = Vec::new();
        for &s in self.terms.shapes(w, term, kind)?.iter() {
            if self.terms.shape_cost(w, kind, s)? != NEVER {
                out.push(s);
            }
        }
        Ok(out)
    }

    // ------------------------------------------------------------ steps

    fn try_step(
        &self,
        cx: &mut Cx<'_>,
        s: &[u32],
        byte: u8,
        out: &mut Successors,
    ) -> Result<(), SchemaError> {
        match s[0] {
            ROOT | ROOT_END if self.any_space() && is_space(byte) => {
                out.push(s);
            }
            VALUE => self.step_value(s[1], byte, out)?,
            LITERAL => {
                let text = LITERALS[s[1] as usize].as_bytes();
                if text[s[2] as usize] == byte {
                    if s[2] as usize + 1 == text.len() {
                        out.push(&[DONE]);
                    } else {
                        out.push(&[LITERAL, s[1], s[2] + 1]);
                    }
                }
            }
            STRING => {
                let shape = self.terms.strings.get(s[1]);
                let (q, n) = (s[2], s[3]);
                match decode(s[4], byte, |a, b| shape.any_in(q, n, a, b)) {
                    Some(Decoded::Quote) if shape.accepts(q, n) => out.push(&[DONE]),
                    Some(Decoded::Partial(esc)) => out.push(&[STRING, s[1], q, n, esc]),
                    Some(Decoded::Char(c)) => {
                        if let Some((q, n)) = shape.step(q, n, c) {
                            out.push(&[STRING, s[1], q, n, 0]);
                        }
                    }
                    _ => {}
                }
            }
            QUOTE if byte == b'"' => {
                out.push(&[DONE]);
            }
            NUMBER => {
                let (p, _) = NumberPrefix::from_words(&s[2..]);
                if let Some(n) = self.terms.numbers.get(s[1]).step(&p, byte, false) {
                    out.push(&number_words(s[1], &n));
                }
            }
            ARRAY => self.step_array(cx, s, byte, out)?,
            UNIQUE => self.step_unique(cx, s, byte, out)?,
            OBJECT => self.step_object(cx, s, byte, out)?,
            KEY => self.step_key(cx, s, byte, out),
            KEY_QUOTE if byte == b'"' => {
                let mut w = vec![COLON];
                w.extend(&s[1..]);
                out.push(&w);
            }
            COLON => {
                if byte == b':' {
                    let shape = self.terms.objects.get(s[1]);
                    let lead = if self.spaced() { 1 } else { 0 };
                    let mut w = self.walk();
                    for (term, after) in self.ways_after_key(cx, &mut w, &shape, s)? {
                        out.push(&member_words(lead, term, s[1], &after));
                    }
                } else if self.any_space() && is_space(byte) {
                    out.push(s);
                }
            }
            MEMBER => {
                if s[1] == 1 {
                    if byte == b' ' {
                        let mut w = s.to_vec();
                        w[1] = 0;
                        out.push(&w);
                    }
                } else if self.any_space() && is_space(byte) {
                    out.push(s);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn step_value(&self, term: TermId, byte: u8, out: &mut Successors) -> Result<(), SchemaError> {
        let mut w = self.walk();
        match byte {
            b'n' if !self.live_shapes(&mut w, term, Kind::Null)?.is_empty() => {
                out.push(&[LITERAL, 0, 1]);
            }
            b'f' | b't' => {
                let which = u32::from(byte == b't');
                if self.live_shapes(&mut w, term, Kind::Bool)?.contains(&which) {
                    out.push(&[LITERAL, 1 + which, 1]);
                }
            }
            b'"' => {
                for s in self.live_shapes(&mut w, term, Kind::String)? {
                    out.push(&[STRING, s, 0, 0, 0]);
                }
            }
            b'[' => {
                for s in self.live_shapes(&mut w, term, Kind::Array)? {
                    out.push(&array_words(
                        OPEN,
                        s,
                        NONE,
                        &self.terms.arrays.get(s).start(),
                    ));
                }
            }
            b'{' => {
                for s in self.live_shapes(&mut w, term, Kind::Object)? {
                    out.push(&object_words(OPEN, s, &self.terms.objects.get(s).start()));
                }
            }
            b'-' | b'0'..=b'9' => {
                for s in self.live_shapes(&mut w, term, Kind::Number)? {
                    if let Some(p) =
                        self.terms
                            .numbers
                            .get(s)
                            .step(&NumberPrefix::start(), byte, false)
                    {
                        out.push(&number_words(s, &p));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn step_array(
        &self,
        cx: &mut Cx<'_>,
        s: &[u32],
        byte: u8,
        out: &mut Successors,
    ) -> Result<(), SchemaError> {
        let (phase, seen) = (s[1], s[3]);
        let shape = self.terms.arrays.get(s[2]);
        let st = ArrayState::from_words(&s[4..]);
        match (phase, byte) {
            (OPEN | AFTER, b']') if shape.may_close(&st) => {
                out.push(&[DONE]);
            }
            (AFTER, b',') if !self.item_ways(cx, &shape, &st, seen)?.is_empty() => {
                let next = if self.spaced() { COMMA } else { NEXT };
                out.push(&array_words(next, s[2], seen, &st));
            }
            (COMMA, b' ') => out.push(&array_words(NEXT, s[2], seen, &st)),
            (OPEN | AFTER | NEXT, b) if is_space(b) && self.any_space() => out.push(s),
            (OPEN | NEXT, _) if shape.unique => {
                for (term, after) in self.item_ways(cx, &shape, &st, seen)? {
                    let Ok(config) = cx.nested_start(&self.value(term)) else {
                        continue;
                    };
                    let Ok(config) = cx.nested_step(config, byte) else {
                        continue;
                    };
                    if config != DEAD {
                        let text = cx.intern(&[NONE, u32::from(byte)]);
                        let mut w = vec![UNIQUE, s[2], seen, config.0, text];
                        after.push_words(&mut w);
                        out.push(&w);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The ways in which the next item can count, used values excluded where items are unique.
    pub(super) fn item_ways(
        &self,
        cx: &Cx<'_>,
        shape: &ArrayShape,
        st: &ArrayState,
        seen: u32,
    ) -> Result<Vec<(TermId, ArrayState)>, SchemaError> {
        let mut w = self.walk();
        if !shape.unique {
            return shape.ways(&self.terms, &mut w, st, shape.item(st));
        }
        let used: Vec<Arc<Value>> = members(cx, seen)
            .iter()
            .filter_map(|&v| value_of(cx, v))
            .collect();
        let exclude = |t: TermId| {
            if used.is_empty() || t == FALSE {
                return t;
            }
            let atoms = self.terms.term(t).atoms.clone();
            self.terms.conjunction(
                atoms
                    .into_iter()
                    .chain(used.iter().map(|v| Atom::Value(v.clone(), false))),
            )
        };
        if !shape.enough_left(&self.terms, &mut w, st, exclude)? {
            return Ok(Vec::new());
        }
        shape.ways(&self.terms, &mut w, st, exclude(shape.item(st)))
    }

    fn step_unique(
        &self,
        cx: &mut Cx<'_>,
        s: &[u32],
        byte: u8,
        out: &mut Successors,
    ) -> Result<(), SchemaError> {
        let config = crate::engine::ConfigId(s[3]);
        let Ok(next) = cx.nested_step(config, byte) else {
            return Ok(());
        };
        if next != DEAD {
            let mut w = s.to_vec();
            w[3] = next.0;
            if s[4] != FRESH {
                w[4] = cx.intern(&[s[4], u32::from(byte)]);
            }
            out.push(&w);
        } else if cx.nested_accepts(config) {
            let Some(done) = self.finished_item(cx, s) else {
                return Ok(());
            };
            self.step_array(cx, &done, byte, out)?;
        }
        Ok(())
    }

    /// The array state after the item of a `UNIQUE` state, if that item may end here.
    pub(super) fn finished_item(&self, cx: &mut Cx<'_>, s: &[u32]) -> Option<Vec<u32>> {
        let mut bytes = Vec::new();
        let mut at = s[4];
        if at == FRESH {
            // The item's term excludes the values used, so this one is new, whichever it is.
            bytes.extend("\"\u{10FFFF}\"".bytes().rev());
            at = NONE;
        }
        while at != NONE {
            let w = cx.get(at);
            bytes.push(w[1] as u8);
            at = w[0];
        }
        bytes.reverse();
        let text = String::from_utf8(bytes).ok()?;
        let value = json::parse(&text, 10_000).ok()?.to_value();
        let id = intern_value(cx, &value);
        if members(cx, s[2]).binary_search(&id).is_ok() {
            return None;
        }
        let seen = with_member(cx, s[2], id);
        let st = ArrayState::from_words(&s[5..]);
        Some(array_words(AFTER, s[1], seen, &st))
    }

    fn step_object(
        &self,
        cx: &mut Cx<'_>,
        s: &[u32],
        byte: u8,
        out: &mut Successors,
    ) -> Result<(), SchemaError> {
        let (phase, id) = (s[1], s[2]);
        let shape = self.terms.objects.get(id);
        let st = ObjectState::from_words(&s[3..]);
        match (phase, byte) {
            (OPEN | AFTER, b'}') if shape.may_close(&st) => {
                out.push(&[DONE]);
            }
            (AFTER, b',') if self.allowed(cx, id, &st)?.iter().any(|x| *x != 0) => {
                let next = if self.spaced() { COMMA } else { NEXT };
                out.push(&object_words(next, id, &st));
            }
            (COMMA, b' ') => out.push(&object_words(NEXT, id, &st)),
            (OPEN | NEXT, b'"') => {
                let allowed = self.allowed(cx, id, &st)?;
                if allowed.iter().any(|x| *x != 0) {
                    let allowed = cx.intern(&allowed);
                    let mut w = vec![KEY, id, 0, 0, 0, NONE, allowed];
                    st.push_words(&mut w);
                    out.push(&w);
                }
            }
            (OPEN | AFTER | NEXT, b) if is_space(b) && self.any_space() => out.push(s),
            _ => {}
        }
        Ok(())
    }

    /// Labels of keys that may come next, as bits; remembered.
    pub(super) fn allowed(
        &self,
        cx: &mut Cx<'_>,
        id: u32,
        st: &ObjectState,
    ) -> Result<Vec<u32>, SchemaError> {
        let mut key = vec![self.id.0, ALLOWED, id];
        st.push_words(&mut key);
        if let Some(known) = cx.remembered(&key) {
            return Ok(known);
        }
        let shape = self.terms.objects.get(id);
        let mut w = self.walk();
        let allowed = shape.allowed(&self.terms, &mut w, &*cx, st)?;
        Ok(cx.first_met(&key, &allowed))
    }

    fn step_key(&self, cx: &mut Cx<'_>, s: &[u32], byte: u8, out: &mut Successors) {
        let shape = self.terms.objects.get(s[1]);
        let (trie, q, esc, text) = (s[2], s[3], s[4], s[5]);
        let allowed = cx.get(s[6]).to_vec();
        let st = ObjectState::from_words(&s[7..]);
        let mem: &Cx<'_> = cx;
        let any = |a: u32, b: u32| shape.key_goes_on(mem, &st, &allowed, (trie, q), text, (a, b));
        match decode(esc, byte, any) {
            Some(Decoded::Quote) => {
                if let Some(label) = shape.key_ends(cx, &st, &allowed, trie, q, text) {
                    let mut w = vec![
                        COLON,
                        s[1],
                        label,
                        if shape.is_named(label) { NONE } else { text },
                    ];
                    w.extend(&s[7..]);
                    out.push(&w);
                }
            }
            Some(Decoded::Partial(e)) => {
                let mut w = s.to_vec();
                w[4] = e;
                out.push(&w);
            }
            Some(Decoded::Char(c)) => {
                let (t, q) = shape.keys.step(trie, q, c);
                let remember = shape.has_other(&allowed);
                let text = if text == FRESH {
                    FRESH
                } else if remember {
                    cx.intern(&[text, c])
                } else {
                    NONE
                };
                if shape.key_lives(cx, &st, &allowed, t, q, text) {
                    let mut w = s.to_vec();
                    (w[2], w[3], w[4], w[5]) = (t, q, 0, text);
                    out.push(&w);
                }
            }
            None => {}
        }
    }

    /// Ways of the value after a `COLON` state's key: term and state after it.
    pub(super) fn ways_after_key(
        &self,
        cx: &mut Cx<'_>,
        w: &mut Walk,
        shape: &ObjectShape,
        s: &[u32],
    ) -> Result<Vec<(TermId, ObjectState)>, SchemaError> {
        let st = ObjectState::from_words(&s[4..]);
        let mut ways = shape.ways(&self.terms, w, cx, &st, s[2])?;
        if s[3] != NONE || !shape.is_named(s[2]) {
            for (_, after) in &mut ways {
                after.others = with_member(cx, st.others, s[3]);
            }
        }
        Ok(ways)
    }

    // ------------------------------------------------------------ completion

    fn try_finish(&self, cx: &mut Cx<'_>, s: &[u32]) -> Result<Option<Finish>, SchemaError> {
        let mut w = self.walk();
        Ok(Some(match s[0] {
            ROOT => Finish::Call(self.value(self.root), Some(vec![ROOT_END])),
            ROOT_END | DONE => Finish::Accept,
            VALUE => match self.terms.cheapest(&mut w, s[1])? {
                None => return Ok(None),
                Some((_, Kind::Null, _)) => Finish::Read(b"null".to_vec(), vec![DONE]),
                Some((_, Kind::Bool, b)) => {
                    Finish::Read(LITERALS[1 + b as usize].into(), vec![DONE])
                }
                Some((_, Kind::Number, id)) => {
                    return Ok(self.finish_number(id, &NumberPrefix::start()))
                }
                Some((_, Kind::String, id)) => {
                    let Some(text) = self.terms.strings.get(id).completion(0, 0) else {
                        return Ok(None);
                    };
                    Finish::Read(format!("\"{text}\"").into_bytes(), vec![DONE])
                }
                Some((_, Kind::Array, id)) => Finish::Read(
                    b"[".to_vec(),
                    array_words(OPEN, id, NONE, &self.terms.arrays.get(id).start()),
                ),
                Some((_, Kind::Object, id)) => Finish::Read(
                    b"{".to_vec(),
                    object_words(OPEN, id, &self.terms.objects.get(id).start()),
                ),
            },
            LITERAL => Finish::Read(
                LITERALS[s[1] as usize].as_bytes()[s[2] as usize..].to_vec(),
                vec![DONE],
            ),
            STRING => {
                let shape = self.terms.strings.get(s[1]);
                let (mut q, mut n) = (s[2], s[3]);
                let mut bytes = Vec::new();
                if s[4] != 0 {
                    let Some((b, c)) = finish_char(s[4], |a, b| shape.any_in(q, n, a, b)) else {
                        return Ok(None);
                    };
                    bytes = b;
                    let Some(next) = shape.step(q, n, c) else {
                        return Ok(None);
                    };
                    (q, n) = next;
                }
                let Some(text) = shape.completion(q, n) else {
                    return Ok(None);
                };
                bytes.extend(text.as_bytes());
                bytes.push(b'"');
                Finish::Read(bytes, vec![DONE])
            }
            QUOTE => Finish::Read(b"\"".to_vec(), vec![DONE]),
            NUMBER => {
                let (p, _) = NumberPrefix::from_words(&s[2..]);
                return Ok(self.finish_number(s[1], &p));
            }
            ARRAY => return self.finish_array(cx, &mut w, s),
            UNIQUE => return self.finish_unique(cx, s),
            OBJECT => return self.finish_object(cx, &mut w, s),
            KEY => {
                let shape = self.terms.objects.get(s[1]);
                let (mut trie, mut q, mut text) = (s[2], s[3], s[5]);
                let allowed = cx.get(s[6]).to_vec();
                let st = ObjectState::from_words(&s[7..]);
                let mut bytes = Vec::new();
                if s[4] != 0 {
                    let mem: &Cx<'_> = cx;
                    let any = |a: u32, b: u32| {
                        shape.key_goes_on(mem, &st, &allowed, (trie, q), text, (a, b))
                    };
                    let Some((b, c)) = finish_char(s[4], any) else {
                        return Ok(None);
                    };
                    bytes = b;
                    (trie, q) = shape.keys.step(trie, q, c);
                    text = cx.intern(&[text, c]);
                }
                let typed = text_of(cx, text);
                let Some(rest) = shape.complete_key(cx, &st, &allowed, trie, q, &typed) else {
                    return Ok(None);
                };
                let mut shown = String::new();
                for c in rest.chars() {
                    push_escaped(&mut shown, c);
                    (trie, q) = shape.keys.step(trie, q, c as u32);
                    text = cx.intern(&[text, c as u32]);
                }
                bytes.extend(shown.as_bytes());
                bytes.push(b'"');
                let label = shape.keys.label(trie, q);
                let mut next = vec![
                    COLON,
                    s[1],
                    label,
                    if shape.is_named(label) { NONE } else { text },
                ];
                next.extend(&s[7..]);
                Finish::Read(bytes, next)
            }
            KEY_QUOTE => {
                let mut next = vec![COLON];
                next.extend(&s[1..]);
                Finish::Read(b"\"".to_vec(), next)
            }
            COLON => {
                let shape = self.terms.objects.get(s[1]);
                let ways = self.ways_after_key(cx, &mut w, &shape, s)?;
                let Some((term, after)) = self.best_way(cx, &mut w, &shape, ways)? else {
                    return Ok(None);
                };
                let lead = if self.spaced() { 1 } else { 0 };
                Finish::Read(b":".to_vec(), member_words(lead, term, s[1], &after))
            }
            MEMBER if s[1] == 1 => {
                let mut next = s.to_vec();
                next[1] = 0;
                Finish::Read(b" ".to_vec(), next)
            }
            MEMBER => {
                let mut next = vec![OBJECT, AFTER];
                next.extend(&s[3..]);
                Finish::Call(self.value(s[2]), Some(next))
            }
            _ => return Ok(None),
        }))
    }

    fn finish_number(&self, id: u32, p: &NumberPrefix) -> Option<Finish> {
        let shape = self.terms.numbers.get(id);
        let bytes = shape.completion(p)?;
        if bytes.is_empty() {
            return Some(Finish::Accept);
        }
        let mut q = p.clone();
        for &b in &bytes {
            q = shape.step(&q, b, false)?;
        }
        Some(Finish::Read(bytes, number_words(id, &q)))
    }

    fn best_way(
        &self,
        cx: &Cx<'_>,
        w: &mut Walk,
        shape: &ObjectShape,
        ways: Vec<(TermId, ObjectState)>,
    ) -> Result<Option<(TermId, ObjectState)>, SchemaError> {
        let mut best: Option<(u64, (TermId, ObjectState))> = None;
        for (term, after) in ways {
            let rest = shape
                .solve(&self.terms, w, cx, &after)?
                .map_or(NEVER, |p| p.cost);
            let cost = add(self.terms.cost(w, term)?, rest);
            if best.as_ref().is_none_or(|b| cost < b.0) {
                best = Some((cost, (term, after)));
            }
        }
        Ok(best.map(|b| b.1))
    }

    fn comma(&self) -> &'static [u8] {
        if self.spaced() {
            b", "
        } else {
            b","
        }
    }

    fn finish_array(
        &self,
        cx: &mut Cx<'_>,
        w: &mut Walk,
        s: &[u32],
    ) -> Result<Option<Finish>, SchemaError> {
        let (phase, seen) = (s[1], s[3]);
        let shape = self.terms.arrays.get(s[2]);
        let st = ArrayState::from_words(&s[4..]);
        if phase == COMMA {
            return Ok(Some(Finish::Read(
                b" ".to_vec(),
                array_words(NEXT, s[2], seen, &st),
            )));
        }
        if phase != NEXT && shape.may_close(&st) {
            return Ok(Some(Finish::Read(b"]".to_vec(), vec![DONE])));
        }
        if phase == AFTER {
            return Ok(Some(Finish::Read(
                self.comma().to_vec(),
                array_words(NEXT, s[2], seen, &st),
            )));
        }
        let planned = if shape.unique {
            None
        } else {
            shape.plan(&self.terms, w, &st)?.flatten()
        };
        let next = match planned {
            Some(p) => Some(p),
            None => {
                let mut best: Option<(u64, (TermId, ArrayState))> = None;
                for way in self.item_ways(cx, &shape, &st, seen)? {
                    let steps = shape.distance(&self.terms, w, &way.1)?;
                    let cost = add(self.terms.cost(w, way.0)?, steps.saturating_mul(1 << 20));
                    if best.as_ref().is_none_or(|b| cost < b.0) {
                        best = Some((cost, way));
                    }
                }
                best.map(|b| b.1)
            }
        };
        let Some((term, after)) = next else {
            return Ok(None);
        };
        if !shape.unique {
            return Ok(Some(Finish::Call(
                self.value(term),
                Some(array_words(AFTER, s[2], NONE, &after)),
            )));
        }
        let bytes = self.text(cx, vec![VALUE, term])?;
        let Ok(mut config) = cx.nested_start(&self.value(term)) else {
            return Ok(None);
        };
        let mut chain = NONE;
        for &b in &bytes {
            let Ok(next) = cx.nested_step(config, b) else {
                return Ok(None);
            };
            config = next;
            chain = cx.intern(&[chain, u32::from(b)]);
        }
        let mut word = vec![UNIQUE, s[2], seen, config.0, chain];
        after.push_words(&mut word);
        Ok(self
            .finished_item(cx, &word)
            .map(|done| Finish::Read(bytes, done)))
    }

    /// The bytes of a short text of a state of this machine.
    fn text(&self, cx: &mut Cx<'_>, start: Vec<u32>) -> Result<Vec<u8>, SchemaError> {
        let mut out = Vec::new();
        let mut stack = vec![start];
        while let Some(top) = stack.pop() {
            match self.try_finish(cx, &top)? {
                Some(Finish::Accept) => {}
                Some(Finish::Read(bytes, next)) => {
                    out.extend(bytes);
                    stack.push(next);
                }
                Some(Finish::Call(Callee::Machine(_, payload), next)) => {
                    stack.extend(next);
                    stack.push(payload);
                }
                _ => break,
            }
            if out.len() > 1 << 24 {
                break;
            }
        }
        Ok(out)
    }

    fn finish_unique(&self, cx: &mut Cx<'_>, s: &[u32]) -> Result<Option<Finish>, SchemaError> {
        let config = crate::engine::ConfigId(s[3]);
        if cx.nested_accepts(config) {
            if let Some(done) = self.finished_item(cx, s) {
                return self.try_finish(cx, &done);
            }
        }
        let Some(bytes) = nested_completion(cx, config) else {
            return Ok(None);
        };
        let mut word = s.to_vec();
        let mut config = config;
        for &b in &bytes {
            let Ok(next) = cx.nested_step(config, b) else {
                return Ok(None);
            };
            config = next;
            word[4] = cx.intern(&[word[4], u32::from(b)]);
        }
        word[3] = config.0;
        Ok(self
            .finished_item(cx, &word)
            .map(|done| Finish::Read(bytes, done)))
    }

    fn finish_object(
        &self,
        cx: &mut Cx<'_>,
        w: &mut Walk,
        s: &[u32],
    ) -> Result<Option<Finish>, SchemaError> {
        let (phase, id) = (s[1], s[2]);
        let shape = self.terms.objects.get(id);
        let st = ObjectState::from_words(&s[3..]);
        if phase == COMMA {
            return Ok(Some(Finish::Read(
                b" ".to_vec(),
                object_words(NEXT, id, &st),
            )));
        }
        let plan = shape.solve(&self.terms, w, cx, &st)?;
        let mut label = plan.and_then(|p| p.next);
        if label.is_none() {
            if phase != NEXT {
                return Ok(Some(Finish::Read(b"}".to_vec(), vec![DONE])));
            }
            // A comma has been written: the cheapest key that may still come.
            let allowed = shape.allowed(&self.terms, w, cx, &st)?;
            let mut best: Option<(u64, u32)> = None;
            for l in (0..shape.keys.labels() as u32).filter(|&l| bit(&allowed, l)) {
                let cost = self.terms.cost(w, shape.terms[l as usize])?;
                if best.is_none_or(|b| cost < b.0) {
                    best = Some((cost, l));
                }
            }
            label = best.map(|b| b.1);
        }
        let Some(label) = label else { return Ok(None) };
        if phase == AFTER {
            return Ok(Some(Finish::Read(
                self.comma().to_vec(),
                object_words(NEXT, id, &st),
            )));
        }
        let Some(key) = shape.key_text(cx, &st, label) else {
            return Ok(None);
        };
        let mut shown = String::from("\"");
        let mut text = NONE;
        for c in key.chars() {
            push_escaped(&mut shown, c);
            text = cx.intern(&[text, c as u32]);
        }
        shown.push('"');
        let mut next = vec![
            COLON,
            id,
            label,
            if shape.is_named(label) { NONE } else { text },
        ];
        st.push_words(&mut next);
        Ok(Some(Finish::Read(shown.into_bytes(), next)))
    }

    // ------------------------------------------------------------ bytes that may come

    fn try_live(&self, cx: &mut Cx<'_>, s: &[u32]) -> Result<ByteSet, SchemaError> {
        let mut set = ByteSet::EMPTY;
        let spaces = |set: &mut ByteSet| {
            if self.any_space() {
                for b in b" \t\n\r" {
                    set.insert(*b);
                }
            }
        };
        match s[0] {
            ROOT | ROOT_END => spaces(&mut set),
            VALUE => {
                let mut w = self.walk();
                for kind in KINDS {
                    let live = self.live_shapes(&mut w, s[1], kind)?;
                    if live.is_empty() {
                        continue;
                    }
                    match kind {
                        Kind::Null => set.insert(b'n'),
                        Kind::Bool => live
                            .iter()
                            .for_each(|&b| set.insert(if b == 1 { b't' } else { b'f' })),
                        Kind::String => set.insert(b'"'),
                        Kind::Array => set.insert(b'['),
                        Kind::Object => set.insert(b'{'),
                        Kind::Number => b"-0123456789".iter().for_each(|b| set.insert(*b)),
                    }
                }
            }
            LITERAL => set.insert(LITERALS[s[1] as usize].as_bytes()[s[2] as usize]),
            STRING => {
                let shape = self.terms.strings.get(s[1]);
                let ranges = if s[4] == 0 {
                    shape.next_ranges(s[2], s[3])
                } else {
                    Vec::new()
                };
                string_bytes(s[4], &ranges, shape.accepts(s[2], s[3]), &mut set);
            }
            QUOTE | KEY_QUOTE => set.insert(b'"'),
            NUMBER => b"-+.eE0123456789".iter().for_each(|b| set.insert(*b)),
            ARRAY => {
                let shape = self.terms.arrays.get(s[2]);
                match s[1] {
                    COMMA => set.insert(b' '),
                    phase => {
                        spaces(&mut set);
                        let st = ArrayState::from_words(&s[4..]);
                        if phase != NEXT && shape.may_close(&st) {
                            set.insert(b']');
                        }
                        if phase == AFTER {
                            set.insert(b',');
                        } else if shape.unique {
                            b"\"[{-0123456789tfn".iter().for_each(|b| set.insert(*b));
                        }
                    }
                }
            }
            UNIQUE => {
                set = cx.nested_live(crate::engine::ConfigId(s[3]));
                if cx.nested_accepts(crate::engine::ConfigId(s[3])) {
                    spaces(&mut set);
                    set.insert(b',');
                    set.insert(b']');
                }
            }
            OBJECT => match s[1] {
                COMMA => set.insert(b' '),
                phase => {
                    spaces(&mut set);
                    let st = ObjectState::from_words(&s[3..]);
                    if phase != NEXT && self.terms.objects.get(s[2]).may_close(&st) {
                        set.insert(b'}');
                    }
                    set.insert(if phase == AFTER { b',' } else { b'"' });
                }
            },
            KEY => {
                let shape = self.terms.objects.get(s[1]);
                let mut ranges: Vec<(u32, u32)> = Vec::new();
                let allowed = cx.get(s[6]);
                if s[4] == 0 {
                    ranges.extend(shape.keys.children(s[2]).iter().map(|c| (c.0, c.0)));
                    if shape.has_other(allowed) {
                        ranges.extend(shape.keys.class_edges(s[3]).iter().map(|e| (e.low, e.high)));
                    }
                }
                let label = shape.keys.label(s[2], s[3]);
                string_bytes(s[4], &ranges, bit(allowed, label), &mut set);
            }
            COLON => {
                spaces(&mut set);
                set.insert(b':');
            }
            MEMBER if s[1] == 1 => set.insert(b' '),
            MEMBER => spaces(&mut set),
            _ => {}
        }
        Ok(set)
    }
}

/// The bytes that begin some characters, escaped spellings included.
fn first_bytes(chars: impl Iterator<Item = u32>) -> ByteSet {
    let mut set = ByteSet::single(b'\\');
    for c in chars.filter_map(char::from_u32) {
        set.insert(c.encode_utf8(&mut [0; 4]).as_bytes()[0]);
    }
    set
}

/// A short rest of a nested text.
fn nested_completion(cx: &mut Cx<'_>, start: crate::engine::ConfigId) -> Option<Vec<u8>> {
    let pieces = cx.engine.finish(start, 1 << 20).ok()?;
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend(text),
            Piece::Special(_) => return None,
        }
    }
    Some(out)
}

/// First bytes of characters in ranges, of escapes, and the quote.
fn string_bytes(esc: u32, ranges: &[(u32, u32)], quote: bool, set: &mut ByteSet) {
    if esc != 0 {
        match esc & 7 {
            1..=3 => (0x80..=0xbf).for_each(|b| set.insert(b)),
            4 => b"\"\\/bfnrtu".iter().for_each(|b| set.insert(*b)),
            6 => set.insert(if esc >> 3 & 7 == 0 { b'\\' } else { b'u' }),
            _ => b"0123456789abcdefABCDEF"
                .iter()
                .for_each(|b| set.insert(*b)),
        }
        return;
    }
    if !ranges.is_empty() {
        set.insert(b'\\');
    }
    for &(a, b) in ranges {
        for c in a.max(0x20)..=b.min(0x7f) {
            if c != 0x22 && c != 0x5c {
                set.insert(c as u8);
            }
        }
        let lead = |c: u32| match c {
            0..=0x7f => 0xc2,
            0x80..=0x7ff => 0xc0 | c >> 6,
            0x800..=0xffff => 0xe0 | c >> 12,
            _ => 0xf0 | c >> 18,
        };
        if b >= 0x80 {
            (lead(a.max(0x80))..=lead(b)).for_each(|x| set.insert(x as u8));
        }
    }
    if quote {
        set.insert(b'"');
    }
}

fn canonical(v: &Value, out: &mut String) {
    let text = |s: &str, out: &mut String| {
        out.push('"');
        s.chars().for_each(|c| push_escaped(out, c));
        out.push('"');
    };
    match v {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Num(n) => out.push_str(&n.to_string()),
        Value::Str(s) => text(s, out),
        Value::Arr(a) => {
            out.push('[');
            for (i, x) in a.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(x, out);
            }
            out.push(']');
        }
        Value::Obj(m) => {
            out.push('{');
            for (i, (k, x)) in m.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                text(k, out);
                out.push(':');
                canonical(x, out);
            }
            out.push('}');
        }
    }
}

fn intern_value(cx: &mut Cx<'_>, v: &Value) -> u32 {
    let mut text = String::new();
    canonical(v, &mut text);
    let words: Vec<u32> = text.bytes().map(u32::from).collect();
    cx.intern(&words)
}

fn value_of(cx: &Cx<'_>, id: u32) -> Option<Arc<Value>> {
    let bytes: Vec<u8> = cx.get(id).iter().map(|&w| w as u8).collect();
    let text = String::from_utf8(bytes).ok()?;
    json::parse(&text, 10_000).ok().map(|j| j.to_value())
}

impl Machine for JsonMachine {
    fn expand(&self, cx: &mut Cx<'_>, s: &[u32], out: &mut Moves) {
        match s[0] {
            ROOT => out.call(self.value(self.root), &[ROOT_END]),
            ROOT_END | DONE => out.accept(),
            NUMBER => {
                let (p, _) = NumberPrefix::from_words(&s[2..]);
                if self.terms.numbers.get(s[1]).accepts(&p) {
                    out.accept();
                }
            }
            MEMBER if s[1] == 0 => {
                let mut next = vec![OBJECT, AFTER];
                next.extend(&s[3..]);
                out.call(self.value(s[2]), &next);
            }
            ARRAY if s[1] == OPEN || s[1] == NEXT => {
                let shape = self.terms.arrays.get(s[2]);
                if !shape.unique {
                    let st = ArrayState::from_words(&s[4..]);
                    match self.item_ways(cx, &shape, &st, NONE) {
                        Ok(ways) => {
                            for (term, after) in ways {
                                out.call(self.value(term), &array_words(AFTER, s[2], NONE, &after));
                            }
                        }
                        Err(e) => cx.regex().fail(e.into()),
                    }
                }
            }
            _ => {}
        }
    }

    fn step(&self, cx: &mut Cx<'_>, state: &[u32], byte: u8, out: &mut Successors) {
        if let Err(e) = self.try_step(cx, state, byte, out) {
            out.clear();
            cx.regex().fail(e.into());
        }
    }

    fn live_bytes(&self, cx: &mut Cx<'_>, state: &[u32]) -> ByteSet {
        self.try_live(cx, state).unwrap_or_else(|e| {
            cx.regex().fail(e.into());
            ByteSet::EMPTY
        })
    }

    fn byte_sets(&self) -> Vec<ByteSet> {
        self.byte_sets.clone()
    }

    fn remembers_text(&self, cx: &mut Cx<'_>, s: &[u32]) -> bool {
        match s[0] {
            UNIQUE => s[4] != FRESH,
            KEY => {
                let shape = self.terms.objects.get(s[1]);
                s[5] != FRESH && shape.has_other(cx.get(s[6]))
            }
            ARRAY => self.terms.arrays.get(s[2]).unique,
            _ => false,
        }
    }

    fn finish(&self, cx: &mut Cx<'_>, state: &[u32]) -> Finish {
        self.try_finish(cx, state)
            .ok()
            .flatten()
            .unwrap_or(Finish::Accept)
    }

    fn saturate(&self, cx: &mut Cx<'_>, s: &[u32], horizon: u32) -> Option<Vec<u32>> {
        let _ = &cx;
        match s[0] {
            STRING => {
                let shape = self.terms.strings.get(s[1]);
                let (q, n) = shape.saturated(s[2], s[3], horizon);
                ((q, n) != (s[2], s[3])).then(|| vec![STRING, s[1], q, n, s[4]])
            }
            // What has been read of an item matters only once it is compared with later ones (that no used value
            // is repeated is part of the item's own term), so not before a token holds a whole equal item
            // besides the end of this one. Short items keep their text; numbers are short to walk anyway.
            UNIQUE => {
                let mut read = Vec::new();
                let mut at = s[4];
                while at != FRESH && at != NONE {
                    let w = cx.get(at);
                    if !is_space(w[1] as u8) {
                        read.push(w[1] as u8);
                    }
                    at = w[0];
                }
                let mut walk = self.walk();
                let endless = self.terms.arrays.get(s[1]).endless(&self.terms, &mut walk);
                let long = match read.last() {
                    Some(b'"') => endless[0],
                    Some(b'[') => endless[1] && read.len() >= 8,
                    Some(b'{') => endless[2] && read.len() >= 8,
                    _ => false,
                };
                long.then(|| {
                    let mut w = s.to_vec();
                    w[4] = FRESH;
                    w
                })
            }
            ARRAY => {
                let shape = self.terms.arrays.get(s[2]);
                let st = ArrayState::from_words(&s[4..]);
                let n = shape.saturated(&st, horizon);
                (n != st.n).then(|| array_words(s[1], s[2], s[3], &ArrayState { n, ..st }))
            }
            _ => None,
        }
    }

    fn fingerprint(&self, cx: &mut Cx<'_>, s: &[u32]) -> Option<Fingerprint> {
        self.fingerprint_of(cx, s)
    }

    fn canonical(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        self.canonical_state(cx, s, facts)
    }

    fn tracked_bytes(&self, cx: &mut Cx<'_>, s: &[u32]) -> ByteSet {
        if s[0] == UNIQUE {
            let inner = cx.nested_state(crate::engine::ConfigId(s[3]), self.id);
            return inner.map_or(ByteSet::ALL, |inner| self.tracked_bytes(cx, &inner));
        }
        if s[0] == STRING && s[4] == 0 {
            return first_bytes(self.string_heads(s).into_iter().flatten());
        }
        if s[0] != KEY || s[4] != 0 {
            return ByteSet::ALL;
        }
        // A declared name goes on with its next character, a member of this object with that of its name;
        // either may be spelled with an escape.
        let shape = self.terms.objects.get(s[1]);
        let mut next: Vec<u32> = shape.keys.children(s[2]).iter().map(|c| c.0).collect();
        let typed = text_of(cx, s[5]);
        for other in members(cx, s[8]) {
            let name = text_of(cx, other);
            if let Some(c) = name
                .strip_prefix(&typed)
                .and_then(|rest| rest.chars().next())
            {
                next.push(c as u32);
            }
        }
        first_bytes(next.into_iter())
    }

    fn body(&self, cx: &mut Cx<'_>, s: &[u32]) -> Option<Body> {
        match s[0] {
            STRING if s[4] == 0 => {
                let shape = self.terms.strings.get(s[1]);
                if !shape.plain(s[3]) {
                    return None;
                }
                if !shape.loops(s[2]) {
                    return self.string_heads(s).map(|_| Body {
                        unit: self.unit,
                        min: 0,
                        max: crate::regex::INFINITE,
                        exit: vec![QUOTE],
                        tracked: true,
                    });
                }
                let min = shape.min.saturating_sub(s[3]);
                let max = match shape.max {
                    Some(m) if s[3] != FAR => m - s[3],
                    _ => crate::regex::INFINITE,
                };
                (max > 0).then(|| Body {
                    unit: self.unit,
                    min,
                    max,
                    exit: vec![QUOTE],
                    tracked: false,
                })
            }
            KEY if s[4] == 0 => {
                let shape = self.terms.objects.get(s[1]);
                let allowed = cx.get(s[6]).to_vec();
                let (trie, q) = (s[2], s[3]);
                let label = shape.keys.label(OFF, q);
                if !shape.keys.class_loops(q)
                    || !bit(&allowed, label)
                    || shape.keys.others(OFF, q, shape.class(label)) != INFINITE
                {
                    return None;
                }
                let others = members(cx, s[8]);
                let typed = text_of(cx, s[5]);
                let repeats = s[5] != FRESH
                    && others
                        .iter()
                        .any(|&o| o != s[5] && text_of(cx, o).starts_with(&typed));
                let mut exit = vec![KEY_QUOTE, s[1], label, FRESH];
                exit.extend(&s[7..]);
                Some(Body {
                    unit: self.unit,
                    min: 0,
                    max: crate::regex::INFINITE,
                    exit,
                    tracked: trie != OFF || repeats,
                })
            }
            // A string among unique items: the body of that string.
            UNIQUE if s[4] == FRESH => {
                let inner = cx.nested_state(crate::engine::ConfigId(s[3]), self.id)?;
                let body = self.body(cx, &inner)?;
                let exit = cx.nested_at(self.id, &body.exit).ok()?;
                let mut w = s.to_vec();
                w[3] = exit.0;
                Some(Body { exit: w, ..body })
            }
            _ => None,
        }
    }
}
