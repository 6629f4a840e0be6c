"""DeepSeek V4 and V4.1: prompts by the recipe's encodings, constraints as whole-turn grammars."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offseek import recipe
from offseek.sdk.dialects.base import Constraint, Prepared, TokenReader, UnsupportedConversationError
from offseek.sdk.prompts import Turn

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar, GrammarCompiler
    from offseek.grammars.turn import TurnKind, TurnStage


class V4Dialect:
    """Speaks V4, or with `v41` V4.1. tokenizer: the engine's."""

    def __init__(self, name: str, *, tokenizer: Any, compiler: GrammarCompiler, v41: bool) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.compiler = compiler
        self.v41 = v41

    @property
    def model_version(self) -> recipe.ModelVersion:
        return recipe.ModelVersion.DeepseekV41Flash if self.v41 else recipe.ModelVersion.DeepseekV4Pro

    @property
    def calls_after_reasoning(self) -> bool:
        return False

    def shows_images(self, protocol: str) -> bool:
        """V4 writes a placeholder for images, except in chat, where the official API refuses them."""
        return not self.v41 and protocol != "chat"

    def options(self, options: recipe.ConversionOptions) -> recipe.ConversionOptions:
        return options

    @functools.cached_property
    def recipe_tokenizer(self) -> recipe.Tokenizer:
        return recipe.Tokenizer.from_str(self.tokenizer.backend.to_str())

    @functools.cached_property
    def encoding(self) -> Any:
        kind = recipe.DeepseekV41Encoding if self.v41 else recipe.DeepseekV4Encoding
        return kind().with_tokenizer(self.recipe_tokenizer)

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        kinds = {"system": recipe.SystemMessage, "user": recipe.UserMessage, "assistant": recipe.AssistantMessage}
        messages = [kinds[turn.role](turn.text) for turn in turns]
        ids: list[int] = self.encoding.encode(recipe.Conversation(messages, thinking_mode=False))
        return ids

    def encode_plain(self, text: str, *, bos: bool = True) -> list[int]:
        """BOS and the text; the spelling of a special token in it stays text."""
        ids = self.recipe_tokenizer.encode_ordinary(text)
        return [self.tokenizer.token_id("<｜begin▁of▁sentence｜>"), *ids] if bos else ids

    def split_bos(self, ids: list[int]) -> tuple[list[int], list[int]]:
        return ids[:1], ids[1:]

    def prepare(self, request: recipe.ConversationRequest, constraint: Constraint | None) -> Prepared:
        if any(message.image_sources for message in request.conversation.messages):
            raise UnsupportedConversationError(self.name, "images")
        ids: list[int] = self.encoding.encode(request.conversation)
        reader = TokenReader(
            self.recipe_tokenizer, logprobs=request.inference_options.logprobs, masked=constraint is not None
        )
        grammar = self._grammar(request, constraint)
        return Prepared(prompt_token_ids=ids, grammar=grammar, parsing=request.parsing_options, reader=reader)

    def _grammar(self, request: recipe.ConversationRequest, constraint: Constraint | None) -> CompiledGrammar | None:
        """The grammar of the whole turn: reasoning is free, then the answer is what the constraint says."""
        if constraint is None:
            return None
        parsing = request.parsing_options
        stage = _stage(parsing.thinking_initial_stage)
        kind, schema = turn_constraint(constraint)
        return self.compiler.compile_turn(
            kind,
            schema,
            version="v4.1" if self.v41 else "v4",
            stage=stage,
            starts_in_tool_calls=parsing.starts_in_tool_calls,
        )


def _stage(stage: recipe.ThinkingInitialStage | None) -> TurnStage | None:
    if stage is None:
        return None
    if stage == recipe.ThinkingInitialStage.ReasoningStart:
        return "reasoning_start"
    if stage == recipe.ThinkingInitialStage.ReasoningContinuation:
        return "reasoning_continuation"
    return "content_continuation"


def turn_constraint(constraint: Constraint) -> tuple[TurnKind, str]:
    """Kind and source as `compile_turn` takes them, from the schemas as they were sent."""
    match constraint.kind:
        case "json":
            return "json", ""
        case "json_schema":
            return "json", json.dumps(constraint.schema, ensure_ascii=False)
        case "regex" | "ebnf" as kind:
            return kind, constraint.pattern
        case _:
            tools = [
                {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters or {}}}
                for tool in constraint.tools
            ]
            return "tool_call_required" if constraint.required else "tool_call", json.dumps(tools, ensure_ascii=False)
