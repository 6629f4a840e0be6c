"""Turns scheduled chunks into one flat forward pass and gives back logits rows. Owns the model and the KV tensors.

On CUDA small passes (decoding) are replayed from CUDA graphs, one per padded number of tokens, so that a pass costs one
launch; padding rows write to no slot and attend to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .models.transformer import Batch, KVCache, Transformer
from .scheduler import ScheduledChunk

#: Token counts of recorded graphs; larger passes run op by op.
GRAPH_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512)
#: Rows of an attention tile for decoding (and for everything in deterministic mode), and for prefill.
SMALL_TILE, LARGE_TILE = 16, 64


@dataclass(frozen=True, slots=True)
class HostBatch:
    """A pass laid out in numpy, as `Batch` describes it; `flat` is int64 [3, n]: token ids, positions, slots.

    carry: int64 [n]: where a token is still on the device only, the row of the last pass that it was sampled from; -1
        elsewhere. None: all tokens are known.
    """

    flat: NDArray[np.int64]
    tables: NDArray[np.int32]
    starts: NDArray[np.int32]
    lengths: NDArray[np.int32]
    logit_rows: NDArray[np.int64]
    carry: NDArray[np.int64] | None = None


@dataclass(slots=True)
class RecordedPass:
    """A CUDA graph with its static inputs, the pinned host memory they are copied from, and its output.

    flat: int64 [4, size], as in `HostBatch` with `carry` last.
    """

    graph: torch.cuda.CUDAGraph
    flat: Tensor
    tasks: Tensor
    host_flat: Tensor
    host_tasks: Tensor
    logits: Tensor


class ModelRunner:
    """Runs forward passes. Not thread-safe.

    max_blocks: blocks of the longest sequence, the width of block tables in CUDA graphs.
    carried_rows: most rows of a pass whose tokens the next one may take from the device (see `carry_tokens`); 0 = none.
    """

    def __init__(
        self, model: Transformer, cache: KVCache, *, block_size: int, max_blocks: int = 1, carried_rows: int = 0
    ) -> None:
        self.model = model
        self.cache = cache
        self.block_size = block_size
        self.device = model.ops.device
        self.forward_s = 0.0
        self._max_blocks = max_blocks
        self._graphs: dict[int, RecordedPass] = {}
        self._graph_tables: Tensor | None = None
        self._host_tables: Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        self._last_ids = torch.zeros(carried_rows, dtype=torch.int64, device=self.device) if carried_rows else None
        self._tables = np.zeros((0, 1), np.int32)
        self._table_rows: list[tuple[list[int], int]] = []  # block list of each row of `_tables`, and how much is in it

    def carry_tokens(self, token_ids: Tensor) -> None:
        """Remember the tokens just sampled, on the device: the next pass may begin before the host has them."""
        if self._last_ids is not None:
            self._last_ids[: len(token_ids)].copy_(token_ids)

    def prepare(self, chunks: Seq[ScheduledChunk]) -> HostBatch:
        """Lay the chunks' tokens side by side; logits are wanted for last tokens and the drafts after them."""
        counts = [chunk.num_tokens for chunk in chunks]
        ends = np.cumsum(counts)
        starts = np.zeros(len(chunks) + 1, np.int32)
        starts[1:] = ends
        lengths = np.array([c.sequence.num_computed + c.num_tokens for c in chunks], np.int32)
        tokens: list[int] = []
        carry: list[int] = []  # one entry per token
        wanted: list[int] = []
        for chunk in chunks:
            sequence, count = chunk.sequence, chunk.num_tokens
            if count == 1 and sequence.in_flight:
                tokens.append(0)
                carry.append(sequence.carry_row)
            else:
                first = sequence.num_computed
                known = sequence.tokens[first : first + count]
                tokens += known
                tokens += sequence.drafts[: count - len(known)]
                carry += [-1] * count
            if not chunk.reaches_end:
                continue
            if sequence.drafts:
                wanted += range(len(tokens) - 1 - len(sequence.drafts), len(tokens))
            else:
                wanted.append(len(tokens) - 1)
        owner = np.repeat(np.arange(len(chunks)), counts)
        tables = self._block_tables(chunks)
        flat = np.empty((3, len(tokens)), np.int64)
        flat[0] = tokens
        flat[1] = np.arange(len(tokens)) + np.repeat(lengths - ends, counts)
        flat[2] = tables[owner, flat[1] // self.block_size].astype(np.int64) * self.block_size
        flat[2] += flat[1] % self.block_size
        placed = np.array(carry, np.int64) if max(carry) >= 0 else None
        return HostBatch(flat, tables, starts, lengths, np.array(wanted, np.int64), placed)

    def _block_tables(self, chunks: Seq[ScheduledChunk]) -> NDArray[np.int32]:
        """Block tables, one row per chunk. Rows that did not change since the last pass are kept."""
        width = max(len(c.sequence.blocks) for c in chunks)
        if self._tables.shape[0] < len(chunks) or self._tables.shape[1] < width:
            shape = (max(self._tables.shape[0], len(chunks)), max(2 * width, self._tables.shape[1]))
            self._tables = np.zeros(shape, np.int32)
            self._table_rows = [([], 0)] * shape[0]
        for index, chunk in enumerate(chunks):
            blocks = chunk.sequence.blocks
            known, count = self._table_rows[index]
            if known is not blocks or count != len(blocks):
                start = count if known is blocks else 0
                self._tables[index, start : len(blocks)] = blocks[start:]
                self._table_rows[index] = blocks, len(blocks)
        return self._tables[: len(chunks), :width]

    def forward(self, host: HostBatch) -> Tensor:
        """Return logits [len(host.logit_rows), vocab] and store this pass's keys and values."""
        start = time.perf_counter()
        total = host.flat.shape[1]
        if self.device.type == "cuda" and total <= GRAPH_SIZES[-1] and host.tables.shape[0] <= GRAPH_SIZES[-1]:
            logits = self._replay(host)
        else:
            logits = self.model.forward(self._place_batch(host), self.cache)
        self.forward_s += time.perf_counter() - start
        return logits

    def _place_batch(self, host: HostBatch) -> Batch:
        tasks, tile = None, SMALL_TILE
        if self.device.type == "cuda":
            # One height of tiles for every pass makes attention batch-invariant; higher ones suit prefill better.
            tile = self._small_tile() if self.model.ops.deterministic else max(self._small_tile(), LARGE_TILE)
            tasks = self._place(self._tasks(host, tile))
        flat = self._place(host.flat)
        token_ids = flat[0] if host.carry is None else self._carried(flat[0], self._place(host.carry))
        return Batch(
            token_ids=token_ids,
            positions=flat[1],
            slots=flat[2],
            block_tables=self._place(np.ascontiguousarray(host.tables)),
            query_starts=self._place(host.starts),
            context_lens=self._place(host.lengths),
            logit_rows=self._place(host.logit_rows),
            tasks=tasks,
            tile_rows=tile,
        )

    def _carried(self, token_ids: Tensor, carry: Tensor) -> Tensor:
        """Fill in the tokens that are on the device only. A row that failed has id -1: any token does for it."""
        assert self._last_ids is not None
        return torch.where(carry >= 0, self._last_ids[carry.clamp(min=0)].clamp(min=0), token_ids)

    def _small_tile(self) -> int:
        """A tile holds at least the query heads of one key/value head."""
        group = self.model.config.num_heads // self.model.config.num_kv_heads
        return max(SMALL_TILE, 1 << (group - 1).bit_length())

    def _tasks(self, host: HostBatch, tile_rows: int) -> NDArray[np.int32]:
        """Attention work for tiles of `tile_rows` rows: int32 [4, num_tasks]."""
        config = self.model.config
        tokens = tile_rows // (config.num_heads // config.num_kv_heads)
        counts = np.diff(host.starts)
        per_sequence = -(-counts // tokens)
        sequence = np.repeat(np.arange(len(counts)), per_sequence)
        within = (np.arange(len(sequence)) - np.repeat(np.cumsum(per_sequence) - per_sequence, per_sequence)) * tokens
        count = np.minimum(tokens, counts[sequence] - within)
        position = host.lengths[sequence] - counts[sequence] + within
        return np.stack([sequence, host.starts[sequence] + within, count, position]).astype(np.int32)

    def _replay(self, host: HostBatch) -> Tensor:
        """Run a small pass through its CUDA graph, recording that first if need be."""
        total = host.flat.shape[1]
        size = next(s for s in GRAPH_SIZES if s >= total)
        recorded = self._graphs.get(size) or self._record(size)
        if self._copied is not None:  # the pinned memory may still be on its way to the device
            self._copied.synchronize()
        flat, tasks = recorded.host_flat.numpy(), recorded.host_tasks.numpy()
        flat[:3, :total] = host.flat
        flat[:2, total:] = 0
        flat[2, total:] = -1
        flat[3] = -1
        if host.carry is not None:
            flat[3, :total] = host.carry
        counts = np.diff(host.starts)
        tasks[:, total:] = 0
        tasks[0, :total] = np.repeat(np.arange(len(counts)), counts)
        tasks[1, :total] = np.arange(total)
        tasks[2, :total] = 1
        tasks[3, :total] = host.flat[1]
        assert self._graph_tables is not None
        assert self._host_tables is not None
        recorded.flat.copy_(recorded.host_flat, non_blocking=True)
        recorded.tasks.copy_(recorded.host_tasks, non_blocking=True)
        rows, width = host.tables.shape
        self._host_tables[:rows, :width] = torch.from_numpy(host.tables)
        self._graph_tables[:rows].copy_(self._host_tables[:rows], non_blocking=True)
        if self._copied is None:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied.record()
        recorded.graph.replay()
        if len(host.logit_rows) == total:
            return recorded.logits[:total]
        return recorded.logits[self._place(host.logit_rows)]

    def _record(self, size: int) -> RecordedPass:
        flat = torch.zeros(4, size, dtype=torch.int64, device=self.device)
        flat[2:] = -1
        tasks = torch.zeros(4, size, dtype=torch.int32, device=self.device)
        if self._graph_tables is None:
            shape = (GRAPH_SIZES[-1], self._max_blocks)
            self._graph_tables = torch.zeros(shape, dtype=torch.int32, device=self.device)
            self._host_tables = torch.zeros(shape, dtype=torch.int32, pin_memory=True)
        tables = self._graph_tables

        def forward() -> Tensor:
            token_ids = flat[0] if self._last_ids is None else self._carried(flat[0], flat[3])
            batch = Batch(
                token_ids=token_ids, positions=flat[1], slots=flat[2], block_tables=tables,
                query_starts=tasks[0], context_lens=tasks[0], logit_rows=None, tasks=tasks,
                tile_rows=self._small_tile(),
            )  # fmt: skip
            return self.model.forward(batch, self.cache)

        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):  # compiles the kernels and lets the libraries allocate
            forward()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool):
            logits = forward()
        host_flat, host_tasks = (torch.zeros(t.shape, dtype=t.dtype, pin_memory=True) for t in (flat, tasks))
        self._graphs[size] = RecordedPass(graph, flat, tasks, host_flat, host_tasks, logits)
        return self._graphs[size]

    def _pinned(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).pin_memory()

    def _place(self, array: NDArray[Any]) -> Tensor:
        if self.device.type == "cuda":
            return self._pinned(array).to(self.device, non_blocking=True)
        return torch.from_numpy(array)
