"""Whole turns on a vLLM server: V4 requests with tools and thinking, checked here, asked for again when wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import openai
import pytest
from offseek.engine.tokenizer import CheckpointTokenizer
from offseek.grammars import GrammarCompiler
from offseek.sdk.application import Application
from offseek.sdk.dialects.v4 import V4Dialect
from offseek.sdk.model import ChatModel
from offseek.sdk.remote import RemoteCompiler, RemoteEngine
from offseek.sdk.transports import OffseekTransport

MODEL = "deepseek-v4-pro"
USER: Any = [{"role": "user", "content": "Weather?"}]
DSML = "｜DSML｜"
SCHEMA: Any = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
Ask = Callable[..., tuple[Any, list[dict[str, Any]]]]


def call(city: str) -> str:
    parameter = f'<{DSML}parameter name="city" string="true">{city}</{DSML}parameter>\n'
    return f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="look">\n{parameter}</{DSML}invoke>\n</{DSML}tool_calls>'


@pytest.fixture(params=["vllm", "sglang"])
def ask(request: pytest.FixtureRequest, v4_tokenizer: CheckpointTokenizer, v4_compiler: GrammarCompiler) -> Ask:
    """Ask a stand-in for the server, which gives these texts in turn; returns the reply and the bodies sent."""

    def run(*texts: str, **body: Any) -> tuple[Any, list[dict[str, Any]]]:
        bodies: list[dict[str, Any]] = []

        def handler(sent: httpx.Request) -> httpx.Response:
            bodies.append(json.loads(sent.content))
            text = texts[len(bodies) - 1]
            choice: dict[str, Any] = {"text": text, "finish_reason": "stop"}
            if bodies[-1].get("skip_special_tokens", True):
                choice["text"] = v4_tokenizer.decode(v4_tokenizer.encode(text))
            if request.param == "vllm":
                choice["token_ids"] = [*v4_tokenizer.encode(text), 1]
            return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 5}})

        engine = RemoteEngine(
            "http://server/v1",
            MODEL,
            encode=v4_tokenizer.encode,
            decode=v4_tokenizer.decode,
            context_length=2**20,
            flavor=request.param,
            transport=httpx.MockTransport(handler),
        )
        compiler: Any = RemoteCompiler(v4_compiler, v4_tokenizer.encode, v4_tokenizer.decode)
        dialect = V4Dialect("V4", tokenizer=v4_tokenizer, compiler=compiler, v41=False)
        model = ChatModel(name="V4", engine=engine, tokenizer=v4_tokenizer, compiler=compiler, dialect=dialect)
        application = Application({MODEL: model})
        http = httpx2.Client(transport=OffseekTransport(application))
        client = openai.OpenAI(api_key="unused", base_url="https://x/v1", http_client=http, max_retries=0)
        try:
            return client.chat.completions.create(**{"model": MODEL, "messages": USER} | body), bodies
        finally:
            application.close()

    return run


def test_tool_calls_are_read_and_wrong_ones_asked_for_again(ask: Ask) -> None:
    reply, bodies = ask(f"Hm.</think>{call('Paris')}", f"Hm.</think>So:{call('Rome')}", tools=TOOLS, seed=4)
    message = reply.choices[0].message
    assert (message.reasoning_content, message.content) == ("Hm.", "So:")
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Rome"}
    assert reply.choices[0].finish_reason == "tool_calls"
    assert [body["seed"] for body in bodies] == [4, 5]


def test_text_beside_tools_needs_no_second_try(ask: Ask) -> None:
    reply, bodies = ask("Hm.</think>Just text.", tools=TOOLS)
    assert (reply.choices[0].message.content, len(bodies)) == ("Just text.", 1)


def test_json_behind_reasoning_is_checked_by_value(ask: Ask) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    good = '{\n  "city":"Oslo"}'
    reply, bodies = ask('Hm.</think>{"city": "Paris"}', f"Hm.</think>{good}", response_format=wanted)
    assert (reply.choices[0].message.content, len(bodies)) == (good, 2)


def test_an_answer_that_stays_wrong_is_an_error(ask: Ask) -> None:
    with pytest.raises(openai.APIStatusError, match="violates the constraint") as caught:
        ask(*[f"Hm.</think>{call('Paris')}"] * 3, tools=TOOLS)
    assert caught.value.status_code == 503
