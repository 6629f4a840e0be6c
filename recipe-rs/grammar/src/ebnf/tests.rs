//! Grammar texts against hand-labelled texts, and the spots of errors.

use super::*;
use crate::limits::Limits;

fn compile(text: &str) -> Result<Compiled> {
    let specials = |name: &str| (name == "<eot>").then_some(7);
    let mut embed = |_: &mut GrammarBuilder, _: &str, _: JsonForm| {
        Err(GrammarError::invalid("no schemas here"))
    };
    compile_gbnf(
        text,
        "root",
        &specials,
        &mut embed,
        Budget::new(Limits::default(), None),
    )
}

fn check(text: &str, yes: &[&str], no: &[&str]) {
    let grammar = compile(text)
        .unwrap_or_else(|e| panic!("{text}\n{e}"))
        .grammar;
    for word in yes {
        assert!(
            grammar.matches(word.as_bytes()).unwrap(),
            "{text}\nshould match {word:?}"
        );
    }
    for word in no {
        assert!(
            !grammar.matches(word.as_bytes()).unwrap(),
            "{text}\nshould not match {word:?}"
        );
    }
}

fn error_at(text: &str, message: &str, line: usize, column: usize) {
    let error = compile(text).map(|_| ()).expect_err(text);
    assert!(error.to_string().contains(message), "{text}\n{error}");
    assert_eq!(error.line_column(), Some((line, column)), "{text}\n{error}");
}

#[test]
fn recursion_of_every_kind_is_resolved() {
    check(
        "root ::= root \",\" item | item\nitem ::= [0-9]",
        &["1", "1,2,3"],
        &["", ",1", "1,", "12", "1,,2"],
    );
    check(
        "root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\" | \"w\"",
        &["y", "wx", "yzxzx"],
        &["yz", "zx", ""],
    );
    check(
        "root ::= s \".\"\ns ::= s t | \"\"\nt ::= \"a\" | \"b\" s \"c\"",
        &[".", "abacbc."],
        &["a", "b.", ""],
    );
    check(
        "root ::= s\ns ::= s s | \"a\" | \"(\" s \")\"",
        &["aaaaaaa", "(a)(aa)"],
        &["", "()", "a)"],
    );
    check(
        "root ::= (((\"a\")*)*)* \"b\"",
        &["b", "aaab"],
        &["", "a", "ba"],
    );
    check(
        "root ::= a? b? \"!\"\na ::= \"a\" b?\nb ::= b*",
        &["!", "a!"],
        &["b!", "aa!"],
    );
}

#[test]
fn repetitions_count() {
    check("root ::= \"x\"{3}", &["xxx"], &["xx", "xxxx"]);
    check("root ::= \"x\"{,2}", &["", "xx"], &["xxx"]);
    check(
        "root ::= \"x\"{2,} \"y\"{0,0}",
        &["xx", "xxxxx"],
        &["x", "xxy"],
    );
    check(
        "root ::= (\"a\" b){2,3}\nb ::= \"(\" b \")\" | \"\"",
        &["aa", "a()aa(())"],
        &["a", "aaaa", "a(a"],
    );
    error_at(
        "root ::= \"x\"{5,3}",
        "minimum 5 above its maximum 3",
        1,
        13,
    );
    error_at("root ::= \"x\"{}", "count", 1, 13);
    error_at(
        "root ::= \"x\"{99999999999}",
        "repetition count above",
        1,
        14,
    );
}

