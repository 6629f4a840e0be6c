"""Prompt-lookup drafts: what followed the last few tokens earlier in the same sequence (Saxena, 2023).

A draft costs a row of the forward pass and is kept only where the sampler picks the same token, so results do not
change; a running confidence per sequence sets how many are tried.
"""

from __future__ import annotations

from .sampler import has_penalty
from .sequence import Sequence

MAX_NGRAM, MIN_NGRAM = 4, 2


def propose_drafts(sequence: Sequence, max_drafts: int) -> None:
    """Set `sequence.drafts` if it is decoding (one token pending) and its end occurred before."""
    sequence.drafts = []
    # Penalties depend on the tokens before a row, which drafts would change under the sampler's feet.
    if sequence.num_pending != 1 or has_penalty(sequence.sampling):
        return
    room = sequence.max_tokens - sequence.num_generated - 1
    count = min(room, round(sequence.draft_confidence * max_drafts))
    if count < 1:
        return
    drafts = lookup(sequence.tokens, count)
    if drafts and sequence.grammar is not None:
        drafts = sequence.grammar.cut_drafts(drafts)
    sequence.drafts = drafts


def lookup(tokens: list[int], count: int) -> list[int]:
    """Up to `count` tokens that followed the most recent earlier occurrence of the last 4, 3 or 2 tokens."""
    for size in range(MAX_NGRAM, MIN_NGRAM - 1, -1):
        if len(tokens) <= size:
            continue
        tail = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start] == tail[0] and tokens[start : start + size] == tail:
                return tokens[start + size : start + size + count]
    return []
