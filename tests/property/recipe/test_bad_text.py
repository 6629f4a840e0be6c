# ruff: noqa: E501  (tables of texts read better unbroken)
"""Damaged JSON, deep nesting, huge numbers and lone surrogates: the reference's error for every text and value."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import offseek.recipe
import pytest

reference = pytest.importorskip("deepseek_recipe", reason="the reference package is a development dependency")

USER = [{"role": "user", "content": "u"}]
BODIES: dict[str, dict[str, Any]] = {
    "ChatCompletionRequest": {"model": "DeepSeek-V4-Pro", "messages": USER},
    "ResponsesRequest": {"model": "DeepSeek-V4-Pro", "input": "u"},
    "MessagesRequest": {"model": "DeepSeek-V4-Pro", "messages": USER},
}
VALUES = [
    "1e400", "-1e400", "1e308", "1" + "0" * 400, "-" + "9" * 400, "0." + "1" * 1000, "1e99999999999", "1e-99999999999", "00", "-", "1.", "1e",
    "1e+", "0x1", "Infinity", "-Infinity", "NaN", "tru", "nul", "'x'", '"\\ud800"', '"\\udc00"', '"\\ud800\\ud800"', '"\\ud800x"', '"\\u12g4"',
    '"\\x"', '"\x00"', '"\x1f"', '"\x7f"', "[1,]", '{"a":1,}', "{,}", '{"a"}', '{"a":}', "{1:2}", "[1 2]", '"unterminated', "/*c*/1", "1//c",
    "\u00a01", "\ufeff1", "[[[", "}", "]", *("[" * n + "]" * n for n in (125, 126, 127, 128, 10_000)),
    *('{"a":' * n + "1" + "}" * n for n in (125, 126, 127, 10_000)),
]  # fmt: skip
TEXTS = [
    b"", b" ", b"\xff", b'{"model":"\xff"}', b'{"model":"\xc3"}', b'{"\xed\xa0\x80":1}', b"\xef\xbb\xbf{}", b"\x00", b"{}\x00", b"null", b"[]",
    b"[1]", b'{"model":1,"model":"x"}', b'{\n"a":"\xff\\"b"}', b'{"a":"\xff',
]  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def inputs(name: str) -> Iterator[Any]:
    rng = random.Random(f"bad text {name}")
    base = json.dumps({**BODIES[name], "x": "@"})
    for value in VALUES:
        text = base.replace('"@"', value)
        yield from (text, text.encode(), value)
    yield from TEXTS
    good = json.dumps(
        {**BODIES[name], "x": {"a": [1, 2.5e3, "é😀", None, True]}, "temperature": 0.5}, ensure_ascii=False
    )
    for at in range(len(good)):
        yield good[:at]
        place = rng.randrange(len(good))
        yield good[:place] + rng.choice('{}[]",:0-eE\\ \n\x00é') + good[place + rng.randrange(2) :]
    for value in (
        float("nan"),
        float("inf"),
        2**64,
        -(2**63) - 1,
        {1: 2},
        {1, 2},
        b"x",
        object,
        "\ud800",
        {"\ud800": 1},
        deep(200),
        (1, 2),
    ):
        yield {**BODIES[name], "x": value}
    yield from (None, 5, [], object(), bytearray(b"{}"), memoryview(b"{}"))


def answer(module: Any, name: str, body: Any) -> str:
    try:
        getattr(module, name)(body).convert(module.ConversionOptions())
    except Exception as error:
        # RequestError is the ValueError of the reference, with a name of its own.
        kind = "ValueError" if type(error).__name__ == "RequestError" else type(error).__name__
        return f"{kind}: {error}"
    return "accepted"


@pytest.mark.parametrize("name", sorted(BODIES))
def test_damaged_bodies_get_the_error_of_the_reference(name: str) -> None:
    accepted = 0
    for body in inputs(name):
        expected = answer(reference, name, body)
        assert answer(offseek.recipe, name, body) == expected, repr(body)[:300]
        accepted += expected == "accepted"
    assert accepted > 0
