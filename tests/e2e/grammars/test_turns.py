"""Turns generated at random under their masks, read back by the recipe's parser: calls obey their tools."""

from __future__ import annotations

import json
import os
import pathlib
import random
from typing import Any

import jsonschema
import numpy as np
import pytest
from offseek.grammars import GrammarCompiler, GrammarError, Matcher, UnsupportedSchemaError, Vocabulary
from offseek.recipe import (
    InferenceChunk,
    MessagesChunkGenerator,
    ParsingOptions,
    StreamProcessor,
    ThinkingInitialStage,
    Tokenizer,
)

EOS, THINK_END, DSML = 1, 128822, 128825
NIGHTLY = os.environ.get("OFFSEEK_NIGHTLY") == "1"

TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1, "maxLength": 12},
                "unit": {"enum": ["c", "f"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "detail": {"type": ["string", "null"]},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
    {
        "name": "plot",
        "parameters": {
            "$defs": {"point": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}},
            "type": "object",
            "properties": {
                "points": {"type": "array", "items": {"$ref": "#/$defs/point"}, "maxItems": 3},
                "title": {"type": "string", "pattern": "^[A-Z][a-z]*$"},
                "kind": {"anyOf": [{"const": "line"}, {"type": "object", "properties": {"w": {"type": "boolean"}}}]},
                "when": {"type": "string", "format": "date"},
            },
            "required": ["points"],
            "minProperties": 2,
        },
    },
]


def constraint(tools: list[dict[str, Any]]) -> str:
    return json.dumps([{"type": "function", "function": {"description": None, **t}} for t in tools])


@pytest.fixture(scope="module")
def compiler(deepseek_tokenizer_path: pathlib.Path) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[EOS]))


@pytest.fixture(scope="module")
def tokenizer(deepseek_tokenizer_path: pathlib.Path) -> Tokenizer:
    return Tokenizer.from_file(deepseek_tokenizer_path)


def parse(ids: list[int], options: ParsingOptions, tokenizer: Tokenizer, *, thinking: bool) -> dict[str, Any]:
    """Reasoning, text and calls (name, arguments text) that the recipe reads out of token ids."""
    processor = StreamProcessor(MessagesChunkGenerator("id", "model", thinking), options, tokenizer)
    events = processor.push(InferenceChunk.tokens(ids)) + processor.finish()
    found: dict[str, Any] = {"reasoning": "", "text": "", "calls": []}
    for event in events:
        data = json.loads(event.to_json())
        if data["type"] == "content_block_start" and data["content_block"]["type"] == "tool_use":
            found["calls"].append([data["content_block"]["name"], ""])
        delta = data.get("delta", {})
        match delta.get("type"):
            case "thinking_delta":
                found["reasoning"] += delta["thinking"]
            case "text_delta":
                found["text"] += delta["text"]
            case "input_json_delta":
                found["calls"][-1][1] += delta["partial_json"]
    return found


def generate(matcher: Matcher, rng: random.Random, steering: list[int], opening: list[int], size: int) -> list[int]:
    """Some random tokens, now and then ones that lead on, then the shortest way to the end."""
    row = np.zeros((size + 31) // 32, dtype=np.int32)
    for _ in range(rng.randint(0, 60)):
        if rng.random() < 0.2 and matcher.validate_tokens(opening) == len(opening):
            matcher.accept_tokens(opening)
        matcher.fill_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed) > 0
        special = [t for t in (DSML, THINK_END) if (int(row[t >> 5]) >> (t & 31)) & 1]
        leading = [t for t in steering if (int(row[t >> 5]) >> (t & 31)) & 1]
        if special and rng.random() < 0.6:
            token = rng.choice(special)
        elif leading and rng.random() < 0.3:
            token = rng.choice(leading)
        else:
            token = int(rng.choice(allowed))
        if token == EOS:
            break
        assert matcher.accept_token(token)
    taken = matcher.token_ids
    completion = matcher.shortest_completion()
    assert matcher.accept_tokens(completion) == len(completion)
    assert matcher.is_accepting()
    return [*taken, *completion]


