"""Prometheus metrics of a server: requests, tokens, latency, and what is live in the engines."""

from __future__ import annotations

import time
from typing import Any

from offseek.sdk.application import Application
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ROUTES = frozenset({"/chat/completions", "/completions", "/responses", "/anthropic/v1/messages", "/models"})


class Metrics:
    """One registry per server, so that several servers in a process do not share counts."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, application: Application) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        self.requests = Counter("offseek_requests", "Answered requests", ["route", "status"], registry=registry)
        self.tokens = Counter("offseek_tokens", "Tokens by kind", ["kind"], registry=registry)
        self.latency = Histogram(
            "offseek_request_seconds", "Time to the end of the answer", ["route"], buckets=_SECONDS, registry=registry
        )
        live = Gauge("offseek_live_requests", "Requests queued or running in the engines", registry=registry)
        live.set_function(lambda: sum(loop.num_requests for loop in application.loops))
        started = Gauge("offseek_start_time_seconds", "Unix time of the start", registry=registry)
        started.set(time.time())

    def observe(self, route: str, status: int, elapsed_s: float, turn: Any) -> None:
        """Count one answered request; unknown routes share one label, so that clients cannot grow the registry."""
        label = route if route in _ROUTES else "other"
        self.requests.labels(label, str(status)).inc()
        self.latency.labels(label).observe(elapsed_s)
        if turn is not None:
            self.tokens.labels("prompt").inc(turn.prompt_tokens)
            self.tokens.labels("cached").inc(turn.cached_tokens)
            self.tokens.labels("completion").inc(turn.completion_tokens)

    def render(self) -> bytes:
        return generate_latest(self.registry)
