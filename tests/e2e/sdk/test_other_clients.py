"""Libraries built on the official clients, against a real socket: langchain-openai here, instructor in its own venv.

instructor pins older releases of `openai` and `rich` than the ones this project is tested with, hence the venv.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from offseek.sdk.application import Application
from offseek.sdk.server import create_app
from pydantic import BaseModel

MODEL = "deepseek-v4-pro"


class City(BaseModel):
    name: str
    people: int


@pytest.fixture
def address(v4_application: Callable[..., Application]) -> Iterator[str]:
    def reply(prompt: str) -> str:
        return "</think>" + ('{"name": "Rome", "people": 3}' if "Response Format" in prompt else "Hello!")

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(v4_application(reply)), log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    server.should_exit = True
    thread.join(10)


@pytest.mark.skipif(importlib.util.find_spec("langchain_openai") is None, reason="langchain-openai is not installed")
def test_langchain_chat_stream_and_structured_output(address: str) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=MODEL, base_url=address, api_key="unused")  # type: ignore[arg-type]
    with contextlib.closing(chat.root_client):  # its idle connections would outlive the test
        assert chat.invoke("hi").content == "Hello!"
        assert "".join(str(chunk.content) for chunk in chat.stream("hi")) == "Hello!"
        structured = chat.with_structured_output(City, method="json_schema")
        assert structured.invoke("Which city?") == City(name="Rome", people=3)


INSTRUCTOR = """
import sys, instructor, openai
from pydantic import BaseModel
class City(BaseModel):
    name: str
    people: int
client = instructor.from_openai(openai.OpenAI(base_url=sys.argv[1], api_key="unused"), mode=instructor.Mode.JSON_SCHEMA)
city = client.chat.completions.create(model="deepseek-v4-pro", response_model=City,
                                      messages=[{"role": "user", "content": "Which city?"}])
assert isinstance(city, City) and city.model_dump() == {"name": "Rome", "people": 3}, city
*_, last = client.chat.completions.create_partial(model="deepseek-v4-pro", response_model=City,
                                                  messages=[{"role": "user", "content": "Which city?"}])
assert last.model_dump() == {"name": "Rome", "people": 3}, last
"""


@pytest.mark.nightly
def test_instructor_gives_the_pydantic_object(address: str, tmp_path: pathlib.Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "instructor"], check=True)
    subprocess.run([str(python), "-c", INSTRUCTOR, address], check=True)
