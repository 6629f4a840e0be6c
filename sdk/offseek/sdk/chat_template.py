"""A checkpoint's own chat template, rendered in a sandbox and encoded so that content cannot forge structure.

Templates are Jinja2 as `transformers` documents them ("Templates for chat models"): variables `messages`, `tools`,
`add_generation_prompt`, `bos_token`, `eos_token`, and the helpers `raise_exception`, `strftime_now`, `tojson`. They
come with third-party checkpoints, hence the sandbox.

The spelling of a special token inside a message's content stays text: it is encoded without the added vocabulary.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from offseek.sdk.errors import ClientError, MissingExtraError


class ChatTemplateError(ClientError):
    """A chat template is missing, broken, or refuses the messages."""


class TemplateTokenizer(Protocol):
    """What encoding needs of a tokenizer; the engine's CheckpointTokenizer has it."""

    special_ids: frozenset[int]

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]: ...
    def token_bytes(self, token_id: int) -> bytes: ...


# Private-use characters stand for "a special token's spelling that is only text".
_OPEN, _CLOSE = "\U000f5ee0", "\U000f5ee1"
_MARK = re.compile(f"({_OPEN}[0-9]+{_CLOSE})")


class Shield:
    """Keeps special tokens that are only spelled in some text from acting as special tokens.

    `cover` replaces their spellings by private marks, which survive a template; `encode` turns the marks back into
    the ids of their ordinary text.
    """

    def __init__(self, tokenizer: TemplateTokenizer) -> None:
        self.tokenizer = tokenizer
        spellings = (tokenizer.token_bytes(i).decode("utf-8", "replace") for i in sorted(tokenizer.special_ids))
        self.spellings = [s for s in spellings if s]
        longest_first = sorted(self.spellings, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def cover(self, text: str) -> str:
        text = text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda m: f"{_OPEN}{self.spellings.index(m[0])}{_CLOSE}", text)

    def encode(self, text: str) -> list[int]:
        """Token ids of text in which special tokens act and covered ones do not."""
        if _OPEN not in text:
            return self.tokenizer.encode(text)
        ids: list[int] = []
        for part in _MARK.split(text):
            if part[:1] == _OPEN and part[-1:] == _CLOSE:
                ids += self._as_text(self.spellings[int(part[1:-1])])
            elif part:
                ids += self.tokenizer.encode(part)
        return ids

    def _as_text(self, spelling: str) -> list[int]:
        """Ids of a spelling cut in two, so that no part of it is a special token."""
        if len(spelling) == 1:  # cannot be cut: leave it out rather than let it act
            return []
        middle = len(spelling) // 2
        return [*self.tokenizer.encode(spelling[:middle]), *self.tokenizer.encode(spelling[middle:])]


class ChatTemplate:
    """One template with the tokenizer it was made for.

    source: Jinja text. bos_token, eos_token: their spellings, "" if there are none.
    """

    def __init__(self, source: str, tokenizer: TemplateTokenizer, *, bos_token: str = "", eos_token: str = "") -> None:
        self.source = source
        self.shield = Shield(tokenizer)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._template = _environment().from_string(source)

    @property
    def takes_tools(self) -> bool:
        """Whether the template has a slot for tools."""
        return re.search(r"\btools\b", self.source) is not None

    @property
    def has_think_tags(self) -> bool:
        """Whether the tokenizer can open and close a stretch of reasoning."""
        return "</think>" in self.shield.spellings and "<think>" in self.shield.spellings

    def render(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """Render messages to prompt text, special tokens spelled out. Raises ChatTemplateError if the template does."""
        import jinja2

        try:
            text: str = self._template.render(
                messages=list(messages),
                tools=list(tools) if tools else None,
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
                **variables,
            )
        except ChatTemplateError:
            raise
        except (jinja2.TemplateError, TypeError, KeyError, ValueError, OverflowError) as exc:
            raise ChatTemplateError(f"the chat template cannot render this conversation: {exc}") from exc
        return text

    def encode(self, messages: Iterable[Mapping[str, Any]], **settings: Any) -> list[int]:
        """Token ids of the rendered messages. Settings as for `render`."""
        covered = [_map_strings(message, self.shield.cover) for message in messages]
        return self.shield.encode(self.render(covered, **settings))


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: item if key == "role" else _map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_strings(item, change) for item in value]
    return value


def _environment() -> Any:
    try:
        from jinja2 import ext
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as exc:
        raise MissingExtraError("a checkpoint's chat template", "engine") from exc
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[ext.loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda layout: datetime.datetime.now().strftime(layout)
    return environment


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _refuse(message: str) -> Any:
    raise ChatTemplateError(f"the chat template refuses this conversation: {message}")
