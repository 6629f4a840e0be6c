"""The local engine: requests in, token ids out, many at a time.

`step` is the loop: schedule chunks and launch the model on them, fill bitmasks meanwhile, sample, hand every new token
to its request. With asynchronous scheduling a pass is launched before the tokens of the one before it are read, so that
the device never waits for the host. One `LocalEngine` belongs to one thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

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
from .sampler import Draw, Drawn, LogitsRow, Sampler, has_penalty, token_logprobs
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


#: Result of a row whose grammar was not asked yet.
UNKNOWN = -2


@dataclass(slots=True, eq=False)
class Pass:
    """A forward pass on its way: launched, then sampled from, then its tokens taken, chunk by chunk."""

    chunks: list[ScheduledChunk]
    logits: Tensor | None = None
    rows: list[list[LogitsRow]] | None = None  # of each chunk
    masks: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 1), np.int32))
    job: MaskJob | None = None
    scored: Tensor | None = None  # the logits as they were before penalties
    draw: Draw | None = None
    drawn: Drawn | None = None
    accepted: list[int] | None = None  # of each row, what `GrammarState.accept_together` said; UNKNOWN: not asked
    num_taken: int = 0
    num_rows_taken: int = 0


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
        self._finished: list[RequestOutput] = []  # outputs for the next `step` to return
        self._launched: Pass | None = None  # computed, to be sampled from
        self._sampled: Pass | None = None  # tokens to be taken
        overlap = config.async_scheduling
        if overlap is None:
            overlap = runner.device.type == "cuda" and not config.speculative_tokens
        self._overlapped = overlap
        self._copy_stream: torch.cuda.Stream | None = None

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
            end_ids=frozenset(request.sampling.stop_token_ids).union(
                () if request.sampling.ignore_eos and grammar is None else self.eos_token_ids
            ),
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
        return bool(self._finished or self._launched or self._sampled) or self._scheduler.has_work()

    def close(self) -> None:
        """End the background thread. The engine cannot be used afterwards."""
        self._masks.close()

    @torch.inference_mode()
    def step(self) -> list[RequestOutput]:
        """Advance every scheduled request; return what is new for each.

        Raises OutOfDeviceMemoryError when not even one sequence fits; every other failure is one request's and comes
        as its output. After any exception, Ctrl-C included, the next call goes on where this one stopped.
        """
        if not self._overlapped:
            self._collect()  # of a call that was interrupted
        if self._launched is None:
            self._launch()
        if self._overlapped:
            self._collect()  # the pass before, while the device works on this one
        if self._launched is not None:
            self._sample(self._launched)
        if not self._overlapped:
            self._collect()
        outputs, self._finished = self._finished, []
        return outputs

    def _launch(self) -> None:
        """Schedule a pass and start it. With a pass not read yet, tokens of it are taken from the device."""
        if self.config.speculative_tokens:
            for sequence in self._scheduler.running:
                propose_drafts(sequence, self.config.speculative_tokens, self.eos_token_ids)
        chunks = self._scheduler.schedule()
        if not chunks:
            return
        work = Pass(chunks)
        try:
            # On a CPU the pass blocks, so a thread that fills slow masks has to be started before it.
            if self._runner.device.type == "cpu" and not self._overlapped:
                self._start_masks(work, in_background=True)
            work.logits = self._runner.forward(self._runner.prepare(chunks))
        except BaseException as error:  # Ctrl-C too: the pass did not happen, so it can be scheduled again
            if work.job is not None:
                work.job.wait()
            self._scheduler.abort()
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            self._shrink(error)
            return
        for chunk in chunks:
            sequence = chunk.sequence
            sequence.num_computed += chunk.num_tokens - (len(sequence.drafts) if chunk.reaches_end else 0)
        self._launched = work

    def _start_masks(self, work: Pass, *, in_background: bool) -> None:
        """Plan the rows to sample from and begin filling their bitmasks. Every token before them must be known."""
        work.rows, requests, num_masks = self._plan_rows(work.chunks)
        work.masks = self._mask_rows(num_masks)
        work.job = self._masks.start(requests, work.masks, in_background=in_background) if requests else None

    def _sample(self, work: Pass) -> None:
        """Start sampling from a launched pass, whose bitmasks are filled while the device still computes it."""
        if work.rows is None:
            self._start_masks(work, in_background=False)
        assert work.rows is not None
        assert work.logits is not None
        if work.job is not None:
            work.job.wait()
        try:
            if work.draw is None:  # else an interrupt came right after it was made
                work.scored = work.logits
                settings = [c.sequence.sampling for c in work.chunks if c.sequence.sampling.logprobs is not None]
                if settings and (self._overlapped or any(has_penalty(s) for s in settings)):
                    # The sampler applies penalties in place, and the next pass may be written over this one's logits.
                    work.scored = work.logits.clone()
                work.draw = self._sampler.launch(
                    work.logits, [row for own in work.rows for row in own], self._place_masks(work.masks)
                )
            if self._overlapped:
                self._runner.carry_tokens(work.draw.token_ids)
        except torch.OutOfMemoryError as error:
            self._launched = None
            for chunk in work.chunks:
                if chunk.sequence.is_running:
                    drafts = len(chunk.sequence.drafts) if chunk.reaches_end else 0
                    chunk.sequence.num_computed -= chunk.num_tokens - drafts
            self._shrink(error)
            return
        at = 0
        for own in work.rows:
            if own and own[0].position == len(own[0].sequence.tokens) and not own[0].sequence.is_finished:
                own[0].sequence.in_flight, own[0].sequence.carry_row = 1, at
            at += len(own)
        self._sampled, self._launched = work, None

    def _mask_rows(self, count: int) -> NDArray[np.int32]:
        """Rows for this step's bitmasks, in memory that the device can copy from by itself. Every word gets written."""
        if count > len(self._mask_buffer):
            shape = (max(count, 2 * len(self._mask_buffer)), -(-self._vocab_size // 32))
            on_gpu = self._runner.device.type == "cuda"
            self._mask_buffer = torch.zeros(shape, dtype=torch.int32, pin_memory=on_gpu).numpy()
        return self._mask_buffer[:count]

    def _place_masks(self, masks: NDArray[np.int32]) -> Tensor | None:
        """Bitmasks on the device, copied beside the pass that it still computes."""
        if not len(masks):
            return None
        host = torch.from_numpy(masks)
        if self._runner.device.type != "cuda":
            return host
        if self._copy_stream is None:
            self._copy_stream = torch.cuda.Stream(self._runner.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._copy_stream):
            placed = host.to(self._runner.device, non_blocking=True)
        current = torch.cuda.current_stream(self._runner.device)
        current.wait_stream(self._copy_stream)
        placed.record_stream(current)
        return placed

    def _plan_rows(self, chunks: Seq[ScheduledChunk]) -> tuple[list[list[LogitsRow]], list[MaskRequest], int]:
        """Rows to sample from for each chunk, and the bitmask rows they need.

        A row that turns out not to be the end of its sequence (the sequence ended, or the grammar forced more tokens,
        since the pass was launched) is sampled without a mask and not looked at.
        """
        rows: list[list[LogitsRow]] = []
        requests: list[MaskRequest] = []
        num_masks = 0
        for chunk in chunks:
            sequence = chunk.sequence
            if not chunk.reaches_end:
                rows.append([])
                continue
            at = len(sequence.tokens)
            if sequence.is_finished or chunk.end != at:
                rows.append([LogitsRow(sequence, chunk.end, -1)])
                continue
            count = 1 + len(sequence.drafts)
            first = -1
            if sequence.grammar is not None:
                first = num_masks
                num_masks += count
                requests.append(MaskRequest(sequence.grammar, first, tuple(sequence.drafts)))
            if count == 1:
                rows.append([LogitsRow(sequence, at, first)])
            else:
                rows.append([LogitsRow(sequence, at + j, first + j if first >= 0 else -1) for j in range(count)])
        return rows, requests, num_masks

    def _collect(self) -> None:
        """Read the sampled tokens of the last pass and hand them to their sequences."""
        work = self._sampled
        if work is None:
            return
        assert work.rows is not None
        assert work.draw is not None
        if work.drawn is None:
            work.drawn = self._sampler.read(work.draw)
            self._accept_together(work)
        failed = {id(work.job.requests[i].state): e for i, e in work.job.failed.items()} if work.job is not None else {}
        # An interrupt finds every chunk either taken or not, and the next call goes on with those that are not.
        while work.num_taken < len(work.chunks):
            chunk, own, first = work.chunks[work.num_taken], work.rows[work.num_taken], work.num_rows_taken
            work.num_taken += 1
            work.num_rows_taken += len(own)
            sequence = chunk.sequence
            if not own or sequence.is_finished or own[0].position != len(sequence.tokens):
                continue
            sequence.in_flight = 0
            error = failed.get(id(sequence.grammar)) if failed else None
            if error is not None:
                self._finished.append(self._finish(sequence, "error", error=error))
                continue
            output = self._advance(sequence, own, first, work)
            if output is not None:
                self._finished.append(output)
        self._sampled = None
        self._update_stats()

    def _accept_together(self, work: Pass) -> None:
        """Advance the matchers of all rows that are the only one of their sequence."""
        assert work.rows is not None
        assert work.drawn is not None
        if work.job is None or work.job.failed:
            return
        tokens, errors = work.drawn
        indices: list[int] = []
        states: list[GrammarState] = []
        at = 0
        for own in work.rows:
            if len(own) == 1:
                sequence, _, mask_row = own[0]
                grammar = sequence.grammar if mask_row >= 0 and not sequence.is_finished else None
                if grammar is not None and tokens[at] not in sequence.end_ids and at not in errors:
                    indices.append(at)
                    states.append(grammar)
                at += 1
            else:
                at += len(own)
        codes = GrammarState.accept_together(states, [tokens[i] for i in indices])
        if codes is not None:
            accepted = [UNKNOWN] * len(tokens)
            for index, code in zip(indices, codes, strict=True):
                accepted[index] = code
            work.accepted = accepted

    def _advance(self, sequence: Sequence, rows: Seq[LogitsRow], first: int, work: Pass) -> RequestOutput | None:
        """Take sampled tokens, from the pass's row `first` on, for as long as the drafts agree with them."""
        assert work.drawn is not None
        tokens, errors = work.drawn
        drafts = sequence.drafts
        if drafts:
            sequence.drafts = []
        wanted = sequence.sampling.logprobs
        for j, row in enumerate(rows, first):
            if errors and (failure := errors.get(j)) is not None:
                return self._finish(sequence, "error", error=failure)
            token = tokens[j]
            if token in sequence.end_ids:
                return self._finish(sequence, "stop")
            if wanted is not None:
                assert work.scored is not None
                mask = work.masks[row.mask_row] if row.mask_row >= 0 else None
                sequence.pending_logprobs.append(
                    token_logprobs(work.scored[j], mask, token, num_top=wanted, vocab_size=self._vocab_size)
                )
            try:
                finished = self._append(sequence, token, UNKNOWN if work.accepted is None else work.accepted[j])
            except OffseekError as error:
                return self._finish(sequence, "error", error=error)
            if finished is not None:
                return self._finish(sequence, finished)
            if j - first >= len(drafts) or token != drafts[j - first]:
                break
            sequence.num_computed += 1
        if drafts:
            sequence.lookup.learn(len(drafts), j - first)
            self.stats.num_draft_tokens += len(drafts)
            self.stats.num_accepted_draft_tokens += j - first
        if sequence.grammar is not None and (last := self._append_forced(sequence)) is not None:
            return last
        return self._report(sequence)

    def _append(self, sequence: Sequence, token: int, accepted: int = UNKNOWN) -> FinishReason | None:
        """Add one token. Returns why the sequence is complete, or None.

        accepted: what `GrammarState.accept_together` said of the token; UNKNOWN: the grammar has not seen it.
        """
        grammar = sequence.grammar
        if grammar is not None:
            if accepted == UNKNOWN:
                grammar.accept(token)
            elif accepted < 1:
                grammar.refuse(token)
        sequence.tokens.append(token)
        self.stats.num_generated_tokens += 1
        sequence.stop.push(self._token_bytes[token] if token < len(self._token_bytes) else b"")
        if sequence.stop.found is not None:
            return "stop"
        if grammar is not None and (accepted == 2 or (accepted == UNKNOWN and grammar.is_finished)):
            return "stop"
        return "length" if len(sequence.tokens) - sequence.num_prompt >= sequence.max_tokens else None

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
