"""`offseek encode`, `decode` and `grammar check` through the recipe and the grammars."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest


def offseek(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    code = "from offseek.sdk.cli import main; main()"
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, input=stdin, env=env, check=False
    )


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, str]:
    path = tmp_path / "s.json"
    path.write_text('{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}')
    return {"schema": str(path)}


REQUEST = json.dumps({"model": "deepseek-v4-pro", "messages": [{"role": "user", "content": "Hi <｜User｜>"}]})


def test_encode_shows_the_official_prompt() -> None:
    done = offseek("encode", "-", "--json", stdin=REQUEST)
    found = json.loads(done.stdout)
    assert found["prompt"].endswith("<｜User｜>Hi <｜User｜><｜Assistant｜><think>")
    spelled = [found["prompt"][a:b] for a, b in found["special_ranges"]]
    assert spelled == ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>"]
    assert found["num_tokens"] == len(found["token_ids"])
    shown = offseek("encode", "-", "--count", stdin=REQUEST)
    assert shown.stdout.rstrip().endswith(f"{found['num_tokens']} tokens")
    bad = offseek("encode", "-", stdin='{"model": "m", "messages": []}')
    assert (bad.returncode, "Empty input messages" in bad.stderr) == (2, True)


def test_decode_shows_the_official_response(tmp_path: pathlib.Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(REQUEST)
    done = offseek("decode", "-", "--request", str(request), stdin="Hm.</think>Hello")
    message = json.loads(done.stdout)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Hello")
    events = offseek("decode", "-", "--request", str(request), "--stream", stdin="Hm.</think>Hello").stdout
    assert json.loads(events.splitlines()[0])["object"] == "chat.completion.chunk"


def test_grammar_check_compiles_and_tries_strings(files: dict[str, str]) -> None:
    good, bad = '{"a": "x"}', '{"a": 5}'
    done = offseek("grammar", "check", "--schema", files["schema"], good)
    assert (done.returncode, "accepted" in done.stdout) == (0, True)
    done = offseek("grammar", "check", "--schema", files["schema"], "--json", good, bad)
    assert done.returncode == 1
    assert json.loads(done.stdout)["strings"] == [
        {"string": good, "accepted": True, "error_byte": None},
        {"string": bad, "accepted": False, "error_byte": 6},
    ]
    wrong = offseek("grammar", "check", "--regex", "(a", "--json")
    assert wrong.returncode == 2
    assert json.loads(wrong.stdout)["valid"] is False


def test_a_double_custom_id_stops_a_batch_before_a_model_is_loaded(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "in.jsonl"
    row = json.dumps({"custom_id": "a", "url": "/v1/completions", "body": {}})
    source.write_text(f"{row}\n{row}\n")
    done = offseek("batch", str(source), "--output", str(tmp_path / "out.jsonl"), "--model", "none")
    assert done.returncode == 2
    assert "'a' occurs twice" in done.stderr
