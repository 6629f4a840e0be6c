"""Passes of the fused sampler over a whole row in Triton; `_sampler_triton.py` has the whole picture."""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from ._sampler_tiles_triton import (
    LOG2_E,
    NEG_INF,
    POS_INF,
    THREADS,
    _allowed,
    _gumbel_bound,
    _load_bits,
    _load_logits,
    _load_tile,
    _max2,
    _sum2,
    _tile_ids,
)


@triton.jit
def _first_pass(
    row_ptr, mask_ptr, vocab, scale, k0, k1,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, NOISE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Per lane: largest logit (NaN if it saw one), sum of exp(z - reference), best score. Also the reference.

    The reference is the first tile's maximum, so that lanes need no rescaling; the caller sums again if it was
    too far from the row's maximum.
    """
    bits = _load_bits(mask_ptr, 0, vocab, BLOCK, MASKED)
    bits_1 = _load_bits(mask_ptr, 1, vocab, BLOCK, MASKED)
    raw = _load_logits(row_ptr, bits, 0, vocab, BLOCK, MASKED)
    reference = _max2(_allowed(raw, bits, BLOCK, MASKED))
    reference = tl.where((reference > NEG_INF) & (reference < POS_INF), reference, 0.0)
    shift = reference * LOG2_E
    lane_max = tl.full([THREADS, BLOCK // THREADS], NEG_INF, tl.float32)
    lane_best = tl.full([THREADS, BLOCK // THREADS], NEG_INF, tl.float32)
    lane_sum = tl.zeros([THREADS, BLOCK // THREADS], tl.float32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        # In flight while this tile is worked on: the next one's logits and, since those loads wait for their
        # bitmask bits, the bits of the one after.
        raw_1 = _load_logits(row_ptr, bits_1, tile + 1, vocab, BLOCK, MASKED)
        bits_2 = _load_bits(mask_ptr, tile + 2, vocab, BLOCK, MASKED)
        z = _allowed(raw, bits, BLOCK, MASKED)
        lane_max = tl.maximum(lane_max, z, propagate_nan=tl.PropagateNan.ALL)
        lane_sum += tl.exp2(z * LOG2_E - shift)
        if NOISE:
            bound = z * scale + _gumbel_bound(_tile_ids(tile, BLOCK), k0, k1, FAST)
            lane_best = tl.maximum(lane_best, bound)  # -inf + inf of a masked id is NaN and not taken
        raw, bits, bits_1 = raw_1, bits_1, bits_2
    return lane_max, lane_sum, lane_best, reference


@triton.jit
def _sum_exp(row_ptr, mask_ptr, masked, vocab, top, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    lane_sum = tl.zeros([THREADS, BLOCK // THREADS], tl.float32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        z = _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        lane_sum += tl.exp2((z - top) * LOG2_E)
    return _sum2(lane_sum)


@triton.jit
def _above(
    row_ptr, mask_ptr, vocab, scale, top, floor, p0, p1, p2, p3,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """Of the ids above each of four pivots, their number (COUNT) or mass; and the mass of the ids from `floor` on.

    Mass is exp2((z - top) * scale), of the tempered distribution.
    """
    G: tl.constexpr = BLOCK // THREADS
    s0 = tl.zeros([THREADS, G], tl.float32)
    s1 = tl.zeros([THREADS, G], tl.float32)
    s2 = tl.zeros([THREADS, G], tl.float32)
    s3 = tl.zeros([THREADS, G], tl.float32)
    whole = tl.zeros([THREADS, G], tl.float32)
    shift = top * scale
    bits = _load_bits(mask_ptr, 0, vocab, BLOCK, MASKED)
    bits_1 = _load_bits(mask_ptr, 1, vocab, BLOCK, MASKED)
    raw = _load_logits(row_ptr, bits, 0, vocab, BLOCK, MASKED)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        raw_1 = _load_logits(row_ptr, bits_1, tile + 1, vocab, BLOCK, MASKED)
        bits_2 = _load_bits(mask_ptr, tile + 2, vocab, BLOCK, MASKED)
        z = _allowed(raw, bits, BLOCK, MASKED)
        if COUNT:
            part = 1.0
        else:
            part = tl.exp2(z * scale - shift)
            whole += tl.where(z >= floor, part, 0.0)
        s0 += tl.where(z > p0, part, 0.0)
        s1 += tl.where(z > p1, part, 0.0)
        s2 += tl.where(z > p2, part, 0.0)
        s3 += tl.where(z > p3, part, 0.0)
        raw, bits, bits_1 = raw_1, bits_1, bits_2
    return _sum2(s0), _sum2(s1), _sum2(s2), _sum2(s3), _sum2(whole)


@triton.jit
def _mass_above(row_ptr, mask_ptr, vocab, scale, top, cut, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Tempered mass of the ids above `cut`, and of all."""
    G: tl.constexpr = BLOCK // THREADS
    above = tl.zeros([THREADS, G], tl.float32)
    whole = tl.zeros([THREADS, G], tl.float32)
    shift = top * scale
    bits = _load_bits(mask_ptr, 0, vocab, BLOCK, MASKED)
    bits_1 = _load_bits(mask_ptr, 1, vocab, BLOCK, MASKED)
    raw = _load_logits(row_ptr, bits, 0, vocab, BLOCK, MASKED)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        raw_1 = _load_logits(row_ptr, bits_1, tile + 1, vocab, BLOCK, MASKED)
        bits_2 = _load_bits(mask_ptr, tile + 2, vocab, BLOCK, MASKED)
        z = _allowed(raw, bits, BLOCK, MASKED)
        part = tl.exp2(z * scale - shift)
        whole += part
        above += tl.where(z > cut, part, 0.0)
        raw, bits, bits_1 = raw_1, bits_1, bits_2
    return _sum2(above), _sum2(whole)


@triton.jit
def _mass_above_for_row(
    row_ptr, mask_ptr, masked, vocab, scale, top, cut, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr
):  # fmt: skip
    """`_mass_above`, without bitmask code where the row has none."""
    if HAS_MASK:
        if masked:
            above, whole = _mass_above(row_ptr, mask_ptr, vocab, scale, top, cut, BLOCK, True)
        else:
            above, whole = _mass_above(row_ptr, mask_ptr, vocab, scale, top, cut, BLOCK, False)
    else:
        above, whole = _mass_above(row_ptr, mask_ptr, vocab, scale, top, cut, BLOCK, False)
    return above, whole


@triton.jit
def _above_for_row(
    row_ptr, mask_ptr, masked, vocab, scale, top, floor, p0, p1, p2, p3,
    BLOCK: tl.constexpr, HAS_MASK: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """`_above`, without bitmask code where the row has none."""
    if HAS_MASK:
        if masked:
            s0, s1, s2, s3, whole = _above(
                row_ptr, mask_ptr, vocab, scale, top, floor, p0, p1, p2, p3, BLOCK, True, COUNT
            )
        else:
            s0, s1, s2, s3, whole = _above(
                row_ptr, mask_ptr, vocab, scale, top, floor, p0, p1, p2, p3, BLOCK, False, COUNT
            )
    else:
        s0, s1, s2, s3, whole = _above(row_ptr, mask_ptr, vocab, scale, top, floor, p0, p1, p2, p3, BLOCK, False, COUNT)
    return s0, s1, s2, s3, whole


@triton.jit
def _ordered(z):
    """float32 -> int32 with the same order."""
    bits = z.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _unordered(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def _kth_exact(row_ptr, mask_ptr, masked, vocab, k, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    """The k-th largest allowed logit by bisection over ordered bits, one pass over the row per bit."""
    low = tl.full([], -2147483648, tl.int64)
    step = tl.full([], 2147483648, tl.int64)
    for _ in range(32):
        trial = low + step
        if trial <= 2147483647:
            lane = tl.zeros([THREADS, BLOCK // THREADS], tl.int32)
            for tile in range(tl.cdiv(vocab, BLOCK)):
                z = _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
                lane += (_ordered(z) >= trial.to(tl.int32)).to(tl.int32)
            if _sum2(lane) >= k:
                low = trial
        step = step // 2
    kth = _unordered(low.to(tl.int32))
    return tl.where(kth != kth, NEG_INF, kth)  # keys below that of -inf are NaN patterns
