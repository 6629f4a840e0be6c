//! The scanners against the patterns they replace.

use super::*;

/// Text pieces from which odd neighbourhoods are made: every class, every branch's first character.
const ATOMS: &[&str] = &[
    "a",
    "Z",
    "é",
    "ß",
    "中",
    "龥",
    "龦",
    "あ",
    "ン",
    "・",
    "゛",
    "゠",
    "\u{3099}",
    "\u{3040}",
    "ー",
    "한",
    "а",
    "1",
    "२",
    "Ⅷ",
    "½",
    "12",
    "1234",
    "'",
    "'s",
    "'ll",
    "'re",
    ".",
    ",",
    "!",
    "(",
    "_",
    "`",
    "$",
    "€",
    "—",
    "。",
    "「",
    "😀",
    "+",
    "\u{301}",
    "\u{5b0}",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{85}",
    "\u{b}",
    "\u{0}",
    "\u{1b}",
    "\u{7f}",
    "\u{ad}",
    "\u{200d}",
    "\u{fe0f}",
    "\u{e000}",
    "\u{378}",
    "\u{10ffff}",
    "s",
    "re",
    "｜",
];

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn texts() -> impl Iterator<Item = String> {
    let pairs = ATOMS
        .iter()
        .flat_map(|a| ATOMS.iter().map(move |b| format!("{a}{b}")));
    let mut rng = Rng(0x5EED);
    let random = (0..60_000).map(move |_| {
        (0..1 + rng.below(12))
            .map(|_| ATOMS[rng.below(ATOMS.len())])
            .collect::<String>()
    });
    pairs.chain(random)
}

fn general(patterns: &[&str]) -> Vec<Step> {
    patterns
        .iter()
        .map(|pattern| {
            let value = serde_json::json!({ "Regex": pattern });
            Step::Split(Box::new(Pattern::from_json(&value, "test").unwrap()))
        })
        .collect()
}

fn pieces(steps: &[Step], text: &str) -> Vec<String> {
    let mut out = Vec::new();
    run(steps, text, &mut |piece| out.push(piece.to_owned())).unwrap();
    out
}

fn assert_same(fast: &[Step], slow: &[Step]) {
    for text in texts() {
        let expected = pieces(slow, &text);
        assert_eq!(pieces(fast, &text), expected, "{text:?}");
        let one_call = PreTokenizer {
            steps: fuse_clone(fast),
        };
        let mut out = Vec::new();
        one_call
            .split(&text, |piece| out.push(piece.to_owned()))
            .unwrap();
        assert_eq!(out, expected, "{text:?}");
    }
}

fn fuse_clone(steps: &[Step]) -> Vec<Step> {
    steps
        .iter()
        .map(|step| match step {
            Step::DeepSeek => Step::DeepSeek,
            Step::Gpt2 => Step::Gpt2,
            Step::Digits => Step::Digits,
            Step::Split(_) => unreachable!("fast steps only"),
        })
        .collect()
}

#[test]
fn deepseek_scanner_equals_its_three_patterns() {
    let slow = general(&deepseek::PATTERNS);
    assert!(matches!(
        fuse(general(&deepseek::PATTERNS)).as_slice(),
        [Step::DeepSeek]
    ));
    assert_same(&[Step::DeepSeek], &slow);
}

#[test]
fn gpt2_scanner_equals_its_pattern() {
    assert_same(&[Step::Gpt2], &general(&[gpt2::PATTERN]));
}

#[test]
fn digits_scanner_equals_its_pattern() {
    assert_same(
        &[Step::Digits, Step::Gpt2],
        &general(&[r"\p{N}", gpt2::PATTERN]),
    );
}

#[test]
fn every_character_is_scanned_as_its_class() {
    let slow = general(&deepseek::PATTERNS);
    let slow_gpt2 = general(&[gpt2::PATTERN]);
    for c in '\0'..=char::MAX {
        // A letter, a mark and a number tell all classes apart.
        let text = format!("a{c}b {c}\u{301}{c}1{c}");
        assert_eq!(
            pieces(&[Step::DeepSeek], &text),
            pieces(&slow, &text),
            "{text:?}"
        );
        if c as u32 % 7 == 0 || (c as u32) < 0x3000 {
            assert_eq!(
                pieces(&[Step::Gpt2], &text),
                pieces(&slow_gpt2, &text),
                "{text:?}"
            );
        }
    }
}

#[test]
fn what_is_not_exact_is_refused_by_name() {
    let cases = [
        (serde_json::json!(null), "no \"ByteLevel\" pre-tokenizer"),
        (serde_json::json!({"type": "Whitespace"}), "\"Whitespace\""),
        (
            serde_json::json!({"type": "Metaspace", "replacement": "_"}),
            "\"Metaspace\"",
        ),
        (
            serde_json::json!({"type": "ByteLevel", "add_prefix_space": true}),
            "add_prefix_space",
        ),
        (
            serde_json::json!({"type": "Digits", "individual_digits": false}),
            "individual_digits",
        ),
        (
            serde_json::json!({"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated", "invert": false}),
            r#""\\w""#,
        ),
        (
            serde_json::json!({"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated", "invert": false}),
            "empty string",
        ),
        (
            serde_json::json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed", "invert": false}),
            "\"Removed\"",
        ),
        (
            serde_json::json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": true}),
            "inverted",
        ),
        (
            serde_json::json!({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false}),
            "pattern",
        ),
    ];
    for (value, expected) in cases {
        let value = Some(&value).filter(|value| !value.is_null());
        let error = PreTokenizer::from_json(value).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("pre_tokenizer"), "{error}");
    }
}
