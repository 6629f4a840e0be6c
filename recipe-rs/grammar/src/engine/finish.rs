//! Short ways to the end: each kind of frame knows its next move, the stack says what comes after.

use super::core::ROOT;
use super::{ConfigId, Cx, Engine, Frame};
use crate::complete::Piece;
use crate::error::{GrammarError, Result};
use crate::limits::mask_tick;
use crate::machine::Finish;
use crate::regex::NodeId;

impl Engine {
    /// Whether special tokens may come next.
    pub(crate) fn has_specials(&self, config: ConfigId) -> bool {
        self.threads(config)
            .iter()
            .any(|t| t.0.kind == Frame::NETWORK)
    }

    /// The pieces that end the text from a configuration that is not accepting.
    pub(crate) fn finish(&mut self, config: ConfigId, max_bytes: usize) -> Result<Vec<Piece>> {
        let mut best: Option<Vec<Piece>> = None;
        let mut threads = self.threads(config);
        // With many threads, the shallow ones are tried first and a few are enough.
        threads.sort_by_key(|&(_, parents)| self.depth_of(parents));
        for &(frame, parents) in threads.iter().take(8) {
            let mut out = Vec::new();
            let mut budget = max_bytes;
            if !self.finish_frame(frame, &mut out, &mut budget, 0)? {
                continue;
            }
            let mut at = parents;
            let mut fine = true;
            loop {
                let list = self.lists.get(at);
                if list.contains(&ROOT) {
                    break;
                }
                // The shallowest way down ends.
                let Some(&id) = list.iter().min_by_key(|&&id| self.node(id).depth) else {
                    fine = false;
                    break;
                };
                let node = self.node(id);
                if !self.finish_frame(node.frame, &mut out, &mut budget, 0)? {
                    fine = false;
                    break;
                }
                at = node.parents;
            }
            let length = |pieces: &[Piece]| -> usize {
                pieces
                    .iter()
                    .map(|p| if let Piece::Text(t) = p { t.len() } else { 1 })
                    .sum()
            };
            if fine && best.as_ref().is_none_or(|b| length(&out) < length(b)) {
                best = Some(out);
            }
        }
        best.ok_or_else(|| GrammarError::invalid("no completion was found within the limits"))
    }

    fn depth_of(&self, parents: u32) -> u32 {
        self.lists
            .get(parents)
            .iter()
            .map(|&id| self.node(id).depth)
            .min()
            .unwrap_or(0)
    }

    /// Append the moves that end one frame; `false` when they outgrow the budget.
    fn finish_frame(
        &mut self,
        frame: Frame,
        out: &mut Vec<Piece>,
        budget: &mut usize,
        depth: u32,
    ) -> Result<bool> {
        if depth > 1_000 {
            return Ok(false);
        }
        let mut frame = frame;
        loop {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            mask_tick("shortest completion")?;
            match frame.kind {
                Frame::REGEX => {
                    let found = self.regex.shortest(NodeId(frame.state));
                    self.regex.check()?;
                    let Some(text) = found else { return Ok(false) };
                    *budget = budget.saturating_sub(text.len());
                    out.push(Piece::Text(text));
                    return Ok(true);
                }
                Frame::NETWORK => {
                    let grammar = std::sync::Arc::clone(&self.grammar);
                    let states = &grammar.network.states;
                    let state = &states[frame.state as usize];
                    if state.accept {
                        return Ok(true);
                    }
                    let best = state.best as usize;
                    if let Some((start, next)) = state.calls.get(best) {
                        let callee = self.start_frame(start);
                        if !self.finish_call(callee, out, budget, depth)? {
                            return Ok(false);
                        }
                        frame.state = *next;
                    } else if let Some(&(token, next)) =
                        state.specials.get(best - state.calls.len())
                    {
                        out.push(Piece::Special(token));
                        frame.state = next;
                    } else {
                        return Ok(false);
                    }
                }
                kind => {
                    let machine = self.machine(kind);
                    let payload = self.payload(frame.state).to_vec();
                    match machine.finish(&mut Cx { engine: self }, &payload) {
                        Finish::Accept => return Ok(true),
                        Finish::Read(bytes, next) => {
                            *budget = budget.saturating_sub(bytes.len());
                            out.push(Piece::Text(bytes));
                            frame.state = self.intern_payload(&next);
                        }
                        Finish::Call(callee, next) => {
                            let callee = self.callee_frame(&callee);
                            match next {
                                None => frame = callee,
                                Some(words) => {
                                    if !self.finish_call(callee, out, budget, depth)? {
                                        return Ok(false);
                                    }
                                    frame.state = self.intern_payload(&words);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// A call matches at least one byte; a regular expression that also matches "" has to be told so.
    fn finish_call(
        &mut self,
        callee: Frame,
        out: &mut Vec<Piece>,
        budget: &mut usize,
        depth: u32,
    ) -> Result<bool> {
        if callee.kind == Frame::REGEX && self.regex.is_nullable(NodeId(callee.state)) {
            // Skipping it is a way of its own in rule networks; "" is a match all the same.
            return Ok(true);
        }
        stacker::maybe_grow(64 << 10, 2 << 20, || {
            self.finish_frame(callee, out, budget, depth + 1)
        })
    }
}
