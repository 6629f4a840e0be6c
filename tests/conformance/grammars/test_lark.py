"""Our own Lark grammars: the labels are lark's, and our matchers agree with every one."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import lark
import pytest
from offseek.grammars import GrammarCompiler, Vocabulary

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
EOS = 256


def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=[EOS]))


def test_there_are_at_least_sixty_grammars_with_texts_of_both_kinds() -> None:
    entries = lines("lark.jsonl.gz")
    assert len(entries) >= 60
    assert all({t["valid"] for t in e["tests"]} == {True, False} for e in entries)


@pytest.mark.parametrize("entry", lines("lark.jsonl.gz"), ids=lambda e: e["id"])
def test_matches_what_lark_parses(compiler: GrammarCompiler, entry: dict[str, Any]) -> None:
    grammar = entry["grammar"]["lark"]
    judge = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    for case in entry["tests"]:
        try:
            judge.parse(case["text"])
            parsed = True
        except lark.UnexpectedInput:
            parsed = False
        assert parsed == case["valid"], case
        assert matches(compiler, grammar, "lark", case["text"]) == case["valid"], case


@pytest.mark.parametrize("entry", lines("ebnf.jsonl.gz"), ids=lambda e: e["id"])
def test_ebnf_cases_in_every_dialect(compiler: GrammarCompiler, entry: dict[str, Any]) -> None:
    for dialect, grammar in entry["grammar"].items():
        for case in entry["tests"]:
            assert matches(compiler, grammar, dialect, case["text"]) == case["valid"], (dialect, case)


def matches(compiler: GrammarCompiler, grammar: str, dialect: Any, text: str) -> bool:
    matcher = compiler.compile_ebnf(grammar, dialect=dialect).matcher()
    data = text.encode()
    return matcher.accept_tokens(list(data)) == len(data) and matcher.is_accepting()
