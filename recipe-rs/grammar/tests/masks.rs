//! Fast masks against the slow twin, on random grammars, random vocabularies and random texts.

use std::sync::Arc;

use offseek_grammar::engine::{ConfigId, Engine, DEAD};
use offseek_grammar::mask::naive_mask;
use offseek_grammar::regex::{NodeId, EMPTY, INFINITE};
use offseek_grammar::{
    Budget, ByteSet, CompiledGrammar, ExprId, Grammar, GrammarBuilder, GrammarError, LimitKind,
    Limits, RuleId, Vocabulary,
};

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

const LETTERS: &[u8] = b"abc\"x";

fn random_vocabulary(rng: &mut Rng) -> Arc<Vocabulary> {
    let mut tokens: Vec<Vec<u8>> = LETTERS.iter().map(|&b| vec![b]).collect();
    for _ in 0..60 {
        let n = 1 + rng.below(6);
        tokens.push((0..n).map(|_| LETTERS[rng.below(LETTERS.len())]).collect());
    }
    tokens.push(Vec::new());
    let (special, eos) = (tokens.len() as u32, tokens.len() as u32 + 1);
    tokens.push(b"abc".to_vec());
    tokens.push(b"</s>".to_vec());
    Arc::new(Vocabulary::new(&tokens, &[special], &[eos], Some(tokens.len() as u32 + 40)).unwrap())
}

fn random_node(rng: &mut Rng, b: &mut GrammarBuilder, depth: usize) -> NodeId {
    let pick = if depth == 0 {
        rng.below(3)
    } else {
        rng.below(11)
    };
    match pick {
        0 | 1 => {
            let mut set = ByteSet::EMPTY;
            for _ in 0..1 + rng.below(3) {
                set.insert(LETTERS[rng.below(LETTERS.len())]);
            }
            b.regex_mut().set(set)
        }
        2 => {
            let n = 1 + rng.below(3);
            let word: Vec<u8> = (0..n).map(|_| LETTERS[rng.below(LETTERS.len())]).collect();
            b.regex_mut().literal(&word)
        }
        3..=5 => {
            let parts: Vec<NodeId> = (0..2 + rng.below(2))
                .map(|_| random_node(rng, b, depth - 1))
                .collect();
            b.regex_mut().concat(&parts)
        }
        6 => {
            let parts: Vec<NodeId> = (0..2 + rng.below(2))
                .map(|_| random_node(rng, b, depth - 1))
                .collect();
            b.regex_mut().alt(&parts)
        }
        7 | 8 => {
            let x = random_node(rng, b, depth - 1);
            let (min, max) = random_counts(rng);
            b.regex_mut().repeat(x, min, max)
        }
        9 => {
            let (x, y) = (
                random_node(rng, b, depth - 1),
                random_node(rng, b, depth - 1),
            );
            b.regex_mut().and(&[x, y])
        }
        _ => {
            let x = random_node(rng, b, depth - 1);
            let set = b.regex_mut().set(ByteSet::of(LETTERS));
            let text = b.regex_mut().star(set);
            b.regex_mut().minus(text, x)
        }
    }
}

fn random_counts(rng: &mut Rng) -> (u32, u32) {
    match rng.below(6) {
        0 => (0, INFINITE),
        1 => (1, INFINITE),
        2 => (0, 1),
        3 => (rng.below(3) as u32, 3 + rng.below(30) as u32),
        4 => (2, 2),
        _ => (rng.below(4) as u32, INFINITE),
    }
}

fn random_expr(
    rng: &mut Rng,
    b: &mut GrammarBuilder,
    rules: &[RuleId],
    special: u32,
    depth: usize,
) -> ExprId {
    let pick = if depth == 0 {
        rng.below(4)
    } else {
        rng.below(11)
    };
    match pick {
        0 | 1 => {
            let node = random_node(rng, b, 2);
            b.regex(node)
        }
        2 | 3 => {
            if rng.below(6) == 0 {
                b.special(special)
            } else {
                b.rule_ref(rules[rng.below(rules.len())])
            }
        }
        4..=6 => {
            let parts: Vec<ExprId> = (0..2 + rng.below(2))
                .map(|_| random_expr(rng, b, rules, special, depth - 1))
                .collect();
            b.seq(&parts)
        }
        7 | 8 => {
            let parts: Vec<ExprId> = (0..2 + rng.below(2))
                .map(|_| random_expr(rng, b, rules, special, depth - 1))
                .collect();
            b.alt(&parts)
        }
        _ => {
            let x = random_expr(rng, b, rules, special, depth - 1);
            let (min, max) = random_counts(rng);
            b.repeat(x, min, max)
        }
    }
}

fn step_token(engine: &mut Engine, vocab: &Vocabulary, config: ConfigId, token: u32) -> ConfigId {
    if vocab.is_special(token) {
        return engine.step_special(config, token).unwrap();
    }
    let mut at = config;
    for &byte in vocab.token(token) {
        at = engine.step(at, byte).unwrap();
    }
    at
}

fn bits(row: &[u32]) -> Vec<u32> {
    (0..row.len() as u32 * 32)
        .filter(|&t| row[t as usize / 32] >> (t % 32) & 1 == 1)
        .collect()
}

