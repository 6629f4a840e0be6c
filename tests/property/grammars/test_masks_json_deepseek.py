"""JSON Schema masks over the DeepSeek vocabulary against stepping tokens alone: states that share masks do agree."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from offseek.grammars import GrammarCompiler, Vocabulary

EOS = 1
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "names": {"type": "array"}, "n": {"type": "integer", "maximum": 720}},
    "required": ["name"],
}
CLOSED = OPEN | {"additionalProperties": False}
TAGS = {
    "type": "object",
    "patternProperties": {
        "^[a-z0-9_-]{1,30}$": {"type": "string", "pattern": r"^(?:\S+\s){0,9}\S+$", "maxLength": 200}
    },
    "additionalProperties": False,
    "maxProperties": 3,
}
ANY_KEY = {"type": "object", "patternProperties": {"^.+$": {"type": "string"}}}
UNIQUE = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3}
UNIQUE_ENUM = {"type": "array", "items": {"enum": ["ab", "abc", 1, 10]}, "uniqueItems": True}
NUMBERS = {
    "type": "array",
    "prefixItems": [
        {"type": "integer", "minimum": 3, "maximum": 65535},
        {"type": "number", "exclusiveMinimum": -2, "maximum": 1},
        {"type": "integer", "multipleOf": 5},
        {"type": "integer", "maximum": -12},
    ],
}
NOT_CONST = {"type": "string", "not": {"enum": ["the", "there", "日本"]}}
UNION = {"anyOf": [OPEN, CLOSED | {"required": ["n"]}, {"type": "array", "items": CLOSED}]}
CASES: list[tuple[Any, list[str]]] = [
    (
        OPEN,
        [
            "{",
            '{"',
            '{"na',
            '{"name',
            '{"name":',
            '{"name":"x',
            '{"name":"x"',
            '{"name":"x","',
            '{"n":7',
            '{"x":[1],"n":72',
        ],
    ),
    (
        CLOSED,
        ['{"', '{"na', '{"name', '{"n":1,"', '{"n":1,"name":"', '{"n":1,"name":""', '{"n":1,"name":"","names":[{"'],
    ),
    (
        TAGS,
        [
            "{",
            '{"',
            '{"ab',
            '{"ab":"two words',
            '{"ab":"x","',
            '{"ab":"x","a',
            '{"ab":"x","ab',
            '{"a":"x","b":"y","c":"z"',
        ],
    ),
    (ANY_KEY, ['{"', '{"CI', '{"CI_A":"1"', '{"CI_A":"1","', '{"CI_A":"1","CI_', '{"CI_A":"1","CI_A', '{"":1,"']),
    (UNIQUE, ["[", '["', '["the', '["the","', '["the","th', '["the","the', '["the","them","x"']),
    (UNIQUE_ENUM, ["[", '["ab', '["ab","', '["ab","ab', '["ab",1', '["ab",1,10', '["ab",1,10,"abc"']),
    (NUMBERS, ["[", "[6", "[65", "[6553", "[655.", "[9,", "[9,0.", "[9,-1", "[9,1,4", "[9,1,5,-1", "[9,1,5,-12e"]),
    (NOT_CONST, ['"', '"the', '"there', '"日', '"thé']),
    (UNION, ["{", "[", '{"', '{"n":1', '{"n":1,"', '[{"n":1', '{"name":"a"']),
]


@pytest.fixture(scope="module")
def compiler(deepseek_tokenizer_path: pathlib.Path) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[EOS]))


@pytest.fixture(scope="module")
def tokens(compiler: GrammarCompiler) -> list[int]:
    """Every token with JSON's own characters or a digit, and one in 29 of the others."""
    vocabulary = compiler.vocabulary
    special = set(b'"\\,:{}[]0123456789')
    return [
        t
        for t in range(len(vocabulary))
        if not vocabulary.is_special(t) and (t % 29 == 0 or special & set(vocabulary.token_bytes(t)))
    ]


@pytest.mark.parametrize("order", ["any", "schema"])
@pytest.mark.parametrize(("schema", "prefixes"), CASES)
def test_masks_equal_stepping_each_token(
    compiler: GrammarCompiler, tokens: list[int], schema: Any, prefixes: list[str], order: Any
) -> None:
    vocabulary = compiler.vocabulary
    grammar = compiler.compile_json_schema(schema, whitespace="any", numbers="any", property_order=order)
    row = np.zeros(vocabulary.num_words, dtype=np.int32)
    reached = 0
    for prefix in prefixes:
        matcher = grammar.matcher()
        spelled = vocabulary.spell(prefix.encode())
        assert spelled is not None
        if matcher.accept_tokens(spelled) != len(spelled):
            assert order == "schema", prefix
            continue
        reached += 1
        matcher.fill_bitmask(row)
        mask = np.unpackbits(row.view(np.uint8), bitorder="little").astype(bool)
        # `validate_tokens` steps a token alone, without any mask.
        wrong = [(prefix, vocabulary.token_bytes(t)) for t in tokens if mask[t] != (matcher.validate_tokens([t]) == 1)]
        assert wrong == []
    assert reached >= 2
