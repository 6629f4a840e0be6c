#!/usr/bin/env python3
"""How much of the world's schemas, patterns and grammars is exact: counts, beside a baseline that may only improve.

    benches/coverage.py                  every suite; needs ../shared/bench beside the clone (or --shared)
    benches/coverage.py --quick          the stratified subset that CI runs
    benches/coverage.py --update         write the counts into benches/results/coverage-baseline.json
    benches/coverage.py --show wrong_accept      also list the entries behind a count

A source is "wholly right" when it compiled, every valid text got through and every invalid one was
stopped. `dead end`: from a prefix that was let through, `shortest_completion()` did not end in a text
that an independent judge accepts (`judge.py`). What is refused is split into sources that no text
satisfies and sources that are refused by name. Exits with 1 when a count is worse than the baseline.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters import Vocab
from bench_data import Entry, load
from maskbench import Settings, Tally, Worker, default_tokenizer, prepare

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "benches" / "results" / "coverage-baseline.json"
Counts = dict[str, int]
# Counts that may only fall; `passing` may only rise.
BAD = (
    "wrong_accept",
    "wrong_reject",
    "crash",
    "timeout",
    "test_error",
    "inconsistent",
    "dead_end",
    "malformed_accepted",
)


@dataclass(frozen=True, slots=True)
class Suite:
    """One line of the table. `quick_limit`: entries in the CI subset (0: all of them)."""

    name: str
    file: str
    quick_limit: int = 0
    complete: int = 0
    shared: bool = True


SUITES = (
    Suite("real schemas", "schemas-visible.jsonl.gz", quick_limit=220, complete=1),
    Suite("JSON Schema suite, required", "jsts.jsonl.gz"),
    Suite("JSON Schema suite, formats", "jsts-format.jsonl.gz"),
    Suite("JSON Schema suite, optional", "jsts-optional.jsonl.gz"),
    Suite("regex", "regex.jsonl.gz", complete=2, shared=False),
    Suite("EBNF, all dialects", "ebnf.jsonl.gz", complete=2, shared=False),
    Suite("Lark, our own", "lark.jsonl.gz", complete=2, shared=False),
)


def suite_path(suite: Suite, shared: Path) -> Path:
    return shared / suite.file if suite.shared else ROOT / "tests" / "data" / suite.file


def run_suite(entries: list[Entry], engine: str, settings: Settings, vocab: Vocab, jobs: int) -> Tally:
    """Walk all entries on `jobs` worker processes; the result does not depend on their number."""
    tally, lock, local = Tally(engine), threading.Lock(), threading.local()
    workers: list[Worker] = []

    def one(entry: Entry) -> None:
        if not hasattr(local, "worker"):
            local.worker = Worker(engine, settings)
            workers.append(local.worker)
        result = local.worker.run(entry)
        source = entry.source_for(tuple(local.worker.info["dialects"]))
        with lock:
            tally.add(entry, result)
            tally.judge_completions(entry, source, result, vocab)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, entries))
    finally:
        for w in workers:
            w.kill()
    return tally


def counts_of(tally: Tally, entries: list[Entry]) -> Counts:
    c, rows = tally.counts, tally.rows
    refused = [r for r in rows.values() if r["status"] in ("compile_error", "unsupported")]
    with_tests = {e.id for e in entries if e.cases}
    return {
        "sources": c["schemas"],
        "passing": c["passing"] + c["refused_rightly"] + c["optional_refused"],
        "with_texts": len(with_tests),
        "passing_with_texts": sum(
            rows[i]["status"] in ("ok", "refused_rightly", "optional_refused") for i in with_tests
        ),
        "refused": len(refused),
        "refused_unsatisfiable": sum(is_unsatisfiable(r) for r in refused),
        "tests": c["tests"],
        "completed": c["completed"],
        **{name: c[name] for name in BAD},
    }


def is_unsatisfiable(row: dict[str, Any]) -> bool:
    return "satisf" in str(row.get("error", "")).lower()


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def line(name: str, c: Counts) -> str:
    right = f"{c['passing']}/{c['sources']} ({percent(c['passing'], c['sources'])})"
    tested = percent(c["passing_with_texts"], c["with_texts"])
    refused = f"{c['refused']} ({c['refused_unsatisfiable']})"
    cells = [right, tested, refused, *(str(c[k]) for k in ("wrong_accept", "wrong_reject", "crash", "timeout"))]
    cells += [
        str(c["test_error"] + c["inconsistent"]),
        str(c["malformed_accepted"]),
        f"{c['dead_end']}/{c['completed']}",
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


HEADER = """\
| suite | wholly right | of those with texts | refused (unsatisfiable) | wrong accepts | wrong rejects | crashes \
| timeouts | errors | malformed accepted | dead ends / completed |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def regressions(name: str, now: Counts, before: Counts | None) -> list[str]:
    """What got worse. A baseline of another number of sources is for other data and does not compare."""
    if before is None or before["sources"] != now["sources"]:
        return []
    worse = [k for k in BAD if now[k] > before[k]] + [k for k in ("passing",) if now[k] < before[k]]
    return [f"{name}: {k} was {before[k]}, is {now[k]}" for k in worse]


