"""DeepSeek V4 and V4.1: prompts by the recipe's encodings, constraints as whole-turn grammars."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offseek import recipe
from offseek.sdk.chat_template import Shield
from offseek.sdk.dialects.base import Constraint, Prepared, TokenReader, UnsupportedConversationError
from offseek.sdk.prompts import Turn

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar, GrammarCompiler


class V4Dialect:
    """Speaks V4, or with `v41` V4.1. tokenizer: the engine's."""

    def __init__(self, name: str, *, tokenizer: Any, compiler: GrammarCompiler, v41: bool) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.compiler = compiler
        self.v41 = v41
        self.shield = Shield(tokenizer)

    @property
    def model_version(self) -> recipe.ModelVersion:
        return recipe.ModelVersion.DeepseekV41Flash if self.v41 else recipe.ModelVersion.DeepseekV4Pro

    @property
    def takes_images(self) -> bool:
        return False  # the engine has no vision encoder

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
        ids = self.shield.encode(self.shield.cover(text))
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
        if constraint is None:
            return None
        raise UnsupportedConversationError(self.name, f"constrained answers ({constraint.kind}) yet")
