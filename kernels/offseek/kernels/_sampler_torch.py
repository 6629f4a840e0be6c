"""Torch twin of the fused sampler: the definition of right, and the CPU path.

Row work is vectorised over the batch. Only ids that can still win get noise: an id whose scaled logit
lies more than the largest possible Gumbel value below the best score seen cannot be drawn, whatever
its noise, so leaving it out changes nothing (the bound is exact, see `noise.MAX_GUMBEL_LOG2`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .bitmask import unpack_bitmask
from .noise import LOG2_E, MAX_GUMBEL_LOG2, gumbel_log2, row_keys
from .sampling import (
    STATUS_NON_FINITE,
    STATUS_NOTHING_ALLOWED,
    Penalties,
    RowSettings,
    SampleOutput,
)

NEG_INF = -math.inf


def sample_torch(
    logits: Tensor,
    settings: RowSettings,
    bitmask: Tensor | None,
    bitmask_rows: Tensor | None,
    penalties: Penalties | None,
    vocab_size: int,
) -> SampleOutput:
    """See `sampling.sample`; arguments are checked there."""
    if penalties is not None:
        apply_penalties_inplace(logits, penalties)
    z = logits[:, :vocab_size].to(torch.float32, copy=True)  # [batch, vocab]
    if bitmask is not None:
        forbid_inplace(z, bitmask, bitmask_rows)
    top = z.amax(dim=1)  # NaN and +inf carry through
    status = torch.zeros(z.shape[0], dtype=torch.int32, device=z.device)
    status[top == NEG_INF] = STATUS_NOTHING_ALLOWED
    status[torch.isnan(top) | (top == math.inf)] = STATUS_NON_FINITE
    good = status == 0
    token_ids = torch.full((z.shape[0],), -1, dtype=torch.int64, device=z.device)
    logprobs = torch.full((z.shape[0],), NEG_INF, dtype=torch.float32, device=z.device)
    if bool(good.all()):
        rows, zg = None, z
    else:
        rows = good.nonzero().squeeze(1)
        zg = z[rows]
    if zg.shape[0]:
        drawn = _draw(zg, settings, rows)
        chosen = zg.gather(1, drawn[:, None]).squeeze(1) - torch.logsumexp(zg, dim=1)
        if rows is None:
            token_ids, logprobs = drawn, chosen
        else:
            token_ids[rows], logprobs[rows] = drawn, chosen
    return SampleOutput(token_ids=token_ids, status=status, logprobs=logprobs)


def apply_penalties_inplace(logits: Tensor, penalties: Penalties) -> None:
    """Rule 2 of `sampling`: update the listed entries of `logits` [batch, padded_vocab] in place."""
    lengths = (penalties.offsets[1:] - penalties.offsets[:-1]).to(torch.int64)
    row = torch.repeat_interleave(torch.arange(logits.shape[0], device=logits.device), lengths)
    ids = penalties.ids.to(torch.int64)
    z = logits[row, ids].to(torch.float32)
    repetition = penalties.repetition[row]
    z = torch.where(z > 0, z / repetition, z * repetition)
    counts = penalties.counts.to(torch.float32)
    z = z - penalties.frequency[row] * counts - penalties.presence[row] * (counts > 0).to(torch.float32)
    logits[row, ids] = z.to(logits.dtype)


def forbid_inplace(z: Tensor, bitmask: Tensor, bitmask_rows: Tensor | None) -> None:
    """Set disallowed entries of float32 z [batch, vocab] to -inf; rows with index -1 stay as they are."""
    if bitmask_rows is None:
        z.masked_fill_(~unpack_bitmask(bitmask, z.shape[1]), NEG_INF)
        return
    rows = (bitmask_rows >= 0).nonzero().squeeze(1)
    if rows.numel():
        allowed = unpack_bitmask(bitmask[bitmask_rows[rows].to(torch.int64)], z.shape[1])
        z[rows] = z[rows].masked_fill_(~allowed, NEG_INF)


def _draw(z: Tensor, settings: RowSettings, rows: Tensor | None) -> Tensor:
    """Rules 3-5 on rows with at least one finite logit; int64 [rows]."""

    def pick(t: Tensor) -> Tensor:
        return t if rows is None else t[rows]

    temperature = pick(settings.temperature)
    best = _first_argmax(z)
    hot = (temperature > 0).nonzero().squeeze(1)
    if not hot.numel():
        return best
    whole = hot.numel() == z.shape[0]
    y = (z if whole else z[hot]) * (LOG2_E / temperature[hot])[:, None]  # base-2 scaled logits
    y = _filter(y, pick(settings.top_k)[hot], pick(settings.top_p)[hot], pick(settings.min_p)[hot])
    k0, k1 = row_keys(pick(settings.seed)[hot], pick(settings.position)[hot])
    # A score that is certainly reached: that of the best logit. Only ids within reach of it need noise.
    top, at = y.max(dim=1)
    floor = top + gumbel_log2(at.to(torch.int32), k0, k1)
    row, ids = (y >= (floor - MAX_GUMBEL_LOG2)[:, None]).nonzero(as_tuple=True)
    score = torch.full_like(y, NEG_INF)
    score[row, ids] = y[row, ids] + gumbel_log2(ids.to(torch.int32), k0[row], k1[row])
    drawn = _first_argmax(score)
    if whole:
        return drawn
    best[hot] = drawn
    return best


def _first_argmax(x: Tensor) -> Tensor:
    """Index of the largest value of each row; `torch.max` documents the first one on ties."""
    return x.max(dim=1).indices


def _filter(y: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Rule 4 on base-2 scaled logits y [rows, vocab]; dropped entries become -inf in a new tensor."""
    vocab = y.shape[1]
    use_k, use_p, use_min = (top_k > 0) & (top_k < vocab), top_p < 1.0, min_p > 0.0
    if bool((use_k | use_p).any()):
        ranked = y.sort(dim=1, descending=True).values
        cut = torch.full((y.shape[0],), NEG_INF, dtype=y.dtype, device=y.device)
        kth = ranked.gather(1, (top_k.clamp(1, vocab) - 1).to(torch.int64)[:, None]).squeeze(1)
        cut = torch.where(use_k, kth, cut)
        mass = torch.exp2(ranked - ranked[:, :1])
        mass = torch.where(ranked >= cut[:, None], mass, 0.0)
        before = mass.cumsum(dim=1) - mass
        # Larger mass before the first of a tie group; ties share it.
        starts = torch.ones_like(ranked, dtype=torch.bool)
        starts[:, 1:] = ranked[:, 1:] < ranked[:, :-1]
        before = torch.where(starts, before, 0.0).cummax(dim=1).values
        kept = (before < top_p[:, None] * mass.sum(dim=1, keepdim=True)) & (mass > 0)
        last = (kept.sum(dim=1) - 1).clamp_(min=0)
        cut = torch.where(use_p, torch.maximum(cut, ranked.gather(1, last[:, None]).squeeze(1)), cut)
        y = torch.where(y >= cut[:, None], y, NEG_INF)
    if bool(use_min.any()):
        cut = torch.where(use_min, y.amax(dim=1) + torch.log2(min_p), NEG_INF)
        y = torch.where(y >= cut[:, None], y, NEG_INF)
    return y
