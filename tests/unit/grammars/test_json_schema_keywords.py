"""Every JSON Schema keyword: texts that must get through, and texts that must be stopped.

Texts are raw JSON, walked byte by byte over a vocabulary of single bytes; the mask and `accept_token` have to agree on
the way. The third-party suites are run by the conformance tests; this table is our own and always there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from offseek.grammars import CompiledGrammar, GrammarCompiler, UnsupportedSchemaError, Vocabulary

EOS = 256


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    """A compiler over all single bytes and one end token."""
    tokens = [bytes([b]) for b in range(256)] + [b""]
    return GrammarCompiler(Vocabulary(tokens, special_token_ids=[EOS], eos_token_ids=[EOS]))


def passes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether the text gets through whole; mask bits and acceptance must agree."""
    matcher = grammar.matcher()
    row = np.zeros(9, dtype=np.int32)
    for byte in text.encode():
        matcher.fill_bitmask(row)
        allowed = bool(row[byte >> 5] >> (byte & 31) & 1)
        assert matcher.accept_token(byte) == allowed, (text, chr(byte))
        if not allowed:
            return False
    matcher.fill_bitmask(row)
    done = bool(row[EOS >> 5] >> (EOS & 31) & 1)
    assert done == matcher.is_accepting()
    return done


ANY: dict[str, Any] = {"whitespace": "any", "numbers": "any", "property_order": "any"}
Cases = list[tuple[str, Any, list[str], list[str]]]

