"""An append-only JSONL file that survives being killed: the output of a job and at the same time its memory.

Rows are appended whole and fsynced in groups; a torn last line (the only damage that a kill can do to an
appended file) is repaired on open. Anything else that does not parse is an error and the file stays untouched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from offseek.sdk.errors import JournalError

Row = Mapping[str, Any]


def encode_row(row: Row) -> bytes:
    """One line of JSON with its newline. Lone surrogates, which UTF-8 cannot carry, stay as `\\udXXX` escapes."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(row, ensure_ascii=True, allow_nan=False).encode()
    return text + b"\n"


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, row) of every whole line; a torn last line is passed over.

    Raises JournalError for a bad line that is not the last one.
    """
    with path.open("rb") as lines:
        bad: tuple[int, str] | None = None
        for number, raw in enumerate(lines, 1):
            if bad is not None:
                raise JournalError(bad[1], path=str(path), line=bad[0])
            try:
                row = json.loads(raw)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
            except ValueError as exc:
                bad = (number, f"not a row of a journal: {exc}")
                if raw.endswith(b"\n"):  # a kill tears before the newline, so this one was never ours
                    raise JournalError(bad[1], path=str(path), line=number) from exc
                continue
            yield number, row


def repair(path: Path) -> int:
    """Complete or cut off a torn last line in place; return the number of bytes cut.

    A last line that is a whole row without its newline gets the newline; anything shorter is cut off.
    """
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return 0
        tail = _tail(file, end)
        if tail == b"":
            return 0
        try:
            whole = isinstance(json.loads(tail), dict)
        except ValueError:
            whole = False
        if whole:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(end - len(tail))
        file.flush()
        os.fsync(file.fileno())
        return 0 if whole else len(tail)


def _tail(file: BinaryIO, end: int) -> bytes:
    """The bytes after the last newline."""
    tail, start = b"", end
    while start > 0 and b"\n" not in tail:
        step = min(65536, start)
        start -= step
        file.seek(start)
        tail = file.read(step) + tail
    return tail.rpartition(b"\n")[2]


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Journal:
    """The open file. One process writes it at a time: an advisory lock guards against a second one.

    Raises JournalError when the file exists and neither `resume` nor `overwrite` was asked for, or is locked.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        if self.path.exists() and self.path.stat().st_size and not (resume or overwrite):
            raise JournalError("exists already; use --resume to continue it or --overwrite", path=str(self.path))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()
        try:
            if overwrite and not resume:
                self._file.truncate(0)
            self.cut_bytes = repair(self.path)
            sync_folder(self.path.parent)
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> Any:
        file = self.path.open("ab", buffering=0)
        try:
            _lock(file, self.path)
        except BaseException:
            file.close()
            raise
        return file

    def rows(self) -> Iterator[dict[str, Any]]:
        for _, row in read_rows(self.path):
            yield row

    def drop(self, refused: Callable[[dict[str, Any]], bool]) -> int:
        """Rewrite the file without the rows that `refused` names, atomically; return how many there were.

        A temporary file is written, fsynced and renamed over this one: a kill leaves the old or the new file.
        """
        staged = self.path.with_name(self.path.name + ".rewrite")
        dropped = 0
        with staged.open("wb") as out:
            for row in self.rows():
                if refused(row):
                    dropped += 1
                else:
                    out.write(encode_row(row))
            out.flush()
            os.fsync(out.fileno())
        staged.replace(self.path)
        sync_folder(self.path.parent)
        self._file.close()
        self._file = self._open()
        return dropped

    def append(self, rows: Iterable[Row]) -> None:
        """Write whole rows and fsync once. On return they survive a kill and a power cut."""
        data = b"".join(map(encode_row, rows))
        if not data:
            return
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not POSIX: no advisory locks
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        raise JournalError("another process is writing this file", path=str(path)) from exc
