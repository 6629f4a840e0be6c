"""From logits rows and per-request settings to token ids: builds the sampling batch and calls the fused sampler.

A row belongs to one sequence and one position; its noise is keyed by (seed, position), so the row's result depends on
its own logits, mask and settings only. The algorithm itself is `offseek.kernels.sampling`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from offseek.kernels import STATUS_NON_FINITE, STATUS_NOTHING_ALLOWED, Penalties, RowSettings, sample
from torch import Tensor

from .errors import InvalidLogitsError, NoAllowedTokenError, RowError
from .request import SamplingParams, TokenLogprobs
from .sequence import Sequence


class LogitsRow(NamedTuple):
    """One row to sample from. `position` is the index, in the sequence, of the token to pick."""

    sequence: Sequence
    position: int
    mask_row: int  # row of the step's bitmask, -1 = free


class Drawn(NamedTuple):
    """Token of each row; by index, the errors that the requests of failed rows end with (their tokens are -1)."""

    token_ids: list[int]
    errors: dict[int, RowError]


@dataclass(slots=True)
class Draw:
    """Rows being sampled, perhaps still on the device. `Sampler.read` waits for them.

    token_ids: int64 [rows] on the device, -1 for failed rows.
    found:     int32 [2, rows] in host memory: token ids, status; complete when `done` is.
    """

    rows: list[LogitsRow]
    token_ids: Tensor
    found: Tensor
    done: torch.cuda.Event | None = None


class Sampler:
    """Samples the rows of a step. `vocab_size`: ids from there on are never chosen; at most the logits' width."""

    def __init__(self, *, device: torch.device, vocab_size: int) -> None:
        self.device = device
        self.vocab_size = vocab_size
        self.sample_s = 0.0
        self._sequences: list[Sequence] = []  # of the last rows: their settings are kept
        self._fixed: tuple[NDArray[np.int32], NDArray[np.uint64], bool] | None = None

    def to_device(self, array: NDArray[np.int32]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def launch(self, logits: Tensor, rows: list[LogitsRow], bitmask: Tensor | None) -> Draw:
        """Start picking a token for each row; on CUDA nothing waits for the device.

        logits: [len(rows), vocab]; entries that a penalty applies to are changed in place.
        bitmask: int32 [masks, words] on the same device, or None when all rows are free.
        """
        start = time.perf_counter()
        if not rows:
            draw = Draw(rows, torch.zeros(0, dtype=torch.int64), torch.zeros(2, 0, dtype=torch.int32))
        elif (
            self.device.type == "cpu"
            and logits.dtype == torch.float32
            and all(row.sequence.sampling.temperature == 0 and not has_penalty(row.sequence.sampling) for row in rows)
        ):
            draw = self._best_allowed(logits, rows, bitmask)
        else:
            draw = self._draw(logits, rows, bitmask)
        self.sample_s += time.perf_counter() - start
        return draw

    def read(self, draw: Draw) -> Drawn:
        """The token or the error of each row, once the device has them."""
        start = time.perf_counter()
        if draw.done is not None:
            draw.done.synchronize()
        ids, status = draw.found.tolist()
        self.sample_s += time.perf_counter() - start
        failed = {i: _row_error(code, draw.rows[i]) for i, code in enumerate(status) if code} if any(status) else {}
        return Drawn(ids, failed)

    def _best_allowed(self, logits: Tensor, rows: list[LogitsRow], bitmask: Tensor | None) -> Draw:
        """All rows greedy, on CPU: one native pass over logits and masks; the same ids as the sampler's."""
        from offseek.kernels.cpu import best_allowed

        mask_rows = torch.tensor([row.mask_row for row in rows], dtype=torch.int32)
        limit = min(self.vocab_size, logits.shape[1])
        ids, status, _ = best_allowed(logits, bitmask, mask_rows, vocab_size=limit, want_logprobs=False)
        return Draw(rows, ids, torch.stack([ids.int(), status]))

    def _settings(self, rows: Seq[LogitsRow]) -> tuple[NDArray[np.int32], NDArray[np.uint64], bool]:
        """(temperature, top-p, min-p as float bits and top-k [4, rows], seeds [rows], whether any filter is on).

        Made anew only when the rows' sequences changed, which in decoding they seldom do.
        """
        sequences = [row.sequence for row in rows]
        if self._fixed is None or sequences != self._sequences:
            settings = [sequence.sampling for sequence in sequences]
            table = np.zeros((4, len(rows)), np.int32)
            floats = table.view(np.float32)
            floats[0] = [s.temperature for s in settings]
            floats[1] = [s.top_p for s in settings]
            floats[2] = [s.min_p for s in settings]
            table[3] = [s.top_k for s in settings]
            filters = any(s.temperature > 0 and (s.top_k > 0 or s.top_p < 1 or s.min_p > 0) for s in settings)
            self._fixed = table, np.array([s.seed for s in sequences], np.uint64), filters
            self._sequences = sequences
        return self._fixed

    def _draw(self, logits: Tensor, rows: list[LogitsRow], bitmask: Tensor | None) -> Draw:
        """Any mixture of settings."""
        count = len(rows)
        table, seeds, filters = self._settings(rows)
        # One transfer for everything: seed and position as 8-byte columns first, then the 4-byte ones. Every column
        # begins at a multiple of 16 bytes, or Triton would compile another kernel for other numbers of rows.
        width = count + -count % 4
        packed = np.zeros(9 * width, np.int32)
        counters = packed[: 4 * width].view(np.uint64).reshape(2, width)[:, :count]
        counters[0], counters[1] = seeds, [row.position for row in rows]
        small = packed[4 * width :].reshape(5, width)[:, :count]
        small[:4], small[4] = table, [row.mask_row for row in rows]
        placed = self.to_device(packed)
        keys = placed[: 4 * width].view(torch.int64).view(2, width)[:, :count]
        words = placed[4 * width :].view(5, width)[:, :count]
        floats = words.view(torch.float32)
        out = sample(
            logits,
            RowSettings(
                temperature=floats[0], top_p=floats[1], min_p=floats[2], top_k=words[3], seed=keys[0],
                position=keys[1], filters=filters,
            ),
            bitmask=bitmask,
            bitmask_rows=words[4] if bitmask is not None else None,
            penalties=self._penalties(rows),
            vocab_size=min(self.vocab_size, logits.shape[1]),
        )  # fmt: skip
        found = torch.stack([out.token_ids.int(), out.status])
        if self.device.type != "cuda":
            return Draw(rows, out.token_ids, found)
        host = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
        host.copy_(found, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return Draw(rows, out.token_ids, host, done)

    def _penalties(self, rows: Seq[LogitsRow]) -> Penalties | None:
        """Ragged table of the tokens seen by the rows that have a penalty; None if no row has one."""
        ids: list[int] = []
        counts: list[int] = []
        starts = np.zeros(len(rows) + 1, np.int32)
        amounts = np.zeros((3, len(rows)), np.float32)
        amounts[0] = 1.0
        for index, row in enumerate(rows):
            s = row.sequence.sampling
            if has_penalty(s):
                amounts[:, index] = s.repetition_penalty, s.frequency_penalty, s.presence_penalty
                generated = Counter(row.sequence.generated)
                seen = dict.fromkeys(row.sequence.request.prompt_token_ids, 0) | generated
                ids += seen.keys()
                counts += seen.values()
            starts[index + 1] = len(ids)
        if not ids:
            return None
        table = self.to_device(np.array([ids, counts], np.int32))
        strength = self.to_device(amounts.view(np.int32)).view(torch.float32)
        return Penalties(
            ids=table[0], counts=table[1], offsets=self.to_device(starts),
            repetition=strength[0], frequency=strength[1], presence=strength[2],
        )  # fmt: skip


def has_penalty(s: SamplingParams) -> bool:
    """Whether any repetition, frequency or presence penalty is on."""
    return s.repetition_penalty != 1 or s.frequency_penalty != 0 or s.presence_penalty != 0


def _row_error(code: int, row: LogitsRow) -> RowError:
    where = f"request '{row.sequence.request.request_id}', token position {row.position}"
    if code == STATUS_NOTHING_ALLOWED:
        return NoAllowedTokenError(f"{where}: no token is allowed by the constraint")
    assert code == STATUS_NON_FINITE
    return InvalidLogitsError(f"{where}: the model's logits hold NaN or +inf")


def token_logprobs(
    raw_row: Tensor, mask_words: NDArray[np.int32] | None, token_id: int, *, num_top: int, vocab_size: int
) -> TokenLogprobs:
    """Log probabilities of one row: float [vocab] logits, before and after the bitmask (int32 [words] or None = free).

    Both are without penalties and temperature. Masked-out tokens are left out of the masked list, so every number is
    finite.
    """
    raw = raw_row[:vocab_size].float().cpu().log_softmax(-1)
    masked = raw
    if mask_words is not None:
        bits = np.unpackbits(np.ascontiguousarray(mask_words).view(np.uint8), bitorder="little")[:vocab_size]
        masked = raw.masked_fill(~torch.from_numpy(bits.astype(bool)), float("-inf")).log_softmax(-1)

    def best(logprobs: Tensor) -> tuple[tuple[int, float], ...]:
        values, ids = logprobs.topk(min(num_top, len(logprobs)))
        pairs = zip(ids.tolist(), values.tolist(), strict=True)
        return tuple((i, v) for i, v in pairs if v != float("-inf"))

    return TokenLogprobs(
        token_id=token_id,
        raw=float(raw[token_id]),
        masked=float(masked[token_id]),
        top_raw=best(raw),
        top_masked=best(masked),
    )
