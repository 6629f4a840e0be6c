"""A model of bytes: token ids are UTF-8 bytes, answers come from a function of the prompt text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from offseek.engine.request import GenerationRequest
from offseek.sdk.prompts import Turn
from offseek.sdk.scripted import ScriptedEngine


class ByteModel:
    """Satisfies ExtractionModel with byte tokens and without a grammar."""

    name = "bytes"
    sha256 = "0" * 64

    def __init__(self, reply: Callable[[str], str], **engine: Any) -> None:
        def script(request: GenerationRequest) -> list[int]:
            return list(reply(bytes(request.prompt_token_ids).decode()).encode())

        engine.setdefault("context_length", 100_000)
        engine.setdefault("tokens_per_step", 64)
        self.engine = ScriptedEngine(script, **engine)

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        return list("\n".join(f"[{t.role}] {t.text}" for t in turns).encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])

    def compile_schema(self, schema: Any, **layout: Any) -> Any:
        return None


SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}, "length": {"type": "integer"}},
    "required": ["word", "length"],
}


def first_word(prompt: str) -> str:
    document = prompt.rpartition("Document:\n")[2].partition("\n\nReply")[0]
    word = document.split()[0]
    return json.dumps({"word": word, "length": len(word)})


@pytest.fixture
def byte_model() -> Callable[..., ByteModel]:
    def make(reply: Callable[[str], str] = first_word, **engine: Any) -> ByteModel:
        return ByteModel(reply, **engine)

    return make


@pytest.fixture
def word_schema() -> dict[str, Any]:
    return json.loads(json.dumps(SCHEMA))  # type: ignore[no-any-return]