/// Follow random allowed tokens; at every step the fast mask equals the slow one, is not empty, and the
/// shortest completion is accepted.
fn compare(seed: u64, rng: &mut Rng, grammar: Grammar, vocab: &Arc<Vocabulary>) -> usize {
    let compiled = CompiledGrammar::new(grammar, Arc::clone(vocab)).unwrap();
    let mut slow = Engine::new(Arc::clone(compiled.grammar())).unwrap();
    let mut masks = 0;
    for _ in 0..3 {
        let mut matcher = compiled.matcher().unwrap();
        let mut config = slow.start();
        for _ in 0..14 {
            let mut row = vec![0xFFFF_FFFFu32; vocab.words() + 1];
            if let Err(GrammarError::Limit {
                kind: LimitKind::Threads,
                ..
            }) = matcher.fill(&mut row)
            {
                // Too ambiguous: said, not answered wrongly.
                return masks;
            }
            let Ok(expected) = naive_mask(&mut slow, config, vocab) else {
                return masks;
            };
            let allowed = bits(&row);
            assert_eq!(
                allowed
                    .iter()
                    .map(|&t| (t, vocab.token(t).to_vec()))
                    .collect::<Vec<_>>(),
                bits(&expected)
                    .iter()
                    .map(|&t| (t, vocab.token(t).to_vec()))
                    .collect::<Vec<_>>(),
                "seed {seed}, after {:?}",
                matcher
                    .tokens()
                    .iter()
                    .map(|&t| String::from_utf8_lossy(vocab.token(t)).into_owned())
                    .collect::<Vec<_>>()
            );
            assert!(!allowed.is_empty(), "seed {seed}: an empty mask");
            masks += 1;
            let Ok(completion) = matcher.shortest_completion() else {
                return masks;
            };
            let mut fork = matcher.clone();
            assert_eq!(
                fork.accept_all(&completion).unwrap(),
                completion.len(),
                "seed {seed}: completion"
            );
            assert!(
                fork.is_accepting(),
                "seed {seed}: completion {completion:?} does not end"
            );
            assert!(matcher.rollback(0));
            let token = allowed[rng.below(allowed.len())];
            if vocab.eos().contains(&token) {
                break;
            }
            assert!(matcher.accept(token).unwrap());
            config = step_token(&mut slow, vocab, config, token);
            assert_ne!(config, DEAD);
        }
        // Undoing everything gives the first mask again.
        let n = matcher.tokens().len();
        assert!(matcher.rollback(n));
        let mut row = vec![0u32; vocab.words()];
        matcher.fill(&mut row).unwrap();
        let start = slow.start();
        assert_eq!(
            bits(&row),
            bits(&naive_mask(&mut slow, start, vocab).unwrap())
        );
    }
    masks
}

#[test]
fn random_patterns() {
    let mut masks = 0;
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let vocab = random_vocabulary(&mut rng);
        let mut b = GrammarBuilder::new(Budget::new(Limits::default(), None));
        let node = random_node(&mut rng, &mut b, 4);
        let root = b.regex(node);
        if let Ok(grammar) = b.finish(root) {
            masks += compare(seed, &mut rng, grammar, &vocab);
        }
    }
    assert!(masks > 3000, "only {masks} masks were compared");
}

#[test]
fn random_grammars() {
    let mut masks = 0;
    for seed in 0..80 {
        let mut rng = Rng(seed + 1_000_000);
        let vocab = random_vocabulary(&mut rng);
        let special = vocab.len() - 2;
        let limits = Limits {
            threads: 60,
            ..Limits::default()
        };
        let mut b = GrammarBuilder::new(Budget::new(limits, None));
        let rules: Vec<RuleId> = (0..4).map(|i| b.rule(format!("r{i}"))).collect();
        for &rule in &rules {
            let body = random_expr(&mut rng, &mut b, &rules, special, 3);
            b.define(rule, body);
        }
        let root = b.rule_ref(rules[0]);
        if let Ok(grammar) = b.finish(root) {
            masks += compare(seed, &mut rng, grammar, &vocab);
        }
    }
    assert!(masks > 300, "only {masks} masks were compared");
}

#[test]
fn counters_share_masks_but_not_across_their_bounds() {
    // a{3,500}: far from the end all masks are equal; near the end they shrink token by token.
    let vocab =
        Arc::new(Vocabulary::new(&["a", "aa", "aaaa", "b", "</s>"], &[], &[4], None).unwrap());
    let mut b = GrammarBuilder::new(Budget::new(Limits::default(), None));
    let a = b.regex_mut().byte(b'a');
    let node = b.regex_mut().repeat(a, 3, 500);
    assert_ne!(node, EMPTY);
    let root = b.regex(node);
    let grammar = b.finish(root).unwrap();
    let compiled = CompiledGrammar::new(grammar, vocab).unwrap();
    let mut m = compiled.matcher().unwrap();
    let mut masks = Vec::new();
    for _ in 0..=500 {
        let mut row = [0u32];
        m.fill(&mut row).unwrap();
        masks.push(row[0]);
        m.accept(0).unwrap();
    }
    assert_eq!(masks[0], 0b00111);
    assert!(masks[3..=496].iter().all(|&x| x == 0b10111));
    assert_eq!(masks[497..], [0b10011, 0b10011, 0b10001, 0b10000]);
}
