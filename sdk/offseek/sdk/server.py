"""`offseek serve`: the application over HTTP (Starlette). Same replies as the in-process transports, byte for byte.

Adds what only a network needs: an API key, limits on body size and concurrency, SSE keep-alives, cancellation when a
client goes away, health and metrics, one structured log line per request.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from offseek.sdk.application import ApiError, Application, Reply, acomplete, aplay
from offseek.sdk.application.app import is_messages, normalize
from offseek.sdk.application.errors import from_exception
from offseek.sdk.application.sse import KEEP_ALIVE
from offseek.sdk.metrics import Metrics
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

log = logging.getLogger("offseek.server")
_OPEN_PATHS = ("/health", "/metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Limits and identity of a server.

    api_keys:         accepted keys (`Authorization: Bearer` or `x-api-key`); empty = no key is asked for.
    max_body_bytes:   larger bodies answer 413 (the official bound is 48 MiB).
    max_concurrency:  requests being answered at once; more answer 429.
    keep_alive_s:     silence after which a stream gets a comment line and a plain answer a blank line.
    start_timeout_s:  inference must begin within this time, else 503 (officially 10 minutes).
    """

    api_keys: tuple[str, ...] = ()
    max_body_bytes: int = 48 * 2**20
    max_concurrency: int = 512
    keep_alive_s: float = 10.0
    start_timeout_s: float = 600.0


