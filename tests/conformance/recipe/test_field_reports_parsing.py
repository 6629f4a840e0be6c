"""Complaints about output parsing from public trackers (`tests/data/field-reports.jsonl.gz`), each as its report asks.

Read through the Messages protocol; `tool_use` stands for the reports' `tool_calls`, `end_turn` for `stop`.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Iterator
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
)

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "field-reports.jsonl.gz"
REASONS = {"tool_calls": "tool_use", "stop": "end_turn"}


def reports() -> dict[str, dict[str, Any]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return {r["id"]: r for r in found if r["component"] == "parsing"}


REPORTS = reports()
HANDLED = {
    "parse-corrupted-open-wrapper",
    "parse-parameter-tag-damaged",
    "parse-no-parameter-call",
    "parse-string-attribute-decides-type",
    "parse-held-back-text-is-flushed",
    "parse-think-end-split-over-chunks",
    "parse-tool-block-before-think-end",
    "parse-v41-tag-spelling-and-odd-names",
    "parse-json-mode-noise",
}
both = pytest.mark.parametrize("recover", [False, True], ids=["exact", "recover"])


def parse(pieces: list[str], *, thinking: bool = False, **options: Any) -> dict[str, Any]:
    """Reasoning, content, calls (name, argument text), finish reason."""
    stage = ThinkingInitialStage.ReasoningStart if thinking else None
    options = {"thinking_initial_stage": stage, **options}
    stream = StreamProcessor(MessagesChunkGenerator("id", "model", thinking), ParsingOptions(**options))
    response = MessagesResponse("id", "model", 0, 0, 0)
    events = [event for piece in pieces for event in stream.push(InferenceChunk.text(piece))]
    events += stream.push(InferenceChunk.finish(InferenceFinishReason.Stop))
    arguments: list[str] = []
    for event in events:
        data = json.loads(event.to_json())
        if data.get("content_block", {}).get("type") == "tool_use":
            arguments.append("")
        if data.get("delta", {}).get("type") == "input_json_delta":
            arguments[-1] += data["delta"]["partial_json"]
        response.accumulate(event)
    message = json.loads(response.to_json())
    blocks = message["content"]
    return {
        "reasoning_content": "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
        "content": "".join(b["text"] for b in blocks if b["type"] == "text"),
        "calls": [b["name"] for b in blocks if b["type"] == "tool_use"],
        "arguments": arguments,
        "finish_reason": message["stop_reason"],
        "reports": stream.call_reports,
    }


def splits(text: str) -> Iterator[list[str]]:
    """Whole, one by one, every two-way split, and all sizes up to 20."""
    yield [text]
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]
    for size in range(2, 21):
        yield [text[i : i + size] for i in range(0, len(text), size)]


def check(report: dict[str, Any], got: dict[str, Any]) -> None:
    expected = report["expected"]
    for key in ("content", "reasoning_content"):
        if key in expected:
            assert got[key] == expected[key]
    assert got["finish_reason"] == REASONS[expected.get("finish_reason", "tool_calls")]
    calls = expected.get("tool_calls", [])
    assert got["calls"] == [call["name"] if "name" in call else got["calls"][0] for call in calls]
    for call, text in zip(calls, got["arguments"], strict=True):
        if "arguments" in call:
            assert json.loads(text) == call["arguments"]
            assert list(json.loads(text)) == list(call["arguments"])


def test_no_report_is_left_out() -> None:
    assert set(REPORTS) == HANDLED


@both
@pytest.mark.parametrize(
    "name",
    [
        "parse-corrupted-open-wrapper",
        "parse-no-parameter-call",
        "parse-string-attribute-decides-type",
        "parse-think-end-split-over-chunks",
        "parse-tool-block-before-think-end",
    ],
)
def test_report_holds_for_every_split(name: str, recover: bool) -> None:
    report = REPORTS[name]
    given = report["input"]
    for pieces in splits(given["output"]):
        check(report, parse(pieces, thinking=given["thinking"], recover=recover))


@both
def test_a_call_without_parameters_has_an_empty_object(recover: bool) -> None:
    got = parse([REPORTS["parse-no-parameter-call"]["input"]["output"]], recover=recover)
    assert got["arguments"] == ["{}"]


def test_names_that_look_like_attributes_in_recover_mode() -> None:
    report = REPORTS["parse-v41-tag-spelling-and-odd-names"]
    for pieces in splits(report["input"]["output"]):
        check(report, parse(pieces, recover=True))


@both
def test_held_back_text_comes_out_at_the_end(recover: bool) -> None:
    report = REPORTS["parse-held-back-text-is-flushed"]
    for output, content in zip(report["input"]["outputs"], report["expected"]["contents"], strict=True):
        for pieces in splits(output):
            got = parse(pieces, recover=recover)
            assert (got["content"], got["finish_reason"]) == (content, "end_turn")


def test_a_damaged_parameter_tag_is_repaired_with_a_flag() -> None:
    for output in REPORTS["parse-parameter-tag-damaged"]["input"]["outputs"]:
        for pieces in splits(output):
            got = parse(pieces, recover=True)
            assert [json.loads(text) for text in got["arguments"]] == [{"on": True}]
            assert [r.status for r in got["reports"]] == ["repaired"]


@both
def test_json_mode_without_the_chatter(recover: bool) -> None:
    report = REPORTS["parse-json-mode-noise"]
    for output, expected in zip(report["input"]["outputs"], report["expected"]["results"], strict=True):
        for pieces in splits(output):
            got = parse(pieces, parse_json_output=True, recover=recover)
            assert got["content"].strip() == expected["content_stripped"]
