"""The local engine: requests in, token ids out, many at a time.

`step` is the loop: schedule chunks, start filling bitmasks in the background, run the model, sample, hand every new
token to its request. One `LocalEngine` belongs to one thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from offseek._errors import OffseekError
from torch import Tensor

from .config import EngineConfig
from .errors import ConfigError, OutOfDeviceMemoryError
from .kv_cache import BlockPool
from .model_runner import ModelRunner
from .request import FinishReason, GenerationRequest, RequestOutput
from .sampler import LogitsRow, RowResult, Sampler, has_penalty, token_logprobs
from .scheduler import ScheduledChunk, Scheduler
from .sequence import Sequence
from .speculative import propose_drafts
from .stop import StopChecker
from .structured import GrammarState, MaskFiller, MaskJob, MaskRequest
from .validation import check_request


@dataclass(slots=True)
class EngineStats:
    """Totals since the engine was made. Times in seconds."""

    num_steps: int = 0
    num_prompt_tokens: int = 0  # of admitted requests, cached ones included
    num_cached_tokens: int = 0  # prompt tokens served from the prefix cache
    num_generated_tokens: int = 0  # forced ones included
    num_forced_tokens: int = 0
    num_draft_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    num_preemptions: int = 0
    forward_s: float = 0.0
    sample_s: float = 0.0
    mask_fill_s: float = 0.0  # spent filling bitmasks, mostly hidden behind the forward pass
    mask_wait_s: float = 0.0  # the part of it that a step had to wait for


class LocalEngine:
    """Continuous batching over one model. Implements `EngineProtocol`.

    runner, pool: the model with its KV tensors, and the bookkeeping of their blocks.
    token_bytes:  id -> bytes, for stop strings.
    """

    def __init__(
        self,
        runner: ModelRunner,
        pool: BlockPool,
        config: EngineConfig,
        *,
        context_length: int,
        vocab_size: int,
        eos_token_ids: Seq[int],
        token_bytes: Seq[bytes],
        max_num_sequences: int,
        max_batch_tokens: int,
        mask_threads: int = 1,
    ) -> None:
        self.config = config
        self.eos_token_ids = tuple(eos_token_ids)
        self.stats = EngineStats()
        self._context_length = context_length
        self._vocab_size = vocab_size
        self._token_bytes = token_bytes
        self._runner = runner
        self._pool = pool
        self._scheduler = Scheduler(pool, max_num_sequences=max_num_sequences, max_batch_tokens=max_batch_tokens)
        self._sampler = Sampler(device=runner.device, vocab_size=vocab_size)
        self._masks = MaskFiller(num_threads=mask_threads)
        self._mask_buffer: NDArray[np.int32] = np.zeros((0, 1), np.int32)
        self._sequences: dict[str, Sequence] = {}
        self._finished: list[RequestOutput] = []

    @property
    def context_length(self) -> int:
        """Most tokens of a prompt and its reply together."""
        return self._context_length

    @property
    def vocab_size(self) -> int:
        """Ids the engine may choose; the width of the bitmask in bits."""
        return self._vocab_size

    def add_request(self, request: GenerationRequest) -> None:
        """Queue a request.

        Raises ConfigError naming the field for settings that can never run, ContextLengthError for a request longer
        than the context, GrammarError from the grammar when no matcher can be made.
        """
        if request.request_id in self._sequences:
            raise ConfigError(f"request id '{request.request_id}' is already running", field="request_id")
        max_tokens = check_request(
            request, context_length=self._context_length, vocab_size=self._runner.model.config.vocab_size
        )
        grammar = GrammarState(request.grammar.matcher()) if request.grammar is not None else None
        seed = request.sampling.seed
        sequence = Sequence(
            request,
            list(request.prompt_token_ids),
            max_tokens,
            (secrets.randbits(64) if seed is None else seed) % 2**64,
            stop=StopChecker(request.sampling.stop),
            grammar=grammar,
        )
        self._sequences[request.request_id] = sequence
        self._scheduler.waiting.append(sequence)
        self.stats.num_prompt_tokens += sequence.num_prompt
        # Text that every answer begins with is computed together with the prompt.
        if (last := self._append_forced(sequence)) is not None:
            self._finished.append(last)

    def cancel(self, request_id: str) -> None:
        """Stop a request; the next step reports it as "cancelled". Unknown ids are ignored."""
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._finished.append(self._finish(sequence, "cancelled"))

    def has_work(self) -> bool:
        return bool(self._finished) or self._scheduler.has_work()

    def close(self) -> None:
        """End the background thread. The engine cannot be used afterwards."""
        self._masks.close()

    @torch.inference_mode()
    def step(self) -> list[RequestOutput]:
        """Advance every scheduled request; return what is new for each.

        Raises OutOfDeviceMemoryError when not even one sequence fits; every other failure is one request's and comes
        as its output.
        """
        outputs, self._finished = self._finished, []
        if self.config.speculative_tokens:
            for sequence in self._scheduler.running:
                propose_drafts(sequence, self.config.speculative_tokens, self.eos_token_ids)
        chunks = self._scheduler.schedule()
        if not chunks:
            return outputs
        batch = self._runner.prepare(chunks)
        job: MaskJob | None = None
        try:
            # A GPU works on the launched pass while the rest is prepared; on a CPU the pass blocks, so a thread that
            # fills slow masks has to be started before it.
            logits = self._runner.forward(batch) if self._runner.device.type == "cuda" else None
            rows, requests, num_masks = self._plan_rows(chunks)
            masks = self._mask_rows(num_masks)
            job = self._masks.start(requests, masks) if requests else None
            if logits is None:
                logits = self._runner.forward(batch)
            scored = logits
            if any(has_penalty(c.sequence.sampling) and c.sequence.sampling.logprobs is not None for c in chunks):
                scored = logits.clone()  # the sampler applies penalties in place
            results = self._sample(logits, rows, masks, job)
        except BaseException as error:  # Ctrl-C too: nothing has changed yet, so the step can be repeated
            if job is not None:
                job.wait()
            if not isinstance(error, torch.OutOfMemoryError):
                self._finished = outputs
                raise
            self._shrink(error)
            return outputs
        failed = {id(requests[i].state): e for i, e in job.failed.items()} if job is not None else {}
        outputs += self._collect(chunks, rows, results, scored, masks, failed)
        self._update_stats()
        return outputs

    def _mask_rows(self, count: int) -> NDArray[np.int32]:
        """Rows for this step's bitmasks, in memory that the device can copy from by itself. Every word gets written."""
        if count > len(self._mask_buffer):
            shape = (max(count, 2 * len(self._mask_buffer)), -(-self._vocab_size // 32))
            on_gpu = self._runner.device.type == "cuda"
            self._mask_buffer = torch.zeros(shape, dtype=torch.int32, pin_memory=on_gpu).numpy()
        return self._mask_buffer[:count]

    def _plan_rows(self, chunks: Seq[ScheduledChunk]) -> tuple[list[list[LogitsRow]], list[MaskRequest], int]:
        """Rows to sample from for each chunk, and the bitmask rows they need."""
        rows: list[list[LogitsRow]] = []
        requests: list[MaskRequest] = []
        num_masks = 0
        for chunk in chunks:
            sequence = chunk.sequence
            if not chunk.reaches_end:
                rows.append([])
                continue
            count = 1 + len(sequence.drafts)
            first = -1
            if sequence.grammar is not None:
                first = num_masks
                num_masks += count
                requests.append(MaskRequest(sequence.grammar, first, tuple(sequence.drafts)))
            at = len(sequence.tokens)
            rows.append([LogitsRow(sequence, at + j, first + j if first >= 0 else -1) for j in range(count)])
        return rows, requests, num_masks

    def _sample(
        self,
        logits: Tensor,
        rows: Seq[Seq[LogitsRow]],
        masks: NDArray[np.int32],
        job: MaskJob | None,
    ) -> list[RowResult]:
        if job is not None:
            job.wait()
        if not len(logits):
            return []
        bitmask = torch.from_numpy(masks).to(self._runner.device, non_blocking=True) if len(masks) else None
        return self._sampler.sample(logits, [row for own in rows for row in own], bitmask)

    def _collect(
        self,
        chunks: Seq[ScheduledChunk],
        rows: Seq[Seq[LogitsRow]],
        results: list[RowResult],
        logits: Tensor,
        masks: NDArray[np.int32],
        failed: dict[int, Exception],
    ) -> list[RequestOutput]:
        """Hand the sampled tokens to their sequences and say what is new."""
        outputs: list[RequestOutput] = []
        at = 0
        for chunk, own in zip(chunks, rows, strict=True):
            sequence, first = chunk.sequence, at
            at += len(own)
            drafts, sequence.drafts = sequence.drafts, []
            sequence.num_computed += chunk.num_tokens - (len(drafts) if chunk.reaches_end else 0)
            sequence.publish_full_blocks(self._pool)
            if not chunk.reaches_end:
                continue
            error = failed.get(id(sequence.grammar))
            if error is not None:
                outputs.append(self._finish(sequence, "error", error=error))
                continue
            output = self._advance(sequence, drafts, own, results[first:at], logits[first:at], masks)
            if output is not None:
                outputs.append(output)
        return outputs

    def _advance(
        self,
        sequence: Sequence,
        drafts: Seq[int],
        rows: Seq[LogitsRow],
        results: Seq[RowResult],
        logits: Tensor,
        masks: NDArray[np.int32],
    ) -> RequestOutput | None:
        """Take sampled tokens for as long as the drafts agree with them."""
        for j, (row, result) in enumerate(zip(rows, results, strict=True)):
            if result.error is not None:
                return self._finish(sequence, "error", error=result.error)
            token, wanted = result.token_id, sequence.sampling.logprobs
            is_end = token in sequence.sampling.stop_token_ids or (
                token in self.eos_token_ids and not (sequence.sampling.ignore_eos and sequence.grammar is None)
            )
            if is_end:
                return self._finish(sequence, "stop")
            if wanted is not None:
                mask = masks[row.mask_row] if row.mask_row >= 0 else None
                sequence.pending_logprobs.append(
                    token_logprobs(logits[j], mask, token, num_top=wanted, vocab_size=self._vocab_size)
                )
            agreed = j < len(drafts) and token == drafts[j]
            try:
                finished = self._append(sequence, token)
            except OffseekError as error:
                return self._finish(sequence, "error", error=error)
            if finished is not None:
                return self._finish(sequence, finished)
            if not agreed:
                break
            sequence.num_computed += 1
        if drafts:
            sequence.lookup.learn(len(drafts), j)
            self.stats.num_draft_tokens += len(drafts)
            self.stats.num_accepted_draft_tokens += j
        last = self._append_forced(sequence)
        if last is not None:
            return last
        sequence.publish_full_blocks(self._pool)
        return self._report(sequence)

    def _append(self, sequence: Sequence, token: int) -> FinishReason | None:
        """Add one token. Returns why the sequence is complete, or None."""
        if sequence.grammar is not None:
            sequence.grammar.accept(token)
        sequence.tokens.append(token)
        self.stats.num_generated_tokens += 1
        sequence.stop.push(self._token_bytes[token] if token < len(self._token_bytes) else b"")
        if sequence.stop.found is not None:
            return "stop"
        if sequence.grammar is not None and sequence.grammar.is_finished:
            return "stop"
        return "length" if sequence.num_generated >= sequence.max_tokens else None

    def _append_forced(self, sequence: Sequence) -> RequestOutput | None:
        """Append every token the grammar forces; they are computed together in the next pass.

        Returns the last output if that completes the sequence. Log probabilities need the logits of every token, so
        requests that want them decode forced tokens one by one.
        """
        if not self.config.forced_tokens or sequence.grammar is None or sequence.sampling.logprobs is not None:
            return None
        try:
            for token in sequence.grammar.forced_tokens():
                finished = self._append(sequence, token)
                self.stats.num_forced_tokens += 1
                if finished is not None:
                    return self._finish(sequence, finished)
        except OffseekError as error:
            return self._finish(sequence, "error", error=error)
        return None

    def _report(self, sequence: Sequence) -> RequestOutput | None:
        """What may be shown now; None if nothing is new."""
        shown = sequence.stop.num_shown
        if shown <= sequence.num_reported:
            return None
        return self._output(sequence, shown)

    def _output(
        self, sequence: Sequence, shown: int, reason: FinishReason | None = None, error: Exception | None = None
    ) -> RequestOutput:
        start, sequence.num_reported = sequence.num_reported, shown
        count = shown - start if sequence.sampling.logprobs is not None else 0
        logprobs, sequence.pending_logprobs = sequence.pending_logprobs[:count], sequence.pending_logprobs[count:]
        return RequestOutput(
            request_id=sequence.request.request_id,
            token_ids=tuple(sequence.tokens[sequence.num_prompt + start : sequence.num_prompt + shown]),
            logprobs=tuple(logprobs),
            finish_reason=reason,
            stop_sequence=sequence.stop.found,
            stop_cut_bytes=sequence.stop.cut_bytes if reason is not None else 0,
            error=error,
            prompt_tokens=sequence.num_prompt,
            prompt_cache_hit_tokens=sequence.cache_hit_tokens or 0,
        )

    def _finish(self, sequence: Sequence, reason: FinishReason, *, error: Exception | None = None) -> RequestOutput:
        """Take a sequence out of the engine and make its last output."""
        shown = sequence.stop.num_shown if sequence.stop.found is not None else sequence.num_generated
        output = self._output(sequence, max(shown, sequence.num_reported), reason, error)
        self.stats.num_cached_tokens += sequence.cache_hit_tokens or 0
        self._scheduler.finish(sequence)
        del self._sequences[sequence.request.request_id]
        return output

    def _shrink(self, error: Exception) -> None:
        """After running out of device memory: smaller batches from now on, or a clear error when that cannot help."""
        scheduler = self._scheduler
        torch.cuda.empty_cache()
        for sequence in scheduler.running:
            sequence.drafts = []
        if scheduler.max_batch_tokens > 64:
            scheduler.max_batch_tokens //= 2
            scheduler.max_num_sequences = min(scheduler.max_num_sequences, scheduler.max_batch_tokens)
            while len(scheduler.running) > scheduler.max_num_sequences:
                scheduler.preempt(scheduler.running[-1])
            return
        raise OutOfDeviceMemoryError(
            f"out of device memory with batches of {scheduler.max_batch_tokens} tokens; "
            "lower num_blocks or use a smaller model"
        ) from error

    def _update_stats(self) -> None:
        self.stats.num_steps += 1
        self.stats.forward_s = self._runner.forward_s
        self.stats.sample_s = self._sampler.sample_s
        self.stats.mask_fill_s = self._masks.fill_s
        self.stats.mask_wait_s = self._masks.wait_s
        self.stats.num_preemptions = self._scheduler.num_preemptions
