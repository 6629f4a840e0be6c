"""A demanded tool call where the official conversion has no way to say it.

Two cases: on Messages, `tool_choice: {"type": "any"}` is converted as "auto"; it is enforced here all the same. And the
official API refuses a demanded call in thinking mode; a model that is prompted by its own chat template has no such
rule, so there the request is converted without the demand, which then holds for what follows the reasoning.
"""

from __future__ import annotations

from typing import Any

from offseek import recipe
from offseek.sdk.application.errors import ApiError
from offseek.sdk.application.protocols import Protocol

_REFUSAL = "does not support this tool_choice"


def convert(
    protocol: Protocol,
    parsed: Any,
    document: dict[str, Any] | None,
    options: recipe.ConversionOptions,
    *,
    calls_after_reasoning: bool,
) -> tuple[recipe.ConversationRequest, str | None]:
    """Convert a parsed request; return it and the demand that its constraint does not tell: "" for any tool, or a name.

    calls_after_reasoning: whether the model takes a demanded call together with thinking.
    Raises ConversionError, and ApiError when the demanded tool is not declared.
    """
    choice = (document or {}).get("tool_choice")
    try:
        converted: recipe.ConversationRequest = parsed.convert(options)
    except recipe.ConversionError as exc:
        if not calls_after_reasoning or _REFUSAL not in str(exc) or document is None:
            raise
        converted = protocol.request(document | {"tool_choice": _auto(protocol)}).convert(options)
        name = _name(choice)
        if name and name not in [tool.name for tool in converted.conversation.tools]:
            raise ApiError(400, f"tool_choice names {name!r}, which is not one of the tools.") from exc
        return converted, name
    demanded = protocol.name == "messages" and isinstance(choice, dict) and choice.get("type") == "any"
    return converted, "" if demanded and converted.conversation.tools else None


def _auto(protocol: Protocol) -> Any:
    return {"type": "auto"} if protocol.name == "messages" else "auto"


def _name(choice: Any) -> str:
    """The tool that a choice names, "" for any."""
    if not isinstance(choice, dict):
        return ""
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else choice.get("name")
    return name if isinstance(name, str) else ""
