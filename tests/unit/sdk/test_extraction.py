from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from offseek.sdk.chunking import merge_objects
from offseek.sdk.documents import Document
from offseek.sdk.errors import ClientError
from offseek.sdk.extraction import ExtractionOptions, ExtractionRow, Extractor, extract
from offseek.sdk.prompts import Example, ExtractionPrompt

Make = Callable[..., Any]


def run(model: Any, schema: Any, documents: list[Document], **options: Any) -> list[ExtractionRow]:
    return list(Extractor(model, schema, options=ExtractionOptions(**options)).run(documents))


def words(n: int) -> list[Document]:
    return [Document(f"d{i}", "w" * (1 + i * 7 % 50) + " tail") for i in range(n)]


def test_every_document_gets_one_row_in_input_order(byte_model: Make, word_schema: Any) -> None:
    rows = run(byte_model(tokens_per_step=3), word_schema, words(100), batch_size=7)
    assert [r.id for r in rows] == [f"d{i}" for i in range(100)]
    assert [r.object["length"] for r in rows] == [1 + i * 7 % 50 for i in range(100)]
    assert all(r.ok and r.finish_reason == "stop" for r in rows)


def test_a_slow_row_does_not_stop_the_others_or_grow_the_window(byte_model: Make, word_schema: Any) -> None:
    def reply(prompt: str) -> str:
        word = prompt.rpartition("Document:\n")[2].split()[0]
        return json.dumps({"word": word * (500 if word == "slow" else 1), "length": 1})

    taken = 0

    def documents() -> Any:
        nonlocal taken
        for i in range(200):
            taken += 1
            yield Document(str(i), "slow" if i == 0 else "quick")

    model = byte_model(reply, tokens_per_step=1)
    rows = Extractor(model, word_schema, options=ExtractionOptions(batch_size=4, max_tokens=5000)).run(documents())
    assert next(rows).id == "0"
    assert taken <= 4 * 4 + 1
    assert [r.id for r in rows] == [str(i) for i in range(1, 200)]


def test_a_cut_answer_is_an_error_and_never_half_an_object(byte_model: Make, word_schema: Any) -> None:
    (row,) = run(byte_model(tokens_per_step=4), word_schema, [Document("a", "word")], max_tokens=10)
    assert (row.object, row.finish_reason) == (None, "length")
    assert row.error is not None
    assert row.error.type == "truncated"


@pytest.mark.parametrize(
    ("reply", "pointer"),
    [('{"word": 5, "length": 1}', "#/word"), ("[]", "#"), ('{"word": "a", "length": NaN}', None), ("{", None)],
)
def test_an_object_that_does_not_fit_is_an_error(
    byte_model: Make, word_schema: Any, reply: str, pointer: str | None
) -> None:
    (row,) = run(byte_model(lambda prompt: reply), word_schema, [Document("a", "x")])
    assert row.object is None
    assert row.error is not None
    assert (row.error.type, row.error.pointer) == ("invalid_object", pointer)


def test_one_failing_row_leaves_the_others_alone(byte_model: Make, word_schema: Any) -> None:
    def reply(prompt: str) -> str:
        if "boom" in prompt:
            raise RuntimeError("no such luck")
        return '{"word": "x", "length": 1}'

    rows = run(byte_model(reply), word_schema, [Document("a", "x"), Document("b", "boom"), Document("c", "x")])
    assert [r.ok for r in rows] == [True, False, True]
    assert rows[1].error is not None
    assert rows[1].error.type == "engine_error"
    assert "no such luck" in rows[1].error.message


def test_a_long_document_is_refused_or_cut_only_when_asked(byte_model: Make, word_schema: Any) -> None:
    documents = [Document("long", "word " * 1000), Document("short", "word")]
    refused = run(byte_model(context_length=1000), word_schema, documents, max_tokens=100)
    assert refused[0].error is not None
    assert refused[0].error.type == "document_too_long"
    assert refused[1].ok
    cut = run(byte_model(context_length=1000), word_schema, documents, max_tokens=100, truncate=True)
    assert cut[0].ok
    assert cut[0].truncated_document
    assert cut[0].prompt_tokens <= 900
    assert not cut[1].truncated_document


def test_an_empty_document_is_a_row_error(byte_model: Make, word_schema: Any) -> None:
    rows = run(byte_model(), word_schema, [Document(str(i), " \n") for i in range(300)], batch_size=2)
    assert [r.error.type for r in rows if r.error] == ["empty_document"] * 300


