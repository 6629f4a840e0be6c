"""Triton kernel of the fused sampler; the rule and its torch twin are in `sampling.py` and `_sampler_torch.py`.

One program handles one row: every sum then has the same order whatever the batch is, and a row decides by itself how
many passes it needs, without the host. A pass streams the row in tiles of BLOCK columns seen as
[THREADS, BLOCK // THREADS], a thread's columns per line, and keeps its results per *lane*: lane j of a tile sees the
columns j, j + BLOCK, j + 2 BLOCK, … (its column set has COLS >= vocab / BLOCK members).

* `_first_pass` keeps per lane a bound of the best score (logit + noise), the largest logit and a sum for the
  log-probability. Neither ids nor exact noise are in the hot loop: `_hot_winner` rescans the lane with the best bound
  (`_lane_best_id`), and the next one, until no bound exceeds the best score found.
* Filters keep every id whose logit reaches a threshold, so dropping ids never changes who wins among the rest.
  `_general_draw` therefore takes winners in the order of their scores and asks whether each reaches the threshold:
  the lanes' sums may tell, or a pass that measures the mass above it; where several winners fall, passes that measure
  count and mass above four pivots at once (`_above`) narrow the threshold down.
* A small top-k (`_few_draw_*`) needs no noise in the first pass and no second pass at all: the k largest lane maxima
  bound the k-th largest logit from below, so only lanes whose maximum reaches the bound can hold kept ids. Their
  columns are gathered, and exact top-k, top-p, min-p and the draw happen on that short list.
"""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import os

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ._sampler_draws_triton import (
    _few_collect,
    _few_draw_long,
    _few_draw_pairs,
    _general_draw,
    _greedy_winner,
    _hot_winner,
)
from ._sampler_passes_triton import _first_pass, _sum_exp
from ._sampler_tiles_triton import (
    LIST,
    LN_2,
    LOG2_E,
    MAX_REGISTERS,
    NEG_INF,
    NUM_WARPS,
    POS_INF,
    _max2,
    _row_keys,
    _sum2,
)
from .sampling import Penalties, RowSettings, SampleOutput


def interpreted() -> bool:
    """Whether Triton runs kernels in its CPU interpreter (TRITON_INTERPRET=1 at import)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _apply_penalties(row_ptr, ids_ptr, counts_ptr, start, end, repetition, frequency, presence, CHUNK: tl.constexpr):
    for at in range(start, end, CHUNK):
        entry = at + tl.arange(0, CHUNK)
        live = entry < end
        ids = tl.load(ids_ptr + entry, mask=live, other=0)
        counts = tl.load(counts_ptr + entry, mask=live, other=0).to(tl.float32)
        z = tl.load(row_ptr + ids, mask=live, other=0.0).to(tl.float32)
        z = tl.where(z > 0, z / repetition, z * repetition)
        z = z - frequency * counts - tl.where(counts > 0, presence, 0.0)
        tl.store(row_ptr + ids, z.to(row_ptr.dtype.element_ty), mask=live)


@triton.jit
def _pass_for_row(
    row_ptr, mask_ptr, masked, vocab, scale, k0, k1,
    BLOCK: tl.constexpr, HAS_MASK: tl.constexpr, NOISE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The first pass, without bitmask code where the row has none."""
    if HAS_MASK:
        if masked:
            lane_max, lane_sum, lane_best, reference = _first_pass(
                row_ptr, mask_ptr, vocab, scale, k0, k1, BLOCK, True, NOISE, FAST
            )
        else:
            lane_max, lane_sum, lane_best, reference = _first_pass(
                row_ptr, mask_ptr, vocab, scale, k0, k1, BLOCK, False, NOISE, FAST
            )
    else:
        lane_max, lane_sum, lane_best, reference = _first_pass(
            row_ptr, mask_ptr, vocab, scale, k0, k1, BLOCK, False, NOISE, FAST
        )
    return lane_max, lane_sum, lane_best, reference


