#!/usr/bin/env python3
"""Speed of token masks beside the peers: ratios, percentiles, the tail as a picture.

    benches/masks.py                        the whole visible set against xgrammar-strict and llguidance
    benches/masks.py --limit 300 --engines offseek,xgrammar,xgrammar-strict,llguidance
    benches/masks.py --sections schemas,patterns,batch,fork,memory,startup --cpu 0

All engines run interleaved on one processor (`maskbench.py` has the protocol); times compare only the
sources that every engine compiled without rejecting a valid text. A ratio is ours over the best
peer's, so below 1 is faster (masks per second: above 1 is faster). Results go to
benches/results/masks-DATE.json and the tail of the time between masks to masks-DATE.png.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from adapters import Vocab
from bench_data import Entry, load
from maskbench import Result, Settings, Tally, Worker, default_tokenizer, engine_report, number, prepare, run_entries

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches" / "results"
DATA = ROOT / "tests" / "data"
SECTIONS = ("schemas", "patterns", "batch", "fork", "memory", "startup")
LINES = [
    ("ttfm_us", ("p50", "p90", "p99", "max")),
    ("tbm_us", ("avg", "p50", "p90", "p99", "p99.9", "max")),
    ("warm_us", ("avg", "p50", "p99", "p99.9", "max")),
    ("recompile_us", ("p50", "p99")),
    ("respelled_us", ("p50", "p99")),
]
# Quoted beside the ratios: what the project wants, as ours over the best peer's (None: microseconds, absolute).
AIMS = {
    ("schemas", "ttfm_us", "p50"): 0.4, ("schemas", "ttfm_us", "p99"): 0.25,
    ("schemas", "tbm_us", "avg"): 0.3, ("schemas", "tbm_us", "p50"): 0.75, ("schemas", "tbm_us", "p99"): 0.25,
    ("schemas", "tbm_us", "p99.9"): 0.1, ("schemas", "warm_us", "p50"): 0.5, ("schemas", "warm_us", "p99"): 0.1,
    ("patterns", "tbm_us", "avg"): 0.3, ("patterns", "tbm_us", "p99"): 0.25,
}  # fmt: skip


def ratio(ours: float | None, peers: Sequence[float | None]) -> float | None:
    known = [p for p in peers if p]
    return ours / min(known) if ours and known else None


def print_table(section: str, names: Sequence[str], figures: Sequence[Result]) -> None:
    print("\n| us | " + " | ".join(names) + " | ours / best peer | aim |\n|:--|" + "--:|" * (len(names) + 2))
    for key, quantiles in LINES:
        for q in quantiles:
            values = [f[key][q] for f in figures]
            if all(v is None for v in values):
                continue
            r, aim = ratio(values[0], values[1:]), AIMS.get((section, key, q))
            cells = [number(v) for v in values] + [f"{r:.3f}" if r else "-", f"{aim}" if aim else ""]
            print(f"| {key[:-3]} {q} | " + " | ".join(cells) + " |", flush=True)


def run_section(section: str, entries: list[Entry], specs: list[str], settings: Settings, vocab: Vocab) -> Result:
    """Interleaved walks of all entries; returns the report of each engine and the common ids."""
    workers, tallies = [Worker(s, settings) for s in specs], [Tally(s) for s in specs]
    try:
        for w in workers:
            w.start()
        run_entries(entries, workers, tallies, vocab, seed=1, quiet=not sys.stderr.isatty())
    finally:
        for w in workers:
            w.kill()
    common = set.intersection(*(t.clean_ids() for t in tallies))
    print(f"\n## {section}: {len(common)} of {len(entries)} sources in common")
    print_table(section, specs, [t.figures(common) for t in tallies])
    reports = {t.name: engine_report(w, t, common) for w, t in zip(workers, tallies, strict=True)}
    for name, r in reports.items():
        m, c = r["memory"], r["counts"]
        print(f"{name} {r['version']}: passing {c.get('passing', 0)}, memory at the end {m['end_mb']:.0f} MB", end="")
        print(f", peak {m['peak_mb']:.0f} MB, start-up {r['init_s']:.2f} s, restarts {m['restarts']}")
    tails = {t.name: [x for i in sorted(common) for x in t.rows[i]["tbm_us"]] for t in tallies}
    return {"common": len(common), "entries": len(entries), "engines": reports, "tails": tails}


def live_items(entries: list[Entry], count: int) -> list[Result]:
    """Schemas with a valid instance of at least 20 tokens, for batches of live states."""
    pairs = [(e, c) for e in entries for c in e.cases if c.valid and len(c.tokens) >= 20 and "json_schema" in e.sources]
    random.Random(1).shuffle(pairs)
    return [
        {"kind": "json_schema", "source": e.sources["json_schema"], "hints": e.hints, "tokens": c.tokens}
        for e, c in pairs[:count]
    ]


def ask_all(specs: list[str], settings: Settings, jobs: list[Result]) -> dict[str, list[Result]]:
    """The answers of each engine to the same jobs, engines taking turns job by job."""
    workers = [Worker(s, settings) for s in specs]
    try:
        for w in workers:
            w.start()
        answers: dict[str, list[Result]] = {s: [] for s in specs}
        for job in jobs:
            for w in workers:
                answers[w.spec].append(w.ask(job, 600))
        return answers
    finally:
        for w in workers:
            w.kill()


def batch_section(specs: list[str], settings: Settings, items: list[Result], threads: list[int]) -> Result:
    sizes = (64, 256)
    cpus = sorted(os.sched_getaffinity(0))
    jobs = [
        {"op": "batch", "items": items, "size": n, "threads": threads, "steps": 150, "cpus": cpus}
        for n in sizes
        for _ in range(2)
    ]
    answers = ask_all(specs, settings, jobs)
    print("\n## batch: masks per second (best of two runs)")
    print("\n| states, pass | " + " | ".join(specs) + " | ours / best peer |\n|:--|" + "--:|" * (len(specs) + 1))
    for k, n in enumerate(sizes):
        runs = {s: [a.get("batch") or {} for a in answers[s][2 * k : 2 * k + 2]] for s in specs}
        for key in (f"{t}-threads{th}" for t in ("cold", "warm") for th in threads):
            best = [max((r.get(key, {}).get("masks_per_s", 0.0) for r in runs[s]), default=0.0) for s in specs]
            r = best[0] / max(best[1:]) if len(best) > 1 and max(best[1:]) else 0.0
            print(f"| {n}, {key} | " + " | ".join(f"{b:,.0f}" for b in best) + f" | {r:.2f} |")
    return {s: answers[s] for s in specs}


def simple_section(
    name: str, key: str, unit: str, specs: list[str], settings: Settings, job: Result, repeat: int
) -> Result:
    """A section whose answer is one number an engine; the median of `repeat` fresh processes."""
    found: dict[str, list[float]] = {s: [] for s in specs}
    for _ in range(repeat):
        for s, answers in ask_all(specs, settings, [job]).items():
            if answers[0].get(key) is not None:
                found[s].append(answers[0][key])
    medians = {s: float(np.median(v)) if v else None for s, v in found.items()}
    r = ratio(medians[specs[0]], [medians[s] for s in specs[1:]])
    print(f"\n## {name} ({unit}): " + ", ".join(f"{s} {number(v)}" for s, v in medians.items()), end="")
    print(f"; ours / best peer {r:.3f}" if r else "")
    return {"unit": unit, "median": medians, "all": found}


def startup_section(specs: list[str], settings: Settings, repeat: int = 3) -> Result:
    found: dict[str, list[float]] = {s: [] for s in specs}
    for _ in range(repeat):
        for s in specs:
            w = Worker(s, settings)
            w.start()
            found[s].append(w.info["init_s"])
            w.kill()
    medians = {s: float(np.median(v)) for s, v in found.items()}
    r = ratio(medians[specs[0]], [medians[s] for s in specs[1:]])
    print("\n## start-up (s): " + ", ".join(f"{s} {v:.3f}" for s, v in medians.items()), end="")
    print(f"; ours / best peer {r:.3f}" if r else "")
    return {"unit": "s", "median": medians, "all": found}


def plot_tails(tails: dict[str, list[float]], path: Path, title: str) -> None:
    """Time between masks against the share of masks that take longer, both axes logarithmic."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no picture: matplotlib is not installed (pip install matplotlib)")
        return
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), dpi=120)
    for name, values in tails.items():
        times = np.sort(np.asarray(values))[::-1]
        axes.loglog(np.arange(1, len(times) + 1) / len(times), times, label=name, linewidth=1.6)
    axes.invert_xaxis()
    axes.set_xlabel("share of masks that take at least this long")
    axes.set_ylabel("time between masks, µs")
    axes.set_title(title)
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    print(f"tail: {path}")