@pytest.mark.parametrize("version", ["v4", "v4.1"])
@pytest.mark.parametrize("mode", ["plain", "thinking", "required"])
def test_random_turns_give_calls_that_obey_the_declared_tools(
    compiler: GrammarCompiler, tokenizer: Tokenizer, version: Any, mode: str
) -> None:
    required, thinking = mode == "required", mode == "thinking"
    grammar = compiler.compile_turn(
        "tool_call_required" if required else "tool_call",
        constraint(TOOLS),
        version=version,
        stage="reasoning_start" if thinking else None,
        starts_in_tool_calls=required,
    )
    options = ParsingOptions(
        starts_in_tool_calls=required,
        thinking_initial_stage=ThinkingInitialStage.ReasoningStart if thinking else None,
    )
    steering = [i for text in ("\n\n<", "\n\n", "<", "</", "\n", '"', "]", "}", ">") for i in tokenizer.encode(text)]
    opening = [*tokenizer.encode("\n\n<"), DSML]
    schemas = {t["name"]: t["parameters"] for t in TOOLS}
    size, num_calls = compiler.vocabulary.vocab_size, 0
    for seed in range(400 if NIGHTLY else 25):
        ids = generate(grammar.matcher(), random.Random(seed), steering, opening, size)
        read = parse(ids, options, tokenizer, thinking=thinking)
        assert not required or read["calls"], seed
        num_calls += len(read["calls"])
        for name, arguments in read["calls"]:
            validator = jsonschema.Draft202012Validator(
                schemas[name], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
            )
            pairs = json.loads(arguments, object_pairs_hook=list)
            assert len({k for k, _ in pairs}) == len(pairs), arguments
            validator.validate(json.loads(arguments))
    assert num_calls > 5


def test_markup_is_made_of_token_ids_and_look_alikes_are_text(compiler: GrammarCompiler, tokenizer: Tokenizer) -> None:
    grammar = compiler.compile_turn("tool_call", constraint(TOOLS), stage="reasoning_start")
    matcher = grammar.matcher()
    look_alike = tokenizer.encode(
        "a < / think > ｜DSM",
    )
    assert THINK_END not in look_alike
    assert matcher.accept_tokens(look_alike) == len(look_alike)
    assert not matcher.accept_token(DSML)  # no calls inside the reasoning
    assert not matcher.is_accepting()
    assert matcher.accept_token(THINK_END)
    assert matcher.is_accepting()
    assert not matcher.accept_token(THINK_END)
    call = [*tokenizer.encode("\n\n<"), DSML, *tokenizer.encode("tool_calls>\n<"), DSML]
    body = [*tokenizer.encode('invoke name="now">\n</'), DSML, *tokenizer.encode("invoke>\n</"), DSML]
    end = tokenizer.encode("tool_calls>")
    assert matcher.accept_tokens([*call, *body]) == len(call) + len(body)
    assert not matcher.is_accepting()
    assert matcher.accept_tokens(end) == len(end)
    assert matcher.is_finished()


