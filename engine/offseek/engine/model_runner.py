"""Turns scheduled chunks into one flat forward pass and gives back logits rows. Owns the model and the KV tensors."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .models.transformer import Batch, KVCache, Transformer
from .scheduler import ScheduledChunk


class ModelRunner:
    """Runs forward passes. Not thread-safe."""

    def __init__(self, model: Transformer, cache: KVCache, *, block_size: int) -> None:
        self.model = model
        self.cache = cache
        self.block_size = block_size
        self.device = model.ops.device
        self.forward_s = 0.0

    def prepare(self, chunks: Seq[ScheduledChunk]) -> Batch:
        """Lay the chunks' tokens side by side; logits are wanted for last tokens and the drafts after them."""
        total = sum(chunk.num_tokens for chunk in chunks)
        tokens, positions, slots = (np.zeros(total, np.int64) for _ in range(3))
        starts = np.zeros(len(chunks) + 1, np.int32)
        lengths = np.zeros(len(chunks), np.int32)
        tables = np.zeros((len(chunks), max(len(c.sequence.blocks) for c in chunks)), np.int32)
        wanted: list[int] = []
        for index, chunk in enumerate(chunks):
            sequence, start = chunk.sequence, starts[index]
            stop = start + chunk.num_tokens
            first, last = sequence.num_computed, sequence.num_computed + chunk.num_tokens
            known = sequence.tokens[first:last]
            tokens[start:stop] = known + sequence.drafts[: chunk.num_tokens - len(known)]
            positions[start:stop] = range(first, last)
            tables[index, : len(sequence.blocks)] = sequence.blocks
            slots[start:stop] = (
                tables[index, positions[start:stop] // self.block_size].astype(np.int64) * self.block_size
                + positions[start:stop] % self.block_size
            )
            starts[index + 1], lengths[index] = stop, last
            if chunk.reaches_end:
                wanted += range(stop - 1 - len(sequence.drafts), stop)
        return Batch(
            token_ids=self._place(tokens),
            positions=self._place(positions),
            slots=self._place(slots),
            block_tables=self._place(tables),
            query_starts=self._place(starts),
            context_lens=self._place(lengths),
            logit_rows=self._place(np.array(wanted, np.int64)),
            max_query_len=max(chunk.num_tokens for chunk in chunks),
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return logits [len(batch.logit_rows), vocab]."""
        start = time.perf_counter()
        logits = self.model.forward(batch, self.cache)
        self.forward_s += time.perf_counter() - start
        return logits

    def _place(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor
