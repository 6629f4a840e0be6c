"""Bench data as entries: a source (schema, pattern, grammar) with labelled texts.

Files are JSONL, plain or `.gz`. A line is one of
  {"id", "schema", "tests": [{"valid", "data"}]}                a JSON Schema with instances
  {"id", "regex", "tests": [{"valid", "text"}]}                 a pattern, matched against the whole text
  {"id", "grammar": {dialect: text}, "tests": [...]}            a grammar in one or more dialects
     with "support": "optional"  an engine may refuse it, but what it accepts it must get right
     with "refuse": true         malformed input, to be refused
  {"schema", "instance", "valid", "keyword", "draft", ...}      a row of the JSON Schema test suite
"""

from __future__ import annotations

import collections
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

Style = Literal["spaced", "compact"]
SEPARATORS: dict[str, tuple[str, str]] = {"spaced": (", ", ": "), "compact": (",", ":")}
DRAFT7 = "http://json-schema.org/draft-07/schema#"
SKIPPED_LABELS = ("disputed", "unverified")


@dataclass(slots=True)
class Case:
    """One labelled text; `tokens` is filled in by the harness."""

    valid: bool
    text: str
    group: str = "ok"
    description: str = ""
    tokens: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """One source with its cases. `sources` maps an engine kind ("json_schema", "ebnf:lark", …) to the text."""

    id: str
    dataset: str
    sources: dict[str, str]
    cases: list[Case]
    hints: dict[str, Any] = field(default_factory=dict)
    optional: bool = False
    malformed: bool = False

    def source_for(self, dialects: tuple[str, ...]) -> tuple[str, str]:
        """(kind, source) in the first dialect of `dialects` that the entry has, else in any."""
        for d in dialects:
            if f"ebnf:{d}" in self.sources:
                return f"ebnf:{d}", self.sources[f"ebnf:{d}"]
        return next(iter(self.sources.items()))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as f:
        for line in f:
            if line.strip():
                yield json.loads(line)


def load(
    path: str | Path, *, limit: int = 0, seed: int = 1, style: Style = "spaced", all_dialects: bool = False
) -> list[Entry]:
    """The entries of one file; with `limit`, that many, stratified over its data sets.

    Rows of the official suite carry their draft (draft 7 gets its `$schema` written in), `format`
    is only an annotation there except in the format file, and remote documents come as a registry.
    """
    path = Path(path)
    entries: list[Entry] = []
    suite: dict[tuple[str, str, str], Entry] = {}
    for n, line in enumerate(read_lines(path)):
        if "keyword" in line and "instance" in line:
            key = (line.get("draft", ""), line["keyword"], json.dumps(line["schema"]))
            if key not in suite:
                suite[key] = suite_entry(line, len(suite), path)
                entries.append(suite[key])
            suite[key].cases.append(
                Case(line["valid"], dump(line["instance"], style), description=line.get("desc", ""))
            )
            continue
        entry = plain_entry(line, n, style)
        if all_dialects and len(entry.sources) > 1:
            entries += [replace(entry, id=f"{entry.id}@{k[5:]}", sources={k: v}) for k, v in entry.sources.items()]
        else:
            entries.append(entry)
    return stratified(entries, limit, seed) if 0 < limit < len(entries) else entries


def dump(value: Any, style: Style) -> str:
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS[style])


def suite_entry(line: dict[str, Any], number: int, path: Path) -> Entry:
    draft, schema = line.get("draft", ""), line["schema"]
    hints: dict[str, Any] = {"format": "assert" if "jsts-format" in path.name else "annotate"}
    if draft == "7" and isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": DRAFT7, **schema}
    if line.get("remote"):
        with gzip.open(path.parent / "jsts-remotes.json.gz", "rt", encoding="utf-8") as f:
            hints["registry"] = json.load(f)
    source = json.dumps(schema, ensure_ascii=False)
    return Entry(f"{draft}/{line['keyword']}#{number}", line["keyword"], {"json_schema": source}, [], hints)


def plain_entry(line: dict[str, Any], number: int, style: Style) -> Entry:
    if "schema" in line:
        sources = {"json_schema": json.dumps(line["schema"], ensure_ascii=False)}
    elif "regex" in line:
        sources = {"regex": line["regex"]}
    else:
        sources = {f"ebnf:{k}": v for k, v in line["grammar"].items()}
    cases = [
        Case(t["valid"], t["text"] if "text" in t else dump(t["data"], style), t.get("label", "ok"))
        for t in line.get("tests", [])
        if t.get("label") not in SKIPPED_LABELS
    ]
    return Entry(
        id=line.get("id", str(number)),
        dataset=line.get("dataset") or (line.get("features") or ["-"])[0],
        sources=sources,
        cases=cases,
        hints={"format": "assert"},
        optional=line.get("support") == "optional",
        malformed=line.get("refuse", False),
    )


def stratified(entries: list[Entry], limit: int, seed: int) -> list[Entry]:
    by_set: dict[str, list[Entry]] = collections.defaultdict(list)
    for e in entries:
        by_set[e.dataset].append(e)
    rng, picked = random.Random(seed), []
    for name in sorted(by_set):
        rng.shuffle(by_set[name])
        picked += by_set[name][: max(1, round(len(by_set[name]) * limit / len(entries)))]
    rng.shuffle(picked)
    return picked[:limit]