#[test]
fn texts_classes_and_escapes() {
    check(
        r#"root ::= "\u4f60" '\'' [\x41-\x43] [^a-z\]] "\U0001F44B\u{e9}""#,
        &["你'BZ👋é"],
        &["你'DZ👋é", "你'B]👋é"],
    );
    check(
        "root ::= [a-] [-a] .",
        &["-a中", "a-x"],
        &["b-x", "aa\n", "aa\r"],
    );
    check(
        "root ::= #x41 [#x61-#x63#x20]",
        &["Aa", "A "],
        &["A#", "Ax"],
    );
    check("root ::= [#a-c]", &["#", "b"], &["x"]);
    error_at("root ::= [z-a]", "range from 'z' down to 'a'", 1, 11);
    error_at("root ::= []", "class without characters", 1, 10);
    error_at("root ::= [ab", "class is not closed", 1, 10);
    error_at("root ::= \"ab", "text is not closed", 1, 10);
    error_at(r#"root ::= "\ud800""#, "is not a character", 1, 11);
    error_at(r#"root ::= "\q""#, r"unknown escape \q", 1, 11);
}

#[test]
fn comments_lines_and_layout() {
    check(
        "root ::= a # first, \"not a rule\"\na ::= \"x\" # end\n# last line",
        &["x"],
        &["", "xx", "#"],
    );
    check(
        "# head\nroot ::=\n  \"a\"\n  | \"b\" /* c\n */ | (\n \"c\"\n )\n",
        &["a", "b", "c"],
        &["ab", ""],
    );
    check("root::=\"a\"b\nb::=|\"c\"", &["a", "ac"], &["c"]);
}

#[test]
fn patterns_and_differences() {
    check(
        r#"root ::= /a+\/[/b]/i "-" (. - [0-9])"#,
        &["A/b-x", "aa//-y"],
        &["a/b-1", "a/c-x"],
    );
    check(
        "root ::= w - (\"if\" | \"else\")\nw ::= [a-z]+",
        &["i", "ifs", "els"],
        &["if", "else", ""],
    );
    error_at("root ::= \"x\" /a(b/", "(", 1, 16);
    error_at(
        "root ::= a - \"b\"\na ::= \"(\" a \")\" | \"x\"",
        "regular",
        1,
        10,
    );
}

#[test]
fn malformed_texts_name_their_spot() {
    error_at("root ::= a b\na ::= \"x\"", "rule b is not defined", 1, 12);
    error_at("root ::= \"a\"\nroot ::= \"b\"", "defined twice", 2, 1);
    error_at("root ::= (\"a\"\nb ::= \"c\"", "group is not closed", 1, 10);
    error_at("root ::= \"a\")", ") without its opening", 1, 13);
    error_at("root := \"a\"", "expected ::=", 1, 6);
    error_at("root ::= * \"a\"", "nothing before it to repeat", 1, 10);
    error_at("root ::= (= \"a\")", "lookahead", 1, 10);
    error_at("start ::= \"a\"", "no rule \"root\"", 1, 1);
    error_at("root ::= \"a\" root", "matches no finite text", 1, 1);
    error_at("root ::= <nope>", "no such special token", 1, 10);
    error_at("root ::= a\na ::= [a-z]-\n", "expected an element", 3, 1);
    error_at("root ::= \"a\" $", "expected an element", 1, 14);
    error_at("", "no rule \"root\"", 1, 1);
}

#[test]
fn odd_rules_are_reported() {
    let found = compile("root ::= \"a\" | dead\ndead ::= \"x\" dead\nlost ::= \"y\"")
        .unwrap()
        .findings;
    let shown: Vec<_> = found.iter().map(|f| (f.rule.as_str(), f.kind)).collect();
    assert_eq!(
        shown,
        [
            ("dead", FindingKind::NonProductive),
            ("lost", FindingKind::Unreachable)
        ]
    );
}

#[test]
fn groups_nested_too_deep_meet_a_limit() {
    let nested = format!("root ::= {}\"a\"{}", "(".repeat(60_000), ")".repeat(60_000));
    assert!(matches!(compile(&nested), Err(GrammarError::Limit { .. })));
    let fine = format!("root ::= {}\"a\"{}", "(".repeat(200), ")".repeat(200));
    check(&fine, &["a"], &["", "aa"]);
}

#[test]
fn long_chains_of_rules_compile() {
    let chain: String = (0..5000)
        .map(|i| format!("r{i} ::= r{}\n", i + 1))
        .collect();
    check(
        &format!("root ::= r0\n{chain}r5000 ::= \"a\""),
        &["a"],
        &["", "aa"],
    );
}

#[test]
fn doubling_rules_meet_a_limit_or_compile() {
    let doubling: String = (0..60)
        .map(|i| format!("r{i} ::= r{0} r{0}\n", i + 1))
        .collect();
    let _ = compile(&format!("root ::= r0\n{doubling}r60 ::= \"a\""));
    let _ = compile("root ::= \"x\"{1000000000}");
}

#[test]
fn many_alternatives_compile() {
    let wide: Vec<String> = (0..20_000).map(|i| format!("\"w{i}\"")).collect();
    check(
        &format!("root ::= {}", wide.join(" | ")),
        &["w1", "w19999"],
        &["w20000", "w"],
    );
}
