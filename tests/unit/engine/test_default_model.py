"""SmolLM2 as the engine reads it from the GGUF, against `transformers` with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from offseek.engine import ModelFileError, SamplingParams, load_engine, open_checkpoint
from offseek.engine.models import model_path

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.fixture(scope="module")
def path() -> Any:
    try:
        return model_path()
    except ModelFileError as error:
        pytest.skip(str(error))


def test_logits_match_transformers(path: Any, run_all: Callable[..., Any]) -> None:
    import transformers

    checkpoint = open_checkpoint(path)
    shape = checkpoint.config
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size, intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers, num_attention_heads=shape.num_heads, num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.context_length, rms_norm_eps=shape.rms_norm_eps, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    names = [name for name in model.state_dict() if name != "lm_head.weight"]
    state = {name: checkpoint.tensors.get(name, tuple(model.state_dict()[name].shape)) for name in names}
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    engine = load_engine(path, device="cpu")
    seen: list[torch.Tensor] = []
    forward = engine._runner.model.forward
    engine._runner.model.forward = lambda *args: seen.append(forward(*args)) or seen[-1]  # type: ignore[assignment, func-returns-value]
    prompt = engine.tokenizer.encode("The capital of France is")
    done = run_all(engine, {"r": (prompt, SamplingParams(temperature=0, max_tokens=6))})["r"]
    assert " Paris" in engine.tokenizer.decode(done.tokens)
    with torch.inference_mode():
        expected = model(torch.tensor([prompt + done.tokens])).logits[0, len(prompt) - 1 : -1]
    torch.testing.assert_close(torch.cat(seen), expected, atol=2e-4, rtol=2e-4)


def test_chat_prompt_survives_a_round_trip_and_ends_by_itself(path: Any, run_all: Callable[..., Any]) -> None:
    engine = load_engine(path, device="cpu", dtype="int8")
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    prompt = engine.tokenizer.encode(text)
    assert engine.tokenizer.decode(prompt, skip_special=False) == text
    assert engine.chat_template is not None
    done = run_all(engine, {"r": (prompt, SamplingParams(temperature=0, max_tokens=40))})["r"]
    assert done.last.finish_reason == "stop"
    assert "Paris" in engine.tokenizer.decode(done.tokens)
