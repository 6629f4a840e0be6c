from __future__ import annotations

import json
import pathlib

import pytest
from offseek.sdk.errors import JournalError
from offseek.sdk.journal import Journal, encode_row

ROWS = [{"id": "1", "ok": True}, {"id": "2", "text": "世"}]


def write(path: pathlib.Path, data: bytes) -> pathlib.Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("cut", range(1, len(encode_row(ROWS[1]))))
def test_a_last_line_torn_at_any_byte_is_repaired(tmp_path: pathlib.Path, cut: int) -> None:
    whole, torn = encode_row(ROWS[0]), encode_row(ROWS[1])[:cut]
    path = write(tmp_path / "out.jsonl", whole + torn)
    with Journal(path, resume=True) as journal:
        journal.append([{"id": "3"}])
    complete = cut == len(encode_row(ROWS[1])) - 1  # only the newline was missing
    ids = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    assert ids == (["1", "2", "3"] if complete else ["1", "3"])


def test_a_bad_line_in_the_middle_is_named_and_the_file_untouched(tmp_path: pathlib.Path) -> None:
    data = encode_row(ROWS[0]) + b'{"id":\n' + encode_row(ROWS[1])
    path = write(tmp_path / "out.jsonl", data)
    with Journal(path, resume=True) as journal, pytest.raises(JournalError, match="line 2") as caught:
        list(journal.rows())
    assert caught.value.line == 2
    assert path.read_bytes() == data


def test_an_existing_file_needs_a_decision(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "out.jsonl", encode_row(ROWS[0]))
    with pytest.raises(JournalError, match="--resume"):
        Journal(path)
    Journal(path, overwrite=True).close()
    assert path.read_bytes() == b""


def test_a_second_writer_is_refused(tmp_path: pathlib.Path) -> None:
    with Journal(tmp_path / "out.jsonl"), pytest.raises(JournalError, match="another process"):
        Journal(tmp_path / "out.jsonl", resume=True)


def test_dropped_rows_leave_the_others_in_order(tmp_path: pathlib.Path) -> None:
    with Journal(tmp_path / "out.jsonl") as journal:
        journal.append({"id": str(i)} for i in range(5))
        assert journal.drop(lambda row: row["id"] in ("1", "3")) == 2
        journal.append([{"id": "9"}])
        assert [row["id"] for row in journal.rows()] == ["0", "2", "4", "9"]


def test_a_lone_surrogate_is_written_as_an_escape(tmp_path: pathlib.Path) -> None:
    with Journal(tmp_path / "out.jsonl") as journal:
        journal.append([{"id": "\ud800"}])
        assert list(journal.rows()) == [{"id": "\ud800"}]
