"""Checks a request before any work is done for it. Each error names the field."""

from __future__ import annotations

import math

from .errors import ConfigError, ContextLengthError
from .request import GenerationRequest, SamplingParams


def check_sampling(s: SamplingParams) -> None:
    """Raise ConfigError for a setting outside its range."""

    def require(ok: bool, field: str, rule: str) -> None:
        if not ok:
            raise ConfigError(f"{field} is {getattr(s, field)!r} but must be {rule}", field=field)

    for field in ("temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"):
        require(math.isfinite(getattr(s, field)), field, "a finite number")
    require(s.temperature >= 0, "temperature", "0 or greater")
    require(0 < s.top_p <= 1, "top_p", "greater than 0 and at most 1")
    require(0 <= s.min_p <= 1, "min_p", "between 0 and 1")
    require(s.top_k >= 0, "top_k", "0 (off) or greater")
    require(s.top_k < 2**31, "top_k", "less than 2**31")
    require(s.repetition_penalty > 0, "repetition_penalty", "greater than 0")
    require(s.max_tokens is None or s.max_tokens >= 1, "max_tokens", "at least 1")
    require(s.logprobs is None or s.logprobs >= 0, "logprobs", "0 or greater")
    require(s.seed is None or -(2**63) <= s.seed < 2**64, "seed", "a 64-bit integer")
    require(all(s.stop), "stop", "made of non-empty strings")


def check_request(request: GenerationRequest, *, context_length: int, vocab_size: int) -> int:
    """Return the most tokens the request may generate. Raises ConfigError, or ContextLengthError when it cannot fit."""
    check_sampling(request.sampling)
    prompt = request.prompt_token_ids
    if not len(prompt):
        raise ConfigError("prompt_token_ids is empty", field="prompt_token_ids")
    worst = max(prompt, key=lambda token: token if token >= 0 else vocab_size)
    if not 0 <= worst < vocab_size:
        raise ConfigError(
            f"prompt token id {worst} is outside the vocabulary of {vocab_size}", field="prompt_token_ids"
        )
    wanted = request.sampling.max_tokens
    if len(prompt) + (wanted or 1) > context_length:
        what = f"request '{request.request_id}' ({len(prompt)} prompt tokens and max_tokens {wanted or 'unset'})"
        raise ContextLengthError(needed=len(prompt) + (wanted or 1), context_length=context_length, what=what)
    return wanted if wanted is not None else context_length - len(prompt)
