"""Driving an engine: many requests in, whole completions out, never more in flight than asked.

Synchronous and single-threaded; what extraction and batch workers use. The server and the transports share one
engine between callers through `offseek.sdk.loop` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from offseek.engine.request import (
    EngineProtocol,
    FinishReason,
    GenerationRequest,
    RequestOutput,
    TokenLogprobs,
)


@dataclass(slots=True)
class Completion:
    """Everything one request produced. `token_ids` hold neither EOS nor stop ids."""

    request_id: str
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    error: Exception | None = None
    prompt_tokens: int = 0
    prompt_cache_hit_tokens: int = 0

    def add(self, output: RequestOutput) -> None:
        self.token_ids.extend(output.token_ids)
        self.logprobs.extend(output.logprobs)
        self.finish_reason = output.finish_reason
        self.stop_sequence = output.stop_sequence or self.stop_sequence
        self.error = output.error or self.error
        self.prompt_tokens = output.prompt_tokens or self.prompt_tokens
        self.prompt_cache_hit_tokens = output.prompt_cache_hit_tokens or self.prompt_cache_hit_tokens


def generate(
    engine: EngineProtocol, requests: Iterable[GenerationRequest | None], *, max_in_flight: int
) -> Iterator[Completion]:
    """Yield one Completion per request, in order of completion; `requests` is drawn from only as slots free up.

    A None among the requests means "nothing for now": it is asked again after the next step, and the iterator ends
    if nothing is in flight then. A request that the engine refuses when it is added becomes a Completion with
    finish_reason "error": other requests are not affected. Closing the iterator early cancels what is in flight.
    """
    source = iter(requests)
    live: dict[str, Completion] = {}
    exhausted = False
    try:
        while True:
            while not exhausted and len(live) < max_in_flight:
                try:
                    request = next(source)
                except StopIteration:
                    exhausted = True
                    break
                if request is None:
                    break
                completion = Completion(request.request_id)
                try:
                    engine.add_request(request)
                except Exception as exc:  # whatever an engine refuses with belongs to this request alone
                    completion.finish_reason, completion.error = "error", exc
                    yield completion
                    continue
                live[request.request_id] = completion
            if not live:
                return
            for output in engine.step():
                found = live.get(output.request_id)
                if found is None:
                    continue
                found.add(output)
                if output.finish_reason is not None:
                    del live[output.request_id]
                    yield found
    finally:
        for request_id in live:
            engine.cancel(request_id)
