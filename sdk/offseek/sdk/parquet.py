"""The finished JSONL of an extraction as a Parquet file: one row per document, objects as JSON text."""

from __future__ import annotations

import json
from pathlib import Path

from offseek.sdk.errors import MissingExtraError
from offseek.sdk.journal import read_rows

_ROW_GROUP = 10_000


def write_parquet(journal: Path, output: Path) -> int:
    """Write the rows of `journal` to `output` in row groups; return the number of rows.

    Columns: id, object (JSON text or null), error_type, error_message, finish_reason (all strings),
    prompt_tokens, completion_tokens (int64). Raises MissingExtraError without pyarrow.
    """
    try:
        import pyarrow as pa  # pyright: ignore[reportMissingImports]
        import pyarrow.parquet as pq  # pyright: ignore[reportMissingImports]
    except ImportError as exc:
        raise MissingExtraError("writing Parquet", "parquet") from exc
    text = ("id", "object", "error_type", "error_message", "finish_reason")
    columns = [(name, pa.string()) for name in text] + [(n, pa.int64()) for n in ("prompt_tokens", "completion_tokens")]
    schema = pa.schema(columns)
    num_rows, group = 0, []
    staged = output.with_name(output.name + ".new")
    with pq.ParquetWriter(staged, schema) as writer:
        for _, row in read_rows(journal):
            error = row["error"] or {}
            group.append(
                {
                    "id": row["id"],
                    "object": None if row["error"] else json.dumps(row["object"], ensure_ascii=False),
                    "error_type": error.get("type"),
                    "error_message": error.get("message"),
                    "finish_reason": row["finish_reason"],
                    "prompt_tokens": row["usage"]["prompt_tokens"],
                    "completion_tokens": row["usage"]["completion_tokens"],
                }
            )
            num_rows += 1
            if len(group) >= _ROW_GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group = []
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
    staged.replace(output)
    return num_rows
