"""Tensors of a checkpoint under one set of names, from a GGUF file or a folder of safetensors.

Names are Hugging Face's (`model.layers.0.self_attn.q_proj.weight`). llama.cpp permutes the rows of q and k of the
llama architecture so that rotary pairs lie side by side; that is undone here.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import ModelFileError
from ..gguf_file import GGUFFile
from .config import ModelConfig

_GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


class TensorSource:
    """Looks tensors up by Hugging Face name and checks their shape.

    Raises ModelFileError naming the tensor, the expected and the found shape.
    """

    def __init__(self, has: Callable[[str], bool], read: Callable[[str], Tensor], *, where: str) -> None:
        self._has = has
        self._read = read
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._has(name)

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return tensor `name` (its stored dtype, CPU). Raises ModelFileError if missing or of another shape."""
        if not self._has(name):
            raise ModelFileError(f"{self._where}: tensor '{name}' is missing", path=self._where, tensor=name)
        tensor = self._read(name)
        if tuple(tensor.shape) != shape:
            found = tuple(tensor.shape)
            raise ModelFileError(
                f"{self._where}: tensor '{name}' has shape {list(found)}, expected {list(shape)}",
                path=self._where, tensor=name, expected=shape, found=found,
            )  # fmt: skip
        return tensor

    def get_optional(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        return self.get(name, shape) if self._has(name) else None


def gguf_source(gguf: GGUFFile, config: ModelConfig) -> TensorSource:
    """Tensors of a GGUF, dequantised to float32, with q/k rows back in half-rotation order."""

    def gguf_name(name: str) -> str:
        stem, _, suffix = name.rpartition(".")
        if stem.startswith("model.layers."):
            _, _, index, rest = stem.split(".", 3)
            return f"blk.{index}.{_GGUF_NAMES[rest]}.{suffix}"
        return f"{_GGUF_NAMES[stem]}.{suffix}"

    def read(name: str) -> Tensor:
        tensor = torch.from_numpy(gguf.tensor(gguf_name(name)).copy())
        if config.family == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = config.num_heads if ".q_proj." in name else config.num_kv_heads
            pairs = tensor.reshape(heads, config.head_dim // 2, 2, *tensor.shape[1:])
            return pairs.transpose(1, 2).reshape(tensor.shape).contiguous()
        return tensor

    return TensorSource(lambda name: gguf_name(name) in gguf.tensors, read, where=str(gguf.path))


def safetensors_source(folder: pathlib.Path) -> TensorSource:
    """Tensors of `*.safetensors` in a folder, sharded (with index) or single."""
    from safetensors import SafetensorError, safe_open

    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, OSError) as error:
            raise ModelFileError(f"{index} cannot be read: {error}", path=str(index)) from error
    else:
        files = sorted(p.name for p in folder.glob("*.safetensors"))
    if not files:
        raise ModelFileError(f"{folder} holds no *.safetensors file", path=str(folder))
    where: dict[str, Any] = {}
    for file in files:
        try:
            handle: Any = safe_open(folder / file, framework="pt")
        except (FileNotFoundError, SafetensorError, OSError) as error:
            raise ModelFileError(f"{folder / file} cannot be read: {error}", path=str(folder / file)) from error
        where.update(dict.fromkeys(handle.keys(), handle))

    def read(name: str) -> Tensor:
        tensor: Tensor = where[name].get_tensor(name)
        return tensor

    return TensorSource(lambda name: name in where, read, where=str(folder))
