"""Triton kernel of the fused sampler; the rule and its torch twin are in `sampling.py` and `_sampler_torch.py`.

One program handles one row: every sum then has the same order whatever the batch is, and a row decides by itself how
many passes it needs, without the host. A pass streams the row in tiles of BLOCK columns seen as [BLOCK // 32, 32], one
bitmask word per line, and keeps its results per *lane*: lane j of a tile sees the columns j, j + BLOCK, j + 2 BLOCK, …
(its column set has COLS >= vocab / BLOCK members).

* `_first_pass` keeps per lane the best score (logit + noise), the largest logit and a sum for the log-probability.
  Ids are not tracked: the winner's lane is rescanned afterwards (`_lane_best_id`), which takes two selects and a
  comparison per element out of the hot loop.
* Filters keep every id whose logit reaches a threshold, so dropping ids never changes who wins among the rest.
  `_general_draw` therefore takes winners in the order of their scores and asks whether each reaches the threshold,
  narrowing it down by passes that measure count and mass above four pivots at once (`_above`). Usually the first
  winner passes and one such pass settles the row.
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

from .sampling import Penalties, RowSettings, SampleOutput

#: 512 threads of at most 64 registers: two rows are in flight on each multiprocessor of an A100 or H100/H200.
NUM_WARPS = 16
MAX_REGISTERS = 64
#: Capacity of a row's candidate list; top-k up to half of it takes the short way.
LIST = 2048

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
NEG_INF = tl.constexpr(float("-inf"))
POS_INF = tl.constexpr(float("inf"))
NO_ID = tl.constexpr(2147483647)
BINS = tl.constexpr(512)


def interpreted() -> bool:
    """Whether Triton runs kernels in its CPU interpreter (TRITON_INTERPRET=1 at import)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


# ---------------------------------------------------------------- noise (the torch twin is noise.py)


@triton.jit
def _mix(h, key):
    h = h ^ (h >> 16)
    h = h * 0x85EBCA6B
    h = h ^ (h >> 13) ^ key
    h = h * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def _row_keys(seed, position):
    zero = tl.full([], 0, tl.uint32)
    k = _mix(seed.to(tl.uint32) ^ 0x9E3779B9, zero)
    k = _mix(k ^ (seed >> 32).to(tl.uint32), zero)
    k0 = _mix(k ^ position.to(tl.uint32), zero)
    return k0, _mix(k0 + 0x9E3779B9, zero)


@triton.jit
def _log2(x, FAST: tl.constexpr):
    """log2 of a normal positive float. FAST: the hardware's approximation (error below 2**-22, no special cases)."""
    if FAST:
        return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    else:
        return tl.log2(x)


@triton.jit
def _gumbel_log2(ids, k0, k1, FAST: tl.constexpr):
    h = _mix(ids.to(tl.uint32) * 0x9E3779B1 ^ k0, k1)
    # (h + 0.5) / 2**32 without an integer-to-float conversion, which runs at a quarter of the rate of these: each
    # half of h becomes the low mantissa bits of 2**23, exactly.
    high = ((h >> 16) | 0x4B000000).to(tl.float32, bitcast=True)
    low = ((h & 0xFFFF) | 0x4B000000).to(tl.float32, bitcast=True)
    v = (high * 1.52587890625e-05 - 128.0) + (low * 2.3283064365386963e-10 - 0.0019531248835846782)
    v = tl.minimum(v, 0.99999994)
    series = v * (1.0 + v * (0.5 + v * (0.3333333333333333 + v * 0.25)))
    return -_log2(tl.where(v < 0.03125, series, -LN_2 * _log2(1.0 - v, FAST)), FAST)


# ---------------------------------------------------------------- tiles and lanes


