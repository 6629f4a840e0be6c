//! Reading `tokenizer.json` (the layout of Hugging Face `tokenizers`): token bytes and special tokens.
//!
//! Two kinds of byte vocabularies are known: byte-level BPE, whose token strings spell each byte by one
//! printable character (GPT-2's table), and byte-fallback BPE/Unigram, whose strings are text with `▁`
//! for a space and `<0xHH>` for single bytes.

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

use super::Vocabulary;
use crate::error::{GrammarError, Result};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(borrow)]
    model: Model<'a>,
    #[serde(default)]
    decoder: Option<Decoder>,
    #[serde(default)]
    pre_tokenizer: Option<Decoder>,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    vocab: Tokens<'a>,
    #[serde(default)]
    byte_fallback: bool,
}

/// Only whether some part is byte-level, and whether a replacement of `▁` occurs.
#[derive(Deserialize)]
struct Decoder {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    decoders: Vec<Decoder>,
    #[serde(default)]
    pretokenizers: Vec<Decoder>,
}

impl Decoder {
    fn mentions(&self, kind: &str) -> bool {
        self.kind == kind
            || self
                .decoders
                .iter()
                .chain(&self.pretokenizers)
                .any(|d| d.mentions(kind))
    }
}

/// A map from string to id (BPE, WordPiece) or a list of [string, score] (Unigram).
struct Tokens<'a>(Vec<(Cow<'a, str>, u32)>);

/// A string that borrows from the input where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a token")
            }
            fn visit_borrowed_str<E>(self, s: &'de str) -> std::result::Result<Self::Value, E> {
                Ok(Cow::Borrowed(s))
            }
            fn visit_str<E>(self, s: &str) -> std::result::Result<Self::Value, E> {
                Ok(Cow::Owned(s.to_owned()))
            }
        }
        d.deserialize_str(V).map(Text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Tokens<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vec<(Cow<'de, str>, u32)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: a map of token to id, or a list of [token, score]")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some((text, id)) = map.next_entry::<Text<'de>, u32>()? {
                    out.push((text.0, id));
                }
                Ok(out)
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some((text, _)) = seq.next_element::<(Text<'de>, IgnoredAny)>()? {
                    let id = out.len() as u32;
                    out.push((text.0, id));
                }
                Ok(out)
            }
        }
        d.deserialize_any(V).map(Tokens)
    }
}

impl Vocabulary {
    /// Read the text of a `tokenizer.json`. Every entry of `added_tokens` is special, whatever its
    /// `special` flag says.
    ///
    /// # Errors
    /// `Invalid` when the text is not such a file or its ids make no sense.
    pub fn from_tokenizer_json(text: &str, eos: &[u32], vocab_size: Option<u32>) -> Result<Self> {
        let file: File<'_> = serde_json::from_str(text)
            .map_err(|e| GrammarError::invalid(format!("not a tokenizer.json: {e}")))?;
        let byte_level = file
            .decoder
            .as_ref()
            .is_some_and(|d| d.mentions("ByteLevel"))
            || file
                .pre_tokenizer
                .as_ref()
                .is_some_and(|d| d.mentions("ByteLevel"));
        let most = file
            .model
            .vocab
            .0
            .iter()
            .map(|t| t.1)
            .chain(file.added_tokens.iter().map(|a| a.id))
            .max();
        let count = most.map_or(0, |m| m as usize + 1);
        if count > 16 << 20 {
            return Err(GrammarError::invalid(format!(
                "the largest token id, {}, is out of reason",
                count - 1
            )));
        }
        let mut tokens: Vec<Vec<u8>> = vec![Vec::new(); count];
        let special: Vec<u32> = file.added_tokens.iter().map(|a| a.id).collect();
        let table = byte_table();
        for (text, id) in &file.model.vocab.0 {
            let bytes = &mut tokens[*id as usize];
            if byte_level {
                for c in text.chars() {
                    match table.get(c as usize) {
                        Some(&b) if b >= 0 => bytes.push(b as u8),
                        // A token outside the table (an unlisted special): its own spelling.
                        _ => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    }
                }
            } else if let Some(byte) = fallback_byte(text).filter(|_| file.model.byte_fallback) {
                bytes.push(byte);
            } else {
                bytes.extend(text.replace('\u{2581}', " ").bytes());
            }
        }
        Vocabulary::new(&tokens, &special, eos, vocab_size)
    }
}

fn fallback_byte(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 {
        u8::from_str_radix(hex, 16).ok()
    } else {
        None
    }
}

/// GPT-2's table: printable characters stand for themselves, the other bytes for 256, 257, …
fn byte_table() -> [i16; 512] {
    let mut table = [-1i16; 512];
    let mut extra = 256;
    for byte in 0..256usize {
        let printable = (33..=126).contains(&byte)
            || (161..=172).contains(&byte)
            || (174..=255).contains(&byte);
        if printable {
            table[byte] = byte as i16;
        } else {
            table[extra] = byte as i16;
            extra += 1;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_tokens_and_added_ones() {
        let text = r#"{"added_tokens":[{"id":2,"content":"</think>","special":false}],
            "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"}]},
            "model":{"type":"BPE","vocab":{"a":0,"Ġb\"":1},"merges":[]}}"#;
        let v = Vocabulary::from_tokenizer_json(text, &[], Some(64)).unwrap();
        assert_eq!(v.token(1), b" b\"");
        assert!(v.is_special(2) && !v.is_special(0));
        assert_eq!((v.len(), v.words()), (3, 2));
    }

    #[test]
    fn byte_fallback_tokens() {
        let text = r#"{"model":{"type":"BPE","byte_fallback":true,"vocab":{"<0x0A>":0,"▁the":1}}}"#;
        let v = Vocabulary::from_tokenizer_json(text, &[], None).unwrap();
        assert_eq!((v.token(0), v.token(1)), (&b"\n"[..], &b" the"[..]));
    }
}
