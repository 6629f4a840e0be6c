"""Checkpoints without the V4 tokens: prompted by the chat template they carry, read as plain text.

What the template has a slot for is used (tools, thinking); what it has none for is refused by name, so that nothing
of a request is lost on the way. Tool calls are written and read in the Hermes/Qwen syntax (`hermes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offseek import recipe
from offseek.recipe.checkpoint import TemplatePromptEncoding
from offseek.sdk.dialects.base import Constraint, Prepared, TokenReader, UnsupportedConversationError
from offseek.sdk.dialects.hermes import OPEN, HermesReader
from offseek.sdk.dialects.v4 import turn_constraint
from offseek.sdk.prompts import Turn

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar, GrammarCompiler

_TAGS = ("</think>", "<tool_call>", "</tool_call>")
_FORMAT = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"


class TemplateDialect:
    """Speaks through the checkpoint's chat template.

    tokenizer: the engine's. source: Jinja text of the template.
    """

    def __init__(self, name: str, source: str, *, tokenizer: Any, compiler: GrammarCompiler) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.compiler = compiler
        self.recipe_tokenizer = recipe.Tokenizer.from_str(tokenizer.backend.to_str())
        added = self.recipe_tokenizer.added_tokens
        self.takes_tools = re.search(r"\btools\b", source) is not None
        self.has_think_tags = "<think>" in added and "</think>" in added
        eos = tokenizer.eos_token_ids[0] if tokenizer.eos_token_ids else None
        self.encoding = TemplatePromptEncoding(
            self.recipe_tokenizer,
            source,
            bos_token=self._spelling(tokenizer.bos_token_id),
            eos_token=self._spelling(eos),
        )

    def _spelling(self, token_id: int | None) -> str | None:
        return None if token_id is None else self.tokenizer.token_bytes(token_id).decode("utf-8", "replace")

    @property
    def model_version(self) -> recipe.ModelVersion:
        """The version whose conversion rules apply; those of V4 Pro leave sampling settings as requested."""
        return recipe.ModelVersion.DeepseekV4Pro

    @property
    def calls_after_reasoning(self) -> bool:
        return True

    def shows_images(self, protocol: str) -> bool:
        return False

    def options(self, options: recipe.ConversionOptions) -> recipe.ConversionOptions:
        return options.with_default_thinking_mode(self.has_think_tags)

    # --- prompts

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        return self._prompt([{"role": turn.role, "content": turn.text} for turn in turns], thinking=False)

    def encode_plain(self, text: str, *, bos: bool = True) -> list[int]:
        """BOS if the tokenizer is configured to add it, and the text; spelled special tokens stay text."""
        ids: list[int] = self.tokenizer.encode("", add_special_tokens=bos)
        return ids + self.recipe_tokenizer.encode_ordinary(text)

    def split_bos(self, ids: list[int]) -> tuple[list[int], list[int]]:
        bos = self.tokenizer.bos_token_id
        return (ids[:1], ids[1:]) if ids and bos is not None and ids[0] == bos else ([], ids)

    def prepare(self, request: recipe.ConversationRequest, constraint: Constraint | None) -> Prepared:
        conversation = request.conversation
        thinking = conversation.thinking_mode
        tools = [] if conversation.tool_choice == "none" else conversation.tools
        self._refuse(conversation, tools)
        messages = [self._message(m) for m in conversation.messages]
        if text := _format_text(conversation):
            messages = _with_system(messages, text)
        prefix = conversation.messages[-1] if conversation.messages and conversation.messages[-1].prefix else None
        declared = [_tool(tool) for tool in tools]
        ids = self._prompt(messages[:-1] if prefix else messages, thinking=thinking, tools=declared)
        if prefix is not None:
            if prefix.reasoning_content or thinking:
                self._cannot("a prefix together with thinking")
            ids += self.recipe_tokenizer.encode_ordinary(prefix.content)
        parsing = request.parsing_options
        inference = request.inference_options
        if tools:
            opened = constraint is not None and constraint.required and not thinking
            if opened:
                ids += self.tokenizer.encode(OPEN.decode() + "\n")
            reader = HermesReader(
                self.tokenizer,
                starts_in_reasoning=thinking,
                starts_in_call=opened,
                recipe_tokenizer=self.recipe_tokenizer if inference.logprobs else None,
                masked=constraint is not None,
            )
            parsing.starts_in_tool_calls = False
            parsing.special_tokens = reader.special_tokens
            grammar = self._grammar(constraint, thinking, starts_in_tool_calls=opened)
            return Prepared(prompt_token_ids=ids, grammar=grammar, parsing=parsing, reader=reader)
        token_reader = TokenReader(self.recipe_tokenizer, logprobs=inference.logprobs, masked=constraint is not None)
        return Prepared(
            prompt_token_ids=ids, grammar=self._grammar(constraint, thinking), parsing=parsing, reader=token_reader
        )

    def _prompt(self, messages: list[dict[str, Any]], *, thinking: bool, tools: Sequence[Any] = ()) -> list[int]:
        variables = {"enable_thinking": thinking} if self.has_think_tags else {}
        ids = self.encoding.encode(messages, tools=tools, **variables)
        if not self.has_think_tags:
            return ids
        tail = self.tokenizer.decode(ids[-8:], skip_special=False).rstrip()
        opened = tail.endswith("<think>")
        if thinking and not opened:  # some templates leave it to the model to open its reasoning
            ids += self.tokenizer.encode("<think>\n")
        if not thinking and opened:  # and some know no way to leave it out
            ids += self.tokenizer.encode("\n</think>\n\n")
        return ids

    def _message(self, message: recipe.Message) -> dict[str, Any]:
        found: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "assistant":
            if message.reasoning_content:
                found["reasoning_content"] = message.reasoning_content
            if message.tool_calls:
                found["tool_calls"] = [_call(call) for call in message.tool_calls]
        if message.role == "tool":
            found["tool_call_id"] = message.tool_call_id
        return found

    # --- what cannot be said

    def _cannot(self, what: str) -> None:
        raise UnsupportedConversationError(self.name, what)

    def _refuse(self, conversation: recipe.Conversation, tools: Sequence[Any]) -> None:
        if conversation.thinking_mode and not self.has_think_tags:
            self._cannot("thinking (its chat template has no think tags)")
        if tools and not self.takes_tools:
            self._cannot("tools (its chat template has no slot for them)")
        for message in conversation.messages:
            if message.role == "latest_reminder":
                self._cannot("latest_reminder messages")
            if (message.role == "tool" or message.tool_calls) and not self.takes_tools:
                self._cannot("tool messages (its chat template has no slot for them)")
            if message.image_sources:
                self._cannot("images")

    # --- constraints

    def _grammar(
        self, constraint: Constraint | None, thinking: bool, *, starts_in_tool_calls: bool = False
    ) -> CompiledGrammar | None:
        """The grammar of the whole turn: reasoning is free up to the tag that ends it, then the constraint holds."""
        if constraint is None:
            return None
        if constraint.kind in ("json", "json_schema") and not thinking:
            schema = {"type": "object"} if constraint.kind == "json" else constraint.schema
            return self.compiler.compile_json_schema(
                schema, whitespace="spaced", numbers="canonical", property_order="schema"
            )
        kind, source = turn_constraint(constraint)
        added = self.recipe_tokenizer.added_tokens
        return self.compiler.compile_turn(
            kind,
            source,
            version="hermes" if constraint.kind == "tools" else "v4",
            stage="reasoning_start" if thinking else None,
            starts_in_tool_calls=starts_in_tool_calls,
            special_tokens={tag: added[tag] for tag in _TAGS if tag in added},
        )


def _format_text(conversation: recipe.Conversation) -> str:
    if conversation.response_format == "json_object":
        return _FORMAT + '{"type": "json_object"}'
    if conversation.response_format == "json_schema":
        return _FORMAT + json.dumps(conversation.response_schema, ensure_ascii=False)
    return ""


def _with_system(messages: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    if messages and messages[0]["role"] == "system":
        return [messages[0] | {"content": messages[0]["content"] + text}, *messages[1:]]
    return [{"role": "system", "content": text.lstrip()}, *messages]


def _tool(tool: recipe.ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
    return {"type": "function", "function": function}


def _call(call: recipe.ToolCall) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        arguments = {"arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
