//! A small tokenizer whose merges are known, and random ones against the definition.

#![allow(clippy::single_range_in_vec_init)] // lists of one special range

use super::*;
use serde_json::{json, Value};

pub(super) fn tiny(merges: &[(&str, &str)], added: Value) -> Value {
    let mut vocab = serde_json::Map::new();
    for byte in 0..=255u8 {
        vocab.insert(byte_level::char_of_byte(byte).to_string(), json!(byte));
    }
    for (left, right) in merges {
        let next = vocab.len();
        vocab.entry(format!("{left}{right}")).or_insert(json!(next));
    }
    let merges: Vec<_> = merges.iter().map(|(l, r)| format!("{l} {r}")).collect();
    json!({
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    })
}

pub(super) fn load(file: &Value) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_str(&file.to_string())
}

#[test]
fn merges_go_by_rank_then_from_the_left() {
    let t = load(&tiny(
        &[("a", "a"), ("b", "c"), ("a", "b"), ("aa", "bc")],
        json!([]),
    ))
    .unwrap();
    assert_eq!(t.encode("aaa").unwrap(), [256, u32::from(b'a')]);
    assert_eq!(t.encode("abc").unwrap(), [u32::from(b'a'), 257]);
    assert_eq!(t.encode("aabc").unwrap(), [259]);
    assert_eq!(t.encode("aaabc").unwrap(), [256, u32::from(b'a'), 257]);
    assert_eq!(t.decode(&[259, 256]), "aabcaa");
}

#[test]
fn token_that_merges_do_not_reach_is_not_used_unless_merges_are_ignored() {
    // "abc" is in the vocabulary, but "bc" is made first and "a"+"bc" has no rule.
    let mut file = tiny(&[("b", "c"), ("a", "b"), ("ab", "c")], json!([]));
    let t = load(&file).unwrap();
    assert_eq!(t.encode("abc").unwrap(), [u32::from(b'a'), 256]);
    file["model"]["ignore_merges"] = json!(true);
    assert_eq!(load(&file).unwrap().encode("abc").unwrap(), [258]);
}

#[test]
fn every_way_of_merging_equals_the_definition() {
    let mut seed = 0x0123_4567_89AB_CDEFu64;
    let mut below = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    for _ in 0..60 {
        let mut spellings: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut merges: Vec<(String, String)> = Vec::new();
        for _ in 0..40 {
            let pick = |n: u64| spellings[n as usize].clone();
            let pair = (
                pick(below(spellings.len() as u64)),
                pick(below(spellings.len() as u64)),
            );
            let joined = format!("{}{}", pair.0, pair.1);
            if joined.len() <= 12 && !merges.contains(&pair) {
                if !spellings.contains(&joined) {
                    spellings.push(joined);
                }
                merges.push(pair);
            }
        }
        let pairs: Vec<_> = merges
            .iter()
            .map(|(l, r)| (l.as_str(), r.as_str()))
            .collect();
        let t = load(&tiny(&pairs, json!([]))).unwrap();
        for round in 0..60 {
            let len = if round < 50 {
                1 + below(63)
            } else {
                65 + below(400)
            };
            let word: String = (0..len)
                .map(|_| ['a', 'b', 'c'][below(3) as usize])
                .collect();
            let expected = t.0.bpe.merge_by_definition(word.as_bytes());
            for ids in t.0.bpe.merge_both_ways(word.as_bytes()) {
                assert_eq!(ids, expected, "{merges:?} {word}");
            }
            for _ in 0..2 {
                assert_eq!(
                    t.encode_ordinary(&word).unwrap(),
                    expected,
                    "{merges:?} {word}"
                );
            }
        }
    }
}

#[test]
fn long_run_of_one_letter_is_not_quadratic() {
    let t = load(&tiny(
        &[("a", "a"), ("aa", "aa"), ("aaaa", "aaaa")],
        json!([]),
    ))
    .unwrap();
    let ids = t.encode_ordinary(&"a".repeat(4_000_000)).unwrap();
    assert_eq!(ids, vec![258; 500_000]);
}

#[test]
fn added_tokens_match_leftmost_longest_and_honour_their_flags() {
    let token = |id: u32, content: &str| json!({"id": id, "content": content, "special": true});
    let mut strip = token(258, "<s>");
    strip["lstrip"] = json!(true);
    strip["rstrip"] = json!(true);
    let mut word = token(259, "ab");
    word["single_word"] = json!(true);
    let mut normalized = token(260, "cd<t>");
    normalized["normalized"] = json!(true);
    let t = load(&tiny(
        &[],
        json!([
            token(256, "<t>"),
            token(257, "<t><t>"),
            strip,
            word,
            normalized
        ]),
    ))
    .unwrap();
    let bytes = |s: &str| s.bytes().map(u32::from).collect::<Vec<_>>();
    assert_eq!(t.encode("<t><t><t>").unwrap(), [257, 256]);
    assert_eq!(
        t.encode("x \n<s> \t y").unwrap(),
        [bytes("x"), vec![258], bytes("y")].concat()
    );
    assert_eq!(
        t.encode("ab abc ab").unwrap(),
        [vec![259], bytes(" abc "), vec![259]].concat()
    );
    // Tokens that are not normalized go first, even if another starts further left.
    assert_eq!(
        t.encode("cd<t>").unwrap(),
        [bytes("cd"), vec![256]].concat()
    );
    assert_eq!(t.encode_ordinary("<t>").unwrap(), bytes("<t>"));
    assert_eq!(t.special_id("<t><t>"), Some(257));
    assert_eq!(t.special_id("a"), None);
    assert!(t.is_added(260) && !t.is_added(97) && !t.is_added(9999));
    assert_eq!(t.vocab_size(), 261);
}

