"""The engine thread: many callers, failures and cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from offseek.engine.request import GenerationRequest, RequestOutput
from offseek.sdk.errors import ClientError
from offseek.sdk.loop import ClosedError, EngineLoop, QueueFullError
from offseek.sdk.scripted import ScriptedEngine


def request(name: str, text: str = "abc") -> GenerationRequest:
    return GenerationRequest(request_id=name, prompt_token_ids=list(text.encode()))


def echo(r: GenerationRequest) -> list[int]:
    if bytes(r.prompt_token_ids) == b"boom":
        raise RuntimeError("boom")
    return list(r.prompt_token_ids)


def text_of(outputs: Any) -> str:
    return bytes(t for o in outputs for t in o.token_ids).decode()


def test_many_threads_share_one_engine() -> None:
    engine = ScriptedEngine(echo, max_batch=8)
    found: dict[str, str] = {}
    with EngineLoop(engine) as loop:

        def call(name: str) -> None:
            found[name] = text_of(loop.outputs(request(name, f"text of {name}")))

        threads = [threading.Thread(target=call, args=(str(i),)) for i in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {str(i): f"text of {i}" for i in range(40)}
    assert engine.num_steps < 40 * 10  # batched, not one after the other


def test_a_refused_request_is_told_to_its_caller_alone() -> None:
    with EngineLoop(ScriptedEngine(echo, context_length=10)) as loop:
        (long,) = loop.outputs(request("long", "x" * 20))
        assert (long.finish_reason, type(long.error)) == ("error", ValueError)
        (boom,) = loop.outputs(request("boom", "boom"))
        assert str(boom.error) == "boom"
        assert text_of(loop.outputs(request("fine"))) == "abc"


class Fragile(ScriptedEngine):
    """Fails once as a whole, or forgets its requests."""

    fails = forgets = False

    def step(self) -> list[RequestOutput]:
        if self.fails:
            self.fails = False
            raise MemoryError("no more")
        if self.forgets:
            self._waiting, self._running = [], []
        return super().step()


def test_a_failing_engine_fails_the_live_requests_and_goes_on() -> None:
    engine = Fragile(echo)
    with EngineLoop(engine) as loop:
        engine.fails = True
        (failed,) = loop.outputs(request("a"))
        assert isinstance(failed.error, MemoryError)
        assert text_of(loop.outputs(request("b"))) == "abc"
        engine.forgets = True
        (lost,) = loop.outputs(request("c"))
        assert "dropped the request" in str(lost.error)


def test_closing_an_iterator_cancels_and_limits_hold() -> None:
    engine = ScriptedEngine(lambda r: [97] * 100_000, context_length=200_000, step_s=0.001)
    loop = EngineLoop(engine, max_requests=1)
    outputs = loop.outputs(request("a"))
    next(outputs)
    with pytest.raises(QueueFullError):
        loop.outputs(request("b"))
    outputs.close()  # type: ignore[attr-defined]
    while loop.num_requests:
        pass
    again = loop.outputs(request("a"))
    next(again)
    loop.max_requests = 2
    with pytest.raises(ClientError, match="in use"):
        loop.outputs(request("a"))
    loop.close(timeout_s=0.2, drain=True)
    assert [o.finish_reason for o in again][-1] == "cancelled"
    assert not loop.is_alive
    with pytest.raises(ClosedError):
        loop.outputs(request("c"))


async def test_asyncio_callers_share_it_too() -> None:
    with EngineLoop(ScriptedEngine(echo)) as loop:

        async def call(name: str) -> str:
            return text_of([o async for o in loop.aoutputs(request(name, name))])

        assert await asyncio.gather(*(call(f"name {i}") for i in range(10))) == [f"name {i}" for i in range(10)]
