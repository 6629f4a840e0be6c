"""Picks the implementation of each operation for a device, a dtype and a numerics mode.

CPU: matrix products by torch, the rest by the native kernels. CUDA: Triton kernels of `offseek.kernels`.
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

#: Rows of a matrix product in deterministic mode: every product has this many, so it never depends on the batch.
FIXED_ROWS = 32


class Operations:
    """Operations of a transformer on one device: plain torch, the base of the faster ones.

    dtype: of activations; `cache_dtype`: of the KV cache.
    deterministic: batch-invariant: a row's result does not depend on the other rows of the batch.
    """

    def __init__(self, *, device: torch.device, dtype: DType, deterministic: bool = False) -> None:
        self.device = device
        self.dtype = torch.float32 if dtype == "int8" else getattr(torch, dtype)
        self.cache_dtype = torch.bfloat16 if dtype == "int8" else self.dtype
        self.deterministic = deterministic

    def place(self, tensor: Tensor) -> Tensor:
        """Move a tensor to the device in the computing dtype."""
        return tensor.to(self.device, self.dtype).contiguous()

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Return x -> x @ weight.T + bias for `weight` [out, in]."""
        stored, placed = self.place(weight), None if bias is None else self.place(bias)
        return lambda x: torch.nn.functional.linear(x, stored, placed)

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


class CpuOperations(Operations):
    """float32 activations; float32 or 8-bit weights; native kernels for everything but the matrix products."""

    def __init__(self, *, dtype: DType, deterministic: bool = False) -> None:
        super().__init__(device=torch.device("cpu"), dtype=dtype, deterministic=deterministic)
        from offseek.kernels import cpu  # needs the native extension, which CUDA does not

        self._cpu = cpu
        self._int8 = dtype == "int8"

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        placed = None if bias is None else self.place(bias)
        if self._int8:
            return int8_linear(weight.float(), placed)
        # [in, out]: MKL's product with the weight already transposed is up to 2x faster for small batches
        stored = weight.float().t().contiguous()

        def product(x: Tensor) -> Tensor:
            return torch.mm(x, stored) if placed is None else torch.addmm(placed, x, stored)

        return fixed_rows(product) if self.deterministic else product

    def add_rms_norm_inplace(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        return self._cpu.add_rms_norm_inplace(residual, delta, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return self._cpu.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, cos_sin: Tensor, keys: Tensor, values: Tensor, slots: Tensor,
        *, num_heads: int, q_norm: Tensor | None, k_norm: Tensor | None, eps: float,
    ) -> Tensor:  # fmt: skip
        return self._cpu.rotate_and_store(
            qkv, cos_sin, keys, values, slots, num_heads=num_heads, q_norm=q_norm, k_norm=k_norm, eps=eps
        )

    def paged_attention(self, q: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        return self._cpu.paged_attention(q, keys, values, batch.block_tables, batch.query_starts, batch.context_lens)


class CudaOperations(Operations):
    """float32, float16 or bfloat16 on one GPU; products by cuBLAS, or by fixed Triton tiles when deterministic."""

    def __init__(self, *, device: torch.device, dtype: DType, deterministic: bool = False) -> None:
        super().__init__(device=device, dtype=dtype, deterministic=deterministic)
        from offseek.kernels import _transformer_triton

        self._triton = _transformer_triton

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        if not self.deterministic:
            return super().linear(weight, bias)
        stored, placed = self.place(weight), None if bias is None else self.place(bias)
        return lambda x: self._triton.linear(x, stored, placed)

    def add_rms_norm_inplace(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        return self._triton.add_rms_norm_inplace(residual, delta, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return self._triton.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, cos_sin: Tensor, keys: Tensor, values: Tensor, slots: Tensor,
        *, num_heads: int, q_norm: Tensor | None, k_norm: Tensor | None, eps: float,
    ) -> Tensor:  # fmt: skip
        return self._triton.rotate_and_store(
            qkv, cos_sin, keys, values, slots, num_heads=num_heads, q_norm=q_norm, k_norm=k_norm, eps=eps
        )

    def paged_attention(self, q: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        assert batch.tasks is not None
        return self._triton.paged_attention(q, keys, values, batch.block_tables, batch.tasks, rows=batch.tile_rows)


def fixed_rows(product: Linear) -> Linear:
    """Run a matrix product in pieces of FIXED_ROWS rows, the last one padded with zeros.

    The library then always sees the same shape, so the order in which a row is summed is always the same.
    """

    def run(x: Tensor) -> Tensor:
        rows = len(x)
        padded = torch.nn.functional.pad(x, (0, 0, 0, -rows % FIXED_ROWS))
        pieces = [product(piece) for piece in torch.split(padded, FIXED_ROWS)]
        return (pieces[0] if len(pieces) == 1 else torch.cat(pieces))[:rows].contiguous()

    return run


def int8_linear(weight: Tensor, bias: Tensor | None) -> Linear:
    """x -> x @ weight.T + bias with weights in 8 bits per output channel and activations in 8 bits per row.

    Sums are exact 32-bit integers, so results do not depend on the batch in any mode.
    """
    from offseek.kernels import cpu

    stored, scales = cpu.quantize_rows(weight.contiguous())  # [out, in], [out]
    transposed = stored.t()

    def run(x: Tensor) -> Tensor:
        quantised, row_scales = cpu.quantize_rows(x)
        product = torch._int_mm(quantised, transposed)  # pyright: ignore[reportPrivateImportUsage]  (no public name)
        return cpu.dequantize_product(product, row_scales, scales, bias)

    return run
