"""Random generation under masks ends in texts that an independent judge accepts.

A walk takes some tokens at random among the allowed ones, then `shortest_completion()`. Judges: `regex`, `lark`,
and `jsonschema` with format checks. In the nightly run: at least 10,000 walks, schemas drawn from the real set.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import lark
import numpy as np
import pytest
import regex
from jsonschema.validators import validator_for
from offseek.grammars import CompiledGrammar, GrammarCompiler, GrammarError, Vocabulary

from tests.conftest import need_shared

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
EOS = 1


@pytest.fixture(scope="module")
def compiler(deepseek_tokenizer_path: pathlib.Path) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[EOS]))


def lines(path: pathlib.Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def generate(grammar: CompiledGrammar, rng: random.Random, most: int) -> str:
    """Uniform over allowed tokens for up to `most` tokens, then the shortest way to the end."""
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocabulary.num_words, dtype=np.int32)
    for _ in range(rng.randint(0, most)):
        matcher.fill_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed) > 0, matcher.token_ids
        token = int(rng.choice(allowed))
        if token == EOS:
            assert matcher.is_accepting()
            break
        assert matcher.accept_token(token)
    taken = matcher.token_ids
    completion = matcher.shortest_completion()
    assert matcher.accept_tokens(completion) == len(completion)
    assert matcher.is_accepting()
    return b"".join(grammar.vocabulary.token_bytes(t) for t in [*taken, *completion]).decode()


def walks(grammar: CompiledGrammar, judge: Callable[[str], bool], seed: str, count: int, most: int) -> int:
    for i in range(count):
        text = generate(grammar, random.Random(f"{seed} {i}"), most)
        assert judge(text), f"{seed}, walk {i}: {text!r}"
    return count


def patterns(compiler: GrammarCompiler, count: int) -> int:
    done = 0
    for entry in lines(DATA / "regex.jsonl.gz"):
        try:
            grammar, judge = compiler.compile_regex(entry["regex"]), regex.compile(entry["regex"])
        except (GrammarError, regex.error):
            continue
        # `regex` and ours may know other versions of Unicode; its own judgement counts where both know the text.
        done += walks(grammar, lambda t, j=judge: j.fullmatch(t, timeout=10) is not None, entry["id"], count, 12)
    return done


def larks(compiler: GrammarCompiler, count: int) -> int:
    done = 0
    for entry in lines(DATA / "lark.jsonl.gz"):
        grammar = entry["grammar"]["lark"]
        # Classes such as \w follow Unicode in ours as in the `regex` module; Lark takes `re` unless told.
        parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete", regex=True)

        def judge(text: str, parser: lark.Lark = parser) -> bool:
            try:
                parser.parse(text)
            except lark.UnexpectedInput:
                return False
            except RuntimeError as e:  # a known fault of lark's: "multiple start symbol items"
                return "multiple start symbol" in str(e)
            return True

        done += walks(compiler.compile_ebnf(grammar, dialect="lark"), judge, entry["id"], count, 8)
    return done


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({k for k, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def schemas(compiler: GrammarCompiler, entries: list[dict[str, Any]], count: int) -> int:
    done = 0
    for entry in entries:
        schema = entry["schema"]
        try:
            grammar = compiler.compile_json_schema(schema, whitespace="any", property_order="any", numbers="any")
        except GrammarError:
            continue
        cls = validator_for(schema, default=jsonschema.Draft202012Validator)
        validator = cls(schema, format_checker=cls.FORMAT_CHECKER)

        def judge(text: str, validator: Any = validator) -> bool:
            value = json.loads(text, object_pairs_hook=unique_pairs)
            return bool(validator.is_valid(value))

        done += walks(grammar, judge, entry["id"], count, 25)
    return done


@pytest.mark.slow
def test_some_random_walks_end_in_texts_that_the_judges_accept(compiler: GrammarCompiler) -> None:
    assert patterns(compiler, 1) > 80
    assert larks(compiler, 1) > 60
    real = lines(need_shared("bench/schemas-visible.jsonl.gz"))
    assert schemas(compiler, random.Random(7).sample(real, 60), 2) > 60


@pytest.mark.nightly
@pytest.mark.timeout(20_000)
@pytest.mark.skipif(os.environ.get("OFFSEEK_NIGHTLY") != "1", reason="hours of walks: make test-nightly")
def test_ten_thousand_random_walks_end_in_texts_that_the_judges_accept(compiler: GrammarCompiler) -> None:
    done = patterns(compiler, 25) + larks(compiler, 20)
    done += schemas(compiler, lines(need_shared("bench/schemas-visible.jsonl.gz")), 5)
    assert done >= 10_000
