"""The fused sampler: rules of `offseek.kernels.sampling`, torch twin against Triton, and the noise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from offseek.kernels import (
    STATUS_NON_FINITE,
    STATUS_NOTHING_ALLOWED,
    STATUS_OK,
    Penalties,
    RowSettings,
    ShapeError,
    apply_token_bitmask_inplace,
    sample,
    unpack_bitmask,
)
from offseek.kernels.noise import MAX_GUMBEL_LOG2, gumbel_log2, row_keys
from offseek.kernels.sampling import select_rows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, VOCAB, PADDED = 5, 2300, 2304


def logits_of(seed: int, dtype: torch.dtype = torch.float32, batch: int = BATCH, vocab: int = PADDED) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(batch, vocab, generator=generator) * 3).to(dtype).to(DEVICE)


def random_bitmask(seed: int, density: str, batch: int = BATCH, vocab: int = VOCAB) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(-(2**31), 2**31, (batch, (vocab + 31) // 32), dtype=torch.int64, generator=generator)
    mask = words.to(torch.int32)
    if density == "few":
        mask[:, 3:] = 0
    return mask.to(DEVICE)


SETTINGS = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.3},
    {"top_k": 1, "temperature": 3.0},
    {"top_k": 50},
    {"top_k": 10**6},
    {"top_p": 0.9},
    {"top_p": 0.2, "temperature": 2.0},
    {"top_p": 1e-6},
    {"min_p": 0.1, "temperature": 2.0},
    {"min_p": 1.0},
    {"top_k": 50, "top_p": 0.9},
    {"top_k": 1100, "top_p": 0.5, "temperature": 3.0},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.05, "temperature": 1.5},
]


@pytest.mark.parametrize(
    ("dtype", "mask"), [(torch.float32, "half"), (torch.float32, "few"), (torch.bfloat16, None), (torch.float16, None)]
)
@pytest.mark.parametrize("kw", SETTINGS, ids=str)
def test_triton_draws_what_the_torch_twin_draws(kw: dict[str, float], mask: str | None, dtype: torch.dtype) -> None:
    x = logits_of(1, dtype)
    bitmask = None if mask is None else random_bitmask(2, mask)
    settings = RowSettings.uniform(BATCH, seed=11, position=3, device=DEVICE, **kw)
    twin = sample(x, settings, bitmask=bitmask, vocab_size=VOCAB, backend="torch")
    fused = sample(x, settings, bitmask=bitmask, vocab_size=VOCAB, backend="triton")
    assert torch.equal(fused.token_ids, twin.token_ids)
    assert torch.equal(fused.status, twin.status)
    torch.testing.assert_close(fused.logprobs, twin.logprobs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "kw", [{}, {"top_p": 0.6}, {"temperature": 1e-6}, {"temperature": 1e-6, "top_p": 0.6}], ids=str
)
def test_extreme_and_equal_logits_draw_as_the_twin_does(kw: dict[str, float]) -> None:
    x = torch.zeros(4, PADDED)
    x[0] = -3e38  # scaled logits underflow to -inf
    x[1, :1000] = 40.0  # a thousand ties
    x[2, 5], x[2, 7] = 3e38, 2e38
    settings = RowSettings.uniform(4, seed=5, device=DEVICE, **kw)
    bitmask = random_bitmask(6, "half", batch=4)
    twin = sample(x.to(DEVICE), settings, bitmask=bitmask, vocab_size=VOCAB, backend="torch")
    fused = sample(x.to(DEVICE), settings, bitmask=bitmask, vocab_size=VOCAB, backend="triton")
    assert torch.equal(fused.status, twin.status)
    allowed = unpack_bitmask(bitmask, VOCAB)
    assert allowed[torch.arange(4), fused.token_ids].all()
    assert torch.equal(fused.token_ids[1:], twin.token_ids[1:])


@pytest.mark.parametrize("top_p", [0.5, 0.95])
def test_top_p_keeps_the_same_winner_over_many_draws(top_p: float) -> None:
    """Lane sums, the single pass and the narrowing passes all come into play."""
    x = logits_of(9)[:1].expand(40, -1).contiguous()
    settings = replace(
        RowSettings.uniform(40, seed=1, top_p=top_p, device=DEVICE), seed=torch.arange(40, device=DEVICE)
    )
    twin = sample(x, settings, vocab_size=VOCAB, backend="torch")
    fused = sample(x, settings, vocab_size=VOCAB, backend="triton")
    assert torch.equal(fused.token_ids, twin.token_ids)


def exact_probabilities(z: torch.Tensor, *, temperature: float, top_k: int, top_p: float, min_p: float) -> torch.Tensor:
    """The rule of `sampling`, spelled out one token at a time."""
    y = [v / temperature for v in z.tolist()]
    top = max(y)
    weight = [math.exp(v - top) for v in y]
    kept_k = [i for i, v in enumerate(y) if not top_k or sum(o > v for o in y) < top_k]
    mass = sum(weight[i] for i in kept_k)
    kept = [
        i
        for i in kept_k
        if (top_p >= 1 or sum(weight[j] for j in kept_k if y[j] > y[i]) < top_p * mass)
        and (min_p <= 0 or weight[i] >= min_p)
    ]
    total = sum(weight[i] for i in kept)
    return torch.tensor([weight[i] / total if i in kept else 0.0 for i in range(len(y))])


@pytest.mark.parametrize(
    "kw",
    [
        {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"temperature": 0.7, "top_k": 5, "top_p": 1.0, "min_p": 0.0},
        {"temperature": 1.6, "top_k": 0, "top_p": 0.8, "min_p": 0.0},
        {"temperature": 1.6, "top_k": 8, "top_p": 0.8, "min_p": 0.02},
    ],
    ids=str,
)
def test_draws_follow_the_exact_distribution(kw: dict[str, float]) -> None:
    draws, vocab = 40_000, 24
    z = torch.round(logits_of(5, batch=1, vocab=vocab)[0].cpu() * 2) / 4  # coarse values: ties occur
    settings = RowSettings.uniform(draws, seed=100, position=9, **kw)  # type: ignore[arg-type]
    out = sample(z.expand(draws, vocab), settings, backend="torch")
    expected = exact_probabilities(z, **kw) * draws  # type: ignore[arg-type]
    seen = torch.bincount(out.token_ids, minlength=vocab).float()
    assert bool((seen[expected == 0] == 0).all())
    live = expected > 0
    chi_square = ((seen - expected)[live] ** 2 / expected[live]).sum().item()
    freedom = int(live.sum()) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)  # five standard deviations


def test_draws_along_positions_are_independent() -> None:
    """Successive positions under one seed: pairs of draws fill the product distribution."""
    n, vocab = 40_000, 4
    settings = RowSettings.uniform(n, seed=0)
    settings = replace(settings, seed=torch.full((n,), 42), position=torch.arange(n))
    ids = sample(torch.zeros(n, vocab), settings, backend="torch").token_ids
    pairs = torch.bincount(ids[:-1] * vocab + ids[1:], minlength=vocab**2).float()
    expected = (n - 1) / vocab**2
    assert ((pairs - expected) ** 2 / expected).sum().item() < 15 + 5 * math.sqrt(30)


def test_noise_is_a_standard_gumbel_and_bounded() -> None:
    k0, k1 = row_keys(torch.tensor([2**40 + 5]), torch.tensor([17]))
    g = gumbel_log2(torch.arange(400_000, dtype=torch.int32), k0, k1) * math.log(2)
    assert abs(g.mean().item() - 0.5772156649) < 0.01
    assert abs(g.var().item() - math.pi**2 / 6) < 0.02
    assert g.max().item() <= MAX_GUMBEL_LOG2 * math.log(2)
    assert bool(torch.isfinite(g).all())


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("kw", [{}, {"top_p": 0.9}, {"top_k": 20, "top_p": 0.9}], ids=str)
def test_a_row_draws_the_same_in_any_batch(backend: str, kw: dict[str, float]) -> None:
    x = logits_of(3)
    settings = RowSettings.uniform(BATCH, seed=5, device=DEVICE, **kw)  # type: ignore[arg-type]
    whole = sample(x, settings, backend=backend)  # type: ignore[arg-type]
    order = torch.tensor([4, 0, 2], device=DEVICE)
    part = sample(x[order], select_rows(settings, order), backend=backend)  # type: ignore[arg-type]
    assert torch.equal(part.token_ids, whole.token_ids[order])
    assert torch.equal(part.logprobs, whole.logprobs[order])  # bitwise


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_bad_rows_get_a_status_and_leave_their_neighbours_alone(backend: str) -> None:
    x = logits_of(4)
    settings = RowSettings.uniform(BATCH, device=DEVICE)
    good = sample(x, settings, vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    bitmask = torch.full((BATCH, (VOCAB + 31) // 32), -1, dtype=torch.int32, device=DEVICE)
    bitmask[1] = 0
    x[0, 7] = math.nan
    x[3, 9] = math.inf
    x[4, VOCAB + 1] = math.nan  # padding is never looked at
    out = sample(x, settings, bitmask=bitmask, vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    assert out.status.tolist() == [
        STATUS_NON_FINITE, STATUS_NOTHING_ALLOWED, STATUS_OK, STATUS_NON_FINITE, STATUS_OK,
    ]  # fmt: skip
    assert out.token_ids.tolist() == [-1, -1, good.token_ids[2].item(), -1, good.token_ids[4].item()]


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_a_masked_nan_does_not_matter(backend: str) -> None:
    x = logits_of(4)
    x[:, 64] = math.nan
    bitmask = torch.full((BATCH, (VOCAB + 31) // 32), -1, dtype=torch.int32, device=DEVICE)
    bitmask[:, 2] &= ~1
    out = sample(x, RowSettings.uniform(BATCH, device=DEVICE), bitmask=bitmask, vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    assert out.status.tolist() == [STATUS_OK] * BATCH


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_temperature_zero_takes_the_lowest_id_of_a_tie(backend: str) -> None:
    x = torch.zeros(1, PADDED, device=DEVICE)
    x[0, [77, 1100, 2200]] = 2.0
    out = sample(x, RowSettings.uniform(1, temperature=0.0, device=DEVICE), vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    assert out.token_ids.tolist() == [77]


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_rows_with_mask_index_minus_one_are_free(backend: str) -> None:
    x = logits_of(6)
    settings = RowSettings.uniform(BATCH, device=DEVICE)
    free = sample(x, settings, vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    bitmask = random_bitmask(3, "few", batch=2)
    rows = torch.tensor([-1, 1, -1, 0, -1], dtype=torch.int32, device=DEVICE)
    out = sample(x, settings, bitmask=bitmask, bitmask_rows=rows, vocab_size=VOCAB, backend=backend)  # type: ignore[arg-type]
    allowed = unpack_bitmask(bitmask, VOCAB)
    for row, mask_row in enumerate(rows.tolist()):
        if mask_row < 0:
            assert out.token_ids[row] == free.token_ids[row]
        else:
            assert bool(allowed[mask_row, out.token_ids[row]])


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_penalties_follow_the_formula(backend: str) -> None:
    x = torch.zeros(2, 64, device=DEVICE)
    x[0, 3], x[0, 5], x[0, 9] = 4.0, 3.0, -1.0
    penalties = Penalties(
        offsets=torch.tensor([0, 3, 3], dtype=torch.int32, device=DEVICE),
        ids=torch.tensor([3, 5, 9], dtype=torch.int32, device=DEVICE),
        counts=torch.tensor([2, 0, 1], dtype=torch.int32, device=DEVICE),
        repetition=torch.tensor([2.0, 2.0], device=DEVICE),
        frequency=torch.tensor([0.5, 0.0], device=DEVICE),
        presence=torch.tensor([0.25, 0.0], device=DEVICE),
    )
    sample(x, RowSettings.uniform(2, temperature=0.0, device=DEVICE), penalties=penalties, backend=backend)  # type: ignore[arg-type]
    assert x[0, [3, 5, 9]].tolist() == [4 / 2 - 2 * 0.5 - 0.25, 3 / 2, -1 * 2 - 0.5 - 0.25]
    assert x[1].abs().sum().item() == 0


def test_apply_bitmask_masks_disallowed_and_padding() -> None:
    x = torch.zeros(1, 40)
    apply_token_bitmask_inplace(x, torch.tensor([[0b101, -1]], dtype=torch.int32), vocab_size=34)
    assert (x == 0).nonzero()[:, 1].tolist() == [0, 2, 32, 33]


@pytest.mark.parametrize(
    ("kw", "message"),
    [
        ({"vocab_size": 99}, "vocab_size 99"),
        ({"bitmask": torch.zeros(2, 1, dtype=torch.int32)}, "bitmask must be"),
        ({"bitmask": torch.zeros(3, 2, dtype=torch.int32)}, "3 rows for a batch of 2"),
        ({"bitmask_rows": torch.zeros(2, dtype=torch.int32)}, "without a bitmask"),
    ],
)
def test_wrong_shapes_are_named(kw: dict[str, object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        sample(torch.zeros(2, 40), RowSettings.uniform(2), backend="torch", **kw)  # type: ignore[arg-type]