@triton.jit
def _tile_ids(tile, BLOCK: tl.constexpr):
    return tile * BLOCK + tl.arange(0, BLOCK // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]


@triton.jit
def _load_words(mask_ptr, tile, vocab, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Bitmask words of one tile, 0 past the vocabulary."""
    words = tile * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    if MASKED:
        return tl.load(mask_ptr + words, mask=words * 32 < vocab, other=0)
    else:
        return words  # not looked at


@triton.jit
def _load_logits(row_ptr, words, tile, vocab, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Logits of one tile in their own dtype, -inf past the vocabulary.

    A masked load is predicated by whole lines of 32 columns, which keeps it vectorised and skips empty words.
    """
    ids = _tile_ids(tile, BLOCK)
    live = ids < vocab
    if MASKED:
        live = live & (words != 0)[:, None]
    return tl.load(row_ptr + ids, mask=live, other=NEG_INF)


@triton.jit
def _allowed(raw, words, MASKED: tl.constexpr):
    """The tile as float32, -inf where its bitmask words forbid."""
    z = raw.to(tl.float32)
    if MASKED:
        z = tl.where((words[:, None] & (1 << tl.arange(0, 32))[None, :]) != 0, z, NEG_INF)
    return z


@triton.jit
def _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    """A whole tile as float32, -inf where not allowed; for the rare passes, whose rows may be masked or not."""
    words = _load_words(mask_ptr, tile, tl.where(masked, vocab, 0), BLOCK, HAS_MASK)
    if HAS_MASK:
        words = tl.where(masked, words, -1)
    return _allowed(_load_logits(row_ptr, words, tile, vocab, BLOCK, HAS_MASK), words, HAS_MASK)


@triton.jit
def _load_ids(row_ptr, mask_ptr, masked, ids, live, vocab, HAS_MASK: tl.constexpr):
    """Logits of scattered ids as float32, -inf where `live` is false, not allowed or past the vocabulary."""
    live = live & (ids < vocab)
    if HAS_MASK:
        word = tl.load(mask_ptr + ids // 32, mask=live & (tl.where(masked, ids, NO_ID) < NO_ID), other=-1)
        live = live & (((word >> (ids % 32)) & 1) != 0)
    return tl.load(row_ptr + ids, mask=live, other=NEG_INF).to(tl.float32)


@triton.jit
def _max2(x):
    return tl.max(tl.max(x, 1), 0)


@triton.jit
def _sum2(x):
    return tl.sum(tl.sum(x, 1), 0)


@triton.jit
def _lane_best_id(
    row_ptr, mask_ptr, masked, lane, vocab, scale, floor, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, HAS_MASK: tl.constexpr, NOISE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """(best score, its lowest id) among the ids of one lane with a logit above `floor`."""
    ids = lane + BLOCK * tl.arange(0, COLS)
    z = _load_ids(row_ptr, mask_ptr, masked, ids, ids >= 0, vocab, HAS_MASK)
    if NOISE:
        score = z * scale + _gumbel_log2(ids, k0, k1, FAST)
    else:
        score = z
    score = tl.where(z > floor, score, NEG_INF)
    best = tl.max(score, 0)
    return best, tl.min(tl.where(score == best, ids, NO_ID), 0)


@triton.jit
def _first_with(row_ptr, mask_ptr, masked, value, vocab, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    """The lowest allowed id whose logit equals `value`, which some id has."""
    found = tl.full([], NO_ID, tl.int32)
    tile = tl.full([], 0, tl.int32)
    while found == NO_ID:
        z = _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        found = tl.min(tl.min(tl.where(z == value, _tile_ids(tile, BLOCK), NO_ID), 1), 0)
        tile += 1
    return found


# ---------------------------------------------------------------- passes over the row


@triton.jit
def _first_pass(
    row_ptr, mask_ptr, vocab, scale, k0, k1,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, NOISE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Per lane: largest logit (NaN if it saw one), sum of exp(z - reference), best score. Also the reference.

    The reference is the first tile's maximum, so that lanes need no rescaling; the caller sums again if it was
    too far from the row's maximum.
    """
    words = _load_words(mask_ptr, 0, vocab, BLOCK, MASKED)
    words_1 = _load_words(mask_ptr, 1, vocab, BLOCK, MASKED)
    raw = _load_logits(row_ptr, words, 0, vocab, BLOCK, MASKED)
    reference = _max2(_allowed(raw, words, MASKED))
    reference = tl.where((reference > NEG_INF) & (reference < POS_INF), reference, 0.0)
    shift = reference * LOG2_E
    lane_max = tl.full([BLOCK // 32, 32], NEG_INF, tl.float32)
    lane_best = tl.full([BLOCK // 32, 32], NEG_INF, tl.float32)
    lane_sum = tl.zeros([BLOCK // 32, 32], tl.float32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        # In flight while this tile is worked on: the next one's logits and, since those loads wait for their
        # bitmask words, the words of the one after.
        raw_1 = _load_logits(row_ptr, words_1, tile + 1, vocab, BLOCK, MASKED)
        words_2 = _load_words(mask_ptr, tile + 2, vocab, BLOCK, MASKED)
        z = _allowed(raw, words, MASKED)
        lane_max = tl.maximum(lane_max, z, propagate_nan=tl.PropagateNan.ALL)
        lane_sum += tl.exp2(z * LOG2_E - shift)
        if NOISE:
            score = z * scale + _gumbel_log2(_tile_ids(tile, BLOCK), k0, k1, FAST)
            lane_best = tl.maximum(lane_best, score)
        raw, words, words_1 = raw_1, words_1, words_2
    return lane_max, lane_sum, lane_best, reference


@triton.jit
def _sum_exp(row_ptr, mask_ptr, masked, vocab, top, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    lane_sum = tl.zeros([BLOCK // 32, 32], tl.float32)
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
    W: tl.constexpr = BLOCK // 32
    s0 = tl.zeros([W, 32], tl.float32)
    s1 = tl.zeros([W, 32], tl.float32)
    s2 = tl.zeros([W, 32], tl.float32)
    s3 = tl.zeros([W, 32], tl.float32)
    whole = tl.zeros([W, 32], tl.float32)
    shift = top * scale
    words = _load_words(mask_ptr, 0, vocab, BLOCK, MASKED)
    words_1 = _load_words(mask_ptr, 1, vocab, BLOCK, MASKED)
    raw = _load_logits(row_ptr, words, 0, vocab, BLOCK, MASKED)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        raw_1 = _load_logits(row_ptr, words_1, tile + 1, vocab, BLOCK, MASKED)
        words_2 = _load_words(mask_ptr, tile + 2, vocab, BLOCK, MASKED)
        z = _allowed(raw, words, MASKED)
        if COUNT:
            part = 1.0
        else:
            part = tl.exp2(z * scale - shift)
            whole += tl.where(z >= floor, part, 0.0)
        s0 += tl.where(z > p0, part, 0.0)
        s1 += tl.where(z > p1, part, 0.0)
        s2 += tl.where(z > p2, part, 0.0)
        s3 += tl.where(z > p3, part, 0.0)
        raw, words, words_1 = raw_1, words_1, words_2
    return _sum2(s0), _sum2(s1), _sum2(s2), _sum2(s3), _sum2(whole)


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
            lane = tl.zeros([BLOCK // 32, 32], tl.int32)
            for tile in range(tl.cdiv(vocab, BLOCK)):
                z = _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
                lane += (_ordered(z) >= trial.to(tl.int32)).to(tl.int32)
            if _sum2(lane) >= k:
                low = trial
        step = step // 2
    kth = _unordered(low.to(tl.int32))
    return tl.where(kth != kth, NEG_INF, kth)  # keys below that of -inf are NaN patterns


# ---------------------------------------------------------------- draws


@triton.jit
def _lowest_winner(
    row_ptr, mask_ptr, masked, lane_best, vocab, hot, scale, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, HAS_MASK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The lowest id with the best score of an unfiltered row; a few tied lanes are rescanned one by one."""
    lanes = tl.arange(0, BLOCK // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    best = _max2(lane_best)
    tied = _sum2((lane_best == best).to(tl.int32))
    drawn = tl.full([], NO_ID, tl.int32)
    if hot | (tied <= 16):
        lane = tl.full([], -1, tl.int32)
        for _ in range(tl.minimum(tied, 16)):
            lane = tl.min(tl.min(tl.where((lane_best == best) & (lanes > lane), lanes, NO_ID), 1), 0)
            if hot:
                _s, found = _lane_best_id(
                    row_ptr, mask_ptr, masked, lane, vocab, scale, NEG_INF, k0, k1, BLOCK, COLS, HAS_MASK, True, FAST
                )
            else:
                _s, found = _lane_best_id(
                    row_ptr, mask_ptr, masked, lane, vocab, scale, NEG_INF, k0, k1, BLOCK, COLS, HAS_MASK, False, FAST
                )
            drawn = tl.minimum(drawn, found)
    else:
        drawn = _first_with(row_ptr, mask_ptr, masked, best, vocab, PASS, HAS_MASK)
    return drawn


@triton.jit
def _general_draw(
    row_ptr, mask_ptr, masked, scratch_ptr, vocab, scale, top, lane_best, top_k, top_p, min_p, k0, k1,
    BLOCK: tl.constexpr, COLS: tl.constexpr, PASS: tl.constexpr, HAS_MASK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best-scored id that passes all filters; ids are tried in the order of their scores."""
    use_k = (top_k > 0) & (top_k < vocab)
    use_p = top_p < 1.0
    floor = tl.full([], NEG_INF, tl.float32)  # top-k's threshold, where top-p needs the mass it leaves
    if use_k & use_p:
        floor = _kth_exact(row_ptr, mask_ptr, masked, vocab, top_k, PASS, HAS_MASK)
    lowest = tl.where(min_p > 0, tl.log2(tl.maximum(min_p, 1e-38)), NEG_INF)
    fails = tl.full([], NEG_INF, tl.float32)  # every logit at or below this is filtered out
    passes = tl.where(use_k | use_p, top, NEG_INF)  # every logit from here on passes top-k and top-p
    lanes = tl.arange(0, BLOCK // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(scratch_ptr + lanes, lane_best)  # in memory, to leave the registers to the passes
    drawn = tl.full([], -1, tl.int32)
    while drawn < 0:
        tl.debug_barrier()
        lane_best = tl.load(scratch_ptr + lanes)
        best = _max2(lane_best)
        lane = tl.min(tl.min(tl.where(lane_best == best, lanes, NO_ID), 1), 0)
        score, candidate = _lane_best_id(
            row_ptr, mask_ptr, masked, lane, vocab, scale, fails, k0, k1, BLOCK, COLS, HAS_MASK, True, FAST
        )
        if score >= best:
            cut = tl.load(row_ptr + candidate).to(tl.float32)
            if (cut - top) * scale < lowest:
                fails = cut
            elif cut >= passes:
                drawn = candidate
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
        else:  # the lane's best was filtered out meanwhile (or rounded differently here): put its new best in place
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
    lanes = tl.arange(0, BLOCK // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
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


# ---------------------------------------------------------------- one row


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
        # Where the first tile's maximum was far from the row's, the sum lost precision: sum again.
        if tl.abs(top - reference) > 30.0:
            total = _sum_exp(row_ptr, mask_ptr, masked, vocab, top, PASS, HAS_MASK)
            reference = top
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
                    row_ptr, mask_ptr, masked, list_z_ptr, vocab, scale, top, lane_best, top_k, top_p, min_p, k0, k1,
                    BLOCK, COLS, PASS, HAS_MASK, FAST,
                )  # fmt: skip
        if drawn < 0:
            drawn = _lowest_winner(
                row_ptr, mask_ptr, masked, tl.where(hot, lane_best, lane_max), vocab, hot, scale, k0, k1,
                BLOCK, COLS, PASS, HAS_MASK, FAST,
            )  # fmt: skip
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
    block = 2048 if logits.dtype == torch.float32 else 4096  # 16 bytes of logits per thread and tile
    token_ids = torch.empty(batch, dtype=torch.int64, device=device)
    status = torch.empty(batch, dtype=torch.int32, device=device)
    logprobs = torch.empty(batch, dtype=torch.float32, device=device)
    length = LIST + block if settings.filters else 1
    list_z = torch.empty((batch, length), dtype=torch.float32, device=device)
    list_id = torch.empty((batch, length), dtype=torch.int32, device=device)
    if batch == 0:
        return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)
    p = penalties
    # In the interpreter the kernel runs on numpy, which would warn of the -inf - -inf of masked lanes.
    with np.errstate(all="ignore"):
        _sample_kernel[(batch,)](
            logits, logits if bitmask is None else bitmask, status if bitmask_rows is None else bitmask_rows,
            settings.temperature, settings.top_k, settings.top_p, settings.min_p, settings.seed, settings.position,
            status if p is None else p.offsets, status if p is None else p.ids, status if p is None else p.counts,
            logprobs if p is None else p.repetition, logprobs if p is None else p.frequency,
            logprobs if p is None else p.presence,
            list_z, list_id, token_ids, status, logprobs,
            vocab_size, logits.stride(0), 0 if bitmask is None else bitmask.stride(0), length,
            BLOCK=block, COLS=triton.next_power_of_2(triton.cdiv(vocab_size, block)), PASS=2048, LIST=LIST,
            HAS_MASK=bitmask is not None, HAS_MASK_ROWS=bitmask_rows is not None, HAS_PENALTIES=p is not None,
            FILTERS=settings.filters, FAST=not interpreted(), num_warps=NUM_WARPS, maxnreg=MAX_REGISTERS,
        )  # fmt: skip
    return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)
