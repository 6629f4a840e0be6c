"""Random streams: equal with the reference event for event, and the generator reaches everything."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import random
import sys
from types import ModuleType
from typing import Any

import deepseek_recipe
import offseek.recipe
import pytest

STATES = [
    "skip_to_reasoning",
    "reasoning",
    "skip_to_content",
    "content",
    "json_before",
    "json_inside",
    "json_after",
    "between_calls",
    "tool_name",
    "tool_call",
    "parameter_key",
    "parameter_type",
    "string_value",
    "json_value",
    "after_tool_calls",
]
# One per marker and way to leave a state.
TRANSITIONS = [
    "skip_to_reasoning -> reasoning",
    "skip_to_content -> content",
    "skip_to_content -> json_before",
    "reasoning -> skip_to_content",
    "reasoning -> between_calls",
    "content -> between_calls",
    "json_before -> json_inside",
    "json_before -> between_calls",
    "json_inside -> json_after",
    "between_calls -> tool_name",
    "between_calls -> after_tool_calls",
    "tool_name -> tool_call",
    "tool_call -> parameter_key",
    "tool_call -> between_calls",
    "parameter_key -> parameter_type",
    "parameter_type -> string_value",
    "parameter_type -> json_value",
    "string_value -> tool_call",
    "json_value -> tool_call",
]
ERRORS = [
    "stream processor has finished",
    "stream processor is closed",
    "token chunk received without a tokenizer",
    "invalid log probabilities: N log probabilities for N token IDs",
]


def load_fuzz() -> ModuleType:
    path = pathlib.Path(__file__).resolve().parent / "stream_fuzz.py"
    spec = importlib.util.spec_from_file_location("recipe_stream_fuzz", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recipe_stream_fuzz"] = module
    spec.loader.exec_module(module)
    return module


fuzz = load_fuzz()


def differences(tokenizer_path: pathlib.Path, *, seed: str, streams: int) -> tuple[list[str], Any]:
    ours = fuzz.Runner(offseek.recipe, str(tokenizer_path))
    theirs = fuzz.Runner(deepseek_recipe, str(tokenizer_path))
    generator = fuzz.Generator(theirs.tokenizer.encode)
    found = []
    for n in range(streams):
        difference = fuzz.compare(ours, theirs, generator.stream(random.Random(f"{seed}:{n}")))
        if difference:
            found.append(f"stream {seed}:{n}: {difference}")
    for name, count in sorted(ours.coverage.items()):
        print(f"{count:9d}  {name}")
    return found, ours.coverage


@pytest.mark.slow
def test_a_thousand_streams_are_equal_and_reach_everything(deepseek_tokenizer_path: pathlib.Path) -> None:
    found, coverage = differences(deepseek_tokenizer_path, seed="ci", streams=1000)
    assert found == []
    missing = [f"state {s}" for s in STATES if not coverage[f"state {s}"]]
    missing += [t for t in TRANSITIONS if not coverage[t]]
    missing += [f"error: {e}" for e in ERRORS if not coverage[f"error: {e}"]]
    assert missing == []


@pytest.mark.nightly
def test_fifty_thousand_streams_are_equal(deepseek_tokenizer_path: pathlib.Path) -> None:
    seed = os.environ.get("OFFSEEK_FUZZ_SEED", "nightly")
    print(f"OFFSEEK_FUZZ_SEED={seed}")
    assert differences(deepseek_tokenizer_path, seed=seed, streams=50_000)[0] == []
