"""Plain torch twins of the transformer kernels: short, obviously right, any device; what the tests compare with.

Layouts: activations are [num_tokens, width]. A KV cache layer is K [num_blocks, kv_heads, head_dim, block_size] and
V [num_blocks, kv_heads, block_size, head_dim]; a slot is `block * block_size + offset`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich, 2019); float32 inside."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return scaled.to(x.dtype) * weight


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(left half) * right half of [n, 2m] -> [n, m] (SwiGLU, Shazeer 2020)."""
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def rotate_and_store(
    qkv: Tensor,
    cos_sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    num_heads: int,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Rotate q and k (half-rotation layout), write k and v to their slots, return q [n, num_heads, head_dim].

    qkv:     [n, (num_heads + 2 * kv_heads) * head_dim].
    cos_sin: float32 [n, head_dim]: cosines then sines of each token's position.
    slots:   int64 [n]; a negative slot is padding and stores nothing.
    q_norm, k_norm: RMSNorm weights [head_dim] applied to each head before rotation, or None.
    """
    kv_heads, head_dim, block_size = k_cache.shape[1:]
    q, k, v = torch.split(qkv.view(len(qkv), -1, head_dim), [num_heads, kv_heads, kv_heads], 1)
    if q_norm is not None:
        q = rms_norm(q, q_norm, eps)
    if k_norm is not None:
        k = rms_norm(k, k_norm, eps)
    cos, sin = cos_sin.unsqueeze(1).to(qkv.dtype).chunk(2, -1)

    def rotate(x: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    keep = slots >= 0
    block, offset = slots[keep] // block_size, slots[keep] % block_size
    k_cache[block, :, :, offset] = rotate(k)[keep].to(k_cache.dtype)
    v_cache[block, :, offset] = v[keep].to(v_cache.dtype)
    return rotate(q)


def paged_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, query_starts: Tensor, context_lens: Tensor
) -> Tensor:
    """Causal attention of the last tokens of each sequence over its cached tokens.

    q: [n, num_heads, head_dim]; rows query_starts[s] .. query_starts[s + 1] are the last tokens of sequence s.
    block_tables: int32 [num_sequences, max_blocks]; context_lens: int32 [num_sequences], cached tokens including
    this step's. Returns [n, num_heads, head_dim] in q's dtype; rows past query_starts[-1] are zero.
    """
    num_heads, head_dim = q.shape[1:]
    kv_heads = k_cache.shape[1]
    out = torch.zeros_like(q)
    starts, lengths = query_starts.tolist(), context_lens.tolist()
    for s, length in enumerate(lengths):
        rows = slice(starts[s], starts[s + 1])
        num_queries = rows.stop - rows.start
        if not num_queries:
            continue
        table = block_tables[s, : -(-length // k_cache.shape[3])].long()
        keys = k_cache[table].permute(1, 2, 0, 3).reshape(kv_heads, head_dim, -1)[..., :length].to(q.dtype)
        values = v_cache[table].transpose(0, 1).reshape(kv_heads, -1, head_dim)[:, :length].to(q.dtype)
        # [kv_heads, group * queries, head_dim]
        group = q[rows].view(num_queries, kv_heads, -1, head_dim).permute(1, 2, 0, 3).reshape(kv_heads, -1, head_dim)
        scores = (group @ keys).float() * head_dim**-0.5
        last = torch.arange(length - num_queries, length, device=q.device).repeat(num_heads // kv_heads)
        scores.masked_fill_(torch.arange(length, device=q.device)[None] > last[:, None], float("-inf"))
        attended = scores.softmax(-1).to(q.dtype) @ values
        out[rows] = (
            attended.view(kv_heads, -1, num_queries, head_dim)
            .permute(2, 0, 1, 3)
            .reshape(num_queries, num_heads, head_dim)
        )
    return out


def top_k_experts(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of [n, num_experts] and where they are, largest first; of equals the lowest id first.

    Unlike `torch.topk`, whose choice among equals may depend on the shape. Returns (values [n, k], ids int64 [n, k]).
    """
    values, ids = scores.sort(dim=-1, descending=True, stable=True)
    return values[:, :k].contiguous(), ids[:, :k].contiguous()


def expert_linear(x: Tensor, weights: Tensor, expert_ids: Tensor) -> Tensor:
    """Each (token, choice) pair's row times the weights of its expert: [n * k, cols].

    x: [n, inner] or [n * k, inner]; weights: [num_experts, cols, inner]; expert_ids: int64 [n, k].
    """
    flat = expert_ids.reshape(-1)
    rows = x.repeat_interleave(len(flat) // len(x), dim=0)
    return torch.stack([weights[e] @ row for e, row in zip(flat.tolist(), rows, strict=True)])


def combine_experts(x: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of each token's results x [n * k, width] with weights [n, k], in order, in float32: [n, width]."""
    n, k = weights.shape
    parts = x.view(n, k, -1).float() * weights.float()[:, :, None]
    total = torch.zeros_like(parts[:, 0])
    for choice in range(k):
        total = total + parts[:, choice]
    return total.to(x.dtype)
