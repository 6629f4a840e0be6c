"""Triton kernel of the fused sampler; the rule and its torch twin are in `sampling.py` and `_sampler_torch.py`.

One program handles one row, so every sum has the same order whatever the batch is, and a row can decide
by itself how many passes it needs: nothing is synchronised with the host. A pass streams the row in tiles
of BLOCK columns seen as [WORDS, 32], one bitmask word per line.

* Plain sampling needs one pass: running arg-max of y + noise, running maximum and sum for the log-probability.
* With filters, the drawn id of the unfiltered row is also the drawn id of the filtered row if it passes the
  filters, since dropping other ids cannot change an arg-max. So: draw; in a second pass count the ids above it and
  their mass, and at the same time draw again among the ids above it. If the first draw passes the filters it stands;
  if not, every id at or below it fails too, and the second draw takes its place. Typical rows need two passes.
* With a small k (top-k up to SMALL_K) no noise is needed in the first pass: it keeps the maximum of each of the
  BLOCK lanes. The k-th largest of these maxima bounds the k-th largest logit from below, so the second pass only has
  to collect the few ids at or above that bound (`_draw_small_k`), and exact top-k, top-p, min-p and the draw happen
  on that short list. If the list would overflow (many ties), the row takes the general way.
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

BLOCK = 4096
NUM_WARPS = 16

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
NEG_INF = tl.constexpr(float("-inf"))
NO_ID = tl.constexpr(2147483647)


def interpreted() -> bool:
    """Whether Triton runs kernels in its CPU interpreter (TRITON_INTERPRET=1 at import)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _mix(h, key):
    """Keyed 32-bit finaliser; see noise.py."""
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
def _gumbel_log2(ids, k0, k1):
    """Base-2 Gumbel noise of int32 ids; see noise.py."""
    h = _mix(ids.to(tl.uint32) * 0x9E3779B1 ^ k0, k1)
    v = tl.minimum((h.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.99999994)
    series = v * (1.0 + v * (0.5 + v * (0.3333333333333333 + v * 0.25)))
    return -tl.log2(tl.where(v < 0.03125, series, -LN_2 * tl.log2(1.0 - v)))


@triton.jit
def _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    """Logits of one tile as float32 [BLOCK // 32, 32] (-inf where not allowed) and their ids."""
    words = tile * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    bit = tl.arange(0, 32)
    ids = words[:, None] * 32 + bit[None, :]
    allowed = ids < vocab
    if HAS_MASK:
        limit = tl.where(masked, vocab, 0)  # an unconstrained row reads no words
        word = tl.load(mask_ptr + words, mask=words * 32 < limit, other=-1)
        allowed = allowed & (((word[:, None] >> bit[None, :]) & 1) != 0)
    z = tl.load(row_ptr + ids, mask=allowed, other=NEG_INF).to(tl.float32)
    return z, ids


@triton.jit
def _log2_or_off(min_p):
    return tl.where(min_p > 0, tl.log2(tl.maximum(min_p, 1e-38)), NEG_INF)


@triton.jit
def _best(score, ids):
    """(largest score, lowest id that has it) of a 2-d tile, as scalars."""
    top = tl.max(tl.max(score, 1), 0)
    return top, tl.min(tl.min(tl.where(score == top, ids, NO_ID), 1), 0)


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
def _first_pass(
    row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr, NOISE: tl.constexpr
):
    """Draw among all allowed ids. Returns (max z, sum of exp(z - max z), NaN seen, drawn id, lane maxima)."""
    W: tl.constexpr = BLOCK // 32
    lane_max = tl.full([W, 32], NEG_INF, tl.float32)
    lane_sum = tl.zeros([W, 32], tl.float32)
    lane_best = tl.full([W, 32], NEG_INF, tl.float32)
    lane_id = tl.full([W, 32], NO_ID, tl.int32)
    lane_nan = tl.zeros([W, 32], tl.int32)
    reference = tl.full([], NEG_INF, tl.float32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        z, ids = _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        lane_nan = lane_nan | (z != z).to(tl.int32)
        # Sum against a fixed reference, the maximum of the first tile that has one: lanes then need no
        # rescaling. A reference far from the true maximum is noticed by the caller, which sums again.
        if reference == NEG_INF:
            reference = tl.max(tl.max(z, 1), 0)
        lane_max = tl.maximum(lane_max, z)
        lane_sum += tl.exp2(tl.minimum((z - tl.where(reference == NEG_INF, 0.0, reference)) * LOG2_E, 100.0))
        if NOISE:
            score = z * scale + _gumbel_log2(ids, k0, k1)
        else:
            score = z
        better = score > lane_best
        lane_best = tl.where(better, score, lane_best)
        lane_id = tl.where(better, ids, lane_id)
    top = tl.max(tl.max(lane_max, 1), 0)
    total = tl.sum(tl.sum(lane_sum, 1), 0)
    _, drawn = _best(lane_best, lane_id)
    nan = tl.max(tl.max(lane_nan, 1), 0)
    return top, reference, total, nan, drawn, lane_max


@triton.jit
def _sum_exp(row_ptr, mask_ptr, masked, vocab, top, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr):
    lane_sum = tl.zeros([BLOCK // 32, 32], tl.float32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        z, _ = _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        lane_sum += tl.exp2((z - top) * LOG2_E)
    return tl.sum(tl.sum(lane_sum, 1), 0)


@triton.jit
def _above(
    row_ptr, mask_ptr, masked, vocab, scale, top, cut, floor, k0, k1, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr
):
    """About the ids with z > cut: their count, mass, and draw; and the whole mass of z >= floor.

    Mass is exp2((z - top) * scale), of the tempered distribution.
    """
    W: tl.constexpr = BLOCK // 32
    lane_count = tl.zeros([W, 32], tl.int32)
    lane_mass = tl.zeros([W, 32], tl.float32)
    lane_all = tl.zeros([W, 32], tl.float32)
    lane_best = tl.full([W, 32], NEG_INF, tl.float32)
    lane_id = tl.full([W, 32], NO_ID, tl.int32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        z, ids = _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        higher = z > cut
        mass = tl.exp2((z - top) * scale)
        lane_count += higher.to(tl.int32)
        lane_mass += tl.where(higher, mass, 0.0)
        lane_all += tl.where(z >= floor, mass, 0.0)
        score = tl.where(higher, z * scale + _gumbel_log2(ids, k0, k1), NEG_INF)
        better = score > lane_best
        lane_best = tl.where(better, score, lane_best)
        lane_id = tl.where(better, ids, lane_id)
    count = tl.sum(tl.sum(lane_count, 1), 0)
    mass = tl.sum(tl.sum(lane_mass, 1), 0)
    whole = tl.sum(tl.sum(lane_all, 1), 0)
    _, drawn = _best(lane_best, lane_id)
    return count, mass, whole, drawn


@triton.jit
def _ordered(z):
    """float32 -> int32 with the same order."""
    bits = z.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _unordered(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def _kth_of_lanes(lane_max, k):
    """A float at or just below the k-th largest of the tile's values: bisection on the top 20 ordered bits."""
    keys = _ordered(lane_max)
    low = tl.full([], -2147483648, tl.int64)
    step = tl.full([], 2147483648, tl.int64)
    for _ in range(20):
        trial = low + step
        enough = tl.sum(tl.sum((keys >= trial.to(tl.int32)).to(tl.int32), 1), 0) >= k
        low = tl.where(enough & (trial <= 2147483647), trial, low)
        step = step // 2
    bound = _unordered(low.to(tl.int32))
    return tl.where(bound != bound, NEG_INF, bound)  # keys below that of -inf are NaN patterns


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
                z, _ids = _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
                lane += (_ordered(z) >= trial.to(tl.int32)).to(tl.int32)
            if tl.sum(tl.sum(lane, 1), 0) >= k:
                low = trial
        step = step // 2
    kth = _unordered(low.to(tl.int32))
    return tl.where(kth != kth, NEG_INF, kth)


@triton.jit
def _collect(
    row_ptr,
    mask_ptr,
    masked,
    list_z_ptr,
    list_id_ptr,
    vocab,
    bound,
    BLOCK: tl.constexpr,
    HAS_MASK: tl.constexpr,
    LIST: tl.constexpr,
):
    """Write (z, id) of the allowed ids with z >= bound to the row's list; returns their number (may exceed LIST)."""
    count = tl.full([], 0, tl.int32)
    for tile in range(tl.cdiv(vocab, BLOCK)):
        z, ids = _tile(row_ptr, mask_ptr, masked, tile, vocab, BLOCK, HAS_MASK)
        hit = (z >= bound) & (z > NEG_INF)
        per_line = tl.sum(hit.to(tl.int32), 1)
        found = tl.sum(per_line, 0)
        if found > 0:
            line_start = tl.cumsum(per_line, 0) - per_line
            slot = count + line_start[:, None] + tl.cumsum(hit.to(tl.int32), 1) - 1
            keep = hit & (slot < LIST)
            tl.store(list_z_ptr + slot, z, mask=keep)
            tl.store(list_id_ptr + slot, ids, mask=keep)
            count += found
    return count


@triton.jit
def _draw_small_k(list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, LIST: tl.constexpr):
    """Exact filters and draw on a row's list of at least top_k candidates (or all allowed ids)."""
    slot = tl.arange(0, LIST)
    z = tl.load(list_z_ptr + slot, mask=slot < count, other=NEG_INF)
    ids = tl.load(list_id_ptr + slot, mask=slot < count, other=NO_ID)
    keys = _ordered(z)
    low = tl.full([], -2147483648, tl.int64)
    step = tl.full([], 2147483648, tl.int64)
    for _ in range(32):
        trial = low + step
        enough = tl.sum((keys >= trial.to(tl.int32)).to(tl.int32), 0) >= top_k
        low = tl.where(enough & (trial <= 2147483647), trial, low)
        step = step // 2
    kept = (keys.to(tl.int64) >= low) & (z > NEG_INF)
    kept = kept & ((z - top) * scale >= _log2_or_off(min_p))
    mass = tl.where((keys.to(tl.int64) >= low) & (z > NEG_INF), tl.exp2((z - top) * scale), 0.0)
    if top_p < 1.0:
        target = top_p * tl.sum(mass, 0)
        # The smallest value whose strictly larger mass is below the target: bisection over ordered bits.
        below = tl.full([], -2147483648, tl.int64)
        step = tl.full([], 2147483648, tl.int64)
        for _ in range(32):
            trial = below + step
            too_much = tl.sum(tl.where(keys >= trial.to(tl.int32), mass, 0.0), 0) >= target
            below = tl.where(too_much & (trial <= 2147483647), trial, below)
            step = step // 2
        # `below` is the largest key with mass(keys >= below) >= target: its tie group is the last one kept.
        kept = kept & (keys.to(tl.int64) >= below)
    score = tl.where(kept, z * scale + _gumbel_log2(ids, k0, k1), NEG_INF)
    best = tl.max(score, 0)
    return tl.min(tl.where(kept & (score == best), ids, NO_ID), 0)


@triton.jit
def _sample_row(
    row_ptr, mask_ptr, masked, list_z_ptr, list_id_ptr, vocab, temperature, top_k, top_p, min_p, k0, k1,
    BLOCK: tl.constexpr, HAS_MASK: tl.constexpr, LIST: tl.constexpr,
):  # fmt: skip
    """(token id, status, logprob) of one row."""
    hot = temperature > 0
    scale = tl.where(hot, LOG2_E / tl.where(hot, temperature, 1.0), LOG2_E)
    few = hot & (top_k > 0) & (top_k <= LIST // 2) & (top_k < vocab)
    filtered = hot & (((top_k > 0) & (top_k < vocab)) | (top_p < 1.0) | (min_p > 0.0))
    if hot & (few == 0):
        top, reference, total, nan, drawn, lane_max = _first_pass(
            row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK, HAS_MASK, True
        )
    else:
        top, reference, total, nan, drawn, lane_max = _first_pass(
            row_ptr, mask_ptr, masked, vocab, scale, k0, k1, BLOCK, HAS_MASK, False
        )
    status = tl.where((nan != 0) | (top == float("inf")), 1, tl.where(top == NEG_INF, 2, 0))
    logprob = tl.full([], NEG_INF, tl.float32)
    if status == 0:
        # Where the first tile's maximum was far from the row's, the sum lost precision: sum again.
        if tl.abs(top - reference) > 30.0:
            total = _sum_exp(row_ptr, mask_ptr, masked, vocab, top, BLOCK, HAS_MASK)
            reference = top
        if filtered:
            general = few == 0
            if few:
                bound = _kth_of_lanes(lane_max, top_k)
                count = _collect(
                    row_ptr, mask_ptr, masked, list_z_ptr, list_id_ptr, vocab, bound, BLOCK, HAS_MASK, LIST
                )
                tl.debug_barrier()
                if count <= LIST:
                    drawn = _draw_small_k(list_z_ptr, list_id_ptr, count, scale, top, top_k, top_p, min_p, k0, k1, LIST)
                else:
                    general = few
                    _c, _m, _w, drawn = _above(
                        row_ptr, mask_ptr, masked, vocab, scale, top, NEG_INF, NEG_INF, k0, k1, BLOCK, HAS_MASK
                    )
            if general:
                limit = tl.where((top_k > 0) & (top_k < vocab), top_k, vocab)
                floor = tl.full([], NEG_INF, tl.float32)
                if (limit < vocab) & (top_p < 1.0):
                    floor = _kth_exact(row_ptr, mask_ptr, masked, vocab, limit, BLOCK, HAS_MASK)
                lowest = _log2_or_off(min_p)
                settled = tl.full([], 0, tl.int1)
                while settled == 0:
                    cut = tl.load(row_ptr + drawn).to(tl.float32)
                    count, mass, whole, higher = _above(
                        row_ptr, mask_ptr, masked, vocab, scale, top, cut, floor, k0, k1, BLOCK, HAS_MASK
                    )
                    passes = (
                        (count < limit) & ((top_p >= 1.0) | (mass < top_p * whole)) & ((cut - top) * scale >= lowest)
                    )
                    settled = passes | (count == 0)
                    drawn = tl.where(settled, drawn, higher)
        z = tl.load(row_ptr + drawn).to(tl.float32)
        logprob = z - reference - LN_2 * tl.log2(total)
    return tl.where(status == 0, drawn, -1), status, logprob


@triton.jit
def _sample_kernel(
    logits_ptr, mask_ptr, mask_rows_ptr, temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, seed_ptr, position_ptr,
    offsets_ptr, pen_ids_ptr, pen_counts_ptr, repetition_ptr, frequency_ptr, presence_ptr,
    list_z_ptr, list_id_ptr, token_ptr, status_ptr, logprob_ptr,
    vocab, logits_stride, mask_stride,
    BLOCK: tl.constexpr, HAS_MASK: tl.constexpr, HAS_MASK_ROWS: tl.constexpr, HAS_PENALTIES: tl.constexpr,
    LIST: tl.constexpr,
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
    temperature = tl.load(temperature_ptr + row)
    top_k = tl.load(top_k_ptr + row)
    top_p = tl.load(top_p_ptr + row)
    min_p = tl.load(min_p_ptr + row)
    list_z_ptr += row * LIST
    list_id_ptr += row * LIST
    mask_row = row
    if HAS_MASK_ROWS:
        mask_row = tl.load(mask_rows_ptr + row)
    masked = mask_row >= 0
    token, status, logprob = _sample_row(
        row_ptr, mask_ptr + mask_row.to(tl.int64) * mask_stride, masked, list_z_ptr, list_id_ptr, vocab,
        temperature, top_k, top_p, min_p, k0, k1, BLOCK, HAS_MASK, LIST,
    )  # fmt: skip
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(status_ptr + row, status)
    tl.store(logprob_ptr + row, logprob)


#: Length of a row's candidate list; top-k up to half of it takes the short way.
LIST = 2048


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
    token_ids = torch.empty(batch, dtype=torch.int64, device=device)
    status = torch.empty(batch, dtype=torch.int32, device=device)
    logprobs = torch.empty(batch, dtype=torch.float32, device=device)
    list_z = torch.empty((batch, LIST), dtype=torch.float32, device=device)
    list_id = torch.empty((batch, LIST), dtype=torch.int32, device=device)
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
            vocab_size, logits.stride(0), 0 if bitmask is None else bitmask.stride(0),
            BLOCK=BLOCK, HAS_MASK=bitmask is not None, HAS_MASK_ROWS=bitmask_rows is not None,
            HAS_PENALTIES=p is not None,
            LIST=LIST, num_warps=NUM_WARPS,
        )  # fmt: skip
    return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)