@triton.jit
def _sample_row(
    row_ptr, mask_ptr, masked, list_z_ptr, list_id_ptr, vocab, temperature, top_k, top_p, min_p, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, LIST: tl.constexpr,
    HAS_MASK: tl.constexpr, FILTERS: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """(token id, status, logprob) of one row."""
    hot = temperature > 0
    scale = tl.where(hot, LOG2_E / tl.where(hot, temperature, 1.0), LOG2_E)
    few = tl.full([], 0, tl.int1)
    filtered = tl.full([], 0, tl.int1)
    if FILTERS:
        few = hot & (top_k > 0) & (top_k <= LIST // 2) & (top_k < vocab)
        filtered = hot & (((top_k > 0) & (top_k < vocab)) | (top_p < 1.0) | (min_p > 0.0))
    if hot & (few == 0):
        lane_max, lane_sum, lane_best, reference = _pass_for_row(
            row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK, HAS_MASK, True, FAST
        )
    else:
        lane_max, lane_sum, lane_best, reference = _pass_for_row(
            row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK, HAS_MASK, False, FAST
        )
    nan = _max2((lane_max != lane_max).to(tl.int32))
    top = _max2(lane_max)
    total = _sum2(lane_sum)
    status = tl.where((nan != 0) | (top == POS_INF), 1, tl.where(top == NEG_INF, 2, 0))
    logprob = tl.full([], NEG_INF, tl.float32)
    drawn = tl.full([], -1, tl.int32)
    if status == 0:
        sure_mass = tl.where(scale == LOG2_E, top_p * total * 0.99999, 0.0)
        # Where the first tile's maximum was far from the row's, the sum lost precision: sum again.
        if tl.abs(top - reference) > 30.0:
            total = _sum_exp(row_ptr, mask_ptr, masked, vocab, top, PASS, HAS_MASK)
            reference = top
            sure_mass = 0.0
        general = filtered & (few == 0)
        if FILTERS:
            if few:
                count = _few_collect(
                    row_ptr, mask_ptr, masked, list_z_ptr, list_id_ptr, vocab, top, lane_max, top_k,
                    BLOCK, COLS, HAS_MASK, LIST,
                )  # fmt: skip
                if count <= 128:
                    drawn = _few_draw_pairs(
                        list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, 128, FAST
                    )
                elif count <= LIST:
                    drawn = _few_draw_long(
                        list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, LIST, FAST
                    )
                else:  # many equal logits around the k-th: the list is too short for them
                    general = few
                    _m, _s, lane_best, _r = _pass_for_row(
                        row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK, HAS_MASK, True, FAST
                    )
            if general:
                drawn = _general_draw(
                    row_ptr, mask_ptr, masked, list_z_ptr, vocab, scale, top, lane_max, lane_sum, lane_best, sure_mass,
                    top_k, top_p, min_p, k0, k1, BLOCK, COLS, PASS, HAS_MASK, FAST,
                )  # fmt: skip
        if drawn < 0:
            if hot:
                drawn = _hot_winner(
                    row_ptr, mask_ptr, masked, lane_best, vocab, scale, top, k0, k1, BLOCK, COLS, PASS, HAS_MASK, FAST
                )
            else:
                drawn = _greedy_winner(
                    row_ptr, mask_ptr, masked, lane_max, vocab, top, BLOCK, COLS, PASS, HAS_MASK, FAST
                )
        z = tl.load(row_ptr + drawn).to(tl.float32)
        logprob = z - reference - LN_2 * tl.log2(total)
    return drawn, status, logprob


@triton.jit
def _sample_kernel(
    logits_ptr, mask_ptr, mask_rows_ptr, temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, seed_ptr, position_ptr,
    offsets_ptr, pen_ids_ptr, pen_counts_ptr, repetition_ptr, frequency_ptr, presence_ptr,
    list_z_ptr, list_id_ptr, token_ptr, status_ptr, logprob_ptr,
    vocab, logits_stride, mask_stride, list_stride,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, LIST: tl.constexpr,
    HAS_MASK: tl.constexpr, HAS_MASK_ROWS: tl.constexpr, HAS_PENALTIES: tl.constexpr, FILTERS: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    row_ptr = logits_ptr + row.to(tl.int64) * logits_stride
    if HAS_PENALTIES:
        _apply_penalties(
            row_ptr, pen_ids_ptr, pen_counts_ptr, tl.load(offsets_ptr + row), tl.load(offsets_ptr + row + 1),
            tl.load(repetition_ptr + row), tl.load(frequency_ptr + row), tl.load(presence_ptr + row), 1024,
        )  # fmt: skip
        tl.debug_barrier()
    k0, k1 = _row_keys(tl.load(seed_ptr + row), tl.load(position_ptr + row))
    mask_row = row
    if HAS_MASK_ROWS:
        mask_row = tl.load(mask_rows_ptr + row)
    token, status, logprob = _sample_row(
        row_ptr, mask_ptr + mask_row.to(tl.int64) * mask_stride, mask_row >= 0,
        list_z_ptr + row.to(tl.int64) * list_stride, list_id_ptr + row.to(tl.int64) * list_stride, vocab,
        tl.load(temperature_ptr + row), tl.load(top_k_ptr + row), tl.load(top_p_ptr + row), tl.load(min_p_ptr + row),
        k0, k1, BLOCK, COLS, PASS, LIST, HAS_MASK, FILTERS, FAST,
    )  # fmt: skip
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(status_ptr + row, status)
    tl.store(logprob_ptr + row, logprob)


def sample_triton(
    logits: Tensor,
    settings: RowSettings,
    bitmask: Tensor | None,
    bitmask_rows: Tensor | None,
    penalties: Penalties | None,
    vocab_size: int,
) -> SampleOutput:
    """See `sampling.sample`; arguments are checked there. One launch, no host synchronisation."""
    batch, device = logits.shape[0], logits.device
    block = 2048 if logits.dtype == torch.float32 else 4096  # 16 bytes of logits per thread and tile: 4 or 8 columns
    token_ids = torch.empty(batch, dtype=torch.int64, device=device)
    status = torch.empty(batch, dtype=torch.int32, device=device)
    logprobs = torch.empty(batch, dtype=torch.float32, device=device)
    length = max(LIST + block, 3 * block) if settings.filters else 1
    list_z = torch.empty((batch, length), dtype=torch.float32, device=device)
    list_id = torch.empty((batch, length), dtype=torch.int32, device=device)
    if batch == 0:
        return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)
    p = penalties
    mask = None if bitmask is None else bitmask.view(torch.uint8)  # little-endian: byte i // 8 has the bit of id i
    # In the interpreter the kernel runs on numpy, which would warn of the -inf - -inf of masked lanes.
    with np.errstate(all="ignore"):
        _sample_kernel[(batch,)](
            logits, logits if mask is None else mask, status if bitmask_rows is None else bitmask_rows,
            settings.temperature, settings.top_k, settings.top_p, settings.min_p, settings.seed, settings.position,
            status if p is None else p.offsets, status if p is None else p.ids, status if p is None else p.counts,
            logprobs if p is None else p.repetition, logprobs if p is None else p.frequency,
            logprobs if p is None else p.presence,
            list_z, list_id, token_ids, status, logprobs,
            vocab_size, logits.stride(0), 0 if mask is None else mask.stride(0), length,
            BLOCK=block, COLS=triton.next_power_of_2(triton.cdiv(vocab_size, block)), PASS=2048, LIST=LIST,
            HAS_MASK=mask is not None, HAS_MASK_ROWS=bitmask_rows is not None, HAS_PENALTIES=p is not None,
            FILTERS=settings.filters, FAST=not interpreted(), num_warps=NUM_WARPS, maxnreg=MAX_REGISTERS,
        )  # fmt: skip
    return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)
