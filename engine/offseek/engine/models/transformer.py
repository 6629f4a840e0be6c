"""One dense decoder-only transformer for Llama, Qwen2 and Qwen3, over a flat batch of tokens and a paged KV cache.

A forward pass takes tokens of many sequences side by side (prefill chunks and single decode tokens mixed). Which
implementation of an operation runs (Triton, native CPU, plain torch) is `Operations`' choice, not the model's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import ModelConfig
from .operations import Linear, Operations
from .weights import TensorSource


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one forward pass. All tensors on the model's device.

    token_ids, positions, slots: int64 [n]; slots are where k and v of each token go, negative for padding.
    block_tables: int32 [num_sequences, max_blocks]; query_starts: int32 [num_sequences + 1];
    context_lens: int32 [num_sequences], cached tokens including this pass's.
    logit_rows:   int64 [r], the token rows whose logits are wanted; None: all.
    tasks:        int32 [4, num_tasks], the pieces of attention work on CUDA (see `paged_attention` of the Triton
                  kernels), with tiles of `tile_rows` rows; None on CPU.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    block_tables: Tensor
    query_starts: Tensor
    context_lens: Tensor
    logit_rows: Tensor | None
    tasks: Tensor | None = None
    tile_rows: int = 16


@dataclass(frozen=True, slots=True)
class KVCache:
    """Per layer K [num_blocks, kv_heads, head_dim, block_size] and V [num_blocks, kv_heads, block_size, head_dim]."""

    keys: list[Tensor]
    values: list[Tensor]

    @classmethod
    def allocate(
        cls, config: ModelConfig, *, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> KVCache:
        shape = (num_blocks, config.num_kv_heads, config.head_dim, block_size)
        flipped = (num_blocks, config.num_kv_heads, block_size, config.head_dim)
        layers = range(config.num_layers)
        return cls(
            [torch.zeros(shape, dtype=dtype, device=device) for _ in layers],
            [torch.zeros(flipped, dtype=dtype, device=device) for _ in layers],
        )


@dataclass(frozen=True, slots=True)
class Layer:
    input_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


class Transformer:
    """Weights and forward pass. Built with `Transformer.load`."""

    def __init__(
        self,
        config: ModelConfig,
        ops: Operations,
        *,
        embedding: Tensor,
        layers: list[Layer],
        norm: Tensor,
        head: Linear,
    ) -> None:
        self.config = config
        self.ops = ops
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head
        positions = torch.arange(config.context_length, dtype=torch.float32)
        angles = torch.outer(positions, torch.tensor(config.rope_inv_freq, dtype=torch.float32))
        # [context_length, head_dim]: cosines, then sines
        self.cos_sin = torch.cat([angles.cos(), angles.sin()], -1).to(ops.device)

    @classmethod
    def load(cls, config: ModelConfig, source: TensorSource, ops: Operations) -> Transformer:
        """Read every weight through `source`. Raises ModelFileError for a missing or misshapen tensor."""
        hidden, head_dim = config.hidden_size, config.head_dim
        q_rows, kv_rows = config.num_heads * head_dim, config.num_kv_heads * head_dim

        def linear(*parts: tuple[str, int], width: int) -> Linear:
            weights = [source.get(f"{name}.weight", (rows, width)) for name, rows in parts]
            biases = [source.get_optional(f"{name}.bias", (rows,)) for name, rows in parts]
            bias = None
            if any(b is not None for b in biases):
                pairs = zip(biases, parts, strict=True)
                bias = torch.cat([b.float() if b is not None else torch.zeros(rows) for b, (_, rows) in pairs])
            return ops.linear(torch.cat(weights) if len(weights) > 1 else weights[0], bias)

        def vector(name: str, size: int) -> Tensor:
            return ops.place(source.get(f"{name}.weight", (size,)))

        layers = []
        for index in range(config.num_layers):
            name = f"model.layers.{index}."
            attn, mlp = name + "self_attn.", name + "mlp."
            layers.append(
                Layer(
                    input_norm=vector(name + "input_layernorm", hidden),
                    qkv=linear(
                        (attn + "q_proj", q_rows), (attn + "k_proj", kv_rows), (attn + "v_proj", kv_rows), width=hidden
                    ),
                    q_norm=vector(attn + "q_norm", head_dim) if config.qk_norm else None,
                    k_norm=vector(attn + "k_norm", head_dim) if config.qk_norm else None,
                    output=linear((attn + "o_proj", hidden), width=q_rows),
                    post_norm=vector(name + "post_attention_layernorm", hidden),
                    gate_up=linear(
                        (mlp + "gate_proj", config.intermediate_size), (mlp + "up_proj", config.intermediate_size),
                        width=hidden,
                    ),
                    down=linear((mlp + "down_proj", hidden), width=config.intermediate_size),
                )
            )  # fmt: skip
        embedding = source.get("model.embed_tokens.weight", (config.vocab_size, hidden))
        head = embedding if config.tie_word_embeddings else source.get("lm_head.weight", (config.vocab_size, hidden))
        return cls(
            config, ops,
            embedding=ops.place(embedding), layers=layers, norm=vector("model.norm", hidden),
            head=ops.linear(head, None),
        )  # fmt: skip

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        """Return logits [len(batch.logit_rows), vocab_size]; this pass's keys and values go into `cache`."""
        config, ops, eps = self.config, self.ops, self.config.rms_norm_eps
        cos_sin = self.cos_sin[batch.positions]
        residual = self.embedding[batch.token_ids]  # [n, hidden]
        delta: Tensor | None = None
        for layer, keys, values in zip(self.layers, cache.keys, cache.values, strict=True):
            hidden = ops.add_rms_norm_inplace(residual, delta, layer.input_norm, eps)
            q = ops.rotate_and_store(
                layer.qkv(hidden), cos_sin, keys, values, batch.slots,
                num_heads=config.num_heads, q_norm=layer.q_norm, k_norm=layer.k_norm, eps=eps,
            )  # fmt: skip
            attended = ops.paged_attention(q, keys, values, batch)
            delta = layer.output(attended.view(len(q), -1))
            hidden = ops.add_rms_norm_inplace(residual, delta, layer.post_norm, eps)
            delta = layer.down(ops.silu_mul(layer.gate_up(hidden)))
        assert delta is not None
        if batch.logit_rows is not None:
            residual, delta = residual[batch.logit_rows], delta[batch.logit_rows]
        return self.head(ops.add_rms_norm_inplace(residual, delta, self.norm, eps))
