# ruff: noqa: E501  (request bodies read better unbroken)
"""Every place of a full body of each protocol, with every kind of wrong or unusual value there.

`cases()` is a fixed list: bodies that use every typed field and item, each with one value replaced, removed or repeated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from request_maker import V4, V41, paths

SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string", "description": "d", "pattern": "^x$", "format": "email", "enum": ["a"]},
        "n": {"type": "number", "const": 1, "default": 1.5, "minimum": 0, "maximum": 5, "exclusiveMinimum": -1, "exclusiveMaximum": 6, "multipleOf": 0.5},
        "i": {"type": "integer", "const": 1, "default": 1, "minimum": 0, "maximum": 5, "exclusiveMinimum": -1, "exclusiveMaximum": 6, "multipleOf": 1},
        "b": {"type": "boolean"}, "z": {"type": "null"}, "l": {"type": ["string", "null"], "description": "d"},
        "a": {"type": "array", "items": {"type": "object", "properties": {"k": {"$ref": "#/$def/X"}}, "required": ["k"]}},
        "o": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}], "description": "d"},
    },
    "required": ["s", "n", "i", "b", "z", "l", "a", "o"], "additionalProperties": False, "description": "d",
    "$def": {"X": {"type": "string"}},
}  # fmt: skip
PNG = "data:image/png;base64,AAAA"
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("chat_completions", {
        "model": V41, "thinking": {"type": "disabled", "budget_tokens": 5}, "reasoning_effort": "high", "frequency_penalty": 1.0, "presence_penalty": -1.0,
        "max_tokens": 100, "stop": ["a", "b"], "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5, "top_p": 0.5,
        "logprobs": True, "top_logprobs": 5, "n": 1, "seed": 7, "parallel_tool_calls": True, "tool_choice": {"type": "function", "function": {"name": "g"}},
        "tools": [{"type": "function", "defer_loading": False, "function": {"name": "g", "description": "d", "strict": True, "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "s", "name": "n"},
            {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}, {"type": "file", "file_data": PNG}], "name": "n"},
            {"role": "latest_reminder", "content": "r"},
            {"role": "assistant", "content": "a", "reasoning_content": "r", "prefix": False, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "g", "arguments": "{\"x\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "t"},
        ]}),
    ("chat_completions", {
        "model": V4, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}, "reasoning_effort": "max",
        "tools": [], "tool_choice": "auto", "stop": "x",
        "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "json", "reasoning_content": "r", "prefix": True}]}),
    ("chat_completions", {"model": V4, "response_format": {"type": "regex", "regex": "a+"}, "messages": [{"role": "user", "content": "json"}],
                          "tools": [{"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]}),
    ("responses", {
        "model": V41, "instructions": "i", "reasoning": {"effort": "none", "summary": "auto", "generate_summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": "d"}, "verbosity": "low"},
        "temperature": 0.5, "top_p": 0.5, "top_logprobs": 5, "max_output_tokens": 100, "stream": True, "user": "u",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}, {"type": "input_image", "image_url": PNG, "detail": "low"}, {"type": "input_file", "file_id": "f"}]},
            {"role": "developer", "content": "d"}, {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "r"}], "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "call_id": "a", "name": "g", "arguments": "{}", "namespace": "ns"},
            {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "p"},
            {"type": "tool_search_call", "call_id": "c", "arguments": {"q": 1}, "execution": "client"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "o"}, {"type": "input_image", "image_url": PNG}]},
            {"type": "custom_tool_call_output", "call_id": "b", "output": "o"},
            {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [
                {"type": "function", "name": "d", "description": "d", "parameters": {"type": "object"}, "strict": None},
                {"type": "namespace", "name": "ns", "description": "nd", "tools": [{"type": "function", "name": "f"}]},
                {"type": "web_search", "search_context_size": "low", "user_location": {"type": "approximate", "city": "c", "country": "c", "region": "r", "timezone": "t"}},
                {"type": "tool_search", "execution": "client", "description": "d", "parameters": {}}, {"type": "custom", "name": "apply_patch"},
            ]},
            {"type": "item_reference", "id": "x"},
        ]}),
    ("responses", {
        "model": V4, "input": "json", "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_object"}}, "tool_choice": {"type": "function", "name": "g"},
        "tools": [
            {"type": "function", "name": "g", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}, "strict": False},
            {"type": "namespace", "name": "ns", "description": "nd", "tools": [{"type": "function", "name": "g", "description": "d", "parameters": {"type": "object"}, "strict": None}]},
            {"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "text"}},
            {"type": "web_search", "search_context_size": "low", "user_location": {"type": "approximate", "city": "c", "country": "c", "region": "r", "timezone": "t"}},
            {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
        ]}),
    ("messages", {
        "model": V41, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}], "max_tokens": 100, "metadata": {"user_id": "u"},
        "stop_sequences": ["a"], "stream": True, "temperature": 0.5, "top_p": 0.5, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 5}, "output_config": {"effort": "low"},
        "tools": [{"name": "g", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}, "defer_loading": False, "strict": True},
                  {"name": "h", "input_schema": {"type": "object"}, "defer_loading": True}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                                         {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
                                         {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "x"}, "title": "t"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "g", "input": {"a": 1.0}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": False, "content": [{"type": "text", "text": "r"}, {"type": "tool_reference", "tool_name": "h"}]}, {"type": "text", "text": "x"}]},
            {"role": "system", "content": [{"type": "text", "text": "s"}, {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "h"}}]},
        ]}),
    ("messages", {"model": V4, "system": "s", "messages": [{"role": "user", "content": "u"}], "thinking": {"type": "disabled"}, "tool_choice": {"type": "tool", "name": "g"},
                  "tools": [{"name": "g", "input_schema": {"type": "object"}}]}),
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 256, 2**31, 2**32, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1.0, 1.5, 1e300, "", "x", "none", "json", "object", "a b",
    [], ["a"], [None], [[]], {}, {"a": 1}, {"type": "text", "text": "t"}, {"none": None}, {"type": None}, {"type": "zz"}, [{"type": "text"}],
    ["g", None], ["low", None], ["g", None, None], ["g", None, None, None], ["g", None, None, None, None], [None, None, None], [True, None], [{}, None, None],
]  # fmt: skip


def cases() -> Iterator[dict[str, Any]]:
    """One change each; two option sets are taken in turn."""
    options = [
        {},
        {"responses_web_search": "Reject", "messages_web_search": "Drop", "reasoning_content_behavior": "Reject"},
    ]
    count = 0
    for protocol, body in BODIES:
        for place in paths(body):
            for change in [*range(len(VALUES)), "remove", "repeat"]:
                changed = copy.deepcopy(body)
                parent: Any = changed
                for step in place[:-1]:
                    parent = parent[step]
                if change == "remove":
                    del parent[place[-1]]
                elif change == "repeat" and isinstance(parent, list):
                    parent.insert(place[-1], copy.deepcopy(parent[place[-1]]))
                elif change == "repeat":
                    parent["unknown"] = parent.pop(place[-1])
                else:
                    parent[place[-1]] = copy.deepcopy(VALUES[change])
                count += 1
                yield {
                    "id": f"sweep-{protocol}-{'.'.join(map(str, place))}-{change}",
                    "protocol": protocol,
                    "body": changed,
                    "options": options[count % 2],
                }
