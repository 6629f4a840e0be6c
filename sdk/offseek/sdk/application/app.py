"""The application: official requests in, official replies out, on engines in this process.

The one layer that transports and server share. `open` does the work that can fail at once (routing, conversion,
grammar) and returns a `Reply`; the driver then either plays it synchronously (`play`) or on asyncio (`aplay`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from offseek.engine.request import GenerationRequest, RequestOutput
from offseek.sdk.application import sse
from offseek.sdk.application.errors import ApiError, dump, from_exception
from offseek.sdk.application.protocols import CHAT, MESSAGES, RESPONSES, Protocol
from offseek.sdk.application.text import open_text
from offseek.sdk.application.turn import open_turn
from offseek.sdk.loop import EngineLoop
from offseek.sdk.model import ChatModel

log = logging.getLogger("offseek.application")
JSON = "application/json"
EVENT_STREAM = "text/event-stream; charset=utf-8"
_PROTOCOLS: dict[str, Protocol] = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/anthropic/v1/messages": MESSAGES,
    "/anthropic/messages": MESSAGES,
    "/messages": MESSAGES,
}
_UNSUPPORTED = ("/files", "/user/balance", "/embeddings", "/batches", "/anthropic/v1/files")


@dataclass(slots=True)
class Reply:
    """What a request is answered with.

    Either `body` is there, or `turn` is still to be played on `loop`. `status` and `content_type` hold for both.
    """

    status: int = 200
    body: bytes | None = None
    content_type: str = JSON
    turn: Any = None
    loop: EngineLoop | None = None
    envelope: bool = False
    started_s: float = field(default_factory=time.monotonic)

    @property
    def streams(self) -> bool:
        return self.turn is not None and self.turn.stream

    @property
    def headers(self) -> dict[str, str]:
        """Headers beyond the content type: fields of the request that had no effect, by JSON pointer."""
        ignored: tuple[str, ...] = getattr(self.turn, "ignored", ())
        shown = ", ".join(ignored[:20]).encode("ascii", "backslashreplace").decode()
        return {"x-offseek-ignored": "".join(c if c.isprintable() else "?" for c in shown)} if ignored else {}


Observer = Callable[[Any, str, float], None]


class Application:
    """Serves models by the names that requests use.

    models: API name → model. Several names may share one model; each model's engine gets one loop (thread).
    max_requests: live requests per engine beyond which the answer is 429.
    """

    def __init__(self, models: Mapping[str, ChatModel] | ChatModel, *, max_requests: int = 1024) -> None:
        served = {models.name: models} if isinstance(models, ChatModel) else dict(models)
        if not served:
            raise ValueError("an application needs at least one model")
        self.models = served
        self.started = int(time.time())
        self._loops: dict[int, EngineLoop] = {}
        for model in served.values():
            if id(model.engine) not in self._loops:
                self._loops[id(model.engine)] = EngineLoop(model.engine, max_requests=max_requests)

    def loop_of(self, model: ChatModel) -> EngineLoop:
        return self._loops[id(model.engine)]

    @property
    def loops(self) -> list[EngineLoop]:
        return list(self._loops.values())

    def close(self, *, timeout_s: float | None = 30.0, drain: bool = False) -> None:
        """End the engine threads; live requests finish first with `drain`."""
        for loop in self._loops.values():
            loop.close(timeout_s=timeout_s, drain=drain)

    # --- requests

    def open(self, method: str, path: str, body: bytes) -> Reply:
        """Route and prepare a request. Errors come back as replies with the official status and body."""
        route = normalize(path)
        envelope = is_messages(path)
        try:
            return self._open(method, route, body)
        except ApiError as exc:
            return Reply(exc.status, exc.body(envelope=envelope), envelope=envelope)
        except Exception as exc:
            error = from_exception(exc)
            if error.status >= 500:
                log.exception("%s %s failed", method, path)
            return Reply(error.status, error.body(envelope=envelope), envelope=envelope)

    def _open(self, method: str, route: str, body: bytes) -> Reply:
        if route in ("/models", "/anthropic/v1/models") or route.startswith(("/models/", "/anthropic/v1/models/")):
            _expect(method, "GET", route)
            return Reply(body=dump(self._models(route)))
        protocol = _PROTOCOLS.get(route)
        if protocol is not None:
            _expect(method, "POST", route)
            turn: Any = open_turn(protocol, body, self.models, self.resolve)
            return self._play(turn, protocol.envelope)
        if route == "/completions":
            _expect(method, "POST", route)
            return self._play(open_text(body, self.models, self.resolve), False)
        if route.startswith(_UNSUPPORTED):
            raise ApiError(404, f"{route} is not offered by this server.")
        raise ApiError(404, f"No such path: {method} {route}")

    def _play(self, turn: Any, envelope: bool) -> Reply:
        model = self.models[self.resolve(turn.model, "messages" if envelope else "chat")]
        content = EVENT_STREAM if turn.stream else JSON
        return Reply(turn=turn, loop=self.loop_of(model), content_type=content, envelope=envelope)

    def resolve(self, name: str, protocol: str) -> str:
        """The served name for the name in a request, by the official rules for claude names on Messages."""
        if name in self.models:
            return name
        if protocol == "messages" and name.startswith("claude"):
            official = "deepseek-v4-pro" if name.startswith("claude-opus") else "deepseek-flash"
            if official in self.models:
                return official
        plain = name.removesuffix("[1m]")
        if plain != name and plain in self.models:
            return plain
        known = ", ".join(sorted(self.models))
        raise ApiError(400, f"The supported API model names are {known}, but you passed {name}.")

    def _models(self, route: str) -> dict[str, Any]:
        name = route.partition("/models/")[2]
        if name and name not in self.models:
            raise ApiError(404, f"No model {name!r} is served here.")
        cards = [self._card(n) for n in ([name] if name else sorted(self.models))]
        if name:
            return cards[0]
        page: dict[str, Any] = {"object": "list", "data": cards}
        if route.startswith("/anthropic"):
            page |= {"has_more": False, "first_id": cards[0]["id"], "last_id": cards[-1]["id"]}
        return page

    def _card(self, name: str) -> dict[str, Any]:
        model = self.models[name]
        return {
            "id": name,
            "object": "model",
            "type": "model",
            "created": self.started,
            "owned_by": "offseek",
            "name": model.name,
            "context_window": model.engine.context_length,
            "max_output_tokens": model.engine.context_length,
            "input_modalities": ["text"],
            "output_modalities": ["text"],
        }


# --- playing a reply


def play(reply: Reply) -> Iterator[bytes]:
    """Run a streaming reply, yielding SSE frames. Closing the iterator cancels the request.

    The first step happens before the first frame; an error there raises ApiError, later ones become an error frame.
    """
    turn, loop = reply.turn, reply.loop
    assert loop is not None
    outputs = loop.outputs(_engine_request(turn))
    return _frames(turn, outputs)


def _frames(turn: Any, outputs: Iterator[RequestOutput]) -> Iterator[bytes]:
    sent = False
    try:
        for output in outputs:
            for frame in turn.push(output):
                yield frame
                sent = True
            if turn.finished:
                return
    except ApiError as exc:
        if not sent:
            raise
        yield turn.error_frame(exc)
    finally:
        outputs.close()  # type: ignore[attr-defined]  # a generator: cancels the request if it is still running


def complete(reply: Reply) -> bytes:
    """Run a reply that does not stream to its end and return its body. Raises ApiError."""
    turn, loop = reply.turn, reply.loop
    assert loop is not None
    outputs = loop.outputs(_engine_request(turn))
    try:
        for output in outputs:
            turn.push(output)
            if turn.finished:
                break
    finally:
        outputs.close()  # type: ignore[attr-defined]
    body: bytes = turn.response()
    return body


async def aplay(reply: Reply) -> AsyncIterator[bytes]:
    """As `play`, on asyncio."""
    turn, loop = reply.turn, reply.loop
    assert loop is not None
    outputs = loop.aoutputs(_engine_request(turn))
    sent = False
    try:
        async for output in outputs:
            for frame in turn.push(output):
                yield frame
                sent = True
            if turn.finished:
                return
    except ApiError as exc:
        if not sent:
            raise
        yield turn.error_frame(exc)
    finally:
        await outputs.aclose()  # type: ignore[attr-defined]


async def acomplete(reply: Reply) -> bytes:
    """As `complete`, on asyncio."""
    turn, loop = reply.turn, reply.loop
    assert loop is not None
    outputs = loop.aoutputs(_engine_request(turn))
    try:
        async for output in outputs:
            turn.push(output)
            if turn.finished:
                break
    finally:
        await outputs.aclose()  # type: ignore[attr-defined]
    body: bytes = turn.response()
    return body


def _engine_request(turn: Any) -> GenerationRequest:
    request: GenerationRequest = turn.request
    return request


def _expect(method: str, allowed: str, route: str) -> None:
    if method != allowed:
        raise ApiError(405, f"{route} takes {allowed}, not {method}.")


def is_messages(path: str) -> bool:
    """Whether a path belongs to the Messages API, whose errors carry an envelope."""
    return "/anthropic/" in path or normalize(path) == "/messages"


def normalize(path: str) -> str:
    """The route of a path: `/v1` and `/beta` prefixes mean nothing here."""
    path = "/" + path.strip("/")
    if path.startswith("/anthropic/"):
        return path
    for prefix in ("/beta", "/v1"):
        if path.startswith(prefix + "/"):
            path = path[len(prefix) :]
    return path


__all__ = ["KEEP_ALIVE", "Application", "Reply", "acomplete", "aplay", "complete", "play"]
KEEP_ALIVE = sse.KEEP_ALIVE
