"""Recover mode compares calls with the declared tools of the request, in the three protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest
from offseek.recipe import (
    ChatCompletionRequest,
    ChatCompletionResponse,
    ConversionOptions,
    InferenceChunk,
    MessagesRequest,
    MessagesResponse,
    ResponsesRequest,
    ResponsesResponse,
    StreamProcessor,
    ToolCallReport,
)

D = "｜DSML｜"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}


def request(protocol: str) -> Any:
    function = {"name": "get_weather", "parameters": SCHEMA}
    body: dict[str, Any] = {"model": "DeepSeek-V4-Pro"}
    if protocol == "chat":
        body |= {"messages": [{"role": "user", "content": "hi"}], "thinking": {"type": "disabled"}}
        return ChatCompletionRequest(
            body | {"tools": [{"type": "function", "function": function}]}
        ), ChatCompletionResponse
    if protocol == "responses":
        body |= {"input": "hi", "reasoning": {"effort": "none"}}
        return ResponsesRequest(body | {"tools": [{"type": "function", **function}]}), ResponsesResponse
    body |= {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "thinking": {"type": "disabled"}}
    return MessagesRequest(body | {"tools": [{"name": "get_weather", "input_schema": SCHEMA}]}), MessagesResponse


def reports(protocol: str, text: str) -> tuple[list[ToolCallReport], dict[str, Any]]:
    given, response_type = request(protocol)
    converted = given.convert(ConversionOptions())
    options = converted.parsing_options
    options.recover = True
    processor = StreamProcessor(type(given).chunk_generator(converted, "id", "model"), options)
    response = response_type("id", "model", 0, 0, 0)
    for event in processor.push(InferenceChunk.text(text)) + processor.finish():
        response.accumulate(event)
    return processor.call_reports, json.loads(response.to_json())


def call(name: str, *parameters: tuple[str, str, str]) -> str:
    inner = "".join(f'<{D}parameter name="{k}"{kind}>{v}</{D}parameter>' for k, kind, v in parameters)
    return f'<{D}invoke name="{name}">{inner}</{D}invoke>'


STRING, VALUE = ' string="true"', ' string="false"'


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_calls_that_fit_have_no_problems(protocol: str) -> None:
    found, _ = reports(protocol, call("get_weather", ("city", STRING, "Oslo"), ("days", VALUE, "2")))
    assert [(r.status, r.problems) for r in found] == [("well_formed", [])]


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_misfits_are_flagged_and_handed_out(protocol: str) -> None:
    text = call("get_wether", ("city", STRING, "Oslo")) + call("get_weather", ("days", VALUE, "0"))
    found, response = reports(protocol, text)
    assert [r.index for r in found] == [0, 1]
    assert found[0].problems == ['unknown tool "get_wether"']
    assert len(found[1].problems) == 2
    assert any(p.startswith("#/days: ") for p in found[1].problems)
    assert any("city" in p for p in found[1].problems)
    assert "get_wether" in json.dumps(response)


def test_the_schema_decides_untyped_parameters() -> None:
    found, _ = reports("chat", call("get_weather", ("city", "", "123"), ("days", "", "4")))
    assert json.loads(found[0].arguments or "") == {"city": "123", "days": 4}
    assert (found[0].status, found[0].problems) == ("repaired", [])


def test_without_recover_mode_there_are_no_reports() -> None:
    given, _ = request("chat")
    converted = given.convert(ConversionOptions())
    processor = StreamProcessor(
        ChatCompletionRequest.chunk_generator(converted, "id", "model"), converted.parsing_options
    )
    processor.push(InferenceChunk.text(call("get_weather")))
    assert processor.call_reports == []
