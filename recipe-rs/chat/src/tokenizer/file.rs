//! Reads `tokenizer.json` (the format of Hugging Face `tokenizers`) and refuses, by name, what a
//! byte-level BPE tokenizer does not need.

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

use super::error::TokenizerError;

#[derive(serde::Deserialize)]
pub(super) struct TokenizerFile {
    #[serde(default)]
    truncation: Option<Value>,
    #[serde(default)]
    padding: Option<Value>,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedTokenEntry>,
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pub(super) pre_tokenizer: Option<Value>,
    #[serde(default)]
    decoder: Option<Value>,
    pub(super) model: Model,
}

/// One entry of `added_tokens`.
#[derive(serde::Deserialize, Clone, Debug)]
pub(super) struct AddedTokenEntry {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
}

#[derive(serde::Deserialize)]
pub(super) struct Model {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
    #[serde(default)]
    pub(super) unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    #[serde(default)]
    pub(super) vocab: Vocab,
    #[serde(default)]
    pub(super) merges: Vec<Merge>,
}

/// The vocabulary as listed; a model of another type may hold something else there.
#[derive(Default)]
pub(super) struct Vocab(pub(super) BTreeMap<String, u32>);

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vocab;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from token to id")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Vocab, A::Error> {
                let mut vocab = BTreeMap::new();
                while let Some((token, id)) = map.next_entry::<String, u32>()? {
                    vocab.insert(token, id);
                }
                Ok(Vocab(vocab))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                // The list form of Unigram models: `model.type` is refused right after.
                while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(Vocab::default())
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// A merge rule, written `"left right"` or `["left", "right"]`.
pub(super) struct Merge(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge rule \"left right\" or [\"left\", \"right\"]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.to_owned(), right.to_owned()))
                    }
                    _ => Err(E::custom(format!("merge rule {text:?} is not two tokens"))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let mut next = || seq.next_element::<String>();
                match (next()?, next()?, next()?) {
                    (Some(left), Some(right), None) => Ok(Merge(left, right)),
                    _ => Err(A::Error::custom("a merge rule list must hold two tokens")),
                }
            }
        }
        deserializer.deserialize_any(V)
    }
}

impl TokenizerFile {
    /// Parse the JSON and refuse everything outside byte-level BPE.
    pub(super) fn parse(json: &[u8]) -> Result<Self, TokenizerError> {
        let file: Self = serde_json::from_slice(json).map_err(TokenizerError::Json)?;
        file.check_model()?;
        for (part, value) in [("truncation", &file.truncation), ("padding", &file.padding)] {
            if value.is_some() {
                return Err(TokenizerError::unsupported(
                    part,
                    format!("{part} settings"),
                ));
            }
        }
        check_normalizer(file.normalizer.as_ref(), "normalizer")?;
        check_decoder(file.decoder.as_ref())?;
        Ok(file)
    }

    fn check_model(&self) -> Result<(), TokenizerError> {
        let model = &self.model;
        if let Some(kind) = model.kind.as_deref().filter(|kind| *kind != "BPE") {
            return Err(TokenizerError::unsupported(
                "model.type",
                format!("model type {kind:?} (expected \"BPE\")"),
            ));
        }
        if let Some(dropout) = model.dropout.filter(|dropout| *dropout != 0.0) {
            return Err(TokenizerError::unsupported(
                "model.dropout",
                format!("dropout {dropout}"),
            ));
        }
        for (name, value) in [
            (
                "continuing_subword_prefix",
                &model.continuing_subword_prefix,
            ),
            ("end_of_word_suffix", &model.end_of_word_suffix),
        ] {
            if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                return Err(TokenizerError::unsupported(
                    format!("model.{name}"),
                    format!("{name} {value:?}"),
                ));
            }
        }
        Ok(())
    }
}

/// The `type` field of a component, or a description of what stands there instead.
pub(super) fn component_type(value: &Value) -> &str {
    value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("(no type)")
}

fn check_normalizer(value: Option<&Value>, part: &str) -> Result<(), TokenizerError> {
    let Some(value) = value else { return Ok(()) };
    match (component_type(value), value.get("normalizers")) {
        ("Sequence", Some(Value::Array(items))) => {
            for (i, item) in items.iter().enumerate() {
                check_normalizer(Some(item), &format!("{part}.normalizers[{i}]"))?;
            }
            Ok(())
        }
        (kind, _) => Err(TokenizerError::unsupported(
            part,
            format!("normalizer {kind:?} (text is encoded as it is)"),
        )),
    }
}

fn check_decoder(value: Option<&Value>) -> Result<(), TokenizerError> {
    match value.map(component_type) {
        None | Some("ByteLevel") => Ok(()),
        Some(kind) => Err(TokenizerError::unsupported(
            "decoder",
            format!("decoder {kind:?} (expected \"ByteLevel\")"),
        )),
    }
}
