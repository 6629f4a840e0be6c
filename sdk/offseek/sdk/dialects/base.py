"""How one kind of checkpoint is spoken to: the seam between the protocols and a model's own prompt and syntax.

A dialect turns a converted request into token ids and a grammar, and says how the recipe's stream processor has to
read the output. `v4` speaks the DeepSeek V4 encodings; `template` whatever chat template the checkpoint carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from offseek import recipe
from offseek.engine.request import RequestOutput
from offseek.sdk.errors import ClientError
from offseek.sdk.prompts import Turn

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar


class UnsupportedConversationError(ClientError):
    """The model's prompt format cannot express the request. Names the model."""

    def __init__(self, model: str, what: str) -> None:
        super().__init__(f"The model {model} does not support {what}.")
        self.model = model


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What the answer must be, taken from the request as it was sent.

    kind: "json" (any JSON object), "json_schema", "regex", "ebnf", or "tools" (a tool section or free text; with
    `required`, a tool section).
    """

    kind: str
    schema: Any = None
    pattern: str = ""
    tools: Sequence[Any] = ()  # recipe.ToolDefinition, parameters as they were sent
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request in the model's own terms.

    parsing: options for the stream processor. reader: engine outputs → inference chunks for it.
    """

    prompt_token_ids: list[int]
    grammar: CompiledGrammar | None
    parsing: recipe.ParsingOptions
    reader: Reader


class Reader(Protocol):
    """Turns engine outputs into the recipe's inference chunks."""

    tokenizer: recipe.Tokenizer | None

    def read(self, output: RequestOutput) -> list[recipe.InferenceChunk]: ...


class Dialect(Protocol):
    """One way of prompting."""

    @property
    def model_version(self) -> recipe.ModelVersion:
        """The version whose conversion rules apply."""
        ...

    @property
    def calls_after_reasoning(self) -> bool:
        """Whether a tool call may be demanded together with thinking; officially it may not."""
        ...

    def shows_images(self, protocol: str) -> bool:
        """Whether an image in a request of this protocol becomes something in the prompt, if only a placeholder."""
        ...

    def options(self, options: recipe.ConversionOptions) -> recipe.ConversionOptions:
        """Adapt conversion (default thinking mode, ...)."""
        ...

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        """Token ids of a plain chat that the model is to answer, without thinking."""
        ...

    def encode_plain(self, text: str, *, bos: bool = True) -> list[int]:
        """Token ids of text outside any chat."""
        ...

    def split_bos(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """The BOS (or nothing) that `encode_plain` put first, and the rest."""
        ...

    def prepare(self, request: recipe.ConversationRequest, constraint: Constraint | None) -> Prepared:
        """Raises UnsupportedConversationError for what the model cannot express, GrammarError for the constraint."""
        ...


class TokenReader:
    """Passes token ids through; the stream processor decodes them. `logprobs`: also pass log probabilities."""

    def __init__(self, tokenizer: recipe.Tokenizer, *, logprobs: bool, masked: bool) -> None:
        self.tokenizer: recipe.Tokenizer | None = tokenizer
        self.logprobs = logprobs
        self.masked = masked

    def read(self, output: RequestOutput) -> list[recipe.InferenceChunk]:
        if not output.token_ids:
            return []
        logprobs = None
        if self.logprobs:
            logprobs = [
                (p.masked, list(p.top_masked)) if self.masked else (p.raw, list(p.top_raw)) for p in output.logprobs
            ]
        return [recipe.InferenceChunk.tokens(list(output.token_ids), logprobs)]
