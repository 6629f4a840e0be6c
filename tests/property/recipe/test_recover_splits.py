"""Recover mode on random damaged output: any split gives the same message, arguments parse, no text is lost."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import random
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from offseek.recipe import (
    InferenceChunk,
    InferenceFinishReason,
    MessagesChunkGenerator,
    MessagesResponse,
    ParsingOptions,
    StreamProcessor,
    ThinkingInitialStage,
    Tokenizer,
)


def load_fuzz() -> ModuleType:
    path = pathlib.Path(__file__).resolve().parent / "stream_fuzz.py"
    spec = importlib.util.spec_from_file_location("recipe_stream_fuzz_for_recover", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fuzz = load_fuzz()
D = fuzz.D
FINISH = [InferenceFinishReason.Stop, InferenceFinishReason.Length, None]


class Setting:
    """Options of one stream, drawn once and used for all its splits."""

    def __init__(self, r: random.Random, tokenizer: Tokenizer | None = None) -> None:
        self.thinking = r.random() < 0.5
        self.json_output = r.random() < 0.2
        self.stops = r.sample(["STOP", "END", "o w", "abab"], r.choice([0, 0, 1, 2]))
        self.forced = r.random() < 0.1
        self.finish = r.choice(FINISH)
        self.tokenizer = tokenizer

    def message(self, chunks: list[InferenceChunk]) -> tuple[Any, list[Any]]:
        """Reasoning, answer, calls and finish reason; and the reports."""
        options = ParsingOptions(
            recover=True,
            parse_json_output=self.json_output,
            starts_in_tool_calls=self.forced,
            stop_sequences=self.stops,
            thinking_initial_stage=ThinkingInitialStage.ReasoningStart if self.thinking else None,
        )
        stream = StreamProcessor(MessagesChunkGenerator("id", "model", self.thinking), options, self.tokenizer)
        response = MessagesResponse("id", "model", 0, 0, 0)
        events: list[Any] = []
        for chunk in chunks:
            if not stream.finished:
                events += stream.push(chunk)
        if self.finish is not None and not stream.finished:
            events += stream.push(InferenceChunk.finish(self.finish))
        for event in events + stream.finish():
            response.accumulate(event)
        message = json.loads(response.to_json())
        for block in message["content"]:
            block.pop("id", None)
        message.pop("usage")
        fields = [(r.index, r.name, r.arguments, r.status, r.repairs, r.problems, r.raw) for r in stream.call_reports]
        return message, fields


def check_arguments(message: Any, reports: list[Any]) -> None:
    blocks = [b for b in message["content"] if b["type"] == "tool_use"]
    handed_out = [r for r in reports if r[0] is not None]
    assert [r[1] for r in handed_out] == [b["name"] for b in blocks]
    for report, block in zip(handed_out, blocks, strict=True):
        arguments = json.loads(report[2])
        assert isinstance(arguments, dict)
        assert list(arguments) == list(block["input"])
    for report in reports:
        assert (report[0] is None) == (report[3] == "malformed")
        assert report[3] != "malformed" or report[5]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(600))
def test_text_splits(seed: int) -> None:
    r = random.Random(f"recover:{seed}")
    text, setting = fuzz.reply(r), Setting(r)
    chunks = [
        list(map(InferenceChunk.text, parts)) for parts in ([text], list(text), *(fuzz.cut(r, text) for _ in range(4)))
    ]
    whole = setting.message(chunks[0])
    check_arguments(*whole)
    for other in chunks[1:]:
        assert setting.message(other) == whole, repr(text)


@pytest.mark.slow
def test_token_splits(deepseek_tokenizer_path: pathlib.Path) -> None:
    tokenizer = Tokenizer.from_file(deepseek_tokenizer_path)
    for seed in range(200):
        r = random.Random(f"recover tokens:{seed}")
        text, setting = fuzz.reply(r), Setting(r, tokenizer)
        ids = [i for part in fuzz.cut(r, text) for i in tokenizer.encode(part)]
        ids += tokenizer.encode("x")  # an incomplete character at the very end is dropped whatever the split
        whole = setting.message([InferenceChunk.tokens(ids)])
        for size in (1, 2, 5):
            chunks = [InferenceChunk.tokens(ids[i : i + size]) for i in range(0, len(ids), size)]
            assert setting.message(chunks) == whole, repr(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_words_between_tags_are_never_lost(seed: int) -> None:
    r = random.Random(f"recover words:{seed}")
    count = iter(range(1000))
    word = lambda: r.choice(["", f" w{next(count)}w "])  # noqa: E731
    text = word()
    for _ in range(r.randint(1, 3)):
        text += r.choice(["", f"<{D}tool_calls>", f"<{D}toolcalls>", "<|DSML|calls>", f"<{D}x>"]) + word()
        for _ in range(r.randint(0, 2)):
            text += f'<{D}invoke name="f">' + word()
            for _ in range(r.randint(0, 2)):
                kind = r.choice([' string="true"', ' string="false"', ""])
                text += f'<{D}parameter name="{r.choice("ab")}{next(count)}"{kind}>' + (word() or "1")
                text += r.choice([f"</{D}parameter>", f"</{D}parameter>", "", "</｜DSM"]) + word()
            text += r.choice([f"</{D}invoke>", f"</{D}invoke>", ""]) + word()
        text += r.choice(["", f"</{D}tool_calls>", f"</{D}tool_calls"]) + word()
    setting = Setting(r)
    setting.stops, setting.json_output = [], False
    message, _ = setting.message([InferenceChunk.text(text)])
    seen = json.dumps(message["content"])
    for found in re.findall(r"w\d+w", text):
        assert found in seen, (found, text)