KEYWORDS: Cases = [
    ("true", True, ["1", "[]", '{"a":null}', ' "x" '], ["", "tru", "[1,]", '{"a":1,"a":2}', "01", "nul"]),
    (
        "type string",
        {"type": "string"},
        ['"a"', '"\\u0061\\n"', '"é😀"', '"\\ud83d\\ude00"'],
        ["1", '"a', '"\t"', '"\\x41"', '"\\ud83d"'],
    ),
    ("type list", {"type": ["integer", "null"]}, ["1", "null", "1.0", "-0"], ["1.5", '"a"', "true"]),
    ("type boolean", {"type": "boolean"}, ["true", "false"], ["null", "0", "True"]),
    ("type number", {"type": "number"}, ["1", "1.5e-3", "-0.0"], ["01", "1.", ".5", "+1", "NaN"]),
    ("integer by value", {"type": "integer"}, ["1e2", "1.50e1", "12000e-3"], ["1e-1", "1.5", "1.55e1"]),
    (
        "integer by spelling in draft 4",
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"},
        ["1"],
        ["1.0", "1e2"],
    ),
    (
        "enum",
        {"enum": [1, "a", None, [1, {"b": 2}], True]},
        ["1", "1.0", '"a"', '"\\u0061"', "null", '[1.0,{"b":2}]', "true"],
        ["2", '"b"', "false", "[1]", '[1,{"b":3}]'],
    ),
    ("enum keeps 1 and true apart", {"enum": [1, False]}, ["1", "false"], ["true", "0"]),
    (
        "const object in any key order",
        {"const": {"a": 1, "b": [2]}},
        ['{"a":1,"b":[2]}', '{"b":[2.0],"a":1}'],
        ['{"a":1}', '{"a":1,"b":[2],"c":3}', '{"a":1,"b":[3]}'],
    ),
    (
        "minimum and maximum",
        {"type": "number", "minimum": -1.5, "maximum": 10},
        ["-1.5", "10", "0", "1e1", "-15e-1", "9.99"],
        ["-1.6", "11", "10.01", "-2", "1e2"],
    ),
    (
        "exclusive bounds",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ["0.5", "0.0001", "1e-9"],
        ["0", "1", "0.0", "-0.5"],
    ),
    (
        "exclusive bounds of draft 4",
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "integer",
            "minimum": 3,
            "exclusiveMinimum": True,
        },
        ["4", "30"],
        ["3", "2", "-5"],
    ),
    ("multipleOf", {"type": "integer", "multipleOf": 7}, ["0", "7", "-14", "77", "2.1e1"], ["8", "1", "70.5"]),
    ("multipleOf of decimals", {"multipleOf": 0.01}, ["0.07", "1", "12.34", "1e-2"], ["0.001", "12.345"]),
    (
        "multipleOf and bounds",
        {"type": "number", "multipleOf": 0.25, "minimum": 1, "maximum": 1.5},
        ["1", "1.25", "1.5"],
        ["0.75", "1.3", "1.75"],
    ),
    (
        "big integers",
        {"type": "integer", "minimum": 123456789012345678901234567890},
        ["123456789012345678901234567890", "2e29"],
        ["123456789012345678901234567889", "5"],
    ),
    (
        "length in code points",
        {"type": "string", "minLength": 2, "maxLength": 3},
        ['"ab"', '"😀é"', '"\\ud83d\\ude00a"', '"\\n\\n\\n"'],
        ['"a"', '"😀"', '"abcd"'],
    ),
    (
        "pattern searches",
        {"type": "string", "pattern": "b+c"},
        ['"abbc"', '"bcx"', '"\\u0062c"'],
        ['"ab"', '"cb"', '""'],
    ),
    ("pattern anchored", {"type": "string", "pattern": "^[a-c]{2,3}$"}, ['"ab"', '"cab"'], ['"a"', '"abcd"', '"ad"']),
    (
        "pattern with length",
        {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 6},
        ['"abab"', '"ababab"'],
        ['"ab"', '"aba"', '"abababab"'],
    ),
    (
        "pattern with lookahead",
        {"type": "string", "pattern": "^(?!foo)[a-z]+$"},
        ['"fob"', '"bar"'],
        ['"foo"', '"foobar"'],
    ),
    ("pattern only for strings", {"pattern": "^a"}, ['"ab"', "1", "[]"], ['"b"']),
    (
        "prefixItems and items",
        {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
        ["[]", "[1]", '[1,"a"]', "7"],
        ['["a"]', "[1,2]"],
    ),
    (
        "items array of draft 7",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{"type": "integer"}],
            "additionalItems": False,
        },
        ["[]", "[1]"],
        ["[1,2]", '["a"]'],
    ),
    ("item counts", {"type": "array", "minItems": 1, "maxItems": 2}, ["[1]", "[1,[]]"], ["[]", "[1,2,3]"]),
    ("contains", {"contains": {"type": "integer"}}, ["[1]", '["a",2,"b"]', "{}"], ["[]", '["a"]']),
    (
        "minContains and maxContains",
        {"contains": {"const": 1}, "minContains": 2, "maxContains": 3},
        ["[1,1]", "[1,2,1,3,1]"],
        ["[1]", "[1,1,1,1]"],
    ),
    ("minContains 0", {"contains": {"const": 1}, "minContains": 0}, ["[]", "[2]"], []),
    (
        "uniqueItems",
        {"type": "array", "uniqueItems": True},
        ["[]", "[1,2]", '["a","b"]', "[[1],[2]]", '[{"a":1},{"a":2}]', "[1,true]", "[0,false]"],
        ["[1,1]", "[1,1.0]", '["a","\\u0061"]', "[[1],[1.0]]", '[{"a":1,"b":2},{"b":2,"a":1}]'],
    ),
    (
        "uniqueItems bounded by its items",
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        ['["b","a"]'],
        ['["a","a"]', '["a","b","a"]'],
    ),
    (
        "properties",
        {"properties": {"a": {"type": "integer"}}},
        ['{"a":1}', "{}", '{"b":"x"}', '{"A":null}', "3"],
        ['{"a":"x"}', '{"\\u0061":"x"}', '{"b":1,"a":null}'],
    ),
    (
        "duplicates never pass",
        {"properties": {"a": True}},
        ['{"a":1,"b":2}'],
        ['{"a":1,"\\u0061":2}', '{"b":1,"b":1}', '{"b":1,"\\u0062":1}'],
    ),
    ("required", {"required": ["a", "b"]}, ['{"b":1,"a":2}', "1"], ['{"a":1}', "{}"]),
    (
        "additionalProperties false",
        {"properties": {"a": True}, "additionalProperties": False},
        ["{}", '{"a":[]}'],
        ['{"b":1}', '{"a":1,"ab":1}'],
    ),
    (
        "additionalProperties schema",
        {"properties": {"a": True}, "additionalProperties": {"type": "integer"}},
        ['{"a":"x","b":1}'],
        ['{"b":"x"}', '{"aa":null}'],
    ),
    (
        "patternProperties",
        {"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}}},
        ['{"x":1}', '{"xy":5}', '{"q":"a"}'],
        ['{"x":"a"}', '{"xy":4}', '{"zy":1}'],
    ),
    (
        "patternProperties beside properties",
        {
            "properties": {"xa": {"minimum": 3}},
            "patternProperties": {"^x": {"type": "integer"}},
            "additionalProperties": False,
        },
        ['{"xa":3}', '{"xb":0}'],
        ['{"xa":1}', '{"xa":3.5}', '{"b":1}'],
    ),
    (
        "propertyNames",
        {"propertyNames": {"pattern": "^[a-z]{1,2}$"}},
        ['{"a":1,"bb":2}'],
        ['{"abc":1}', '{"A":1}', '{"":1}'],
    ),
    (
        "propertyNames of few",
        {"propertyNames": {"enum": ["a", "b"]}, "minProperties": 2},
        ['{"b":1,"a":2}'],
        ['{"a":1}', '{"a":1,"c":2}'],
    ),
    (
        "property counts",
        {"minProperties": 1, "maxProperties": 2},
        ['{"a":1}', '{"a":1,"b":2}', "[]"],
        ["{}", '{"a":1,"b":2,"c":3}'],
    ),
    (
        "property counts with required",
        {"required": ["a"], "maxProperties": 1},
        ['{"a":1}'],
        ['{"b":1}', '{"a":1,"b":2}'],
    ),
    (
        "dependentRequired",
        {"dependentRequired": {"a": ["b"]}},
        ["{}", '{"b":1}', '{"a":1,"b":2}', '{"b":2,"a":1}'],
        ['{"a":1}', '{"a":1,"c":2}'],
    ),
    (
        "dependentSchemas",
        {"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
        ['{"a":1,"b":2}', '{"b":"x"}', "{}"],
        ['{"a":1,"b":"x"}', '{"b":"x","a":1}'],
    ),
    (
        "dependencies of draft 7",
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        ['{"a":1,"b":1}', '{"d":1,"c":1}'],
        ['{"a":1}', '{"c":1}'],
    ),
    (
        "allOf",
        {"allOf": [{"minimum": 2}, {"maximum": 4}, {"type": "integer"}]},
        ["2", "4", "3.0"],
        ["1", "5", "2.5", '"a"'],
    ),
    (
        "allOf of patterns",
        {"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}, {"maxLength": 3}]},
        ['"ab"', '"bxa"'],
        ['"a"', '"bxxa"'],
    ),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"minLength": 2}]}, ["1", '"ab"', "1.5", "null"], ['"a"']),
    (
        "anyOf beside properties",
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        ['{"a":1}', '{"b":"x"}', '{"b":1,"a":2}'],
        ["{}", '{"a":"x","b":1}', '{"c":1}'],
    ),
    (
        "oneOf",
        {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"},
        ["2", "3", "4", "9"],
        ["6", "12", "5"],
    ),
    (
        "oneOf of overlapping objects",
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ['{"a":1}', '{"b":1,"c":2}'],
        ["{}", '{"a":1,"b":2}'],
    ),
    (
        "oneOf with a discriminator",
        {
            "oneOf": [
                {"properties": {"t": {"const": "x"}, "v": {"type": "integer"}}, "required": ["t", "v"]},
                {"properties": {"t": {"const": "y"}, "v": {"type": "string"}}, "required": ["t", "v"]},
            ]
        },
        ['{"t":"x","v":1}', '{"v":"a","t":"y"}'],
        ['{"t":"x","v":"a"}', '{"v":1,"t":"y"}', '{"t":"z","v":1}'],
    ),
    ("not", {"not": {"type": ["integer", "object"]}}, ['"a"', "1.5", "[]"], ["1", "1.0", "{}"]),
    ("not const", {"type": "string", "not": {"const": "ab"}}, ['"a"', '"abc"', '""'], ['"ab"', '"a\\u0062"']),
    ("not required", {"type": "object", "not": {"required": ["a"]}}, ["{}", '{"b":1}'], ['{"a":1}', '{"b":1,"a":2}']),
    (
        "not of properties",
        {"type": "object", "not": {"properties": {"a": {"type": "integer"}}}},
        ['{"a":"x"}', '{"b":1,"a":null}'],
        ["{}", '{"a":1}', '{"b":1}'],
    ),
    ("not of a pattern", {"type": "string", "not": {"pattern": "^a.*z$"}}, ['"a"', '"z"', '"azb"'], ['"az"', '"abcz"']),
    ("not of multipleOf", {"type": "integer", "not": {"multipleOf": 2}}, ["1", "-3"], ["2", "0"]),
    (
        "if then else",
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"required": ["a"]},
            "else": {"required": ["b"]},
        },
        ['{"k":1,"a":0}', '{"k":2,"b":0}', '{"b":1}', '{"a":1,"k":1}'],
        ['{"k":1}', '{"k":1,"b":0}', '{"k":2,"a":0}', "{}"],
    ),
    (
        "if without required",
        {"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["a"]}},
        ['{"a":0}', '{"k":2}'],
        ["{}", '{"k":1}'],
    ),
    ("$ref and $defs", {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}, ["[1]"], ['["a"]']),
    (
        "$ref with siblings",
        {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 3},
        ["3"],
        ["2", '"a"'],
    ),
    (
        "$ref hides siblings in draft 7",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"n": {"type": "integer"}},
            "properties": {"a": {"$ref": "#/definitions/n", "minimum": 3}},
        },
        ['{"a":2}'],
        ['{"a":"x"}'],
    ),
    ("$ref with escapes", {"$defs": {"a/b c~d": {"type": "integer"}}, "$ref": "#/$defs/a~1b%20c~0d"}, ["1"], ['"a"']),
    (
        "recursion",
        {
            "$defs": {
                "t": {
                    "type": "object",
                    "properties": {"k": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
                    "additionalProperties": False,
                }
            },
            "$ref": "#/$defs/t",
        },
        ["{}", '{"k":[{"k":[]},{}]}'],
        ['{"k":[1]}', '{"k":[{"x":1}]}'],
    ),
    (
        "$id and $anchor",
        {
            "$id": "http://x.test/root",
            "$defs": {"a": {"$id": "item", "$anchor": "here", "type": "integer"}},
            "items": {"$ref": "item#here"},
            "contains": {"$ref": "http://x.test/item"},
        },
        ["[1]"],
        ["[]", '["a"]'],
    ),
    (
        "$dynamicRef",
        {
            "$id": "http://x.test/list",
            "$ref": "generic",
            "$defs": {
                "item": {"$dynamicAnchor": "T", "type": "string"},
                "generic": {"$id": "generic", "items": {"$dynamicRef": "#T"}, "$defs": {"d": {"$dynamicAnchor": "T"}}},
            },
        },
        ['["a"]', "[]"],
        ["[1]"],
    ),
    (
        "unevaluatedProperties",
        {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False},
        ['{"a":1,"b":2}'],
        ['{"c":1}'],
    ),
    (
        "unevaluatedProperties over branches",
        {
            "anyOf": [
                {"properties": {"a": {"const": 1}}, "required": ["a"]},
                {"properties": {"b": True}, "required": ["b"]},
            ],
            "unevaluatedProperties": False,
        },
        ['{"a":1}', '{"b":2}', '{"a":1,"b":2}'],
        ['{"a":2,"b":2}', '{"a":1,"c":1}'],
    ),
    (
        "unevaluatedItems",
        {
            "prefixItems": [{"type": "integer"}],
            "anyOf": [{"prefixItems": [True, {"const": "x"}]}, True],
            "unevaluatedItems": False,
        },
        ["[1]", '[1,"x"]'],
        ['[1,"y"]', '[1,"x",2]'],
    ),
    ("unknown keywords annotate", {"type": "integer", "x-whatever": {"type": "string"}}, ["1"], ['"a"']),
    ("dependencies are unknown to 2020-12", {"dependencies": {"a": ["b"]}}, ['{"a":1}'], []),
    (
        "white space anywhere",
        {"properties": {"a": {"type": "array"}}},
        [' {\n"a" :\t[ 1 , 2 ] } \r\n'],
        ['{"a":[1\u00a0]}'],
    ),
]

