"""Noise, tiles and lanes of the fused sampler in Triton; `_sampler_triton.py` has the whole picture."""

# Triton functions take kernel values that no annotation describes.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

#: 512 threads of at most 64 registers: two rows are in flight on each multiprocessor of an A100 or H100/H200.
NUM_WARPS = 16
MAX_REGISTERS = 64
#: Lines of a tile. Each holds the columns of one thread, so that its bitmask bits come with one byte.
THREADS = tl.constexpr(32 * NUM_WARPS)
#: Capacity of a row's candidate list; top-k up to half of it takes the short way.
LIST = 2048

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
NEG_INF = tl.constexpr(float("-inf"))
POS_INF = tl.constexpr(float("inf"))
NO_ID = tl.constexpr(2147483647)
BINS = tl.constexpr(512)


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
def _hash(ids, k0, k1):
    h = ids.to(tl.uint32) * 0x9E3779B1 ^ k0
    h = h ^ (h >> 16)
    h = h * 0x85EBCA6B
    h = h ^ (h >> 13) ^ k1
    return h * 0xC2B2AE35


@triton.jit
def _gumbel_bound(ids, k0, k1, FAST: tl.constexpr):
    """An upper bound of `_gumbel_log2`, close to it for the large values that win, at a third of its cost.

    E = -ln(1 - v) is at least v, and v at least the upper 23 bits of the hash; the factor leaves room for rounding.
    +inf where these bits are all zero.
    """
    b = ((_hash(ids, k0, k1) >> 9) | 0x3F800000).to(tl.float32, bitcast=True)  # in [1, 2)
    return -_log2(b * 0.9993 - 0.9993, FAST)


@triton.jit
def _gumbel_log2(ids, k0, k1, FAST: tl.constexpr):
    h = _hash(ids, k0, k1)
    # (h + 0.5) / 2**32 without an integer-to-float conversion, which runs at a quarter of the rate of these: each
    # half of h becomes the low mantissa bits of 2**23, exactly.
    high = ((h >> 16) | 0x4B000000).to(tl.float32, bitcast=True)
    low = ((h & 0xFFFF) | 0x4B000000).to(tl.float32, bitcast=True)
    v = (high * 1.52587890625e-05 - 128.0) + (low * 2.3283064365386963e-10 - 0.0019531248835846782)
    v = tl.minimum(v, 0.99999994)
    series = v * (1.0 + v * (0.5 + v * (0.3333333333333333 + v * 0.25)))
    return -_log2(tl.where(v < 0.03125, series, -LN_2 * _log2(1.0 - v, FAST)), FAST)


@triton.jit
def _tile_ids(tile, BLOCK: tl.constexpr):
    G: tl.constexpr = BLOCK // THREADS
    return tile * BLOCK + tl.arange(0, THREADS)[:, None] * G + tl.arange(0, G)[None, :]


@triton.jit
def _load_bits(mask_ptr, tile, vocab, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """The bitmask bits of one tile, those of a thread's columns in each entry; 0 past the vocabulary."""
    G: tl.constexpr = BLOCK // THREADS
    first = (tile * THREADS + tl.arange(0, THREADS)) * G
    if MASKED:
        byte = tl.load(mask_ptr + first // 8, mask=first < vocab, other=0).to(tl.int32)
        if G == 8:
            return byte
        else:
            return (byte >> (first % 8)) & 15
    else:
        return first  # not looked at


@triton.jit
def _load_logits(row_ptr, bits, tile, vocab, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Logits of one tile in their own dtype, -inf past the vocabulary.

    A masked load is predicated by whole lines, one thread's columns, which keeps it vectorised and skips empty lines.
    """
    ids = _tile_ids(tile, BLOCK)
    live = ids < vocab
    if MASKED:
        live = live & (bits != 0)[:, None]
    return tl.load(row_ptr + ids, mask=live, other=NEG_INF)


@triton.jit
def _allowed(raw, bits, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """The tile as float32, -inf where its bitmask bits forbid."""
    z = raw.to(tl.float32)
    if MASKED:
        z = tl.where((bits[:, None] & (1 << tl.arange(0, BLOCK // THREADS))[None, :]) != 0, z, NEG_INF)
    return z


@triton.jit
def _load_tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    """A whole tile as float32, -inf where not allowed; for the rare passes, whose rows may be masked or not."""
    bits = _load_bits(mask_ptr, tile, tl.where(masked, vocab, 0), BLOCK, HAS_MASK)
    if HAS_MASK:
        bits = tl.where(masked, bits, -1)
    return _allowed(_load_logits(row_ptr, bits, tile, vocab, BLOCK, HAS_MASK), bits, BLOCK, HAS_MASK)


@triton.jit
def _load_ids(row_ptr, mask_ptr, masked, ids, live, vocab, HAS_MASK: tl.constexpr):
    """Logits of scattered ids as float32, -inf where `live` is false, not allowed or past the vocabulary."""
    live = live & (ids < vocab)
    if HAS_MASK:
        byte = tl.load(mask_ptr + ids // 8, mask=live & (tl.where(masked, ids, NO_ID) < NO_ID), other=255)
        live = live & (((byte.to(tl.int32) >> (ids % 8)) & 1) != 0)
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
