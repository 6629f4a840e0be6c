"""Logits of each model family against `transformers` on tiny random checkpoints, through every batching path."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from offseek.engine import EngineConfig, ModelFileError, SamplingParams, load_engine
from offseek.engine.loading import LoadedEngine

LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    ("llama", {"attention_bias": True, "head_dim": 32}),
    ("llama", {"rope_parameters": LLAMA3_ROPE}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    ("qwen2", {}),
    ("qwen3", {}),
    ("qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
]


def reference_logits(folder: pathlib.Path, tokens: list[int]) -> torch.Tensor:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([tokens])).logits[0]
    return logits


def collect_logits(engine: LoadedEngine) -> list[torch.Tensor]:
    """Make the engine remember the logits rows it samples from."""
    seen: list[torch.Tensor] = []
    forward = engine._runner.model.forward

    def recording(*args: Any) -> torch.Tensor:
        logits = forward(*args)
        seen.append(logits.clone())
        return logits

    engine._runner.model.forward = recording  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(("family", "options"), CASES)
@pytest.mark.parametrize("chunk", [512, 24])
def test_logits_match_transformers(
    checkpoint: Callable[..., pathlib.Path],
    run_all: Callable[..., Any],
    family: str,
    options: dict[str, Any],
    chunk: int,
) -> None:
    folder = checkpoint(family, **options)
    engine = load_engine(folder, config=EngineConfig(max_batch_tokens=chunk, max_num_sequences=2), device="cpu")
    seen = collect_logits(engine)
    prompt = [(i * 37) % 256 for i in range(70)]
    done = run_all(engine, {"a": (prompt, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))})
    tokens = prompt + done["a"].tokens
    expected = reference_logits(folder, tokens)[len(prompt) - 1 : -1]
    found = torch.cat([rows for rows in seen if len(rows)])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    # ids beyond the tokenizer's are padding of the embedding and never chosen
    assert done["a"].tokens == expected[:, : engine.vocab_size].argmax(-1).tolist()


def test_batched_sequences_of_different_length_do_not_mix(
    checkpoint: Callable[..., pathlib.Path], run_all: Callable[..., Any]
) -> None:
    folder = checkpoint("llama")
    prompts = {f"r{n}": [(i * 11 + n) % 256 for i in range(n)] for n in (1, 15, 16, 17, 33, 90)}
    sampling = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    together = run_all(
        load_engine(folder, config=EngineConfig(max_batch_tokens=40, max_num_sequences=4), device="cpu"),
        {name: (prompt, sampling) for name, prompt in prompts.items()},
    )
    for name, prompt in prompts.items():
        alone = run_all(load_engine(folder, device="cpu"), {name: (prompt, sampling)})
        assert together[name].tokens == alone[name].tokens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"hidden_size": 80, "head_dim": 16}, "has shape"),
        ({"num_hidden_layers": 3}, "model.layers.2.input_layernorm.weight' is missing"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling 'yarn' is not supported"),
    ],
)
def test_unsupported_or_inconsistent_checkpoint_is_refused_by_name(
    checkpoint: Callable[..., pathlib.Path], tmp_path: pathlib.Path, change: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint("llama"), folder)
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=message.replace("[", r"\[")):
        load_engine(folder, device="cpu")
