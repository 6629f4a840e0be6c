//! Pieces that are not decided yet: one text buffer plus the borders, so that a piece costs a few
//! words however short it is. All positions are byte offsets from the start of the stream.

use std::collections::VecDeque;

use super::decode::Logprobs;
use super::marker::Class;

/// Consumed bytes are cut off the buffer once they exceed this and half of it.
const COMPACT_BYTES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Border {
    pub(crate) end: usize,
    pub(crate) class: Class,
    pub(crate) logprobs: Logprobs,
}

#[derive(Debug, Default)]
pub(crate) struct Held {
    buf: String,
    /// Stream position of `buf[0]`.
    base: usize,
    /// First position that was neither released nor matched.
    pub(crate) start: usize,
    /// Everything before this was scanned in the current state.
    pub(crate) scanned: usize,
    pieces: VecDeque<Border>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn end(&self) -> usize {
        self.base + self.buf.len()
    }

    pub(crate) fn push(&mut self, text: &str, class: Class, logprobs: Logprobs) {
        if self.buf.is_empty() {
            self.base = self.start;
        }
        self.buf.push_str(text);
        self.pieces.push_back(Border {
            end: self.end(),
            class,
            logprobs,
        });
    }

    pub(crate) fn slice(&self, from: usize, to: usize) -> &str {
        &self.buf[from - self.base..to - self.base]
    }

    pub(crate) fn front(&self) -> Option<&Border> {
        self.pieces.front()
    }

    pub(crate) fn last(&self) -> Option<&Border> {
        self.pieces.back()
    }

    /// Stream position at which the last piece begins.
    pub(crate) fn last_start(&self) -> usize {
        let n = self.pieces.len();
        if n < 2 {
            self.start
        } else {
            self.pieces[n - 2].end
        }
    }

    /// Remove the first piece; its text stays readable until the next `push`.
    pub(crate) fn pop(&mut self) -> Option<Border> {
        let piece = self.pieces.pop_front()?;
        self.start = piece.end;
        Some(piece)
    }

    /// Drop everything before `to`; what is left of the last piece stays as the only piece.
    pub(crate) fn cut(&mut self, to: usize) {
        let last = self.pieces.pop_back();
        self.pieces.clear();
        self.pieces.extend(last.filter(|p| p.end > to));
        self.start = to;
        self.scanned = to;
        self.compact();
    }

    /// Give back the space of consumed text.
    pub(crate) fn compact(&mut self) {
        let used = self.start - self.base;
        if used == self.buf.len() {
            self.buf.clear();
            self.base = self.start;
        } else if used > COMPACT_BYTES && used > self.buf.len() / 2 {
            self.buf.drain(..used);
            self.base = self.start;
        }
    }
}
