"""One chat turn on its way through: body → converted request → engine request; engine outputs → wire events.

Protocol-neutral: the three protocols differ only in the recipe classes named in `protocols`. Knows nothing of HTTP,
threads or event loops; whoever drives it feeds engine outputs in and takes bytes out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from offseek import recipe
from offseek.engine.request import GenerationRequest, RequestOutput, SamplingParams
from offseek.sdk.application import sse
from offseek.sdk.application.constraints import constraint_of
from offseek.sdk.application.errors import ApiError, from_exception, from_value_error
from offseek.sdk.application.extensions import has_images, split_body
from offseek.sdk.application.protocols import Protocol
from offseek.sdk.application.tool_choice import convert
from offseek.sdk.dialects.base import Reader
from offseek.sdk.model import ChatModel

_FINISH = {"stop": "Stop", "length": "Length", "cancelled": "Stop"}


@dataclass(slots=True)
class Turn:
    """A request that was accepted: what the engine is asked, and the state that turns its outputs into events.

    `finished` turns true with the last event; then `response` gives the whole reply.
    """

    protocol: Protocol
    id: str
    model: str
    stream: bool
    request: GenerationRequest
    reader: Reader
    processor: recipe.StreamProcessor
    fingerprint: str
    ignored: tuple[str, ...] = ()  # JSON pointers of fields that had no effect
    created: int = field(default_factory=lambda: int(time.time()))
    finished: bool = False
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    _response: Any = None
    _started: bool = False

    def push(self, output: RequestOutput) -> list[bytes]:
        """Take what the engine produced; return the SSE frames it gives (none when not streaming).

        Raises ApiError when the engine failed on this request.
        """
        if self.finished:
            return []
        if output.finish_reason == "error":
            assert output.error is not None
            raise from_exception(output.error)
        frames = [] if self._started else self._start(output)
        self.completion_tokens += len(output.token_ids)
        for chunk in self.reader.read(output):
            frames += self._emit(self.processor.push(chunk))
            if self.processor.finished:  # a stop sequence matched
                return frames + self._end("stop")
        if output.finish_reason is not None:
            reason = getattr(recipe.InferenceFinishReason, _FINISH[output.finish_reason])
            frames += self._emit(self.processor.push(recipe.InferenceChunk.finish(reason)))
            frames += self._end(output.finish_reason)
        return frames

    def _start(self, output: RequestOutput) -> list[bytes]:
        self._started = True
        self.prompt_tokens = output.prompt_tokens or len(self.request.prompt_token_ids)
        self.cached_tokens = output.prompt_cache_hit_tokens
        if not self.stream:
            self._response = self.protocol.response(
                self.id, self.model, self.created, self.prompt_tokens, self.cached_tokens
            )
        usage = recipe.PromptUsage(prompt_tokens=self.prompt_tokens, prompt_cache_hit_tokens=self.cached_tokens)
        ready = recipe.InferenceChunk.ready(prompt_usage=usage, system_fingerprint=self.fingerprint)
        return self._emit(self.processor.push(ready))

    def _emit(self, events: list[Any]) -> list[bytes]:
        if not self.stream:
            for event in events:
                self._response.accumulate(event)
            return []
        name = self.protocol.response.sse_event_name
        return [sse.frame(event.to_json(), name(event)) for event in events]

    def _end(self, reason: str) -> list[bytes]:
        self.finished, self.finish_reason = True, reason
        done = self.protocol.response.sse_done_data()
        return [sse.frame(done)] if self.stream and done is not None else []

    def response(self) -> bytes:
        """The whole reply as JSON; only when not streaming, after the last output."""
        assert self.finished
        body: str = self._response.to_json()
        return body.encode("utf-8", "replace")

    def error_frame(self, error: ApiError) -> bytes:
        """An error in the middle of a stream, framed so that the official clients raise it."""
        return sse.frame(error.body(envelope=self.protocol.envelope), None if self.protocol.name == "chat" else "error")


def open_turn(protocol: Protocol, body: bytes, models: dict[str, ChatModel], resolve: Any) -> Turn:
    """Convert a body and prepare it for its model.

    resolve: (model name in the request, protocol) → served name. Raises ApiError with the official status.
    """
    for_recipe, extensions = split_body(protocol, body)
    try:
        parsed = protocol.request(for_recipe)
    except ValueError as exc:
        raise from_value_error(exc) from exc
    requested: str = parsed.model
    served = resolve(requested, protocol.name)
    model = models[served]
    if has_images(extensions.document) and not model.dialect.shows_images(protocol.name):
        raise ApiError(400, f"This model does not support image (model {requested})")
    try:
        options = model.conversion_options(requested)
        converted, demanded = convert(
            protocol,
            parsed,
            extensions.document,
            options,
            calls_after_reasoning=model.dialect.calls_after_reasoning,
        )
        constraint = constraint_of(protocol, converted, extensions, demanded=demanded)
        prepared = model.dialect.prepare(converted, constraint)
        num_prompt = len(prepared.prompt_token_ids)
        max_tokens = converted.resolve_max_tokens(num_prompt, model.engine.context_length)
    except Exception as exc:
        error = from_exception(exc)
        if error.status >= 500:  # ours: let it be logged with its own traceback
            raise
        raise error from exc
    inference = converted.inference_options
    turn_id = protocol.new_id()
    generator = protocol.request.chunk_generator(converted, turn_id, requested)
    sampling = SamplingParams(
        max_tokens=max_tokens,
        temperature=1.0 if inference.temperature is None else inference.temperature,
        top_p=1.0 if inference.top_p is None else inference.top_p,
        seed=inference.seed,
        logprobs=(inference.top_logprobs or 0) if inference.logprobs else None,
    )
    return Turn(
        protocol,
        turn_id,
        requested,
        converted.stream,
        GenerationRequest(
            request_id=turn_id,
            prompt_token_ids=prepared.prompt_token_ids,
            sampling=sampling,
            grammar=prepared.grammar,
        ),
        prepared.reader,
        recipe.StreamProcessor(generator, prepared.parsing, prepared.reader.tokenizer),
        model.fingerprint,
        tuple(warning.pointer for warning in converted.warnings),
    )
