//! Undecided text of recover mode, with the class and log probabilities of the pieces it came in.

use std::collections::VecDeque;

use crate::parse::decode::Logprobs;
use crate::parse::marker::Class;

/// Consumed bytes are cut off the buffer once they exceed this and half of it.
const COMPACT_BYTES: usize = 4096;

#[derive(Debug)]
struct Run {
    /// Offset into the buffer.
    end: usize,
    class: Class,
    logprobs: Logprobs,
}

/// Positions are offsets into [`Pending::text`].
#[derive(Debug, Default)]
pub(super) struct Pending {
    buf: String,
    base: usize,
    runs: VecDeque<Run>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.base == self.buf.len()
    }

    pub(super) fn text(&self) -> &str {
        &self.buf[self.base..]
    }

    pub(super) fn push(&mut self, text: &str, class: Class, logprobs: Logprobs) {
        if self.is_empty() {
            self.buf.clear();
            self.base = 0;
        }
        self.buf.push_str(text);
        self.runs.push_back(Run {
            end: self.buf.len(),
            class,
            logprobs,
        });
    }

    /// Class of the piece that the byte at `at` came in.
    pub(super) fn class_at(&self, at: usize) -> Option<Class> {
        let index = self.runs.partition_point(|run| run.end <= self.base + at);
        self.runs.get(index).map(|run| run.class)
    }

    /// Remove text of one piece, at most `len` bytes. Its log probabilities come with the first part only.
    pub(super) fn take(&mut self, len: usize) -> Option<(String, Class, Logprobs)> {
        let run = self.runs.front_mut().filter(|_| len > 0)?;
        let to = run.end.min(self.base + len);
        let part = self.buf[self.base..to].to_owned();
        let (class, logprobs) = (run.class, run.logprobs.take());
        self.discard(to - self.base);
        Some((part, class, logprobs))
    }

    /// Remove the first `len` bytes.
    pub(super) fn discard(&mut self, len: usize) {
        self.base += len;
        while self.runs.front().is_some_and(|run| run.end <= self.base) {
            self.runs.pop_front();
        }
        if self.base > COMPACT_BYTES && self.base > self.buf.len() / 2 {
            self.buf.drain(..self.base);
            for run in &mut self.runs {
                run.end -= self.base;
            }
            self.base = 0;
        }
    }
}
