"""The shape of a dense decoder-only transformer of the Llama family, from a GGUF header or a Hugging Face config.

Families: Llama, Mistral without sliding window, Qwen2 (bias on q/k/v) and Qwen3 (RMSNorm on q and k).
Everything that would change the arithmetic and is not implemented is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError
from ..gguf_file import GGUFFile

_HF_FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and constants of one model. `vocab_size` is the width of the logits (padding included)."""

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    rms_norm_eps: float
    rope_inv_freq: tuple[float, ...]  # [head_dim / 2], scaling already applied
    tie_word_embeddings: bool
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None

    @property
    def qk_norm(self) -> bool:
        return self.family == "qwen3"


def rope_inv_freq(head_dim: int, theta: float, scaling: Mapping[str, Any] | None, *, where: str) -> tuple[float, ...]:
    """Inverse frequencies [head_dim / 2] of rotary embedding, with "linear" or "llama3" scaling applied.

    llama3 scaling after the Llama 3.1 model card: long wavelengths are stretched by `factor`, short ones kept,
    those between blended. Raises ModelFileError for other scaling types.
    """
    freqs = [theta ** (-2.0 * i / head_dim) for i in range(head_dim // 2)]
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    if scaling is None or kind in (None, "default", "none"):
        return tuple(freqs)
    if kind == "linear":
        return tuple(f / float(scaling["factor"]) for f in freqs)
    if kind != "llama3":
        raise ModelFileError(f"{where}: rope scaling {kind!r} is not supported (default, linear, llama3 are)")
    factor, low, high = (float(scaling[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    original = float(scaling["original_max_position_embeddings"])
    out = []
    for freq in freqs:
        wavelength = 2 * math.pi / freq
        blend = min(1.0, max(0.0, (original / wavelength - low) / (high - low)))
        out.append((1 - blend) * freq / factor + blend * freq)
    return tuple(out)


def config_from_hf(raw: Mapping[str, Any], generation: Mapping[str, Any], *, where: str) -> ModelConfig:
    """Translate `config.json` (and `generation_config.json`, {} when absent).

    Raises ModelFileError naming the field when the model is of another family or uses what is not implemented.
    """
    model_type = raw.get("model_type")
    if model_type not in _HF_FAMILIES:
        raise ModelFileError(f"{where}: model_type {model_type!r} is not supported (known: {', '.join(_HF_FAMILIES)})")
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelFileError(f"{where}: hidden_act {raw['hidden_act']!r} is not supported (silu is)")
    windowed = raw.get("use_sliding_window", model_type == "mistral") and raw.get("sliding_window")
    if windowed and raw["sliding_window"] < raw["max_position_embeddings"]:
        raise ModelFileError(f"{where}: sliding_window {raw['sliding_window']} is not supported")
    quantised = raw.get("quantization_config")
    if quantised:
        raise ModelFileError(f"{where}: quantization_config {quantised.get('quant_method')!r} is not supported")
    try:
        heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
        head_dim = int(raw.get("head_dim") or hidden // heads)
        rope = dict(raw.get("rope_parameters") or {})
        scaling = raw.get("rope_scaling") or rope or None
        theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0)
        eos = generation.get("eos_token_id", raw.get("eos_token_id"))
        if eos is None:
            eos = []
        return ModelConfig(
            family=_HF_FAMILIES[model_type],
            vocab_size=int(raw["vocab_size"]),
            hidden_size=hidden,
            num_layers=int(raw["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            intermediate_size=int(raw["intermediate_size"]),
            context_length=int(raw["max_position_embeddings"]),
            rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            rope_inv_freq=rope_inv_freq(head_dim, theta, scaling, where=where),
            tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
            eos_token_ids=tuple(eos) if isinstance(eos, list) else (int(eos),),
            bos_token_id=raw.get("bos_token_id"),
        )
    except KeyError as error:
        raise ModelFileError(f"{where}: field {error.args[0]!r} is missing") from error


def config_from_gguf(gguf: GGUFFile) -> ModelConfig:
    """Translate GGUF metadata. Raises ModelFileError for another architecture or a missing key."""
    meta, where = gguf.metadata, str(gguf.path)
    arch = meta.get("general.architecture")
    if arch not in ("llama", "qwen2", "qwen3"):
        raise ModelFileError(f"{where}: architecture {arch!r} is not supported (llama, qwen2, qwen3 are)", path=where)
    try:
        heads, hidden = meta[f"{arch}.attention.head_count"], meta[f"{arch}.embedding_length"]
        head_dim = meta.get(f"{arch}.attention.key_length", hidden // heads)
        scaling = None
        if (kind := meta.get(f"{arch}.rope.scaling.type", "none")) != "none":
            scaling = {"rope_type": kind, "factor": meta.get(f"{arch}.rope.scaling.factor", 1.0)}
        freqs = rope_inv_freq(head_dim, meta.get(f"{arch}.rope.freq_base", 10000.0), scaling, where=where)
        if "rope_freqs.weight" in gguf.tensors:  # llama3 scaling, stored as divisors
            freqs = tuple(f / float(d) for f, d in zip(freqs, gguf.tensor("rope_freqs.weight"), strict=True))
        return ModelConfig(
            family=arch,
            vocab_size=gguf.tensors["token_embd.weight"].shape[0],
            hidden_size=hidden,
            num_layers=meta[f"{arch}.block_count"],
            num_heads=heads,
            num_kv_heads=meta.get(f"{arch}.attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate_size=meta[f"{arch}.feed_forward_length"],
            context_length=meta[f"{arch}.context_length"],
            rms_norm_eps=meta[f"{arch}.attention.layer_norm_rms_epsilon"],
            rope_inv_freq=freqs,
            tie_word_embeddings="output.weight" not in gguf.tensors,
        )
    except KeyError as error:
        raise ModelFileError(f"{where}: metadata or tensor {error.args[0]!r} is missing", path=where) from error
