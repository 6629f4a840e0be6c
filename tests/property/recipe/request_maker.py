# ruff: noqa: E501  (tables of requests read better unbroken)
"""Random requests of the three protocols: valid ones, and ones with a chosen fault.

`make_case(index, seed)` is deterministic. Even indexes give valid requests; odd ones take the next fault of
`faults.FAULTS`, so that a run of a few hundred reaches every error sentence.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

V4, V41 = "DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"
PROTOCOLS = ("chat_completions", "responses", "messages")
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"]
IMAGE_URLS = [
    "https://a/b.png",
    "HTTP://x",
    "data:image/png;base64,AAAA",
    "data:image/webp; base64,AA==",
    "DATA:IMAGE/gif;a=b;base64,A A",
]
TEXTS = [
    "", "hello", "json please", "JSON", "<｜User｜>", "<think>x</think>", "｜DSML｜", "<｜DSML｜tool_calls>", "</｜DSML｜ invoke>",
    "<｜begin▁of▁sentence｜>", "<｜System｜>a", "<｜image｜>", "<tool_result>", "多语言 テキスト עברית", "👩‍👩‍👧‍👦 emoji 🇩🇪", "e\u0301 \u00e9", "a\n\nb\n",
    "\t\r\n", "   ", "\x00\x01\x1f", "\u2028\u2029\u200b\ufeff", "x" * 70, "12345678901234567890", "\\\"/", "{}", "</s>", "a  b   c    ", "\u007f",
]  # fmt: skip
FLOATS = [
    0.0,
    -0.0,
    0.5,
    1.0,
    1e-5,
    1.5e-5,
    1e-4,
    1e-7,
    123.456,
    1e15,
    1e16,
    1e22,
    -2.5e-10,
    1.7976931348623157e308,
    5e-324,
]
INTS = [0, 1, -1, 5, 100, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
NAMES = ["g", "h", "get_weather", "search-web", "A9_", "x" * 64, "tool_search2", "0"]


class Maker:
    """Random parts of requests."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def maybe(self, p: float = 0.5) -> bool:
        return self.rng.random() < p

    def pick(self, options: Any) -> Any:
        return self.rng.choice(options)

    def text(self) -> str:
        if self.maybe(0.3):
            return "".join(self.pick(TEXTS) for _ in range(self.rng.randint(2, 4)))
        return str(self.pick(TEXTS))

    def json(self, depth: int = 0) -> Any:
        roll = self.rng.random()
        if depth > 2 or roll < 0.55:
            return self.pick([None, True, False, self.pick(FLOATS), self.pick(INTS), self.text(), self.text()])
        if roll < 0.75:
            return [self.json(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.text(): self.json(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def arguments(self) -> str:
        roll = self.rng.random()
        if roll < 0.7:
            value = {self.text() or "k": self.json() for _ in range(self.rng.randint(0, 3))}
            return json.dumps(value, ensure_ascii=self.maybe(), indent=self.pick([None, None, 2]))
        return str(
            self.pick(
                ["", "{}", " {} ", "[]", "5", "null", '"x"', "{", '{"a":1}x', '{"a":NaN}', '{"a":1,"a":2}', '{"a":1e400}', '{"a":-0}',
                 '{"a":1.0}', '{"a":"\\ud800"}', '{"a":' + "[" * 126 + "]" * 126 + "}", '{"a":' + "[" * 127 + "]" * 127 + "}",
                 '{"b":1,"a":2,"b":3}', '\ufeff{}', '{"a":12345678901234567890123}']
            )
        )  # fmt: skip

    def schema(self, depth: int = 0) -> Any:
        """A valid JSON Schema node."""
        roll = self.rng.random()
        node: dict[str, Any] = {}
        if depth > 2 or roll < 0.5:
            kind = self.pick(["string", "integer", "number", "boolean", "null"])
            node["type"] = kind
            if kind == "string" and self.maybe(0.4):
                node.update(
                    self.pick(
                        [
                            {"enum": ["a", "b"]},
                            {"pattern": "^a.*$"},
                            {"format": "email"},
                            {"minLength": 1},
                            {"maxLength": 9},
                        ]
                    )
                )
            if kind in ("integer", "number") and self.maybe(0.4):
                node.update(
                    self.pick(
                        [{"minimum": 1}, {"maximum": 10}, {"multipleOf": 2}, {"exclusiveMinimum": 0}, {"default": 1}]
                    )
                )
        elif roll < 0.7:
            node.update({"type": "array", "items": self.schema(depth + 1)})
        elif roll < 0.85:
            names = self.rng.sample(["a", "b", "é", "x y", "$k", "0"], self.rng.randint(1, 3))
            node.update({"type": "object", "properties": {n: self.schema(depth + 1) for n in names}})
            if self.maybe(0.3):
                node["required"] = [self.pick(names)]
        elif roll < 0.93:
            node["anyOf"] = [self.schema(depth + 1) for _ in range(self.rng.randint(1, 2))]
        else:
            return self.pick(
                [
                    True,
                    {},
                    {"type": ["string", "null"]},
                    {"const": self.json()},
                    {"enum": [1, "a", None]},
                    {"oneOf": [{"type": "null"}]},
                ]
            )
        if self.maybe(0.3):
            node["description"] = self.text()
        if self.maybe(0.1):
            node["title"] = "T"
        return self.shuffled(node)

    def strict_schema(self, depth: int = 0) -> dict[str, Any]:
        """A node that strict tools accept."""
        roll = self.rng.random()
        node: dict[str, Any]
        if depth > 2 or (depth and roll < 0.5):
            kind = self.pick(["string", "integer", "number", "boolean", "null"])
            node = {"type": kind}
            if kind == "string" and self.maybe(0.5):
                node.update(
                    self.pick(
                        [{"enum": ["a"]}, {"pattern": "x"}, {"format": "uuid"}, {"minLength": 2}, {"format": None}]
                    )
                )
            if kind == "number" and self.maybe(0.5):
                node.update(
                    {self.pick(["const", "default", "minimum", "multipleOf"]): self.pick([1, 1.5, 1e-7, 2**64 - 1])}
                )
            if kind == "integer" and self.maybe(0.5):
                node.update({self.pick(["const", "maximum", "exclusiveMaximum"]): self.pick([1, -5, 2**63 - 1])})
        elif depth and roll < 0.65:
            node = {"type": "array", "items": self.strict_schema(depth + 1)}
        elif depth and roll < 0.75:
            inner = [s for s in (self.strict_schema(depth + 1) for _ in range(3)) if isinstance(s.get("type"), str)]
            node = {"anyOf": inner}
        elif depth and roll < 0.8:
            return self.pick(
                [{"$ref": "#/$def/X"}, {"$ref": "#/$defs/X", "description": "lost"}, {"type": ["string", "null"]}]
            )
        else:
            names = self.rng.sample(["a", "b", "é", "x y"], self.rng.randint(1, 3))
            node = {"type": "object", "properties": {n: self.strict_schema(depth + 1) for n in names}}
            if self.maybe(0.4):
                node["required"] = self.rng.sample(names, len(names))
            if self.maybe(0.3):
                node["additionalProperties"] = self.pick([False, None])
            if self.maybe(0.2):
                node[self.pick(["$def", "$defs", "definitions"])] = {"X": {"type": "string"}}
        if self.maybe(0.3):
            node["description"] = self.text()
        return self.shuffled(node)

    def shuffled(self, node: dict[str, Any]) -> dict[str, Any]:
        keys = list(node)
        if self.maybe(0.4):
            self.rng.shuffle(keys)
        return {k: node[k] for k in keys}

    def parameters(self) -> Any:
        names = self.rng.sample(["city", "n", "é", "x y"], self.rng.randint(0, 3))
        schema: dict[str, Any] = {"type": "object"}
        if names or self.maybe():
            schema["properties"] = {n: self.schema(1) for n in names}
        if self.maybe(0.2):
            schema["additionalProperties"] = self.pick([False, True, {"type": "string"}])
        if self.maybe(0.1):
            schema["default"] = self.json()
        if self.maybe(0.1):
            schema["$defs"] = {"X": {"type": "string"}}
            schema["properties"] = {"r": {"$ref": "#/$defs/X"}}
        return self.shuffled(schema)

    def tool_names(self) -> list[str]:
        return self.rng.sample(NAMES, self.rng.randint(1, 3))

    def ignored(self, body: dict[str, Any], names: list[str]) -> None:
        """Add fields that have no effect."""
        for name in names:
            if self.maybe(0.05):
                body[name] = self.json()

    def options(self, protocol: str) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.maybe(0.1):
            options["default_thinking_mode"] = self.maybe()
        if self.maybe(0.05):
            options[f"{'messages' if protocol == 'messages' else 'responses'}_web_search"] = "Drop"
        if self.maybe(0.05):
            options["model_aliases"] = {"alias": self.pick(["DeepseekV4Pro", "DeepseekV41Flash"])}
        if self.maybe(0.05):
            options["thinking_max_tokens_upper_bound"] = 400_000
        return options


class ChatMaker(Maker):
    """Chat Completions."""

    def content(self, role: str, is_v41: bool) -> Any:
        if self.maybe(0.6):
            return self.text()
        parts: list[Any] = []
        for _ in range(self.rng.randint(0, 3)):
            if self.maybe(0.7) or (role == "assistant" and is_v41):
                parts.append({"type": "text", "text": self.text()})
            elif self.maybe(0.7):
                image: dict[str, Any] = {"url": self.pick(IMAGE_URLS)}
                if self.maybe():
                    image["detail"] = self.pick(["low", "high", "original", "auto", None])
                parts.append({"type": "image_url", "image_url": image})
            else:
                parts.append({"type": "file", "file_data": IMAGE_URLS[2], "filename": "f"})
        return parts

    def turn(self, is_v41: bool, tools: list[str]) -> list[dict[str, Any]]:
        role = self.pick(["system", "user", "user", "assistant", "calls", "latest_reminder"])
        if role == "latest_reminder":
            return [{"role": role, "content": self.text()}]
        if role in ("system", "user"):
            message: dict[str, Any] = {"role": role, "content": self.content(role, is_v41)}
            if self.maybe(0.1):
                message["name"] = self.pick(["n", None])
            return [self.shuffled(message)]
        message = {"role": "assistant", "content": self.content("assistant", is_v41)}
        if self.maybe(0.5):
            message["reasoning_content"] = self.pick([self.text(), self.text(), None])
        if role == "assistant":
            return [self.shuffled(message)]
        if self.maybe(0.4):
            message["content"] = None
        ids = self.rng.sample(["c1", "c2", "c10", "é", "A"], self.rng.randint(1, 3))
        message["tool_calls"] = [
            {
                "id": i,
                "type": "function",
                "function": {"name": self.pick([*tools, "g", ""]), "arguments": self.arguments()},
            }
            for i in ids
        ]
        self.rng.shuffle(ids)
        results = [{"role": "tool", "tool_call_id": i, "content": self.content("tool", is_v41)} for i in ids]
        return [self.shuffled(message), *results]

    def request(self) -> dict[str, Any]:
        model = self.pick([V4, V41])
        is_v41 = model == V41
        tools = self.tool_names() if self.maybe(0.45) else []
        messages = [m for _ in range(self.rng.randint(1, 4)) for m in self.turn(is_v41, tools)]
        body: dict[str, Any] = {"model": model, "messages": messages}
        thinking = self.pick([None, "enabled", "disabled", "disabled", "adaptive"])
        if thinking:
            body["thinking"] = {"type": thinking, **({"budget_tokens": 5} if self.maybe(0.2) else {})}
        if self.maybe(0.4):
            body["reasoning_effort"] = self.pick(EFFORTS)
        is_strict = False
        if tools:
            is_strict = self.maybe(0.25)
            body["tools"] = [self.tool(name, is_strict) for name in tools]
            off = thinking == "disabled" or (thinking is None and body.get("reasoning_effort") == "none")
            if self.maybe(0.5):
                named = {"type": "function", "function": {"name": self.pick(tools)}}
                body["tool_choice"] = self.pick(["auto", "none", *(["required", named] if off else [])])
        elif self.maybe(0.3):
            body["messages"].append(
                {
                    "role": "assistant",
                    "content": self.text(),
                    "prefix": True,
                    **({"reasoning_content": self.text()} if self.maybe() else {}),
                }
            )
        has_prefix = body["messages"][-1].get("prefix", False)
        self.sampling(body)
        if self.maybe(0.35) and not is_strict:
            body["response_format"] = self.format(has_prefix)
            if body["response_format"]["type"] == "json_object":
                body["messages"].insert(0, {"role": "user", "content": "answer in JSON"})
        self.ignored(body, ["user", "logit_bias", "max_completion_tokens", "store", "metadata", "functions", "top_k"])
        return self.shuffled(body)

    def format(self, has_prefix: bool) -> dict[str, Any]:
        kinds = ["text", "json_schema", "regex"] + ([] if has_prefix else ["json_object"])
        kind = self.pick(kinds)
        if kind == "regex":
            return {"type": kind, "regex": self.pick(["a+", "(", self.text()])}
        if kind != "json_schema":
            return {"type": kind}
        schema: dict[str, Any] = {"schema": self.schema()}
        if self.maybe(0.4):
            schema = {"schema": self.strict_schema(), "strict": True}
        if self.maybe():
            schema["name"] = self.pick(["n", "", None])
        return {"type": kind, "json_schema": self.shuffled(schema)}

    def tool(self, name: str, is_strict: bool) -> dict[str, Any]:
        function: dict[str, Any] = {"name": name}
        if self.maybe(0.7):
            function["description"] = self.pick([self.text(), None])
        if is_strict:
            function["strict"] = True
            if self.maybe(0.9):
                function["parameters"] = self.strict_schema()
        else:
            if self.maybe(0.8):
                function["parameters"] = self.pick([self.parameters(), self.parameters(), None])
            if self.maybe(0.2):
                function["strict"] = self.pick([False, None])
        tool = {"type": "function", "function": self.shuffled(function)}
        if self.maybe(0.05):
            tool["defer_loading"] = True
        return tool

    def sampling(self, body: dict[str, Any]) -> None:
        for name, values in {
            "temperature": [0, 1, 2, 0.7, None],
            "top_p": [1, 0.5, 0.95, 1e-10, None],
            "frequency_penalty": [0, 2, -2, None],
            "presence_penalty": [0, 2, -2.0],
            "max_tokens": [1, 100, 393216, None],
            "n": [1, None],
            "seed": [0, 2**63 - 1, None],
            "parallel_tool_calls": [True, False],
            "stop": ["x", ["a", "b", "a"], [], ["é"] * 16, None],
        }.items():
            if self.maybe(0.2):
                body[name] = self.pick(values)
        if self.maybe(0.2):
            body["stream"] = self.pick([True, False, None])
            if body["stream"] and self.maybe():
                body["stream_options"] = self.pick([{}, {"include_usage": True}, {"include_usage": None}])
        if self.maybe(0.2):
            body["logprobs"] = True
            if self.maybe():
                body["top_logprobs"] = self.pick([0, 5, 20])


class ResponsesMaker(Maker):
    """Responses."""

    def blocks(self, role: str, is_v41: bool) -> Any:
        if self.maybe(0.5):
            return self.text()
        blocks: list[Any] = []
        for _ in range(self.rng.randint(0, 3)):
            roll = self.rng.random()
            if roll < 0.65 or (role == "assistant" and is_v41):
                blocks.append(
                    {
                        "type": self.pick(["input_text", "output_text"]) if role != "tool" else "input_text",
                        "text": self.text(),
                    }
                )
            elif roll < 0.9:
                block: dict[str, Any] = {"type": "input_image", "image_url": self.pick(IMAGE_URLS)}
                if self.maybe():
                    block["detail"] = self.pick(["low", "high", "original", "auto", None])
                blocks.append(block)
            else:
                blocks.append({"type": "input_file", "file_id": "f"})
        return blocks

    def function(self, name: str, is_strict: bool) -> dict[str, Any]:
        tool: dict[str, Any] = {"type": "function", "name": name}
        if self.maybe(0.6):
            tool["description"] = self.pick([self.text(), None])
        if is_strict:
            tool.update({"strict": True, "parameters": self.strict_schema()})
        elif self.maybe(0.7):
            tool["parameters"] = self.pick([self.parameters(), None])
        return self.shuffled(tool)

    def tools(self, is_strict: bool) -> list[dict[str, Any]]:
        tools = [self.function(name, is_strict) for name in self.tool_names()]
        if self.maybe(0.3):
            inner = [self.function(n, is_strict) for n in self.tool_names()]
            space = {"type": "namespace", "name": self.pick(["ns", "g"]), "tools": inner}
            if self.maybe():
                space["description"] = self.pick([self.text(), "", None])
            tools.insert(self.rng.randint(0, len(tools)), space)
        if not is_strict and self.maybe(0.2):
            tools.append({"type": "custom", "name": "apply_patch", "description": "d"})
        if self.maybe(0.15):
            tools.append(
                {
                    "type": self.pick(["web_search", "web_search_2025_08_26"]),
                    "search_context_size": "low",
                    "user_location": {"city": "c"},
                }
            )
        if not is_strict and self.maybe(0.15):
            tools.append(
                {
                    "type": "tool_search",
                    "execution": self.pick(["client", "server", None]),
                    "description": "ds",
                    "parameters": None,
                }
            )
        if self.maybe(0.1):
            tools.append({"type": self.pick(["file_search", "mcp", "bogus"])})
        return tools

    def calls(self, is_v41: bool, ids: list[str]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        outputs: list[dict[str, Any]] = []
        for i in ids:
            roll = self.rng.random()
            if roll < 0.6:
                call: dict[str, Any] = {
                    "type": "function_call",
                    "call_id": i,
                    "name": self.pick(NAMES),
                    "arguments": self.arguments(),
                }
                if self.maybe(0.2):
                    call["namespace"] = self.pick(["ns", "", None, "other"])
            elif roll < 0.8 or not is_v41:
                call = {"type": "custom_tool_call", "call_id": i, "name": "apply_patch", "input": self.text()}
            else:
                call = {
                    "type": "tool_search_call",
                    "call_id": i,
                    "arguments": {"q": self.json()},
                    "execution": "client",
                }
                revealed = [self.pick([
                    {"type": "function", "name": f"d{i}", "description": self.pick([self.text(), None])},
                    {"type": "namespace", "name": "ns", "description": self.pick(["nd", None]), "tools": [{"type": "function", "name": f"f{i}"}]},
                    {"type": "web_search"},
                ])]  # fmt: skip
                items.append(call)
                outputs.append(
                    {"type": "tool_search_output", "call_id": i, "tools": revealed if self.maybe(0.8) else []}
                )
                continue
            items.append(call)
            kind = self.pick(["function_call_output", "custom_tool_call_output"])
            outputs.append({"type": kind, "call_id": i, "output": self.blocks("tool", is_v41)})
        self.rng.shuffle(outputs)
        return items + outputs

    def items(self, is_v41: bool) -> list[dict[str, Any]]:
        ids = self.rng.sample(["c1", "c2", "c3", "c10", "é", "B", "a"], 7)
        items: list[dict[str, Any]] = []
        for _ in range(self.rng.randint(1, 5)):
            roll = self.rng.random()
            if roll < 0.45:
                role = self.pick(["user", "user", "assistant", "assistant", "system", "developer"])
                item = {"role": role, "content": self.blocks(role, is_v41)}
                if self.maybe():
                    item["type"] = "message"
                items.append(self.shuffled(item))
            elif roll < 0.6:
                parts = self.pick(
                    [None, [], [{"text": ""}], [{"type": "reasoning_text", "text": self.text()}, {"text": self.text()}]]
                )
                items.append(
                    {
                        "type": "reasoning",
                        "content": parts,
                        "summary": [{"type": "summary_text", "text": "s"}],
                        "encrypted_content": "e",
                    }
                )
            elif roll < 0.68:
                items.append(
                    {"type": self.pick(["item_reference", "web_search_call", "additional_tools", "bogus"]), "id": "x"}
                )
            elif roll < 0.72:
                items.append({"type": "function_call_output", "output": self.blocks("tool", is_v41)})
            elif len(ids) >= 3:
                taken, ids = ids[: self.rng.randint(1, 3)], ids[3:]
                items.extend(self.calls(is_v41, taken))
        return items or [{"role": "user", "content": self.text()}]

    def request(self) -> dict[str, Any]:
        model = self.pick([V4, V41])
        is_v41 = model == V41
        body: dict[str, Any] = {"model": model, "input": self.items(is_v41) if self.maybe(0.85) else self.text()}
        if self.maybe(0.3):
            body["instructions"] = self.pick([self.text(), "", None])
        effort = self.pick([None, "none", "none", *EFFORTS])
        if effort or self.maybe(0.1):
            body["reasoning"] = {"effort": effort}
            if self.maybe(0.2):
                body["reasoning"]["summary"] = self.pick(["auto", "concise", "detailed", None])
            if self.maybe(0.05):
                body["reasoning"]["generate_summary"] = "auto"
        is_strict = False
        if self.maybe(0.5):
            is_strict = self.maybe(0.2) and "tool_search_output" not in str(body["input"])
            body["tools"] = self.tools(is_strict)
            if self.maybe(0.4):
                names = [t["name"] for t in body["tools"] if t["type"] == "function"]
                forced: list[Any] = (
                    ["required", {"type": "function", "name": self.pick(names)}] if effort == "none" else []
                )
                body["tool_choice"] = self.pick(
                    ["auto", "none", {"type": "web_search"}, {"type": "web_search_2025_08_26"}, None, *forced]
                )
        if self.maybe(0.3) and not is_strict:
            body["text"] = self.format()
            if body["text"].get("format", {}).get("type") == "json_object":
                body["instructions"] = "Json"
        for name, values in {"temperature": [0, 1, 2, 0.7, None], "top_p": [1, 0.5, 0.95, None], "top_logprobs": [0, 20, None],
                             "max_output_tokens": [1, 393216, None], "stream": [True, False], "user": ["u", None]}.items():  # fmt: skip
            if self.maybe(0.2):
                body[name] = self.pick(values)
        self.ignored(
            body,
            [
                "store",
                "metadata",
                "include",
                "previous_response_id",
                "seed",
                "stop",
                "thinking",
                "truncation",
                "parallel_tool_calls",
            ],
        )
        return self.shuffled(body)

    def format(self) -> dict[str, Any]:
        kind = self.pick(["text", "json_schema", "json_object", "absent"])
        out: dict[str, Any] = {}
        if kind == "json_schema":
            schema = {"schema": self.schema()} if self.maybe(0.6) else {"schema": self.strict_schema(), "strict": True}
            out["format"] = {"type": kind, "name": "n", **schema, **({"description": "d"} if self.maybe(0.3) else {})}
        elif kind != "absent":
            out["format"] = {"type": kind}
        if self.maybe(0.3):
            out["verbosity"] = self.pick(["low", "medium", "high", None])
        return out


class MessagesMaker(Maker):
    """Messages."""

    def image(self) -> dict[str, Any]:
        sources = [
            {"type": "url", "url": "https://a"},
            {
                "type": "base64",
                "media_type": self.pick(["image/png", "image/jpg", "image/webp"]),
                "data": self.pick(["AAAA", "AA==", ""]),
            },
        ]
        return {"type": "image", "source": self.pick(sources)}

    def document(self) -> dict[str, Any]:
        return {
            "type": "document",
            "source": self.pick(
                [{"type": "base64", "media_type": "application/pdf", "data": "x"}, {"type": "url", "url": "u"}]
            ),
        }

    def block(self) -> dict[str, Any]:
        roll = self.rng.random()
        if roll < 0.75:
            block = {"type": "text", "text": self.text()}
            if self.maybe(0.1):
                block["cache_control"] = {"type": "ephemeral"}
            return block
        return self.image() if roll < 0.9 else self.document()

    def result(self, i: str, tools: list[str]) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "tool_result", "tool_use_id": i}
        if self.maybe(0.8):
            parts = [self.block() for _ in range(self.rng.randint(0, 2))]
            if tools and self.maybe(0.3):
                parts.append({"type": "tool_reference", "tool_name": self.pick(tools)})
            out["content"] = self.pick([self.text(), parts, parts, None])
        if self.maybe(0.1):
            out["is_error"] = self.maybe()
        return out

    def turn(self, is_v41: bool, tools: list[str], drops: bool) -> list[dict[str, Any]]:
        role = self.pick(["user", "user", "assistant", "calls", "system"])
        if role == "user":
            content: Any = self.text() if self.maybe() else [self.block() for _ in range(self.rng.randint(1, 3))]
            return [self.shuffled({"role": role, "content": content})]
        if role == "system":
            content = self.text() if self.maybe() else [self.block() for _ in range(self.rng.randint(1, 2))]
            if tools and self.maybe(0.3):
                addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": self.pick(tools)}}
                content = [addition] if isinstance(content, str) else [*content, addition]
            return [{"role": role, "content": content}]
        blocks: list[Any] = []
        for _ in range(self.rng.randint(0, 2)):
            blocks.append(
                self.pick(
                    [
                        {"type": "text", "text": self.text()},
                        {"type": "thinking", "thinking": self.text(), "signature": "s"},
                    ]
                )
            )
        if drops and self.maybe():
            blocks += [
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            ]
        if role == "assistant":
            return [{"role": role, "content": blocks or self.text()}]
        ids = self.rng.sample(["t1", "t2", "t10", "é"], self.rng.randint(1, 3))
        calls = [
            {
                "type": "tool_use",
                "id": i,
                "name": self.pick([*tools, "g"]),
                "input": self.json() if self.maybe(0.3) else {"a": self.json()},
            }
            for i in ids
        ]
        self.rng.shuffle(ids)
        results = [self.result(i, tools) for i in ids] + [self.block() for _ in range(self.rng.randint(0, 2))]
        return [{"role": "assistant", "content": blocks + calls}, {"role": "user", "content": results}]

    def request(self) -> dict[str, Any]:
        model = self.pick([V4, V41])
        is_v41 = model == V41
        tools = self.tool_names() if self.maybe(0.5) else []
        messages = [m for _ in range(self.rng.randint(1, 4)) for m in self.turn(is_v41, tools, False)]
        body: dict[str, Any] = {"model": model, "messages": messages}
        if self.maybe(0.4):
            blocks = [
                {"type": "text", "text": self.pick([self.text(), "X-Anthropic-Billing-Header: x"])}
                for _ in range(self.rng.randint(0, 3))
            ]
            body["system"] = self.pick([self.text(), blocks])
        thinking = self.pick([None, "enabled", "disabled", "disabled", "adaptive"])
        if thinking:
            body["thinking"] = {"type": thinking, **({"budget_tokens": 1024} if self.maybe(0.2) else {})}
        if self.maybe(0.3):
            body["output_config"] = {
                "effort": self.pick([*EFFORTS, None]),
                **({"format": {"type": "json_schema"}} if self.maybe(0.1) else {}),
            }
        if tools:
            deferred = self.rng.randrange(len(tools)) if len(tools) > 1 and self.maybe(0.4) else -1
            body["tools"] = [self.tool(name, k == deferred) for k, name in enumerate(tools)]
            if self.maybe(0.4):
                named: list[Any] = [{"type": "tool", "name": self.pick(tools)}] if thinking == "disabled" else []
                body["tool_choice"] = self.pick(
                    [
                        {"type": "auto", "disable_parallel_tool_use": True},
                        {"type": "any"},
                        {"type": "none"},
                        None,
                        *named,
                    ]
                )
        for name, values in {"max_tokens": [1, 100, 393216, 10**6, None], "temperature": [0, 1, 0.3, None], "top_p": [1, 0.9, None], "stream": [True, False],
                             "stop_sequences": [[], ["a", "a"], ["é"] * 16, None], "metadata": [{"user_id": "u"}, {}, None]}.items():  # fmt: skip
            if self.maybe(0.2):
                body[name] = self.pick(values)
        self.ignored(body, ["top_k", "service_tier", "container", "mcp_servers"])
        return self.shuffled(body)

    def tool(self, name: str, is_deferred: bool) -> dict[str, Any]:
        tool: dict[str, Any] = {"name": name, "input_schema": self.parameters()}
        if self.maybe(0.6):
            tool["description"] = self.pick([self.text(), None])
        if is_deferred or self.maybe(0.1):
            tool["defer_loading"] = is_deferred
        if self.maybe(0.05):
            tool["strict"] = True
        return self.shuffled(tool)


MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "chat_completions": ChatMaker,
    "responses": ResponsesMaker,
    "messages": MessagesMaker,
}


def paths(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places inside a JSON value."""
    out = [place] if place else []
    if isinstance(value, dict):
        for key, item in value.items():
            out += paths(item, (*place, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            out += paths(item, (*place, i))
    return out


def mutated(body: dict[str, Any], rng: random.Random) -> Any:
    """The body with one value replaced, removed, doubled, or moved."""
    body = copy.deepcopy(body)
    place = rng.choice(paths(body))
    parent: Any = body
    for step in place[:-1]:
        parent = parent[step]
    roll = rng.random()
    if roll < 0.6:
        parent[place[-1]] = rng.choice(
            [None, True, 5, -1, 1.5, "", "x", [], {}, ["a"], {"a": 1}, [[]], 2**64 - 1, 0, "none", "auto"]
        )
    elif roll < 0.8:
        del parent[place[-1]]
    elif isinstance(parent, list):
        parent.insert(rng.randint(0, len(parent)), copy.deepcopy(parent[place[-1]]))
    elif isinstance(parent, dict):
        value = parent.pop(place[-1])
        parent[rng.choice(["x", place[-1]])] = value
    return body


def make_valid(index: int, seed: int) -> dict[str, Any]:
    """A request meant to succeed."""
    rng = random.Random(f"{seed}:{index}")
    protocol = PROTOCOLS[(index // 2) % 3]
    maker = MAKERS[protocol](rng)
    body = maker.request()
    return {"id": f"valid-{index}", "protocol": protocol, "body": body, "options": maker.options(protocol), "rng": rng}


def combined(rng: random.Random) -> dict[str, Any]:
    """A request with two or three faults of one protocol: which is reported first is part of the interface."""
    from faults import ROWS

    protocol = rng.choice(PROTOCOLS)
    body: dict[str, Any] = {"model": rng.choice([V4, V41])}
    options: dict[str, Any] = {}
    for row in rng.sample([row for row in ROWS if row[0] == protocol], rng.choice([2, 2, 3])):
        for key, value in copy.deepcopy(row[2]).items():
            known = body.get(key)
            if isinstance(known, list) and isinstance(value, list):
                body[key] = known + value if rng.random() < 0.5 else value + known
            elif isinstance(known, dict) and isinstance(value, dict):
                body[key] = {**known, **value}
            else:
                body[key] = value
        options.update(row[3])
    if protocol != "responses" and rng.random() < 0.5:
        body.setdefault("thinking", {"type": "disabled"})
    return {"protocol": protocol, "body": body, "options": options}


def make_case(index: int, seed: int) -> dict[str, Any]:
    """Case `index`: valid when even; else one fault, several faults, or a random mutation of a valid request."""
    from faults import FAULTS

    case = make_valid(index, seed)
    rng = case.pop("rng")
    if index % 2 == 0:
        return case
    if (index // 2) % 6 == 0:
        return {**case, "id": f"mutated-{index}", "body": mutated(case["body"], rng)}
    if (index // 2) % 6 == 3:
        return {**combined(rng), "id": f"combined-{index}"}
    fault = FAULTS[(index // 2 - index // 6 - 1) % len(FAULTS)]
    return {**fault(rng), "id": f"{fault.__name__}-{index}"}
