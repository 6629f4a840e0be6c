"""One engine in a process of its own: jobs as JSON lines on stdin, results as JSON lines on stdout.

Started by `maskbench.Worker`. A job is {"op": "run", ...} (compile, then walk each case) or
{"op": "batch", ...} (masks per second over many live states), {"op": "fork", ...} or
{"op": "matchers", ...}. A run answers twice: once after compiling, so that the driver knows in which
phase a crash or timeout fell, and once at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import resource
import sys
import time
from typing import Any

import adapters
import numpy as np

WARMUP = [
    (
        '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}',
        '{"a": "x y", "b": 12}',
    ),
    ('{"type":"array","items":{"enum":["red","green"]}}', '["red", "green"]'),
    (
        '{"type":"object","properties":{"n":{"type":"number"},"t":{"type":"array","items":{"type":"boolean"}}}}',
        '{"n": -1.5e3, "t": [true, false]}',
    ),
]

clock = time.perf_counter_ns


def resident_kb() -> tuple[int, int]:
    """(resident now, peak), kB."""
    with open("/proc/self/status") as f:
        fields = dict(line.split(":", 1) for line in f if line.startswith(("VmRSS", "VmHWM")))
    return int(fields["VmRSS"].split()[0]), int(fields["VmHWM"].split()[0])


def message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:400]


def allowed(row: adapters.Row, token: int) -> bool:
    return bool((int(row[token >> 5]) >> (token & 31)) & 1)


def walk(engine: adapters.Adapter, compiled: Any, tokens: list[int], row: adapters.Row) -> dict[str, Any]:
    """Step through one text. `stop`: position of the first token refused; None when EOS may follow the last."""
    state = engine.start(compiled)
    result: dict[str, Any] = {"stop": None, "mask_ns": [], "accept_ns": [], "odd": None}
    masks, accepts = result["mask_ns"], result["accept_ns"]
    for i, token in enumerate(tokens):
        a = clock()
        engine.mask(state, row)
        masks.append(clock() - a)
        if not allowed(row, token):
            result["stop"] = i
            return result
        a = clock()
        taken = engine.accept(state, token)
        accepts.append(clock() - a)
        if not taken:
            result.update(stop=i, odd=f"token {token} at {i} is in the mask but not accepted")
            return result
    try:
        a = clock()
        engine.mask(state, row)
        masks.append(clock() - a)
        done: bool | None = allowed(row, engine.vocab.eos)
    except Exception:  # some engines stop by themselves when nothing can follow
        done = engine.is_accepting(state)
        if done is None:
            raise
    if not done:
        result["stop"] = len(tokens)
    return result


def run(engine: adapters.Adapter, job: dict[str, Any], row: adapters.Row, say: Any) -> None:
    result: dict[str, Any] = {"id": job["id"]}
    try:
        a = clock()
        compiled = engine.compile(job["kind"], job["source"], **job["hints"])
        state = engine.start(compiled)
        b = clock()
        engine.mask(state, row)
        result["compile_ns"], result["first_mask_ns"] = b - a, clock() - b
        del state
    except adapters.UnsupportedKindError:
        say(**result, unsupported=True, final=True)
        return
    except BaseException as e:
        say(**result, compile_error=message(e), compile_ns=clock() - a, final=True)
        return
    say(phase="compiled", **result)
    result["tests"] = []
    for tokens in job["tests"]:
        try:
            result["tests"].append(walk(engine, compiled, tokens, row))
        except BaseException as e:
            result["tests"].append({"error": message(e)})
    if job["recompile"] and result["tests"]:
        result["recompile_ns"] = recompile(engine, job)
    if job["complete"] and engine.has_completion:
        result["completions"] = complete(engine, compiled, job)
    del compiled
    gc.collect(0)
    result["rss_kb"], result["peak_kb"] = resident_kb()
    say(**result, final=True)


def recompile(engine: adapters.Adapter, job: dict[str, Any]) -> list[int]:
    """Nanoseconds to compile the same source again: the same text, and (schemas) another spelling of it."""
    spellings = [job["source"]]
    if job["kind"] == "json_schema":
        spellings.append(json.dumps(json.loads(job["source"]), indent=1))
    times = []
    for text in spellings:
        a = clock()
        engine.compile(job["kind"], text, **job["hints"])
        times.append(clock() - a)
    return times


def complete(engine: adapters.Adapter, compiled: Any, job: dict[str, Any]) -> list[list[Any]]:
    """Completions from prefixes that the engine let through: [[test, prefix length, token ids or error], …]."""
    rng, out = random.Random(job["id"]), []
    for n, tokens in enumerate(job["tests"]):
        state, reached = engine.start(compiled), 0
        while reached < len(tokens) and engine.accept(state, tokens[reached]):
            reached += 1
        for length in sorted(rng.sample(range(reached + 1), min(job["complete"], reached + 1))):
            state = engine.start(compiled)
            for token in tokens[:length]:
                engine.accept(state, token)
            try:
                out.append([n, length, [int(x) for x in engine.completion(state)]])
            except Exception as e:
                out.append([n, length, message(e)])
    return out


def compile_items(engine: adapters.Adapter, items: list[dict[str, Any]], count: int) -> list[tuple[Any, list[int]]]:
    compiled: list[tuple[Any, list[int]]] = []
    for item in items[:count]:
        with contextlib.suppress(Exception):
            compiled.append((engine.compile(item["kind"], item["source"], **item["hints"]), item["tokens"]))
    return [compiled[i % len(compiled)] for i in range(count)] if compiled else []


def batch(engine: adapters.Adapter, job: dict[str, Any]) -> dict[str, Any]:
    """Masks per second over a batch of live states, for each thread count, first pass and second."""
    if not engine.has_batch:
        return {"batch": None}
    size = job["size"]
    items = compile_items(engine, job["items"], size)
    if not items:
        return {"batch": None}
    figures = {}
    for temperature in ("cold", "warm"):
        for threads in job["threads"]:
            states = [engine.start(c) for c, _ in items]
            positions = [0] * size
            out = np.zeros((size, engine.vocab.words), dtype=np.int32)
            steps = []
            for _ in range(job["steps"]):
                a = clock()
                engine.batch_mask(states, out, threads)
                steps.append(clock() - a)
                for i, (compiled, tokens) in enumerate(items):
                    at = positions[i]
                    if at < len(tokens) and allowed(out[i], tokens[at]) and engine.accept(states[i], tokens[at]):
                        positions[i] += 1
                    else:
                        states[i], positions[i] = engine.start(compiled), 0
            figures[f"{temperature}-threads{threads}"] = {
                "masks_per_s": size * len(steps) / (sum(steps) / 1e9),
                "step_us_p50": float(np.median(steps)) / 1e3,
                "worst_step_us": max(steps) / 1e3,
            }
    return {"batch": figures}


def fork(engine: adapters.Adapter, job: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds per fork (median over states in the middle of a text), each copy dropped at once."""
    if not engine.has_fork:
        return {"fork_ns": None}
    times = []
    for compiled, tokens in compile_items(engine, job["items"], job["size"]):
        state = engine.start(compiled)
        for token in tokens[: len(tokens) // 2]:
            engine.accept(state, token)
        for _ in range(20):
            a = clock()
            engine.fork(state)
            times.append(clock() - a)
    return {"fork_ns": float(np.median(times)) if times else None}


def matchers(engine: adapters.Adapter, job: dict[str, Any]) -> dict[str, Any]:
    """Growth of resident memory per 1,000 live matchers in the middle of their texts, MB."""
    items = compile_items(engine, job["items"], 50)
    row = np.zeros(engine.vocab.words, dtype=np.int32)
    for compiled, tokens in items:  # what is shared between matchers is in place before counting
        walk(engine, compiled, tokens, row)
    gc.collect()
    before, live = resident_kb()[0], []
    for i in range(job["size"]):
        compiled, tokens = items[i % len(items)]
        state = engine.start(compiled)
        for token in tokens[: len(tokens) // 2]:
            engine.accept(state, token)
        live.append(state)
    grown = resident_kb()[0] - before
    return {"mb_per_1000": grown / 1024 * 1000 / max(1, len(live))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--mem-limit", type=float, default=0)
    parser.add_argument("--cpu", type=int, default=-1)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    args = parser.parse_args()
    if args.clock == "processor":
        global clock
        clock = time.process_time_ns
    if args.cpu >= 0:
        os.sched_setaffinity(0, {args.cpu})
    if args.mem_limit:
        resource.setrlimit(resource.RLIMIT_AS, (int(args.mem_limit * 2**30),) * 2)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines that print go to stderr

    def say(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()

    vocab = adapters.Vocab(args.tokenizer)
    before = resident_kb()[0]
    started = time.perf_counter()
    engine = adapters.load(args.engine)(vocab)
    init_s = time.perf_counter() - started
    row = np.zeros(vocab.words, dtype=np.int32)
    for source, text in WARMUP:
        with contextlib.suppress(Exception):
            compiled = engine.compile("json_schema", source)
            for _ in range(3):
                walk(engine, compiled, vocab.encode(text), row)
    gc.collect()
    gc.disable()
    now = resident_kb()[0]
    facts = {"has_completion": engine.has_completion, "dialects": engine.dialects}
    say(ready=True, init_s=init_s, rss_kb=now, engine_kb=now - before, version=engine.version(), **facts)
    others = {"batch": batch, "fork": fork, "matchers": matchers}
    for line in sys.stdin:
        job = json.loads(line)
        if job["op"] == "run":
            run(engine, job, row, say)
            continue
        if job.get("cpus"):
            os.sched_setaffinity(0, set(job["cpus"]))
        try:
            say(**others[job["op"]](engine, job))
        except Exception as e:
            say(error=message(e))


if __name__ == "__main__":
    main()
