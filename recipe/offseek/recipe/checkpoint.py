"""Prompts for any checkpoint: which encoding applies is a property of its tokenizer and chat template.

`encoding_for(tokenizer, chat_template)` gives the V4 or V4.1 encoding where the tokenizer holds the V4 special
tokens, else the template that the checkpoint carries, run in a Jinja sandbox with the variables and helpers that
Hugging Face templates expect. Knows no model, engine or file.

In both, spellings of special tokens inside message contents stay text: content cannot forge a turn.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from offseek._native import (
    ChatCompletionRequest,
    Conversation,
    ConversationRequest,
    ConversionOptions,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    ModelVersion,
    SpecialToken,
    Tokenizer,
)
from offseek.recipe.errors import EncodeError, RecipeError

Messages = Sequence[Mapping[str, Any]]

V4_TOKENS = (
    SpecialToken.Bos, SpecialToken.Eos, SpecialToken.User, SpecialToken.Assistant, SpecialToken.ThinkingStart,
    SpecialToken.ThinkingEnd, SpecialToken.Dsml,
)  # fmt: skip
_MODEL = "checkpoint"
_MARK = "\ue0fe\ufdd1\ue0ff"  # parts spellings of special tokens in contents while a template runs


class PromptTokenizer(Protocol):
    """What template prompts need from a tokenizer; `offseek.recipe.Tokenizer` has it."""

    @property
    def added_tokens(self) -> dict[str, int]: ...

    def encode_ordinary(self, text: str) -> list[int]: ...


class PromptEncoding(Protocol):
    """Messages (Chat Completions form) to prompt text and token ids."""

    @property
    def name(self) -> str:
        """`deepseek-v4`, `deepseek-v4.1` or `chat-template`."""
        ...

    def render(self, messages: Messages, *, tools: Sequence[Mapping[str, Any]] | None = None, **settings: Any) -> str:
        """The prompt. `settings`: request fields (DeepSeek) or template variables."""
        ...

    def encode(
        self, messages: Messages, *, tools: Sequence[Mapping[str, Any]] | None = None, **settings: Any
    ) -> list[int]:
        """The token ids of the prompt."""
        ...


def v4_version(added_tokens: Mapping[str, int]) -> ModelVersion | None:
    """The version whose prompts a tokenizer with these added tokens is for; None when it lacks a V4 special token."""
    if not all(token.default_str() in added_tokens for token in V4_TOKENS):
        return None
    is_v41 = SpecialToken.System.default_str() in added_tokens
    return ModelVersion.DeepseekV41Flash if is_v41 else ModelVersion.DeepseekV4Pro


def encoding_for(
    tokenizer: Tokenizer,
    chat_template: str | None = None,
    *,
    bos_token: str | None = None,
    eos_token: str | None = None,
) -> PromptEncoding:
    """The encoding of a checkpoint.

    chat_template: Jinja source, as in `tokenizer_config.json`; used only where the tokenizer is not a V4 one.
    bos_token, eos_token: spellings that templates refer to.
    Raises RecipeError when there is neither, ImportError (naming the extra) when Jinja is needed and missing.
    """
    if (version := v4_version(tokenizer.added_tokens)) is not None:
        return DeepseekPromptEncoding(tokenizer, version)
    if chat_template is None:
        raise RecipeError("the tokenizer has no V4 special tokens and the checkpoint has no chat template")
    return TemplatePromptEncoding(tokenizer, chat_template, bos_token=bos_token, eos_token=eos_token)


class DeepseekPromptEncoding:
    """V4 or V4.1 prompts. `settings` of `render` and `encode` are fields of a Chat Completions body."""

    def __init__(self, tokenizer: Tokenizer, version: ModelVersion) -> None:
        encoding = DeepseekV41Encoding() if version == ModelVersion.DeepseekV41Flash else DeepseekV4Encoding()
        self._encoding = encoding.with_tokenizer(tokenizer)
        self._options = ConversionOptions().with_model_versions_by_name({_MODEL: version})
        self._name = "deepseek-v4.1" if version == ModelVersion.DeepseekV41Flash else "deepseek-v4"

    @property
    def name(self) -> str:
        return self._name

    def convert(
        self, messages: Messages, *, tools: Sequence[Mapping[str, Any]] | None = None, **settings: Any
    ) -> ConversationRequest:
        """The converted request. Raises RequestError and ConversionError."""
        body = {**settings, "model": _MODEL, "messages": list(messages)}
        if tools is not None:
            body["tools"] = list(tools)
        return ChatCompletionRequest(body).convert(self._options)

    def render(self, messages: Messages, *, tools: Sequence[Mapping[str, Any]] | None = None, **settings: Any) -> str:
        return self._encoding.render_conversation(self._conversation(messages, tools, settings)).prompt

    def encode(
        self, messages: Messages, *, tools: Sequence[Mapping[str, Any]] | None = None, **settings: Any
    ) -> list[int]:
        return self._encoding.encode(self._conversation(messages, tools, settings))

    def _conversation(
        self, messages: Messages, tools: Sequence[Mapping[str, Any]] | None, settings: dict[str, Any]
    ) -> Conversation:
        return self.convert(messages, tools=tools, **settings).conversation


class TemplatePromptEncoding:
    """Prompts made by a Jinja chat template. `settings` are variables of the template.

    Raises EncodeError when the template fails or refuses the messages.
    """

    name = "chat-template"

    def __init__(
        self, tokenizer: PromptTokenizer, source: str, *, bos_token: str | None = None, eos_token: str | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._added = tokenizer.added_tokens
        self._spellings = sorted(filter(None, self._added), key=len, reverse=True)
        self._variables = {"bos_token": bos_token or "", "eos_token": eos_token or ""}
        self._render = compile_template(source)

    def render(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **settings: Any,
    ) -> str:
        return self._marked(messages, tools, add_generation_prompt, settings).replace(_MARK, "")

    def encode(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **settings: Any,
    ) -> list[int]:
        ids: list[int] = []
        text = self._marked(messages, tools, add_generation_prompt, settings)
        for stretch, token in self._stretches(text):
            ids += self._tokenizer.encode_ordinary(stretch.replace(_MARK, ""))
            if token is not None:
                ids.append(self._added[token])
        return ids

    def _marked(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        settings: dict[str, Any],
    ) -> str:
        """The prompt with a mark inside every special spelling that came from the caller."""
        variables = {
            "documents": None, **self._variables, **settings, "messages": self._guard(list(messages)),
            "tools": self._guard(list(tools)) if tools else None, "add_generation_prompt": add_generation_prompt,
        }  # fmt: skip
        return self._render(variables)

    def _guard(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._guard_text(value)
        if isinstance(value, Mapping):
            return {key: self._guard(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._guard(item) for item in value]
        return value

    def _guard_text(self, text: str) -> str:
        if _MARK in text:
            raise EncodeError("content holds the private-use sequence that marks special spellings")
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, spelling[:1] + _MARK + spelling[1:])
        return text

    def _stretches(self, text: str) -> Iterable[tuple[str, str | None]]:
        """Plain stretches, each with the special token after it (longest match first)."""
        start = at = 0
        firsts = {spelling[0] for spelling in self._spellings}
        while at < len(text):
            token = None
            if text[at] in firsts:
                token = next((s for s in self._spellings if text.startswith(s, at)), None)
            if token is None:
                at += 1
                continue
            yield text[start:at], token
            start = at = at + len(token)
        yield text[start:], None


def compile_template(source: str) -> Callable[[dict[str, Any]], str]:
    """Compile a chat template in an immutable sandbox; the result renders it with the given variables.

    Offers what Hugging Face templates expect: `tojson` without HTML escapes, `raise_exception`, `strftime_now`, loop
    controls, `generation` blocks. Raises ImportError without jinja2 (extra `engine`), RecipeError for a bad template.
    """
    try:
        import jinja2
        from jinja2 import ext, nodes, sandbox
        from jinja2.parser import Parser
    except ImportError as exc:
        raise ImportError("chat templates need jinja2: pip install 'offseek[engine]'") from exc

    class Generation(ext.Extension):
        """`{% generation %}…{% endgeneration %}` marks training targets; in prompts it is transparent."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def to_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def strftime_now(pattern: str) -> str:
        return datetime.datetime.now().strftime(pattern)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[ext.loopcontrols, Generation]
    )
    environment.filters["tojson"] = to_json
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    try:
        template = environment.from_string(source)
    except jinja2.TemplateSyntaxError as exc:
        raise RecipeError(f"chat template, line {exc.lineno}: {exc.message}") from exc

    def render(variables: dict[str, Any]) -> str:
        try:
            return template.render(variables)
        except (jinja2.TemplateError, TypeError, KeyError, ValueError, ZeroDivisionError, OverflowError) as exc:
            raise EncodeError(f"chat template: {exc}") from exc

    return render
