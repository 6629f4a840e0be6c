"""GGUF files written by the `gguf` package: the same logits and ids as the checkpoint they were made from."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from offseek.engine import ModelFileError, load_engine
from offseek.engine.gguf_file import GGUFFile
from offseek.engine.tokenizer import CheckpointTokenizer


def write_gguf(folder: pathlib.Path, path: pathlib.Path, family: str, *, quantise: str | None = None) -> None:
    """Convert a tiny checkpoint the way llama.cpp's converter does: renamed tensors, q/k of llama permuted."""
    import gguf
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    vocab = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    tokens = [token for token, _ in vocab] + [f"[PAD{i}]" for i in range(len(vocab), config["vocab_size"])]
    special = {entry["id"] for entry in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if i in special else 1 if i < len(vocab) else 5 for i in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template("{{ messages }}")
    names = {
        "embed_tokens": "token_embd", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "q_norm": "attn_q_norm",
        "k_norm": "attn_k_norm", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
    }  # fmt: skip
    for name, tensor in load_file(folder / "model.safetensors").items():
        parts = name.split(".")
        if parts[:2] == ["model", "layers"]:
            target = f"blk.{parts[2]}.{names[parts[-2]]}.{parts[-1]}"
        else:
            target = {"model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}.get(
                name, "token_embd.weight"
            )
        array = tensor.float().numpy()
        if family == "llama" and parts[-2] in ("q_proj", "k_proj"):
            heads = config["num_attention_heads" if parts[-2] == "q_proj" else "num_key_value_heads"]
            array = (
                array.reshape(heads, 2, config["head_dim"] // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
            )
        if quantise and array.ndim == 2 and "embed" not in name:
            kind = getattr(gguf.GGMLQuantizationType, quantise)
            writer.add_tensor(target, gguf.quants.quantize(np.ascontiguousarray(array), kind), raw_dtype=kind)
        else:
            writer.add_tensor(target, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def first_logits(engine: Any, prompt: list[int]) -> torch.Tensor:
    from offseek.engine import GenerationRequest, SamplingParams

    seen: list[torch.Tensor] = []
    forward = engine._runner.model.forward
    engine._runner.model.forward = lambda *args: seen.append(forward(*args)) or seen[-1]
    engine.add_request(
        GenerationRequest(request_id="r", prompt_token_ids=prompt, sampling=SamplingParams(max_tokens=1, temperature=0))
    )
    engine.step()
    return seen[0].clone()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_gguf_gives_the_logits_of_its_checkpoint(
    checkpoint: Callable[..., pathlib.Path], tmp_path: pathlib.Path, family: str
) -> None:
    folder, path = checkpoint(family), tmp_path / "model.gguf"
    write_gguf(folder, path, family)
    a, b = load_engine(folder, device="cpu"), load_engine(path, device="cpu")
    prompt = a.tokenizer.encode("the inn in the \u00e9t\u00e9")
    assert b.tokenizer.encode("the inn in the \u00e9t\u00e9") == prompt
    torch.testing.assert_close(first_logits(a, prompt), first_logits(b, prompt), atol=1e-5, rtol=1e-5)
    assert (b.chat_template, b.eos_token_ids, b.tokenizer.bos_token_id) == ("{{ messages }}", (257,), 256)


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q5_0", "F16"])
def test_quantised_tensors_are_read_as_gguf_dequantises_them(
    checkpoint: Callable[..., pathlib.Path], tmp_path: pathlib.Path, kind: str
) -> None:
    import gguf

    path = tmp_path / "model.gguf"
    write_gguf(checkpoint("llama"), path, "llama", quantise=kind)
    ours = GGUFFile(path)
    theirs = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert set(ours.tensors) == set(theirs)
    for name, tensor in theirs.items():
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(ours.tensor(name), expected.reshape(ours.tensors[name].shape))


def damage(path: pathlib.Path, tmp_path: pathlib.Path, how: str) -> pathlib.Path:
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[: len(data) - 100]
    elif how == "header":
        data = data[:60]
    elif how == "magic":
        data[:4] = b"ELF!"
    elif how == "version":
        data[4] = 9
    elif how == "huge count":
        data[16:24] = (2**60).to_bytes(8, "little")
    elif how == "empty":
        data = bytearray()
    target = tmp_path / "damaged.gguf"
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("how", ["cut", "header", "magic", "version", "huge count", "empty"])
def test_damaged_gguf_is_refused_with_its_path(
    checkpoint: Callable[..., pathlib.Path], tmp_path: pathlib.Path, how: str
) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(checkpoint("llama"), path, "llama")
    with pytest.raises(ModelFileError, match=r"damaged\.gguf"):
        load_engine(damage(path, tmp_path, how), device="cpu")


def test_missing_model_says_what_to_do(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSEEK_MODELS", str(tmp_path))
    with pytest.raises(ModelFileError, match="offseek models install"):
        load_engine()
    with pytest.raises(ModelFileError, match=r"no model at 'nowhere\.gguf'"):
        load_engine("nowhere.gguf")


def test_text_that_names_special_tokens_can_be_encoded_as_plain_text(checkpoint: Callable[..., pathlib.Path]) -> None:
    tokenizer = CheckpointTokenizer.from_directory(checkpoint("llama"), eos_token_ids=[257], bos_token_id=256)
    assert tokenizer.encode("a<|eos|>") == [97, 257]
    plain = tokenizer.encode("a<|eos|>", parse_special=False)
    assert 257 not in plain
    assert tokenizer.decode(plain) == "a<|eos|>"
    assert tokenizer.decode([97, 257]) == "a"
    assert tokenizer.decode_bytes([97, 257], skip_special=False) == b"a<|eos|>"


def test_every_token_has_its_bytes(checkpoint: Callable[..., pathlib.Path]) -> None:
    tokenizer = CheckpointTokenizer.from_directory(checkpoint("llama"), eos_token_ids=[257], bos_token_id=256)
    assert [tokenizer.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert tokenizer.token_bytes(tokenizer.encode(" the")[0]) == b" the"
    assert tokenizer.token_bytes(9999) == b""
    assert tokenizer.special_ids == {256, 257}
