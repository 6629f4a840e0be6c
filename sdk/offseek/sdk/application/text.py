"""Text completions: the prompt goes to the model as it is, or as prefix and suffix of a hole to fill (FIM).

Official shape: `POST /beta/completions`; the recipe checks the body, there is no chat to render. Log probabilities
come in the legacy layout (`tokens`, `token_logprobs`, `top_logprobs`, `text_offset`).
"""

from __future__ import annotations

import codecs
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from offseek import recipe
from offseek.engine.request import GenerationRequest, RequestOutput, SamplingParams, TokenLogprobs
from offseek.recipe.completions import MAX_COMPLETION_TOKENS, CompletionRequest
from offseek.sdk.application import sse
from offseek.sdk.application.errors import ApiError, dump, from_exception, from_value_error
from offseek.sdk.model import ChatModel

FLOOR = -9999.0  # a log probability of minus infinity, as the official API writes it


@dataclass(slots=True)
class TextTurn:
    """A text completion in progress; the same face as `turn.Turn`."""

    id: str
    model: str
    stream: bool
    request: GenerationRequest
    chat_model: ChatModel
    body: CompletionRequest
    created: int = field(default_factory=lambda: int(time.time()))
    finished: bool = False
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    _text: list[str] = field(default_factory=list)
    _logprobs: list[TokenLogprobs] = field(default_factory=list)
    _decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _length: int = 0  # characters before the next token, for text_offset

    def push(self, output: RequestOutput) -> list[bytes]:
        """Take engine outputs; return SSE frames when streaming. Raises ApiError when the engine failed."""
        if self.finished:
            return []
        if output.finish_reason == "error":
            assert output.error is not None
            raise from_exception(output.error)
        first = self.prompt_tokens == 0
        self.prompt_tokens = output.prompt_tokens or len(self.request.prompt_token_ids)
        self.cached_tokens = output.prompt_cache_hit_tokens
        self.completion_tokens += len(output.token_ids)
        data = b"".join(map(self.chat_model.token_bytes, output.token_ids))
        if cut := getattr(output, "stop_cut_bytes", 0):
            data = data[: len(data) - cut]
        text = self._decoder.decode(data, output.finish_reason is not None)
        if first and self.body.echo:
            text = self.body.prompt + text
        frames: list[bytes] = []
        if self.stream:
            if text or output.logprobs:
                frames.append(self._chunk(text, self._layout(output.logprobs), None))
        else:
            self._text.append(text)
            self._logprobs.extend(output.logprobs)
        if output.finish_reason is not None:
            self.finished = True
            self.finish_reason = "length" if output.finish_reason == "length" else "stop"
            if self.stream:
                frames += [self._chunk("", None, self.finish_reason), sse.DONE]
        return frames

    def response(self) -> bytes:
        choice = {
            "index": 0,
            "text": "".join(self._text),
            "logprobs": self._layout(self._logprobs),
            "finish_reason": self.finish_reason,
        }
        return dump(self._head() | {"choices": [choice], "usage": self._usage()})

    def error_frame(self, error: ApiError) -> bytes:
        return sse.frame(error.body())

    def _head(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.chat_model.fingerprint,
        }

    def _chunk(self, text: str, logprobs: Any, reason: str | None) -> bytes:
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
        chunk = self._head() | {"choices": [choice]}
        if reason is not None:  # as in chat: the last chunk always carries usage
            chunk["usage"] = self._usage()
        elif self.body.include_usage:
            chunk["usage"] = None
        return sse.frame(dump(chunk))

    def _usage(self) -> dict[str, Any]:
        prompt, completion, cached = self.prompt_tokens, self.completion_tokens, self.cached_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "prompt_cache_hit_tokens": cached,
            "prompt_cache_miss_tokens": max(prompt - cached, 0),
        }

    def _layout(self, logprobs: Any) -> dict[str, Any] | None:
        """The legacy layout; text offsets count characters of the completion."""
        if self.body.logprobs is None or not logprobs:
            return None
        tokens, offsets = [], []
        for entry in logprobs:
            token = self._token(entry.token_id)
            tokens.append(token)
            offsets.append(self._length)
            self._length += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [_finite(entry.raw) for entry in logprobs],
            "top_logprobs": [{self._token(i): _finite(p) for i, p in entry.top_raw} for entry in logprobs],
            "text_offset": offsets,
        }

    def _token(self, token_id: int) -> str:
        return self.chat_model.token_bytes(token_id).decode("utf-8", "replace")


def open_text(body: bytes, models: dict[str, ChatModel], resolve: Any) -> TextTurn:
    """Check a body and prepare it. Raises ApiError with the official status."""
    versions = dict.fromkeys(models, recipe.ModelVersion.DeepseekV4Pro)
    try:
        request = CompletionRequest.from_body(body, recipe.ConversionOptions().with_model_versions_by_name(versions))
    except recipe.ConversionError as exc:
        raise from_exception(exc) from exc
    except ValueError as exc:
        raise from_value_error(exc) from exc
    model = models[resolve(request.model, "chat")]
    try:
        ids = model.encode_text(request.prompt, request.suffix)
    except Exception as exc:
        raise from_exception(exc) from exc
    room = model.engine.context_length - len(ids)
    wanted = request.max_tokens
    if room < 1 or (wanted is not None and wanted > room):
        raise ApiError(
            400,
            f"This model's maximum context length is {model.engine.context_length} tokens. However, you requested "
            f"{len(ids) + (wanted or 0)} tokens ({len(ids)} in the prompt, {wanted or 0} in the completion). "
            "Please reduce the length of the prompt or completion.",
        )
    sampling = SamplingParams(
        max_tokens=min(room, wanted or MAX_COMPLETION_TOKENS),
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop,
        logprobs=request.logprobs,
    )
    turn_id = f"cmpl-{uuid.uuid4().hex}"
    engine_request = GenerationRequest(request_id=turn_id, prompt_token_ids=ids, sampling=sampling)
    return TextTurn(turn_id, request.model, request.stream, engine_request, model, request)


def _finite(value: float) -> float:
    return value if value > FLOOR else FLOOR
