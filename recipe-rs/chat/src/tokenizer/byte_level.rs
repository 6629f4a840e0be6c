//! The byte alphabet of byte-level BPE (GPT-2): every byte has a printable stand-in character.
//!
//! Printable Latin-1 bytes stand for themselves; the other 68 take U+0100, U+0101, … in byte order.

/// The character that stands for `byte` in the vocabulary's spellings.
pub(super) fn char_of_byte(byte: u8) -> char {
    let mut shifted = 0;
    for b in 0..=255u8 {
        let own = matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        if b == byte {
            return if own {
                char::from(b)
            } else {
                char::from_u32(256 + shifted).unwrap_or('\u{fffd}')
            };
        }
        shifted += u32::from(!own);
    }
    '\u{fffd}'
}

/// Turns vocabulary spellings back into bytes.
pub(super) struct ByteAlphabet {
    /// Byte of each character below U+0144 (the last stand-in is U+0143); `None` for others.
    bytes: [Option<u8>; 0x144],
}

impl ByteAlphabet {
    pub(super) fn new() -> Self {
        let mut bytes = [None; 0x144];
        for b in 0..=255u8 {
            if let Some(slot) = bytes.get_mut(char_of_byte(b) as usize) {
                *slot = Some(b);
            }
        }
        Self { bytes }
    }

    /// Append the bytes that `spelling` stands for; false (nothing appended) if it has a foreign character.
    pub(super) fn push_bytes(&self, spelling: &str, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        for c in spelling.chars() {
            match self.bytes.get(c as usize).copied().flatten() {
                Some(b) => out.push(b),
                None => {
                    out.truncate(start);
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_is_a_bijection_that_maps_space_to_g_with_dot() {
        let all: std::collections::BTreeSet<char> = (0..=255).map(char_of_byte).collect();
        assert_eq!(all.len(), 256);
        assert_eq!(char_of_byte(b' '), 'Ġ');
        assert_eq!(char_of_byte(b'\n'), 'Ċ');
        let alphabet = ByteAlphabet::new();
        for b in 0..=255 {
            let mut out = Vec::new();
            assert!(alphabet.push_bytes(&char_of_byte(b).to_string(), &mut out));
            assert_eq!(out, [b]);
        }
        assert!(!alphabet.push_bytes("a b", &mut Vec::new()));
    }
}