def test_a_retry_is_told_the_reason_and_recorded(byte_model: Make, word_schema: Any) -> None:
    def reply(prompt: str) -> str:
        return '{"word": "x", "length": 1}' if "not acceptable" in prompt else '{"word": "x", "length": "1"}'

    (row,) = run(byte_model(reply), word_schema, [Document("a", "x")], retries=2)
    assert row.ok
    assert len(row.attempts) == 1
    assert "'1' is not of type 'integer'" in row.attempts[0]
    (failed,) = run(byte_model(lambda p: "[]"), word_schema, [Document("a", "x")], retries=2)
    assert not failed.ok
    assert len(failed.attempts) == 2


def test_confidence_is_given_per_field(byte_model: Make, word_schema: Any) -> None:
    (row,) = run(byte_model(), word_schema, [Document("a", "word")], confidence=True)
    assert row.confidence == {"word": 1.0, "length": 1.0}


def test_the_prompt_carries_schema_keys_and_json_by_itself(byte_model: Make, word_schema: Any) -> None:
    seen: list[str] = []

    def reply(prompt: str) -> str:
        seen.append(prompt)
        return '{"word": "x", "length": 1}'

    example = Example("Hello", {"length": 5, "word": "Hello"})
    prompt = ExtractionPrompt(examples=[example], template="Doc {id} ({lang}): {document} {not a field}\nkeys {keys}")
    rows = [{"id": "r", "text": "{keys} hi", "lang": "de"}]
    assert [r.ok for r in extract(rows, word_schema, model=byte_model(reply), prompt=prompt)] == [True]
    assert '"type": "object"' in seen[0]
    assert "JSON" in seen[0]
    assert '[assistant] {"word": "Hello", "length": 5}' in seen[0]  # schema order, not the example's
    assert "Doc r (de): {keys} hi {not a field}\nkeys word, length" in seen[0]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (ExtractionPrompt(template="no place"), "must contain {document}"),
        (ExtractionPrompt(examples=[Example("d", {"word": 1})]), "example 1 does not fit"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_at_once(
    byte_model: Make, word_schema: Any, prompt: ExtractionPrompt, message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        Extractor(byte_model(), word_schema, prompt=prompt)


def test_long_documents_are_cut_and_their_objects_merged(byte_model: Make) -> None:
    schema = {
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}}, "size": {"type": ["string", "null"]}},
        "required": ["names", "size"],
    }

    def reply(prompt: str) -> str:
        text = prompt.rpartition("Document:\n")[2].partition("\n\nReply")[0]
        size = "big" if "big" in text else None
        return json.dumps({"names": sorted({w for w in text.split() if w.istitle()}), "size": size})

    text = "Ada met Bob. " + "x " * 60 + "It was big. " + "y " * 60 + "Then Bob met Cid."
    options = ExtractionOptions(chunk_chars=120, chunk_overlap_chars=20)
    job = Extractor(byte_model(reply), schema, options=options)
    long, short = job.run([Document("long", text), Document("short", "Dan came.")])
    assert long.num_chunks >= 3
    assert (long.id, short.id) == ("long", "short")
    assert [set(r.object["names"]) for r in (long, short)] == [{"Ada", "Bob", "Bob.", "It", "Then", "Cid."}, {"Dan"}]
    assert (long.object["size"], short.num_chunks) == ("big", 1)


def test_a_failing_piece_fails_its_document(byte_model: Make, word_schema: Any) -> None:
    def reply(prompt: str) -> str:
        return "[]" if "bad" in prompt else '{"word": "x", "length": 1}'

    options = ExtractionOptions(chunk_chars=30, chunk_overlap_chars=5)
    job = Extractor(byte_model(reply), word_schema, options=options)
    (row,) = job.run([Document("a", "good " * 20 + "bad")])
    assert row.error is not None
    assert row.error.type == "invalid_object"
    assert row.error.message.startswith("piece ")


def test_merging_takes_majorities_unions_and_the_first_on_a_tie() -> None:
    assert merge_objects([{"a": 1, "l": [1, 2]}, {"a": 2, "l": [2, {"x": 1}]}, {"a": 2}]) == {
        "a": 2,
        "l": [1, 2, {"x": 1}],
    }
    assert merge_objects([None, "b", "a"]) == "b"
    assert merge_objects([None, None]) is None
