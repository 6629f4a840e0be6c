"""The command line: help, exit codes, and errors for people and for machines. No model is loaded here."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

SCHEMA = '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}'


def offseek(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    code = "from offseek.sdk.cli import main; main()"
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"} | environment
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, input=stdin, env=env, check=False
    )


@pytest.mark.parametrize(
    "command",
    [("encode",), ("decode",), ("grammar", "check"), ("extract",), ("batch",), ("serve",), ("models", "install")],
    ids=" ".join,
)
def test_every_command_has_a_help_screen_with_an_example(command: tuple[str, ...]) -> None:
    done = offseek(*command, "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout
    assert "--json" in done.stdout


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, str]:
    paths = {"schema": "s.json", "bad": "bad.json", "doc": "d.txt", "rows": "r.jsonl", "out": "o.jsonl"}
    full = {name: str(tmp_path / path) for name, path in paths.items()}
    pathlib.Path(full["schema"]).write_text(SCHEMA)
    pathlib.Path(full["bad"]).write_text('{"properties": {"a": {"type": "strin"}}}')
    pathlib.Path(full["doc"]).write_text("hello")
    pathlib.Path(full["rows"]).write_text('{"text": "x"}\n{"text": 5}\n')
    return full


@pytest.mark.parametrize(
    ("schema", "source", "options", "code", "message"),
    [
        ("bad", "doc", (), 2, "#/properties/a/type"),
        ("nowhere", "doc", (), 2, "no such file"),
        ("schema", "rows", (), 2, "line 2: column 'text' is int"),
        ("schema", "nowhere", (), 2, "no such file or folder"),
        ("schema", "doc", ("--whitespace", "wide"), 2, "'wide' is not one of"),
        ("schema", "doc", ("--template", "no place"), 2, "must contain {document}"),
        ("schema", "doc", ("--model", "no-such-model"), 3, "no-such-model"),
    ],
)
def test_what_cannot_run_is_told_before_a_model_is_loaded(
    files: dict[str, str], schema: str, source: str, options: tuple[str, ...], code: int, message: str
) -> None:
    arguments = ("--schema", files.get(schema, "nowhere.json"), "--input", files.get(source, "nowhere"))
    done = offseek("extract", *arguments, "--output", files["out"], *options)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_model_says_what_to_install(files: dict[str, str], tmp_path: pathlib.Path) -> None:
    arguments = ("--schema", files["schema"], "--input", files["doc"], "--output", files["out"])
    done = offseek("extract", *arguments, OFFSEEK_MODELS=str(tmp_path / "none"))
    assert done.returncode == 3
    assert "offseek models install" in done.stderr


def test_errors_are_json_when_asked_for(files: dict[str, str]) -> None:
    arguments = ("--schema", files["bad"], "--input", files["doc"], "--output", files["out"])
    done = offseek("extract", *arguments, "--json")
    error: Any = json.loads(done.stderr)["error"]
    assert (error["type"], error["pointer"]) == ("SchemaSourceError", "#/properties/a/type")


def test_the_output_may_not_be_an_input(files: dict[str, str]) -> None:
    arguments = ("--schema", files["schema"], "--input", files["doc"], "--output", files["doc"])
    done = offseek("extract", *arguments, "--overwrite")
    assert (done.returncode, pathlib.Path(files["doc"]).read_text()) == (2, "hello")


def test_models_list_is_json(tmp_path: pathlib.Path) -> None:
    done = offseek("models", "list", "--json", OFFSEEK_MODELS=str(tmp_path))
    (model,) = json.loads(done.stdout)["models"]
    assert (model["default"], model["installed"]) == (True, False)
