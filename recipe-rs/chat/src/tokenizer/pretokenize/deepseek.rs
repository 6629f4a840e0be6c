//! The DeepSeek V3/V4 pre-tokenizer as one scan over the text.
//!
//! The file lists three `Split`s, each applied to the pieces of the one before:
//!
//! 1. `\p{N}{1,3}`: numbers in groups of at most three;
//! 2. `[一-龥぀-ゟ゠-ヿ]+`: runs of Han and kana;
//! 3. the alternation in [`PATTERNS`]: words, punctuation, white space.
//!
//! Because the third sees one piece at a time, a look-ahead never looks past a number or a border
//! between Han/kana and other text. Numbers hold nothing the later patterns match, so a number
//! group is a piece; everything else falls into *segments* (maximal runs without numbers, either all
//! Han/kana or none), which [`Cursor::in_segment`] ends for us. Characters that no alternative
//! matches (controls, unassigned, …) gather into a piece of their own, as `Isolated` splits do.

use super::classes::{CJK, L, M, N, NL, P, S, W};
use super::cursor::Cursor;

/// The three patterns, exactly as the file spells them.
pub(super) const PATTERNS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// Call `emit` with the byte borders of every piece of `text`, in order.
pub(super) fn split(text: &str, emit: &mut impl FnMut(usize, usize)) {
    let mut cursor = Cursor::new(text);
    let mut at = 0;
    while at < text.len() {
        let (class, len) = cursor.class(at);
        if class & N != 0 {
            let mut end = at + len;
            for _ in 1..3 {
                let (class, len) = cursor.class(end);
                if class & N == 0 {
                    break;
                }
                end += len;
            }
            emit(at, end);
            at = end;
        } else {
            cursor.flip = class & CJK;
            at = segment(text.as_bytes(), &cursor, at, emit);
        }
    }
}

/// Split the segment that starts at `start`; return its end.
#[inline]
fn segment(
    text: &[u8],
    cursor: &Cursor<'_>,
    start: usize,
    emit: &mut impl FnMut(usize, usize),
) -> usize {
    let mut at = start;
    let mut gap = start; // unmatched characters since here
    loop {
        let (class, len) = cursor.in_segment(at);
        if len == 0 {
            if gap < at {
                emit(gap, at);
            }
            return at;
        }
        match matched(text, cursor, at, class, len) {
            Some(end) => {
                if gap < at {
                    emit(gap, at);
                }
                emit(at, end);
                at = end;
                gap = end;
            }
            None => at += len,
        }
    }
}

/// End of what the third pattern matches at `at` (a character of this class and length), if anything.
#[inline(always)]
fn matched(text: &[u8], cursor: &Cursor<'_>, at: usize, class: u8, len: usize) -> Option<usize> {
    let next = at + len;
    if class & (L | M) != 0 {
        return Some(cursor.run(next, L | M));
    }
    if class & (P | S) != 0 {
        // Only ASCII has one-byte characters, and its P and S are exactly the listed 32.
        if len == 1 && text.get(next).is_some_and(u8::is_ascii_alphabetic) {
            let letters = text[next..].iter().take_while(|b| b.is_ascii_alphabetic());
            return Some(next + letters.count());
        }
        return Some(punctuation(cursor, next));
    }
    if class & NL == 0 {
        let (following, _) = cursor.in_segment(next);
        if following & (L | M) != 0 {
            return Some(cursor.run(next, L | M));
        }
        if text[at] == b' ' && following & (P | S) != 0 {
            return Some(punctuation(cursor, next));
        }
    }
    (class & W != 0).then(|| white_space(text, cursor, at))
}

/// `[\p{P}\p{S}]*[\r\n]*` from `at`.
#[inline]
fn punctuation(cursor: &Cursor<'_>, at: usize) -> usize {
    cursor.run(cursor.run(at, P | S), NL)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+` at a white-space character.
#[inline]
fn white_space(text: &[u8], cursor: &Cursor<'_>, at: usize) -> usize {
    let mut end = at;
    let mut last = at;
    let mut after_newline = None;
    let ended = loop {
        let (class, len) = cursor.in_segment(end);
        if class & W == 0 {
            break len == 0;
        }
        last = end;
        end += len;
        if class & NL != 0 {
            after_newline = Some(end);
        }
    };
    debug_assert!(end > at && end <= text.len());
    match after_newline {
        Some(end) => end,
        None if ended || last == at => end,
        None => last,
    }
}
