//! Rules of every awkward kind against hand-made lists of texts.

use offseek_grammar::regex::{self, Encoding, Lowering, Syntax};
use offseek_grammar::{Budget, ByteSet, ExprId, Grammar, GrammarBuilder, Limits};

fn builder() -> GrammarBuilder {
    GrammarBuilder::new(Budget::new(Limits::default(), None))
}

fn check(grammar: &Grammar, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(
            grammar.matches(text.as_bytes()).unwrap(),
            "should match {text:?}"
        );
    }
    for text in bad {
        assert!(
            !grammar.matches(text.as_bytes()).unwrap(),
            "should not match {text:?}"
        );
    }
}

fn digits(b: &mut GrammarBuilder) -> ExprId {
    let set = b.regex_mut().set(ByteSet::range(b'0', b'9'));
    let node = b.regex_mut().repeat(set, 1, regex::INFINITE);
    b.regex(node)
}

#[test]
fn direct_left_recursion() {
    let mut b = builder();
    let expr = b.rule("expr");
    let term = b.rule("term");
    let (plus, times, open, close) = (
        b.literal(b"+"),
        b.literal(b"*"),
        b.literal(b"("),
        b.literal(b")"),
    );
    let number = digits(&mut b);
    let (e, t) = (b.rule_ref(expr), b.rule_ref(term));
    let sum = b.seq(&[e, plus, t]);
    let body = b.alt(&[sum, t]);
    b.define(expr, body);
    let group = b.seq(&[open, e, close]);
    let factor = b.alt(&[number, group]);
    let product = b.seq(&[t, times, factor]);
    let body = b.alt(&[product, factor]);
    b.define(term, body);
    let grammar = b.finish(e).unwrap();
    check(
        &grammar,
        &["1", "1+2*3", "(1+2)*3+4", "((7))"],
        &["", "+", "1+", "(1", "1++2", "1)", "*1"],
    );
}

#[test]
fn hidden_and_indirect_left_recursion_with_nullable_rules() {
    // a = n b "x" | "y" ; b = a "z" | a | "w" ; n = "" | "-"
    let mut b = builder();
    let (a, bb, n) = (b.rule("a"), b.rule("b"), b.rule("n"));
    let (ra, rb, rn) = (b.rule_ref(a), b.rule_ref(bb), b.rule_ref(n));
    let (x, y, z, w, minus) = (
        b.literal(b"x"),
        b.literal(b"y"),
        b.literal(b"z"),
        b.literal(b"w"),
        b.literal(b"-"),
    );
    let empty = b.empty();
    let body = b.alt(&[empty, minus]);
    b.define(n, body);
    let first = b.seq(&[rn, rb, x]);
    let body = b.alt(&[first, y]);
    b.define(a, body);
    let first = b.seq(&[ra, z]);
    let body = b.alt(&[first, ra, w]);
    b.define(bb, body);
    let grammar = b.finish(ra).unwrap();
    check(
        &grammar,
        &[
            "y", "yx", "yzx", "wx", "-wx", "-yzx", "--yxx", "wxzx", "-wxx",
        ],
        &["", "w", "-y", "yz", "x", "-"],
    );
}

#[test]
fn ambiguous_and_nullable_repetition() {
    // s = s s | "a" | ""
    let mut b = builder();
    let s = b.rule("s");
    let r = b.rule_ref(s);
    let two = b.seq(&[r, r]);
    let (a, empty) = (b.literal(b"a"), b.empty());
    let body = b.alt(&[two, a, empty]);
    b.define(s, body);
    let grammar = b.finish(r).unwrap();
    check(&grammar, &["", "a", "aa", &"a".repeat(200)], &["b", "ab"]);
}

#[test]
fn counted_rules_stay_counters() {
    // item = "(" item? ")" ; root = item{3,70000}
    let mut b = builder();
    let item = b.rule("item");
    let r = b.rule_ref(item);
    let (open, close) = (b.literal(b"("), b.literal(b")"));
    let inner = b.optional(r);
    let body = b.seq(&[open, inner, close]);
    b.define(item, body);
    let root = b.repeat(r, 3, 70_000);
    let grammar = b.finish(root).unwrap();
    check(
        &grammar,
        &["()()()", "(())()()", &"()".repeat(1000)],
        &["", "()()", "()()(", "()()())"],
    );
}

#[test]
fn counted_left_recursion_is_unrolled() {
    // a = (a "x"){2,30} "y" | "z"
    let mut b = builder();
    let a = b.rule("a");
    let r = b.rule_ref(a);
    let (x, y, z) = (b.literal(b"x"), b.literal(b"y"), b.literal(b"z"));
    let part = b.seq(&[r, x]);
    let many = b.repeat(part, 2, 30);
    let first = b.seq(&[many, y]);
    let body = b.alt(&[first, z]);
    b.define(a, body);
    let grammar = b.finish(r).unwrap();
    check(
        &grammar,
        &["z", "zxzxy", "zxzxyxzxy"],
        &["zxy", "y", "zx", "zxzx"],
    );
}

#[test]
fn unproductive_alternatives_are_pruned() {
    let mut b = builder();
    let dead = b.rule("dead");
    let r = b.rule_ref(dead);
    let x = b.literal(b"x");
    let body = b.seq(&[x, r]);
    b.define(dead, body);
    let y = b.literal(b"y");
    let root = b.alt(&[r, y]);
    let grammar = b.finish(root).unwrap();
    check(&grammar, &["y"], &["x", "xx"]);
    let mut engine = offseek_grammar::engine::Engine::new(std::sync::Arc::new(grammar)).unwrap();
    let start = engine.start();
    assert_eq!(
        engine.step(start, b'x').unwrap(),
        offseek_grammar::engine::DEAD
    );
}

#[test]
fn a_grammar_without_any_text_is_refused() {
    let mut b = builder();
    let dead = b.rule("dead");
    let r = b.rule_ref(dead);
    let x = b.literal(b"x");
    let body = b.seq(&[x, r]);
    b.define(dead, body);
    assert!(b.finish(r).is_err());
}

#[test]
fn json_strings_in_every_spelling() {
    let mut b = builder();
    let mut json = Lowering::new(Encoding::JsonString);
    let node = regex::pattern(
        b.regex_mut(),
        &mut json,
        "^é\\n😀$",
        Syntax {
            ecma: true,
            ..Syntax::default()
        },
        true,
    );
    let root = b.regex(node.unwrap());
    let grammar = b.finish(root).unwrap();
    check(
        &grammar,
        &[
            "é\\n😀",
            "\\u00e9\\n😀",
            "\\u00E9\\u000a\\ud83d\\uDE00",
            "é\\u000A😀",
        ],
        &[
            "é\n😀",
            "é\\n",
            "\\u00e8\\n😀",
            "é\\n\\ud83d",
            "é\\n😀\\ud83d",
        ],
    );
}
