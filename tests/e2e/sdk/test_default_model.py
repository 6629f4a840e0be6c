"""Every endpoint, plain and streamed, and extraction, through the real default model."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from offseek.sdk.application import Application
from offseek.sdk.extraction import ExtractionOptions, extract
from offseek.sdk.model import ChatModel
from offseek.sdk.transports import OffseekTransport
from pydantic import BaseModel

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(900)]
MODEL = "smollm2"
USER: Any = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


@pytest.fixture(scope="module")
def client(default_application: Application) -> openai.OpenAI:
    http = httpx2.Client(transport=OffseekTransport(default_application))
    return openai.OpenAI(api_key="unused", base_url="https://x/v1", http_client=http, max_retries=0)


@pytest.fixture(scope="module")
def claude(default_application: Application) -> anthropic.Anthropic:
    http = httpx2.Client(transport=OffseekTransport(default_application))
    return anthropic.Anthropic(api_key="unused", base_url="https://x/anthropic", http_client=http, max_retries=0)


def test_chat_plain_and_streamed(client: openai.OpenAI) -> None:
    settings: Any = {"model": MODEL, "messages": USER, "temperature": 0, "max_tokens": 24}
    plain = client.chat.completions.create(**settings)
    assert "Paris" in (plain.choices[0].message.content or "")
    chunks = list(client.chat.completions.create(stream=True, **settings))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens


def test_completions_plain_and_streamed(client: openai.OpenAI) -> None:
    settings: Any = {"model": MODEL, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}
    plain = client.completions.create(**settings)
    assert "Paris" in plain.choices[0].text
    chunks = list(client.completions.create(stream=True, **settings))
    assert "".join(c.choices[0].text for c in chunks) == plain.choices[0].text
    with pytest.raises(openai.BadRequestError, match="smollm2-135m-instruct does not support a suffix"):
        client.completions.create(model=MODEL, prompt="a", suffix="b")


def test_responses_plain_and_streamed(client: openai.OpenAI) -> None:
    settings: Any = {"model": MODEL, "input": USER[0]["content"], "temperature": 0, "max_output_tokens": 24}
    plain = client.responses.create(**settings)
    assert "Paris" in plain.output_text
    with client.responses.stream(**settings) as stream:
        assert stream.get_final_response().output_text == plain.output_text


def test_messages_plain_and_streamed(claude: anthropic.Anthropic) -> None:
    extra = {"temperature": 0}  # no longer an argument of the newest client
    settings: Any = {"model": MODEL, "messages": USER, "max_tokens": 24, "extra_body": extra}
    plain: Any = claude.messages.create(**settings)
    assert "Paris" in plain.content[0].text
    with claude.messages.stream(**settings) as stream:
        assert stream.get_final_text() == plain.content[0].text


class Person(BaseModel):
    name: str
    age: int


def test_parse_returns_the_pydantic_object(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Marie Curie was 66 years old. Give her name and age."}]
    reply = client.chat.completions.parse(
        model=MODEL, messages=messages, response_format=Person, temperature=0, max_tokens=60
    )
    person = reply.choices[0].message.parsed
    assert isinstance(person, Person)
    assert (reply.choices[0].finish_reason, person.age) == ("stop", 66)
    with client.chat.completions.stream(
        model=MODEL, messages=messages, response_format=Person, temperature=0, max_tokens=60
    ) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == person


@pytest.mark.parametrize(
    ("wanted", "check"),
    [
        ({"type": "json_object"}, lambda text: isinstance(json.loads(text), dict)),
        ({"type": "regex", "regex": "(yes|no), [0-9]{3}"}, lambda text: text[-3:].isdigit()),
        ({"type": "ebnf", "ebnf": 'root ::= "<" ("red" | "blue") ">"'}, lambda text: text in ("<red>", "<blue>")),
    ],
    ids=["json_object", "regex", "ebnf"],
)
def test_response_formats_are_enforced(client: openai.OpenAI, wanted: Any, check: Any) -> None:
    messages: Any = [{"role": "user", "content": "Say something short as json."}]
    reply = client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=200, extra_body={"response_format": wanted}
    )
    if reply.choices[0].finish_reason == "stop":
        assert check(reply.choices[0].message.content)
    else:  # an open object may run on; a cut answer says so
        assert wanted["type"] == "json_object"
        assert reply.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"thinking": {"type": "enabled"}}, "does not support thinking"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
            "does not support tools",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "image"),
        ({"response_format": {"type": "regex", "regex": "(a"}}, ""),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": []}}}},
            "",
        ),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(client: openai.OpenAI, body: Any, message: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=body.pop("messages", USER), max_tokens=5, extra_body=body)
    assert message in caught.value.message


def test_extraction_gives_objects_of_the_class(default_model: ChatModel) -> None:
    rows = list(
        extract(
            [
                {"id": "a", "text": "Anna is 34 years old and lives in Rome."},
                {"id": "b", "text": "My name is Tom. I am 61 years old."},
            ],
            Person,
            model=default_model,
            options=ExtractionOptions(max_tokens=80),
        )
    )
    assert [row.id for row in rows] == ["a", "b"]
    assert all(row.ok for row in rows)
    assert [row.object["age"] for row in rows] == [34, 61]


@pytest.mark.nightly
def test_a_killed_extraction_resumes_to_the_unbroken_result(tmp_path: pathlib.Path) -> None:
    killed_and_whole(tmp_path, num_documents=40, kills=3)


def test_one_kill_of_an_extraction_loses_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    killed_and_whole(tmp_path, num_documents=8, kills=1)


def killed_and_whole(folder: pathlib.Path, *, num_documents: int, kills: int) -> None:
    """Batch shape fixed and numerics batch-invariant (`EngineConfig(deterministic=True)`), so rows are comparable."""
    script = folder / "job.py"
    script.write_text(JOB)
    whole, out = folder / "whole.jsonl", folder / "killed.jsonl"
    count = str(num_documents)
    subprocess.run([sys.executable, str(script), str(whole), count], check=True)
    for _ in range(kills):
        size = out.stat().st_size if out.exists() else 0
        process = subprocess.Popen([sys.executable, str(script), str(out), count])
        while process.poll() is None and (not out.exists() or out.stat().st_size <= size):
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = len(out.read_text().splitlines())
    subprocess.run([sys.executable, str(script), str(out), count], check=True)
    assert out.read_text() == whole.read_text()
    assert before < num_documents  # it really was stopped on the way
    assert len(out.read_text().splitlines()) == num_documents


JOB = """
import sys
from offseek.engine import EngineConfig
from offseek.sdk import Document, ExtractionOptions, Extractor, job, run_job
from offseek.sdk.model import ChatModel

job.FLUSH_ROWS = 1
schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer",
          "minimum": 0, "maximum": 120}}, "required": ["name", "age"]}
names = ["Anna", "Bob", "Carla", "Dmitri", "Eve", "Farid", "Gwen", "Hugo"]
documents = [Document(f"d{i}", f"{names[i % 8]} is {20 + i} years old.") for i in range(int(sys.argv[2]))]
model = ChatModel.load("default", config=EngineConfig(deterministic=True, max_num_sequences=4))
extractor = Extractor(model, schema, options=ExtractionOptions(max_tokens=40, batch_size=4, temperature=0.7, seed=3))
run_job(extractor, documents, sys.argv[1], resume=True)
"""
