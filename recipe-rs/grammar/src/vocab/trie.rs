//! Byte tries in one flat depth-first array: a byte that cannot follow skips its subtree by one jump.

/// A trie over byte strings, each with one or more ids.
///
/// Node 0 is the root. Nodes come in depth-first order, children by ascending byte; the strings that
/// end below a node are a contiguous range of `order`, and those that end at it come first.
#[derive(Clone, Debug, Default)]
pub struct Trie {
    /// Byte on the edge to each node (0 for the root).
    pub bytes: Vec<u8>,
    /// End of each node's subtree.
    pub ends: Vec<u32>,
    /// Where each node's strings start in `order`; one more entry than nodes.
    pub starts: Vec<u32>,
    /// Ids in depth-first order of their strings.
    pub order: Vec<u32>,
}

impl Trie {
    /// Build from pairs sorted by string.
    pub fn from_sorted<'a>(items: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut trie = Trie {
            bytes: vec![0],
            ends: vec![0],
            starts: vec![0],
            order: Vec::new(),
        };
        // Nodes on the path to the string last added.
        let mut path: Vec<u32> = vec![0];
        let mut last: &[u8] = &[];
        for (string, id) in items {
            let common = string.iter().zip(last).take_while(|(a, b)| a == b).count();
            for &node in &path[common + 1..] {
                trie.ends[node as usize] = trie.bytes.len() as u32;
            }
            path.truncate(common + 1);
            for &byte in &string[common..] {
                path.push(trie.bytes.len() as u32);
                trie.bytes.push(byte);
                trie.ends.push(0);
                trie.starts.push(trie.order.len() as u32);
            }
            trie.order.push(id);
            last = string;
        }
        for node in path {
            trie.ends[node as usize] = trie.bytes.len() as u32;
        }
        trie.starts.push(trie.order.len() as u32);
        trie
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no string is in it.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Ids of the strings that end at a node.
    #[inline]
    pub fn ids_at(&self, node: usize) -> &[u32] {
        &self.order[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Ids of the strings that end at a node or below it.
    pub fn ids_below(&self, node: usize) -> &[u32] {
        &self.order[self.starts[node] as usize..self.starts[self.ends[node] as usize] as usize]
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len() + 4 * (self.ends.len() + self.starts.len() + self.order.len())
    }
}

/// Kinds of characters by their first byte, for [`summaries`]; the last kind is what no walk passes over.
pub(crate) const KINDS: usize = 64;
const MALFORMED: u8 = 63;

/// The kind of each first byte: letters, digits and controls together, other ASCII one by one, lead bytes in groups
/// of scripts; continuation bytes begin no character.
pub(crate) fn kind_of(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        b'\n' => 3,
        b'\r' => 4,
        b'\t' => 5,
        0x00..=0x1f | 0x7f => 6,
        b' '..=b'/' => 7 + (byte - b' '),
        b':'..=b'@' => 23 + (byte - b':'),
        b'['..=b'`' => 30 + (byte - b'['),
        b'{'..=b'~' => 36 + (byte - b'{'),
        0xc2 => 40,
        0xc3 => 41,
        0xc4..=0xcb => 42,
        0xcc..=0xcf => 43,
        0xd0..=0xd3 => 44,
        0xd4..=0xdf => 45,
        0xe0 => 46,
        0xe1 => 47,
        0xe2 => 48,
        0xe3 => 49,
        0xe4..=0xe9 => 50,
        0xea..=0xec => 51,
        0xed => 52,
        0xee => 53,
        0xef => 54,
        0xf0 => 55,
        0xf1..=0xf3 => 56,
        0xf4 => 57,
        _ => MALFORMED,
    }
}

/// For each node at the border of two characters: the kinds of the characters below it, as bits. The last bit is set
/// where bytes below are not UTF-8 from there on (and for nodes inside a character); a character that is cut off at a
/// token's end is fine.
pub(crate) fn summaries(trie: &Trie) -> Box<[u64]> {
    let n = trie.len();
    let mut found = vec![0u64; n];
    // Continuation bytes still to come after each node.
    let mut open = vec![0u8; n];
    let mut above = vec![0u32; n];
    let mut path: Vec<u32> = vec![0];
    for i in 1..n {
        while path
            .last()
            .is_some_and(|&p| trie.ends[p as usize] as usize <= i)
        {
            path.pop();
        }
        above[i] = path.last().copied().unwrap_or(0);
        let byte = trie.bytes[i];
        open[i] = match (open[above[i] as usize], byte) {
            (0, 0x00..=0x7f) => 0,
            (0, 0xc2..=0xdf) => 1,
            (0, 0xe0..=0xef) => 2,
            (0, 0xf0..=0xf4) => 3,
            (left @ 1..=3, 0x80..=0xbf) => left - 1,
            _ => 0xff, // not UTF-8, and so is all that is below
        };
        path.push(i as u32);
    }
    // Children come after their parents: from the back, each node hands its kinds to the one above.
    for i in (1..n).rev() {
        let up = above[i] as usize;
        let own = if open[i] == 0xff {
            1 << MALFORMED
        } else if open[up] == 0 {
            1 << kind_of(trie.bytes[i])
        } else {
            0
        };
        found[up] |= found[i] | own;
    }
    for i in 0..n {
        if open[i] != 0 {
            found[i] |= 1 << MALFORMED;
        }
    }
    found.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_hold_the_kinds_of_whole_characters() {
        let words: [&[u8]; 4] = [b"a", b"a-\xe4\xb8", b"b1", b"b\x80"];
        let trie = Trie::from_sorted(words.iter().enumerate().map(|(i, w)| (*w, i as u32)));
        let found = summaries(&trie);
        let bits = |kinds: &[u8]| kinds.iter().fold(0u64, |m, k| m | 1 << k);
        let lead = kind_of(0xe4);
        assert_eq!(found[1], bits(&[kind_of(b'-'), lead])); // below "a"
        assert_eq!(found[2], bits(&[lead])); // below "a-"
        assert_eq!(found[3], bits(&[MALFORMED])); // inside the character
        assert_eq!(found[5], bits(&[2, MALFORMED])); // below "b"
    }

    #[test]
    fn subtrees_and_ids_are_contiguous() {
        let words: [&[u8]; 6] = [b"", b"a", b"ab", b"ab", b"b", b"ba"];
        let trie = Trie::from_sorted(words.iter().enumerate().map(|(i, w)| (*w, i as u32)));
        assert_eq!(trie.bytes, [0, b'a', b'b', b'b', b'a']);
        assert_eq!(trie.ends, [5, 3, 3, 5, 5]);
        assert_eq!(trie.ids_at(0), [0]);
        assert_eq!(trie.ids_at(2), [2, 3]);
        assert_eq!(trie.ids_below(1), [1, 2, 3]);
        assert_eq!(trie.ids_below(0), [0, 1, 2, 3, 4, 5]);
    }
}
