//! Sets of bytes, and the partition of all bytes into classes that a grammar cannot tell apart.

use std::fmt;

/// A set of byte values, 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteSet(pub [u64; 4]);

impl ByteSet {
    /// No byte.
    pub const EMPTY: ByteSet = ByteSet([0; 4]);
    /// Every byte.
    pub const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// The set of one byte.
    pub const fn single(byte: u8) -> Self {
        let mut words = [0; 4];
        words[(byte >> 6) as usize] = 1 << (byte & 63);
        ByteSet(words)
    }

    /// All bytes from `low` to `high`, both included; empty when `low > high`.
    pub fn range(low: u8, high: u8) -> Self {
        let mut set = Self::EMPTY;
        for byte in low..=high {
            set.insert(byte);
        }
        set
    }

    /// The bytes of a slice, as a set.
    pub fn of(bytes: &[u8]) -> Self {
        let mut set = Self::EMPTY;
        for &byte in bytes {
            set.insert(byte);
        }
        set
    }

    /// Add a byte.
    pub fn insert(&mut self, byte: u8) {
        self.0[(byte >> 6) as usize] |= 1 << (byte & 63);
    }

    /// Whether the byte is in the set.
    #[inline]
    pub fn contains(&self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] >> (byte & 63) & 1 != 0
    }

    /// Set union.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        ByteSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Set intersection.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        ByteSet(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// All bytes that are not in the set.
    #[must_use]
    pub fn complement(&self) -> Self {
        ByteSet(std::array::from_fn(|i| !self.0[i]))
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// How many bytes are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The smallest byte of the set.
    pub fn first(&self) -> Option<u8> {
        self.iter().next()
    }

    /// The bytes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let mut words = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < 4 {
                if words[at] != 0 {
                    let bit = words[at].trailing_zeros();
                    words[at] &= words[at] - 1;
                    return Some((at as u32 * 64 + bit) as u8);
                }
                at += 1;
            }
            None
        })
    }
}

impl fmt::Debug for ByteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        let mut byte = 0usize;
        while byte < 256 {
            if self.contains(byte as u8) {
                let start = byte;
                while byte < 255 && self.contains(byte as u8 + 1) {
                    byte += 1;
                }
                write!(f, "{}", (start as u8).escape_ascii())?;
                if byte > start {
                    write!(f, "-{}", (byte as u8).escape_ascii())?;
                }
            }
            byte += 1;
        }
        write!(f, "]")
    }
}

/// A partition of the 256 bytes: bytes of one class behave alike in a whole grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteClasses {
    /// Class of each byte, `0..count`.
    pub class_of: [u8; 256],
    /// Number of classes, 1 to 256.
    pub count: usize,
    /// One byte of each class.
    pub representative: Vec<u8>,
}

impl ByteClasses {
    /// The coarsest partition in which every given set is a union of classes.
    pub fn from_sets<'a>(sets: impl IntoIterator<Item = &'a ByteSet>) -> Self {
        let mut class_of = [0u8; 256];
        let mut count = 1usize;
        for set in sets {
            if count == 256 {
                break;
            }
            // Split every class that the set cuts: members inside move to a new class.
            let mut moved = [usize::MAX; 256];
            let mut outside = [false; 256];
            for byte in 0..256usize {
                if !set.contains(byte as u8) {
                    outside[class_of[byte] as usize] = true;
                }
            }
            for byte in set.iter() {
                let class = class_of[byte as usize] as usize;
                if outside[class] {
                    if moved[class] == usize::MAX {
                        moved[class] = count;
                        count += 1;
                    }
                    class_of[byte as usize] = moved[class] as u8;
                }
            }
        }
        let mut representative = vec![0u8; count];
        for byte in (0..=255u8).rev() {
            representative[class_of[byte as usize] as usize] = byte;
        }
        ByteClasses {
            class_of,
            count,
            representative,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_split_exactly_where_sets_do() {
        let digits = ByteSet::range(b'0', b'9');
        let hex = digits.union(&ByteSet::range(b'a', b'f'));
        let classes = ByteClasses::from_sets([&digits, &hex]);
        assert_eq!(classes.count, 3);
        let class = |b: u8| classes.class_of[b as usize];
        assert_eq!(class(b'0'), class(b'9'));
        assert_eq!(class(b'a'), class(b'f'));
        assert_ne!(class(b'a'), class(b'0'));
        assert_ne!(class(b'g'), class(b'a'));
        assert_eq!(class(b'g'), class(0));
        for (i, &byte) in classes.representative.iter().enumerate() {
            assert_eq!(class(byte) as usize, i);
        }
    }

    #[test]
    fn iteration_is_sorted_and_complete() {
        let set = ByteSet::of(&[255, 0, 64, 63, 128]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 128, 255]);
        assert_eq!(set.complement().len(), 251);
    }
}
