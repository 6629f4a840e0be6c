"""Reports from the field (`tests/data/field-reports.jsonl.gz`), components sdk and batch: each one must stay mended."""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from offseek.engine.request import GenerationRequest
from offseek.sdk.application.errors import ApiError
from offseek.sdk.application.extensions import split_body
from offseek.sdk.application.protocols import CHAT
from offseek.sdk.documents import Document
from offseek.sdk.extraction import Extractor
from offseek.sdk.job import run_job
from offseek.sdk.journal import Journal
from offseek.sdk.prompts import Turn
from offseek.sdk.scripted import ScriptedEngine
from pydantic import BaseModel

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "field-reports.jsonl.gz"
with gzip.open(DATA, "rt", encoding="utf-8") as _lines:
    REPORTS = [json.loads(line) for line in _lines]
OURS = {report["id"]: report for report in REPORTS if report["component"] in ("sdk", "batch")}


class Bytes:
    """An ExtractionModel of bytes; keeps the prompts it saw."""

    name = "bytes"

    def __init__(self, reply: Callable[[str], str]) -> None:
        self.prompts: list[str] = []

        def script(request: GenerationRequest) -> list[int]:
            self.prompts.append(bytes(request.prompt_token_ids).decode())
            return list(reply(self.prompts[-1]).encode())

        self.engine = ScriptedEngine(script, context_length=100_000, tokens_per_step=64)

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        return list("\n".join(turn.text for turn in turns).encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode()

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])

    def compile_schema(self, schema: Any, **layout: Any) -> Any:
        self.schema = schema
        return None


class Action(BaseModel):
    element_id: str
    description: str
    method: Literal["click", "fill"]
    arguments: list[str]


def sdk_limit_name_not_ignored(report: Any, folder: pathlib.Path) -> None:
    first, second, third = report["input"]["requests"]
    for body in (first, second):
        for_recipe, _ = split_body(CHAT, json.dumps(body).encode())
        limits = for_recipe if isinstance(for_recipe, dict) else json.loads(for_recipe)
        assert limits["max_tokens"] == 7
    with pytest.raises(ApiError, match="contradict"):
        split_body(CHAT, json.dumps(third).encode())


def sdk_pydantic_shapes(report: Any, folder: pathlib.Path) -> None:
    good = {"element_id": "7", "description": "d", "method": "click", "arguments": []}
    model = Bytes(lambda prompt: json.dumps(good if "first" in prompt else good | {"method": "drag"}))
    job = Extractor(model, Action)
    rows = list(job.run([Document("a", "first"), Document("b", "second")]))
    assert "JSON" in model.prompts[0]
    assert list(model.schema["properties"]) == ["element_id", "description", "method", "arguments"]
    assert model.prompts[0].index("element_id") < model.prompts[0].index("arguments")
    assert model.schema["properties"]["method"]["enum"] == ["click", "fill"]
    assert isinstance(Action.model_validate(rows[0].object), Action)
    assert rows[1].object is None


def batch_torn_last_line(report: Any, folder: pathlib.Path) -> None:
    given = report["input"]["results_file_bytes"].encode().decode("unicode_escape").encode("latin-1")
    path = folder / "results.jsonl"
    path.write_bytes(given)
    ids = report["input"]["input_ids"]
    with Journal(path, resume=True) as journal:
        done = {row["custom_id"] for row in journal.rows()}
        again = [name for name in ids if name not in done]
        assert again == report["expected"]["runs_again"]
        journal.append({"custom_id": name, "ok": True} for name in again)
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == ids
    assert path.read_bytes().endswith(b"\n")


def batch_resume_repeats_only_failures(report: Any, folder: pathlib.Path) -> None:
    """The extraction job's side; `tests/e2e/sdk/test_batch.py` has the batch job's."""
    busy = True

    def reply(prompt: str) -> str:
        if "doc b" in prompt and busy:
            raise RuntimeError("rate limit")
        return "[]" if "doc c" in prompt else '{"x": 1}'

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    documents = [Document(name, f"doc {name}") for name in report["input"]["inputs"]]
    path = folder / "out.jsonl"
    run_job(Extractor(Bytes(reply), schema), documents[:3], path)
    busy = False
    model = Bytes(reply)
    summary = run_job(Extractor(model, schema), documents, path, resume=True)
    ran = [prompt.split("doc ")[1][0] for prompt in model.prompts]
    assert ran == report["expected"]["runs"]
    assert summary.num_rows == report["expected"]["final_counts"]["total"]
    assert summary.num_ok == report["expected"]["final_counts"]["ok"]
    names = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert sorted(names) == report["input"]["inputs"]


CHECKS = {
    "sdk-limit-name-not-ignored": sdk_limit_name_not_ignored,
    "sdk-pydantic-shapes": sdk_pydantic_shapes,
    "batch-torn-last-line": batch_torn_last_line,
    "batch-resume-repeats-only-failures": batch_resume_repeats_only_failures,
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_reported_fault_stays_mended(name: str, tmp_path: pathlib.Path) -> None:
    CHECKS[name](OURS[name], tmp_path)
