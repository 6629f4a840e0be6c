"""Picks the implementation of each operation for a device, a dtype and a numerics mode.

CPU: torch matrix products. CUDA: Triton kernels of `offseek.kernels`. Without either, plain torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from offseek.kernels import reference
from torch import Tensor

from ..config import DType

if TYPE_CHECKING:
    from .transformer import Batch

Linear = Callable[[Tensor], Tensor]


class Operations:
    """Operations of a transformer on one device.

    dtype: of weights and activations; "int8" is for weights, with float32 activations.
    deterministic: batch-invariant: a row's result does not depend on the other rows of the batch.
    """

    def __init__(self, *, device: torch.device, dtype: DType, deterministic: bool = False) -> None:
        self.device = device
        self.dtype = torch.float32 if dtype == "int8" else getattr(torch, dtype)
        self.cache_dtype = self.dtype
        self.deterministic = deterministic

    def place(self, tensor: Tensor) -> Tensor:
        """Move a tensor to the device in the computing dtype."""
        return tensor.to(self.device, self.dtype).contiguous()

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Return x -> x @ weight.T + bias for `weight` [out, in]."""
        # [in, out]: MKL's product with the weight already transposed is up to 2x faster for small batches
        stored = weight.to(self.device, self.dtype).t().contiguous()
        if bias is None:
            return lambda x: torch.mm(x, stored)
        placed = self.place(bias)
        return lambda x: torch.addmm(placed, x, stored)

    def add_rms_norm_inplace(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """Add `delta` to `residual` in place and return its RMSNorm."""
        if delta is not None:
            residual += delta
        return reference.rms_norm(residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return reference.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, cos_sin: Tensor, keys: Tensor, values: Tensor, slots: Tensor,
        *, num_heads: int, q_norm: Tensor | None, k_norm: Tensor | None, eps: float,
    ) -> Tensor:  # fmt: skip
        return reference.rotate_and_store(
            qkv, cos_sin, keys, values, slots, num_heads=num_heads, q_norm=q_norm, k_norm=k_norm, eps=eps
        )

    def paged_attention(self, q: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        return reference.paged_attention(q, keys, values, batch.block_tables, batch.query_starts, batch.context_lens)