FORMATS: list[tuple[str, list[str], list[str]]] = [
    ("date", ["2024-02-29", "0001-01-01"], ["2023-02-29", "2024-1-01", "2024-04-31", "20240101"]),
    ("time", ["08:30:06Z", "23:59:60Z", "01:29:60+01:30"], ["24:00:00Z", "22:59:60Z", "08:30:06"]),
    (
        "date-time",
        ["1963-06-19T08:30:06.283185Z", "1990-12-31T15:59:50-08:00"],
        ["1963-06-19 08:30:06Z", "1990-02-31T15:59:59Z"],
    ),
    ("duration", ["P4DT12H30M5S", "P2W", "PT36H"], ["P", "P1YT", "P1Y2W", "PT1H2S"]),
    (
        "email",
        ["joe.bloggs@example.com", '"joe bloggs"@example.com', "a@[127.0.0.1]"],
        ["2962", ".a@b.c", "a..b@c.d", "@b.c"],
    ),
    ("hostname", ["www.example.com", "a--b.com", "x"], ["", "-a", "a_b", "a.", "a" * 64]),
    ("ipv4", ["192.168.0.1"], ["256.1.1.1", "1.2.3", "01.2.3.4"]),
    ("ipv6", ["::1", "1:2:3:4:5:6:7:8", "1::d6:192.168.0.1"], ["12345::", "1::d6::42", "1:2:3:4:5:6:7"]),
    ("uri", ["http://foo.bar/?baz=qux#q", "urn:a:b"], ["//foo.bar", "abc", "http://a b"]),
    ("uri-reference", ["", "#frag", "/abc", "//x"], ["\\\\x", '/a"b', "1:b"]),
    ("iri", ["http://ƒøø.ßår/?∂éœ=πîx#πîüx"], ["/abc", "âππ"]),
    ("iri-reference", ["/âππ", "#ƒrägmênt"], ["\\\\WINDOWS"]),
    ("uri-template", ["x/{term:1}/{+var}", "{x,y}"], ["{", "{}", "{a,,b}"]),
    ("uuid", ["2eb8aa08-AA98-11ea-B4Aa-73B441D16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    ("json-pointer", ["", "/foo/bar~0/~1"], ["a", "/~2", "#"]),
    ("relative-json-pointer", ["0#", "1/a"], ["01", "/a"]),
    ("idn-email", ["실례@실례.테스트"], ["2962"]),
    ("no-such-format", ["anything"], []),
]


@pytest.mark.parametrize(("name", "schema", "valid", "invalid"), KEYWORDS, ids=[k[0] for k in KEYWORDS])
def test_keyword_lets_valid_texts_through_and_stops_invalid_ones(
    compiler: GrammarCompiler, name: str, schema: Any, valid: list[str], invalid: list[str]
) -> None:
    grammar = compiler.compile_json_schema(schema, **ANY)
    assert [t for t in valid if not passes(grammar, t)] == []
    assert [t for t in invalid if passes(grammar, t)] == []


@pytest.mark.parametrize(("name", "schema", "valid", "invalid"), KEYWORDS, ids=[k[0] for k in KEYWORDS])
def test_completion_from_every_prefix_is_an_instance(
    compiler: GrammarCompiler, name: str, schema: Any, valid: list[str], invalid: list[str]
) -> None:
    import jsonschema
    from jsonschema.validators import validator_for

    judge: Callable[[Any], bool] = validator_for(schema, default=jsonschema.Draft202012Validator)(schema).is_valid
    for settings in (ANY, {}):
        grammar = compiler.compile_json_schema(schema, **settings)
        for text in valid + invalid:
            matcher = grammar.matcher()
            done = b""
            for byte in text.encode():
                rest = b"".join(bytes([t]) for t in matcher.shortest_completion() if t < 256)
                whole = (done + rest).decode()
                assert judge(json.loads(whole)), (name, text, whole)
                if not matcher.accept_token(byte):
                    break
                done += bytes([byte])


@pytest.mark.parametrize(("name", "valid", "invalid"), FORMATS, ids=[f[0] for f in FORMATS])
def test_format_is_asserted(compiler: GrammarCompiler, name: str, valid: list[str], invalid: list[str]) -> None:
    schema = {"type": "string", "format": name}
    grammar = compiler.compile_json_schema(schema, **ANY)
    assert [t for t in valid if not passes(grammar, json.dumps(t))] == []
    assert [t for t in invalid if passes(grammar, json.dumps(t))] == []
    annotated = compiler.compile_json_schema(schema, format="annotate", **ANY)
    assert all(passes(annotated, json.dumps(t)) for t in valid + invalid)


@pytest.mark.parametrize("name", ["regex", "idn-hostname"])
def test_undecided_formats_are_refused_or_relaxed(compiler: GrammarCompiler, name: str) -> None:
    schema = {"properties": {"a": {"format": name}}}
    with pytest.raises(UnsupportedSchemaError) as caught:
        compiler.compile_json_schema(schema)
    assert (caught.value.pointer, caught.value.keyword) == ("#/properties/a/format", "format")
    grammar = compiler.compile_json_schema(schema, on_unsupported="relax")
    assert grammar.relaxed_keywords == [("#/properties/a/format", "format")]


UNSATISFIABLE: list[tuple[Any, str]] = [
    (False, "#"),
    ({"enum": []}, "#"),
    ({"type": "string", "enum": [1, 2]}, "#"),
    ({"type": "object", "properties": {"x": {"type": "string", "enum": []}}, "required": ["x"]}, "#/properties/x"),
    ({"type": "object", "properties": {"x": False}, "required": ["x"]}, "#/properties/x"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "#"),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, "#"),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "#"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "#"),
    ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}, "#"),
    ({"type": "string", "pattern": "^a$", "minLength": 2}, "#"),
    ({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "#"),
    ({"type": "object", "required": ["a", "b"], "maxProperties": 1}, "#"),
    ({"type": "object", "propertyNames": {"enum": ["a"]}, "minProperties": 2}, "#"),
    (
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"]}},
        },
        "#/$defs/a/properties/n",
    ),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "#"),
    ({"oneOf": [True, True]}, "#"),
]


