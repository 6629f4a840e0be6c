"""Mixture-of-experts kernels against their torch twins, and that no neighbour reaches a row's bits."""

from __future__ import annotations

import pytest
import torch
from offseek.kernels import ShapeError, reference
from offseek.kernels import _experts_triton as fast

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [torch.float32, torch.bfloat16] if DEVICE == "cuda" else [torch.float32]
EXPERTS, CHOICES, WIDTH, INNER = 6, 2, 72, 40


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 2e-5 if found.dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def choices(kind: str, tokens: int) -> torch.Tensor:
    """Expert ids [tokens, CHOICES]: spread, or all at two experts so that others get nothing."""
    if kind == "crowd":
        return torch.tensor([[4, 1]] * tokens, device=DEVICE)
    return reference.top_k_experts(random(tokens, EXPERTS, seed=9), CHOICES)[1]


def feed_forward(x: torch.Tensor, expert_ids: torch.Tensor, weights: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A whole mixture layer out of the kernels."""
    gate_up = random(EXPERTS, 2 * INNER, WIDTH, seed=1, dtype=dtype) / 8
    down = random(EXPERTS, WIDTH, INNER, seed=2, dtype=dtype) / 8
    plan = fast.plan_experts(expert_ids, EXPERTS)
    hidden = reference.silu_mul(fast.expert_linear(x, gate_up, plan))
    return fast.combine_experts(fast.expert_linear(hidden, down, plan), weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["spread", "crowd"])
@pytest.mark.parametrize("tokens", [1, 5, 37])
def test_every_pair_goes_through_its_own_expert(kind: str, tokens: int, dtype: torch.dtype) -> None:
    x, weights = random(tokens, WIDTH, dtype=dtype), random(EXPERTS, 70, WIDTH, seed=1, dtype=dtype)
    ids = choices(kind, tokens)
    plan = fast.plan_experts(ids, EXPERTS)
    assert sorted(plan.pairs.tolist()) == list(range(tokens * CHOICES))
    assert plan.count.sum() == tokens * CHOICES
    found = fast.expert_linear(x, weights, plan)
    close(found, reference.expert_linear(x, weights, ids))
    again = random(EXPERTS, 16, 70, seed=3, dtype=dtype)  # from one row per pair
    close(fast.expert_linear(found, again, plan), reference.expert_linear(found, again, ids))


def test_results_are_added_in_the_order_of_the_choices() -> None:
    x = torch.tensor([[1e8], [1.0], [-1e8], [1.0]], device=DEVICE)  # any other order gives another sum
    ones = torch.ones(1, 4, device=DEVICE)
    assert fast.combine_experts(x, ones).item() == reference.combine_experts(x, ones).item() == 1.0
    y, weights = random(5 * CHOICES, 1100), random(5, CHOICES, seed=1)
    close(fast.combine_experts(y, weights), reference.combine_experts(y, weights))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_has_the_same_bits_alone_and_in_any_crowd(dtype: torch.dtype) -> None:
    tokens = 41
    x, weights = random(tokens, WIDTH, dtype=dtype), random(tokens, CHOICES, seed=5).softmax(-1)
    ids = choices("spread", tokens)
    whole = feed_forward(x, ids, weights, dtype)
    for token in (0, 17, 40):
        one = slice(token, token + 1)
        assert torch.equal(feed_forward(x[one], ids[one], weights[one], dtype), whole[one])
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    assert torch.equal(feed_forward(x[order], ids[order], weights[order], dtype), whole[order])
    crowd = ids.clone()
    crowd[1:] = ids[0]  # everybody else goes where token 0 goes
    assert torch.equal(feed_forward(x, crowd, weights, dtype)[:1], whole[:1])


def test_of_equal_scores_the_lowest_expert_comes_first() -> None:
    values, ids = reference.top_k_experts(torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0] * 5]), 3)
    assert ids.tolist() == [[1, 2, 4], [0, 1, 2]]
    assert values.tolist() == [[3.0] * 3, [0.0] * 3]


def test_shapes_that_do_not_fit_are_named() -> None:
    plan = fast.plan_experts(choices("spread", 3), EXPERTS)
    with pytest.raises(ShapeError, match="do not fit 6 pairs over 6 experts"):
        fast.expert_linear(random(4, WIDTH), random(EXPERTS, 8, WIDTH), plan)
    with pytest.raises(ShapeError, match="6 experts"):
        fast.expert_linear(random(3, WIDTH), random(EXPERTS + 1, 8, WIDTH), plan)
    with pytest.raises(ShapeError, match="5 rows for 3 tokens"):
        fast.combine_experts(random(5, 8), random(3, 2))
    empty = fast.plan_experts(choices("spread", 3)[:0], EXPERTS)
    assert fast.expert_linear(random(3, WIDTH)[:0], random(EXPERTS, 8, WIDTH), empty).shape == (0, 8)
