"""One engine shared by many callers: a background thread that steps it and hands each caller its outputs.

Engines are single-threaded; callers are not (server tasks, client threads). Every caller submits a request with a
sink, and the loop thread calls the sink with each RequestOutput of that request, the last of which has a
finish_reason. A sink must be quick and must not raise.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Self

from offseek.engine.request import EngineProtocol, GenerationRequest, RequestOutput
from offseek.sdk.errors import ClientError

Sink = Callable[[RequestOutput], None]


class QueueFullError(ClientError):
    """More requests are live than the loop takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} requests are already queued or running")
        self.limit = limit


class ClosedError(ClientError):
    """The loop takes no more requests: it is shutting down."""


class EngineLoop:
    """Runs `engine` on a thread of its own from construction to `close`.

    max_requests: live requests (queued in the engine or running) beyond which `submit` raises QueueFullError.
    """

    def __init__(self, engine: EngineProtocol, *, max_requests: int = 1024) -> None:
        self.engine = engine
        self.max_requests = max_requests
        self._wake = threading.Condition()
        self._inbox: deque[GenerationRequest] = deque()
        self._cancelled: deque[str] = deque()
        self._sinks: dict[str, Sink] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="offseek-engine", daemon=True)
        self._thread.start()

    @property
    def num_requests(self) -> int:
        """Live requests, queued or running."""
        return len(self._sinks)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Queue a request. What the engine refuses it with arrives at the sink, as an output with `error`.

        Raises QueueFullError, ClosedError, or ClientError for a request id that is live already.
        """
        with self._wake:
            if self._closing:
                raise ClosedError("the engine is shutting down")
            if len(self._sinks) >= self.max_requests:
                raise QueueFullError(self.max_requests)
            if request.request_id in self._sinks:
                raise ClientError(f"the request id {request.request_id!r} is in use")
            self._sinks[request.request_id] = sink
            self._inbox.append(request)
            self._wake.notify()

    def cancel(self, request_id: str) -> None:
        """Stop a request; its sink gets a last output. Unknown and finished ids are ignored."""
        with self._wake:
            if request_id in self._sinks:
                self._cancelled.append(request_id)
                self._wake.notify()

    def close(self, *, timeout_s: float | None = None, drain: bool = True) -> None:
        """Take no more requests and end the thread: after the live ones finish, or at once with `drain=False`.

        Requests still live after `timeout_s` are cancelled.
        """
        with self._wake:
            self._closing = True
            if not drain:
                self._cancelled.extend(self._sinks)
            self._wake.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            with self._wake:
                self._cancelled.extend(self._sinks)
                self._wake.notify()
            self._thread.join(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)

    # --- callers' side

    def outputs(self, request: GenerationRequest) -> Iterator[RequestOutput]:
        """Submit and yield this request's outputs, blocking. Closing the iterator early cancels the request."""
        inbox: queue.SimpleQueue[RequestOutput] = queue.SimpleQueue()
        self.submit(request, inbox.put)
        return self._drain(request.request_id, inbox)

    def _drain(self, request_id: str, inbox: queue.SimpleQueue[RequestOutput]) -> Iterator[RequestOutput]:
        try:
            while True:
                output = inbox.get()
                yield output
                if output.finish_reason is not None:
                    return
        finally:
            self.cancel(request_id)

    def aoutputs(self, request: GenerationRequest) -> AsyncIterator[RequestOutput]:
        """As `outputs`, for a running asyncio event loop."""
        events = asyncio.get_running_loop()
        inbox: asyncio.Queue[RequestOutput] = asyncio.Queue()

        def sink(output: RequestOutput) -> None:
            if not events.is_closed():
                events.call_soon_threadsafe(inbox.put_nowait, output)

        self.submit(request, sink)
        return self._adrain(request.request_id, inbox)

    async def _adrain(self, request_id: str, inbox: asyncio.Queue[RequestOutput]) -> AsyncIterator[RequestOutput]:
        try:
            while True:
                output = await inbox.get()
                yield output
                if output.finish_reason is not None:
                    return
        finally:
            self.cancel(request_id)

    # --- the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._inbox or self._cancelled or self._sinks or self._closing):
                    self._wake.wait()
                if self._closing and not self._sinks:
                    return
                requests, self._inbox = self._inbox, deque()
                cancelled, self._cancelled = self._cancelled, deque()
            for request in requests:
                try:
                    self.engine.add_request(request)
                except Exception as exc:  # belongs to this request alone
                    self._deliver(RequestOutput(request_id=request.request_id, finish_reason="error", error=exc))
            for request_id in cancelled:
                if request_id in self._sinks:
                    self.engine.cancel(request_id)
            try:
                outputs = self.engine.step()
            except Exception as exc:  # the engine itself failed: every live request learns it, the loop goes on
                outputs = [
                    RequestOutput(request_id=request_id, finish_reason="error", error=exc)
                    for request_id in list(self._sinks)
                ]
                for output in outputs:
                    self.engine.cancel(output.request_id)
            for output in outputs:
                self._deliver(output)
            if not self.engine.has_work():
                self._fail_lost()

    def _fail_lost(self) -> None:
        """An engine without work that still owes outputs has lost them: say so, rather than wait for ever."""
        with self._wake:
            lost = set(self._sinks) - {request.request_id for request in self._inbox}
        for request_id in lost:
            error = ClientError("the engine dropped the request without a last output")
            self._deliver(RequestOutput(request_id=request_id, finish_reason="error", error=error))

    def _deliver(self, output: RequestOutput) -> None:
        sink = self._sinks.get(output.request_id)
        if sink is None:
            return
        if output.finish_reason is not None:
            with self._wake:
                del self._sinks[output.request_id]
        sink(output)