def create_app(application: Application, options: ServerOptions | None = None) -> Starlette:
    """An ASGI application that serves `application`; closing the application stays with the caller."""
    server = _Server(application, options or ServerOptions())
    routes = [
        Route("/health", server.health, methods=["GET"]),
        Route("/metrics", server.metrics_page, methods=["GET"]),
        Route("/{path:path}", server.endpoint, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
    ]
    return Starlette(routes=routes)


class _Server:
    def __init__(self, application: Application, options: ServerOptions) -> None:
        self.application = application
        self.options = options
        self.metrics = Metrics(application)
        self.num_active = 0

    async def health(self, request: Request) -> Response:
        """200 while every engine thread runs, 503 otherwise."""
        alive = all(loop.is_alive for loop in self.application.loops)
        body = {"status": "ok" if alive else "stopping", "models": sorted(self.application.models)}
        return Response(json.dumps(body), 200 if alive else 503, media_type="application/json")

    async def metrics_page(self, request: Request) -> Response:
        return Response(self.metrics.render(), media_type=self.metrics.content_type)

    async def endpoint(self, request: Request) -> Response:
        """Authenticate, read the body within limits, answer."""
        started = time.monotonic()
        envelope = is_messages(request.url.path)
        record = _Record(request, started)
        try:
            self._authenticate(request)
            if self.num_active >= self.options.max_concurrency:
                raise ApiError(429, "Too many concurrent requests. Please retry later.")
        except ApiError as exc:
            return self._refuse(exc, envelope, record)
        self.num_active += 1
        release = contextlib.ExitStack()
        release.callback(self._release)
        try:
            body = await self._body(request)
            reply = await asyncio.to_thread(self.application.open, request.method, request.url.path, body)
            if reply.body is not None:
                response = Response(reply.body, reply.status, media_type=reply.content_type)
                self._done(record, reply, reply.status)
                release.close()
                return response
            return await self._play(request, reply, record, release)
        except ClientDisconnect:
            self._done(record, None, 499)
            release.close()
            return Response(status_code=499)
        except Exception as exc:
            release.close()
            error = from_exception(exc)
            if error.status >= 500:
                log.exception("request failed", extra={"fields": {"request_id": record.id}})
            return self._refuse(error, envelope, record)
        except BaseException:
            release.close()
            raise

    def _release(self) -> None:
        self.num_active -= 1

    def _authenticate(self, request: Request) -> None:
        if not self.options.api_keys:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            given = request.headers.get("x-api-key", "")
        given = given.strip()
        if not any(hmac.compare_digest(given.encode(), key.encode()) for key in self.options.api_keys):
            shown = f"****{given[-4:]}" if len(given) >= 8 else "****"
            raise ApiError(401, f"Authentication Fails, Your api key: {shown} is invalid")

    async def _body(self, request: Request) -> bytes:
        limit = self.options.max_body_bytes
        too_large = ApiError(413, f"The request body is larger than {limit} bytes.")
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)
        return b"".join(parts)

    async def _play(self, request: Request, reply: Reply, record: _Record, release: contextlib.ExitStack) -> Response:
        """Answer from the engine. Both kinds wait quietly for `keep_alive_s` before committing to status 200."""
        frames = aplay(reply) if reply.streams else _whole(reply)
        pending = _KeepAlive(frames, self.options)
        first = await self._first(request, reply, pending)
        filler = KEEP_ALIVE if reply.streams else b"\n"
        if not reply.streams and first is not None:
            self._done(record, reply, 200)
            release.close()
            return Response(first, media_type=reply.content_type, headers=reply.headers)

        async def body() -> AsyncIterator[bytes]:
            status = 200
            try:
                yield filler if first is None else first
                async for item in pending:
                    yield filler if item is None else item
            except ApiError as exc:  # the status is out already
                status = exc.status
                yield reply.turn.error_frame(exc) if reply.streams else exc.body(envelope=reply.envelope)
            except (asyncio.CancelledError, GeneratorExit):
                status = 499
                raise
            finally:
                # A cancelled task may not be able to await: what must happen comes first and does not.
                self._cancel(reply)
                self._done(record, reply, status)
                release.close()
                await pending.aclose()

        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"} if reply.streams else {}
        return StreamingResponse(body(), media_type=reply.content_type, headers=headers | reply.headers)

    def _cancel(self, reply: Reply) -> None:
        assert reply.loop is not None
        reply.loop.cancel(reply.turn.request.request_id)

    async def _first(self, request: Request, reply: Reply, pending: _KeepAlive) -> bytes | None:
        """The first piece, or None after `keep_alive_s` of silence. A client that leaves meanwhile cancels."""
        piece = asyncio.ensure_future(anext(pending))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({piece, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not piece.done():
                piece.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await piece
                self._cancel(reply)
                await pending.aclose()
                raise ClientDisconnect
            return piece.result()
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await gone

    def _refuse(self, error: ApiError, envelope: bool, record: _Record) -> Response:
        self._done(record, None, error.status)
        return Response(error.body(envelope=envelope), error.status, media_type="application/json")

    def _done(self, record: _Record, reply: Reply | None, status: int) -> None:
        """Count the request and write its log line."""
        turn = reply.turn if reply is not None else None
        elapsed_s = time.monotonic() - record.started
        route = normalize(record.path)
        fields: dict[str, Any] = {
            "request_id": turn.id if turn is not None else record.id,
            "method": record.method,
            "path": record.path,
            "status": status,
            "elapsed_ms": round(elapsed_s * 1000, 1),
        }
        if turn is not None:
            fields |= {
                "model": turn.model,
                "stream": turn.stream,
                "finish_reason": turn.finish_reason,
                "prompt_tokens": turn.prompt_tokens,
                "cached_tokens": turn.cached_tokens,
                "completion_tokens": turn.completion_tokens,
            }
            if ignored := getattr(turn, "ignored", ()):
                fields["ignored"] = list(ignored)
        self.metrics.observe(route, status, elapsed_s, turn)
        log.info("request", extra={"fields": fields})


@dataclass(slots=True)
class _Record:
    id: str
    method: str
    path: str
    started: float

    def __init__(self, request: Request, started: float) -> None:
        self.id = uuid.uuid4().hex
        self.method, self.path, self.started = request.method, request.url.path, started


class _KeepAlive:
    """Iterates pieces, giving None whenever none came for `keep_alive_s`; fails when the first takes too long."""

    def __init__(self, pieces: AsyncIterator[bytes], options: ServerOptions) -> None:
        self.pieces = pieces
        self.options = options
        self.deadline = time.monotonic() + options.start_timeout_s
        self._next: asyncio.Future[bytes] | None = None

    def __aiter__(self) -> _KeepAlive:
        return self

    async def __anext__(self) -> bytes | None:
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self.pieces))
        done, _ = await asyncio.wait({self._next}, timeout=self.options.keep_alive_s)
        if not done:
            if time.monotonic() > self.deadline:
                raise ApiError(503, "Inference did not begin in time. Please retry later.")
            return None
        self.deadline = float("inf")
        piece, self._next = self._next, None
        return piece.result()  # or StopAsyncIteration, or the error

    async def aclose(self) -> None:
        """Stop the producer: its request is cancelled."""
        if self._next is not None:
            self._next.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._next
        await self.pieces.aclose()  # type: ignore[attr-defined]  # an async generator


async def _whole(reply: Reply) -> AsyncIterator[bytes]:
    yield await acomplete(reply)


async def _disconnected(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