@pytest.mark.parametrize(("schema", "pointer"), UNSATISFIABLE, ids=[json.dumps(u[0])[:60] for u in UNSATISFIABLE])
def test_schema_without_instances_is_an_error(compiler: GrammarCompiler, schema: Any, pointer: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match="no value can satisfy") as caught:
        compiler.compile_json_schema(schema)
    assert caught.value.pointer == pointer


def test_optional_property_without_values_is_never_written(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile_json_schema({"type": "object", "properties": {"x": {"enum": []}, "y": True}}, **ANY)
    assert passes(grammar, '{"y":1}')
    matcher = grammar.matcher()
    assert all(matcher.accept_token(b) for b in b'{"')
    assert matcher.accept_token(ord("x"))  # on the way to "xa"
    assert not matcher.accept_token(ord('"'))


MALFORMED: list[tuple[Any, str]] = [
    ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, "#/properties/a/required"),
    ({"type": "objct"}, "#/type"),
    ({"type": "object", "properties": []}, "#/properties"),
    ({"type": "string", "minLength": -1}, "#/minLength"),
    ({"type": "string", "minLength": 1.5}, "#/minLength"),
    ({"type": "array", "items": {"$ref": "#/$defs/Nope"}}, "#/items/$ref"),
    ({"$ref": "http://elsewhere.test/x"}, "#/$ref"),
    ({"type": "string", "pattern": "(unclosed"}, "#/pattern"),
    ({"enum": "1.0.0"}, "#/enum"),
    ({"multipleOf": 0}, "#/multipleOf"),
    ({"allOf": []}, "#/allOf"),
    ({"$ref": "#"}, "#"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}}, "#/$defs/a"),
    ({"items": [{"type": "string"}]}, "#/items"),
    ({"properties": {"a": 3}}, "#/properties/a"),
    ({"minimum": "1"}, "#/minimum"),
    ({"uniqueItems": "yes"}, "#/uniqueItems"),
    ({"$schema": "http://example.test/unknown"}, "#/$schema"),
    ("{not json", "#"),
    ("[1]", "#"),
]


