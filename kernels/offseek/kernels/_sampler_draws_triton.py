"""Draws of the fused sampler in Triton: who wins under which filters. `_sampler_triton.py` has the whole picture."""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from ._sampler_passes_triton import _above_for_row, _kth_exact, _mass_above_for_row, _ordered
from ._sampler_tiles_triton import (
    BINS,
    NEG_INF,
    NO_ID,
    _first_with,
    _gumbel_log2,
    _lane_best_id,
    _load_ids,
    _max2,
    _sum2,
    _tile_ids,
)


@triton.jit
def _hot_winner(
    row_ptr, mask_ptr, masked, lane_best, vocab, scale, top, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, HAS_MASK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The lowest id with the best score of an unfiltered row.

    `lane_best` bounds the scores of each lane: lanes are rescanned in its order until it shows that no other can win.
    """
    lanes = _tile_ids(0, BLOCK)
    drawn = tl.full([], NO_ID, tl.int32)
    best = tl.full([], NEG_INF, tl.float32)
    bound = _max2(lane_best)
    while (bound >= best) & (bound > NEG_INF):
        lane = tl.min(tl.min(tl.where(lane_best == bound, lanes, NO_ID), 1), 0)
        score, found = _lane_best_id(
            row_ptr, mask_ptr, masked, lane, vocab, scale, NEG_INF, k0, k1, BLOCK, COLS, HAS_MASK, True, FAST
        )
        drawn = tl.where(score > best, found, tl.where(score == best, tl.minimum(drawn, found), drawn))
        best = tl.maximum(best, score)
        lane_best = tl.where(lanes == lane, NEG_INF, lane_best)
        bound = _max2(lane_best)
    if (best == NEG_INF) | (drawn == NO_ID):  # every score underflowed, and so does every draw
        drawn = _first_with(row_ptr, mask_ptr, masked, top, vocab, PASS, HAS_MASK)
    return drawn


@triton.jit
def _greedy_winner(
    row_ptr, mask_ptr, masked, lane_max, vocab, top,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, HAS_MASK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The lowest id with the largest logit; a few tied lanes are rescanned one by one."""
    lanes = _tile_ids(0, BLOCK)
    tied = _sum2((lane_max == top).to(tl.int32))
    drawn = tl.full([], NO_ID, tl.int32)
    if tied <= 16:
        lane = tl.full([], -1, tl.int32)
        for _ in range(tied):
            lane = tl.min(tl.min(tl.where((lane_max == top) & (lanes > lane), lanes, NO_ID), 1), 0)
            _s, found = _lane_best_id(
                row_ptr, mask_ptr, masked, lane, vocab, 1.0, NEG_INF, 0, 0, BLOCK, COLS, HAS_MASK, False, FAST
            )
            drawn = tl.minimum(drawn, found)
    else:
        drawn = _first_with(row_ptr, mask_ptr, masked, top, vocab, PASS, HAS_MASK)
    return drawn


@triton.jit
def _general_draw(
    row_ptr, mask_ptr, masked, scratch_ptr, vocab, scale, top, lane_max, lane_sum, lane_best, sure_mass,
    top_k, top_p, min_p, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, HAS_MASK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best-scored id that passes all filters; ids are tried in the order of their scores.

    The mass above a candidate is at most the sum of the lanes whose maximum is above it. Where that stays below
    `sure_mass` (top-p's share of the row's sum, with room for rounding; 0 where the lanes' sums are not of the tempered
    distribution), top-p keeps the candidate without another pass over the row.
    """
    use_k = (top_k > 0) & (top_k < vocab)
    use_p = top_p < 1.0
    floor = tl.full([], NEG_INF, tl.float32)  # top-k's threshold, where top-p needs the mass it leaves
    if use_k & use_p:
        floor = _kth_exact(row_ptr, mask_ptr, masked, vocab, top_k, PASS, HAS_MASK)
    lowest = tl.where(min_p > 0, tl.log2(tl.maximum(min_p, 1e-38)), NEG_INF)
    fails = tl.full([], NEG_INF, tl.float32)  # every logit at or below this is filtered out
    passes = tl.where(use_k | use_p, top, NEG_INF)  # every logit from here on passes top-k and top-p
    tries = tl.full([], 0, tl.int32)
    # In memory, to leave the registers to the passes.
    lanes = _tile_ids(0, BLOCK)
    tl.store(scratch_ptr + lanes, lane_best)
    tl.store(scratch_ptr + BLOCK + lanes, lane_max)
    tl.store(scratch_ptr + 2 * BLOCK + lanes, lane_sum)
    drawn = tl.full([], -1, tl.int32)
    while drawn < 0:
        tl.debug_barrier()
        lane_best = tl.load(scratch_ptr + lanes)
        best = _max2(lane_best)
        lane = tl.min(tl.min(tl.where(lane_best == best, lanes, NO_ID), 1), 0)
        score, candidate = _lane_best_id(
            row_ptr, mask_ptr, masked, lane, vocab, scale, fails, k0, k1, BLOCK, COLS, HAS_MASK, True, FAST
        )
        if best == NEG_INF:  # every score underflowed
            drawn = _first_with(row_ptr, mask_ptr, masked, top, vocab, PASS, HAS_MASK)
        elif score >= _max2(tl.where(lanes == lane, NEG_INF, lane_best)):
            cut = tl.load(row_ptr + candidate).to(tl.float32)
            sure = cut >= passes
            if (sure == 0) & (use_k == 0) & (sure_mass > 0.0):
                above_lane = tl.load(scratch_ptr + BLOCK + lanes) > cut
                sure = _sum2(tl.where(above_lane, tl.load(scratch_ptr + 2 * BLOCK + lanes), 0.0)) < sure_mass
            if (cut - top) * scale < lowest:
                fails = cut
            elif sure:
                drawn = candidate
            elif (tries == 0) & (use_k == 0):
                m0, whole = _mass_above_for_row(row_ptr, mask_ptr, masked, vocab, scale, top, cut, BLOCK, HAS_MASK)
                if m0 < top_p * whole:
                    drawn = candidate
                else:
                    fails = cut
                tries = 1
            else:
                span = passes - cut
                p1, p2, p3 = cut + span * 0.0625, cut + span * 0.125, cut + span * 0.25
                yes = tl.full([], 1, tl.int1)
                g0, g1, g2, g3 = yes, yes, yes, yes
                if use_k:
                    n0, n1, n2, n3, _whole = _above_for_row(
                        row_ptr, mask_ptr, masked, vocab, scale, top, floor, cut, p1, p2, p3, PASS, HAS_MASK, True
                    )
                    g0, g1, g2, g3 = n0 < top_k, n1 < top_k, n2 < top_k, n3 < top_k
                if use_p:
                    m0, m1, m2, m3, whole = _above_for_row(
                        row_ptr, mask_ptr, masked, vocab, scale, top, floor, cut, p1, p2, p3, PASS, HAS_MASK, False
                    )
                    target = top_p * whole
                    g0, g1, g2, g3 = g0 & (m0 < target), g1 & (m1 < target), g2 & (m2 < target), g3 & (m3 < target)
                passes = tl.where(g3, tl.minimum(passes, p3), passes)
                passes = tl.where(g2, tl.minimum(passes, p2), passes)
                passes = tl.where(g1, tl.minimum(passes, p1), passes)
                passes = tl.where(g0, cut, passes)
                fails = tl.where(g0, fails, cut)
                if g0:
                    drawn = candidate
        if drawn < 0:  # not the winner, or filtered out: its score bounds what is left of its lane
            tl.debug_barrier()
            tl.store(scratch_ptr + lane, score)
    return drawn


@triton.jit
def _bin(z, top, per_unit):
    """Index of the histogram bin of a logit, counted down from the largest; monotone in z."""
    return tl.minimum((top - tl.maximum(z, -3.0e38)) * per_unit, BINS - 1.0).to(tl.int32)


@triton.jit
def _push(list_z_ptr, list_id_ptr, count, z, ids, hit, LIST: tl.constexpr):
    """Append the hits of a 2-d tile to the row's list, in order; returns the new length (which may exceed LIST)."""
    per_line = tl.sum(hit.to(tl.int32), 1)
    start = count + tl.cumsum(per_line, 0) - per_line
    slot = start[:, None] + tl.cumsum(hit.to(tl.int32), 1) - 1
    keep = hit & (slot < LIST)
    tl.store(list_z_ptr + slot, z, mask=keep)
    tl.store(list_id_ptr + slot, ids, mask=keep)
    return count + tl.sum(per_line, 0)


@triton.jit
def _few_collect(
    row_ptr, mask_ptr, masked, list_z_ptr, list_id_ptr, vocab, top, lane_max, top_k,
    BLOCK: tl.constexpr, COLS: tl.constexpr, HAS_MASK: tl.constexpr, LIST: tl.constexpr,
):  # fmt: skip
    """Fill the row's list with every id that top-k can keep (and a few more); returns its length.

    Two halves of the list's memory are used: lanes first, in the upper half, then ids.
    """
    finite = lane_max > NEG_INF
    low = tl.min(tl.min(tl.where(finite, lane_max, top), 1), 0)
    per_unit = tl.where(top > low, (BINS - 2) / tl.maximum(top - low, 1e-30), 0.0)
    bins = tl.where(finite, _bin(lane_max, top, per_unit), BINS - 1)
    counts = tl.histogram(tl.reshape(bins, [BLOCK]), BINS)
    last = tl.sum((tl.cumsum(counts, 0) < top_k).to(tl.int32), 0)  # the first bin that completes k lanes
    lanes = _tile_ids(0, BLOCK)
    chosen = finite & (bins <= last)
    num_lanes = _push(list_z_ptr + LIST, list_id_ptr + LIST, 0, lane_max, lanes, chosen, BLOCK)
    tl.debug_barrier()
    count = tl.full([], 0, tl.int32)
    CHUNK: tl.constexpr = 64
    for at in range(0, num_lanes, CHUNK):
        entry = at + tl.arange(0, CHUNK)
        lane = tl.load(list_id_ptr + LIST + entry, mask=entry < num_lanes, other=0)
        ids = lane[:, None] + BLOCK * tl.arange(0, COLS)[None, :]
        live = (entry < num_lanes)[:, None] & (ids >= 0)
        z = _load_ids(row_ptr, mask_ptr, masked, ids, live, vocab, HAS_MASK)
        hit = (z > NEG_INF) & (_bin(z, top, per_unit) <= last)
        count = _push(list_z_ptr, list_id_ptr, count, z, ids, hit, LIST)
    tl.debug_barrier()
    return count


@triton.jit
def _few_draw_pairs(
    list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, SIZE: tl.constexpr, FAST: tl.constexpr
):
    """Exact filters and draw on a list of at most SIZE ids, by comparing all pairs."""
    slot = tl.arange(0, SIZE)
    zi = tl.load(list_z_ptr + slot, mask=slot < count, other=NEG_INF)
    ids = tl.load(list_id_ptr + slot, mask=slot < count, other=NO_ID)
    a = zi[:, None]
    b = tl.load(list_z_ptr + slot[None, :], mask=slot[None, :] < count, other=NEG_INF)
    rank_b = tl.sum((a > b).to(tl.int32), 0)[None, :]
    mass_b = tl.where((rank_b < top_k) & (b > NEG_INF), tl.exp2((b - top) * scale), 0.0)
    rank = tl.sum((b > a).to(tl.int32), 1)
    larger = tl.sum(tl.where(b > a, mass_b, 0.0), 1)
    whole = tl.sum(tl.sum(mass_b, 1), 0)
    kept = (rank < top_k) & (zi > NEG_INF) & (tl.where(top_p < 1.0, larger, NEG_INF) < top_p * whole)
    lowest = tl.where(min_p > 0, tl.log2(tl.maximum(min_p, 1e-38)), NEG_INF)
    kept = kept & ((zi - top) * scale >= lowest)
    score = tl.where(kept, zi * scale + _gumbel_log2(ids, k0, k1, FAST), NEG_INF)
    best = tl.max(score, 0)
    return tl.min(tl.where(kept & (score == best), ids, NO_ID), 0)


@triton.jit
def _few_draw_long(
    list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, SIZE: tl.constexpr, FAST: tl.constexpr
):
    """The same on a longer list, by bisection over the ordered bits of the logits."""
    slot = tl.arange(0, SIZE)
    z = tl.load(list_z_ptr + slot, mask=slot < count, other=NEG_INF)
    ids = tl.load(list_id_ptr + slot, mask=slot < count, other=NO_ID)
    keys = _ordered(z)
    kth = tl.full([], -2147483648, tl.int64)
    step = tl.full([], 2147483648, tl.int64)
    for _ in range(32):
        trial = kth + step
        enough = tl.sum((keys >= trial.to(tl.int32)).to(tl.int32), 0) >= top_k
        kth = tl.where(enough & (trial <= 2147483647), trial, kth)
        step = step // 2
    kept = (keys.to(tl.int64) >= kth) & (z > NEG_INF)
    mass = tl.where(kept, tl.exp2((z - top) * scale), 0.0)
    if top_p < 1.0:
        # The largest key from which on the mass reaches the target: its tie group is the last one kept.
        target = top_p * tl.sum(mass, 0)
        last = tl.full([], -2147483648, tl.int64)
        step = tl.full([], 2147483648, tl.int64)
        for _ in range(32):
            trial = last + step
            reached = tl.sum(tl.where(keys >= trial.to(tl.int32), mass, 0.0), 0) >= target
            last = tl.where(reached & (trial <= 2147483647), trial, last)
            step = step // 2
        kept = kept & (keys.to(tl.int64) >= last)
    lowest = tl.where(min_p > 0, tl.log2(tl.maximum(min_p, 1e-38)), NEG_INF)
    kept = kept & ((z - top) * scale >= lowest)
    score = tl.where(kept, z * scale + _gumbel_log2(ids, k0, k1, FAST), NEG_INF)
    best = tl.max(score, 0)
    return tl.min(tl.where(kept & (score == best), ids, NO_ID), 0)
