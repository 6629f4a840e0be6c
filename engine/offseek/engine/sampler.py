"""From logits rows and per-request settings to token ids: builds the sampling batch and calls the fused sampler.

A row belongs to one sequence and one position; its noise is keyed by (seed, position), so the row's result depends on
its own logits, mask and settings only. The algorithm itself is `offseek.kernels.sampling`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from offseek.kernels import STATUS_NON_FINITE, STATUS_NOTHING_ALLOWED, STATUS_OK, Penalties, RowSettings, sample
from torch import Tensor

from .errors import InvalidLogitsError, NoAllowedTokenError, RowError
from .request import SamplingParams, TokenLogprobs
from .sequence import Sequence


class LogitsRow(NamedTuple):
    """One row to sample from. `position` is the index, in the sequence, of the token to pick."""

    sequence: Sequence
    position: int
    mask_row: int  # row of the step's bitmask, -1 = free


class RowResult(NamedTuple):
    """Token of a row, or the error that the row's request ends with."""

    token_id: int
    error: RowError | None = None


class Sampler:
    """Samples the rows of a step. `vocab_size`: ids from there on are never chosen; at most the logits' width."""

    def __init__(self, *, device: torch.device, vocab_size: int) -> None:
        self.device = device
        self.vocab_size = vocab_size
        self.sample_s = 0.0

    def to_device(self, array: NDArray[np.int32]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def sample(self, logits: Tensor, rows: Seq[LogitsRow], bitmask: Tensor | None) -> list[RowResult]:
        """Pick a token for each row.

        logits: [len(rows), vocab]; entries that a penalty applies to are changed in place.
        bitmask: int32 [masks, words] on the same device, or None when all rows are free.
        """
        start = time.perf_counter()
        settings = [row.sequence.sampling for row in rows]
        greedy = all(s.temperature == 0 and not has_penalty(s) for s in settings)
        if greedy and self.device.type == "cpu" and logits.dtype == torch.float32:
            ids, status = self._best_allowed(logits, rows, bitmask)
        else:
            ids, status = self._draw(logits, rows, bitmask)
        self.sample_s += time.perf_counter() - start
        return [
            RowResult(token, _row_error(code, row) if code != STATUS_OK else None)
            for token, code, row in zip(ids, status, rows, strict=True)
        ]

    def _best_allowed(
        self, logits: Tensor, rows: Seq[LogitsRow], bitmask: Tensor | None
    ) -> tuple[list[int], list[int]]:
        """All rows greedy, on CPU: one native pass over logits and masks; the same ids as the sampler's."""
        from offseek.kernels.cpu import best_allowed

        mask_rows = torch.tensor([row.mask_row for row in rows], dtype=torch.int32)
        limit = min(self.vocab_size, logits.shape[1])
        ids, status, _ = best_allowed(logits, bitmask, mask_rows, vocab_size=limit, want_logprobs=False)
        return ids.tolist(), status.tolist()

    def _draw(self, logits: Tensor, rows: Seq[LogitsRow], bitmask: Tensor | None) -> tuple[list[int], list[int]]:
        """Any mixture of settings: (token ids, status) of each row."""
        settings = [row.sequence.sampling for row in rows]
        # one transfer for everything: 4-byte columns first, then seed and position as 8-byte ones
        count = len(rows)
        packed = np.zeros(9 * count, np.int32)
        small, floats = packed[: 5 * count].reshape(5, count), packed[: 5 * count].view(np.float32).reshape(5, count)
        floats[0] = [s.temperature for s in settings]
        floats[1] = [s.top_p for s in settings]
        floats[2] = [s.min_p for s in settings]
        small[3] = [s.top_k for s in settings]
        small[4] = [row.mask_row for row in rows]
        counters = np.array([[row.sequence.seed for row in rows], [row.position for row in rows]], np.uint64)
        packed[5 * count :] = counters.reshape(-1).view(np.int32)
        placed = self.to_device(packed)
        words = placed[: 5 * count].view(5, count)
        keys = placed[5 * count :].clone().view(torch.int64).view(2, count)  # clone: 8-byte alignment
        out = sample(
            logits,
            RowSettings(
                temperature=words[0].view(torch.float32),
                top_p=words[1].view(torch.float32),
                min_p=words[2].view(torch.float32),
                top_k=words[3],
                seed=keys[0],
                position=keys[1],
                filters=any(s.temperature > 0 and (s.top_k > 0 or s.top_p < 1 or s.min_p > 0) for s in settings),
            ),
            bitmask=bitmask,
            bitmask_rows=words[4] if bitmask is not None else None,
            penalties=self._penalties(rows),
            vocab_size=min(self.vocab_size, logits.shape[1]),
        )
        # one transfer, hence one wait for the device
        ids, status = torch.stack([out.token_ids.int(), out.status]).tolist()
        return ids, status

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
