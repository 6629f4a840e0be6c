"""The input of a batch: where each row lies in the file, and what is wrong with it.

A row is `{"custom_id": text, "method": "POST", "url": path, "body": {...}}` (OpenAI, "Batch API"). The file is read
twice: once to index it and to refuse double `custom_id`s before anything runs, then row by row. Memory holds 16 bytes
per row, whatever the rows' size.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from offseek.sdk.errors import InputError

URLS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
MAX_LINE_BYTES = 64 * 2**20


class BatchInputError(InputError):
    """The input file cannot be run as a batch: unreadable, empty, or a `custom_id` occurs twice."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One request, or what is wrong with its line. `custom_id` is None when the line has none."""

    index: int  # counts rows from 0
    line: int  # counts lines from 1
    custom_id: str | None
    url: str = ""
    body: Any = None
    problem: str | None = None


class BatchInput:
    """An indexed input file.

    Raises BatchInputError when it cannot be read, holds no rows, or has a custom_id twice (naming both lines).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        offsets, lines, hashes = array("q"), array("q"), array("Q")
        digest = hashlib.sha256()
        position = 0
        try:
            with self.path.open("rb") as file:
                for number, raw in enumerate(file, 1):
                    digest.update(raw)
                    if raw.strip():
                        offsets.append(position)
                        lines.append(number)
                        hashes.append(_id_hash(raw, number))
                    position += len(raw)
        except OSError as exc:
            raise BatchInputError(exc.strerror or str(exc), path=str(self.path)) from exc
        if not offsets:
            raise BatchInputError("no requests in this file", path=str(self.path))
        self.sha256 = digest.hexdigest()
        self._offsets, self._lines = offsets, lines
        self._refuse_doubles(np.frombuffer(hashes, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, index: int, file: Any) -> BatchRow:
        """Parse row `index` from the open file."""
        return read_row(file, index, *self.place(index))

    def place(self, index: int) -> tuple[int, int]:
        """(byte offset, line number) of a row, for `read_row` in another process."""
        return self._offsets[index], self._lines[index]

    def rows(self, indices: Iterator[int]) -> Iterator[BatchRow]:
        with self.path.open("rb") as file:
            for index in indices:
                yield self.read(index, file)

    def _refuse_doubles(self, hashes: Any) -> None:
        ordered = np.sort(hashes)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(repeated):
            return
        suspects = np.flatnonzero(np.isin(hashes, repeated))  # equal hashes: equal ids, but for chance
        seen: dict[str, int] = {}
        for row in self.rows(int(i) for i in suspects):
            if row.custom_id is None:
                continue
            if row.custom_id in seen:
                message = f"the custom_id {row.custom_id!r} occurs twice (first in line {seen[row.custom_id]})"
                raise BatchInputError(message, path=str(self.path), line=row.line)
            seen[row.custom_id] = row.line


def read_row(file: Any, index: int, offset: int, line: int) -> BatchRow:
    """Parse the row at a place of the open input file."""
    file.seek(offset)
    return parse_line(file.readline(), index, line)


def parse_line(raw: bytes, index: int, line: int) -> BatchRow:
    """Parse one line; faults are told in `problem` and never raised."""

    def bad(problem: str, custom_id: str | None = None) -> BatchRow:
        return BatchRow(index, line, custom_id, problem=f"line {line}: {problem}")

    if len(raw) > MAX_LINE_BYTES:
        return bad(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        return bad(f"not JSON: {exc}")
    if not isinstance(value, dict):
        return bad("a request is a JSON object")
    custom_id = value.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        return bad("custom_id must be a non-empty string")
    if value.get("method", "POST") != "POST":
        return bad(f"method must be 'POST', not {value['method']!r}", custom_id)
    url, body = value.get("url"), value.get("body")
    if not isinstance(url, str) or not url.startswith("/"):
        return bad(f"url must be a path such as {URLS[0]!r}", custom_id)
    if not isinstance(body, dict):
        return bad("body must be a JSON object", custom_id)
    if body.get("stream"):
        return bad("stream is not possible in a batch", custom_id)
    return BatchRow(index, line, custom_id, url, body)


def _id_hash(raw: bytes, line: int) -> int:
    """64-bit hash of the line's custom_id; of its own line number when it has none, which cannot be a double."""
    row = parse_line(raw, 0, line)
    key = f"id:{row.custom_id}" if row.custom_id is not None else f"line:{line}"
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