def show(tally: Tally, what: str) -> None:
    """The entries behind a count: a status, or wrong_accepts, wrong_rejects, errors, dead_ends."""
    for row in tally.rows.values():
        found = row.get(what) or row.get(what + "s") or (row["status"] == what)
        if found:
            print(f"  {row['id']}: {row['status']} {row.get('error') or ''} {found if found is not True else ''}")


def why_refused(tally: Tally) -> list[tuple[str, int]]:
    reasons: collections.Counter[str] = collections.Counter()
    for r in tally.rows.values():
        if r["status"] in ("compile_error", "unsupported") and not is_unsatisfiable(r):
            reasons[str(r.get("error", "kind not taken")).split(" at #")[0].splitlines()[0][:110]] += 1
    return reasons.most_common(12)


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engine", default="offseek")
    p.add_argument("--shared", default=str(ROOT.parent / "shared" / "bench"), help="folder of the third-party data")
    p.add_argument("--suite", action="append", help="only suites whose name contains this")
    p.add_argument("--quick", action="store_true", help="a stratified subset")
    p.add_argument("--timeout", type=float, default=10, help="seconds for one source with its texts")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--complete", type=int, help="prefixes a text from which a completion is judged")
    p.add_argument("--show", action="append", default=[], help="list the entries behind a count")
    p.add_argument("--update", action="store_true", help="make these counts the baseline")
    p.add_argument("--out", help="counts as JSON")
    return p.parse_args()


def main() -> int:
    args = arguments()
    tokenizer = default_tokenizer()
    vocab = Vocab(tokenizer)
    mode = "quick" if args.quick else "full"
    baseline: dict[str, dict[str, Counts]] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    found: dict[str, Counts] = {}
    worse: list[str] = []
    print(HEADER, flush=True)
    for suite in SUITES:
        path = suite_path(suite, Path(args.shared))
        if (args.suite and not any(s.lower() in suite.name.lower() for s in args.suite)) or not path.exists():
            continue
        started = time.monotonic()
        entries = load(path, limit=suite.quick_limit if args.quick else 0, all_dialects=True)
        prepare(entries, vocab, max_tokens=4000)
        complete = suite.complete if args.complete is None else args.complete
        settings = Settings(tokenizer, timeout=args.timeout, complete=complete)
        tally = run_suite(entries, args.engine, settings, vocab, args.jobs)
        found[suite.name] = counts_of(tally, entries)
        print(line(suite.name, found[suite.name]), flush=True)
        print(f"{suite.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        worse += regressions(suite.name, found[suite.name], baseline.get(mode, {}).get(suite.name))
        for what in args.show:
            show(tally, what)
        if args.show:
            for reason, n in why_refused(tally):
                print(f"  refused {n}x: {reason}")
    if args.out:
        Path(args.out).write_text(json.dumps(found, indent=1))
    if args.update:
        baseline[mode] = baseline.get(mode, {}) | found
        BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")
        return 0
    for text in worse:
        print("worse than the baseline: " + text)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
