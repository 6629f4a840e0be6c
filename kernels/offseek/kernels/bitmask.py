"""Token bitmasks on tensors: int32 [rows, ceil(vocab / 32)], bit i % 32 of word i // 32, 1 = allowed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .errors import ShapeError


def unpack_bitmask(bitmask: Tensor, vocab_size: int) -> Tensor:
    """bool [rows, vocab_size] of an int32 bitmask [rows, >= ceil(vocab_size / 32)], same device."""
    words = (vocab_size + 31) // 32
    bytes_ = bitmask[:, :words].contiguous().view(torch.uint8)  # little-endian: byte j holds bits 8j..8j+7
    table = _bit_table(bitmask.device)
    bits = table[bytes_.to(torch.int64)].view(bitmask.shape[0], words * 32)
    return bits[:, :vocab_size]


def apply_token_bitmask_inplace(logits: Tensor, bitmask: Tensor, *, vocab_size: int | None = None) -> None:
    """Set the logits of disallowed tokens to -inf.

    logits:  float16/bfloat16/float32 [batch, padded_vocab], any device; modified in place.
    bitmask: int32 [batch, >= ceil(vocab_size / 32)], same device; bit 1 = allowed.
    vocab_size: columns past it are masked too; defaults to padded_vocab.

    Raises ShapeError if the batch sizes differ or the bitmask is too narrow. `sample` applies the bitmask
    itself; this is for callers that need masked logits.
    """
    if logits.ndim != 2 or bitmask.ndim != 2 or bitmask.dtype != torch.int32:
        raise ShapeError("logits must be [batch, vocab] and bitmask int32 [batch, words]")
    vocab_size = logits.shape[1] if vocab_size is None else vocab_size
    if bitmask.shape[0] != logits.shape[0] or bitmask.shape[1] * 32 < vocab_size or vocab_size > logits.shape[1]:
        raise ShapeError(
            f"bitmask {tuple(bitmask.shape)} does not fit logits {tuple(logits.shape)}, vocab_size {vocab_size}"
        )
    logits[:, :vocab_size].masked_fill_(~unpack_bitmask(bitmask, vocab_size), -math.inf)
    logits[:, vocab_size:] = -math.inf


def _bit_table(device: torch.device) -> Tensor:
    values = torch.arange(256, dtype=torch.int32, device=device)
    return ((values[:, None] >> torch.arange(8, dtype=torch.int32, device=device)) & 1).bool()
