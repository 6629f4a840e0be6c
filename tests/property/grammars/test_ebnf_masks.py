"""Random context-free grammars: every mask against brute force, and matchers against a slow recogniser.

The judge is `benches/gbnf_oracle.py`, a character-level Earley recogniser that shares nothing with the
engine. Grammars are small and nasty on purpose: left recursion, nullable rules, nested quantifiers.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import random
from types import ModuleType

import numpy as np
import pytest
from offseek.grammars import GrammarCompiler, GrammarError, Matcher, Vocabulary

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKENS = [
    "a",
    "b",
    "c",
    "(",
    ")",
    "é",
    "aa",
    "ab",
    "ba",
    "b)",
    "(a",
    "))",
    "abc",
    "aab",
    "(a)",
    "cé",
    "éa",
    "bbb",
    "a)b",
]
PARTS = [b"a\xc3", b"\xa9b", *(bytes([b]) for b in range(256))]  # pieces of characters
EOS = len(TOKENS) + len(PARTS)
NIGHTLY = os.environ.get("OFFSEEK_NIGHTLY") == "1"


def load_oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gbnf_oracle", ROOT / "benches" / "gbnf_oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = load_oracle()


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokens = [t.encode() for t in TOKENS] + PARTS + [b"</s>"]
    return GrammarCompiler(Vocabulary(tokens, eos_token_ids=[EOS]))


@pytest.fixture(scope="module")
def deepseek(deepseek_tokenizer_path: pathlib.Path) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[1]))


def random_grammar(rng: random.Random) -> str:
    names = ["root", "x", "y"][: rng.randint(1, 3)]
    atoms = ['"a"', '"b"', '"ab"', "[a-c]", "[^a(]", '"("', '")"', '"é"', '""', *names[1:], *names[1:]]

    def item(depth: int) -> str:
        if depth < 2 and rng.random() < 0.2:
            text = f"({alternatives(depth + 1)})"
        else:
            text = rng.choice(atoms)
        roll = rng.random()
        if roll < 0.25:
            text += rng.choice(["?", "*", "+", "{0,2}", "{2}", "{1,3}", "{2,}"])
        return text

    def alternatives(depth: int) -> str:
        branches = [
            " ".join(item(depth) for _ in range(rng.choice([1, 1, 2, 2, 3]))) for _ in range(rng.choice([1, 1, 2]))
        ]
        return " | ".join(branches)

    return "\n".join(f"{n} ::= {alternatives(0)}" for n in names)


def mask_of(matcher: Matcher, size: int) -> set[int]:
    row = np.zeros((size + 31) // 32, dtype=np.int32)
    matcher.fill_bitmask(row)
    return {int(t) for t in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))}


def compile_or_skip(compiler: GrammarCompiler, grammar: str, judge: ModuleType) -> Matcher | None:
    """A matcher; None when the grammar matches nothing, which the recogniser has to confirm."""
    try:
        return compiler.compile_ebnf(grammar).matcher()
    except GrammarError as e:
        message = str(e)
    assert "no finite text" in message or "matches nothing" in message, f"{grammar}\n{message}"
    assert not judge.viable(""), grammar
    return None


SEEDS = range(3000 if NIGHTLY else 60)


@pytest.mark.parametrize("block", range(10))
def test_masks_along_random_walks_are_what_the_recogniser_says(compiler: GrammarCompiler, block: int) -> None:
    for seed in SEEDS[block::10]:
        rng = random.Random(seed)
        grammar = random_grammar(rng)
        judge = oracle.Grammar(grammar)
        matcher = compile_or_skip(compiler, grammar, judge)
        if matcher is None:
            continue
        text, chart = "", judge.start()
        for _ in range(6):
            allowed = mask_of(matcher, EOS + 1)
            where = f"seed {seed}, after {text!r}:\n{grammar}"
            for token, word in enumerate(TOKENS):
                assert (token in allowed) == (judge.extend(chart, word) is not None), f"{word!r}, {where}"
            assert (EOS in allowed) == judge.accepts(chart) == matcher.is_accepting(), where
            assert allowed, where
            whole = [t for t in sorted(allowed) if t < len(TOKENS)]
            if not whole:
                break
            token = rng.choice(whole)
            assert matcher.accept_token(token)
            text += TOKENS[token]
            chart = judge.extend(chart, TOKENS[token])


@pytest.mark.parametrize("block", range(5))
def test_completions_end_in_a_full_match_and_rollback_equals_replay(compiler: GrammarCompiler, block: int) -> None:
    for seed in SEEDS[block::5]:
        rng = random.Random(-1 - seed)
        grammar = random_grammar(rng)
        judge = oracle.Grammar(grammar)
        matcher = compile_or_skip(compiler, grammar, judge)
        if matcher is None:
            continue
        masks = []
        for _ in range(rng.randint(0, 6)):
            masks.append(matcher.allowed_tokens())
            choices = [t for t in masks[-1] if t != EOS]
            if not choices:
                break
            assert matcher.accept_token(rng.choice(choices))
        taken = matcher.token_ids
        fresh = compiler.compile_ebnf(grammar).matcher()
        assert fresh.accept_tokens(taken) == len(taken)
        assert fresh.allowed_tokens() == matcher.allowed_tokens()
        completion = matcher.shortest_completion()
        vocabulary = compiler.vocabulary
        text = b"".join(vocabulary.token_bytes(t) for t in [*taken, *completion]).decode()
        assert judge.matches(text), f"seed {seed}: {text!r}\n{grammar}"
        back = rng.randint(0, len(taken))
        matcher.rollback(back)
        again = compiler.compile_ebnf(grammar).matcher()
        again.accept_tokens(taken[: len(taken) - back])
        assert matcher.allowed_tokens() == again.allowed_tokens()
        assert matcher.is_accepting() == again.is_accepting()


def test_forced_tokens_are_the_only_path(compiler: GrammarCompiler) -> None:
    for seed in SEEDS:
        grammar = random_grammar(random.Random(10_000 + seed))
        matcher = compile_or_skip(compiler, grammar, oracle.Grammar(grammar))
        if matcher is None:
            continue
        for token in matcher.forced_tokens(max_tokens=8):
            # Only this one may follow, or another token that spells the same forced bytes.
            forced = matcher.forced_bytes(max_bytes=64)
            assert not matcher.is_accepting(), f"seed {seed}\n{grammar}"
            for other in matcher.allowed_tokens():
                spelled = compiler.vocabulary.token_bytes(other)
                assert spelled.startswith(forced[: len(spelled)]) or forced.startswith(spelled), (
                    f"seed {seed}\n{grammar}"
                )
            assert matcher.accept_token(token)


@pytest.mark.slow
def test_masks_over_the_whole_deepseek_vocabulary_equal_brute_force(deepseek: GrammarCompiler) -> None:
    size = deepseek.vocabulary.vocab_size
    for seed in range(60 if NIGHTLY else 6):
        rng = random.Random(20_000 + seed)
        grammar = random_grammar(rng).replace('"ab"', '([a-z ]+ ",")').replace('"b"', '([^"\\\\]*)')
        matcher = compile_or_skip(deepseek, grammar, oracle.Grammar(grammar))
        if matcher is None:
            continue
        for _ in range(3):
            allowed = mask_of(matcher, size)
            brute = {t for t in range(size) if matcher.validate_tokens([t]) == 1}
            assert allowed == brute, f"seed {seed}\n{grammar}"
            choices = sorted(allowed - {1})
            if not choices or not matcher.accept_token(rng.choice(choices)):
                break
