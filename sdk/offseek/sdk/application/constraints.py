"""What a request demands of the answer, read from the body as it was sent.

The recipe's `output_constraint` says *whether* an answer is constrained. The schema itself is taken from the body:
the official normalisation of `strict: true` drops `$defs`, and a constraint has to hold with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offseek import recipe
from offseek.sdk.application.extensions import Extensions
from offseek.sdk.application.protocols import Protocol
from offseek.sdk.dialects.base import Constraint
from offseek.sdk.schema import close_objects


def constraint_of(
    protocol: Protocol, converted: recipe.ConversationRequest, extensions: Extensions, *, demanded: str | None = None
) -> Constraint | None:
    """The constraint of a converted request, None for free text.

    demanded: a tool call that the conversion does not tell: "" for any tool, or a name.
    """
    if extensions.ebnf is not None:
        return Constraint(kind="ebnf", pattern=extensions.ebnf)
    wanted = converted.inference_options.output_constraint
    if wanted is None:
        return None
    if wanted.kind == "regex":
        return Constraint(kind="regex", pattern=wanted.schema)
    if wanted.kind in ("tool_call", "tool_call_required"):
        tools = [_original(tool, protocol, extensions) for tool in converted.conversation.tools]
        if demanded:
            tools = [tool for tool in tools if tool.name == demanded]
        required = demanded is not None or wanted.kind == "tool_call_required"
        return Constraint(kind="tools", tools=tools, required=required)
    if converted.conversation.response_format == "json_object":
        return Constraint(kind="json")
    schema, strict = _format_schema(protocol, extensions)
    if schema is None:
        schema = converted.conversation.response_schema
    if strict and isinstance(schema, Mapping):
        schema = close_objects(schema, require_all=True)
    return Constraint(kind="json_schema", schema=schema)


def _format_schema(protocol: Protocol, extensions: Extensions) -> tuple[Any, bool]:
    body = extensions.document or {}
    found: Any
    if protocol.name == "chat":
        found = (body.get("response_format") or {}).get("json_schema") or {}
    else:
        found = (body.get("text") or {}).get("format") or {}
    return found.get("schema"), found.get("strict") is True


def _original(tool: recipe.ToolDefinition, protocol: Protocol, extensions: Extensions) -> recipe.ToolDefinition:
    """The tool with the parameters that the body declared, closed when it is strict."""
    if not tool.strict:
        return tool
    for declared in (extensions.document or {}).get("tools") or ():
        function = declared.get("function") if protocol.name == "chat" else declared
        if isinstance(function, Mapping) and function.get("name") == tool.name:
            parameters = function.get("parameters")
            if isinstance(parameters, Mapping):
                closed = close_objects(parameters, require_all=True)
                return recipe.ToolDefinition(tool.name, tool.description, closed, strict=True)
    return tool