@pytest.mark.parametrize(("schema", "pointer"), MALFORMED, ids=[json.dumps(m[0])[:60] for m in MALFORMED])
def test_malformed_schema_is_an_error_with_its_pointer(compiler: GrammarCompiler, schema: Any, pointer: str) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        compiler.compile_json_schema(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("pattern", "why"), [(r"(a)\1", "back-reference"), (r"(?>a)", "atomic")], ids=["back-reference", "atomic group"]
)
def test_pattern_beyond_regular_languages_is_refused(compiler: GrammarCompiler, pattern: str, why: str) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        compiler.compile_json_schema({"properties": {"p": {"pattern": pattern}}})
    assert caught.value.pointer == "#/properties/p/pattern"


def test_whitespace_settings(compiler: GrammarCompiler) -> None:
    schema = {"properties": {"a": {"items": {"type": "integer"}}}, "type": "object"}
    texts = {"spaced": '{"a": [1, 2], "b": 3}', "compact": '{"a":[1,2],"b":3}'}
    for setting, text in texts.items():
        grammar = compiler.compile_json_schema(schema, whitespace=setting)
        assert {k for k, t in texts.items() if passes(grammar, t)} == {setting}
        assert not passes(grammar, " " + text)
    anything = compiler.compile_json_schema(schema, whitespace="any")
    assert all(passes(anything, t) for t in texts.values())


