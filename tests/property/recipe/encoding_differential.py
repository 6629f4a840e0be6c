# ruff: noqa: E501  (request bodies read better unbroken)
"""Compare `offseek.recipe` with the installed `deepseek_recipe` on generated requests.

    python tests/property/recipe/encoding_differential.py --cases 20000 --seed 1

Prints the first differences, the coverage of typed fields and error sentences, and `N cases, M differences`.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import pathlib
import re
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "conformance" / "recipe")]

import faults  # noqa: E402
import replay  # noqa: E402
import request_maker  # noqa: E402

# Which of several calls without an output is named: the reference answers in hash order, we by position.
ARBITRARY = re.compile(r"(No tool output found for tool call ).*(\.)")

TYPED_FIELDS: dict[str, list[str]] = {
    "chat_completions": [
        "model", "messages", "thinking.type", "thinking.budget_tokens", "reasoning_effort", "frequency_penalty", "presence_penalty",
        "max_tokens", "response_format.type", "response_format.json_schema.schema", "response_format.json_schema.name",
        "response_format.json_schema.strict", "response_format.regex", "stop", "stream", "stream_options.include_usage", "temperature",
        "top_p", "tools[].type", "tools[].function.name", "tools[].function.description", "tools[].function.parameters",
        "tools[].function.strict", "tool_choice", "tool_choice.function.name", "logprobs", "top_logprobs", "n", "seed", "parallel_tool_calls",
        "messages[].role", "messages[].content", "messages[].name", "messages[].reasoning_content", "messages[].prefix",
        "messages[].tool_call_id", "messages[].tool_calls[].id", "messages[].tool_calls[].type", "messages[].tool_calls[].function.name",
        "messages[].tool_calls[].function.arguments", "messages[].content[].type", "messages[].content[].text",
        "messages[].content[].image_url.url", "messages[].content[].image_url.detail", "messages[].content[].file_data",
        "messages[].content[].file_id",
    ],
    "responses": [
        "model", "input", "instructions", "reasoning.effort", "reasoning.summary", "reasoning.generate_summary", "text.format.type",
        "text.format.name", "text.format.schema", "text.format.strict", "text.format.description", "text.verbosity", "tools[].type",
        "tools[].name", "tools[].description", "tools[].parameters", "tools[].strict", "tools[].tools[].name", "tools[].execution",
        "tools[].search_context_size", "tools[].user_location.city", "tool_choice", "tool_choice.type", "tool_choice.name", "temperature",
        "top_p", "top_logprobs", "max_output_tokens", "stream", "user", "input[].type", "input[].role", "input[].content[].text",
        "input[].content[].image_url", "input[].content[].file_id", "input[].content[].detail", "input[].call_id", "input[].name",
        "input[].arguments", "input[].namespace", "input[].input", "input[].output", "input[].output[].text", "input[].tools[].name",
        "input[].execution", "input[].encrypted_content",
    ],
    "messages": [
        "model", "messages", "system", "system[].text", "max_tokens", "metadata.user_id", "stop_sequences", "stream", "temperature", "top_p",
        "tools[].name", "tools[].description", "tools[].input_schema", "tools[].defer_loading", "tools[].type", "tool_choice.type",
        "tool_choice.name", "tool_choice.disable_parallel_tool_use", "thinking.type", "thinking.budget_tokens", "output_config.effort",
        "messages[].role", "messages[].content", "messages[].content[].text", "messages[].content[].source.type",
        "messages[].content[].source.media_type", "messages[].content[].source.data", "messages[].content[].source.url",
        "messages[].content[].source.file_id", "messages[].content[].thinking", "messages[].content[].signature",
        "messages[].content[].id", "messages[].content[].name", "messages[].content[].input", "messages[].content[].tool_use_id",
        "messages[].content[].content", "messages[].content[].content[].tool_name", "messages[].content[].is_error",
        "messages[].content[].tool.name",
    ],
}  # fmt: skip


def conversation_parts(conversation: Any) -> dict[str, Any]:
    """Everything a conversation says, for comparison."""
    messages = []
    for x in conversation.messages:
        calls = None if x.tool_calls is None else [(t.id, t.name, t.arguments) for t in x.tool_calls]
        tools = getattr(x, "tools", None)
        revealed = None if tools is None else [t.name for t in tools]
        images = [(s.kind, s.path, s.detail) for s in x.image_sources]
        messages.append((x.role, x.content, x.reasoning_content, calls, x.tool_call_id, x.prefix, images, revealed))
    tools = [(t.name, t.description, json.dumps(t.parameters), t.strict, t.defer_loading) for t in conversation.tools]
    settings = [conversation.thinking_mode, conversation.reasoning_effort, conversation.tool_choice]
    settings += [conversation.response_format, json.dumps(conversation.response_schema), conversation.response_regex]
    return {"messages": messages, "tools": tools, "settings": settings}


class Comparer:
    """Both modules, and what a run covered."""

    def __init__(self, with_ids: bool = True) -> None:
        tokenizer = replay.default_tokenizer()
        self.ours = replay.Encoding(importlib.import_module("offseek.recipe"), tokenizer)
        self.reference = replay.Encoding(importlib.import_module("deepseek_recipe"), tokenizer)
        self.with_ids = with_ids
        self.cases = self.succeeded = self.by_prefix = 0
        self.fields: dict[str, set[str]] = collections.defaultdict(set)
        self.sentences: set[str] = set()
        self.differences: list[tuple[dict[str, Any], list[replay.Difference]]] = []

    def answer(self, side: replay.Encoding, case: dict[str, Any]) -> dict[str, Any]:
        out = side.answer(case)
        if "error" not in out:
            request = side.requests[case["protocol"]](case["body"])
            out["conversation"] = conversation_parts(request.convert(side.options(case["options"])).conversation)
        return out

    def compare(self, case: dict[str, Any]) -> list[replay.Difference] | None:
        """Differences of one case, or None; counts coverage."""
        want, got = self.answer(self.reference, case), self.answer(self.ours, case)
        self.cases += 1
        self.succeeded += "error" not in want
        self.cover(case, want)
        if "error" in want and "error" in got:
            for side in (want, got):
                side["error"] = {
                    k: ARBITRARY.sub(r"\1*\2", v) if isinstance(v, str) else v for k, v in side["error"].items()
                }
        before = self.ours.by_prefix
        found = self.ours.compare(got, want)
        self.by_prefix += self.ours.by_prefix - before
        if found is not None:
            self.differences.append((case, found))
        return found

    def cover(self, case: dict[str, Any], answer: dict[str, Any]) -> None:
        if not isinstance(case["body"], str):
            for place in request_maker.paths(case["body"]):
                steps = [("[]" if isinstance(step, int) else f".{step}") for step in place]
                self.fields[case["protocol"]].add("".join(steps).lstrip("."))
        if "error" in answer:
            error = answer["error"]
            message = error.get("message") or json.loads(error["body"])["error"]["message"]
            self.sentences.update(
                row[1] for row in faults.ROWS if row[0] == case["protocol"] and re.search(row[1], message)
            )

    def missed(self) -> list[str]:
        """Typed fields and error sentences that no case reached."""
        fields = [f"{p}: {f}" for p, names in TYPED_FIELDS.items() for f in names if f not in self.fields[p]]
        return fields + [f"{row[0]}: /{row[1]}/" for row in faults.ROWS if row[1] not in self.sentences]

    def coverage(self) -> str:
        total = sum(map(len, TYPED_FIELDS.values())) + len(faults.ROWS)
        return (
            f"{self.cases} cases, {self.succeeded} succeed; {total - len(self.missed())} of {total} typed fields and error "
            f"sentences reached; {len(self.differences)} differences, {self.by_prefix} more only in the schema validator's words"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    comparer = Comparer()
    for index in range(args.start, args.start + args.cases):
        case = request_maker.make_case(index, args.seed)
        found = comparer.compare(case)
        if found is not None and len(comparer.differences) <= args.show:
            print(f"--- {case['id']} {case['protocol']} {case['options']}\n    {json.dumps(case['body'])[:1500]}")
            for key, want, got in found:
                print(f"  {key}\n    want {str(want)[:700]}\n    got  {str(got)[:700]}")
    for missing in comparer.missed():
        print("not reached:", missing)
    print(comparer.coverage())
    sys.exit(1 if comparer.differences else 0)


if __name__ == "__main__":
    main()
