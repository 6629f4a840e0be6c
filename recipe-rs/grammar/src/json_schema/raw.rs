//! The strings that a schema accepts, written as they are: no quotes, no escapes (tool-call parameters).

use std::sync::Arc;

use super::json::{self, Json};
use super::shapes::Kind;
use super::strings::{decode_raw, finish_char, Decoded, StringShape};
use super::terms::{Terms, Walk};
use super::{prepare, Prepared, SchemaError, Settings};
use crate::bytes::ByteSet;
use crate::ir::{ExprId, GrammarBuilder};
use crate::machine::{Cx, Finish, Machine, Moves, Successors};
use crate::regex::{CharSet, Encoding, Lowering, INFINITE};

/// Adds the raw characters of the strings among a schema's instances to a builder; `None` when there is none.
///
/// # Errors
/// As [`super::add_to`], except that a schema without strings is no error.
pub fn add_raw_string(
    builder: &mut GrammarBuilder,
    text: &str,
    registry: &[(String, String)],
    settings: &Settings,
) -> Result<Option<ExprId>, SchemaError> {
    let Prepared {
        terms, byte_sets, ..
    } = prepare(text, registry, settings)?;
    let start = terms.schema(terms.document.root, true);
    let mut w = Walk::compile(settings, builder.budget().clone());
    let shapes = terms.shapes(&mut w, start, Kind::String)?;
    let terms = Arc::new(terms);
    let mut machine = None;
    let mut ways = Vec::new();
    for &id in shapes.iter() {
        let shape = terms.strings.get(id);
        if shape.dfa.is_none() {
            let arena = builder.regex_mut();
            let unit = Lowering::new(Encoding::Utf8).class(arena, &CharSet::all());
            let node = arena.repeat(unit, shape.min, shape.max.unwrap_or(INFINITE));
            ways.push(builder.regex(node));
            continue;
        }
        if shape.accepts(0, 0) {
            ways.push(builder.empty());
        }
        if shape.any_in(0, 0, 0, 0x10_ffff) {
            let machine = *machine.get_or_insert_with(|| {
                builder.add_machine(Arc::new(RawString {
                    terms: Arc::clone(&terms),
                    byte_sets: byte_sets.clone(),
                }))
            });
            ways.push(builder.machine(machine, &[id, 0, 0, 0, 0], shape.cost()));
        }
    }
    Ok((!ways.is_empty()).then(|| builder.alt(&ways)))
}

/// States: shape, state of its automaton, characters so far, part of a character, whether a byte was read.
struct RawString {
    terms: Arc<Terms>,
    byte_sets: Vec<ByteSet>,
}

impl std::fmt::Debug for RawString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawString")
    }
}

impl RawString {
    fn shape(&self, state: &[u32]) -> Arc<StringShape> {
        self.terms.strings.get(state[0])
    }

    fn next(&self, state: &[u32], byte: u8) -> Option<Vec<u32>> {
        let shape = self.shape(state);
        let (q, n, esc) = (state[1], state[2], state[3]);
        match decode_raw(esc, byte, |low, high| shape.any_in(q, n, low, high))? {
            Decoded::Partial(esc) => Some(vec![state[0], q, n, esc, 1]),
            Decoded::Char(c) => shape.step(q, n, c).map(|(q, n)| vec![state[0], q, n, 0, 1]),
            Decoded::Quote => None,
        }
    }

    fn read(&self, state: &[u32], bytes: &[u8]) -> Option<Vec<u32>> {
        bytes
            .iter()
            .try_fold(state.to_vec(), |state, &b| self.next(&state, b))
    }

    /// Some bytes to an end of the string: the rest of a character first, then the rest of the text.
    fn way(&self, state: &[u32]) -> Option<Vec<u8>> {
        let shape = self.shape(state);
        let (q, n, esc) = (state[1], state[2], state[3]);
        if esc != 0 {
            return Some(finish_char(esc, |low, high| shape.any_in(q, n, low, high))?.0);
        }
        let Json::Str(rest) = json::parse(&format!("\"{}\"", shape.completion(q, n)?), 1).ok()?
        else {
            return None;
        };
        if !rest.is_empty() {
            return Some(rest.as_bytes().to_vec());
        }
        // Only a start state that may be empty comes here: any character will do.
        let first = |&(low, high): &(u32, u32)| {
            (low..=high)
                .take(2)
                .find_map(char::from_u32)
                .map(String::from)
        };
        let ranges = shape.next_ranges(q, n);
        ranges
            .iter()
            .filter_map(first)
            .map(String::into_bytes)
            .find(|b| self.read(state, b).is_some())
    }
}

impl Machine for RawString {
    fn expand(&self, _cx: &mut Cx<'_>, state: &[u32], out: &mut Moves) {
        if state[4] == 1 && state[3] == 0 && self.shape(state).accepts(state[1], state[2]) {
            out.accept();
        }
    }

    fn step(&self, _cx: &mut Cx<'_>, state: &[u32], byte: u8, out: &mut Successors) {
        if let Some(next) = self.next(state, byte) {
            out.push(&next);
        }
    }

    fn live_bytes(&self, _cx: &mut Cx<'_>, state: &[u32]) -> ByteSet {
        if state[3] != 0 {
            return ByteSet::range(0x80, 0xbf);
        }
        let mut live = ByteSet::EMPTY;
        for (low, high) in self.shape(state).next_ranges(state[1], state[2]) {
            if low < 0x80 {
                live = live.union(&ByteSet::range(low as u8, high.min(0x7f) as u8));
            }
            if high >= 0x80 {
                live = live.union(&ByteSet::range(0xc2, 0xf4));
            }
        }
        live
    }

    fn byte_sets(&self) -> Vec<ByteSet> {
        self.byte_sets.clone()
    }

    fn finish(&self, _cx: &mut Cx<'_>, state: &[u32]) -> Finish {
        if state[4] == 1 && state[3] == 0 && self.shape(state).accepts(state[1], state[2]) {
            return Finish::Accept;
        }
        match self
            .way(state)
            .and_then(|bytes| Some((self.read(state, &bytes)?, bytes)))
        {
            Some((next, bytes)) => Finish::Read(bytes, next),
            None => Finish::Accept, // not reached: states that are yielded can be completed
        }
    }

    fn saturate(&self, _cx: &mut Cx<'_>, state: &[u32], horizon: u32) -> Option<Vec<u32>> {
        let (q, n) = self.shape(state).saturated(state[1], state[2], horizon);
        ((q, n) != (state[1], state[2])).then(|| vec![state[0], q, n, state[3], state[4]])
    }
}
