"""Decides which tokens of which sequences the next forward pass computes.

Continuous batching with chunked prefill: sequences that have one token to compute go first, then prompts fill what is
left of the token budget. When blocks run out the youngest running sequence is put back in front of the queue and later
recomputed from its tokens, which changes nothing in its result. Knows no tensors.

Blocks are findable by other prompts from the moment the pass that fills them is scheduled: a pass stores the keys and
values of all its tokens, layer by layer, before any of them is attended to, so prompts that arrive together share their
prefix within one pass. `abort` takes that back when the pass did not happen.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .errors import OutOfBlocksError
from .kv_cache import BlockPool
from .sequence import Sequence


class ScheduledChunk(NamedTuple):
    """Compute `num_tokens` tokens of `sequence` from `num_computed` on (its drafts come after its tokens).

    end:         number of the sequence's tokens that are computed afterwards, drafts not counted.
    reaches_end: the last of `tokens` is among them, so the chunk's end gives logits to sample from.
    """

    sequence: Sequence
    num_tokens: int
    end: int
    reaches_end: bool


class Scheduler:
    """Queue of waiting sequences and list of running ones, oldest first."""

    def __init__(self, pool: BlockPool, *, max_num_sequences: int, max_batch_tokens: int) -> None:
        self.pool = pool
        self.max_num_sequences = max_num_sequences
        self.max_batch_tokens = max_batch_tokens
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self._admitted: list[Sequence] = []  # by the last `schedule`
        self._published: list[tuple[Sequence, int, bytes, list[int]]] = []

    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def schedule(self) -> list[ScheduledChunk]:
        """Pick the chunks of the next pass and give their sequences the blocks they need."""
        budget = self.max_batch_tokens
        chunks: list[ScheduledChunk] = []
        before = self.num_preemptions
        self._admitted, self._published = [], []
        # Fewest pending tokens first: decoding before prefill, equals oldest first.
        for sequence in sorted(self.running, key=lambda s: s.num_pending):
            if budget == 0:
                break
            # Not if it was preempted meanwhile to make room for an older one, or the token in flight is its last.
            if not sequence.is_running or sequence.ends_in_flight:
                continue
            chunk = self._chunk(sequence, budget)
            if chunk is not None:
                chunks.append(chunk)
                budget -= chunk.num_tokens
        preempted = self.num_preemptions > before
        if preempted:
            chunks = [chunk for chunk in chunks if chunk.sequence.is_running]
        for chunk in chunks:
            self._publish(chunk)
        if preempted:  # no admission now, or the two would take turns
            return chunks
        while self.waiting and budget > 0 and len(self.running) < self.max_num_sequences:
            sequence = self.waiting[0]
            if not self._admit(sequence, budget):
                break
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.is_running = True
            self._admitted.append(sequence)
            chunk = self._chunk(sequence, budget)
            assert chunk is not None
            self._publish(chunk)
            chunks.append(chunk)
            budget -= chunk.num_tokens
        return chunks

    def _publish(self, chunk: ScheduledChunk) -> None:
        sequence = chunk.sequence
        if (sequence.num_published + 1) * self.pool.block_size > sequence.num_computed + chunk.num_tokens:
            return
        before = sequence.num_published, sequence.last_digest
        blocks = sequence.publish_full_blocks(self.pool, sequence.num_computed + chunk.num_tokens)
        if sequence.num_published > before[0]:
            self._published.append((sequence, *before, blocks))

    def abort(self) -> None:
        """Undo what the last `schedule` took for granted, because its pass did not happen."""
        for sequence, num_published, digest, blocks in reversed(self._published):
            for block in blocks:
                self.pool.unpublish(block)
            sequence.num_published, sequence.last_digest = num_published, digest
        for sequence in reversed(self._admitted):  # their prefixes may be blocks that nobody computed
            if sequence.is_running:
                self._put_back(sequence)
        self._admitted, self._published = [], []

    def _chunk(self, sequence: Sequence, budget: int) -> ScheduledChunk | None:
        """Make room for the next chunk, preempting younger sequences; None if `sequence` itself had to go."""
        pending = sequence.num_pending
        if pending > budget:
            sequence.drafts = []
        elif sequence.drafts:
            del sequence.drafts[budget - pending :]
        num_tokens = min(pending + len(sequence.drafts), budget)
        if sequence.num_computed + num_tokens <= len(sequence.blocks) * self.pool.block_size:
            end = sequence.num_computed + (num_tokens if num_tokens < pending else pending)
            return ScheduledChunk(sequence, num_tokens, end, num_tokens >= pending)
        while True:
            missing = sequence.blocks_missing(sequence.num_computed + num_tokens, self.pool.block_size)
            try:
                sequence.blocks += self.pool.allocate(missing)
            except OutOfBlocksError:
                if sequence.drafts:
                    num_tokens -= len(sequence.drafts)
                    sequence.drafts = []
                    continue
                victim = self.running[-1]
                self.preempt(victim)
                if victim is sequence:
                    return None
            else:
                return ScheduledChunk(
                    sequence, num_tokens, sequence.num_computed + min(num_tokens, pending), num_tokens >= pending
                )

    def _admit(self, sequence: Sequence, budget: int) -> bool:
        """Attach cached prefix blocks; False if the first chunk would not fit without preempting anyone."""
        size = self.pool.block_size
        blocks, digest = self.pool.match_prefix(sequence.tokens)
        cached = len(blocks) * size
        first = min(len(sequence.tokens) - cached, budget)
        needed = -(-(cached + first) // size) - len(blocks)
        # One spare block for each running sequence, or a full house would preempt at once.
        if needed + (len(self.running) if self.running else 0) > self.pool.num_free:
            self.pool.release(blocks)
            return False
        sequence.blocks = blocks
        sequence.num_computed = cached
        sequence.num_published, sequence.last_digest = len(blocks), digest
        if not sequence.was_preempted:
            sequence.cache_hit_tokens = min(cached, sequence.num_prompt // size * size)
        return True

    def preempt(self, sequence: Sequence) -> None:
        """Take a running sequence's blocks away and put it in front of the queue."""
        self._put_back(sequence)
        sequence.was_preempted = True
        self.num_preemptions += 1

    def _put_back(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        sequence.is_running = False
        sequence.reset_computed(self.pool)
        self.waiting.appendleft(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Remove a sequence, waiting or running, and release its blocks."""
        if sequence.is_running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        sequence.is_running, sequence.is_finished = False, True
        self.pool.release(sequence.blocks)
        sequence.blocks = []
