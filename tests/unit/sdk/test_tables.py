"""Documents from the real pandas, polars, datasets and pyarrow, and Parquet output."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from offseek.sdk.documents import InputError, read_documents
from offseek.sdk.extraction import Extractor
from offseek.sdk.job import run_job
from offseek.sdk.parquet import write_parquet

ROWS = {"id": [7, 8], "text": ["one ü", "two"], "place": ["Rome", None]}


def pandas_frame() -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS)


def polars_frame() -> Any:
    return pytest.importorskip("polars").DataFrame(ROWS)


def dataset() -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(ROWS)


def streamed_dataset() -> Any:
    return dataset().to_iterable_dataset()


@pytest.mark.parametrize("table", [pandas_frame, polars_frame, dataset, streamed_dataset])
def test_tables_are_read_by_row(table: Callable[[], Any]) -> None:
    found = list(read_documents(table()))
    assert [(document.id, document.text) for document in found] == [("7", "one ü"), ("8", "two")]
    assert [document.fields["place"] for document in found] == ["Rome", None]


def test_a_missing_id_in_a_pandas_frame_is_no_id() -> None:
    pandas = pytest.importorskip("pandas")
    found = list(read_documents(pandas.DataFrame({"id": ["a", None], "text": ["x", "y"]})))
    assert found[0].id == "a"
    assert found[1].id not in ("a", "nan", "None")
    with pytest.raises(InputError, match="'text' is NoneType"):
        list(read_documents(pandas.DataFrame({"text": ["x", None]})))


def test_parquet_is_read_and_written(tmp_path: pathlib.Path, byte_model: Any, word_schema: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": ["p", "q"], "text": ["hello world", "  "]}), tmp_path / "in.parquet")
    journal, out = tmp_path / "out.jsonl", tmp_path / "out.parquet"
    run_job(Extractor(byte_model(), word_schema), read_documents(tmp_path / "in.parquet"), journal)
    assert write_parquet(journal, out) == 2
    rows = pq.read_table(out).to_pylist()
    assert [row["id"] for row in rows] == ["p", "q"]
    assert json.loads(rows[0]["object"]) == {"word": "hello", "length": 5}
    assert (rows[1]["object"], rows[1]["error_type"]) == (None, "empty_document")
