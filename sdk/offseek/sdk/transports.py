"""HTTP client transports that never leave the process: the official clients talk to an `Application`.

    client = openai.OpenAI(api_key="unused", http_client=httpx.Client(transport=OffseekTransport(application)))

One class serves both client libraries in use: `httpx`, and `httpx2`, which `openai` 3 and `anthropic` 2 build on. A
request is answered with response objects of the library that it came from. Retries, timeouts and types are the
client's own; a closed or abandoned stream cancels its request.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import httpx
from offseek.sdk.application import Application, Reply, acomplete, aplay, complete, play
from offseek.sdk.application.errors import from_exception

try:
    import httpx2
except ImportError:  # only one of the two libraries is needed
    _SYNC_BASES: tuple[type, ...] = (httpx.BaseTransport,)
    _ASYNC_BASES: tuple[type, ...] = (httpx.AsyncBaseTransport,)
else:
    _SYNC_BASES = (httpx.BaseTransport, httpx2.BaseTransport)
    _ASYNC_BASES = (httpx.AsyncBaseTransport, httpx2.AsyncBaseTransport)


def _library(request: Any) -> ModuleType:
    """`httpx` or `httpx2`, whichever made this request."""
    return sys.modules[type(request).__module__.partition(".")[0]]


class _Transport:
    def __init__(self, application: Application) -> None:
        self.application = application

    def _open(self, request: Any, body: bytes) -> Reply:
        return self.application.open(request.method, request.url.path, body)


def _response(library: ModuleType, reply: Reply, content: Any) -> Any:
    headers = {"content-type": reply.content_type} | reply.headers
    if isinstance(content, bytes):
        return library.Response(reply.status, headers=headers, content=content)
    return library.Response(reply.status, headers=headers, stream=content)


def _error(library: ModuleType, exc: Exception, reply: Reply) -> Any:
    error = from_exception(exc)
    failed = Reply(error.status, error.body(envelope=reply.envelope))
    return _response(library, failed, failed.body)


class OffseekTransport(_Transport, *_SYNC_BASES):  # type: ignore[misc]  # bases known at run time only
    """Synchronous transport for `httpx.Client` and `httpx2.Client`."""

    def handle_request(self, request: Any) -> Any:
        library = _library(request)
        reply = self._open(request, request.read())
        if reply.body is not None:
            return _response(library, reply, reply.body)
        try:
            if not reply.streams:
                return _response(library, reply, complete(reply))
            frames = play(reply)
            first = next(frames, b"")  # an engine that refuses does so before the status is sent
        except Exception as exc:  # the client gets an answer, whatever happened
            return _error(library, exc, reply)
        return _response(library, reply, _sync_stream(library, first, frames))

    def close(self) -> None:
        """Nothing to close: the application belongs to whoever made it."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncOffseekTransport(_Transport, *_ASYNC_BASES):  # type: ignore[misc]
    """Asynchronous transport for `httpx.AsyncClient` and `httpx2.AsyncClient`."""

    async def handle_async_request(self, request: Any) -> Any:
        library = _library(request)
        body = await request.aread()
        # Conversion, tokenising and grammar compilation can take a while: not on the event loop.
        reply = await asyncio.to_thread(self._open, request, body)
        if reply.body is not None:
            return _response(library, reply, reply.body)
        try:
            if not reply.streams:
                return _response(library, reply, await acomplete(reply))
            frames = aplay(reply)
            first = await anext(frames, b"")
        except Exception as exc:
            return _error(library, exc, reply)
        return _response(library, reply, _async_stream(library, first, frames))

    async def aclose(self) -> None:
        """Nothing to close: the application belongs to whoever made it."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _sync_stream(library: ModuleType, first: bytes, frames: Iterator[bytes]) -> Any:
    class Stream(library.SyncByteStream):  # type: ignore[misc, name-defined]  # the base is chosen at run time
        def __iter__(self) -> Iterator[bytes]:
            yield first
            yield from frames

        def close(self) -> None:
            frames.close()  # type: ignore[attr-defined]  # a generator: cancels the request

    return Stream()


def _async_stream(library: ModuleType, first: bytes, frames: AsyncIterator[bytes]) -> Any:
    class Stream(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield first
            async for frame in frames:
                yield frame

        async def aclose(self) -> None:
            await frames.aclose()  # type: ignore[attr-defined]

    return Stream()


__all__ = ["AsyncOffseekTransport", "OffseekTransport"]
