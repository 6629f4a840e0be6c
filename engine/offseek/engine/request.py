"""What an engine is asked and what it answers: token ids and sampling settings in, token ids out.

The seam between `offseek.sdk` and whatever generates tokens (our torch engine, a vLLM or SGLang
server, a scripted engine in tests). Imports no torch; knows nothing of chat formats or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How ids are picked from logits. Defaults: plain sampling from the model's distribution."""

    max_tokens: int | None = None  # None: up to the context length
    temperature: float = 1.0  # 0 = arg-max
    top_p: float = 1.0  # (0, 1]
    top_k: int = 0  # 0 = off
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None  # None: drawn once by the engine and reported nowhere
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()  # besides the model's EOS ids
    ignore_eos: bool = False
    logprobs: int | None = None  # None: off; k: the chosen id and the k best


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One sequence to generate. `request_id` is the caller's and unique among live requests."""

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    grammar: CompiledGrammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Natural log probabilities of one generated id. `raw` = before the bitmask, `masked` = after it."""

    token_id: int
    raw: float
    masked: float
    top_raw: tuple[tuple[int, float], ...] = ()
    top_masked: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """What one `step()` added to one request. The last one has `finish_reason` set.

    token_ids: new ids only, without EOS or stop token ids.
    error: set exactly when finish_reason is "error"; other requests are not affected.
    stop_sequence: the stop string that ended the request. Tokens that may be the start of a stop string are held back
    until that is decided; `stop_cut_bytes` bytes at the end of the last reported token belong to the stop string.
    prompt_cache_hit_tokens: prompt tokens whose keys and values were re-used, in whole cache blocks.
    """

    request_id: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    error: Exception | None = None
    prompt_tokens: int = 0
    prompt_cache_hit_tokens: int = 0
    stop_cut_bytes: int = 0


class EngineProtocol(Protocol):
    """Anything that turns requests into token ids, many at a time."""

    @property
    def context_length(self) -> int: ...

    def add_request(self, request: GenerationRequest) -> None:
        """Queue a request. Raises ConfigError for settings or lengths that can never run."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a request; its last output has finish_reason "cancelled". Unknown ids are ignored."""
        ...

    def has_work(self) -> bool: ...

    def step(self) -> list[RequestOutput]:
        """Advance every running request by one scheduling step."""
        ...
