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
    num_computed: leading tokens whose keys and values are in the cache.
    blocks:       block table; drafts: speculated tokens of this step, not part of `tokens`.
    """

    request: GenerationRequest
    tokens: list[int]
    max_tokens: int
    seed: int
    stop: StopChecker
    grammar: GrammarState | None = None
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    cache_hit_tokens: int | None = None  # set when first scheduled
    drafts: list[int] = field(default_factory=list)
    lookup: PromptLookup = field(default_factory=PromptLookup)
    pending_logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_reported: int = 0  # generated tokens already handed to the caller
    num_published: int = 0  # full blocks already made findable
    last_digest: bytes = ROOT_DIGEST

    @property
    def sampling(self) -> SamplingParams:
        return self.request.sampling

    @property
    def num_prompt(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens not computed yet (drafts excluded)."""
        return len(self.tokens) - self.num_computed

    @property
    def generated(self) -> Seq[int]:
        return self.tokens[self.num_prompt :]

    def blocks_missing(self, up_to: int, block_size: int) -> int:
        """Blocks to allocate so that `up_to` tokens have slots."""
        return max(0, -(-up_to // block_size) - len(self.blocks))

    def publish_full_blocks(self, pool: BlockPool) -> None:
        """Make every newly full, computed block findable by other prompts."""
        size = pool.block_size
        while (self.num_published + 1) * size <= self.num_computed:
            start = self.num_published * size
            self.last_digest = chain_digest(self.last_digest, self.tokens[start : start + size])
            pool.publish(self.blocks[self.num_published], self.last_digest)
            self.num_published += 1

    def reset_computed(self, pool: BlockPool) -> None:
        """Give all blocks back; the sequence starts over from its tokens (preemption)."""
        pool.release(self.blocks)
        self.blocks = []
        self.num_computed = self.num_published = 0
        self.last_digest = ROOT_DIGEST
        self.drafts = []
