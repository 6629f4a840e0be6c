"""Triton kernels of the transformer against their torch twins; on CPU through Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from offseek.kernels import _transformer_triton as fast
from offseek.kernels import reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [torch.float32, torch.bfloat16] if DEVICE == "cuda" else [torch.float32]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 2e-5 if found.dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rms_norm(dtype: torch.dtype) -> None:
    residual, delta, weight = (random(*s, seed=i, dtype=dtype) for i, s in enumerate([(5, 72), (5, 72), (72,)]))
    total = residual + delta
    out = fast.add_rms_norm_inplace(residual, delta, weight, 1e-5)
    close(residual, total)
    close(out, reference.rms_norm(total, weight, 1e-5))
    close(fast.add_rms_norm_inplace(total, None, weight, 1e-5), out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_mul(dtype: torch.dtype) -> None:
    x = random(3, 2 * 1500, dtype=dtype) * 4
    close(fast.silu_mul(x), reference.silu_mul(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norms", [False, True])
def test_rotate_and_store(dtype: torch.dtype, norms: bool) -> None:
    heads, kv_heads, dim, size = 6, 2, 48, 16
    qkv = random(4, (heads + 2 * kv_heads) * dim, dtype=dtype)
    angles = torch.outer(torch.arange(4.0) * 3, torch.logspace(0, -3, dim // 2))
    cos_sin = torch.cat([angles.cos(), angles.sin()], -1).to(DEVICE)
    slots = torch.tensor([3, 17, -1, 40], device=DEVICE)
    weights = {"q_norm": random(dim, seed=4, dtype=dtype), "k_norm": random(dim, seed=5, dtype=dtype)} if norms else {}
    shapes = (4, kv_heads, dim, size), (4, kv_heads, size, dim)
    caches = [[torch.zeros(s, dtype=dtype, device=DEVICE) for s in shapes] for _ in range(2)]
    expected = reference.rotate_and_store(qkv, cos_sin, *caches[0], slots, num_heads=heads, **weights)
    close(fast.rotate_and_store(qkv, cos_sin, *caches[1], slots, num_heads=heads, **weights), expected)
    for a, b in zip(*caches, strict=True):
        close(b, a)


def tasks_for(queries: list[int], lengths: list[int], tokens: int) -> torch.Tensor:
    rows, tasks = 0, []
    for s, (count, length) in enumerate(zip(queries, lengths, strict=True)):
        for first in range(0, count, tokens):
            tasks.append([s, rows + first, min(tokens, count - first), length - count + first])
        rows += count
    return torch.tensor(tasks, dtype=torch.int32, device=DEVICE).t().contiguous()


def paged_inputs(
    lengths: list[int], queries: list[int], heads: int, kv_heads: int, dim: int, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    size = 16
    blocks = [-(-n // size) for n in lengths]
    order = torch.randperm(sum(blocks), generator=torch.Generator().manual_seed(3)).int()
    tables = torch.zeros(len(lengths), max(blocks), dtype=torch.int32)
    keys = random(sum(blocks), kv_heads, dim, size, seed=1, dtype=dtype)
    values = random(sum(blocks), kv_heads, size, dim, seed=2, dtype=dtype)
    at = 0
    for s, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        tables[s, :count] = order[at : at + count]
        at += count
        if length % size:  # what another sequence left behind
            keys[int(tables[s, count - 1]), :, :, length % size :] = float("nan")
            values[int(tables[s, count - 1]), :, length % size :] = float("nan")
    q = random(sum(queries), heads, dim, seed=3, dtype=dtype)
    return q, keys, values, tables.to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (4, 4, 16), (6, 2, 48)])
def test_paged_attention(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    lengths, queries = [1, 20, 100, 70], [1, 20, 1, 9]
    q, keys, values, tables = paged_inputs(lengths, queries, heads, kv_heads, dim, dtype)
    starts = torch.tensor([0, *queries], device=DEVICE).cumsum(0).int()
    expected = reference.paged_attention(q, keys, values, tables, starts, torch.tensor(lengths, device=DEVICE).int())
    group = heads // kv_heads
    for rows in (16, 64) if DEVICE == "cuda" else (16,):
        tasks = tasks_for(queries, lengths, rows // group)
        close(fast.paged_attention(q, keys, values, tables, tasks, rows=rows), expected)


def test_attention_rows_are_the_same_bits_in_a_chunk_and_alone() -> None:
    lengths, queries = [90, 33], [40, 1]
    q, keys, values, tables = paged_inputs(lengths, queries, 4, 2, 16, DTYPES[-1])
    whole = fast.paged_attention(q, keys, values, tables, tasks_for(queries, lengths, 8))
    single = fast.paged_attention(q, keys, values, tables, tasks_for(queries, lengths, 1))
    assert torch.equal(whole, single)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_matches_and_does_not_depend_on_the_batch(dtype: torch.dtype) -> None:
    x, w, b = random(70, 200, dtype=dtype), random(90, 200, seed=1, dtype=dtype), random(90, seed=2, dtype=dtype)
    whole = fast.linear(x, w, b)
    expected = torch.nn.functional.linear(x.double(), w.double(), b.double())
    assert (whole.double() - expected).norm() / expected.norm() < (1e-6 if dtype == torch.float32 else 5e-3)
    for rows in (1, 64, 65):
        assert torch.equal(fast.linear(x[:rows].contiguous(), w, b), whole[:rows])
    assert torch.equal(fast.linear(x[69:].contiguous(), w, None), fast.linear(x, w, None)[69:])


def test_log_softmax_matches_and_does_not_depend_on_the_batch() -> None:
    x = random(4, 5000) * 5
    whole = fast.log_softmax(x)
    torch.testing.assert_close(whole, x.log_softmax(-1), atol=1e-5, rtol=1e-5)
    assert torch.equal(fast.log_softmax(x[2:3]), whole[2:3])
