"""Deterministic mode on CPU: a request gives the same bits in any batch, order, chunking, cache state and draft."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from offseek.engine import EngineConfig, GenerationRequest, ModelFileError, SamplingParams, load_engine
from offseek.engine.models import model_path

VARIANTS: dict[str, dict[str, Any]] = {
    "alone": {"max_num_sequences": 1, "prefix_cache": False},
    "batch of 5": {"max_num_sequences": 5, "prefix_cache": False},
    "everything at once": {"prefix_cache": False},
    "small chunks": {"max_batch_tokens": 37, "max_num_sequences": 16, "prefix_cache": False},
    "prefix cache": {"prefix_cache": True},
    "overlapped": {"async_scheduling": True},
    "overlapped and preempted": {"async_scheduling": True, "num_blocks": 24, "max_batch_tokens": 64},
    "speculated": {"speculative_tokens": 3},
    "preempted": {"num_blocks": 24, "prefix_cache": False},
}


def requests() -> dict[str, tuple[list[int], SamplingParams]]:
    """Prompts with shared prefixes and repeats, greedy and seeded."""
    rng = random.Random(4)
    shared = [rng.randrange(17, 250) for _ in range(70)]
    made = {}
    for i in range(9):
        prompt = shared[: rng.randrange(10, 70)] + [rng.randrange(17, 250) for _ in range(rng.randrange(1, 30))]
        prompt += prompt[-8:]  # gives drafts something to find
        sampling = SamplingParams(temperature=0.0 if i % 3 == 0 else 0.8, seed=i, max_tokens=24, ignore_eos=True)
        made[f"r{i}"] = (prompt, sampling)
    return made


def outputs(
    model: Any, dtype: Any, settings: dict[str, Any], order: list[str]
) -> dict[str, tuple[list[int], list[torch.Tensor]]]:
    """Tokens of each request, and the logits row behind each of its tokens."""
    engine = load_engine(model, device="cpu", dtype=dtype, config=EngineConfig(deterministic=True, **settings))
    wanted = requests()
    logits: dict[str, list[torch.Tensor]] = {name: [] for name in order}
    launch = engine._sampler.launch

    def recording(rows_logits: torch.Tensor, rows: Any, bitmask: Any) -> Any:
        draw = launch(rows_logits, rows, bitmask)
        token_ids = engine._sampler.read(draw).token_ids
        seen: dict[str, bool] = {}
        for row, values, token in zip(rows, rows_logits, token_ids, strict=True):
            name = row.sequence.request.request_id
            if seen.get(name, True):  # rows after a rejected draft are not part of the text
                logits[name].append(values.clone())
            j = row.position - len(row.sequence.tokens)
            drafts = row.sequence.drafts
            seen[name] = seen.get(name, True) and j < len(drafts) and drafts[j] == token
        return draw

    engine._sampler.launch = recording  # type: ignore[method-assign]
    for name in order:
        prompt, sampling = wanted[name]
        engine.add_request(GenerationRequest(request_id=name, prompt_token_ids=prompt, sampling=sampling))
    tokens: dict[str, list[int]] = {name: [] for name in order}
    while engine.has_work():
        for output in engine.step():
            tokens[output.request_id] += output.token_ids
    if "num_blocks" in settings:
        assert engine.stats.num_preemptions > 0
    if "speculative_tokens" in settings:
        assert engine.stats.num_draft_tokens > 0
    return {name: (tokens[name], logits[name]) for name in order}


def assert_same_in_every_variant(model: Any, dtype: Any, variants: dict[str, dict[str, Any]]) -> None:
    names = list(requests())
    expected = outputs(model, dtype, VARIANTS["alone"], names)
    rng = random.Random(1)
    for variant, settings in variants.items():
        order = names[:]
        rng.shuffle(order)
        found = outputs(model, dtype, settings, order)
        for name in names:
            assert found[name][0] == expected[name][0], (variant, name)
            pairs = list(zip(found[name][1], expected[name][1], strict=True))
            assert all(torch.equal(a, b) for a, b in pairs), (variant, name)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_small_models_give_the_same_bits_in_every_variant(
    checkpoint: Callable[..., Any], family: str, dtype: str
) -> None:
    assert_same_in_every_variant(checkpoint(family), dtype, VARIANTS)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_default_model_gives_the_same_bits_in_every_variant(dtype: str) -> None:
    try:
        path = model_path()
    except ModelFileError as error:
        pytest.skip(str(error))
    chosen = ("everything at once", "small chunks", "overlapped", "speculated")
    assert_same_in_every_variant(path, dtype, {name: VARIANTS[name] for name in chosen})
