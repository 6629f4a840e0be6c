"""Our own pattern cases (`tests/data/regex.jsonl.gz`): every text right, malformed patterns refused."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import pytest
from offseek.grammars import GrammarCompiler, GrammarSyntaxError, Vocabulary

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "regex.jsonl.gz"
CASES: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
# What a finite automaton cannot do, or would do differently.
REFUSED = {
    "re-anchor-mid", "re-backref", "re-named-backref", "re-possessive", "re-possessive-dead", "re-atomic",
    "re-conditional", "re-recursion",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256]))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_every_text_is_judged_right(compiler: GrammarCompiler, case: dict[str, Any]) -> None:
    if case.get("refuse") or case["id"] in REFUSED:
        with pytest.raises(GrammarSyntaxError):
            compiler.compile_regex(case["regex"])
        return
    grammar = compiler.compile_regex(case["regex"])
    for text in case["tests"]:
        tokens = list(text["text"].encode())
        matcher = grammar.matcher()
        taken = matcher.accept_tokens(tokens)
        assert (taken == len(tokens) and matcher.is_accepting()) == text["valid"], text
        # What was let through can be completed.
        completion = matcher.shortest_completion()
        assert matcher.accept_tokens(completion) == len(completion)
        assert matcher.is_accepting()