def test_schema_order_is_declaration_order_then_other_keys(compiler: GrammarCompiler) -> None:
    schema = {"properties": {"z": True, "m": True, "a": True}, "required": ["a"]}
    grammar = compiler.compile_json_schema(schema, whitespace="compact")
    for text in ('{"z":1,"m":2,"a":3}', '{"z":1,"a":3}', '{"a":3,"other":4}'):
        assert passes(grammar, text)
    for text in ('{"m":2,"z":1,"a":3}', '{"a":3,"m":2}', '{"other":4,"a":3}'):
        assert not passes(grammar, text)
    free = compiler.compile_json_schema(schema, whitespace="compact", property_order="any")
    assert passes(free, '{"other":4,"a":3,"z":1}')


def test_canonical_numbers(compiler: GrammarCompiler) -> None:
    schema = {"prefixItems": [{"type": "integer"}, {"type": "number"}], "items": {"type": "number", "multipleOf": 0.01}}
    grammar = compiler.compile_json_schema(schema, whitespace="compact")
    for text in ("[0]", "[-12,3.0]", "[12345678901234567890]", "[1,0.5,12.34,7]"):
        assert passes(grammar, text)
    for text in ("[1.0]", "[1e2]", "[123456789012345678901]", "[-0]", "[1,1e2]", "[1,2,0.001]", "[1,2,0.100]"):
        assert not passes(grammar, text)


