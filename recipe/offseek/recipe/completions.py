"""`POST /beta/completions`: plain and fill-in-the-middle completions, which `deepseek_recipe` does not have.

The prompt of a plain completion is the begin-of-sentence token and the text; with a suffix it is that token and
`<｜fim▁begin｜>`prompt`<｜fim▁hole｜>`suffix`<｜fim▁end｜>`, as published with DeepSeek-Coder. Field ranges follow the
public API description (`docs/recipe.md`). Texts stay text: a spelling of a special token in them is no token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offseek._native import ConversionOptions, ModelVersion, SpecialToken, Tokenizer
from offseek.recipe.errors import ConversionError, EncodeError, RequestError

MAX_COMPLETION_TOKENS = 4096
MAX_STOP_SEQUENCES = 16
MAX_LOGPROBS = 20
FIM_BEGIN, FIM_HOLE, FIM_END = "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"
_FIELDS: dict[str, tuple[type, ...]] = {
    "model": (str,), "prompt": (str,), "suffix": (str,), "echo": (bool,), "logprobs": (int,), "max_tokens": (int,),
    "stop": (str, list), "stream": (bool,), "stream_options": (dict,), "temperature": (int, float),
    "top_p": (int, float),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionPrompt:
    """A prompt and the code point ranges of its special tokens, as in `RenderedPrompt`."""

    prompt: str
    special_ranges: tuple[tuple[int, int], ...]

    def encode(self, tokenizer: Tokenizer) -> list[int]:
        """Token ids. Raises EncodeError for a special token that the tokenizer does not have."""
        ids: list[int] = []
        at = 0
        for start, end in self.special_ranges:
            ids += tokenizer.encode_ordinary(self.prompt[at:start])
            spelling = self.prompt[start:end]
            token = tokenizer.special_id(spelling)
            if token is None:
                raise EncodeError(f'special token "{spelling}" is not in the added vocabulary')
            ids.append(token)
            at = end
        return ids + tokenizer.encode_ordinary(self.prompt[at:])


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A completion request. Thinking is always off.

    suffix: text after the hole; None or "" = plain completion.
    echo: the answer begins with the prompt (not with a suffix or logprobs).
    logprobs: alternatives per token, 0..20.
    max_tokens: 1..4096; None = what the caller's engine defaults to.
    temperature in [0, 2], top_p in (0, 1].
    ignored: fields of the body that have no effect.
    """

    model: str
    model_version: ModelVersion
    prompt: str
    suffix: str | None = None
    echo: bool = False
    logprobs: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    ignored: tuple[str, ...] = field(default=())

    @classmethod
    def from_body(cls, body: bytes | str | Mapping[str, Any], options: ConversionOptions) -> CompletionRequest:
        """Decode and check a body.

        Raises RequestError for a body of the wrong shape (names the field), ConversionError for values out of range and
        for combinations that the API refuses.
        """
        fields = _decode(body)
        version = options.model_versions_by_name.get(fields["model"])
        if version is None:
            names = ", ".join(sorted(options.model_versions_by_name))
            raise _refuse(f"The supported API model names are {names}, but you passed {fields['model']}.")
        stream_options = fields.get("stream_options")
        stream = fields.get("stream", False)
        if stream_options is not None and not stream:
            raise _refuse("stream_options should be set along with stream = true")
        request = cls(
            model=fields["model"],
            model_version=version,
            prompt=fields["prompt"],
            suffix=fields.get("suffix"),
            echo=fields.get("echo", False),
            logprobs=_ranged(fields, "logprobs", 0, MAX_LOGPROBS),
            max_tokens=_ranged(fields, "max_tokens", 1, MAX_COMPLETION_TOKENS),
            stop=_stop(fields.get("stop")),
            stream=stream,
            include_usage=bool((stream_options or {}).get("include_usage")),
            temperature=_temperature(fields),
            top_p=_top_p(fields),
            ignored=tuple(sorted(set(fields) - set(_FIELDS))),
        )
        if request.echo and request.suffix:
            raise _refuse("echo cannot be used with suffix")
        if request.echo and request.logprobs is not None:
            raise _refuse("echo cannot be used with logprobs")
        return request

    def render(self) -> CompletionPrompt:
        """The prompt."""
        bos = SpecialToken.Bos.default_str()
        if not self.suffix:
            return CompletionPrompt(prompt=bos + self.prompt, special_ranges=((0, len(bos)),))
        pieces = [
            (bos, True),
            (FIM_BEGIN, True),
            (self.prompt, False),
            (FIM_HOLE, True),
            (self.suffix, False),
            (FIM_END, True),
        ]
        text, ranges = "", []
        for piece, is_special in pieces:
            if is_special:
                ranges.append((len(text), len(text) + len(piece)))
            text += piece
        return CompletionPrompt(prompt=text, special_ranges=tuple(ranges))


def _refuse(message: str) -> ConversionError:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
    body = json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":"))
    return ConversionError(message, 400, body)


def _decode(body: bytes | str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise RequestError(f"invalid JSON request: {exc}") from exc
    if not isinstance(body, Mapping):
        raise RequestError(f"invalid request body: expected an object, got {type(body).__name__}")
    fields = {key: value for key, value in body.items() if value is not None}
    for name in ("model", "prompt"):
        if name not in fields:
            raise RequestError(f"invalid request body: missing field `{name}`")
    for name, kinds in _FIELDS.items():
        value = fields.get(name)
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise RequestError(f"invalid request body: `{name}` is {type(value).__name__}, expected {wanted}")
    return fields


def _ranged(fields: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value: int | None = fields.get(name)
    if value is not None and not low <= value <= high:
        raise _refuse(f"Invalid {name} value, the valid range of {name} is [{low}, {high}]")
    return value


def _temperature(fields: Mapping[str, Any]) -> float:
    value = float(fields.get("temperature", 1.0))
    if not 0.0 <= value <= 2.0:
        raise _refuse("Invalid temperature value, the valid range of temperature is [0, 2]")
    return value


def _top_p(fields: Mapping[str, Any]) -> float:
    value = float(fields.get("top_p", 1.0))
    if not 0.0 < value <= 1.0:
        raise _refuse("Invalid top_p value, the valid range of top_p is (0, 1.0]")
    return value


def _stop(value: str | list[Any] | None) -> tuple[str, ...]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if len(stops) > MAX_STOP_SEQUENCES:
        raise _refuse(f"Stop string array too long: {len(stops)}")
    for stop in stops:
        if not isinstance(stop, str):
            raise RequestError("invalid request body: `stop` holds a value that is not a string")
        if not stop:
            raise _refuse("Invalid 'stop': empty string. Expected a string with minimum length 1.")
    return tuple(stops)
