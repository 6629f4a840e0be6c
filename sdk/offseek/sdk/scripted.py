"""An engine without a model: answers come from a function. For tests of jobs, servers and clients.

It keeps the whole contract of `EngineProtocol`: several requests at a time, some tokens per step, grammars,
token limits, stops, logprobs, cancellation. A token that the request's grammar forbids is replaced by the
grammar's shortest completion, so a script may also be wrong on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from offseek.engine.request import FinishReason, GenerationRequest, RequestOutput, TokenLogprobs

Script = Callable[[GenerationRequest], Sequence[int]]


class ScriptedEngine:
    """Replies with `script(request)`, `tokens_per_step` ids of each live request per step.

    script: request -> the ids it answers with. An exception from it becomes an "error" output of that request.
    eos_token_ids: ids that end the reply when they appear in a script (the end of the script also ends it).
    decode: ids -> text; needed for string stop sequences.
    step_s: seconds that every step sleeps, to stand for the time of a model.
    """

    def __init__(
        self,
        script: Script,
        *,
        context_length: int = 8192,
        max_batch: int = 32,
        tokens_per_step: int = 1,
        eos_token_ids: Iterable[int] = (),
        decode: Callable[[Sequence[int]], str] | None = None,
        step_s: float = 0.0,
    ) -> None:
        self.script = script
        self.context_length = context_length
        self.max_batch = max_batch
        self.tokens_per_step = tokens_per_step
        self.eos_token_ids = frozenset(eos_token_ids)
        self.decode = decode
        self.step_s = step_s
        self._waiting: list[_Live] = []
        self._running: list[_Live] = []
        self._cancelled: list[str] = []
        self.num_steps = 0

    def add_request(self, request: GenerationRequest) -> None:
        room = self.context_length - len(request.prompt_token_ids)
        if room < 1:
            raise ValueError(
                f"prompt of {len(request.prompt_token_ids)} tokens exceeds the context {self.context_length}"
            )
        limit = request.sampling.max_tokens
        self._waiting.append(_Live(request, min(room, limit) if limit is not None else room))

    def cancel(self, request_id: str) -> None:
        self._cancelled.append(request_id)

    def has_work(self) -> bool:
        return bool(self._waiting or self._running or self._cancelled)

    def step(self) -> list[RequestOutput]:
        self.num_steps += 1
        if self.step_s:
            time.sleep(self.step_s)
        outputs = self._drop_cancelled()
        while self._waiting and len(self._running) < self.max_batch:
            live = self._waiting.pop(0)
            try:
                live.start(self.script)
            except Exception as exc:  # the script is the test's code
                outputs.append(live.output((), "error", error=exc))
                continue
            self._running.append(live)
        running, self._running = self._running, []
        for live in running:
            output = live.advance(self)
            outputs.append(output)
            if output.finish_reason is None:
                self._running.append(live)
        return outputs

    def _drop_cancelled(self) -> list[RequestOutput]:
        gone, self._cancelled = set(self._cancelled), []
        outputs = [w.output((), "cancelled") for w in self._waiting + self._running if w.request.request_id in gone]
        self._waiting = [w for w in self._waiting if w.request.request_id not in gone]
        self._running = [r for r in self._running if r.request.request_id not in gone]
        return outputs


@dataclass(slots=True)
class _Live:
    request: GenerationRequest
    room: int
    script: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    matcher: Any = None
    forced: list[int] | None = None

    def start(self, script: Script) -> None:
        self.script = list(script(self.request))
        if self.request.grammar is not None:
            self.matcher = self.request.grammar.matcher()

    def advance(self, engine: ScriptedEngine) -> RequestOutput:
        new: list[int] = []
        sampling = self.request.sampling
        stops = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else engine.eos_token_ids)
        for _ in range(engine.tokens_per_step):
            token = self._next()
            if token is None or token in stops:
                return self.output(new, "stop")
            new.append(token)
            self.done.append(token)
            if sampling.stop and engine.decode is not None:
                text = engine.decode(self.done)
                if hit := next((s for s in sampling.stop if s in text), None):
                    return self.output(new, "stop", stop=hit)
            if len(self.done) >= self.room:
                if self.matcher is not None and self.matcher.is_finished():
                    return self.output(new, "stop")
                return self.output(new, "length")
        return self.output(new, None)

    def _next(self) -> int | None:
        if self.forced is not None:
            return self._pop_forced()
        position = len(self.done)
        wanted = self.script[position] if position < len(self.script) else None
        if self.matcher is None:
            return wanted
        if self.matcher.is_finished():
            return None
        if wanted is not None and self.matcher.accept_token(wanted):
            return wanted
        if wanted is None and self.matcher.is_accepting():
            return None
        completion = self.matcher.shortest_completion()
        self.forced = list(completion or ())
        return self._pop_forced()

    def _pop_forced(self) -> int | None:
        assert self.forced is not None
        if not self.forced:
            return None
        token = self.forced.pop(0)
        self.matcher.accept_token(token)
        return token

    def output(
        self,
        new: Sequence[int],
        reason: FinishReason | None,
        *,
        stop: str | None = None,
        error: Exception | None = None,
    ) -> RequestOutput:
        logprobs: tuple[TokenLogprobs, ...] = ()
        if (k := self.request.sampling.logprobs) is not None:
            logprobs = tuple(
                TokenLogprobs(token_id=t, raw=-0.5, masked=0.0, top_raw=((t, -0.5),)[:k], top_masked=((t, 0.0),)[:k])
                for t in new
            )
        return RequestOutput(
            request_id=self.request.request_id,
            token_ids=tuple(new),
            logprobs=logprobs,
            finish_reason=reason,
            stop_sequence=stop,
            error=error,
            prompt_tokens=len(self.request.prompt_token_ids),
        )
