"""Masks of schemas with few instances against the whole list of instances.

For each schema every instance in a small universe is spelled out; the bytes allowed after any prefix must be exactly
those with which some listed text continues (escapes inside strings aside, which the lists leave out).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest
from offseek.grammars import GrammarCompiler, Vocabulary

EOS = 256
UNIVERSE_SCALARS: list[Any] = [None, True, False, 0, 1, 2, 3, 10, 12, -1, "", "a", "b", "ab", "ba"]


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    """A compiler over all single bytes and one end token."""
    tokens = [bytes([b]) for b in range(256)] + [b""]
    return GrammarCompiler(Vocabulary(tokens, special_token_ids=[EOS], eos_token_ids=[EOS]))


def universe() -> Iterator[Any]:
    """Scalars, arrays of up to three scalars, objects of up to three keys in every order."""
    yield from UNIVERSE_SCALARS
    few = [None, True, 1, 2, "a", "b"]
    for n in range(4):
        for items in itertools.product(few, repeat=n):
            yield list(items)
    for n in range(4):
        for keys in itertools.permutations(["a", "b", "c", "ab"], n):
            for values in itertools.product([1, 2, "a", True], repeat=n):
                yield dict(zip(keys, values, strict=True))


SCHEMAS: list[Any] = [
    {"enum": [None, True, 1, 12, "a", "ab"]},
    {"type": "integer", "minimum": 0, "maximum": 3},
    {"type": "boolean", "not": {"const": True}},
    {"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 3},
    {"type": "array", "items": {"enum": [1, 2, "a"]}, "uniqueItems": True},
    {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3, "contains": {"const": 2}},
    {
        "type": "array",
        "items": {"enum": [1, "a"]},
        "maxItems": 3,
        "contains": {"const": 1},
        "minContains": 2,
        "maxContains": 2,
    },
    {"type": "array", "prefixItems": [{"const": 1}, {"enum": ["a", "b"]}], "items": False},
    {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "not": {"items": {"const": 1}}},
    {
        "type": "object",
        "propertyNames": {"enum": ["a", "b"]},
        "additionalProperties": {"enum": [1, 2]},
        "minProperties": 1,
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"const": "a"}, "ab": {"const": True}},
        "required": ["b"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
        "additionalProperties": False,
        "dependentRequired": {"a": ["b"]},
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}, "c": {"enum": [1]}},
        "additionalProperties": False,
        "maxProperties": 2,
        "minProperties": 2,
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, "a"]}},
        "additionalProperties": False,
        "anyOf": [
            {"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"properties": {"b": {"const": "a"}}, "required": ["b"]},
        ],
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, "a"]}},
        "additionalProperties": False,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
        "additionalProperties": False,
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"properties": {"b": {"const": 2}}},
    },
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
        "additionalProperties": False,
        "not": {"properties": {"a": {"const": 1}, "b": {"const": 1}}},
    },
    {
        "type": "object",
        "patternProperties": {"^a": {"const": 1}, "b$": {"enum": [1, 2]}},
        "additionalProperties": False,
        "propertyNames": {"maxLength": 2, "pattern": "^[ab]+$", "enum": ["a", "b", "ab"]},
    },
    {
        "anyOf": [
            {"enum": [1, "a"]},
            {"type": "array", "items": {"const": 1}, "maxItems": 2},
            {"const": {"a": 1, "b": 2}},
        ]
    },
    {"oneOf": [{"enum": [1, 2, "a"]}, {"enum": [2, 3, "b"]}]},
]


def instances(schema: Any) -> set[bytes]:
    judge = jsonschema.Draft202012Validator(schema)
    return {json.dumps(v, separators=(",", ":")).encode() for v in universe() if judge.is_valid(v)}


@pytest.mark.parametrize("schema", SCHEMAS, ids=[json.dumps(s)[:70] for s in SCHEMAS])
def test_mask_after_every_prefix_is_exactly_what_some_instance_continues_with(
    compiler: GrammarCompiler, schema: Any
) -> None:
    texts = instances(schema)
    assert texts
    grammar = compiler.compile_json_schema(schema, whitespace="compact", property_order="any")
    row = np.zeros(9, dtype=np.int32)
    prefixes = {t[:n] for t in texts for n in range(len(t) + 1)}
    for prefix in sorted(prefixes):
        matcher = grammar.matcher()
        assert all(matcher.accept_token(b) for b in prefix), prefix
        matcher.fill_bitmask(row)
        allowed = {t for t in range(257) if row[t >> 5] >> (t & 31) & 1}
        expected = {t[len(prefix)] for t in texts if t.startswith(prefix) and len(t) > len(prefix)}
        if prefix in texts:
            expected.add(EOS)
        inside_string = prefix.count(b'"') % 2 == 1
        assert allowed - ({ord("\\")} if inside_string else set()) == expected, prefix


def test_random_walks_under_masks_end_in_instances(compiler: GrammarCompiler) -> None:
    import random

    rng = random.Random(7)
    for schema in SCHEMAS:
        judge = jsonschema.Draft202012Validator(schema)
        for settings in ({}, {"whitespace": "any", "numbers": "any", "property_order": "any"}):
            grammar = compiler.compile_json_schema(schema, **settings)
            for _ in range(6):
                matcher = grammar.matcher()
                text = bytearray()
                for _ in range(rng.randrange(40)):
                    choices = [t for t in matcher.allowed_tokens() if t != EOS]
                    if not choices:
                        break
                    byte = rng.choice(choices)
                    assert matcher.accept_token(byte)
                    text.append(byte)
                text += bytes(t for t in matcher.shortest_completion() if t != EOS)
                assert judge.is_valid(json.loads(text)), (schema, bytes(text))
