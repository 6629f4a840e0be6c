# ruff: noqa: E501  (request bodies read better unbroken)
"""Whatever a client writes, special token ids stand only where the renderer put them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from offseek.recipe import (
    ChatCompletionRequest,
    ConversionOptions,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    MessagesRequest,
    ModelVersion,
    SpecialToken,
    Tokenizer,
)

SPELLINGS = [getattr(SpecialToken, name).default_str() for name in dir(SpecialToken) if name[0].isupper()]
PIECES = st.one_of(
    st.sampled_from(SPELLINGS),
    st.sampled_from([s[:k] for s in SPELLINGS for k in (1, len(s) // 2, len(s) - 1)]),
    st.sampled_from(["<", "｜", "▁", ">", "/", "tool_calls>", "invoke name=\"", " calls>"]),
    st.text(max_size=8),
)  # fmt: skip
TEXT = st.lists(PIECES, max_size=8).map("".join)
MODEL = st.sampled_from(["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])


@pytest.fixture(scope="module")
def tokenizer(deepseek_tokenizer_path: pathlib.Path) -> Tokenizer:
    spec = json.loads(deepseek_tokenizer_path.read_text(encoding="utf-8"))
    spec["added_tokens"].append({**spec["added_tokens"][-1], "id": 129280, "content": "<｜System｜>"})
    return Tokenizer.from_str(json.dumps(spec, ensure_ascii=False))


def check(converted: Any, tokenizer: Tokenizer) -> None:
    is_v41 = converted.model_version == ModelVersion.DeepseekV41Flash
    encoding: Any = DeepseekV41Encoding() if is_v41 else DeepseekV4Encoding()
    rendered = encoding.render_conversation(converted.conversation)
    ids = encoding.with_tokenizer(tokenizer).encode(converted.conversation)
    special = [tokenizer.special_id(rendered.prompt[a:b]) for a, b in rendered.special_ranges]
    assert [i for i in ids if tokenizer.is_added(i)] == special
    assert tokenizer.decode(ids) == rendered.prompt


@seed(7)
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(TEXT, min_size=9, max_size=9), model=MODEL, thinking=st.booleans())
def test_chat_content_never_becomes_a_special_token(
    texts: list[str], model: str, thinking: bool, tokenizer: Tokenizer
) -> None:
    system, user, answer, reasoning, name, argument, result, description, reminder = texts
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({argument: argument, "n": [argument]})},
    }
    body = {
        "model": model, "thinking": {"type": "enabled" if thinking else "disabled"},
        "messages": [
            {"role": "system", "content": system}, {"role": "user", "content": [{"type": "text", "text": user}]},
            {"role": "assistant", "content": answer, "reasoning_content": reasoning, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result}, {"role": "latest_reminder", "content": reminder},
        ],
        "tools": [{"type": "function", "function": {"name": "g", "description": description,
                   "parameters": {"type": "object", "properties": {argument: {"type": "string", "description": description}}}}}],
    }  # fmt: skip
    check(ChatCompletionRequest(json.dumps(body)).convert(ConversionOptions()), tokenizer)


@seed(8)
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(TEXT, min_size=4, max_size=4), model=MODEL)
def test_messages_content_never_becomes_a_special_token(texts: list[str], model: str, tokenizer: Tokenizer) -> None:
    system, user, value, result = texts
    use = {"type": "tool_use", "id": "t", "name": user, "input": {value: value}}
    body = {
        "model": model, "system": system,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": user}, {"type": "document", "source": {"media_type": user}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": value}, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": result}]},
        ],
    }  # fmt: skip
    check(MessagesRequest(body).convert(ConversionOptions()), tokenizer)
