"""EBNF through the public API: errors with their spots, findings, embedded schemas and tokens, limits."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from offseek.grammars import GrammarCompiler, GrammarError, GrammarLimitError, GrammarSyntaxError, Vocabulary
from offseek.grammars.ebnf import RuleFinding
from offseek.grammars.lark_report import Collision, lark_report

EOS, SPECIAL = 256, 257


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokens = [bytes([b]) for b in range(256)] + [b"</s>", b"<sep>"]
    return GrammarCompiler(Vocabulary(tokens, special_token_ids=[SPECIAL], eos_token_ids=[EOS]))


def matches(compiler: GrammarCompiler, source: str, text: str, dialect: Any = "gbnf") -> bool:
    matcher = compiler.compile_ebnf(source, dialect=dialect).matcher()
    data = list(text.encode())
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("dialect", "source", "message", "line", "column"),
    [
        ("gbnf", 'root ::= "a" |\n  missing', "missing is not defined", 2, 3),
        ("gbnf", 'root ::= ("a"', "not closed", 1, 10),
        ("gbnf", 'root ::= "é" [z-a]', "range from", 1, 15),
        ("gbnf", "root ::= root root", "no finite text", 1, 1),
        ("gbnf", 'start ::= "a"', "no rule", 1, 1),
        ("gbnf", 'root ::= "x"{5,3}', "above its maximum", 1, 13),
        ("gbnf", 'root ::= "a" <nope>', "no such special token", 1, 14),
        ("gbnf", 'root ::= "a" /b(/', "", 1, 16),
        ("lark", 'start: "a" missing\n', "missing", 1, 12),
        ("lark", 'start: "a" (\n', "", 1, 13),
        ("lark", 'start: A\nA: "x"\nA: "y"\n', "more than once", 3, 1),
        ("lark", 'begin: "a"\n', "no rule 'start'", 1, 1),
        ("lark", "start: X\nX: /a*/\n", "can match nothing", 1, 8),
        ("lark", 'start: "a" start\n', "no finite text", 1, 1),
        ("lark", "%import .local.X\nstart: X\n", "relative imports", 1, 1),
        ("lark", 'start: "a"~3..1\n', "repetition from 3 to 1", 1, 11),
        ("lark", "start: %json {broken\n", "JSON Schema after %json", 1, 8),
    ],
)
def test_malformed_grammars_are_refused_with_a_caret_under_the_spot(
    compiler: GrammarCompiler, dialect: Any, source: str, message: str, line: int, column: int
) -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        compiler.compile_ebnf(source, dialect=dialect)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    shown, carets = caught.value.caret.split("\n")
    assert shown == source.split("\n")[line - 1]
    assert carets.startswith(" " * (column - 1) + "^")


def test_findings_name_unreachable_and_non_productive_rules(compiler: GrammarCompiler) -> None:
    gbnf = 'root ::= "a" | dead\ndead ::= "x" dead\nlost ::= "y"'
    assert compiler.ebnf_findings(gbnf) == (
        RuleFinding("non-productive", "dead", 2, 1),
        RuleFinding("unreachable", "lost", 3, 1),
    )
    lark = 'start: "a" | dead\ndead: "x" dead\nlost: "y"\n'
    assert compiler.ebnf_findings(lark, dialect="lark") == compiler.ebnf_findings(gbnf)
    assert compiler.ebnf_findings('root ::= "a"') == ()


@pytest.mark.parametrize("dialect", ["gbnf", "lark"])
def test_schemas_and_special_tokens_stand_inside_rules(compiler: GrammarCompiler, dialect: Any) -> None:
    head = "root ::=" if dialect == "gbnf" else "start:"
    source = head + ' "x=" %json {"type": "array", "items": {"enum": ["}", 1]}, "maxItems": 2} ";" <[257]>?\n'
    grammar = compiler.compile_ebnf(source, dialect=dialect)
    matcher = grammar.matcher()
    for ids in ([*b'x=["}", 1];'], [*b"x=[];", SPECIAL]):
        matcher.reset()
        assert matcher.accept_tokens(ids) == len(ids)
        assert matcher.is_accepting()
    for text in ("x=[2];", "x=[1,1];", "x=[1, 1, 1];", "x=[];<sep>"):
        assert not matches(compiler, source, text, dialect), text


def test_special_tokens_by_name(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile_ebnf('root ::= "a" <sep> "b"', special_tokens={"<sep>": SPECIAL})
    matcher = grammar.matcher()
    assert matcher.accept_tokens([ord("a"), SPECIAL, ord("b")]) == 3
    matcher.reset()
    assert matcher.accept_tokens(list(b"a<")) == 1


def test_colliding_terminals_are_shown_with_an_example() -> None:
    report = lark_report('start: (KW | NAME | INT)+\nKW: "if" | "else"\nNAME: /[a-z]+/\nINT: /[0-9]+/\n')
    assert [(c.first, c.second) for c in report.collisions] == [("KW", "NAME")]
    assert report.collisions[0] == Collision("KW", "NAME", report.collisions[0].example)
    assert report.collisions[0].example in ("if", "else")


def hostile() -> dict[str, tuple[str, str]]:
    doubling = "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60))
    terms = "\n".join(f"T{i}: T{i + 1} T{i + 1}" for i in range(60))
    return {
        "nested groups": ("gbnf", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000),
        "doubling rules": ("gbnf", f'root ::= r0\n{doubling}\nr60 ::= "a"'),
        "huge count": ("gbnf", 'root ::= "x"{1000000000}'),
        "nested counts": ("gbnf", 'root ::= (("a"{1000}){1000}){1000}'),
        "fan": ("gbnf", "root ::= " + " | ".join(f'"w{i}" root' for i in range(20_000)) + ' | "."'),
        "long lark": ("lark", "start: " + " | ".join(f'"w{i}"' for i in range(60_000))),
        "doubling terminals": ("lark", f'start: T0\n{terms}\nT60: "a"\n'),
        "groups in lark": ("lark", "start: " + "(" * 3000 + '"a"' + ")" * 3000 + "\n"),
        "products in lark": ("lark", "start: " + ' ("a" | "b")' * 2000 + "\n"),
        "growing templates": ("lark", 'start: t{"a"}\nt{x}: x | t{u{x}}\nu{y}: y "b"\n'),
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_grammars_compile_or_meet_a_limit_soon(compiler: GrammarCompiler, name: str) -> None:
    dialect, source = hostile()[name]
    outcome: list[str] = []

    def attempt() -> None:
        try:
            compiler.compile_ebnf(source, dialect=dialect)  # type: ignore[arg-type]
            outcome.append("compiled")
        except GrammarLimitError as e:
            outcome.append(f"limit {e.name}")
        except GrammarError as e:
            outcome.append(f"error {e}")

    started = time.process_time()
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert outcome
    assert outcome[0].split(" ")[0] in ("compiled", "limit"), outcome
    assert time.process_time() - started < 20  # 2 s on an idle machine; the bound only tells a hang
    assert matches(compiler, 'root ::= "a" root | "b"', "aab")
