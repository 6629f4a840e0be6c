"""CPU kernels of `offseek._native` (Rust crate `recipe-rs/cpu`), on torch tensors.

Each row's result is computed on its own in a fixed order, so it is the same bits in any batch. The torch twins are in
`reference.py`; layouts are described there. Everything is float32, KV caches also bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from offseek import _native
from torch import Tensor

from .errors import ShapeError


def _array(tensor: Tensor, dtype: torch.dtype = torch.float32) -> NDArray[Any]:
    if tensor.dtype != dtype or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ShapeError(f"expected a contiguous {dtype} CPU tensor, got {tensor.dtype} {list(tensor.shape)}")
    array: NDArray[Any] = tensor.numpy()
    return array


def _cache_array(tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype == torch.bfloat16:
        return _array(tensor.view(torch.uint16), torch.uint16)
    return _array(tensor)


def add_rms_norm_inplace(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add `delta` to `residual` [n, width] in place; return RMSNorm(residual) * weight [width].

    Raises ShapeError for tensors of another dtype, layout or size.
    """
    if residual.shape[-1:] != weight.shape or (delta is not None and delta.shape != residual.shape):
        raise ShapeError(f"residual {list(residual.shape)} does not fit weight {list(weight.shape)} or delta")
    out = torch.empty_like(residual)
    _native.cpu_add_rms_norm(
        _array(residual), None if delta is None else _array(delta), _array(weight), eps, _array(out)
    )
    return out


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(left half) * right half of [n, 2m] -> [n, m]."""
    if gate_up.ndim != 2 or gate_up.shape[1] % 2:
        raise ShapeError(f"gate_up must be [n, 2 * width], got {list(gate_up.shape)}")
    width = gate_up.shape[1] // 2
    out = gate_up.new_empty(len(gate_up), width)
    _native.cpu_silu_mul(_array(gate_up), _array(out), width)
    return out


def rotate_and_store(
    qkv: Tensor, cos_sin: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor,
    *, num_heads: int, q_norm: Tensor | None = None, k_norm: Tensor | None = None, eps: float = 1e-6,
) -> Tensor:  # fmt: skip
    """As `reference.rotate_and_store`; may use `qkv` as scratch space."""
    num_blocks, kv_heads, head_dim, block_size = k_cache.shape
    if qkv.shape[1] != (num_heads + 2 * kv_heads) * head_dim or cos_sin.shape != (len(qkv), head_dim):
        raise ShapeError(f"qkv {list(qkv.shape)} or cos_sin {list(cos_sin.shape)} does not fit {num_heads} heads")
    if len(slots) != len(qkv) or (len(slots) and int(slots.max()) >= num_blocks * block_size):
        raise ShapeError(f"slots must be {len(qkv)} numbers below {num_blocks * block_size}")
    out = qkv.new_empty(len(qkv), num_heads, head_dim)
    _native.cpu_rotate_and_store(
        _array(qkv), _array(cos_sin), _cache_array(k_cache), _cache_array(v_cache), _array(slots, torch.int64),
        _array(out), None if q_norm is None else _array(q_norm), None if k_norm is None else _array(k_norm), eps,
        (num_heads, kv_heads, head_dim, block_size),
    )  # fmt: skip
    return out


def paged_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, query_starts: Tensor, context_lens: Tensor
) -> Tensor:
    """As `reference.paged_attention`, on torch's number of threads. head_dim and block_size: multiples of 16."""
    _, num_heads, head_dim = q.shape
    kv_heads, block_size = k_cache.shape[1], k_cache.shape[3]
    if head_dim % 16 or block_size % 16 or num_heads % kv_heads:
        raise ShapeError(f"head_dim {head_dim} and block_size {block_size} must be multiples of 16")
    out = torch.empty_like(q)
    _native.cpu_paged_attention(
        _array(q), _cache_array(k_cache), _cache_array(v_cache), _array(block_tables, torch.int32),
        _array(query_starts, torch.int32), _array(context_lens, torch.int32), _array(out),
        (num_heads, kv_heads, head_dim, block_size, block_tables.shape[1]), torch.get_num_threads(),
    )  # fmt: skip
    return out


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric 8-bit quantisation of each row of float32 [n, width]: (int8 [n, width], float32 scales [n])."""
    out, scales = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x))
    _native.cpu_quantize_rows(_array(x), _array(out, torch.int8), _array(scales))
    return out, scales


def dequantize_product(sums: Tensor, row_scales: Tensor, column_scales: Tensor, bias: Tensor | None) -> Tensor:
    """int32 [n, m] * row_scales [n] * column_scales [m] + bias [m] -> float32 [n, m]."""
    out = torch.empty(sums.shape)
    _native.cpu_dequantize_product(
        _array(sums, torch.int32), _array(row_scales), _array(column_scales),
        None if bias is None else _array(bias), _array(out),
    )  # fmt: skip
    return out


def best_allowed(
    logits: Tensor, bitmask: Tensor | None, mask_rows: Tensor, *, vocab_size: int, want_logprobs: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Greedy choice under bitmasks in one pass: (ids int64, status int32, logprobs float32), each [batch].

    logits: float32 [batch, width]; bitmask: int32 [masks, words]; mask_rows: int32 [batch], -1 = free. Ties go to the
    lowest id; status as in `offseek.kernels.sampling`, with id -1 where it is not OK. Words of the mask without an
    allowed id cost nothing. Without `want_logprobs` the log-probabilities are NaN.
    """
    if bitmask is not None and (bitmask.shape[1] * 32 < vocab_size or int(mask_rows.max()) >= len(bitmask)):
        raise ShapeError(f"bitmask {list(bitmask.shape)} is too small")
    batch = len(logits)
    ids, status, logprobs = (
        torch.empty(batch, dtype=torch.int64),
        torch.empty(batch, dtype=torch.int32),
        torch.empty(batch),
    )
    _native.cpu_best_allowed(
        _array(logits), logits.shape[1], vocab_size, None if bitmask is None else _array(bitmask, torch.int32),
        0 if bitmask is None else bitmask.shape[1], _array(mask_rows, torch.int32), _array(ids, torch.int64),
        _array(status, torch.int32), _array(logprobs), want_logprobs, torch.get_num_threads(),
    )  # fmt: skip
    return ids, status, logprobs
