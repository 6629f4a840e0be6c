"""Tool calls in the Hermes/Qwen syntax become official tool calls, however the text is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from offseek import recipe
from offseek.engine.request import RequestOutput
from offseek.sdk.dialects.hermes import HermesReader

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Bytes:
    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


def answer(text: str, *, step: int = 1, thinking: bool = False, starts_in_call: bool = False) -> dict[str, Any]:
    """The chat message that a model's text gives when it arrives `step` bytes at a time."""
    body = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS}
    body["thinking"] = {"type": "enabled" if thinking else "disabled"}
    request = recipe.ChatCompletionRequest(body).convert(recipe.ConversionOptions())
    generator = recipe.ChatCompletionRequest.chunk_generator(request, "id", "m")
    reader = HermesReader(Bytes(), starts_in_reasoning=thinking, starts_in_call=starts_in_call)
    parsing = request.parsing_options
    parsing.special_tokens = reader.special_tokens
    processor = recipe.StreamProcessor(generator, parsing)
    response = recipe.ChatCompletionResponse("id", "m", 0, 0, 0)
    data = text.encode()
    events = processor.push(recipe.InferenceChunk.ready())
    pieces: Sequence[bytes] = [data[i : i + step] for i in range(0, len(data), step)]
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        output = RequestOutput(request_id="a", token_ids=tuple(piece), finish_reason="stop" if last else None)
        for chunk in reader.read(output):
            events += processor.push(chunk)
    events += processor.push(recipe.InferenceChunk.finish(recipe.InferenceFinishReason.Stop))
    for event in events:
        response.accumulate(event)
    choice = json.loads(response.to_json())["choices"][0]
    message: dict[str, Any] = choice["message"]
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])
    ]
    return {"content": message["content"], "reasoning": message.get("reasoning_content"), "calls": calls} | {
        "finish": choice["finish_reason"]
    }


CALL = (
    '<tool_call>\n{"name": "f", "arguments": {"a b": "x \\"q\\" </t>\\n世", "n": 5, "l": [1, {"k": null}]}}\n'
    "</tool_call>"
)
ARGUMENTS = {"a b": 'x "q" </t>\n世', "n": 5, "l": [1, {"k": None}]}


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_calls_are_found_however_the_text_is_cut(step: int) -> None:
    found = answer(f"Let me look.\n{CALL}\n{CALL}", step=step)
    assert found["content"] == "Let me look."
    assert found["calls"] == [("f", ARGUMENTS), ("f", ARGUMENTS)]
    assert found["finish"] == "tool_calls"


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_reasoning_comes_before_content_and_calls(step: int) -> None:
    found = answer(f"Hm <tool_call> not yet.\n</think>\n\nSo:\n{CALL}", step=step, thinking=True)
    assert found["reasoning"] == "Hm <tool_call> not yet."
    assert (found["content"], found["calls"]) == ("So:", [("f", ARGUMENTS)])


@pytest.mark.parametrize(
    "text",
    [
        "a < b <tool_callx> and <tool",
        "no call",
        "<｜DSML｜tool_calls> is only text here </｜DSML｜invoke>",
        "<tool_call>\nnot json\n</tool_call>",
        "So:\n\n<tool_call>\nnot json\n</tool_call>\n\nand on",
        '<tool_call>\n{"name": 5}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": {"cut',
    ],
)
@pytest.mark.parametrize("step", [1, 4])
def test_other_text_stays_text(text: str, step: int) -> None:
    found = answer(text, step=step)
    assert (found["content"], found["calls"], found["finish"]) == (text, [], "stop")


def test_a_call_without_arguments_and_a_call_that_the_prompt_opened() -> None:
    assert answer('<tool_call>{"name": "f"}</tool_call>')["calls"] == [("f", {})]
    assert answer('{"name": "f", "arguments": {"a": 1}}', starts_in_call=True)["calls"] == [("f", {"a": 1})]
