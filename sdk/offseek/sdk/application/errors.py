"""Errors as the official API answers them: a status and a four-key body, with an envelope for Messages.

Bodies: `{"error": {"message", "type", "param", "code"}}`; under `/anthropic` the same with `"type": "error"` in
front, so that the `anthropic` client raises its own classes. Statuses: 400 format (JSON syntax included), 401 key,
404 path, 413 size, 422 body shape, 429 concurrency, 500 engine, 503 shutting down.
"""

from __future__ import annotations

import json
from typing import Any

from offseek._errors import OffseekError
from offseek.sdk.errors import ClientError
from offseek.sdk.loop import ClosedError, QueueFullError

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "internal_server_error",
    503: "service_unavailable_error",
}


class ApiError(ClientError):
    """An answer that is not a completion. `status` is the HTTP status, `type` and `code` go into the body."""

    def __init__(self, status: int, message: str, *, type: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or _TYPES.get(status, "invalid_request_error")
        self.code = code or (self.type if status >= 500 else "invalid_request_error")

    def payload(self, *, envelope: bool = False) -> dict[str, Any]:
        error = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        return {"type": "error", "error": error} if envelope else {"error": error}

    def body(self, *, envelope: bool = False) -> bytes:
        return dump(self.payload(envelope=envelope))


def dump(value: Any) -> bytes:
    """Compact JSON as the official API writes it; lone surrogates stay escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def from_exception(exc: BaseException) -> ApiError:
    """The answer for an error met on the way; unknown ones become 500 without their inner details."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, QueueFullError):
        return ApiError(429, f"Too many requests: {exc}. Please retry later.")
    if isinstance(exc, ClosedError):
        return ApiError(503, "The server is shutting down. Please retry later.")
    names = {cls.__name__ for cls in type(exc).__mro__}
    if "ConversionError" in names:  # the recipe's: status and body as the official API gives them
        body = json.loads(exc.body)["error"]  # type: ignore[attr-defined]
        return ApiError(exc.status_code, body["message"], type=body["type"], code=body["code"])  # type: ignore[attr-defined]
    if "RemoteError" in names:
        return _from_remote(exc)
    if names & {"GrammarError", "ConfigError", "ContextLengthError"}:
        return ApiError(400, str(exc))
    if "UnsupportedConversationError" in names:
        return ApiError(400, str(exc))
    if isinstance(exc, OffseekError) and not names & {"EngineError", "KernelError", "MatcherError"}:
        return ApiError(400, str(exc))
    return ApiError(500, f"The engine failed on this request ({type(exc).__name__}).")


def _from_remote(exc: BaseException) -> ApiError:
    """The answer for a failure of the server behind a remote engine: only what it says of the request is a 400."""
    status = getattr(exc, "status", None)
    if status in (400, 413, 422):
        return ApiError(400, str(exc))
    if status == 429:
        return ApiError(429, str(exc))
    if status is None or status >= 500:  # unreachable, or it failed: the same request may work later
        return ApiError(503, str(exc))
    return ApiError(500, str(exc))  # a key or a path of ours, or an answer that violates its constraint


def from_value_error(exc: ValueError) -> ApiError:
    """The recipe's decoding errors: JSON syntax is 400, a body of the wrong shape 422."""
    message = str(exc)
    return ApiError(400 if message.startswith("invalid JSON request") else 422, message)
