//! A position-by-position view of a text as class bit sets; shared by the hand-made scanners.

use super::classes::{Classes, CJK, CLASSES, N};

/// Reads classes of the characters of one text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    classes: &'static Classes,
    /// XORed onto every class: which kind of segment the scanner stands in (see `deepseek.rs`).
    pub(super) flip: u8,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            classes: &CLASSES,
            flip: 0,
        }
    }

    /// Class and byte length of the character at byte `at`; `(0, 0)` at the end of the text.
    #[inline(always)]
    pub(super) fn class(&self, at: usize) -> (u8, usize) {
        match self.text.as_bytes().get(at) {
            Some(&byte) if byte < 0x80 => (self.classes.of_ascii(byte), 1),
            Some(_) => self.wide(at),
            None => (0, 0),
        }
    }

    #[inline]
    fn wide(&self, at: usize) -> (u8, usize) {
        match self.text[at..].chars().next() {
            Some(c) => (self.classes.of(c), c.len_utf8()),
            None => (0, 0),
        }
    }

    /// As `class`, but `(N, 0)` where the segment ends: at the end of the text, at a number, and where
    /// Han/kana and other text meet.
    #[inline(always)]
    pub(super) fn in_segment(&self, at: usize) -> (u8, usize) {
        let (class, len) = self.class(at);
        if len == 0 || (class ^ self.flip) & (N | CJK) != 0 {
            (N, 0)
        } else {
            (class, len)
        }
    }

    /// End of the run of characters from `at` whose class meets `mask`, inside the segment.
    #[inline(always)]
    pub(super) fn run(&self, mut at: usize, mask: u8) -> usize {
        loop {
            let (class, len) = self.in_segment(at);
            if class & mask == 0 {
                return at;
            }
            at += len;
        }
    }
}
