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

#[cfg(test)]
mod tests {
    use super::*;

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
