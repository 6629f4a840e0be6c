"""A batch on the real default model that is killed again and again ends with the results of an unbroken run.

Rows of all endpoints, sampled with a seed, in deterministic mode: what else runs in the same step then makes no
difference, so the rows that a resumed job runs in other company come out the same.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

JOB = """
import sys
from offseek.engine import EngineConfig
from offseek.sdk.application import Application
from offseek.sdk.batch import BatchOptions, job, run_batch
from offseek.sdk.model import ChatModel

job.FLUSH_ROWS = 1

def factory():
    model = ChatModel.load("default", config=EngineConfig(deterministic=True, max_num_sequences=8))
    return Application({"smollm2": model})

run_batch(sys.argv[1], sys.argv[2], factory, options=BatchOptions(seed=7, max_in_flight=12), resume=True)
"""
SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["age"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "age", "schema": SCHEMA, "strict": True}}
# Differ between runs by nature: names, clocks, and what happened to be in the prefix cache.
VOLATILE = {
    *("id", "request_id", "created", "created_at", "completed_at", "input_tokens", "cache_read_input_tokens"),
    *("prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "prompt_tokens_details", "input_tokens_details"),
}


def request(number: int) -> dict[str, Any]:
    text = f"Person {number} is {20 + number % 60} years old. How old is person {number}?"
    chat = {"messages": [{"role": "user", "content": text}], "max_tokens": 14}
    url, body = [
        ("/v1/chat/completions", chat | {"response_format": FORMAT}),
        ("/v1/chat/completions", chat),
        ("/v1/completions", {"prompt": text, "max_tokens": 10}),
        ("/v1/responses", {"input": text, "max_output_tokens": 10}),
        ("/v1/messages", chat),
    ][number % 5]
    settings = {"model": "smollm2", "temperature": 0.8}
    return {"custom_id": f"r{number}", "method": "POST", "url": url, "body": settings | body}


def lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in VOLATILE}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def results(path: pathlib.Path) -> list[Any]:
    return [lasting(json.loads(line)) for line in path.read_text().splitlines()]


def journal_size(out: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in out.with_name(out.name + ".journal").glob("journal-*"))


@pytest.mark.model
@pytest.mark.parametrize(
    ("num_rows", "num_kills"),
    [
        pytest.param(10, 1, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
        pytest.param(200, 5, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)]),
    ],
)
def test_kills_change_no_result(tmp_path: pathlib.Path, num_rows: int, num_kills: int) -> None:
    script, source = tmp_path / "job.py", tmp_path / "in.jsonl"
    script.write_text(JOB)
    source.write_text("".join(json.dumps(request(number)) + "\n" for number in range(num_rows)))
    whole, out = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    subprocess.run([sys.executable, str(script), str(source), str(whole)], check=True)
    expected = results(whole)
    assert [row["custom_id"] for row in expected] == [f"r{number}" for number in range(num_rows)]
    kills = 0
    for kill in range(num_kills):
        # The kills are spread over the job: each waits for its share of the results.
        goal = journal_size(whole) * (kill + 1) // (num_kills + 1)
        process = subprocess.Popen([sys.executable, str(script), str(source), str(out)])
        while process.poll() is None and journal_size(out) < goal:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert not out.exists()  # stopped every time before it was done
    subprocess.run([sys.executable, str(script), str(source), str(out)], check=True)
    assert results(out) == expected
    assert kills == num_kills
    print(f"{num_rows} rows, {kills} kills: every result equal")