#[test]
fn prompt_ranges_become_tokens_and_text_between_them_does_not() {
    let t = load(&tiny(&[], json!([{"id": 256, "content": "<t>"}]))).unwrap();
    let lt = [b'<', b't', b'>'].map(u32::from).to_vec();
    let ids = t.encode_prompt("<t><t>", [3..6]).unwrap();
    assert_eq!(ids, [lt.clone(), vec![256]].concat());
    let error = t.encode_prompt("<t>x", [3..4]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "special token \"x\" is not in the added vocabulary"
    );
    for ranges in [
        vec![0..9],
        vec![3..6, 0..3],
        vec![0..3, 2..5],
        vec![std::ops::Range { start: 3, end: 0 }],
    ] {
        assert!(matches!(
            t.encode_prompt("<t><t>", ranges),
            Err(TokenizerError::BadRange { .. })
        ));
    }
    assert!(matches!(
        t.encode_prompt("é", [0..1]),
        Err(TokenizerError::BadRange { .. })
    ));
}

#[test]
fn decode_is_lossy_by_maximal_subpart_and_skips_unknown_ids() {
    let t = load(&tiny(&[], json!([{"id": 256, "content": "Ġ<é>"}]))).unwrap();
    let ids = [0xE4u8, 0xB8, 0x96].map(u32::from);
    assert_eq!(t.decode(&ids), "世");
    assert_eq!(t.decode(&[0xE4, 0xB8]), "\u{fffd}");
    assert_eq!(t.decode(&[0xE4, 0xB8, 256, 0x96]), "\u{fffd}Ġ<é>\u{fffd}");
    assert_eq!(t.decode(&[0xE4, 5000, 0xB8, u32::MAX, 0x96]), "世");
    assert_eq!(t.token_bytes(256), Some("Ġ<é>".as_bytes()));
    assert_eq!(t.token_bytes(257), None);
}

#[test]
fn files_that_are_not_byte_level_bpe_are_refused_by_name() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 13] = [
        (|f| f["model"]["type"] = json!("WordPiece"), "\"WordPiece\""),
        (|f| f["model"]["dropout"] = json!(0.1), "dropout 0.1"),
        (
            |f| f["model"]["end_of_word_suffix"] = json!("</w>"),
            "end_of_word_suffix",
        ),
        (
            |f| f["model"]["continuing_subword_prefix"] = json!("##"),
            "continuing_subword_prefix",
        ),
        (|f| f["normalizer"] = json!({"type": "NFC"}), "\"NFC\""),
        (
            |f| {
                f["normalizer"] =
                    json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})
            },
            "normalizer.normalizers[0]",
        ),
        (
            |f| f["decoder"] = json!({"type": "WordPiece"}),
            "decoder \"WordPiece\"",
        ),
        (
            |f| f["truncation"] = json!({"max_length": 10}),
            "truncation",
        ),
        (
            |f| f["model"]["merges"] = json!(["a zz"]),
            "model.merges[0]",
        ),
        (|f| f["model"]["merges"] = json!(["a b c"]), "two tokens"),
        (|f| f["model"]["vocab"]["b"] = json!(97), "also belongs to"),
        (
            |f| f["added_tokens"] = json!([{"id": 97, "content": "<t>"}]),
            "also belongs to",
        ),
        (
            |f| f["added_tokens"] = json!([{"id": 4_000_000_000u32, "content": "<t>"}]),
            "too large",
        ),
    ];
    for (edit, expected) in cases {
        let mut file = tiny(&[], json!([]));
        edit(&mut file);
        let error = load(&file).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(matches!(
        Tokenizer::from_str("{}"),
        Err(TokenizerError::Json(_))
    ));
    assert!(matches!(
        Tokenizer::from_file("/nonexistent/tokenizer.json"),
        Err(TokenizerError::Io { .. })
    ));
    let unigram = r#"{"model": {"type": "Unigram", "vocab": [["a", 0.1]]}}"#;
    let error = Tokenizer::from_str(unigram).unwrap_err().to_string();
    assert!(error.contains("\"Unigram\""), "{error}");
}

#[test]
fn bytes_missing_from_the_vocabulary_vanish_as_in_the_peer() {
    let mut file = tiny(&[("a", "c")], json!([]));
    file["model"]["vocab"].as_object_mut().unwrap().remove("b");
    assert_eq!(load(&file).unwrap().encode("abc").unwrap(), [256]);
    file["model"]["unk_token"] = json!("a");
    let error = load(&file).unwrap_err().to_string();
    assert!(error.contains("unk_token"), "{error}");
}
