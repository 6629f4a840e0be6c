from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from offseek.sdk.documents import Document
from offseek.sdk.errors import JournalError
from offseek.sdk.extraction import ExtractionOptions, Extractor
from offseek.sdk.job import run_job

Make = Callable[..., Any]
DOCUMENTS = [Document(f"d{i}", f"{'ab' * (i % 9 + 1)} x") for i in range(40)]


@pytest.fixture
def job(byte_model: Make, word_schema: Any) -> Extractor:
    return Extractor(byte_model(), word_schema, options=ExtractionOptions(batch_size=4))


def rows_of(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_job_stopped_after_any_row_resumes_to_the_same_file(tmp_path: pathlib.Path, job: Extractor) -> None:
    whole = tmp_path / "whole.jsonl"
    run_job(job, DOCUMENTS, whole)
    data = whole.read_bytes()
    lines = data.splitlines(keepends=True)
    for kept in (0, 1, 17, 39, 40):
        path = tmp_path / "stopped.jsonl"
        torn = lines[kept][:9] if kept < 40 else b""
        path.write_bytes(b"".join(lines[:kept]) + torn)
        summary = run_job(job, DOCUMENTS, path, resume=True)
        assert path.read_bytes() == data
        assert (summary.num_resumed, summary.num_rows, summary.num_failed) == (kept, 40, 0)


def test_resume_repeats_passing_failures_and_keeps_lasting_ones(
    tmp_path: pathlib.Path, byte_model: Make, word_schema: Any
) -> None:
    broken = True

    def reply(prompt: str) -> str:
        if "passing" in prompt and broken:
            raise RuntimeError("busy")
        return "[]" if "lasting" in prompt else '{"word": "x", "length": 1}'

    job = Extractor(byte_model(reply), word_schema)
    documents = [Document("a", "good"), Document("b", "passing"), Document("c", "lasting")]
    path = tmp_path / "out.jsonl"
    first = run_job(job, documents, path)
    assert (first.num_ok, first.failures) == (1, {"engine_error": 1, "invalid_object": 1})
    broken = False
    second = run_job(job, [*documents, Document("d", "good")], path, resume=True)
    assert (second.num_ok, second.failures, second.num_resumed) == (3, {"invalid_object": 1}, 2)
    assert [r["id"] for r in rows_of(path)] == ["a", "c", "b", "d"]
    third = run_job(job, documents, path, resume=True, retry_failed=True)
    assert third.num_resumed == 3
    assert sorted(r["id"] for r in rows_of(path)) == ["a", "b", "c", "d"]


def test_another_job_may_not_continue_the_file(
    tmp_path: pathlib.Path, job: Extractor, byte_model: Make, word_schema: Any
) -> None:
    path = tmp_path / "out.jsonl"
    run_job(job, DOCUMENTS, path)
    word_schema["properties"]["length"]["minimum"] = 0
    other = Extractor(byte_model(), word_schema, options=ExtractionOptions(batch_size=4))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another schema"):
        run_job(other, DOCUMENTS, path, resume=True)
    assert path.read_bytes() == before
    assert run_job(other, DOCUMENTS, path, overwrite=True).num_ok == 40


@pytest.mark.parametrize("line", ['{"custom_id": "x"}', '{"id": "d0", "object": {}, "error": null}'])
def test_a_file_of_another_kind_is_refused(tmp_path: pathlib.Path, job: Extractor, line: str) -> None:
    path = tmp_path / "out.jsonl"
    run_job(job, DOCUMENTS[:1], path)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(JournalError, match="line 2"):
        run_job(job, DOCUMENTS, path, resume=True)


def test_the_manifest_names_what_made_the_rows(tmp_path: pathlib.Path, job: Extractor) -> None:
    run_job(job, DOCUMENTS[:1], tmp_path / "out.jsonl")
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["model"] == "bytes"
    assert manifest["options"]["seed"] == 0
    assert manifest["versions"]["offseek"]
    assert len(manifest["schema_sha256"]) == 64
