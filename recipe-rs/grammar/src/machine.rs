//! How a front end adds automata of its own: objects with remembered keys, counted arrays, …
//!
//! A [`Machine`] is an immutable description; its *states* are short strings of `u32` words
//! ("payloads") that the engine interns, so that equal payloads are one state, and a machine is a pure
//! function of them. Whatever does not fit a few words (sets of seen keys, the text of a key so far) is
//! interned with [`Cx::intern`] and carried as one word.
//!
//! A thread of the matcher is a stack of *frames*, each a state of a machine (or of a rule, or of a
//! regular expression). The top frame reads bytes ([`Machine::step`]); without reading it may call
//! another frame and go on when that has matched, or end and give control back to its caller
//! ([`Machine::expand`]). Several threads live side by side, so a machine may be nondeterministic.
//!
//! Rules a machine must keep:
//! * **Trimmed**: every state it yields and every call it makes can still be completed. The engine
//!   takes "some thread is alive" to mean "some valid text continues this one".
//! * **Calls match at least one byte** and start states do not accept; an optional child is the
//!   caller's business (one thread with the call, one without).
//! * **No left recursion**: a frame may not reach itself again through calls without reading a byte.
//! * Only [`Machine::byte_sets`] may be told apart: two bytes that are in the same sets must lead to
//!   the same successors, except where [`Machine::remembers_text`] says otherwise.

use crate::bytes::ByteSet;
use crate::error::GrammarError;
use crate::hash::Fingerprint;
use crate::ir::RuleId;
use crate::regex::NodeId;
use crate::vocab::TokenFacts;

pub use crate::engine::Cx;

/// Identity of a machine within one grammar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MachineId(pub u32);

/// What a call runs until it has matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A rule of the grammar.
    Rule(RuleId),
    /// A regular expression of the grammar's arena.
    Regex(NodeId),
    /// A machine from a start payload.
    Machine(MachineId, Vec<u32>),
}

/// What a state may do without reading a byte. Filled by [`Machine::expand`].
#[derive(Debug, Default)]
pub struct Moves {
    pub(crate) accept: bool,
    pub(crate) calls: Vec<(Callee, Option<Vec<u32>>)>,
}

impl Moves {
    /// The frame may end here.
    pub fn accept(&mut self) {
        self.accept = true;
    }

    /// Run `callee`, then continue in `next`.
    pub fn call(&mut self, callee: Callee, next: &[u32]) {
        self.calls.push((callee, Some(next.to_vec())));
    }

    /// Run `callee`, then end: the frame is replaced, so right recursion does not grow the stack.
    pub fn tail_call(&mut self, callee: Callee) {
        self.calls.push((callee, None));
    }
}

/// Where a state goes on one byte. Filled by [`Machine::step`].
#[derive(Debug, Default)]
pub struct Successors {
    pub(crate) words: Vec<u32>,
    pub(crate) ends: Vec<u32>,
    pub(crate) error: Option<GrammarError>,
}

impl Successors {
    /// The step could not be decided within the limits (an error of a nested text, say).
    pub fn fail(&mut self, error: GrammarError) {
        self.error.get_or_insert(error);
    }

    /// One successor state.
    pub fn push(&mut self, payload: &[u32]) {
        self.words.extend_from_slice(payload);
        self.ends.push(self.words.len() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
        self.error = None;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.ends.iter().scan(0u32, |at, &end| {
            let slice = &self.words[*at as usize..end as usize];
            *at = end;
            Some(slice)
        })
    }
}

/// "I am inside a body of units": the shortcut that makes masks in wide states cheap.
///
/// The state reads words of `unit*` (a character of a JSON string, say). While it does, it cannot die
/// before `max` words; after `k` words (`1 <= k <= max`), on any byte that no unit begins with, it
/// behaves like the state `exit` when `k >= min` and is dead otherwise. `unit` must be prefix-free (no
/// word of it begins another), must not match "", and `exit` must not read a byte that a unit begins
/// with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Regular expression of one unit.
    pub unit: NodeId,
    /// Units needed before the body may be left.
    pub min: u32,
    /// Units that still fit; [`crate::regex::INFINITE`] when there is no bound.
    pub max: u32,
    /// Payload of the state after some units.
    pub exit: Vec<u32>,
    /// Some words lead to states that behave unlike `exit` (a key that was seen before, say). The
    /// engine then steps for real along each word until the state's own body is not tracked any more.
    pub tracked: bool,
}

/// One move towards the end of a frame, for [`Machine::finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The frame may end here.
    Accept,
    /// Read these bytes and be in this state.
    Read(Vec<u8>, Vec<u32>),
    /// Call, then be in this state (`None`: then end).
    Call(Callee, Option<Vec<u32>>),
}

/// An automaton with calls; see the module's text for the rules it keeps.
pub trait Machine: Send + Sync + std::fmt::Debug {
    /// Calls and acceptance of a state. Asked once per state and remembered.
    fn expand(&self, cx: &mut Cx<'_>, state: &[u32], out: &mut Moves);

    /// States after reading `byte`; none when the byte is not allowed.
    fn step(&self, cx: &mut Cx<'_>, state: &[u32], byte: u8, out: &mut Successors);

    /// A superset of the bytes for which `step` has successors; the tighter, the faster.
    fn live_bytes(&self, cx: &mut Cx<'_>, state: &[u32]) -> ByteSet;

    /// The byte sets that steps distinguish (those of regular expressions need not be repeated).
    fn byte_sets(&self) -> Vec<ByteSet>;

    /// Whether successors depend on bytes beyond the classes of [`Machine::byte_sets`], because the state
    /// remembers the text it reads (a key to be compared with later keys). Steps of such states are
    /// remembered byte by byte.
    fn remembers_text(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> bool {
        false
    }

    /// The next move on some short way to the end of the frame. Following it must end: every move has
    /// to make the rest shorter, and called frames must have a shorter completion than the caller.
    fn finish(&self, cx: &mut Cx<'_>, state: &[u32]) -> Finish;

    /// A payload that behaves alike for the next `horizon` bytes, so that masks are shared: counters
    /// beyond the horizon become "many", text that no longer matters is dropped. `None`: the state.
    fn saturate(&self, _cx: &mut Cx<'_>, _state: &[u32], _horizon: u32) -> Option<Vec<u32>> {
        None
    }

    /// A payload that no token of the vocabulary can tell from this one, whatever stands below the frame: what
    /// only matters further on than any token reaches is left out, so that masks are shared. `None`: the
    /// state.
    fn canonical(&self, cx: &mut Cx<'_>, state: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        self.saturate(cx, state, facts.longest)
    }

    /// The state as a body of units, when it is one.
    fn body(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> Option<Body> {
        None
    }

    /// For a tracked body: the bytes that begin the words it tells apart (a superset).
    fn tracked_bytes(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> ByteSet {
        ByteSet::ALL
    }

    /// A hash that determines the state's whole language, calls included, across grammars; masks are
    /// then shared between grammars of one vocabulary. `None`: shared within the grammar only.
    fn fingerprint(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> Option<Fingerprint> {
        None
    }
}