def test_an_undeclared_name_a_repeated_parameter_and_a_missing_one_are_barred(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    grammar = compiler.compile_turn("tool_call_required", constraint(TOOLS), starts_in_tool_calls=True)
    head = [*tokenizer.encode("<"), DSML]
    matcher = grammar.matcher()
    assert matcher.accept_tokens(head) == len(head)
    assert matcher.validate_tokens(tokenizer.encode('invoke name="rm">')) < len(tokenizer.encode('invoke name="rm">'))
    start = tokenizer.encode('invoke name="get_weather">\n<')
    assert matcher.accept_tokens([*start, DSML]) == len(start) + 1
    city = [
        *tokenizer.encode('parameter name="city" string="true">Ulm</'),
        DSML,
        *tokenizer.encode("parameter>\n<"),
        DSML,
    ]
    assert matcher.accept_tokens(city) == len(city)
    again = tokenizer.encode('parameter name="city"')
    assert matcher.validate_tokens(again) < len(again)
    bad_close = tokenizer.encode("invoke")
    assert matcher.validate_tokens(bad_close) == 0  # days is required, and `<` opened a parameter
    days = [
        *tokenizer.encode('parameter name="days" string="false">3</'),
        DSML,
        *tokenizer.encode("parameter>\n</"),
        DSML,
    ]
    assert matcher.accept_tokens(days) == len(days)
    rest = [*tokenizer.encode("invoke>\n</"), DSML, *tokenizer.encode("tool_calls>")]
    assert matcher.accept_tokens(rest) == len(rest)
    assert matcher.is_finished()


@pytest.mark.parametrize("stage", [None, "reasoning_start", "reasoning_continuation", "content_continuation"])
def test_json_and_regex_answers_come_after_the_reasoning(
    compiler: GrammarCompiler, tokenizer: Tokenizer, stage: Any
) -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    for kind, source, answer in (("json", schema, '{"n": 5}'), ("regex", "[0-9]+!", "12!"), ("json", "", "{}")):
        matcher = compiler.compile_turn(kind, source, stage=stage).matcher()  # type: ignore[arg-type]
        if stage in ("reasoning_start", "reasoning_continuation"):
            thought = [*tokenizer.encode('{"n": 5} 12! hm'), THINK_END]
            assert matcher.accept_tokens(thought) == len(thought)
        ids = tokenizer.encode(answer)
        assert matcher.accept_tokens(ids) == len(ids)
        assert matcher.is_accepting()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "tool bad"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "tool bad"),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"]},
            "bad",
        ),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, "tool bad: 'anyOf'"),
        ({"type": "array"}, "tool bad: parameters must be an object"),
        ({"type": "object", "properties": {'a"b': {}}}, "tool bad: parameter"),
        ({"$ref": "#/$defs/nope"}, "tool bad: reference"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nope"}}}, "tool bad"),
    ],
)
def test_a_bad_tool_schema_names_its_tool(compiler: GrammarCompiler, parameters: Any, message: str) -> None:
    tools = [TOOLS[0], {"name": "bad", "parameters": parameters}]
    with pytest.raises(GrammarError, match="tool bad") as caught:
        compiler.compile_turn("tool_call", constraint(tools))
    assert message in str(caught.value)


def test_optional_parameters_without_values_are_left_out(compiler: GrammarCompiler, tokenizer: Tokenizer) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"no": False, "yes": {"const": 1}}}}
    matcher = compiler.compile_turn("tool_call_required", constraint([tool]), starts_in_tool_calls=True).matcher()
    start = [*tokenizer.encode("<"), DSML, *tokenizer.encode('invoke name="f">\n<'), DSML]
    assert matcher.accept_tokens(start) == len(start)
    barred = tokenizer.encode('parameter name="no"')
    assert matcher.validate_tokens(barred) < len(barred)
    assert matcher.accept_tokens(tokenizer.encode('parameter name="yes"')) > 0


def test_the_turn_needs_its_special_tokens_and_sound_tools(compiler: GrammarCompiler) -> None:
    toy = GrammarCompiler(Vocabulary([b"a", b"</s>"], eos_token_ids=[1]))
    with pytest.raises(UnsupportedSchemaError, match="DSML"):
        toy.compile_turn("tool_call", constraint(TOOLS))
    for tools in ("[]", "{}", "[1]", "not json", json.dumps([{"function": {"name": "a b"}}])):
        with pytest.raises(UnsupportedSchemaError):
            compiler.compile_turn("tool_call", tools)
    with pytest.raises(UnsupportedSchemaError, match="two tools"):
        compiler.compile_turn("tool_call", constraint([TOOLS[1], TOOLS[1]]))
