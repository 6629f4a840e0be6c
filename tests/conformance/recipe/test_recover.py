"""Recover mode: the table of `docs/parsing.md` row by row, and field reports about damaged output."""

from __future__ import annotations

import json
import pathlib
import re
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
    ToolCallReport,
)

D = "｜DSML｜"
DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "parsing.md"
CELL = re.compile(r"(`+)(.+?)\1")


def rows() -> list[tuple[str, str, str, str]]:
    """(defect, output, result, repairs) of the defects table."""
    text = DOCS.read_text(encoding="utf-8")
    table = text[text.index("| defect | output |") :]
    found = []
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            break
        defect, output, result, repairs = (cell.strip() for cell in line[1:].removesuffix("|").split(" |"))
        found.append((defect, output, result, repairs))
    return found


def parse(
    pieces: list[str],
    *,
    thinking: bool = False,
    finish: InferenceFinishReason | None = InferenceFinishReason.Stop,
    **options: Any,
) -> tuple[dict[str, Any], list[ToolCallReport]]:
    """The Messages response of the pieces, and the reports."""
    stage = ThinkingInitialStage.ReasoningStart if thinking else None
    processor = StreamProcessor(
        MessagesChunkGenerator("id", "model", thinking),
        ParsingOptions(recover=True, thinking_initial_stage=stage, **options),
    )
    response = MessagesResponse("id", "model", 0, 0, 0)
    events = [event for piece in pieces for event in processor.push(InferenceChunk.text(piece))]
    if finish is not None and not processor.finished:
        events += processor.push(InferenceChunk.finish(finish))
    for event in events + processor.finish():
        response.accumulate(event)
    return json.loads(response.to_json()), processor.call_reports


def parts(response: dict[str, Any]) -> tuple[list[tuple[str, Any]], str, str]:
    """Calls, answer text, reasoning text."""
    blocks = response["content"]
    calls = [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    text = "".join(b["text"] for b in blocks if b["type"] == "text")
    return calls, text, "".join(b["thinking"] for b in blocks if b["type"] == "thinking")


def spell(cell: str) -> str:
    """Output as the model writes it."""
    match = CELL.search(cell)
    assert match is not None, cell
    text = (match[2] if len(match[1]) == 1 else match[2].strip()).replace("⏎", "\n")
    return re.sub(r"(</? ?)D(?=[ a-z>/])", lambda m: m[1] + D, text)


@pytest.mark.parametrize(("defect", "output", "result", "repairs"), rows(), ids=[row[0] for row in rows()])
def test_each_row_of_the_table_holds(defect: str, output: str, result: str, repairs: str) -> None:
    text = spell(output)
    response, reports = parse([text])
    calls, answer, _ = parts(response)
    if result == "malformed":
        assert (calls, answer) == ([], text)
        assert [r.status for r in reports] == ["malformed"]
        assert reports[0].problems
        assert reports[0].index is None
        assert reports[0].raw in text
        return
    expected = [json.loads(arguments) for arguments in re.findall(r"f `(.+?)`(?= |$)", result)]
    assert calls == [("f", arguments) for arguments in expected]
    said = re.search(r"text `(.+)`$", result)
    assert answer == (spell(f"`{said[1]}`") if said else "")
    assert {name for report in reports for name in report.repairs} == set(repairs.split())
    for report in reports:
        assert report.status == ("repaired" if report.repairs else "well_formed")
        assert json.loads(report.arguments or "") in expected


def test_the_table_names_every_repair() -> None:
    source = "".join(
        p.read_text(encoding="utf-8") for p in (DOCS.parents[1] / "recipe-rs/chat/src/parse/recover").glob("*.rs")
    )
    in_code = set(re.findall(r'(?:note\(|vec!\[|Some\(|sink\.push\(|=> |push\()"([a-z]+_[a-z_]+)"', source))
    in_code |= set(re.findall(r'"(un[a-z]+_[a-z]+|lenient_json|json_call)"', source))
    in_table = {name for row in rows() for name in row[3].split()}
    states = {"between_calls", "string_value", "tool_call"}
    assert in_code - states == in_table


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
@pytest.mark.parametrize("thinking", [False, True])
def test_rows_do_not_depend_on_chunk_borders(row: tuple[str, str, str, str], thinking: bool) -> None:
    text = "a\n\n" + spell(row[1]) + "\n\nb"
    whole = observed(parse([text], thinking=thinking))
    assert observed(parse(list(text), thinking=thinking)) == whole
    for at in range(0, len(text), 3):
        assert observed(parse([text[:at], text[at:]], thinking=thinking)) == whole


def observed(answer: tuple[dict[str, Any], list[ToolCallReport]]) -> Any:
    response, reports = answer
    fields = [(r.index, r.name, r.arguments, r.status, r.repairs, r.problems, r.raw) for r in reports]
    for block in response["content"]:
        block.pop("id", None)
    return response, fields


def test_a_call_that_the_backend_cut_off_is_malformed() -> None:
    text = f'x <{D}invoke name="f"><{D}parameter name="a" string="true">v'
    for reason in (InferenceFinishReason.Length, InferenceFinishReason.ContentFilter):
        response, reports = parse([text], finish=reason)
        assert parts(response)[:2] == ([], text)
        assert reports[0].problems == ["the output was cut off inside the call"]


def test_reasoning_goes_on_after_a_call_in_it() -> None:
    text = f'plan\n\n<{D}invoke name="f"></{D}invoke>\n\nmore</think>done'
    assert parts(parse([text], thinking=True)[0]) == ([("f", {})], "done", "plan\n\nmore")


def test_text_around_json_output_leaves_nothing() -> None:
    response, _ = parse(["Sure!\n``", '`json\n{"a": 1}\n``', "`\nbye"], parse_json_output=True)
    assert parts(response)[1] == '{"a": 1}'


def test_megabytes_without_an_end_are_kept_once() -> None:
    filler = "x" * 1_000_000
    opening = f'<{D}invoke name="f"><{D}parameter name="a" string="true">'
    response, reports = parse([opening, *[filler[i : i + 1000] for i in range(0, len(filler), 1000)]])
    assert parts(response)[0] == [("f", {"a": filler})]
    assert reports[0].status == "repaired"
    response, _ = parse([f"<{D}tool_calls>", filler])
    assert parts(response)[:2] == ([], f"<{D}tool_calls>{filler}")
