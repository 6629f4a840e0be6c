"""Counter-based Gumbel noise: a pure function of (seed, position, token id).

A draw depends on nothing else: not on the batch, the row's place in it, the mask, or the kernel's
launch shape. That makes sampling repeatable and batch-invariant by construction, and two draws that
share (seed, position) use independent noise per token id.

Generator (ours; 32-bit arithmetic, all operations modulo 2**32): the finaliser constants are those
of MurmurHash3 (Appleby, public domain), with a second key mixed in between the rounds:

    h = id * 0x9E3779B1 ^ k0;  h ^= h >> 16;  h *= 0x85EBCA6B
    h ^= (h >> 13) ^ k1;       h *= 0xC2B2AE35

where (k0, k1) come from three more such rounds, with a closing h ^= h >> 16, over the seed's two halves
and the position. The 32 bits become v in (0, 1), E = -ln(1 - v) is a unit exponential (by its series for small v, where
the winners are), and the Gumbel value is -ln(E). It is returned in base 2, as -log2(E): samplers add
it to logits that were scaled by log2(e), which saves a multiplication per element.

This is the torch twin of the Triton code in `_sampler_tiles_triton.py`; both give the same bits of h.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

GOLDEN = 0x9E3779B1
MIX_1 = 0x85EBCA6B
MIX_2 = 0xC2B2AE35
KEY_STEP = 0x9E3779B9
#: Largest possible value of `gumbel_log2`: E at v = 0.5 * 2**-32.
MAX_GUMBEL_LOG2 = 33.0
LOG2_E = math.log2(math.e)

_MASK = 0xFFFFFFFF


def _signed(value: int) -> int:
    """The int32 with the same bits as a 32-bit unsigned constant (torch has no wrapping uint32 product)."""
    return value - (1 << 32) if value >= (1 << 31) else value


def _shift_right(h: Tensor, bits: int) -> Tensor:
    """Logical right shift of int32 bits."""
    return (h >> bits) & ((1 << (32 - bits)) - 1)


def _rounds(h: Tensor, key: Tensor | int = 0) -> Tensor:
    """The keyed finaliser over int32 bits without its closing shift; wraps like uint32."""
    h = h ^ _shift_right(h, 16)
    h = h * _signed(MIX_1)
    h = h ^ _shift_right(h, 13) ^ key
    return h * _signed(MIX_2)


def _mix(h: Tensor) -> Tensor:
    """The whole finaliser over int32 bits, without a key."""
    h = _rounds(h)
    return h ^ _shift_right(h, 16)


def row_keys(seed: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Keys (k0, k1), int32 [batch], of rows with int64 `seed` and `position` (the low 32 bits of it count)."""
    low = _to_int32(seed & _MASK)
    high = _to_int32((seed >> 32) & _MASK)
    where = _to_int32(position & _MASK)
    k = _mix(low ^ _signed(KEY_STEP))
    k = _mix(k ^ high)
    k0 = _mix(k ^ where)
    return k0, _mix(k0 + _signed(KEY_STEP))


def _to_int32(bits: Tensor) -> Tensor:
    """int64 values in [0, 2**32) -> int32 with the same bits."""
    return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)


def hash_bits(token_ids: Tensor, k0: Tensor, k1: Tensor) -> Tensor:
    """int32 hash bits of int32 token ids under broadcastable keys."""
    return _rounds(token_ids * _signed(GOLDEN) ^ k0, k1)


def gumbel_log2(token_ids: Tensor, k0: Tensor, k1: Tensor) -> Tensor:
    """float32 Gumbel noise in base 2 (-log2 of a unit exponential), in [-4.1, 33]; shapes broadcast."""
    bits = hash_bits(token_ids, k0, k1)
    high, low = _shift_right(bits, 16).to(torch.float32), (bits & 0xFFFF).to(torch.float32)
    v = (high * 2.0**-16 + (low * 2.0**-32 + 2.0**-33)).clamp_(max=1.0 - 2.0**-24)  # (h + 0.5) / 2**32, rounded once
    series = v * (1.0 + v * (0.5 + v * (1.0 / 3.0 + v * 0.25)))
    exponential = torch.where(v < 0.03125, series, -torch.log1p(-v))
    return -torch.log2(exponential)
