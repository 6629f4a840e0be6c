"""The official API as a function: a request in, a reply or a stream of events out. Transports and server share it."""

from __future__ import annotations

from offseek.sdk.application.app import Application, Reply, acomplete, aplay, complete, play
from offseek.sdk.application.errors import ApiError

__all__ = ["ApiError", "Application", "Reply", "acomplete", "aplay", "complete", "play"]
