//! Plain string matchers (Knuth-Morris-Pratt) that run in parallel over the pieces of a state.

/// Where a character came from, which decides what it may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A text chunk: matches ordinary and special characters of a marker.
    Text,
    /// Ordinary tokens: matches ordinary characters only.
    Ordinary,
    /// An added token: matches the characters of a special element only.
    Special,
}

/// A literal to look for, optionally with the run of line feeds directly in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    bytes: Vec<u8>,
    /// Per byte: part of a special element (`</think>` or the DSML token)?
    special: Vec<bool>,
    /// Length of the longest proper border of each prefix.
    border: Vec<usize>,
    takes_line_feeds: bool,
}

impl Marker {
    /// `parts`: literal texts in order, each with whether it is a special element.
    pub(crate) fn new(parts: &[(&str, bool)], takes_line_feeds: bool) -> Self {
        let mut bytes = Vec::new();
        let mut special = Vec::new();
        for (text, is_special) in parts {
            bytes.extend_from_slice(text.as_bytes());
            special.resize(bytes.len(), *is_special);
        }
        let mut border = vec![0; bytes.len() + 1];
        let mut k = 0;
        for i in 1..bytes.len() {
            while k > 0 && bytes[i] != bytes[k] {
                k = border[k];
            }
            if bytes[i] == bytes[k] {
                k += 1;
            }
            border[i + 1] = k;
        }
        Self {
            bytes,
            special,
            border,
            takes_line_feeds,
        }
    }

    fn fits(&self, at: usize, byte: u8, class: Class) -> bool {
        self.bytes[at] == byte
            && match class {
                Class::Text => true,
                Class::Ordinary => !self.special[at],
                Class::Special => self.special[at],
            }
    }

    /// Whether an open match can begin with `byte`.
    fn can_start_with(&self, byte: u8) -> bool {
        // An empty literal (a special token respelled as nothing) is found after any character.
        self.bytes.first().is_none_or(|&b| b == byte) || (self.takes_line_feeds && byte == b'\n')
    }
}

/// Progress of one marker: line feeds seen, then bytes of the literal matched.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    matched: usize,
    line_feeds: usize,
}

impl Cursor {
    fn step(&mut self, marker: &Marker, byte: u8, class: Class) -> bool {
        if byte == b'\n' && marker.takes_line_feeds && self.matched == 0 && class != Class::Special
        {
            self.line_feeds += 1;
            return false;
        }
        if marker.bytes.is_empty() {
            return true;
        }
        // A line feed that breaks an open literal starts no run: only those seen while nothing is open count.
        while self.matched > 0 && !marker.fits(self.matched, byte, class) {
            self.matched = marker.border[self.matched];
            self.line_feeds = 0;
        }
        if marker.fits(self.matched, byte, class) {
            self.matched += 1;
        } else {
            self.line_feeds = 0;
        }
        self.matched == marker.bytes.len()
    }

    fn open_len(&self) -> usize {
        self.matched + self.line_feeds
    }
}

/// A found marker: its index in the set, and the length of the match up to and including the last byte.
pub(crate) struct Found {
    pub(crate) marker: usize,
    pub(crate) end: usize,
    pub(crate) len: usize,
}

/// The markers of one state; the earliest end wins, then the order in the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct MarkerSet {
    markers: Vec<Marker>,
    cursors: Vec<Cursor>,
    starts: Vec<bool>,
    idle: bool,
}

impl MarkerSet {
    pub(crate) fn new(markers: Vec<Marker>) -> Self {
        let starts = (0..=255)
            .map(|byte| markers.iter().any(|m| m.can_start_with(byte)))
            .collect();
        Self {
            cursors: vec![Cursor::default(); markers.len()],
            markers,
            starts,
            idle: true,
        }
    }

    /// Forget all open matches.
    pub(crate) fn reset(&mut self) {
        self.cursors.fill(Cursor::default());
        self.idle = true;
    }

    /// Whether no match is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Position of the first byte that could begin a match; only meaningful while idle.
    pub(crate) fn first_start(&self, text: &[u8]) -> Option<usize> {
        text.iter().position(|&b| self.starts[b as usize])
    }

    /// Scan `text`, all of one class. On a match the caller resets the set it goes on with.
    pub(crate) fn scan(&mut self, text: &[u8], class: Class) -> Option<Found> {
        let mut at = 0;
        while at < text.len() {
            if self.idle {
                match self.first_start(&text[at..]) {
                    Some(skip) => at += skip,
                    None => return None,
                }
            }
            let mut open = 0;
            for (i, (marker, cursor)) in self.markers.iter().zip(&mut self.cursors).enumerate() {
                if cursor.step(marker, text[at], class) {
                    return Some(Found {
                        marker: i,
                        end: at + 1,
                        len: cursor.open_len(),
                    });
                }
                open |= cursor.open_len();
            }
            self.idle = open == 0;
            at += 1;
        }
        None
    }

    /// Length of the longest open match at the end of what was scanned.
    pub(crate) fn open_len(&self) -> usize {
        if self.idle {
            return 0;
        }
        self.cursors.iter().map(Cursor::open_len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(markers: &[(&str, bool)]) -> MarkerSet {
        MarkerSet::new(
            markers
                .iter()
                .map(|(t, lf)| Marker::new(&[(t, false)], *lf))
                .collect(),
        )
    }

    #[test]
    fn earliest_end_wins_then_list_order() {
        let found = set(&[("o w", false), ("llo w", false)])
            .scan(b"hello world", Class::Text)
            .unwrap();
        assert_eq!((found.marker, found.end, found.len), (0, 7, 3));
        let found = set(&[("llo w", false), ("o w", false)])
            .scan(b"hello world", Class::Text)
            .unwrap();
        assert_eq!((found.marker, found.len), (0, 5));
    }

    #[test]
    fn a_line_feed_that_breaks_the_literal_is_not_counted() {
        let mut s = set(&[("</t>", true)]);
        let found = s.scan(b"x<\n\n</t>", Class::Text).unwrap();
        assert_eq!(found.len, 5);
        s.reset();
        assert!(s.scan(b"x\n\n<", Class::Text).is_none());
        assert_eq!(s.open_len(), 3);
    }

    #[test]
    fn special_elements_need_the_token_or_a_text_chunk() {
        let marker = || MarkerSet::new(vec![Marker::new(&[("<", false), ("D", true)], false)]);
        let mut s = marker();
        assert!(s.scan(b"<", Class::Ordinary).is_none());
        assert!(s.scan(b"D", Class::Special).is_some());
        assert!(marker().scan(b"<D", Class::Ordinary).is_none());
        assert!(marker().scan(b"<D", Class::Special).is_none());
        assert!(marker().scan(b"<D", Class::Text).is_some());
    }
}
