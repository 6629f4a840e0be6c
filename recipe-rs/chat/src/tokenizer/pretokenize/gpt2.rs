//! The GPT-2 pre-tokenizer (`ByteLevel` with `use_regex`) as one scan over the text.

use super::classes::{L, N, W};
use super::cursor::Cursor;

/// The pattern; every character belongs to some match, so there are no gaps.
#[cfg(test)]
pub(super) const PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Call `emit` with the byte borders of every piece of `text`, in order.
pub(super) fn split(text: &str, emit: &mut impl FnMut(usize, usize)) {
    let cursor = Cursor::new(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = matched(bytes, &cursor, at);
        emit(at, end);
        at = end;
    }
}

#[inline]
fn matched(text: &[u8], cursor: &Cursor<'_>, at: usize) -> usize {
    if let [b'\'', rest @ ..] = &text[at..] {
        match rest {
            [b's' | b't' | b'm' | b'd', ..] => return at + 2,
            [b'r' | b'v', b'e', ..] | [b'l', b'l', ..] => return at + 3,
            _ => {}
        }
    }
    let (class, len) = cursor.class(at);
    if class & W == 0 {
        return run_like(cursor, at, class, len);
    }
    if text[at] == b' ' {
        let (class, len) = cursor.class(at + 1);
        if len != 0 && class & W == 0 {
            return run_like(cursor, at + 1, class, len);
        }
    }
    let mut end = at;
    let mut last = at;
    loop {
        let (class, len) = cursor.class(end);
        if class & W == 0 {
            return if len == 0 || last == at { end } else { last };
        }
        last = end;
        end += len;
    }
}

/// End of the run of characters of the same kind (letter, number or neither) as the one at `at`.
#[inline]
fn run_like(cursor: &Cursor<'_>, at: usize, class: u8, len: usize) -> usize {
    let kind = class & (L | N | W);
    let mut end = at + len;
    loop {
        let (class, len) = cursor.class(end);
        if len == 0 || class & (L | N | W) != kind {
            return end;
        }
        end += len;
    }
}
