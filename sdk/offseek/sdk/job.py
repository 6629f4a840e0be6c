"""An extraction that is written to a file and can be stopped at any moment: journal, manifest, resume.

`run_job` keeps three promises: every document has exactly one row in the end, a row that is in the file is whole
and on disk, and a resumed job is the same job (same schema, prompt, model and settings) or is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offseek.sdk.documents import Document
from offseek.sdk.errors import RETRYABLE_ROW_ERRORS, JournalError
from offseek.sdk.extraction import ExtractionRow, Extractor
from offseek.sdk.generation import Completion
from offseek.sdk.journal import Journal, sync_folder
from offseek.sdk.manifest import versions

FLUSH_ROWS = 64
FLUSH_S = 1.0


@dataclass(slots=True)
class JobSummary:
    """What a job came to. Row counts include rows of earlier runs of the same job; tokens and seconds do not."""

    output: str
    num_ok: int = 0
    num_failed: int = 0
    num_resumed: int = 0  # rows found finished in the file
    failures: dict[str, int] = field(default_factory=dict)  # error type -> rows
    prompt_tokens: int = 0
    completion_tokens: int = 0
    elapsed_s: float = 0.0

    @property
    def num_rows(self) -> int:
        return self.num_ok + self.num_failed

    def count(self, error_type: str | None) -> None:
        if error_type is None:
            self.num_ok += 1
        else:
            self.num_failed += 1
            self.failures[error_type] = self.failures.get(error_type, 0) + 1


def run_job(
    job: Extractor,
    documents: Iterable[Document],
    output: str | os.PathLike[str],
    *,
    resume: bool = False,
    overwrite: bool = False,
    retry_failed: bool = False,
    on_row: Callable[[ExtractionRow], None] | None = None,
    on_progress: Callable[[Completion], None] | None = None,
) -> JobSummary:
    """Run the extraction and write one row per document to `output` (JSONL), in input order.

    resume: keep the finished rows of an earlier run and go on. Rows that failed for a passing reason (`engine_error`,
        `cancelled`) run again; `retry_failed` runs all failed rows again. Rows that run again come after the others.

    Raises JournalError when the file exists and neither resume nor overwrite is set, when another process writes
    it, when it is damaged elsewhere than in its last line, or when it belongs to a different job.
    """
    path = Path(output)
    summary = JobSummary(str(path))
    started = time.monotonic()
    with Journal(path, resume=resume, overwrite=overwrite) as journal:
        _check_manifest(path, job_manifest(job), fresh=not resume)
        done = _finished_rows(journal, summary, retry_failed)
        todo = (d for d in documents if _key(d.id) not in done)
        for rows in _groups(job.run(todo, on_progress=on_progress)):
            journal.append(row.to_dict() for row in rows)
            for row in rows:
                summary.count(None if row.error is None else row.error.type)
                summary.prompt_tokens += row.prompt_tokens
                summary.completion_tokens += row.completion_tokens
                if on_row is not None:
                    on_row(row)
    summary.elapsed_s = time.monotonic() - started
    return summary


def _groups(rows: Iterator[ExtractionRow]) -> Iterator[list[ExtractionRow]]:
    """Rows in groups that share one fsync: at most FLUSH_ROWS, and none older than FLUSH_S when the next one comes."""
    group: list[ExtractionRow] = []
    since = time.monotonic()
    for row in rows:
        group.append(row)
        if len(group) >= FLUSH_ROWS or time.monotonic() - since >= FLUSH_S:
            yield group
            group, since = [], time.monotonic()
    if group:
        yield group


def _finished_rows(journal: Journal, summary: JobSummary, retry_failed: bool) -> set[bytes]:
    """Keys of the rows that stay; the others are dropped from the file."""

    def stays(row: dict[str, Any]) -> bool:
        error = row.get("error")
        return error is None or not (retry_failed or error.get("type") in RETRYABLE_ROW_ERRORS)

    if any(not stays(row) for row in journal.rows()):
        journal.drop(lambda row: not stays(row))
    done: set[bytes] = set()
    for number, row in enumerate(journal.rows(), 1):
        if not isinstance(row.get("id"), str) or "object" not in row:
            raise JournalError("not a row of an extraction", path=str(journal.path), line=number)
        if _key(row["id"]) in done:
            raise JournalError(f"the id {row['id']!r} occurs twice", path=str(journal.path), line=number)
        done.add(_key(row["id"]))
        summary.count(None if row["error"] is None else row["error"]["type"])
    summary.num_resumed = len(done)
    return done


def _key(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def job_manifest(job: Extractor) -> dict[str, Any]:
    """Everything that decides the rows: versions, model, schema, prompt and settings (the first by hash)."""
    prompt = asdict(job.prompt)
    schema = json.dumps(job.schema.schema, ensure_ascii=False)
    options = asdict(job.options)
    return {
        "kind": "offseek extraction",
        "versions": versions(),
        "model": job.model.name,
        "model_sha256": getattr(job.model, "sha256", None),
        "schema_sha256": hashlib.sha256(schema.encode()).hexdigest(),
        "prompt_sha256": hashlib.sha256(json.dumps(prompt, ensure_ascii=False).encode()).hexdigest(),
        "options": options,
        "schema": job.schema.schema,
        "prompt": prompt,
    }


_DECIDES = ("kind", "model", "model_sha256", "schema_sha256", "prompt_sha256", "options")


def _check_manifest(output: Path, manifest: dict[str, Any], *, fresh: bool) -> None:
    """Write the manifest beside the output, or compare with the one that is there.

    Versions may differ between the runs of a job; what decides the rows may not.
    """
    path = output.with_name(output.name + ".manifest.json")
    if not fresh and path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as exc:
            raise JournalError(f"manifest is damaged: {exc}", path=str(path)) from exc
        now = json.loads(json.dumps(manifest))
        differing = [name for name in _DECIDES if before.get(name) != now[name]]
        if differing:
            what = ", ".join(name.removesuffix("_sha256") for name in differing)
            raise JournalError(
                f"was written by a job with another {what}; use --overwrite to start anew", path=str(output)
            )
        return
    staged = path.with_name(path.name + ".new")
    with staged.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, ensure_ascii=False, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    sync_folder(path.parent)
