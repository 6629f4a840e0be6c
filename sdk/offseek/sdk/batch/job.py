"""A batch job from input file to output files: index, resume, run (in this process or in workers), assemble."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offseek.sdk.application import Application
from offseek.sdk.batch.lines import BatchInput
from offseek.sdk.batch.results import Results, is_ok, journal_path, next_journal_number
from offseek.sdk.batch.runner import answer_rows
from offseek.sdk.batch.workers import run_workers
from offseek.sdk.errors import ClientError, JournalError
from offseek.sdk.journal import Journal, sync_folder
from offseek.sdk.manifest import versions

FLUSH_ROWS = 256
FLUSH_S = 1.0
ApplicationFactory = Callable[[], Application]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Settings of a batch job.

    seed: of rows that set none; with the row's custom_id it makes the row's own.
    max_in_flight: rows on their way per worker. workers: processes; 1 = this one.
    """

    seed: int = 0
    max_in_flight: int = 64
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("max_in_flight", "workers"):
            if getattr(self, name) < 1:
                raise ClientError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(slots=True)
class BatchSummary:
    """Counts of the whole job. `num_resumed` rows were finished by earlier runs."""

    output: str
    errors: str
    num_rows: int = 0
    num_ok: int = 0
    num_failed: int = 0
    num_resumed: int = 0
    num_run: int = 0
    elapsed_s: float = 0.0
    status_counts: dict[str, int] = field(default_factory=dict)


def run_batch(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    factory: ApplicationFactory,
    *,
    errors: str | os.PathLike[str] | None = None,
    options: BatchOptions | None = None,
    resume: bool = False,
    overwrite: bool = False,
    retry_failed: bool = False,
    describe: Callable[[], dict[str, Any]] | None = None,
    on_start: Callable[[int, int], None] | None = None,
    on_row: Callable[[bool], None] | None = None,
) -> BatchSummary:
    """Run a batch file; write one line per request to `output` (status 200) or `errors` (the rest), in input order.

    factory: makes the application, once in this process or once in every worker (then it must be picklable).
    errors: defaults to `output` with `.errors` before its suffix. describe: gives what goes into the
        manifest (model, its hash), once the input has been checked.
    resume: go on with a stopped job; rows that failed for a passing reason (429, 5xx, a dead worker) run again,
        and with `retry_failed` all failed rows.
    on_start(rows in all, rows finished earlier), on_row(ok): progress.

    While it runs, finished rows lie in `OUTPUT.journal/`; a kill at any moment loses only rows in flight. Raises
    BatchInputError for an input that cannot run, JournalError when files of another job are in the way.
    """
    options = options or BatchOptions()
    target = Path(output)
    bad = Path(errors) if errors is not None else target.with_name(f"{target.stem}.errors{target.suffix}")
    if target.resolve() in (Path(source).resolve(), bad.resolve()):
        raise ClientError(f"the output {target} is also the input or the error file")
    started = time.monotonic()
    rows = BatchInput(source)
    manifest = _manifest(rows, options, describe() if describe is not None else {})
    folder = _open_folder(target, bad, resume=resume, overwrite=overwrite)
    with Journal(folder / "lock.jsonl", resume=True):  # holds the lock of the whole job
        _check_manifest(folder / "manifest.json", manifest, target)
        results = Results(folder, len(rows))
        results.load()
        summary = BatchSummary(str(target), str(bad), num_rows=len(rows))
        pending = results.pending(retry_failed=retry_failed)
        summary.num_resumed = len(rows) - sum(1 for _ in results.pending(retry_failed=retry_failed))
        if on_start is not None:
            on_start(len(rows), summary.num_resumed)

        def count(ok: bool) -> None:
            summary.num_run += 1
            if on_row is not None:
                on_row(ok)

        if options.workers == 1:
            _run_here(factory, rows, pending, folder, options, count)
        else:
            run_workers(factory, rows, pending, folder, options, count)
        results.load()
        missing = results.state.count(0)
        if missing:
            raise JournalError(f"{missing} rows have no result; resume to run them", path=str(folder))
        results.write(target, bad)
        shutil.copyfile(folder / "manifest.json", target.with_name(target.name + ".manifest.json"))
        summary.num_ok = results.state.count(1)
        summary.num_failed = len(rows) - summary.num_ok
    summary.elapsed_s = time.monotonic() - started
    return summary


def _run_here(
    factory: ApplicationFactory,
    rows: BatchInput,
    pending: Iterator[int],
    folder: Path,
    options: BatchOptions,
    count: Callable[[bool], None],
) -> None:
    first = next(pending, None)
    if first is None:
        return  # nothing to do: no need to load a model
    application = factory()

    def indices() -> Iterator[int]:
        yield first
        yield from pending

    try:
        with Journal(journal_path(folder, next_journal_number(folder))) as journal:
            group: list[dict[str, Any]] = []
            since = time.monotonic()
            results = answer_rows(
                application, rows.rows(indices()), seed=options.seed, max_in_flight=options.max_in_flight
            )
            try:
                for index, result in results:
                    group.append({"n": index, "record": result})
                    if len(group) >= FLUSH_ROWS or time.monotonic() - since >= FLUSH_S:
                        journal.append(group)
                        group, since = [], time.monotonic()
                    count(is_ok(result))
            finally:
                results.close()  # type: ignore[attr-defined]  # a generator: cancels what is in flight
                journal.append(group)
    finally:
        application.close()


def _open_folder(target: Path, bad: Path, *, resume: bool, overwrite: bool) -> Path:
    folder = target.with_name(target.name + ".journal")
    if not resume:
        there = [str(path) for path in (target, bad, folder) if path.exists()]
        if there and not overwrite:
            raise JournalError("exists already; use --resume to continue the job or --overwrite", path=there[0])
        if folder.exists():
            shutil.rmtree(folder)
        for path in (target, bad):
            path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    sync_folder(folder.parent)
    return folder


def _manifest(rows: BatchInput, options: BatchOptions, describe: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "offseek batch",
        "versions": versions(),
        "input_sha256": rows.sha256,
        "num_rows": len(rows),
        "seed": options.seed,
        "options": asdict(options),
        "json_layout": {"whitespace": "spaced", "numbers": "canonical", "property_order": "schema"},
        **describe,
    }


def _check_manifest(path: Path, manifest: dict[str, Any], target: Path) -> None:
    """Write the manifest, or refuse to mix two jobs. Versions and the number of workers may change between runs."""
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as exc:
            raise JournalError(f"manifest is damaged: {exc}", path=str(path)) from exc
        names = set(manifest) - {"versions", "options"}
        differing = sorted(name for name in names if before.get(name) != json.loads(json.dumps(manifest[name])))
        if differing:
            raise JournalError(
                f"belongs to a job with another {', '.join(differing)}; use --overwrite", path=str(target)
            )
        return
    staged = path.with_name(path.name + ".new")
    with staged.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, ensure_ascii=False, indent=2)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    sync_folder(path.parent)
