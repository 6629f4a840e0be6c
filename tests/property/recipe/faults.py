# ruff: noqa: E501  (tables of requests read better unbroken)
"""One request per error sentence of the three protocols, for `request_maker`.

A row is (protocol, sentence, body, options); the sentence is a regular expression that the message of the reference
must match, so that the coverage of a run can be counted. Bodies get a random model name.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any

C, R, M = "chat_completions", "responses", "messages"
USER = {"role": "user", "content": "u"}
OFF = {"thinking": {"type": "disabled"}}
REJECT = {"reasoning_content_behavior": "Reject"}
PNG = "data:image/png;base64,AAAA"


def call(*ids: str, **more: Any) -> dict[str, Any]:
    """A Chat assistant message with calls."""
    calls = [{"id": i, "type": "function", "function": {"name": "g", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_calls": calls, **more}


def result(i: str) -> dict[str, Any]:
    """A Chat tool message."""
    return {"role": "tool", "tool_call_id": i, "content": "r"}


def function(name: str = "g", **more: Any) -> dict[str, Any]:
    """A Chat tool."""
    return {"type": "function", "function": {"name": name, **more}}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [USER], **more}


def parts(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def strict(**schema: Any) -> dict[str, Any]:
    return chat(tools=[function(parameters=schema, strict=True)])


def prop(**schema: Any) -> dict[str, Any]:
    return strict(type="object", properties={"a": schema})


def fcall(i: str, **more: Any) -> dict[str, Any]:
    """A Responses function call."""
    return {"type": "function_call", "call_id": i, "name": "g", "arguments": "{}", **more}


def fout(i: str, output: Any = "r") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": i, "output": output}


def resp(*items: Any, **more: Any) -> dict[str, Any]:
    return {"input": list(items) or "x", **more}


def use(i: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": i, "name": "g", "input": {}}


def res(i: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": i, **more}


def asst(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def mess(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


RF, FT = {"type": "function", "name": "g"}, {"role": "user", "content": "u"}
SEARCH = {"type": "tool_search_call", "call_id": "s", "arguments": {}}
MT = {"name": "g", "input_schema": {"type": "object"}}
IMG = {"type": "image", "source": {"type": "url", "url": "x"}}
TEXT = {"type": "text", "text": "x"}


def found(*tools: Any) -> dict[str, Any]:
    return {"type": "tool_search_output", "call_id": "s", "tools": list(tools)}


def image(**more: Any) -> dict[str, Any]:
    return {"type": "input_image", **more}


ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (C, r"The supported API model names are .*, but you passed zz\.", chat(model="zz"), {}),
    (C, r"^Empty input messages", {"messages": []}, {}),
    (C, r"Invalid 'tools\[1\]\.function\.name': empty string", chat(tools=[function(), function("")]), {}),
    (C, r"string too long.*got a string with length 129", chat(tools=[function("é" + "x" * 127)]), {}),
    (C, r"string does not match pattern", chat(tools=[function("a b")], tool_choice="none"), {}),
    (C, r"content or tool_calls must be set", chat({"role": "assistant", "content": None}), {}),
    (C, r"'messages\[1\]\.tool_calls': empty array", chat(USER, {"role": "assistant", "content": "x", "tool_calls": []}), {}),
    (C, r"Duplicate value for 'tool_call_id' of a in message\[0\]", chat(call("a", "a")), {}),
    (C, r"Duplicate value for 'tool_call_id' of a in message\[2\]", chat(call("a", "b"), result("a"), result("a")), {}),
    (C, r"insufficient tool messages", chat(call("a", "b"), result("b"), USER), {}),
    (C, r"did not have response messages: zz", chat(call("a"), result("zz")), {}),
    (C, r"Messages with role 'tool' must be", chat(USER, result("a")), {}),
    (C, r"prefix set true with message which is not final", chat({"role": "assistant", "content": "x", "prefix": True}, USER), {}),
    (C, r"Function call should not be used with prefix", chat({"role": "assistant", "content": "x", "prefix": True}, tools=[function()]), {}),
    (C, r"json_object should not be used with prefix", chat({"role": "assistant", "content": "json", "prefix": True}, response_format={"type": "json_object"}), {}),
    (C, r"Prompt must contain the word 'json'", chat(response_format={"type": "json_object"}), {}),
    (C, r"Image in assistant message is not supported", chat({"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}, model="DeepSeek-V4.1-Flash"), {}),
    (C, r"\.messages\[0\]: Unsupported image_url format", chat(parts({"type": "image_url", "image_url": {"url": "ftp://x"}}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"You have uploaded an unsupported image", chat(parts({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AAAA"}}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"Invalid base64 data", chat(parts({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"file must have a file_id or file_data", chat(parts({"type": "file"}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"file cannot have both", chat(parts({"type": "file", "file_id": "a", "file_data": PNG}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"file_id is not supported", chat(parts({"type": "file", "file_id": "a"}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"file_data is not a valid base64 data url", chat(parts({"type": "file", "file_data": "AAAA"}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"You have uploaded an unsupported file", chat(parts({"type": "file", "file_data": "data:text/plain;base64,AAAA"}), model="DeepSeek-V4.1-Flash"), {}),
    (C, r"Tool names must be unique", chat(tools=[function(), function()]), {}),
    (C, r"no function named 'zz'", chat(tools=[function()], tool_choice=function("zz"), **OFF), {}),
    (C, r"Thinking mode does not support this tool_choice", chat(tools=[function()], tool_choice="required"), {}),
    (C, r"Cannot use strict tool with non-strict", chat(tools=[function(), function("h", strict=True)]), {}),
    (C, r"response_format should not be used with tools", chat(tools=[function(strict=True)], response_format={"type": "text"}), {}),
    (C, r"Stop string array too long: 17", chat(stop=["x"] * 17), {}),
    (C, r"Invalid 'stop': empty string", chat(stop=""), {}),
    (C, r"Invalid 'stop\[1\]': empty string", chat(stop=["a", ""]), {}),
    (C, r"stream_options should be set", chat(stream_options={}), {}),
    (C, r"Invalid n value", chat(n=2), {}),
    (C, r"Invalid presence_penalty", chat(presence_penalty=2.1), {}),
    (C, r"Invalid frequency_penalty", chat(frequency_penalty=-3), {}),
    (C, r"Invalid temperature", chat(temperature=2.5), {}),
    (C, r"Invalid top_p", chat(top_p=0), {}),
    (C, r"logprobs must be set to true", chat(top_logprobs=1), {}),
    (C, r"Invalid top_logprobs value, the valid range", chat(logprobs=True, top_logprobs=21), {}),
    (C, r"Invalid max_tokens value, the valid range of max_tokens is \[1, 393216\]", chat(max_tokens=0), {}),
    (C, r"\[1, 200\]", chat(max_tokens=201), {"thinking_max_tokens_upper_bound": 200}),
    (C, r"\[1, 100\]", chat(max_tokens=101, **OFF), {"non_thinking_max_tokens_upper_bound": 100}),
    (C, r"Invalid seed value", chat(seed=2**63), {}),
    (C, r"The `reasoning_content` in the thinking mode", chat(USER, call("a"), result("a")), REJECT),
    (C, r"Invalid schema for function 'g': ", chat(tools=[function(parameters={"type": "object", "required": "a"})]), {}),
    (C, r"got 'type: null'", chat(tools=[function(parameters={})]), {}),
    (C, r"Invalid json schema: ", chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "bogus"}}}), {}),
    (C, r"Invalid tool parameters schema : one of `type`, `anyOf`, `\$ref`", prop(oneOf=[]), {}),
    (C, r"schema : unknown variant `bogus`, expected one of `object`", prop(type="bogus"), {}),
    (C, r"field `type`: unknown variant `object`", prop(type=["object", "null"]), {}),
    (C, r"unknown variant `date`, expected one of `email`", prop(type="string", format="date"), {}),
    (C, r"missing field `items`", prop(type="array"), {}),
    (C, r"invalid type: map, expected a boolean", strict(type="object", additionalProperties={}), {}),
    (C, r"expected i64", prop(type="integer", minimum=1.0), {}),
    (C, r"expected a JSON number", prop(type="number", minimum="x"), {}),
    (C, r"schema : invalid type: integer `5`, expected a string", prop(type="string", pattern=5), {}),
    (C, r"expected a sequence", prop(type="string", enum="x"), {}),
    (C, r"expected a map", strict(type="object", properties=[]), {}),
    (C, r"field `anyOf`: ", prop(anyOf=[{}]), {}),
    (C, r"field `\$ref`: ", prop(**{"$ref": 5}), {}),
    (C, r"The top level of the function parameters schema", strict(type="string"), {}),
    (C, r"An object with no properties", prop(type="object"), {}),
    (C, r"Duplicate required property 'a'", strict(type="object", properties={"a": {"type": "null"}}, required=["a", "a"]), {}),
    (C, r"Required property 'zz' not found", strict(type="object", properties={"a": {"type": "null"}}, required=["zz"]), {}),
    (C, r"Required properties must match", strict(type="object", properties={"a": {"type": "null"}}, required=[]), {}),
    (C, r"additionalProperties should not be true", strict(type="object", properties={}, additionalProperties=True), {}),
    (C, r"The top level of the json schema", chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "null"}, "strict": True}}), {}),
    (C, r"Invalid json schema: one of", chat(response_format={"type": "json_schema", "json_schema": {"schema": {}, "strict": True}}), {}),
    (C, r"content should be a string or a list$", chat({"role": "user", "content": 5}), {}),
    (C, r"expected a string or a list$", chat(stop=5), {}),
    (C, r"expected one of `none`, `auto`, `required` or a tool$", chat(tool_choice="any"), {}),
    (C, r"field `function`: missing field `name`", chat(tool_choice={"type": "function", "function": {}}), {}),
    (C, r"field `type`: unknown variant", chat(tool_choice={"type": "x"}), {}),
    (C, r"missing field `messages`", {"x": 1}, {}),
    (C, r"invalid type: string \"x\", expected f32", chat(temperature="x"), {}),
    (C, r"invalid value: integer `-1`, expected u32", chat(max_tokens=-1), {}),
    (C, r"floating point `1\.5`, expected u8", chat(n=1.5), {}),
    (C, r"expected internally tagged enum ChatCompletionRequestMessage", chat("x"), {}),
    (C, r"unknown variant `developer`", chat({"role": "developer", "content": "x"}), {}),
    (C, r"expected struct ChatCompletionThinking", chat(thinking="x"), {}),
    (C, r"expected string or map", chat(reasoning_effort=5), {}),
    (C, r"map with a single key", chat(reasoning_effort={}), {}),
    (R, r"Either input or instructions must be provided", {"instructions": ""}, {}),
    (R, r"Input items array must not be empty", {"input": []}, {}),
    (R, r"input should be a string or a list", {"input": 5}, {}),
    (R, r"invalid input item", resp({"x": 1}), {}),
    (R, r"list of content blocks", resp({"role": "user", "content": None}), {}),
    (R, r"list of output content parts", resp(fcall("a"), fout("a", 5)), {}),
    (R, r"input_image must have", resp({"role": "user", "content": [image()]}, model="DeepSeek-V4.1-Flash"), {}),
    (R, r"cannot have both image_url and file_id", resp({"role": "user", "content": [image(image_url="x", file_id="y")]}, model="DeepSeek-V4.1-Flash"), {}),
    (R, r"input\[0\]\.content\[0\]: file_id is not supported", resp({"role": "user", "content": [image(file_id="y")]}, model="DeepSeek-V4.1-Flash"), {}),
    (R, r"input\[1\]\.output\[0\]: file_id is not supported", resp(fcall("a"), fout("a", [image(file_id="y")]), model="DeepSeek-V4.1-Flash"), {}),
    (R, r"input\[0\]: Unsupported image_url format", resp({"role": "user", "content": [image(image_url="x")]}, model="DeepSeek-V4.1-Flash"), {}),
    (R, r"input\[0\]: Image in assistant message is unsupported", resp({"role": "assistant", "content": [image(image_url=PNG)]}, model="DeepSeek-V4.1-Flash"), {}),
    (R, r"No tool output found for tool call a\.", resp(fcall("a"), FT), {}),
    (R, r"No tool call found for tool output with call_id zz\.", resp(fcall("a"), fout("zz")), {}),
    (R, r"Duplicate tool output for call_id: a\.", resp(fcall("a"), fout("a"), fout("a")), {}),
    (R, r"Duplicate 'call_id': a\.", resp(fcall("a"), fcall("a")), {}),
    (R, r"Invalid 'input\[0\]\.call_id': empty string", resp(fcall("")), {}),
    (R, r"Invalid 'tools\[0\]\.name': empty", resp(tools=[{"type": "function", "name": ""}]), {}),
    (R, r"Invalid 'tools\[0\]\.tools\[0\]\.name'", resp(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a b"}]}]), {}),
    (R, r"Invalid 'input\[1\]\.tools\[0\]\.name'", resp(SEARCH, found({"type": "function", "name": ""}), model="DeepSeek-V4.1-Flash"), {}),
    (R, r"Unsupported custom tool: 'q'", resp(tools=[{"type": "custom", "name": "q"}]), {}),
    (R, r"Tool names within a namespace must be unique", resp(tools=[{"type": "namespace", "name": "n", "tools": [RF, RF]}]), {}),
    (R, r"custom tools are not allowed inside a namespace", resp(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "q"}]}]), {}),
    (R, r"Server tools are not supported", resp(tools=[{"type": "web_search"}]), {"responses_web_search": "Reject"}),
    (R, r"ResponsesTool::Unsupported cannot be serialized", resp(SEARCH, found({"type": "bogus"}), model="DeepSeek-V4.1-Flash"), {}),
    (R, r"or a tool choice object", resp(tool_choice="x"), {}),
    (R, r"Response input messages must contain the word 'json'", resp(text={"format": {"type": "json_object"}}), {}),
    (R, r"The `reasoning_text` in the thinking mode", resp(FT, fcall("a"), fout("a")), REJECT),
    (R, r"Invalid max_tokens value", resp(max_output_tokens=0), {}),
    (R, r"Invalid top_logprobs value", resp(top_logprobs=21), {}),
    (R, r"expected struct ResponsesTextConfig", resp(text="x"), {}),
    (R, r"expected internally tagged enum ResponsesTool$", resp(tools=["x"]), {}),
    (R, r"invalid type: string \"\{\}\", expected a map", resp({"type": "tool_search_call", "call_id": "a", "arguments": "{}"}), {}),
    (M, r"messages: at least one message is required", mess(), {}),
    (M, r"messages\.0: all messages must have non-empty content", mess({"role": "user", "content": []}), {}),
    (M, r"messages\.0:`tool_use` ids were found .*: a, b\.", mess(asst(use("b"), use("a"))), {}),
    (M, r"messages\.1: `tool_use` ids were found", mess(asst(use("a")), USER), {}),
    (M, r"messages\.0\.1: `tool_use` ids were found", mess(asst(use("a"), TEXT)), {}),
    (M, r"unexpected `messages\.0\.content\.0: tool_use_id`", mess({"role": "user", "content": [res("a")]}), {}),
    (M, r"each tool_use must have a single result", mess(asst(use("a")), {"role": "user", "content": [res("a"), res("a")]}), {}),
    (M, r"`tool_use` ids must be unique", mess(asst(use("a"), use("a"))), {}),
    (M, r"`tool_result` blocks can only be in `user`", mess(asst(res("a"))), {}),
    (M, r"`tool_use` blocks can only be in `assistant`", mess({"role": "user", "content": [use("a")]}), {}),
    (M, r"`web_search_tool_result` blocks can only be", mess({"role": "user", "content": [{"type": "web_search_tool_result", "tool_use_id": "a", "content": []}]}), {}),
    (M, r"`tool_addition` blocks can only be in `system`", mess({"role": "user", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "g"}}]}), {}),
    (M, r"thinking blocks may only be", mess({"role": "user", "content": [{"type": "thinking", "thinking": "x"}]}), {}),
    (M, r"Unsupported content block: server tools", mess(asst({"type": "server_tool_use", "id": "a", "name": "b", "input": {}})), {}),
    (M, r"tools\[0\]: server tools are not supported", mess(USER, tools=[{"type": "custom", "name": "q"}]), {}),
    (M, r"All tools cannot be deferred", mess(USER, tools=[{**MT, "defer_loading": True}], model="DeepSeek-V4.1-Flash"), {}),
    (M, r"tool reference 'zz' not found", mess(asst(use("a")), {"role": "user", "content": [res("a", content=[{"type": "tool_reference", "tool_name": "zz"}])]}), {}),
    (M, r"references unknown tool 'zz'", mess({"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "zz"}}]}), {}),
    (M, r"base64 decode error", mess({"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAA"}}]}, model="DeepSeek-V4.1-Flash"), {}),
    (M, r"messages\.0\.content\[0\]: invalid url: \"x\"", mess({"role": "user", "content": [IMG]}, model="DeepSeek-V4.1-Flash"), {}),
    (M, r"messages\.1\.content\.0\.tool_result\.content\[0\]: invalid url", mess(asst(use("a")), {"role": "user", "content": [res("a", content=[IMG])]}, model="DeepSeek-V4.1-Flash"), {}),
    (M, r"file_id is not supported", mess({"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}, model="DeepSeek-V4.1-Flash"), {}),
    (M, r"Image in assistant message is unsupported", mess(asst({"type": "image", "source": {"type": "url", "url": "http://a"}}), model="DeepSeek-V4.1-Flash"), {}),
    (M, r"The `content\[\]\.thinking` in the thinking mode", mess(USER, asst(use("a")), {"role": "user", "content": [res("a")]}, asst(TEXT), tools=[MT]), REJECT),
    (M, r"null is not of types", mess(USER, tools=[{"name": "g"}]), {}),
    (M, r"no function named 'zz'", mess(USER, tools=[MT], tool_choice={"type": "tool", "name": "zz"}), {}),
    (M, r"Thinking mode does not support", mess(USER, tools=[MT], tool_choice={"type": "tool", "name": "g"}), {}),
    (M, r"expected adjacently tagged enum MessagesMessage", mess("x"), {}),
    (M, r"field `name`: invalid type", mess(USER, tools=[{"name": 5}]), {}),
    (M, r"unknown variant `redacted_thinking`", mess(asst({"type": "redacted_thinking", "data": "x"})), {}),
    (M, r"Stop string array too long", mess(USER, stop_sequences=["x"] * 17), {}),
]  # fmt: skip

RAW = [
    "", "{", "[", "{]", '{"a":1,}', '{"a" 1}', '{"model":"m","messages":[],"x":1e999}', '{"x":"\\ud800"}', '{"x":"\\u12"}', "\ufeff{}", "{} x",
    '{"x":01}', '{"x":+1}', '{"x":.5}', '{"x":nul}', '{"x":"\n"}', "{'a':1}", '{"x":' + "[" * 200, '{"model":"m","model":5,"messages":[]}', "NaN", "5", '"x"',
]  # fmt: skip


def _fault(row: tuple[str, str, dict[str, Any], dict[str, Any]]) -> Callable[[random.Random], dict[str, Any]]:
    protocol, sentence, body, options = row

    def make(rng: random.Random) -> dict[str, Any]:
        model = (
            {"model": rng.choice(["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])}
            if sentence != "missing field `messages`"
            else {}
        )
        return {"protocol": protocol, "body": {**model, **copy.deepcopy(body)}, "options": dict(options)}

    make.__name__ = "fault." + re.sub(r"\W+", "_", sentence)[:40]
    return make


def _raw(text: str) -> Callable[[random.Random], dict[str, Any]]:
    def make(rng: random.Random) -> dict[str, Any]:
        return {"protocol": rng.choice([C, R, M]), "body": text, "options": {}}

    make.__name__ = "raw"
    return make


FAULTS = [_fault(row) for row in ROWS] + [_raw(text) for text in RAW]
