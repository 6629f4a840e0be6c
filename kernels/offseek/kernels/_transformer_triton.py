"""Triton kernels of a transformer over a flat batch of tokens and a paged KV cache; twins in `reference.py`.

Every program computes its rows by itself in a fixed order: RMSNorm one row, attention one tile of query rows over
blocks of keys from the first on, the matrix product one tile of fixed size with the whole inner dimension in order.
So a row's bits do not depend on the batch; for attention that needs the same tile height everywhere (`rows=16`).
Stale cache entries past a sequence's length are never used, so a NaN there does no harm.
"""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add_rms_norm_kernel(
    residual_ptr, delta_ptr, weight_ptr, out_ptr, width, eps, HAS_DELTA: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    live = cols < width
    x = tl.load(residual_ptr + row * width + cols, mask=live, other=0.0)
    if HAS_DELTA:
        x = x + tl.load(delta_ptr + row * width + cols, mask=live, other=0.0)
        tl.store(residual_ptr + row * width + cols, x, mask=live)
    wide = x.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, 0) / width + eps)
    weight = tl.load(weight_ptr + cols, mask=live, other=0.0)
    normed = (wide * scale).to(x.dtype)
    tl.store(out_ptr + row * width + cols, normed * weight, mask=live)


def add_rms_norm_inplace(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add `delta` to `residual` [n, width] in place; return RMSNorm(residual) * weight."""
    rows, width = residual.shape
    out = torch.empty_like(residual)
    block = triton.next_power_of_2(width)
    if rows:
        _add_rms_norm_kernel[(rows,)](
            residual, residual if delta is None else delta, weight, out, width, eps,
            HAS_DELTA=delta is not None, BLOCK=block, num_warps=4 if block <= 2048 else 8,
        )  # fmt: skip
    return out


@triton.jit
def _silu_mul_kernel(gate_up_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = cols < width
    gate = tl.load(gate_up_ptr + row * 2 * width + cols, mask=live, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * width + width + cols, mask=live, other=0.0)
    activated = (gate / (1.0 + tl.exp(-gate))).to(up.dtype)
    tl.store(out_ptr + row * width + cols, activated * up, mask=live)


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(left half) * right half of [n, 2m] -> [n, m]."""
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty(rows, width)
    if rows:
        _silu_mul_kernel[(rows, triton.cdiv(width, 1024))](gate_up, out, width, BLOCK=1024)
    return out


@triton.jit
def _rotate_kernel(
    qkv_ptr, cos_sin_ptr, keys_ptr, values_ptr, slots_ptr, out_ptr, q_norm_ptr, k_norm_ptr, eps, num_heads, kv_heads,
    block_size, DIM: tl.constexpr, HALF: tl.constexpr, HAS_NORM: tl.constexpr,
):  # fmt: skip
    """One program: one head of one token. Heads are q, then k, then v."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = DIM // 2
    i = tl.arange(0, HALF)
    live = i < half
    source = qkv_ptr + (token * (num_heads + 2 * kv_heads) + head) * DIM
    low = tl.load(source + i, mask=live, other=0.0)
    high = tl.load(source + half + i, mask=live, other=0.0)
    slot = tl.load(slots_ptr + token)
    kind = low.dtype
    if head < num_heads + kv_heads:
        if HAS_NORM:
            a, b = low.to(tl.float32), high.to(tl.float32)
            scale = 1.0 / tl.sqrt((tl.sum(a * a, 0) + tl.sum(b * b, 0)) / DIM + eps)
            norm_ptr = q_norm_ptr if head < num_heads else k_norm_ptr
            low = (a * scale).to(kind) * tl.load(norm_ptr + i, mask=live, other=0.0)
            high = (b * scale).to(kind) * tl.load(norm_ptr + half + i, mask=live, other=0.0)
        cos = tl.load(cos_sin_ptr + token * DIM + i, mask=live, other=0.0).to(kind)
        sin = tl.load(cos_sin_ptr + token * DIM + half + i, mask=live, other=0.0).to(kind)
        new_low = low * cos - high * sin
        high = high * cos + low * sin
        low = new_low
    if head < num_heads:
        target = out_ptr + (token * num_heads + head) * DIM
        tl.store(target + i, low, mask=live)
        tl.store(target + half + i, high, mask=live)
    elif slot >= 0:
        block, offset = slot // block_size, slot % block_size
        if head < num_heads + kv_heads:
            base = keys_ptr + (block * kv_heads + head - num_heads) * DIM * block_size + offset
            tl.store(base + i * block_size, low.to(keys_ptr.dtype.element_ty), mask=live)
            tl.store(base + (half + i) * block_size, high.to(keys_ptr.dtype.element_ty), mask=live)
        else:
            kv_head = head - num_heads - kv_heads
            base = values_ptr + ((block * kv_heads + kv_head) * block_size + offset) * DIM
            tl.store(base + i, low.to(values_ptr.dtype.element_ty), mask=live)
            tl.store(base + half + i, high.to(values_ptr.dtype.element_ty), mask=live)


def rotate_and_store(
    qkv: Tensor, cos_sin: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor,
    *, num_heads: int, q_norm: Tensor | None = None, k_norm: Tensor | None = None, eps: float = 1e-6,
) -> Tensor:  # fmt: skip
    """As `reference.rotate_and_store`; both norms or none."""
    _, kv_heads, dim, block_size = k_cache.shape
    out = qkv.new_empty(len(qkv), num_heads, dim)
    if len(qkv):
        _rotate_kernel[(len(qkv), num_heads + 2 * kv_heads)](
            qkv, cos_sin, k_cache, v_cache, slots, out, qkv if q_norm is None else q_norm,
            qkv if k_norm is None else k_norm, eps, num_heads, kv_heads, block_size,
            DIM=dim, HALF=triton.next_power_of_2(dim // 2), HAS_NORM=q_norm is not None, num_warps=1,
        )  # fmt: skip
    return out


@triton.jit
def _attention_kernel(
    q_ptr, keys_ptr, values_ptr, tables_ptr, out_ptr,
    task_sequence_ptr, task_row_ptr, task_count_ptr, task_position_ptr,
    table_stride, num_heads, kv_heads, block_size, scale,
    GROUP: tl.constexpr, DIM: tl.constexpr, PADDED_DIM: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One program: up to ROWS // GROUP tokens of one sequence and the query heads of one key/value head."""
    task = tl.program_id(0)
    kv_head = tl.program_id(1)
    sequence = tl.load(task_sequence_ptr + task)
    first_row = tl.load(task_row_ptr + task)
    count = tl.load(task_count_ptr + task)
    position = tl.load(task_position_ptr + task)
    r = tl.arange(0, ROWS)
    token, group = r // GROUP, r % GROUP
    live_row = token < count
    d = tl.arange(0, PADDED_DIM)
    live_d = d < DIM
    place = ((first_row + token).to(tl.int64) * num_heads + kv_head * GROUP + group) * DIM
    q = tl.load(q_ptr + place[:, None] + d[None, :], mask=live_row[:, None] & live_d[None, :], other=0.0)
    visible = position + token + 1  # tokens that a row may look at
    longest = position + count
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, PADDED_DIM], tl.float32)
    for start in range(0, longest, COLS):
        t = start + tl.arange(0, COLS)
        live_t = t < longest
        block = tl.load(tables_ptr + sequence * table_stride + t // block_size, mask=live_t, other=0).to(tl.int64)
        base = (block * kv_heads + kv_head) * DIM * block_size
        offset = t % block_size
        keys = tl.load(
            keys_ptr + base[None, :] + d[:, None] * block_size + offset[None, :],
            mask=live_d[:, None] & live_t[None, :], other=0.0,
        )  # fmt: skip
        scores = tl.dot(q, keys.to(q.dtype), input_precision="ieee") * scale
        scores = tl.where(t[None, :] < visible[:, None], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - new_top[:, None])
        shrink = tl.exp(top - new_top)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(
            values_ptr + base[:, None] + offset[:, None] * DIM + d[None, :],
            mask=live_t[:, None] & live_d[None, :], other=0.0,
        )  # fmt: skip
        sums = sums * shrink[:, None] + tl.dot(weights.to(q.dtype), values.to(q.dtype), input_precision="ieee")
        top = new_top
    out = (sums / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + place[:, None] + d[None, :], out, mask=live_row[:, None] & live_d[None, :])


def paged_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, tasks: Tensor, *, rows: int = 16
) -> Tensor:
    """Causal attention of query tokens over a paged cache.

    q: [n, num_heads, head_dim]; block_tables: int32 [num_sequences, max_blocks].
    tasks: int32 [4, num_tasks]: sequence, first row of q, number of tokens, position of the first token. A task has at
        most `rows // (num_heads / kv_heads)` tokens; 0 tokens = padding.
    rows: height of a tile, 16 or more. Rows of q that no task names are left undefined.
    """
    _, num_heads, dim = q.shape
    kv_heads, block_size = k_cache.shape[1], k_cache.shape[3]
    out = torch.empty_like(q)
    if tasks.shape[1]:
        _attention_kernel[(tasks.shape[1], kv_heads)](
            q, k_cache, v_cache, block_tables, out, tasks[0], tasks[1], tasks[2], tasks[3],
            block_tables.stride(0), num_heads, kv_heads, block_size, dim**-0.5,
            GROUP=num_heads // kv_heads, DIM=dim, PADDED_DIM=max(16, triton.next_power_of_2(dim)), ROWS=rows, COLS=64,
            num_warps=4,
        )  # fmt: skip
    return out


