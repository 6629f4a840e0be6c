"""What the official API does to a request and `deepseek_recipe` does not: names, limits, the strict-schema rules.

`OfficialRules.apply` reads a body and returns the one to convert; everything here is optional and apart from the path
that is identical with the reference. Source: the public API documentation, as `docs/recipe.md` lists it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from offseek._native import ConversionOptions, ModelVersion
from offseek.recipe.errors import ConversionError, RequestError

Protocol = Literal["chat_completions", "responses", "messages"]

MODEL_ALIASES: Mapping[str, ModelVersion] = {
    "deepseek-flash": ModelVersion.DeepseekV41Flash,
    "deepseek-v4-pro": ModelVersion.DeepseekV4Pro,
    "deepseek-v4-flash": ModelVersion.DeepseekV41Flash,
    "deepseek-v4-flash-vision-exp": ModelVersion.DeepseekV41Flash,
}
MAX_TOOLS = 128
MAX_USER_ID_BYTES = 512
_STRICT_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "string": {"pattern", "format", "enum"},
    "number": {"const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"},
    "array": {"items"},
    "boolean": {"enum"},
    "null": set[str](),
}
_COMMON = {"type", "description", "title", "$def", "$defs", "anyOf", "$ref"}


def official_options(options: ConversionOptions | None = None) -> ConversionOptions:
    """`options` (or the defaults) that also accept the official model names and their old aliases."""
    options = options or ConversionOptions()
    for name, version in MODEL_ALIASES.items():
        options = options.with_model_alias(name, version)
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialRules:
    """Which rules of the official API to apply.

    max_completion_tokens: Chat reads it as `max_tokens` where that is missing.
    claude_models: Messages maps `claude-opus*` to deepseek-v4-pro, other `claude*` to deepseek-flash.
    context_suffix: a `[1m]` behind a model name is dropped.
    max_tools: most tools per request (None = no limit).
    strict_schemas: schemas of strict tools may use only the documented keywords.
    user_id: Chat `user_id` and Messages `metadata.user_id` are at most 512 bytes.
    """

    max_completion_tokens: bool = True
    claude_models: bool = True
    context_suffix: bool = True
    max_tools: int | None = MAX_TOOLS
    strict_schemas: bool = False
    user_id: bool = True

    def apply(self, body: bytes | str | Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
        """A new body with the rules applied; the given one is not changed.

        Raises RequestError for text that is not a JSON object, ConversionError where a rule is broken.
        """
        out = _object(body)
        model = out.get("model")
        if isinstance(model, str):
            out["model"] = self._model(model, protocol)
        if self.max_completion_tokens and protocol == "chat_completions" and out.get("max_tokens") is None:
            limit = out.pop("max_completion_tokens", None)
            if limit is not None:
                out["max_tokens"] = limit
        tools = out.get("tools")
        if isinstance(tools, list):
            if self.max_tools is not None and len(tools) > self.max_tools:
                raise _refuse(f"Too many tools: {len(tools)}. A request may have at most {self.max_tools}.")
            if self.strict_schemas and protocol != "messages":
                self._check_strict(tools)
        if self.user_id:
            _check_user_id(out, protocol)
        return out

    def _model(self, model: str, protocol: Protocol) -> str:
        if self.context_suffix:
            model = model.removesuffix("[1m]")
        if self.claude_models and protocol == "messages" and model.startswith("claude"):
            return "deepseek-v4-pro" if model.startswith("claude-opus") else "deepseek-flash"
        return model

    def _check_strict(self, tools: list[Any]) -> None:
        for i, tool in enumerate(tools):
            definition = tool.get("function", tool) if isinstance(tool, dict) else {}
            if isinstance(definition, dict) and definition.get("strict") is True:
                for problem in strict_schema_problems(definition.get("parameters")):
                    raise _refuse(
                        f"Invalid strict schema for function '{definition.get('name')}' (tools[{i}]): {problem}"
                    )


def strict_schema_problems(schema: Any, pointer: str = "#") -> Iterator[str]:
    """Where a schema leaves the documented strict subset, one sentence each, with the JSON pointer."""
    if not isinstance(schema, dict):
        if schema is not None:
            yield f"{pointer} is not an object"
        return
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind] if isinstance(kind, str) else []
    allowed = _COMMON.union(*(_STRICT_KEYWORDS.get("number" if k == "integer" else k, set()) for k in kinds))
    for key in schema:
        if key not in allowed:
            yield f"keyword '{key}' at {pointer} is not supported in strict mode"
    if kind == "object":
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False:
            yield f"{pointer} needs additionalProperties: false"
        if sorted(schema.get("required") or []) != sorted(properties):
            yield f"{pointer} needs every property in required"
        for name, child in properties.items():
            yield from strict_schema_problems(child, f"{pointer}/properties/{_escape(name)}")
    if kind == "array" and "items" in schema:
        yield from strict_schema_problems(schema["items"], f"{pointer}/items")
    for i, child in enumerate(schema.get("anyOf") or []):
        yield from strict_schema_problems(child, f"{pointer}/anyOf/{i}")
    for word in ("$def", "$defs"):
        for name, child in (schema.get(word) or {}).items():
            yield from strict_schema_problems(child, f"{pointer}/{word}/{_escape(name)}")


def _escape(name: str) -> str:
    return re.sub("[~/]", lambda m: "~0" if m[0] == "~" else "~1", name)


def _object(body: bytes | str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise RequestError(f"invalid JSON request: {exc}") from exc
    if not isinstance(body, Mapping):
        raise RequestError(f"invalid request body: expected an object, got {type(body).__name__}")
    return dict(body)


def _check_user_id(body: Mapping[str, Any], protocol: Protocol) -> None:
    holder = body.get("metadata") if protocol == "messages" else body
    user_id = holder.get("user_id") if isinstance(holder, Mapping) else None
    if isinstance(user_id, str) and len(user_id.encode("utf-8", "surrogatepass")) > MAX_USER_ID_BYTES:
        raise _refuse(f"Invalid user_id: longer than {MAX_USER_ID_BYTES} bytes.")


def _refuse(message: str) -> ConversionError:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
    return ConversionError(message, 400, json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")))
