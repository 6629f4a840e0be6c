//! Counted repetition of a rule: the count is a word of the state, never an unrolled copy.

use crate::bytes::ByteSet;
use crate::ir::RuleId;
use crate::machine::{Callee, Cx, Finish, Machine, Moves, Successors};
use crate::regex::INFINITE;

/// `rule{min,max}`. The payload is `[matched so far]`, capped at `min` when there is no upper bound.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) body: RuleId,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Counter {
    fn next(&self, count: u32) -> u32 {
        if self.max == INFINITE {
            (count + 1).min(self.min)
        } else {
            count + 1
        }
    }
}

impl Machine for Counter {
    fn expand(&self, _cx: &mut Cx<'_>, state: &[u32], out: &mut Moves) {
        let count = state[0];
        if count >= self.min && count > 0 {
            out.accept();
        }
        let next = self.next(count);
        if self.max != INFINITE && next == self.max {
            out.tail_call(Callee::Rule(self.body));
        } else if self.max == INFINITE || count < self.max {
            // A repetition without bounds still has to tell its start (which must not accept) apart.
            out.call(Callee::Rule(self.body), &[next.max(1)]);
        }
    }

    fn step(&self, _cx: &mut Cx<'_>, _state: &[u32], _byte: u8, _out: &mut Successors) {}

    fn live_bytes(&self, _cx: &mut Cx<'_>, _state: &[u32]) -> ByteSet {
        ByteSet::EMPTY
    }

    fn byte_sets(&self) -> Vec<ByteSet> {
        Vec::new()
    }

    fn finish(&self, _cx: &mut Cx<'_>, state: &[u32]) -> Finish {
        if state[0] >= self.min && state[0] > 0 {
            return Finish::Accept;
        }
        Finish::Call(
            Callee::Rule(self.body),
            Some(vec![self.next(state[0]).max(1)]),
        )
    }

    fn saturate(&self, _cx: &mut Cx<'_>, _state: &[u32], _horizon: u32) -> Option<Vec<u32>> {
        None
    }
}
