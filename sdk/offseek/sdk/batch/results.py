"""The results of a batch: journals while it runs, output and error files when it is done.

A journal row is `{"n": row index, "record": result line}`; a row that ran twice counts by its last record. Each
worker has a journal of its own. When all rows are there, the records are written in input order: those with a
response of status 200 to the output file, the others to the error file, both at once by rename.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from offseek.sdk.errors import JournalError
from offseek.sdk.journal import encode_row, repair, sync_folder

# Passing faults: run again on resume. The others (4xx of the request itself) are permanent.
RETRYABLE_STATUS = frozenset({429, 500, 502, 503, 504})
RETRYABLE_CODES = frozenset({"engine_error", "worker_died", "cancelled", "connection_error"})


def record(
    custom_id: str | None, status: int, body: Any, *, seed: int, request_id: str | None = None
) -> dict[str, Any]:
    """A result line in the format of the official batch output."""
    response = {"status_code": status, "request_id": request_id or row_id("req", custom_id, seed), "body": body}
    return {"id": row_id("batch_req", custom_id, seed), "custom_id": custom_id, "response": response, "error": None}


def failure(custom_id: str | None, code: str, message: str, *, seed: int) -> dict[str, Any]:
    """A result line of a request that got no response at all."""
    error = {"code": code, "message": message}
    return {"id": row_id("batch_req", custom_id, seed), "custom_id": custom_id, "response": None, "error": error}


def row_id(prefix: str, custom_id: str | None, seed: int) -> str:
    """An id that is the same in every run of the same job."""
    data = f"{seed}:{custom_id}".encode("utf-8", "surrogatepass")
    return f"{prefix}_{hashlib.blake2b(data, digest_size=12).hexdigest()}"


def is_ok(row: dict[str, Any]) -> bool:
    return row["response"] is not None and row["response"]["status_code"] == 200


def is_retryable(row: dict[str, Any]) -> bool:
    if row["response"] is not None:
        return row["response"]["status_code"] in RETRYABLE_STATUS
    return row["error"]["code"] in RETRYABLE_CODES


class Results:
    """What the journals of a job hold: for every row where its record lies. 9 bytes of memory per row."""

    def __init__(self, folder: Path, num_rows: int) -> None:
        self.folder = folder
        self.num_rows = num_rows
        self.state = bytearray(num_rows)  # 0 none, 1 ok, 2 failed for good, 3 failed for a passing reason
        self._place = array("q", bytes(8 * num_rows))  # offset in its journal
        self._journal = array("H", bytes(2 * num_rows))
        self._paths: list[Path] = []

    def load(self) -> None:
        """Read all journals, repairing torn ends. Raises JournalError for any other damage."""
        self._paths = sorted(self.folder.glob("journal-*.jsonl"))  # numbered in the order in which they were begun
        for number, path in enumerate(self._paths):
            repair(path)
            for offset, row in _rows_with_offsets(path):
                index = row.get("n")
                if not isinstance(index, int) or not 0 <= index < self.num_rows or "record" not in row:
                    raise JournalError(f"not a row of this batch (at byte {offset})", path=str(path))
                new = 1 if is_ok(row["record"]) else 3 if is_retryable(row["record"]) else 2
                if self.state[index] == 1 and new != 1:
                    continue
                self.state[index] = new
                self._place[index], self._journal[index] = offset, number

    def pending(self, *, retry_failed: bool = False) -> Iterator[int]:
        """Indices of the rows that have to run: those without a record and those that failed for a passing reason."""
        again = (0, 2, 3) if retry_failed else (0, 3)
        return (index for index in range(self.num_rows) if self.state[index] in again)

    def write(self, output: Path, errors: Path) -> None:
        """Write the output and error files in input order; both appear complete or not at all."""
        staged = [path.with_name(path.name + ".new") for path in (output, errors)]
        journals = [path.open("rb") for path in self._paths]
        try:
            with staged[0].open("wb") as good, staged[1].open("wb") as bad:
                for index in range(self.num_rows):
                    journal = journals[self._journal[index]]
                    journal.seek(self._place[index])
                    row = json.loads(journal.readline())
                    if row["n"] != index:
                        raise JournalError(f"row {index} is not where it was", path=journal.name)
                    (good if self.state[index] == 1 else bad).write(encode_row(row["record"]))
                for file in (good, bad):
                    file.flush()
                    os.fsync(file.fileno())
        finally:
            for journal in journals:
                journal.close()
        for new, path in zip(staged, (output, errors), strict=True):
            new.replace(path)
            sync_folder(path.parent)


def journal_path(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:06d}.jsonl"


def next_journal_number(folder: Path) -> int:
    """One more than the highest number in use: a later journal's records win over an earlier one's."""
    return max((int(path.stem.partition("-")[2]) for path in folder.glob("journal-*.jsonl")), default=-1) + 1


def _rows_with_offsets(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                row = json.loads(raw)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
            except ValueError as exc:
                raise JournalError(f"not a row of a journal: {exc}", path=str(path), line=number) from exc
            yield offset, row
            offset += len(raw)
