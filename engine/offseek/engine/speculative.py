"""Prompt-lookup drafts: what followed the last few tokens earlier in the same sequence (Saxena, 2023).

A draft costs a row of the forward pass and is kept only where the sampler picks the same token, so results do not
change; a running confidence per sequence sets how many are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING

from offseek._errors import OffseekError

if TYPE_CHECKING:
    from .sequence import Sequence

NGRAM_SIZES = (4, 3, 2)
MEMORY = 0.7  # weight of the past in the running confidence
RECOVERY = 0.05  # confidence regained by each step without a draft


class PromptLookup:
    """Where each run of 2, 3 and 4 tokens of one sequence last ended, kept up to date as it grows."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}
        self._num_indexed = 0
        self.confidence = 1.0  # running share of drafts that were accepted

    def find(self, tokens: list[int], count: int) -> list[int]:
        """Up to `count` tokens that followed the latest earlier occurrence of the longest matching end of `tokens`."""
        # Runs that end before the last token; the last one's own run must not find itself.
        for end in range(self._num_indexed + 1, len(tokens)):
            for size in NGRAM_SIZES:
                if end >= size:
                    self._ends[tuple(tokens[end - size : end])] = end
        self._num_indexed = max(self._num_indexed, len(tokens) - 1)
        for size in NGRAM_SIZES:
            at = self._ends.get(tuple(tokens[-size:])) if len(tokens) > size else None
            if at is not None:
                return tokens[at : at + count]
        return []

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        """Update the confidence after a step."""
        if num_drafts:
            self.confidence = MEMORY * self.confidence + (1 - MEMORY) * num_accepted / num_drafts
        else:
            self.confidence = min(1.0, self.confidence + RECOVERY)


def propose_drafts(sequence: Sequence, max_drafts: int, eos_token_ids: Collection[int]) -> None:
    """Set `sequence.drafts` if it is decoding (one token pending) and its end occurred before.

    Drafts never hold an EOS id, and under a grammar only tokens that it accepts one after the other.
    """
    sequence.drafts = []
    s = sequence.sampling
    has_penalty = s.repetition_penalty != 1 or s.frequency_penalty != 0 or s.presence_penalty != 0
    # Penalties depend on the tokens before a row, which drafts would change under the sampler's feet.
    if sequence.num_pending != 1 or has_penalty:
        return
    room = sequence.max_tokens - sequence.num_generated - 1
    count = min(room, round(sequence.lookup.confidence * max_drafts))
    if count < 1:
        sequence.lookup.learn(0, 0)
        return
    found = sequence.lookup.find(sequence.tokens, count)
    drafts = list(itertools.takewhile(lambda token: token not in eos_token_ids, found))
    if drafts and sequence.grammar is not None:
        try:
            drafts = sequence.grammar.cut_drafts(drafts)
        except OffseekError:  # the matcher says so again when its mask is filled
            drafts = []
    sequence.drafts = drafts
