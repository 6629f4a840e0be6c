"""Mixture-of-experts reductions in Triton, batch-invariant; their twins of the same names are in `reference.py`.

A token goes through k of E experts; each (token, choice) pair is one row. Rows are grouped by expert on the device
(`plan_experts`, no host synchronisation), every tile holds rows of one expert, has one fixed size and walks the whole
inner dimension in order, and results are stored back at the place of their pair. So neither the other tokens of the
batch nor the crowd at an expert reach a row's bits. `combine_experts` adds a token's k results in the order of its
choices. No token is ever dropped: there is no capacity.
"""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from .errors import ShapeError

#: Rows of a tile: what most experts get in a decoding step, and the least that tensor cores take.
TILE_ROWS = 16


@dataclass(frozen=True, slots=True)
class ExpertPlan:
    """Which pairs go through which expert. Pair `p` is choice `p % k` of token `p // k`.

    pairs:  int32 [n * k], grouped by expert, in the order of the tokens within one.
    expert: int32 [num_tiles], the expert of each tile; first: int32, its first entry of `pairs`; count: int32, 0 to
        TILE_ROWS, 0 = nothing to do.
    """

    pairs: Tensor
    expert: Tensor
    first: Tensor
    count: Tensor
    num_experts: int


def plan_experts(expert_ids: Tensor, num_experts: int) -> ExpertPlan:
    """Group the choices `expert_ids` (int [n, k], each in [0, num_experts)) into tiles.

    The number of tiles depends on n, k and num_experts only, so that the host needs not know who chose what.
    """
    flat = expert_ids.reshape(-1).long()
    pairs = flat.argsort(stable=True)
    counts = torch.zeros(num_experts, dtype=torch.int64, device=flat.device).scatter_add_(
        0, flat, torch.ones_like(flat)
    )
    tiles = (counts + TILE_ROWS - 1) // TILE_ROWS
    tile_ends, pair_ends = tiles.cumsum(0), counts.cumsum(0)
    num_tiles = len(flat) // TILE_ROWS + min(num_experts, len(flat))
    tile = torch.arange(num_tiles, device=flat.device)
    expert = torch.searchsorted(tile_ends, tile, right=True)
    unused = expert >= num_experts
    expert = expert.clamp(max=num_experts - 1)
    within = (tile - (tile_ends - tiles)[expert]) * TILE_ROWS
    count = (counts[expert] - within).clamp(0, TILE_ROWS).masked_fill(unused, 0)
    first = (pair_ends - counts)[expert] + within
    return ExpertPlan(pairs.int(), expert.int(), first.int(), count.int(), num_experts)


@triton.jit
def _expert_linear_kernel(
    x_ptr, w_ptr, out_ptr, pairs_ptr, expert_ptr, first_ptr, count_ptr, cols, inner, pairs_per_row,
    ROWS: tl.constexpr, COLS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    count = tl.load(count_ptr + tile)
    if count > 0:
        expert = tl.load(expert_ptr + tile).to(tl.int64)
        r = tl.arange(0, ROWS)
        live_row = r < count
        pair = tl.load(pairs_ptr + tl.load(first_ptr + tile) + r, mask=live_row, other=0).to(tl.int64)
        c = tl.program_id(1) * COLS + tl.arange(0, COLS)
        k = tl.arange(0, INNER)
        x_at = x_ptr + (pair // pairs_per_row)[:, None] * inner + k[None, :]
        w_at = w_ptr + (expert * cols + c)[None, :] * inner + k[:, None]
        sums = tl.zeros([ROWS, COLS], tl.float32)
        for start in range(0, inner, INNER):
            live = start + k < inner
            x = tl.load(x_at + start, mask=live_row[:, None] & live[None, :], other=0.0)
            w = tl.load(w_at + start, mask=(c[None, :] < cols) & live[:, None], other=0.0)
            sums += tl.dot(x, w, input_precision="ieee")
        live_out = live_row[:, None] & (c[None, :] < cols)
        tl.store(out_ptr + pair[:, None] * cols + c[None, :], sums.to(out_ptr.dtype.element_ty), mask=live_out)


def expert_linear(x: Tensor, weights: Tensor, plan: ExpertPlan) -> Tensor:
    """Each pair's row times the weights of its expert: [n * k, cols].

    x: [n, inner], one row per token, or [n * k, inner], one per pair; weights: [num_experts, cols, inner].

    Raises ShapeError when the shapes do not fit the plan.
    """
    rows, inner = x.shape
    num_experts, cols, width = weights.shape
    num_pairs = len(plan.pairs)
    if width != inner or num_experts != plan.num_experts or (num_pairs and (not rows or num_pairs % rows)):
        raise ShapeError(
            f"x {tuple(x.shape)} and weights {tuple(weights.shape)} do not fit {num_pairs} pairs over "
            f"{plan.num_experts} experts"
        )
    out = x.new_empty(num_pairs, cols)
    if num_pairs:
        _expert_linear_kernel[(len(plan.expert), triton.cdiv(cols, 64))](
            x.contiguous(), weights.contiguous(), out, plan.pairs, plan.expert, plan.first, plan.count, cols, inner,
            num_pairs // rows, ROWS=TILE_ROWS, COLS=64, INNER=64, num_warps=4, num_stages=4,
        )  # fmt: skip
    return out


@triton.jit
def _combine_kernel(x_ptr, weights_ptr, out_ptr, k, width, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = cols < width
    sums = tl.zeros([BLOCK], tl.float32)
    for choice in range(k):
        pair = token * k + choice
        x = tl.load(x_ptr + pair * width + cols, mask=live, other=0.0).to(tl.float32)
        sums += x * tl.load(weights_ptr + pair).to(tl.float32)
    tl.store(out_ptr + token * width + cols, sums.to(out_ptr.dtype.element_ty), mask=live)


def combine_experts(x: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of each token's k results, in the order of its choices, in float32: [n, width].

    x: [n * k, width], as `expert_linear` gives it; weights: float [n, k]. Raises ShapeError when they do not fit.
    """
    n, k = weights.shape
    if len(x) != n * k:
        raise ShapeError(f"{len(x)} rows for {n} tokens with {k} experts each")
    out = x.new_empty(n, x.shape[1])
    if n:
        _combine_kernel[(n, triton.cdiv(x.shape[1], 1024))](
            x.contiguous(), weights.contiguous(), out, k, x.shape[1], BLOCK=1024
        )
    return out