def test_registry_and_dialect(compiler: GrammarCompiler) -> None:
    registry = {"http://x.test/int": {"type": "integer"}, "http://x.test/deep": '{"$defs": {"s": {"type": "string"}}}'}
    schema = {"prefixItems": [{"$ref": "http://x.test/int"}, {"$ref": "http://x.test/deep#/$defs/s"}]}
    grammar = compiler.compile_json_schema(schema, registry=registry, **ANY)
    assert passes(grammar, '[1,"a"]')
    assert not passes(grammar, '["a"]')
    old = compiler.compile_json_schema({"items": [{"type": "integer"}]}, dialect="draft-07", **ANY)
    assert passes(old, '[1,"a"]')
    assert not passes(old, '["a"]')


def test_reference_to_a_metaschema_resolves_offline(compiler: GrammarCompiler) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://json-schema.org/draft-07/schema#"}
    grammar = compiler.compile_json_schema(schema, format="annotate", **ANY)
    assert passes(grammar, '{"type":"integer","minimum":3}')
    assert not passes(grammar, '{"type":"objct"}')


def test_pydantic_models_and_typed_dicts(compiler: GrammarCompiler) -> None:
    from typing import Annotated

    from pydantic import BaseModel, Field
    from typing_extensions import TypedDict

    class Leaf(BaseModel):
        name: Annotated[str, Field(min_length=1, max_length=5, pattern="^[a-z]+$")]
        size: Annotated[int, Field(ge=0, lt=100)]
        children: list[Leaf] = []
        note: str | None = None

    Leaf.model_rebuild(_types_namespace={"Leaf": Leaf})

    class Point(TypedDict):
        x: float
        y: float

    grammar = compiler.compile_json_schema(Leaf)
    assert passes(grammar, '{"name": "ab", "size": 99, "children": [{"name": "c", "size": 0}], "note": null}')
    assert not passes(grammar, '{"name": "AB", "size": 1}')
    assert not passes(grammar, '{"name": "ab", "size": 100}')
    point = compiler.compile_json_schema(Point)
    assert passes(point, '{"x": 1.5, "y": 2}')
    assert not passes(point, '{"x": 1.5}')
    numbers = compiler.compile_json_schema(list[int])
    assert passes(numbers, "[1, 2]")
    with pytest.raises(UnsupportedSchemaError):
        compiler.compile_json_schema(object())


def test_large_length_bounds_are_exact(compiler: GrammarCompiler) -> None:
    for n in (0, 1, 1999, 2000, 2001, 100_000):
        grammar = compiler.compile_json_schema({"type": "string", "maxLength": n})
        assert passes(grammar, '"' + "x" * n + '"')
        assert not passes(grammar, '"' + "x" * (n + 1) + '"')
    grammar = compiler.compile_json_schema({"type": "string", "maxLength": 2000})
    assert passes(grammar, '"' + "😀" * 2000 + '"')
    assert not passes(grammar, '"' + "😀" * 2001 + '"')
