"""The real `openai` and `anthropic` packages, unchanged, against the in-process transports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from offseek.sdk.application import Application
from offseek.sdk.transports import AsyncOffseekTransport, OffseekTransport

Make = Callable[..., Application]
USER: Any = [{"role": "user", "content": "Say hello."}]
REPLY = "I think.</think>Hello there, friend!"
MODEL = "deepseek-v4-pro"


def openai_client(application: Application, library: Any = httpx2, **settings: Any) -> openai.OpenAI:
    client = library.Client(transport=OffseekTransport(application))
    return openai.OpenAI(api_key="unused", base_url="https://api.deepseek.com", http_client=client, **settings)


def anthropic_client(application: Application) -> anthropic.Anthropic:
    client = httpx2.Client(transport=OffseekTransport(application))
    return anthropic.Anthropic(api_key="unused", base_url="https://api.deepseek.com/anthropic", http_client=client)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_chat_completion_with_thinking_and_usage(v4_application: Make, library: Any) -> None:
    client = openai_client(v4_application(REPLY), library)
    reply: Any = client.chat.completions.create(model=MODEL, messages=USER)
    message = reply.choices[0].message
    assert (message.content, message.reasoning_content) == ("Hello there, friend!", "I think.")
    assert reply.choices[0].finish_reason == "stop"
    usage = reply.usage
    assert usage.completion_tokens == 9
    assert usage.completion_tokens_details.reasoning_tokens == 3
    assert usage.prompt_tokens == usage.prompt_cache_hit_tokens + usage.prompt_cache_miss_tokens


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_chat_stream_joins_to_the_plain_answer(v4_application: Make, library: Any) -> None:
    client = openai_client(v4_application(REPLY), library)
    chunks: list[Any] = list(
        client.chat.completions.create(model=MODEL, messages=USER, stream=True, stream_options={"include_usage": True})
    )
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(d.content or "" for d in deltas) == "Hello there, friend!"
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "I think."
    assert [c.choices[0].finish_reason for c in chunks][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == 9
    assert len({c.id for c in chunks}) == 1


def test_chat_without_thinking_stops_at_a_stop_string(v4_application: Make) -> None:
    application = v4_application("one two three four")
    reply = openai_client(application).chat.completions.create(
        model=MODEL, messages=USER, stop=[" three"], extra_body={"thinking": {"type": "disabled"}}
    )
    assert reply.choices[0].message.content == "one two"
    assert reply.choices[0].finish_reason == "stop"
    assert application.loops[0].num_requests <= 1  # the engine's request was cancelled, not left to run


def test_chat_limit_is_length_under_both_names(v4_application: Make) -> None:
    client = openai_client(v4_application("one two three four"))
    off = {"thinking": {"type": "disabled"}}
    for limit in ({"max_tokens": 2}, {"max_completion_tokens": 2}, {"max_tokens": 2, "max_completion_tokens": 2}):
        reply = client.chat.completions.create(model=MODEL, messages=USER, extra_body=off, **limit)  # type: ignore[call-overload]
        assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 2)
    with pytest.raises(openai.BadRequestError, match="contradict"):
        client.chat.completions.create(model=MODEL, messages=USER, max_tokens=7, max_completion_tokens=9)


def test_chat_tool_calls_are_parsed(v4_application: Make) -> None:
    dsml = "｜DSML｜"
    call = (
        f'</think>Looking.\n\n<{dsml}tool_calls>\n<{dsml}invoke name="weather">\n'
        f'<{dsml}parameter name="city" string="true">Paris</{dsml}parameter>\n'
        f'<{dsml}parameter name="days" string="false">2</{dsml}parameter>\n'
        f"</{dsml}invoke>\n</{dsml}tool_calls>"
    )
    tools: Any = [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city"],
                },
            },
        }
    ]
    client = openai_client(v4_application(call))
    reply: Any = client.chat.completions.create(model=MODEL, messages=USER, tools=tools)
    (found,) = reply.choices[0].message.tool_calls
    assert (found.function.name, json.loads(found.function.arguments)) == ("weather", {"city": "Paris", "days": 2})
    assert reply.choices[0].finish_reason == "tool_calls"
    chunks = list(client.chat.completions.create(model=MODEL, messages=USER, tools=tools, stream=True))
    arguments = "".join(
        call.function.arguments or "" for c in chunks for call in c.choices[0].delta.tool_calls or [] if call.function
    )
    assert json.loads(arguments) == {"city": "Paris", "days": 2}


def test_chat_logprobs_are_finite_json(v4_application: Make) -> None:
    client = openai_client(v4_application(REPLY))
    reply: Any = client.chat.completions.create(model=MODEL, messages=USER, logprobs=True, top_logprobs=2)
    entries = reply.choices[0].logprobs.content
    assert [e.token for e in entries] == ["Hello", " there", ",", " friend", "!"]
    assert all(e.logprob <= 0 for e in entries)


def test_text_completion_fills_in_the_middle(v4_application: Make) -> None:
    seen: list[str] = []

    def reply(prompt: str) -> str:
        seen.append(prompt)
        return "return a + b"

    client = openai_client(v4_application(reply))
    plain = client.completions.create(model=MODEL, prompt="def f(a, b):\n    ", suffix="\n", max_tokens=64)
    assert plain.choices[0].text == "return a + b"
    assert plain.choices[0].finish_reason == "stop"
    chunks = list(client.completions.create(model=MODEL, prompt="def f(a, b):\n    ", max_tokens=64, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == "return a + b"
    assert chunks[-1].usage is not None
    echoed = client.completions.create(model=MODEL, prompt="# ", echo=True, max_tokens=64)
    assert echoed.choices[0].text == "# return a + b"


def test_text_completion_logprobs_have_the_legacy_layout(v4_application: Make) -> None:
    client = openai_client(v4_application("a b"))
    reply = client.completions.create(model=MODEL, prompt="x", logprobs=1)
    layout = reply.choices[0].logprobs
    assert layout is not None
    assert (layout.tokens, layout.text_offset) == (["a", " b"], [0, 1])
    assert [list(top) for top in layout.top_logprobs or []] == [["a"], [" b"]]


def test_responses_plain_and_streamed(v4_application: Make) -> None:
    client = openai_client(v4_application(REPLY))
    reply: Any = client.responses.create(model=MODEL, input="hi")
    assert reply.output_text == "Hello there, friend!"
    assert reply.output[0].content[0].text == "I think."
    assert (reply.status, reply.usage.output_tokens) == ("completed", 9)
    with client.responses.stream(model=MODEL, input="hi") as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Hello there, friend!"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


def test_messages_plain_and_streamed(v4_application: Make) -> None:
    client = anthropic_client(v4_application(REPLY))
    reply: Any = client.messages.create(model=MODEL, max_tokens=100, messages=USER)
    assert [block.type for block in reply.content] == ["thinking", "text"]
    assert (reply.content[1].text, reply.stop_reason) == ("Hello there, friend!", "end_turn")
    assert reply.usage.output_tokens == 9
    with client.messages.stream(model="claude-opus-4-1", max_tokens=100, messages=USER) as stream:
        assert "".join(stream.text_stream) == "Hello there, friend!"
        assert stream.get_final_message().stop_reason == "end_turn"


def test_models_are_listed_to_both_clients(v4_application: Make) -> None:
    application = v4_application()
    client = openai_client(application)
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")
    assert [m.id for m in anthropic_client(application).models.list()] == [MODEL]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "nope"}, "The supported API model names are deepseek-v4-pro, but you passed nope."),
        ({"temperature": 3}, "the valid range of temperature is [0, 2]"),
        ({"n": 2}, "only n = 1"),
        ({"logit_bias": {"1": 5}}, "'logit_bias' is not supported"),
        ({"max_tokens": 10**5}, "This model's maximum context length is 8192 tokens"),
        ({"response_format": {"type": "json_object"}}, "must contain the word 'json'"),
    ],
)
def test_a_bad_chat_request_is_the_clients_own_error(v4_application: Make, body: Any, message: str) -> None:
    client = openai_client(v4_application())
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**({"model": MODEL, "messages": USER} | body))
    assert message in caught.value.message
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 422), (b'{"model": 5}', 422), (b'{"model": "deepseek-v4-pro"}', 422)],
)
def test_syntax_is_400_and_shape_is_422(v4_application: Make, body: bytes, status: int) -> None:
    application = v4_application()
    for path in ("/chat/completions", "/v1/responses", "/anthropic/v1/messages", "/beta/completions"):
        reply = application.open("POST", path, body)
        if path == "/v1/responses" and status == 422 and body.startswith(b'{"model": "d'):
            continue  # there a model alone has the right shape
        assert reply.status == status
        error = json.loads(reply.body or b"")
        assert set(error["error"]) == {"message", "type", "param", "code"}
        assert (error.get("type") == "error") == path.startswith("/anthropic")


def test_messages_errors_raise_anthropics_own_classes(v4_application: Make) -> None:
    client = anthropic_client(v4_application())
    with pytest.raises(anthropic.BadRequestError, match="supported API model names"):
        client.messages.create(model="nope", max_tokens=5, messages=USER)
    with pytest.raises(anthropic.BadRequestError, match="at least one message"):
        client.messages.create(model=MODEL, max_tokens=5, messages=[])


def test_an_engine_failure_is_a_500_and_spares_the_next_request(v4_application: Make) -> None:
    def reply(prompt: str) -> str:
        if "boom" in prompt:
            raise RuntimeError("secret detail")
        return "</think>fine"

    client = openai_client(v4_application(reply), max_retries=0)
    boom: Any = [{"role": "user", "content": "boom"}]
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=MODEL, messages=boom)
    assert "secret detail" not in caught.value.message
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model=MODEL, messages=boom, stream=True)
    assert client.chat.completions.create(model=MODEL, messages=USER).choices[0].message.content == "fine"


def test_a_closed_stream_cancels_its_request(v4_application: Make) -> None:
    application = v4_application("</think>" + "word " * 5000, step_s=0.001)
    client = openai_client(application)
    stream = client.chat.completions.create(model=MODEL, messages=USER, stream=True)
    next(iter(stream))
    stream.close()
    for _ in range(1000):
        if application.loops[0].num_requests == 0:
            break
        __import__("time").sleep(0.01)
    assert application.loops[0].num_requests == 0
    assert application.loops[0].engine.num_steps < 4000


def test_too_many_requests_is_429(v4_application: Make) -> None:
    application = v4_application("</think>" + "word " * 2000, max_requests=1, step_s=0.001)
    client = openai_client(application, max_retries=0)
    with client.chat.completions.create(model=MODEL, messages=USER, stream=True) as stream:
        next(iter(stream))
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model=MODEL, messages=USER)


async def test_async_clients_plain_and_streamed(v4_application: Make) -> None:
    application = v4_application(REPLY)
    http = httpx2.AsyncClient(transport=AsyncOffseekTransport(application))
    client = openai.AsyncOpenAI(api_key="unused", base_url="https://x/v1", http_client=http)
    reply = await client.chat.completions.create(model=MODEL, messages=USER)
    assert reply.choices[0].message.content == "Hello there, friend!"
    text = ""
    async for chunk in await client.chat.completions.create(model=MODEL, messages=USER, stream=True):
        text += chunk.choices[0].delta.content or ""
    assert text == "Hello there, friend!"
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="nope", messages=USER)
    messages = anthropic.AsyncAnthropic(api_key="unused", base_url="https://x/anthropic", http_client=http)
    answer: Any = await messages.messages.create(model=MODEL, max_tokens=100, messages=USER)
    assert answer.content[1].text == "Hello there, friend!"
