"""The official API as a remote engine. Our own server plays the API, in the process; its model is scripted."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from offseek.sdk.application import Application
from offseek.sdk.batch import run_batch
from offseek.sdk.documents import Document
from offseek.sdk.extraction import ExtractionOptions, Extractor
from offseek.sdk.model import ChatModel
from offseek.sdk.transports import OffseekTransport

Make = Callable[..., Application]
USER: Any = [{"role": "user", "content": "Which city?"}]
MODEL = "deepseek-v4-pro"
DSML = "｜DSML｜"
SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]


class Api:
    """Our server in the place of the official API. Keeps the bodies that it was sent; `edit` may change its answers."""

    def __init__(self, application: Application) -> None:
        self.inner = OffseekTransport(application)
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.edit: Callable[[dict[str, Any]], None] = lambda answer: None
        self.status = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        self.bodies.append(json.loads(request.content))
        if self.status != 200:
            return httpx.Response(self.status, json={"error": {"message": "no"}})
        answer = self.inner.handle_request(request)
        if answer.status_code != 200:
            return httpx.Response(answer.status_code, content=answer.content)
        body = json.loads(answer.content)
        self.edit(body)
        return httpx.Response(200, json=body)


@pytest.fixture
def connect(v4_application: Make) -> Iterator[Callable[..., tuple[Api, Application]]]:
    """Make an API whose model gives this text, and an application whose engine is that API."""
    made: list[Application] = []

    def build(reply: Any) -> tuple[Api, Application]:
        api = Api(v4_application(reply, context_length=2**20))
        model = ChatModel.official(MODEL, transport=httpx.MockTransport(api), backoff_s=0.001, retries=1)
        application = Application({MODEL: model})
        made.append(application)
        return api, application

    yield build
    for application in made:
        application.close()


def client(application: Application) -> openai.OpenAI:
    http = httpx2.Client(transport=OffseekTransport(application))
    return openai.OpenAI(api_key="unused", base_url="https://x/v1", http_client=http, max_retries=0)


def test_text_reasoning_and_usage_come_through_plain_and_streamed(connect: Any) -> None:
    api, application = connect("I think.</think>Hello there, 世界!")
    plain: Any = client(application).chat.completions.create(model=MODEL, messages=USER, reasoning_effort="max")  # type: ignore[call-overload]
    message = plain.choices[0].message
    assert (message.reasoning_content, message.content) == ("I think.", "Hello there, 世界!")
    assert plain.usage.completion_tokens_details.reasoning_tokens == 3
    assert plain.usage.prompt_tokens > 5
    sent = api.bodies[0]
    assert (sent["model"], sent["messages"], sent["stream"]) == (MODEL, USER, False)
    assert (sent["thinking"], sent["reasoning_effort"]) == ({"type": "enabled"}, "max")
    assert api.paths == ["/chat/completions"]
    chunks = client(application).chat.completions.create(model=MODEL, messages=USER, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello there, 世界!"


def test_calls_and_their_history_come_through_all_protocols(connect: Any) -> None:
    rome = f'<{DSML}parameter name="city" string="true">Rome</{DSML}parameter>\n'
    call = f'<{DSML}invoke name="look">\n{rome}</{DSML}invoke>'
    api, application = connect(f"Hm.</think>So.\n\n<{DSML}tool_calls>\n{call}\n{call}\n</{DSML}tool_calls>")
    reply: Any = client(application).chat.completions.create(model=MODEL, messages=USER, tools=TOOLS)
    found = reply.choices[0].message
    assert (found.content, reply.choices[0].finish_reason) == ("So.", "tool_calls")
    assert [json.loads(c.function.arguments) for c in found.tool_calls] == [{"city": "Rome"}] * 2
    history = [*USER, found.model_dump(exclude_none=True)]
    history += [{"role": "tool", "tool_call_id": c.id, "content": "sunny"} for c in found.tool_calls]
    client(application).chat.completions.create(model=MODEL, messages=history, tools=TOOLS)
    assert api.bodies[1]["messages"][1]["reasoning_content"] == "Hm."
    assert [m["role"] for m in api.bodies[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    http = httpx2.Client(transport=OffseekTransport(application))
    claude = anthropic.Anthropic(api_key="unused", base_url="https://x/anthropic", http_client=http)
    tools: Any = [{"name": "look", "input_schema": SCHEMA}]
    answer = claude.messages.create(model=MODEL, max_tokens=500, messages=USER, tools=tools)
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]


def test_a_schema_is_told_and_sent_as_json_mode_and_a_wrong_answer_is_repaired(connect: Any) -> None:
    answers = iter(['{"city": "R"}', '```json\n{"city": "Rome"}\n```'])
    api, application = connect("</think>{}")
    api.edit = lambda answer: answer["choices"][0]["message"].update(content=next(answers))
    reply = client(application).chat.completions.create(model=MODEL, messages=USER, response_format=FORMAT)  # type: ignore[call-overload]
    assert reply.choices[0].message.content == '{"city": "Rome"}'
    first, second = api.bodies
    assert first["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA) in first["messages"][0]["content"]
    assert second["messages"][-2] == {"role": "assistant", "content": '{"city": "R"}'}
    assert "$.city" in second["messages"][-1]["content"]


def test_wrong_calls_are_repaired_and_demanded_ones_insisted_on(connect: Any) -> None:
    def call(name: str, arguments: str) -> dict[str, Any]:
        one = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"content": "", "tool_calls": [one]}

    answers = iter([call("other", "{}"), call("look", '{"city": 5}'), call("look", '{"city": "Oslo"}')])
    api, application = connect("</think>x")
    api.edit = lambda answer: answer["choices"][0].update(message=next(answers), finish_reason="tool_calls")
    reply: Any = client(application).chat.completions.create(model=MODEL, messages=USER, tools=TOOLS)
    assert json.loads(reply.choices[0].message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    assert api.bodies[1]["messages"][-1]["content"].startswith("Error: there is no tool 'other'")
    assert "$.city" in api.bodies[2]["messages"][-1]["content"]
    talk = iter([{"content": "No."}, call("look", '{"city": "Oslo"}')])
    api.edit = lambda answer: answer["choices"][0].update(message=next(talk), finish_reason="stop")
    off: Any = {"thinking": {"type": "disabled"}}
    reply = client(application).chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, tool_choice="required", extra_body=off
    )
    assert reply.choices[0].finish_reason == "tool_calls"
    assert api.bodies[-1]["tool_choice"] == "required"


def test_strict_tools_go_to_the_beta_base_and_the_whole_schema_is_checked_here(connect: Any) -> None:
    api, application = connect("</think>x")
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA, "strict": True}}]
    answers = iter(['{"city": "R"}', '{"city": "Rome"}'])

    def edit(answer: dict[str, Any]) -> None:
        function = {"name": "look", "arguments": next(answers)}
        calls = [{"id": "c1", "type": "function", "function": function}]
        answer["choices"][0].update(message={"content": "", "tool_calls": calls}, finish_reason="tool_calls")

    api.edit = edit
    reply: Any = client(application).chat.completions.create(model=MODEL, messages=USER, tools=tools)
    assert json.loads(reply.choices[0].message.tool_calls[0].function.arguments) == {"city": "Rome"}
    sent = api.bodies[0]["tools"][0]["function"]
    assert sent["strict"] is True
    assert sent["parameters"]["properties"] == {"city": {"type": "string"}}  # minLength is beyond the strict subset
    assert api.paths == ["/beta/chat/completions"] * 2


def test_an_answer_that_stays_wrong_is_a_clear_error(connect: Any) -> None:
    api, application = connect("</think>no JSON at all")
    api.edit = lambda answer: answer["choices"][0]["message"].update(content="no JSON at all")
    with pytest.raises(openai.APIStatusError) as caught:
        client(application).chat.completions.create(model=MODEL, messages=USER, response_format=FORMAT)  # type: ignore[call-overload]
    assert caught.value.status_code == 503
    assert "wrong 3 times, at last: the answer is not JSON" in caught.value.message
    assert len(api.bodies) == 3


@pytest.mark.parametrize(
    ("status", "ours", "calls"),
    [(429, 429, 2), (503, 503, 2), (401, 500, 1), (402, 500, 1), (400, 400, 1), (422, 400, 1)],
)
def test_the_apis_own_errors_keep_their_meaning(connect: Any, status: int, ours: int, calls: int) -> None:
    api, application = connect("x")
    api.status = status
    with pytest.raises(openai.APIStatusError) as caught:
        client(application).chat.completions.create(model=MODEL, messages=USER)
    assert (caught.value.status_code, len(api.bodies)) == (ours, calls)
    assert f"the server answered {status}" in caught.value.message


@pytest.mark.parametrize("kind", ["regex", "ebnf"])
def test_what_the_api_has_no_field_for_is_refused(connect: Any, kind: str) -> None:
    api, application = connect("x")
    wanted = {"type": kind, kind: 'root ::= "a"' if kind == "ebnf" else "a"}
    with pytest.raises(openai.BadRequestError, match=f"no field for a {kind} constraint"):
        client(application).chat.completions.create(model=MODEL, messages=USER, extra_body={"response_format": wanted})
    assert api.bodies == []


def test_logprobs_and_text_completions_come_through(connect: Any) -> None:
    api, application = connect("Hm.</think>Hello there")
    reply: Any = client(application).chat.completions.create(model=MODEL, messages=USER, logprobs=True)
    assert [(e.token, e.logprob) for e in reply.choices[0].logprobs.content] == [("Hello", -0.5), (" there", -0.5)]
    text = client(application).completions.create(model=MODEL, prompt="def f(", suffix=")\n", max_tokens=20)
    assert text.choices[0].text.endswith("Hello there")
    assert (api.paths[-1], api.bodies[-1]["prompt"], api.bodies[-1]["suffix"]) == ("/beta/completions", "def f(", ")\n")


def test_extraction_and_batch_run_on_it(connect: Any, tmp_path: pathlib.Path) -> None:
    api, application = connect('{"city": "Rome"}')
    model = application.models[MODEL]
    documents = [Document(str(number), "I live in Rome.") for number in range(3)]
    rows = list(Extractor(model, SCHEMA, options=ExtractionOptions(max_tokens=50)).run(documents))
    assert [row.object for row in rows] == [{"city": "Rome"}] * 3
    assert api.bodies[0]["response_format"] == {"type": "json_object"}
    source = tmp_path / "in.jsonl"
    body = {"model": MODEL, "messages": USER, "thinking": {"type": "disabled"}, "response_format": FORMAT}
    source.write_text(json.dumps({"custom_id": "a", "url": "/v1/chat/completions", "body": body}) + "\n")
    assert run_batch(source, tmp_path / "out.jsonl", lambda: application).num_ok == 1
