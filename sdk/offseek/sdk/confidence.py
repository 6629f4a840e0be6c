"""How sure the model was of each field: the probability of its value's tokens under the mask.

The confidence of a top-level field is exp(mean log-probability after masking) over the tokens that wrote its
value; a token shared by a value and its neighbours counts for each. 1.0 when the grammar left no choice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from offseek.sdk.generation import Completion


def field_confidence(completion: Completion, token_bytes: Callable[[int], bytes]) -> dict[str, float]:
    """Return {top-level key: confidence in (0, 1]} of a completion that is one JSON object; {} for other values."""
    pieces = [token_bytes(t) for t in completion.token_ids]
    text = b"".join(pieces).decode("utf-8", "replace")
    spans = _value_spans(text)
    if not spans or len(completion.logprobs) != len(pieces):
        return {}
    ends: list[int] = []  # character position at which each token ends
    data = b""
    for piece in pieces:
        data += piece
        ends.append(len(data.decode("utf-8", "ignore")))
    found: dict[str, float] = {}
    for key, (start, stop) in spans.items():
        logprobs, begin = [], 0
        for end, logprob in zip(ends, completion.logprobs, strict=True):
            if begin < stop and end > start:
                logprobs.append(logprob.masked)
            begin = end
        if logprobs:
            found[key] = round(math.exp(sum(logprobs) / len(logprobs)), 4)
    return found


def _value_spans(text: str) -> dict[str, tuple[int, int]]:
    """Character span of the value of each top-level key of a JSON object text."""
    decoder = json.JSONDecoder()
    spans: dict[str, tuple[int, int]] = {}
    position = _skip(text, 0)
    if text[position : position + 1] != "{":
        return {}
    position = _skip(text, position + 1)
    while position < len(text) and text[position] == '"':
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, _skip(text, position) + 1)  # the colon
        start = position
        _, position = decoder.raw_decode(text, position)
        spans[key] = (start, position)
        position = _skip(text, position)
        if text[position : position + 1] != ",":
            break
        position = _skip(text, position + 1)
    return spans


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position
