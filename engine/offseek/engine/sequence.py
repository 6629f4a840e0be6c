"""One request's tokens as they grow, and how far they are computed. No tensors, no policy."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from .kv_cache import ROOT_DIGEST, BlockPool, chain_digest
from .request import GenerationRequest, SamplingParams, TokenLogprobs
from .speculative import PromptLookup
from .stop import StopChecker
from .structured import GrammarState


@dataclass(slots=True, eq=False)
class Sequence:
    """A running or waiting request.

    tokens:       prompt and everything generated, EOS excluded.
    num_computed: leading tokens whose keys and values are in the cache or will be when the launched pass is done.
    in_flight:    1 while a token was sampled on the device and not read yet: it follows `tokens`, and is the number
                  `carry_row` of the last pass's rows.
    blocks:       block table, only ever appended to or replaced by a new list.
    drafts:       speculated tokens of this step, not part of `tokens`.
    end_ids:      tokens that end the text and are not part of it.
    """

    request: GenerationRequest
    tokens: list[int]
    max_tokens: int
    seed: int
    stop: StopChecker
    grammar: GrammarState | None = None
    end_ids: frozenset[int] = frozenset()
    num_computed: int = 0
    in_flight: int = 0
    carry_row: int = -1
    is_running: bool = False
    is_finished: bool = False
    was_preempted: bool = False
    blocks: list[int] = field(default_factory=list)
    cache_hit_tokens: int | None = None  # set when first scheduled
    drafts: list[int] = field(default_factory=list)
    lookup: PromptLookup = field(default_factory=PromptLookup)
    pending_logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_reported: int = 0  # generated tokens already handed to the caller
    num_published: int = 0  # full blocks already made findable
    last_digest: bytes = ROOT_DIGEST
    sampling: SamplingParams = field(init=False)
    num_prompt: int = field(init=False)

    def __post_init__(self) -> None:
        self.sampling = self.request.sampling
        self.num_prompt = len(self.request.prompt_token_ids)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens not computed yet (drafts excluded, the one in flight included)."""
        return len(self.tokens) + self.in_flight - self.num_computed

    @property
    def ends_in_flight(self) -> bool:
        """Whether the token in flight is the last one that `max_tokens` leaves room for."""
        return self.in_flight > 0 and len(self.tokens) + self.in_flight - self.num_prompt >= self.max_tokens

    @property
    def generated(self) -> Seq[int]:
        return self.tokens[self.num_prompt :]

    def blocks_missing(self, up_to: int, block_size: int) -> int:
        """Blocks to allocate so that `up_to` tokens have slots."""
        return max(0, -(-up_to // block_size) - len(self.blocks))

    def publish_full_blocks(self, pool: BlockPool, up_to: int) -> list[int]:
        """Make the blocks that are full of the first `up_to` tokens findable by other prompts; those that newly are."""
        size = pool.block_size
        published = []
        up_to = min(up_to, len(self.tokens))
        while (self.num_published + 1) * size <= up_to:
            start = self.num_published * size
            self.last_digest = chain_digest(self.last_digest, self.tokens[start : start + size])
            block = self.blocks[self.num_published]
            if pool.publish(block, self.last_digest):
                published.append(block)
            self.num_published += 1
        return published

    def reset_computed(self, pool: BlockPool) -> None:
        """Give all blocks back; the sequence starts over from its tokens (preemption)."""
        pool.release(self.blocks)
        self.blocks = []
        self.num_computed = self.num_published = 0
        self.last_digest = ROOT_DIGEST
        self.drafts = []
