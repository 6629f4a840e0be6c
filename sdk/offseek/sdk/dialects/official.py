"""The official API as a model: a conversation goes out as a chat request, and the answer comes back as V4 output.

The API takes no token ids. A prompt is therefore a list of ids (for counting and as everywhere else) that carries the
chat request it stands for. What comes back is spelled with the V4 tokens, so that streams, parsing and usage work as
with any V4 model. Fields and limits: the public API documentation (`/chat/completions`, `/beta/completions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from offseek import recipe
from offseek.recipe.official import strict_schema_problems
from offseek.sdk.dialects.base import Constraint, Prepared
from offseek.sdk.dialects.hermes import invoke_markup
from offseek.sdk.dialects.v4 import V4Dialect
from offseek.sdk.prompts import Turn

_DSML, _THINK_END = "｜DSML｜", "</think>"
_SCHEMA_TEXT = "Reply with one JSON value that satisfies this JSON Schema, and with nothing else:\n"


class ChatPrompt(list[int]):
    """Token ids of a prompt, with the fields of the chat request that it stands for.

    reasons: the answer begins with reasoning. in_calls: it begins inside the block of tool calls.
    beta: the request needs the beta base (prefix completion, strict tools).
    """

    def __init__(
        self, ids: Iterable[int], fields: dict[str, Any], *, reasons: bool, in_calls: bool = False, beta: bool = False
    ) -> None:
        super().__init__(ids)
        self.fields = fields
        self.reasons = reasons
        self.in_calls = in_calls
        self.beta = beta


class OfficialDialect(V4Dialect):
    """Speaks V4 to us and chat requests to the API."""

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        return ChatPrompt(
            super().encode_turns(turns), {"messages": messages, "thinking": {"type": "disabled"}}, reasons=False
        )

    def prepare(self, request: recipe.ConversationRequest, constraint: Constraint | None) -> Prepared:
        prepared = super().prepare(request, constraint)
        conversation, parsing = request.conversation, request.parsing_options
        fields = _chat_fields(conversation, constraint)
        strict = any(tool["function"].get("strict") for tool in fields.get("tools", ()))
        starts = (recipe.ThinkingInitialStage.ReasoningStart, recipe.ThinkingInitialStage.ReasoningContinuation)
        prompt = ChatPrompt(
            prepared.prompt_token_ids,
            fields,
            reasons=parsing.thinking_initial_stage in starts,
            in_calls=parsing.starts_in_tool_calls,
            beta=strict or bool(fields["messages"][-1].get("prefix")),
        )
        return replace(prepared, prompt_token_ids=prompt)


def _chat_fields(conversation: recipe.Conversation, constraint: Constraint | None) -> dict[str, Any]:
    thinking = conversation.thinking_mode
    messages = [_message(message, keep_reasoning=bool(conversation.tools)) for message in conversation.messages]
    fields: dict[str, Any] = {"messages": messages, "thinking": {"type": "enabled" if thinking else "disabled"}}
    if thinking and conversation.reasoning_effort is not None:
        fields["reasoning_effort"] = conversation.reasoning_effort
    if conversation.tools:
        fields["tools"] = _tools(conversation.tools)
        # In thinking mode a demanded call is no field: it is checked when the answer is here.
        fields["tool_choice"] = conversation.tool_choice
    if constraint is not None and constraint.kind == "json":
        fields["response_format"] = {"type": "json_object"}
    return fields


def schema_fields(messages: list[dict[str, Any]], schema: Any) -> dict[str, Any]:
    """The messages with the schema told in the first system message; JSON mode where it asks for an object."""
    text = _SCHEMA_TEXT + json.dumps(schema, ensure_ascii=False)
    if messages and messages[0]["role"] == "system":
        told = [messages[0] | {"content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]
    else:
        told = [{"role": "system", "content": text}, *messages]
    object_wanted = isinstance(schema, dict) and schema.get("type", "object") == "object"
    return {"messages": told} | ({"response_format": {"type": "json_object"}} if object_wanted else {})


def _message(message: recipe.Message, *, keep_reasoning: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "assistant":
        if message.tool_calls:
            found["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.prefix:
            found["prefix"] = True
        if message.reasoning_content is not None and (keep_reasoning or message.prefix):
            found["reasoning_content"] = message.reasoning_content
    if message.role == "tool":
        found["tool_call_id"] = message.tool_call_id
    return found


def _tools(tools: Sequence[recipe.ToolDefinition]) -> list[dict[str, Any]]:
    """The tools; strict only where all are and the API takes their schemas, else the schemas are checked here alone."""
    found: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters or {"type": "object"}}}
        for tool in tools
    ]
    for entry, tool in zip(found, tools, strict=True):
        if tool.description:
            entry["function"]["description"] = tool.description
    if not all(tool.strict for tool in tools):
        return found
    strict = [{**entry, "function": entry["function"] | {"strict": True}} for entry in found]
    schemas = [entry["function"]["parameters"] for entry in strict]
    return found if any(True for schema in schemas for _ in strict_schema_problems(schema)) else strict


def answer_ids(tokenizer: recipe.Tokenizer, prompt: ChatPrompt, message: dict[str, Any], *, v41: bool) -> list[int]:
    """The V4 spelling of an answer: token ids from the end of the prompt on, without EOS.

    Raises ValueError when the arguments of a call are not a JSON object.
    """
    added = tokenizer.added_tokens
    ids: list[int] = []
    if prompt.reasons:
        ids += [*tokenizer.encode_ordinary(message.get("reasoning_content") or ""), added[_THINK_END]]
    ids += tokenizer.encode_ordinary(message.get("content") or "")
    if calls := message.get("tool_calls"):
        words = (" calls", " invoke", " parameter") if v41 else ("tool_calls", "invoke", "parameter")
        block = "\n".join(
            invoke_markup(
                _DSML, call["function"]["name"], json.loads(call["function"]["arguments"] or "{}"), words=words[1:]
            )
            for call in calls
        )
        block += f"\n</{_DSML}{words[0]}>"
        if not prompt.in_calls:
            block = f"\n\n<{_DSML}{words[0]}>\n{block}"
        for place, part in enumerate(block.split(_DSML)):
            ids += ([added[_DSML]] if place else []) + tokenizer.encode_ordinary(part)
    return ids
