"""RemoteEngine against a stand-in for a vLLM or SGLang server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from offseek.engine.request import GenerationRequest, SamplingParams
from offseek.sdk.generation import Completion, generate
from offseek.sdk.remote import RemoteEngine, RemoteGrammar

Handler = Callable[[dict[str, Any]], httpx.Response]


def engine(handler: Handler, **settings: Any) -> RemoteEngine:
    transport = httpx.MockTransport(lambda request: handler(json.loads(request.content)))
    return RemoteEngine(
        "http://server/v1",
        "m",
        encode=lambda text: list(text.encode()),
        decode=lambda ids: bytes(ids).decode("utf-8", "replace"),
        context_length=100,
        backoff_s=0.001,
        transport=transport,
        **settings,
    )


def answer(text: str, reason: str = "stop", **more: Any) -> httpx.Response:
    usage = {"prompt_tokens": 3, "completion_tokens": len(text), "prompt_tokens_details": {"cached_tokens": 2}}
    return httpx.Response(200, json={"choices": [{"text": text, "finish_reason": reason} | more], "usage": usage})


def run(remote: RemoteEngine, grammar: Any = None, number: int = 1, **sampling: Any) -> list[Completion]:
    requests = (
        GenerationRequest(
            request_id=str(i), prompt_token_ids=[1, 2, 3], sampling=SamplingParams(**sampling), grammar=grammar
        )
        for i in range(number)
    )
    try:
        return sorted(generate(remote, requests, max_in_flight=8), key=lambda c: int(c.request_id))
    finally:
        remote.close()


def grammar(kind: Any = "regex", source: Any = "a+") -> RemoteGrammar:
    return RemoteGrammar(kind=kind, source=source, matches=lambda text: set(text) <= {"a"})


def test_ids_settings_and_usage_go_through() -> None:
    seen: list[dict[str, Any]] = []

    def handler(body: dict[str, Any]) -> httpx.Response:
        seen.append(body)
        return answer("hi", token_ids=[104, 105])

    (found,) = run(engine(handler), max_tokens=7, temperature=0.0, seed=5, stop=("x",))
    assert bytes(found.token_ids) == b"hi"
    assert (found.finish_reason, found.prompt_tokens, found.prompt_cache_hit_tokens) == ("stop", 3, 2)
    assert seen[0]["prompt"] == [1, 2, 3]
    assert (seen[0]["max_tokens"], seen[0]["seed"], seen[0]["stop"]) == (7, 5, ["x"])
    assert "structured_outputs" not in seen[0]


@pytest.mark.parametrize(
    ("flavor", "kind", "field"),
    [
        ("vllm", "regex", {"structured_outputs": {"regex": "s"}}),
        ("vllm", "ebnf", {"structured_outputs": {"grammar": "s"}}),
        ("vllm", "json_schema", {"structured_outputs": {"json": "s"}}),
        ("sglang", "regex", {"regex": "s"}),
        ("sglang", "ebnf", {"ebnf": "s"}),
        ("sglang", "json_schema", {"json_schema": '"s"'}),
    ],
)
def test_a_constraint_is_sent_in_the_servers_own_field(flavor: Any, kind: Any, field: dict[str, Any]) -> None:
    seen: list[dict[str, Any]] = []

    def handler(body: dict[str, Any]) -> httpx.Response:
        seen.append(body)
        return answer("aa")

    (found,) = run(engine(handler, flavor=flavor), grammar(kind, "s"))
    assert found.error is None
    assert field.items() <= seen[0].items()


def test_an_answer_that_violates_the_constraint_is_an_error() -> None:
    (found,) = run(engine(lambda body: answer("ab")), grammar())
    assert found.finish_reason == "error"
    assert type(found.error).__name__ == "ConstraintViolationError"
    (cut,) = run(engine(lambda body: answer("ab", "length")), grammar())  # unfinished: judged by who asked
    assert cut.finish_reason == "length"


def test_an_eos_among_the_servers_ids_is_no_part_of_the_answer() -> None:
    def decode(ids: Any) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")

    for reason, expected in (("stop", [104, 105]), ("length", [104, 105, 300])):
        remote = engine(lambda body, reason=reason: answer("hi", reason, token_ids=[104, 105, 300]))  # type: ignore[misc]
        remote._decode = decode  # one that leaves special ids out, as tokenizers do
        (found,) = run(remote)
        assert found.token_ids == expected


def test_passing_failures_are_retried_and_lasting_ones_not() -> None:
    answers = iter([httpx.Response(503), httpx.Response(429), answer("ok")])
    (found,) = run(engine(lambda body: next(answers)))
    assert bytes(found.token_ids) == b"ok"
    calls = []

    def refuse(body: dict[str, Any]) -> httpx.Response:
        calls.append(1)
        return httpx.Response(400, text="bad grammar")

    (failed,) = run(engine(refuse))
    assert (len(calls), failed.finish_reason) == (1, "error")
    assert "400: bad grammar" in str(failed.error)


def test_one_failing_request_spares_the_others() -> None:
    count = iter(range(100))

    def handler(body: dict[str, Any]) -> httpx.Response:
        return httpx.Response(400, text="no") if next(count) == 3 else answer("ok")

    found = run(engine(handler, max_in_flight=1), number=8)
    assert [c.finish_reason for c in found].count("error") == 1
    assert len(found) == 8
