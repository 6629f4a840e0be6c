"""Settings of the engine: batch sizes, KV cache, numerics. Checked when made; each error names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import ConfigError

DType = Literal["auto", "float32", "bfloat16", "float16", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How a `LocalEngine` runs. The defaults suit the device: None means "chosen for the device".

    max_num_sequences: most requests that run at once. None: 32 on CPU, 256 on CUDA.
    max_batch_tokens: most tokens of one forward pass; longer prompts are prefilled in chunks. None: 512 or 8192.
    block_size: tokens per KV block, a multiple of 16; prefix hits are counted in whole blocks.
    num_blocks: KV blocks; None: enough for max_num_sequences sequences of 1,024 tokens and at least one full context.
    context_length: None: the model's.
    prefix_cache: re-use the KV blocks of a common prompt prefix.
    forced_tokens: append tokens that the grammar leaves no choice about without a decoding step each.
    speculative_tokens: most prompt-lookup draft tokens per step and sequence; 0 = off.
    deterministic: batch-invariant numerics: the same request gives the same bits in any batch.
    async_scheduling: launch each pass before the tokens of the one before it are read, so that the host's work and the
        bitmasks cost no device time; results do not change. None: on CUDA without speculative_tokens.
    num_threads: CPU threads of torch and of the native kernels; None: torch's current setting.
    """

    max_num_sequences: int | None = None
    max_batch_tokens: int | None = None
    block_size: int = 16
    num_blocks: int | None = None
    context_length: int | None = None
    prefix_cache: bool = True
    forced_tokens: bool = True
    speculative_tokens: int = 0
    deterministic: bool = False
    async_scheduling: bool | None = None
    num_threads: int | None = None

    def __post_init__(self) -> None:
        for field in ("max_num_sequences", "max_batch_tokens", "num_blocks", "context_length", "num_threads"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ConfigError(f"{field} is {value} but must be at least 1", field=field)
        if self.block_size < 16 or self.block_size % 16:
            raise ConfigError(f"block_size is {self.block_size} but must be a multiple of 16", field="block_size")
        if self.speculative_tokens < 0:
            raise ConfigError(
                f"speculative_tokens is {self.speculative_tokens} but must not be negative", field="speculative_tokens"
            )
        if self.async_scheduling and self.speculative_tokens:
            raise ConfigError(
                "async_scheduling cannot be combined with speculative_tokens: drafts need the tokens before them",
                field="async_scheduling",
            )
        if self.max_num_sequences and self.max_batch_tokens and self.max_batch_tokens < self.max_num_sequences:
            raise ConfigError(
                f"max_batch_tokens ({self.max_batch_tokens}) is less than max_num_sequences ({self.max_num_sequences})",
                field="max_batch_tokens",
            )
