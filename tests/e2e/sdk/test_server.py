"""The HTTP server: the official clients over a socket, limits, keep-alives, cancellation, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
import uvicorn
from offseek.sdk.application import Application
from offseek.sdk.server import ServerOptions, create_app

Make = Callable[..., Application]
Serve = Callable[..., str]
Hold = Callable[[Any], Any]
MODEL = "deepseek-v4-pro"
USER: Any = [{"role": "user", "content": "hi"}]
BODY = {"model": MODEL, "messages": USER}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server for an application; returns its address."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(application: Application, **options: Any) -> str:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            create_app(application, ServerOptions(**options)), log_config=None, timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        running.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Give back a client that is closed behind the test: its idle connections would outlive it."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


def test_both_clients_work_over_http(v4_application: Make, serve: Serve, hold: Hold) -> None:
    url = serve(v4_application("I think.</think>Hello!"))
    client = hold(openai.OpenAI(api_key="unused", base_url=f"{url}/v1"))
    assert client.chat.completions.create(model=MODEL, messages=USER).choices[0].message.content == "Hello!"
    chunks = client.chat.completions.create(model=MODEL, messages=USER, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello!"
    assert client.responses.create(model=MODEL, input="hi").output_text == "Hello!"
    beta = hold(openai.OpenAI(api_key="unused", base_url=f"{url}/beta"))
    assert beta.completions.create(model=MODEL, prompt="x").choices[0].text.endswith("Hello!")
    messages = hold(anthropic.Anthropic(api_key="unused", base_url=f"{url}/anthropic"))
    with messages.messages.stream(model=MODEL, max_tokens=50, messages=USER) as stream:
        assert stream.get_final_text() == "Hello!"
    with pytest.raises(anthropic.BadRequestError):
        messages.messages.create(model="nope", max_tokens=50, messages=USER)
    with pytest.raises(openai.NotFoundError):
        client.get("/nowhere", cast_to=object)


def test_a_key_is_asked_for_when_configured(v4_application: Make, serve: Serve, hold: Hold) -> None:
    url = serve(v4_application(), api_keys=("sk-right-key-1234",))
    right = hold(openai.OpenAI(api_key="sk-right-key-1234", base_url=url))
    assert [m.id for m in right.models.list()] == [MODEL]
    wrong = hold(openai.OpenAI(api_key="sk-wrong-key-3750", base_url=url))
    with pytest.raises(openai.AuthenticationError, match=r"\*\*\*\*3750 is invalid"):
        wrong.models.list()
    by_header = hold(anthropic.Anthropic(api_key="sk-right-key-1234", base_url=f"{url}/anthropic"))
    assert [m.id for m in by_header.models.list()] == [MODEL]
    with pytest.raises(anthropic.AuthenticationError):
        hold(anthropic.Anthropic(api_key="no", base_url=f"{url}/anthropic")).models.list()
    assert httpx.get(f"{url}/health").status_code == 200


def test_fields_without_effect_are_named(v4_application: Make, serve: Serve) -> None:
    url = serve(v4_application())
    for stream in (False, True):
        reply = httpx.post(
            f"{url}/chat/completions", json=BODY | {"stream": stream, "top_k": 5, "metadata": {"a": "b"}}
        )
        assert reply.status_code == 200
        assert reply.headers["x-offseek-ignored"].split(", ") == ["/top_k", "/metadata"]
    assert "x-offseek-ignored" not in httpx.post(f"{url}/chat/completions", json=BODY).headers


def test_a_wrong_key_on_messages_has_the_envelope_on_every_base(v4_application: Make, serve: Serve) -> None:
    url = serve(v4_application(), api_keys=("sk-right-key-1234",))
    for path in ("/anthropic/v1/messages", "/v1/messages", "/anthropic/messages"):
        reply = httpx.post(url + path, json={}, headers={"x-api-key": "no"})
        assert (reply.status_code, reply.json()["type"]) == (401, "error")
    assert set(httpx.post(f"{url}/v1/chat/completions", json={}).json()) == {"error"}


def test_limits_answer_413_and_429(v4_application: Make, serve: Serve) -> None:
    application = v4_application("</think>" + "word " * 6000, step_s=0.01)
    url = serve(application, max_body_bytes=2000, max_concurrency=1)
    big = httpx.post(f"{url}/chat/completions", content=b"x" * 3000)
    assert (big.status_code, big.json()["error"]["type"]) == (413, "invalid_request_error")
    chunked = httpx.post(f"{url}/chat/completions", content=iter([b"x" * 1500, b"x" * 1500]))
    assert chunked.status_code == 413
    with httpx.stream("POST", f"{url}/chat/completions", json=BODY | {"stream": True}) as stream:
        pieces = stream.iter_bytes()  # kept: a dropped iterator closes the connection
        next(pieces)
        assert httpx.post(f"{url}/chat/completions", json=BODY, timeout=60).status_code == 429
    until(lambda: application.loops[0].num_requests == 0)


def test_silence_is_filled_with_keep_alives(v4_application: Make, serve: Serve, hold: Hold) -> None:
    url = serve(v4_application("</think>hello", step_s=0.4), keep_alive_s=0.1)
    plain = httpx.post(f"{url}/chat/completions", json=BODY, timeout=60)
    assert plain.text.startswith("\n")
    assert plain.json()["choices"][0]["message"]["content"] == "hello"
    with httpx.stream("POST", f"{url}/chat/completions", json=BODY | {"stream": True}, timeout=60) as stream:
        lines = list(stream.iter_lines())
    assert lines[0] == ": keep-alive"
    assert lines[-2] == "data: [DONE]" or "data: [DONE]" in lines
    client = hold(openai.OpenAI(api_key="unused", base_url=url))
    chunks = client.chat.completions.create(model=MODEL, messages=USER, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "hello"


def test_a_client_that_leaves_cancels_its_request(v4_application: Make, serve: Serve) -> None:
    application = v4_application("</think>" + "word " * 8000, step_s=0.002)
    url = serve(application)
    with httpx.stream("POST", f"{url}/chat/completions", json=BODY | {"stream": True}) as stream:
        pieces = stream.iter_bytes()  # kept: a dropped iterator closes the connection
        next(pieces)
        assert application.loops[0].num_requests == 1
    until(lambda: application.loops[0].num_requests == 0)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/chat/completions", json=BODY, timeout=httpx.Timeout(5, read=0.3))
    until(lambda: application.loops[0].num_requests == 0)


def test_metrics_and_health_tell_what_happened(v4_application: Make, serve: Serve) -> None:
    application = v4_application("</think>one two")
    url = serve(application)
    httpx.post(f"{url}/v1/chat/completions", json=BODY)
    httpx.post(f"{url}/v1/chat/completions", json={})
    httpx.get(f"{url}/{'x' * 50}")
    page = httpx.get(f"{url}/metrics").text
    assert 'offseek_requests_total{route="/chat/completions",status="200"} 1.0' in page
    assert 'offseek_requests_total{route="/chat/completions",status="422"} 1.0' in page
    assert 'offseek_requests_total{route="other",status="404"} 1.0' in page
    assert 'offseek_tokens_total{kind="completion"} 3.0' in page
    assert httpx.get(f"{url}/health").json() == {"status": "ok", "models": [MODEL]}
    application.close()
    assert httpx.get(f"{url}/health").status_code == 503
    stopped = httpx.post(f"{url}/v1/chat/completions", json=BODY)
    assert (stopped.status_code, stopped.json()["error"]["type"]) == (503, "service_unavailable_error")


def test_many_streams_at_once_all_finish(v4_application: Make, serve: Serve) -> None:
    url = serve(v4_application("</think>" + "word " * 20, max_batch=64))

    async def one(client: httpx.AsyncClient) -> str:
        text = ""
        async with client.stream("POST", f"{url}/chat/completions", json=BODY | {"stream": True}) as stream:
            async for raw in stream.aiter_lines():
                if raw.startswith("data: {"):
                    text += json.loads(raw[6:])["choices"][0]["delta"].get("content") or ""
        return text

    async def run() -> list[str]:
        async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=64)) as client:
            return await asyncio.gather(*(one(client) for _ in range(64)))

    assert set(asyncio.run(run())) == {"word " * 20}


def until(condition: Callable[[], bool], *, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
