"""Reading documents: text files, folders of them, JSONL, CSV, Parquet, or rows the caller already holds.

Lazy: a file of a million rows is never held in memory (except Parquet row groups). Every document has an
id that is unique in its job; ids join the output to the input and make `--resume` possible.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from offseek.sdk.errors import InputError, MissingExtraError

TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".text", ".html", ".xml", ".log", ""})


@dataclass(frozen=True, slots=True)
class Document:
    """One input row: its id, its text, and the other columns of its row."""

    id: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)


DocumentSource = str | os.PathLike[str] | Iterable[Document | Mapping[str, Any] | str] | Any


def read_documents(
    source: DocumentSource | Sequence[DocumentSource],
    *,
    text_field: str = "text",
    id_field: str = "id",
) -> Iterator[Document]:
    """Yield the documents of a path, of several paths, or of rows in memory, in order.

    source: a file (`.jsonl`, `.csv`, `.tsv`, `.parquet`, anything else is one text document), a folder (its text
        files, sorted, recursively), an iterable of Document, mapping or str, or a pandas / polars / datasets table.
    text_field, id_field: columns of tabular sources. A row without an id gets `name:line` (or its row number).

    Raises InputError for an unreadable file, a row without the text column, or an id that occurs twice.
    """
    seen: set[bytes] = set()
    for document in _dispatch(source, text_field, id_field):
        key = blake2b(document.id.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        if key in seen:
            raise InputError(f"the id {document.id!r} occurs twice", path=_describe(source))
        seen.add(key)
        yield document


def _dispatch(source: Any, text_field: str, id_field: str) -> Iterator[Document]:
    if isinstance(source, (str, os.PathLike)):
        yield from _read_path(Path(source), text_field, id_field)
    elif isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        for path in source:  # several paths; texts in memory come as Documents, mappings or a generator
            yield from _read_path(Path(path), text_field, id_field)
    else:
        for number, row in enumerate(_rows_of_table(source)):
            if isinstance(row, Document):
                yield row
            elif isinstance(row, str):
                yield Document(str(number), row)
            elif isinstance(row, Mapping):
                yield _from_row(row, str(number), _describe(source), number + 1, text_field, id_field)
            else:
                raise InputError(
                    f"a row is a Document, a mapping or a string, not {type(row).__name__}",
                    path=_describe(source),
                    line=number + 1,
                )


def _read_path(path: Path, text_field: str, id_field: str) -> Iterator[Document]:
    try:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in TEXT_SUFFIXES)
            if not files:
                raise InputError("no text files in this folder", path=str(path))
            for file in files:
                yield Document(file.relative_to(path).as_posix(), _read_text(file))
            return
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                yield from _read_jsonl(path, text_field, id_field)
            case ".csv" | ".tsv":
                yield from _read_csv(path, text_field, id_field)
            case ".parquet":
                yield from _read_parquet(path, text_field, id_field)
            case _:
                yield Document(path.name, _read_text(path))
    except FileNotFoundError as exc:
        raise InputError("no such file or folder", path=str(path)) from exc
    except UnicodeDecodeError as exc:  # CSV; other kinds are decoded where their file or line is known
        raise InputError(f"not UTF-8 text: {exc.reason}", path=str(path)) from exc
    except OSError as exc:
        raise InputError(exc.strerror or str(exc), path=str(path)) from exc


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(f"not UTF-8 text: {exc.reason} at byte {exc.start}", path=str(path)) from exc


def _read_jsonl(path: Path, text_field: str, id_field: str) -> Iterator[Document]:
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if not raw.strip():
                continue
            try:
                row = json.loads(raw)
            except (ValueError, RecursionError) as exc:
                raise InputError(f"not JSON: {exc}", path=str(path), line=number) from exc
            if isinstance(row, str):
                row = {text_field: row}
            if not isinstance(row, Mapping):
                raise InputError("a row is a JSON object or a string", path=str(path), line=number)
            yield _from_row(row, f"{path.name}:{number}", str(path), number, text_field, id_field)


def _read_csv(path: Path, text_field: str, id_field: str) -> Iterator[Document]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            for row in reader:
                if None in row:
                    raise InputError("more cells than columns", path=str(path), line=reader.line_num)
                name = f"{path.name}:{reader.line_num}"
                yield _from_row(row, name, str(path), reader.line_num, text_field, id_field)
        except csv.Error as exc:
            raise InputError(str(exc), path=str(path), line=reader.line_num) from exc


def _read_parquet(path: Path, text_field: str, id_field: str) -> Iterator[Document]:
    try:
        import pyarrow.parquet as pq  # pyright: ignore[reportMissingImports]
    except ImportError as exc:
        raise MissingExtraError("reading Parquet", "parquet") from exc
    number = 0
    for batch in pq.ParquetFile(path).iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield _from_row(row, f"{path.name}:{number}", str(path), number, text_field, id_field)


def _rows_of_table(source: Any) -> Iterable[Any]:
    """Rows of a polars or pandas frame or of a datasets object, which need no import of theirs; else the iterable."""
    if hasattr(source, "iter_rows") and hasattr(source, "columns"):  # polars
        rows: Iterable[Any] = source.iter_rows(named=True)
        return rows
    if hasattr(source, "itertuples") and hasattr(source, "columns"):  # pandas: scalars become Python's, NaN None
        columns = [str(c) for c in source.columns]
        return (
            {c: _python_value(v) for c, v in zip(columns, row, strict=True)}
            for row in source.itertuples(index=False, name=None)
        )
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise InputError(f"cannot read documents from {type(source).__name__}", path=_describe(source))
    return source


def _python_value(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    missing = (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")
    return None if missing else value


def _from_row(
    row: Mapping[str, Any], fallback_id: str, path: str, line: int, text_field: str, id_field: str
) -> Document:
    if text_field not in row:
        known = ", ".join(map(repr, row)) or "none"
        raise InputError(f"no column {text_field!r} (columns: {known})", path=path, line=line)
    text, name = row[text_field], row.get(id_field)
    if not isinstance(text, str):
        raise InputError(f"column {text_field!r} is {type(text).__name__}, not text", path=path, line=line)
    if name is None or name == "":
        name = fallback_id
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise InputError(f"column {id_field!r} is {type(name).__name__}, not text or integer", path=path, line=line)
    others = {key: value for key, value in row.items() if key not in (text_field, id_field)}
    return Document(str(name), text, others)


def _describe(source: Any) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source) if isinstance(os.fspath(source), str) else str(source)
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        return ", ".join(map(str, source[:3])) + (", ..." if len(source) > 3 else "")
    return f"({type(source).__name__})"