def machine() -> dict[str, Any]:
    model = next(
        (x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), "?"
    )
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", default="offseek,xgrammar-strict,llguidance", help="ours first, then peers")
    p.add_argument("--data", default=str(ROOT.parent / "shared" / "bench" / "schemas-visible.jsonl.gz"))
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--sections", default=",".join(SECTIONS))
    p.add_argument("--timeout", type=float, default=60)
    p.add_argument("--cpu", type=int, default=0)
    p.add_argument("--clock", choices=("wall", "processor"), default="wall", help="processor: on a busy machine")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--no-save", action="store_true", help="only print")
    return p.parse_args()


def main() -> None:
    args = arguments()
    specs, sections = args.engines.split(","), args.sections.split(",")
    tokenizer = default_tokenizer()
    vocab = Vocab(tokenizer)
    settings = Settings(tokenizer, timeout=args.timeout, cpu=args.cpu, recompile=True, clock=args.clock)
    schemas = prepare(load(args.data, limit=args.limit), vocab, max_tokens=4000)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    report: Result = {
        "date": date,
        "machine": machine(),
        "limit": args.limit,
        "clock": args.clock,
        "data": Path(args.data).name,
    }
    tails: dict[str, list[float]] = {}
    if "schemas" in sections:
        report["schemas"] = run_section("schemas", schemas, specs, settings, vocab)
        tails = report["schemas"].pop("tails")
    if "patterns" in sections:
        names = ("regex.jsonl.gz", "ebnf.jsonl.gz")
        patterns = prepare([e for n in names for e in load(DATA / n) if not e.malformed], vocab, max_tokens=4000)
        report["patterns"] = run_section("patterns", patterns, specs, settings, vocab)
        del report["patterns"]["tails"]
    items = live_items(schemas, 256)
    if "batch" in sections:
        report["batch"] = batch_section(specs, settings, items, [int(x) for x in args.threads.split(",")])
    if "fork" in sections:
        job = {"op": "fork", "items": items, "size": 100}
        report["fork"] = simple_section("fork", "fork_ns", "ns", specs, settings, job, 3)
    if "memory" in sections:
        job = {"op": "matchers", "items": items, "size": 5000}
        report["memory"] = simple_section("1,000 live matchers", "mb_per_1000", "MB", specs, settings, job, 1)
    if "startup" in sections:
        report["startup"] = startup_section(specs, settings)
    if not args.no_save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"masks-{date}.json").write_text(json.dumps(report, indent=1) + "\n")
        if tails:
            versions = {n: r["version"] for n, r in report["schemas"]["engines"].items()}
            title = ", ".join(f"{n} {v}" for n, v in versions.items()) + f"; {len(tails[specs[0]]):,} masks each"
            plot_tails(tails, RESULTS / f"masks-{date}.png", title)


if __name__ == "__main__":
    main()
