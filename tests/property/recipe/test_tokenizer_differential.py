"""Ids of random texts against `tokenizers` and the reference package: every kind of text, and mixtures of them."""

from __future__ import annotations

import os
import pathlib
import random

import deepseek_recipe
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from offseek._native import Tokenizer

SEED = 20261130


@pytest.fixture(scope="module")
def trio(deepseek_tokenizer_path: pathlib.Path) -> tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer]:
    path = str(deepseek_tokenizer_path)
    return (
        Tokenizer.from_file(path),
        tokenizers.Tokenizer.from_file(path),
        deepseek_recipe.Tokenizer.from_file(path),
    )


@pytest.fixture(scope="module")
def recorded_texts() -> list[str]:
    """Source code and prose that lie in this repository."""
    root = pathlib.Path(__file__).resolve().parents[3]
    files = [*sorted(root.glob("recipe-rs/**/*.rs"))[:20], *sorted(root.glob("*.md")), root / "LICENSE"]
    return [file.read_text() for file in files]


def random_text(rng: random.Random, added: list[str], recorded: list[str]) -> str:
    n = rng.randrange(1, 24)
    kind = rng.randrange(14)
    if kind == 0:
        return "".join(chr(rng.randrange(32, 127)) for _ in range(n))
    if kind == 1:  # one Unicode block
        base = rng.randrange(0, 0x110000 - 256)
        return "".join(chr(c) for c in (base + rng.randrange(256) for _ in range(n)) if not 0xD800 <= c < 0xE000)
    if kind == 2:
        return "".join(rng.choice(" \t\n\r\u3000\xa0\u2028\x85\x0b") * rng.randrange(1, 6) for _ in range(n))
    if kind == 3:
        return "".join(rng.choice("0123456789٠१Ⅷ½") for _ in range(n * 3))
    if kind == 4:
        return bytes(rng.randrange(256) for _ in range(n)).decode("utf-8", "replace")
    if kind == 5:
        return "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(n))
    if kind == 6:
        return rng.choice(added)
    if kind == 7:
        return "".join(rng.choice("etaoinshrdluETAOIN") for _ in range(n))
    if kind == 8:
        return "".join(rng.choice(" \n\r\t.,a1中あ'\u0301-") for _ in range(n))
    if kind == 9:
        return "".join(rng.choice("\x00\x01\x07\x1b\x7f\x80\x9f\xad\u200b\ufeff\ue000a ") for _ in range(n))
    if kind == 10:
        return "".join(chr(rng.randrange(0x3040, 0x3100)) for _ in range(n))
    if kind == 11:
        return "".join(
            rng.choice(["😀", "👨‍👩‍👧", "e\u0301", "\u200d", "\ufe0f", "🇩🇪", "\u20e3", "한", "ก"]) for _ in range(n)
        )
    if kind == 12:
        return rng.choice("a=-*.中 \n0é") * rng.randrange(1, 400)
    text = rng.choice(recorded)
    start = rng.randrange(len(text))
    return text[start : start + 20 * n]


def compare(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer],
    recorded: list[str],
    num_texts: int,
    seed: int,
) -> None:
    ours, peer, reference = trio
    rng = random.Random(seed)
    added = list(ours.added_tokens)
    texts = ["".join(random_text(rng, added, recorded) for _ in range(rng.randrange(1, 12))) for _ in range(num_texts)]
    expected = [encoding.ids for encoding in peer.encode_batch_fast(texts, add_special_tokens=False)]
    got = ours.encode_batch(texts)
    for i, text in enumerate(texts):
        assert got[i] == expected[i], (seed, text)
        assert ours.decode(got[i]) == text, (seed, text)
        if i % 7 == 0:
            assert ours.encode(text) == reference.encode(text) == expected[i], (seed, text)


def test_random_texts_have_the_ids_of_the_peers(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer], recorded_texts: list[str]
) -> None:
    compare(trio, recorded_texts, 6_000, SEED)


@pytest.mark.nightly
@pytest.mark.skipif(os.environ.get("OFFSEEK_NIGHTLY") != "1", reason="make test-nightly")
def test_a_million_random_texts_have_the_ids_of_the_peers(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer], recorded_texts: list[str]
) -> None:
    for part in range(100):
        compare(trio, recorded_texts, 10_000, SEED + 1 + part)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text())
def test_any_text_has_the_ids_of_tokenizers(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer], text: str
) -> None:
    ours, peer, _ = trio
    assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 129_400), max_size=30))
def test_decode_joins_the_bytes_of_the_tokens(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer], ids: list[int]
) -> None:
    ours = trio[0]
    pieces: list[bytes] = [b""]
    for i in ids:
        token = ours.token_bytes(i) or b""
        if ours.is_added(i):
            pieces += [token, b""]
        else:
            pieces[-1] += token
    assert ours.decode(ids) == "".join(piece.decode("utf-8", "replace") for piece in pieces)


def test_other_pre_tokenizers_have_the_ids_of_tokenizers(
    trio: tuple[Tokenizer, tokenizers.Tokenizer, deepseek_recipe.Tokenizer],
    deepseek_tokenizer_path: pathlib.Path,
    recorded_texts: list[str],
) -> None:
    """GPT-2's, SmolLM2's (single digits) and Llama 3's patterns over the same vocabulary."""
    import json

    file = json.loads(deepseek_tokenizer_path.read_text())
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    llama = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    )
    split = {"type": "Split", "pattern": {"Regex": llama}, "behavior": "Isolated", "invert": False}
    variants = [
        byte_level,
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]},
    ]
    for i, variant in enumerate(variants):
        text = json.dumps(file | {"pre_tokenizer": variant})
        both = Tokenizer.from_str(text), tokenizers.Tokenizer.from_str(text), trio[2]
        rng = random.Random(SEED + i)
        added = list(both[0].added_tokens)
        for _ in range(1500):
            text = "".join(random_text(rng, added, recorded_texts) for _ in range(rng.randrange(1, 8)))
            assert both[0].encode(text) == both[1].encode(text, add_special_tokens=False).ids, (variant, text)
