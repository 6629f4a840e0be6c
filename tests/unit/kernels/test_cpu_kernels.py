"""Native CPU kernels against their plain torch twins, and bit for bit against themselves in other batches."""

from __future__ import annotations

import pytest
import torch
from offseek.kernels import ShapeError, cpu, reference


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("width", [16, 40, 576])
@pytest.mark.parametrize("with_delta", [False, True])
def test_add_rms_norm(width: int, with_delta: bool) -> None:
    residual, weight = random(5, width), random(width, seed=1)
    delta = random(5, width, seed=2) if with_delta else None
    total = residual + delta if delta is not None else residual.clone()
    out = cpu.add_rms_norm_inplace(residual, delta, weight, 1e-5)
    torch.testing.assert_close(residual, total)
    torch.testing.assert_close(out, reference.rms_norm(total, weight, 1e-5), atol=1e-5, rtol=1e-5)


def test_silu_mul() -> None:
    x = random(7, 2 * 48, scale=5)
    x[0, :4] = torch.tensor([-200.0, -90.0, 90.0, 200.0])
    torch.testing.assert_close(cpu.silu_mul(x), reference.silu_mul(x), atol=1e-6, rtol=1e-5)


CACHES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("cache_dtype", CACHES)
@pytest.mark.parametrize("norms", [False, True])
def test_rotate_and_store(cache_dtype: torch.dtype, norms: bool) -> None:
    heads, kv_heads, dim, size = 6, 2, 32, 16
    qkv = random(5, (heads + 2 * kv_heads) * dim)
    angles = torch.outer(torch.arange(5.0) * 3, torch.logspace(0, -3, dim // 2))
    cos_sin = torch.cat([angles.cos(), angles.sin()], -1)
    slots = torch.tensor([3, 17, -1, 40, 63])
    weights = {"q_norm": random(dim, seed=4), "k_norm": random(dim, seed=5)} if norms else {}
    caches = [
        [torch.zeros(4, kv_heads, dim, size, dtype=cache_dtype), torch.zeros(4, kv_heads, size, dim, dtype=cache_dtype)]
        for _ in range(2)
    ]
    expected = reference.rotate_and_store(qkv, cos_sin, *caches[0], slots, num_heads=heads, **weights)
    found = cpu.rotate_and_store(qkv.clone(), cos_sin, *caches[1], slots, num_heads=heads, **weights)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for a, b in zip(*caches, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5 if cache_dtype == torch.float32 else 1e-2)


def attention_inputs(
    lengths: list[int], queries: list[int], *, heads: int, kv_heads: int, dim: int, size: int, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Random sequences in shuffled blocks; slots past a sequence's end hold NaN."""
    blocks = [-(-length // size) for length in lengths]
    order = torch.randperm(sum(blocks), generator=torch.Generator().manual_seed(3)).int()
    tables = torch.zeros(len(lengths), max(blocks), dtype=torch.int32)
    keys = torch.full((sum(blocks), kv_heads, dim, size), float("nan"))
    values = torch.full((sum(blocks), kv_heads, size, dim), float("nan"))
    at = 0
    for s, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        tables[s, :count] = order[at : at + count]
        k, v = random(length, kv_heads, dim, seed=100 + s), random(length, kv_heads, dim, seed=200 + s)
        for t in range(length):
            block = int(tables[s, t // size])
            keys[block, :, :, t % size], values[block, :, t % size] = k[t], v[t]
        at += count
    starts = torch.tensor([0, *queries]).cumsum(0).int()
    q = torch.cat([random(n, heads, dim, seed=300 + s) for s, n in enumerate(queries)])
    return q, keys.to(dtype), values.to(dtype), tables, starts, torch.tensor(lengths, dtype=torch.int32)


def dense_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Textbook attention in float64 of the last len(q) of len(k) tokens."""
    group = q.shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) / q.shape[2] ** 0.5
    rows = torch.arange(len(k) - len(q), len(k))
    scores = scores.masked_fill(torch.arange(len(k)) > rows[:, None], float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


SHAPES = [(9, 3, 64, 16), (4, 4, 16, 32), (8, 1, 128, 16), (6, 2, 48, 16)]


@pytest.mark.parametrize("dtype", CACHES)
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "size"), SHAPES)
def test_paged_attention(heads: int, kv_heads: int, dim: int, size: int, dtype: torch.dtype) -> None:
    lengths, queries = [1, 5, 16, 33, 100, 70], [1, 5, 1, 17, 40, 0]
    q, keys, values, tables, starts, context = attention_inputs(
        lengths, queries, heads=heads, kv_heads=kv_heads, dim=dim, size=size, dtype=dtype
    )
    found = cpu.paged_attention(q, keys, values, tables, starts, context)
    twin = reference.paged_attention(q, keys, values, tables, starts, context)
    torch.testing.assert_close(found, twin, atol=2e-2 if dtype == torch.bfloat16 else 2e-5, rtol=1e-4)
    if dtype == torch.float32:
        for s, n in enumerate(queries):
            k, v = random(lengths[s], kv_heads, dim, seed=100 + s), random(lengths[s], kv_heads, dim, seed=200 + s)
            rows = slice(int(starts[s]), int(starts[s + 1]))
            dense = dense_attention(q[rows], k, v).float() if n else q[rows]
            torch.testing.assert_close(found[rows], dense, atol=2e-5, rtol=1e-4)


def test_paged_attention_rows_are_the_same_bits_in_any_batch() -> None:
    heads, kv_heads, dim, size = 9, 3, 64, 16
    lengths, queries = [200, 77, 33], [50, 77, 1]
    inputs = attention_inputs(lengths, queries, heads=heads, kv_heads=kv_heads, dim=dim, size=size, dtype=torch.float32)
    q, keys, values, tables, starts, _ = inputs
    whole = cpu.paged_attention(*inputs)
    for s, (length, n) in enumerate(zip(lengths, queries, strict=True)):
        for i in range(n):  # one token at a time, as in decoding
            row = int(starts[s]) + i
            alone = cpu.paged_attention(
                q[row : row + 1], keys, values, tables[s : s + 1].contiguous(),
                torch.tensor([0, 1], dtype=torch.int32), torch.tensor([length - n + i + 1], dtype=torch.int32),
            )  # fmt: skip
            assert torch.equal(alone[0], whole[row])


def test_nan_of_one_sequence_stays_there() -> None:
    inputs = attention_inputs([20, 20], [1, 1], heads=4, kv_heads=2, dim=16, size=16, dtype=torch.float32)
    clean = cpu.paged_attention(*inputs)
    q = inputs[0].clone()
    q[0] = float("nan")
    dirty = cpu.paged_attention(q, *inputs[1:])
    assert dirty[0].isnan().all()
    assert torch.equal(dirty[1], clean[1])


def test_int8_product_is_close_and_exactly_batch_invariant() -> None:
    x, w = random(40, 96), random(64, 96, seed=1)
    wq, ws = cpu.quantize_rows(w)
    xq, xs = cpu.quantize_rows(x)
    product = cpu.dequantize_product(torch._int_mm(xq, wq.t()), xs, ws, None)
    exact = x @ w.t()
    assert (product - exact).norm() / exact.norm() < 0.015
    for rows in (1, 3, 17):
        part, scales = cpu.quantize_rows(x[:rows].contiguous())
        alone = cpu.dequantize_product(torch._int_mm(part, wq.t()), scales, ws, None)
        assert torch.equal(alone, product[:rows])


def test_best_allowed_matches_a_masked_argmax() -> None:
    logits = random(6, 1000, scale=4)
    logits[1, 500] = logits[1, 20] = 50.0
    bits = torch.rand(3, 32 * 32, generator=torch.Generator().manual_seed(1)) < torch.tensor([[0.9], [0.01], [1.0]])
    words = (bits.view(3, 32, 32).long() << torch.arange(32)).sum(-1)
    bitmask = torch.where(words >= 2**31, words - 2**32, words).int()
    rows = torch.tensor([-1, -1, 0, 1, 2, 1], dtype=torch.int32)
    ids, status, logprobs = cpu.best_allowed(logits, bitmask, rows, vocab_size=990)
    for r in range(6):
        allowed = bits[rows[r]] if rows[r] >= 0 else torch.ones(1024, dtype=torch.bool)
        masked = logits[r, :990].masked_fill(~allowed[:990], float("-inf"))
        assert int(ids[r]) == int((masked == masked.max()).int().argmax())
        torch.testing.assert_close(logprobs[r], masked.log_softmax(-1).max(), atol=1e-5, rtol=1e-5)
    assert int(ids[1]) == 20
    assert status.tolist() == [0] * 6


def test_wrong_shapes_and_layouts_are_refused() -> None:
    with pytest.raises(ShapeError):
        cpu.add_rms_norm_inplace(random(2, 8), None, random(9), 1e-5)
    with pytest.raises(ShapeError):
        cpu.silu_mul(random(8, 4).t())
    with pytest.raises(ShapeError):
        cpu.quantize_rows(random(2, 8).double())
