"""Fused sampling: logits, token bitmask and per-row settings in, one token id per row out.

    from offseek.kernels import RowSettings, sample
    out = sample(logits, RowSettings.uniform(batch, temperature=0.8, seed=7, device=logits.device), bitmask=mask)
    out.token_ids, out.status, out.logprobs

The rule, row by row (the torch twin in `_sampler_torch.py` is its definition; the Triton kernel in
`_sampler_triton.py` computes the same in one launch without host synchronisation):

1. z = logits as float32. Columns at `vocab_size` and beyond, and ids whose mask bit is 0, are out.
   An allowed NaN or +inf gives status NON_FINITE; no allowed id with a logit above -inf gives
   status NOTHING_ALLOWED. Such rows get token id -1, never a made-up token.
2. Penalties on ids that occurred (`Penalties`): repetition (z > 0: z / r, else z * r, over prompt and
   output ids), then z -= frequency * count + presence * (count > 0) over output ids.
3. temperature 0: arg-max of z, the lowest id wins ties; filters and noise do not apply.
   Otherwise y = z / temperature.
4. Filters, each on all allowed ids; a token stays when it passes all three:
   min-p:  y >= max(y) + ln(min_p)                                  (min_p 0 = off)
   top-k:  fewer than k ids have a larger y; ties at the k-th value all stay   (k 0 or >= vocab = off)
   top-p:  the mass of larger y, as a share of the mass that top-k left, is below p; ties stay together (p 1 = off)
5. token = arg-max of y + Gumbel(seed, position, id) over what stayed, the lowest id wins ties: a
   sample of the renormalised softmax (Gumbel 1954; Maddison et al. 2014), with noise from `noise.py`.
6. logprob = z[token] - logsumexp(z over allowed ids): after penalties and mask, before temperature and filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .errors import ShapeError, UnsupportedDeviceError

STATUS_OK = 0
STATUS_NON_FINITE = 1
STATUS_NOTHING_ALLOWED = 2

Backend = Literal["auto", "torch", "triton"]


@dataclass(frozen=True, slots=True)
class RowSettings:
    """Sampling settings of each row, as tensors of shape [batch] on the logits' device."""

    temperature: Tensor  # float32, >= 0
    top_k: Tensor  # int32, 0 = off
    top_p: Tensor  # float32 in (0, 1]
    min_p: Tensor  # float32 in [0, 1]
    seed: Tensor  # int64
    position: Tensor  # int64: index of the token being drawn in its sequence
    filters: bool = True  # False promises that no row has top-k, top-p or min-p on, which makes a leaner kernel

    @classmethod
    def uniform(
        cls,
        batch: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        position: int = 0,
        device: torch.device | str = "cpu",
    ) -> RowSettings:
        """The same settings for every row; row i draws with `seed + i`."""

        def full(value: float, dtype: torch.dtype) -> Tensor:
            return torch.full((batch,), value, dtype=dtype, device=device)

        return cls(
            temperature=full(temperature, torch.float32),
            top_k=full(top_k, torch.int32),
            top_p=full(top_p, torch.float32),
            min_p=full(min_p, torch.float32),
            seed=torch.arange(seed, seed + batch, dtype=torch.int64, device=device),
            position=full(position, torch.int64),
            filters=top_k > 0 or top_p < 1.0 or min_p > 0.0,
        )


@dataclass(frozen=True, slots=True)
class Penalties:
    """Penalties over the ids that occurred so far, as one ragged list for the whole batch.

    offsets: int32 [batch + 1]; row i owns entries offsets[i]:offsets[i + 1], each id at most once.
    ids:     int32 [entries], ids in the prompt or the output.
    counts:  int32 [entries], occurrences in the output (0 for prompt-only ids).
    repetition, frequency, presence: float32 [batch] (1, 0, 0 = off).
    """

    offsets: Tensor
    ids: Tensor
    counts: Tensor
    repetition: Tensor
    frequency: Tensor
    presence: Tensor


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """token_ids: int64 [batch], -1 where status is not STATUS_OK. status: int32 [batch]. logprobs: float32 [batch]."""

    token_ids: Tensor
    status: Tensor
    logprobs: Tensor


