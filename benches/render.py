"""How fast does a request become a prompt? Ours and `deepseek_recipe`, interleaved, one thread.

    taskset -c 0 python benches/render.py [--seconds 10]

Workload: an agent conversation of 20 turns with 8 tools, as a Chat Completions body (JSON text, and parsed) for both
model versions. Timed: body -> request -> converted -> rendered prompt. Prompts are compared before anything is timed.
Prints the median, 5th, 95th and 99th percentile in microseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

ARGUMENTS = {"path": "src/module_{t}/file_{t}.py", "limit": 20, "opts": {"deep": True, "tags": ["a", "b"]}}


def tool(i: int) -> dict[str, Any]:
    """A tool of the size that agents use."""
    properties = {
        "path": {
            "type": "string",
            "description": "File or directory to work on, relative to the root of the repository",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most results to return"},
        "mode": {"type": "string", "enum": ["fast", "exact"], "description": "How to search"},
        "opts": {
            "type": "object",
            "properties": {"deep": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["deep"],
        },
    }
    parameters = {"type": "object", "properties": properties, "required": ["path"], "additionalProperties": False}
    description = f"Tool number {i}: reads, searches or changes files of the repository and returns what it found."
    return {"type": "function", "function": {"name": f"tool_{i}", "description": description, "parameters": parameters}}


def agent_body(model: str, turns: int = 20) -> dict[str, Any]:
    """A conversation in which every turn calls a tool."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful agent that edits code. " * 20}]
    for t in range(turns):
        arguments = json.dumps(ARGUMENTS).replace("{t}", str(t))
        call = {"id": f"call_{t}", "type": "function", "function": {"name": f"tool_{t % 8}", "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"Look at file number {t} and tell me what has to change there. " * 3},
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "The file has to be read first. " * 4,
                "tool_calls": [call],
            },
            {"role": "tool", "tool_call_id": f"call_{t}", "content": "    return value  # line of the file\n" * 12},
            {"role": "assistant", "content": "The function returns too early. " * 4, "reasoning_content": "Clear now."},
        ]
    messages.append({"role": "user", "content": "Go on with the next file."})
    return {"model": model, "messages": messages, "tools": [tool(i) for i in range(8)]}


def runner(module: Any, body: Any, version: str) -> Callable[[], str]:
    """One body to its prompt."""
    options = module.ConversionOptions()
    encoding = module.DeepseekV4Encoding() if version == "V4" else module.DeepseekV41Encoding()

    def run() -> str:
        converted = module.ChatCompletionRequest(body).convert(options)
        return str(encoding.render_conversation(converted.conversation).prompt)

    return run


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per workload")
    args = parser.parse_args()
    ours, reference = importlib.import_module("offseek.recipe"), importlib.import_module("deepseek_recipe")
    print(f"{platform.machine()}, Python {platform.python_version()}, deepseek_recipe {reference.__version__}")
    for version, model in (("V4", "DeepSeek-V4-Pro"), ("V4.1", "DeepSeek-V4.1-Flash")):
        parsed = agent_body(model)
        for form, body in (("JSON text", json.dumps(parsed).encode()), ("parsed", parsed)):
            sides = {"offseek": runner(ours, body, version), "deepseek_recipe": runner(reference, body, version)}
            prompts = {run() for run in sides.values()}
            assert len(prompts) == 1, "the prompts differ"
            times: dict[str, list[float]] = {name: [] for name in sides}
            end = time.perf_counter() + args.seconds
            while time.perf_counter() < end:
                for name, run in sides.items():
                    start = time.perf_counter()
                    run()
                    times[name].append((time.perf_counter() - start) * 1e6)
            print(f"{version}, {form}: {len(prompts.pop())} characters of prompt, {len(times['offseek'])} rounds")
            for name, values in times.items():
                tail = "  ".join(f"p{int(s * 100)} {percentile(values, s):8.1f}" for s in (0.05, 0.95, 0.99))
                print(f"  {name:16} median {statistics.median(values):8.1f} us  {tail}")
            ratio = statistics.median(times["deepseek_recipe"]) / statistics.median(times["offseek"])
            print(f"  ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