@triton.jit
def _linear_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, rows, cols, inner,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    k = tl.arange(0, INNER)
    x_at = x_ptr + r.to(tl.int64)[:, None] * inner + k[None, :]
    w_at = w_ptr + c.to(tl.int64)[None, :] * inner + k[:, None]
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for start in range(0, inner, INNER):
        live = start + k < inner
        x = tl.load(x_at + start, mask=(r[:, None] < rows) & live[None, :], other=0.0)
        w = tl.load(w_at + start, mask=(c[None, :] < cols) & live[:, None], other=0.0)
        sums += tl.dot(x, w, input_precision="ieee")
    if HAS_BIAS:
        sums += tl.load(bias_ptr + c, mask=c < cols, other=0.0).to(tl.float32)[None, :]
    live_out = (r[:, None] < rows) & (c[None, :] < cols)
    tl.store(out_ptr + r.to(tl.int64)[:, None] * cols + c[None, :], sums.to(out_ptr.dtype.element_ty), mask=live_out)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [n, inner] @ weight [cols, inner].T + bias, with tiles of one fixed size: a row's bits do not depend on n."""
    rows, inner = x.shape
    cols = weight.shape[0]
    out = x.new_empty(rows, cols)
    if rows:
        tile_rows, tile_cols = 64, 32 if cols <= 4096 else 128
        _linear_kernel[(triton.cdiv(rows, tile_rows), triton.cdiv(cols, tile_cols))](
            x, weight, weight if bias is None else bias, out, rows, cols, inner,
            HAS_BIAS=bias is not None, ROWS=tile_rows, COLS=tile_cols, INNER=64, num_warps=4, num_stages=4,
        )  # fmt: skip
    return out


@triton.jit
def _log_softmax_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, width, BLOCK):
        x = tl.load(x_ptr + row * width + start + cols, mask=start + cols < width, other=float("-inf"))
        top = tl.maximum(top, x.to(tl.float32))
    best = tl.max(top, 0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        x = tl.load(x_ptr + row * width + start + cols, mask=start + cols < width, other=float("-inf"))
        sums += tl.exp(x.to(tl.float32) - best)
    shift = best + tl.log(tl.sum(sums, 0))
    for start in range(0, width, BLOCK):
        live = start + cols < width
        x = tl.load(x_ptr + row * width + start + cols, mask=live, other=0.0)
        tl.store(out_ptr + row * width + start + cols, x.to(tl.float32) - shift, mask=live)


def log_softmax(x: Tensor) -> Tensor:
    """Log-softmax of each row of [n, width] in float32; `exp` of it is the softmax."""
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=torch.float32, device=x.device)
    if rows:
        block = min(4096, triton.next_power_of_2(width))
        _log_softmax_kernel[(rows,)](x.contiguous(), out, width, BLOCK=block)
    return out
