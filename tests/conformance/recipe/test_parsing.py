"""Every recorded parsing case, byte for byte: events, errors, SSE names and the complete response."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import sys
from collections import Counter
from types import ModuleType

import offseek.recipe

HERE = pathlib.Path(__file__).resolve().parent


def load_replay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recipe_replay", HERE / "replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recipe_replay"] = module
    spec.loader.exec_module(module)
    return module


def test_all_parsing_cases_are_identical(deepseek_tokenizer_path: pathlib.Path) -> None:
    replay = load_replay()
    suite = replay.Parsing(offseek.recipe, str(deepseek_tokenizer_path))
    passed, failed = Counter(), []
    for line in replay.read_lines(replay.DATA / "parsing.jsonl.gz"):
        case = json.loads(line)
        differences = suite.check(case, line.rstrip("\n"))
        if differences is None:
            passed[case["family"]] += 1
        else:
            failed.append((case["id"], differences[0]))
    assert failed == []
    assert passed.total() == 1610


def test_call_ids_have_their_form_and_are_unique() -> None:
    request = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "hi"}]}
    request["tools"] = [{"type": "function", "function": {"name": "f"}}]
    seen = set()
    for _ in range(50):
        r = offseek.recipe
        converted = r.ChatCompletionRequest(dict(request)).convert(r.ConversionOptions())
        generator = r.ChatCompletionRequest.chunk_generator(converted, "id", "model")
        processor = r.StreamProcessor(generator, converted.parsing_options)
        text = '<｜DSML｜invoke name="f"></｜DSML｜invoke>' * 2
        events = [e.to_json() for e in processor.push(r.InferenceChunk.text(text)) + processor.finish()]
        ids = re.findall(r'"id":"(call_[^"]+)"', "".join(events))
        assert [re.fullmatch(r"call_0[01]_ET_[0-9A-Za-z]{20}[0-9]{4}", i) is not None for i in ids] == [True, True]
        seen.update(ids)
    assert len(seen) == 100
