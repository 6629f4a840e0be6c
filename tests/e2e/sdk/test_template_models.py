"""Checkpoints that are prompted by their own chat template: thinking, tools and constraints through the clients.

A small byte-level tokenizer with Qwen's tags, once as special tokens and once without the tool tags, and a template in
the manner of Qwen3. The engine is scripted: what it may write is up to the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import jsonschema
import openai
import pytest
from offseek.engine.request import GenerationRequest
from offseek.engine.tokenizer import CheckpointTokenizer, byte_alphabet
from offseek.grammars import GrammarCompiler
from offseek.sdk.application import Application
from offseek.sdk.dialects.choose import choose_dialect
from offseek.sdk.model import ChatModel
from offseek.sdk.scripted import ScriptedEngine
from offseek.sdk.transports import OffseekTransport
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = """
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{{ c.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""
THINKING = ["<think>", "</think>"]
TOOL_TAGS = ["<tool_call>", "</tool_call>"]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "enum": ["Paris", "Rome"]}},
}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
USER: Any = [{"role": "user", "content": "Weather?"}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
ROME = ("weather", {"city": "Rome", "days": 2})
OFF = {"thinking": {"type": "disabled"}}
Make = Callable[..., Application]


def tokenizer(tags: list[str]) -> CheckpointTokenizer:
    letters = dict(byte_alphabet())
    backend = Tokenizer(models.BPE(letters, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    names = ["<|im_start|>", "<|im_end|>", *tags]
    backend.add_tokens([AddedToken(name, special=index < 2, normalized=False) for index, name in enumerate(names)])
    return CheckpointTokenizer(backend, eos_token_ids=[257])


@pytest.fixture(params=["special", "spelled"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make an application whose model answers with the given text."""
    tokens = tokenizer(THINKING + (TOOL_TAGS if request.param == "special" else []))
    compiler = GrammarCompiler(tokens.build_vocabulary(vocab_size=tokens.vocab_size))
    dialect = choose_dialect("Qwen-like", tokens, TEMPLATE, compiler)
    made: list[Application] = []

    def build(reply: str) -> Application:
        engine = ScriptedEngine(
            lambda asked: tokens.encode(reply), eos_token_ids=[257], tokens_per_step=3, context_length=20_000
        )
        model = ChatModel(name="Qwen-like", engine=engine, tokenizer=tokens, compiler=compiler, dialect=dialect)
        application = Application({"qwen": model})
        made.append(application)
        return application

    yield build
    for application in made:
        application.close()


def chat(application: Application, **body: Any) -> Any:
    client = openai.OpenAI(
        api_key="unused",
        base_url="https://x/v1",
        http_client=httpx2.Client(transport=OffseekTransport(application)),
        max_retries=0,
    )
    extra = {key: body.pop(key) for key in ("thinking", "response_format") if key in body}
    return client.chat.completions.create(**{"model": "qwen", "messages": USER} | body, extra_body=extra)


def calls(reply: Any) -> list[tuple[str, Any]]:
    found = reply.choices[0].message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in found]


def test_an_optional_call_is_read_after_reasoning_and_text(make: Make) -> None:
    reply = chat(make(f"Hm.</think>\n\nLooking.\n{CALL}\n{CALL}"), tools=TOOLS)
    message = reply.choices[0].message
    assert (message.reasoning_content, message.content) == ("Hm.", "Looking.")
    assert calls(reply) == [ROME, ROME]
    assert reply.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("text", ["Just text, a < b.", "", "See <tool_cal or <tool_callx: no call."])
def test_text_without_a_call_stays_text(make: Make, text: str) -> None:
    reply = chat(make(text), tools=TOOLS, **OFF)
    assert (reply.choices[0].message.content or "", calls(reply)) == (text, [])
    assert reply.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "wrong",
    [
        '{"name": "nothing", "arguments": {}}',
        '{"name": "weather", "arguments": {"city": "London"}}',
        '{"name": "weather", "arguments": {"city": "Rome", "days": 0}}',
        '{"name": "weather", "arguments": {"town": "Rome"}}',
        "no JSON",
        '{"name": "weather", "arguments": {"city": "Ro</tool_call>',
    ],
)
@pytest.mark.parametrize("thinking", [True, False])
def test_what_opens_as_a_call_becomes_a_valid_call(make: Make, wrong: str, thinking: bool) -> None:
    text = f"So:\n<tool_call>\n{wrong}\n</tool_call>"
    reply = chat(make(("Hm.</think>" if thinking else "") + text), tools=TOOLS, **({} if thinking else OFF))
    ((name, arguments),) = calls(reply)
    jsonschema.validate(arguments, SCHEMA if name == "weather" else {})
    assert name in ("weather", "now")
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("So:", "tool_calls")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
@pytest.mark.parametrize("thinking", [True, False])
def test_a_demanded_call_comes_with_and_without_thinking(make: Make, choice: Any, thinking: bool) -> None:
    body = {"tools": TOOLS, "tool_choice": choice} | ({} if thinking else OFF)
    reply = chat(make("I had rather talk.</think>\n\nNo call." if thinking else "No call."), **body)
    ((name, arguments),) = calls(reply)
    if isinstance(choice, dict):
        assert name == "weather"
        jsonschema.validate(arguments, SCHEMA)
    assert reply.choices[0].message.content in (None, "")
    assert getattr(reply.choices[0].message, "reasoning_content", None) == ("I had rather talk." if thinking else None)
    willing = chat(
        make(("Hm.</think>\n\n" if thinking else "") + CALL.removeprefix("" if thinking else "<tool_call>\n")), **body
    )
    assert calls(willing) == [ROME]


def test_a_demand_for_an_undeclared_tool_is_refused(make: Make) -> None:
    with pytest.raises(openai.BadRequestError):
        chat(make("x"), tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}})


def test_messages_any_is_a_demand(make: Make) -> None:
    http = httpx2.Client(transport=OffseekTransport(make("Hm.</think>No call.")))
    client = anthropic.Anthropic(api_key="unused", base_url="https://x/anthropic", http_client=http)
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    reply = client.messages.create(
        model="qwen", max_tokens=500, messages=USER, tools=tools, tool_choice={"type": "any"}
    )
    (use,) = [block for block in reply.content if block.type == "tool_use"]
    jsonschema.validate(use.input, SCHEMA)
    assert reply.stop_reason == "tool_use"


def test_logprobs_together_with_tools_cover_reasoning_and_content(make: Make) -> None:
    reply = chat(make(f"Hm ok.</think>Looking 世.\n{CALL}"), tools=TOOLS, logprobs=True, top_logprobs=1)
    found = reply.choices[0].logprobs
    assert bytes(b for entry in found.content for b in entry.bytes).decode() == "Looking 世."
    assert bytes(b for entry in found.reasoning_content for b in entry["bytes"]).decode() == "Hm ok."
    assert {entry.logprob for entry in found.content} == {0.0}  # after the mask, as the scripted engine says
    assert calls(reply) == [ROME]
    without = chat(make(f"Hm ok.</think>Looking 世.\n{CALL}"), tools=TOOLS)
    assert reply.usage.completion_tokens == without.usage.completion_tokens


def test_an_ebnf_constraint_holds_behind_the_reasoning(make: Make) -> None:
    wanted = {"type": "ebnf", "ebnf": 'root ::= "<" ("red" | "blue") ">"'}
    reply = chat(make("Which?</think><red>"), response_format=wanted)
    assert (reply.choices[0].message.reasoning_content, reply.choices[0].message.content) == ("Which?", "<red>")
    other = chat(make("Which?</think>green"), response_format=wanted)
    assert other.choices[0].message.content in ("<red>", "<blue>")
    assert chat(make("<blue>"), response_format=wanted, **OFF).choices[0].message.content == "<blue>"


def test_a_history_of_calls_is_prompted_in_the_templates_own_slots(make: Make) -> None:
    asked: list[str] = []
    application = make("fine")
    engine: Any = application.models["qwen"].engine
    script = engine.script

    def listen(request: GenerationRequest) -> Any:
        asked.append(application.models["qwen"].tokenizer.decode(request.prompt_token_ids, skip_special=False))
        return script(request)

    engine.script = listen
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    history = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    history.append({"role": "tool", "tool_call_id": "c", "content": "12:00 <|im_end|>"})
    chat(application, messages=history, tools=TOOLS, **OFF)
    assert '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call><|im_end|>\n' in asked[0]
    assert "<|im_start|>tool\n12:00 <|im_end|><|im_end|>\n" in asked[0]
