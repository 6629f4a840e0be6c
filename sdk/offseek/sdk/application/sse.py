"""Server-sent events: how one event is framed (HTML living standard, section 9.2)."""

from __future__ import annotations

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def frame(data: bytes | str, event: str | None = None) -> bytes:
    """One event. `data` is compact JSON and therefore a single line."""
    payload = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if event is None:
        return b"data: " + payload + b"\n\n"
    return b"event: " + event.encode() + b"\ndata: " + payload + b"\n\n"
