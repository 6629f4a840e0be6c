"""Small checkpoints, a scripted model and a scripted matcher for engine tests. No download, no default model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from offseek.engine import EngineConfig, GenerationRequest, LocalEngine, RequestOutput
from offseek.engine.kv_cache import BlockPool
from offseek.engine.model_runner import ModelRunner

VOCAB = 300
EOS = 257


def byte_tokenizer_json() -> dict[str, Any]:
    """A byte-level BPE tokenizer: 256 bytes, <|bos|> 256, <|eos|> 257, a few merges from 258 on."""
    from offseek.engine.tokenizer import byte_alphabet

    letters = {byte: char for char, byte in byte_alphabet().items()}
    vocab = {letters[byte]: byte for byte in range(256)}
    space = letters[0x20]
    merges = [("t", "h"), ("th", "e"), (space, "the"), ("i", "n"), (space, "a")]
    vocab |= {"<|bos|>": 256, "<|eos|>": 257}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": c} | flags for i, c in ((256, "<|bos|>"), (257, "<|eos|>"))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [list(m) for m in merges]},
    }  # fmt: skip


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., pathlib.Path]:
    """Makes (once per family and options) a tiny random Hugging Face checkpoint folder."""
    made: dict[str, pathlib.Path] = {}

    def make(family: str, **options: Any) -> pathlib.Path:
        key = family + json.dumps(options, sort_keys=True)
        if key not in made:
            import transformers

            kind = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[family]
            config = getattr(transformers, f"{kind}Config")(
                **{
                    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "head_dim": 16,
                    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": None, "initializer_range": 0.3,
                }
                | options
            )  # fmt: skip
            torch.manual_seed(7)
            model = getattr(transformers, f"{kind}ForCausalLM")(config).float()
            for name, parameter in model.named_parameters():
                if "norm" in name or "bias" in name:  # the library starts these at 1 and 0, which hides mistakes
                    torch.nn.init.normal_(parameter, mean=1.0 if "norm" in name else 0.0, std=0.2)
            folder = tmp_path_factory.mktemp(family)
            model.save_pretrained(folder)
            (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer_json()))
            made[key] = folder
        return made[key]

    return make


class ToyModel:
    """Logits from a function of the sequence's tokens so far: no weights, no cache."""

    def __init__(self, vocab_size: int, logits_of: Callable[[list[int]], torch.Tensor]) -> None:
        self.config = SimpleNamespace(vocab_size=vocab_size)
        self.ops = SimpleNamespace(device=torch.device("cpu"))
        self._logits_of = logits_of
        self._by_slot: dict[int, int] = {}

    def forward(self, batch: Any, cache: Any) -> torch.Tensor:
        for slot, token in zip(batch.slots.tolist(), batch.token_ids.tolist(), strict=True):
            self._by_slot[slot] = token
        rows = []
        starts, lengths = batch.query_starts.tolist(), batch.context_lens.tolist()
        for row in batch.logit_rows.tolist():
            s = next(i for i in range(len(lengths)) if starts[i] <= row < starts[i + 1])
            length = lengths[s] - (starts[s + 1] - 1 - row)
            table = batch.block_tables[s].tolist()
            # The tokens as the "cache" has them, so wrong slots or block tables show up as wrong text.
            rows.append(self._logits_of([self._by_slot[table[p // 16] * 16 + p % 16] for p in range(length)]))
        return torch.stack(rows) if rows else torch.zeros(0, self.config.vocab_size)


@pytest.fixture(params=["in turn", "overlapped"])
def toy_engine(request: pytest.FixtureRequest) -> Callable[..., LocalEngine]:
    """Makes an engine over a `ToyModel`; keyword arguments are `EngineConfig`'s. Without and with async_scheduling."""

    def make(
        logits_of: Callable[[list[int]], torch.Tensor], *, vocab_size: int = VOCAB, eos: int = EOS,
        token_bytes: list[bytes] | None = None, context_length: int = 256, **settings: Any,
    ) -> LocalEngine:  # fmt: skip
        overlapped = request.param == "overlapped" and not settings.get("speculative_tokens")
        defaults = {"num_blocks": 64, "max_num_sequences": 8, "max_batch_tokens": 64, "async_scheduling": overlapped}
        config = EngineConfig(**defaults | settings)
        assert config.num_blocks
        assert config.max_num_sequences
        assert config.max_batch_tokens
        return LocalEngine(
            ModelRunner(
                ToyModel(vocab_size, logits_of),
                None,
                block_size=16,
                carried_rows=config.max_num_sequences,  # type: ignore[arg-type]
            ),
            BlockPool(num_blocks=config.num_blocks, block_size=16, reuse_prefixes=config.prefix_cache),
            config,
            context_length=min(context_length, config.num_blocks * 16),
            vocab_size=vocab_size,
            eos_token_ids=[eos],
            token_bytes=token_bytes or [bytes([i]) if i < 256 else b"" for i in range(vocab_size)],
            max_num_sequences=config.max_num_sequences,
            max_batch_tokens=config.max_batch_tokens,
        )

    return make


@dataclass
class ScriptedGrammar:
    """Allows exactly the texts in `texts` (byte tokens, EOS at the end); same protocol as the real grammars."""

    texts: list[bytes]
    vocab_size: int = VOCAB
    eos: int = EOS

    def matcher(self) -> ScriptedMatcher:
        return ScriptedMatcher(self)


@dataclass
class ScriptedMatcher:
    grammar: ScriptedGrammar
    seen: list[int] = field(default_factory=list)

    def _next(self) -> set[int]:
        sofar = bytes(self.seen)
        found = {t[len(sofar)] for t in self.grammar.texts if t.startswith(sofar) and len(t) > len(sofar)}
        return found | ({self.grammar.eos} if sofar in self.grammar.texts else set())

    def fill_bitmask(self, out: np.ndarray) -> None:  # type: ignore[type-arg]
        bits = np.zeros(out.shape[-1] * 32, np.uint8)
        bits[sorted(self._next())] = 1
        out[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def fill_bitmask_draft(self, draft_tokens: list[int], out: np.ndarray) -> int:  # type: ignore[type-arg]
        out[:] = 0
        probe = ScriptedMatcher(self.grammar, list(self.seen))
        for row, token in enumerate(draft_tokens):
            probe.fill_bitmask(out[row])
            if not probe.accept_token(token):
                return row
        probe.fill_bitmask(out[len(draft_tokens)])
        return len(draft_tokens)

    def accept_token(self, token_id: int) -> bool:
        if token_id == self.grammar.eos or token_id not in self._next():
            return False
        self.seen.append(token_id)
        return True

    def validate_tokens(self, token_ids: list[int]) -> int:
        probe = ScriptedMatcher(self.grammar, list(self.seen))
        return next((i for i, token in enumerate(token_ids) if not probe.accept_token(token)), len(token_ids))

    def is_finished(self) -> bool:
        return self._next() == {self.grammar.eos}

    def forced_bytes(self, *, max_bytes: int) -> bytes:
        return bytes(self.forced_tokens()[:max_bytes])

    def forced_tokens(self) -> list[int]:
        probe = ScriptedMatcher(self.grammar, list(self.seen))
        forced = []
        while len(probe._next()) == 1 and not probe.is_finished():
            (token,) = probe._next()
            forced.append(token)
            probe.seen.append(token)
        return forced


@pytest.fixture
def scripted_grammar() -> type[ScriptedGrammar]:
    return ScriptedGrammar


@dataclass
class Finished:
    tokens: list[int]
    last: RequestOutput
    logprobs: list[Any]


@pytest.fixture
def run_all() -> Callable[..., dict[str, Finished]]:
    """Runs requests to the end: `run_all(engine, {"id": (prompt, SamplingParams, grammar or None)})`."""

    def run(engine: LocalEngine, requests: dict[str, tuple[Any, ...]], *, max_steps: int = 5000) -> dict[str, Finished]:
        for name, (prompt, sampling, *grammar) in requests.items():
            engine.add_request(
                GenerationRequest(
                    request_id=name, prompt_token_ids=prompt, sampling=sampling, grammar=grammar[0] if grammar else None
                )
            )
        return drain(engine, max_steps=max_steps)

    return run


def drain(engine: LocalEngine, *, max_steps: int) -> dict[str, Finished]:
    tokens: dict[str, list[int]] = {}
    logprobs: dict[str, list[Any]] = {}
    done: dict[str, Finished] = {}
    for _ in range(max_steps):
        if not engine.has_work():
            return done
        for output in engine.step():
            assert output.request_id not in done, "output after the last one"
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
            logprobs.setdefault(output.request_id, []).extend(output.logprobs)
            if output.finish_reason is not None:
                done[output.request_id] = Finished(tokens[output.request_id], output, logprobs[output.request_id])
    raise AssertionError(f"not finished after {max_steps} steps")
