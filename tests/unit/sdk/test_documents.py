from __future__ import annotations

import json
import pathlib

import pytest
from offseek.sdk.documents import Document, read_documents
from offseek.sdk.errors import InputError


def test_a_folder_gives_its_text_files_sorted_with_relative_ids(tmp_path: pathlib.Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.md").write_text("one")
    (tmp_path / "a.txt").write_text("two")
    (tmp_path / "c.bin").write_bytes(b"\x00")
    assert [(d.id, d.text) for d in read_documents(tmp_path)] == [("a.txt", "two"), ("b/x.md", "one")]


def test_jsonl_rows_keep_their_ids_and_other_columns(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": 7, "text": "a", "lang": "de"}\n\n"bare"\n{"text": "c"}\n')
    assert list(read_documents(path)) == [
        Document("7", "a", {"lang": "de"}),
        Document("in.jsonl:3", "bare", {}),
        Document("in.jsonl:4", "c", {}),
    ]


def test_csv_columns_are_picked_by_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('key,body\r\nk1,"line 1\nline 2"\r\nk2,x\r\n')
    found = list(read_documents(path, text_field="body", id_field="key"))
    assert found == [Document("k1", "line 1\nline 2", {}), Document("k2", "x", {})]


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text":', 2, "not JSON"),
        ("a.jsonl", b"[1]\n", 1, "JSON object or a string"),
        ("a.jsonl", b'{"body": "x"}\n', 1, "no column 'text' \\(columns: 'body'\\)"),
        ("a.jsonl", b'{"text": 5}\n', 1, "is int, not text"),
        ("a.jsonl", b'{"text": "x", "id": [1]}\n', 1, "is list, not text or integer"),
        ("a.csv", b"text\nx,y\n", 2, "more cells than columns"),
        ("a.txt", b"\xff\xfe", None, "not UTF-8"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(
    tmp_path: pathlib.Path, name: str, content: bytes, line: int | None, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(read_documents(path))
    assert caught.value.line == line
    assert str(path) in str(caught.value)


def test_an_id_that_occurs_twice_is_refused() -> None:
    rows = [{"id": "a", "text": "1"}, {"id": "a", "text": "2"}]
    with pytest.raises(InputError, match="'a' occurs twice"):
        list(read_documents(rows))


def test_a_missing_path_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_documents(tmp_path / "nowhere.txt"))


class Frame:
    """The two shapes of frames that are read without importing their library."""

    columns = ("id", "text")

    def __init__(self, kind: str) -> None:
        rows = [("p", "x"), ("q", "y")]
        if kind == "polars":
            self.iter_rows = lambda named: (dict(zip(self.columns, r, strict=True)) for r in rows)
        else:
            self.itertuples = lambda index, name: iter(rows)


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_frames_are_read_by_row(kind: str) -> None:
    assert [(d.id, d.text) for d in read_documents(Frame(kind))] == [("p", "x"), ("q", "y")]


def test_reading_is_lazy() -> None:
    def rows() -> object:
        yield {"text": "x"}
        raise AssertionError("read ahead")

    assert next(read_documents(rows())).text == "x"


def test_many_paths_are_read_in_the_given_order(tmp_path: pathlib.Path) -> None:
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "t", "id": "c"}))
    found = read_documents([tmp_path / "b.txt", tmp_path / "a.txt", tmp_path / "c.jsonl"])
    assert [d.id for d in found] == ["b.txt", "a.txt", "c"]