def sample(
    logits: Tensor,
    settings: RowSettings,
    *,
    bitmask: Tensor | None = None,
    bitmask_rows: Tensor | None = None,
    penalties: Penalties | None = None,
    vocab_size: int | None = None,
    backend: Backend = "auto",
) -> SampleOutput:
    """Draw one token id per row by the rule in the module's head.

    logits:       float32/float16/bfloat16 [batch, padded_vocab], last dimension contiguous. With
                  `penalties` the penalised entries are updated in place (rounded to the logits' dtype).
    bitmask:      int32 [rows, >= ceil(vocab_size / 32)], bit i % 32 of word i // 32, 1 = allowed; None = all allowed.
    bitmask_rows: int32 [batch], the bitmask row of each logits row, -1 = unconstrained; None = row i uses mask row i.
    vocab_size:   columns from here on are never drawn; defaults to padded_vocab.
    backend:      "auto" takes Triton on CUDA and torch elsewhere. Results of one backend are bitwise
                  repeatable and independent of the batch; across backends only rounding of logarithms differs.

    Raises ShapeError for wrong shapes, dtypes or devices, UnsupportedDeviceError for triton without CUDA.
    """
    vocab_size = _check(logits, settings, bitmask, bitmask_rows, penalties, vocab_size)
    if backend == "auto":
        backend = "triton" if logits.is_cuda else "torch"
    if backend == "triton":
        from ._sampler_triton import interpreted, sample_triton

        if not logits.is_cuda and not interpreted():
            raise UnsupportedDeviceError(f"the triton sampler needs CUDA tensors, got {logits.device}")
        return sample_triton(logits, settings, bitmask, bitmask_rows, penalties, vocab_size)
    from ._sampler_torch import sample_torch

    return sample_torch(logits, settings, bitmask, bitmask_rows, penalties, vocab_size)


_ROW_DTYPES = {"temperature": torch.float32, "top_k": torch.int32, "top_p": torch.float32, "min_p": torch.float32,
               "seed": torch.int64, "position": torch.int64}  # fmt: skip


def _check(
    logits: Tensor,
    settings: RowSettings,
    bitmask: Tensor | None,
    bitmask_rows: Tensor | None,
    penalties: Penalties | None,
    vocab_size: int | None,
) -> int:
    if logits.ndim != 2 or logits.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ShapeError(
            f"logits must be float32/float16/bfloat16 [batch, vocab], got {logits.dtype} {tuple(logits.shape)}"
        )
    if logits.shape[1] and logits.stride(1) != 1:
        raise ShapeError("logits must be contiguous in the last dimension")
    batch, padded = logits.shape
    vocab_size = padded if vocab_size is None else vocab_size
    if not 0 < vocab_size <= padded:
        raise ShapeError(f"vocab_size {vocab_size} is not in [1, {padded}]")
    for name, dtype in _ROW_DTYPES.items():
        _vector(name, getattr(settings, name), batch, dtype, logits.device)
    if bitmask is not None:
        words = (vocab_size + 31) // 32
        if bitmask.ndim != 2 or bitmask.dtype != torch.int32 or bitmask.shape[1] < words or bitmask.stride(1) != 1:
            raise ShapeError(f"bitmask must be int32 [rows, >= {words}], got {bitmask.dtype} {tuple(bitmask.shape)}")
        if bitmask.device != logits.device:
            raise ShapeError(f"bitmask is on {bitmask.device}, logits on {logits.device}")
        if bitmask_rows is None and bitmask.shape[0] != batch:
            raise ShapeError(f"bitmask has {bitmask.shape[0]} rows for a batch of {batch} and no bitmask_rows")
    if bitmask_rows is not None:
        if bitmask is None:
            raise ShapeError("bitmask_rows without a bitmask")
        _vector("bitmask_rows", bitmask_rows, batch, torch.int32, logits.device)
    if penalties is not None:
        _vector("penalties.offsets", penalties.offsets, batch + 1, torch.int32, logits.device)
        for name in ("ids", "counts"):
            _vector(f"penalties.{name}", getattr(penalties, name), penalties.ids.shape[0], torch.int32, logits.device)
        for name in ("repetition", "frequency", "presence"):
            _vector(f"penalties.{name}", getattr(penalties, name), batch, torch.float32, logits.device)
    return vocab_size


def _vector(name: str, tensor: Tensor, length: int, dtype: torch.dtype, device: torch.device) -> None:
    if tensor.shape != (length,) or tensor.dtype != dtype or tensor.device != device:
        raise ShapeError(
            f"{name} must be {dtype} [{length}] on {device}, "
            f"got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        )


def select_rows(settings: RowSettings, rows: Tensor) -> RowSettings:
    """The settings of some rows, in the order of the int64 index tensor `rows`."""
    tensors: dict[str, Tensor] = {name: getattr(settings, name)[rows] for name in _ROW_DTYPES}
    return RowSettings(**tensors, filters=settings.filters)
