"""Tool calls of a turn in the Hermes/Qwen syntax: one element a call, its content the JSON of name and arguments.

    block = call ("\\n"? call)*
    call  = "<tool_call>" "\\n"? {"name": "NAME", "arguments": {…}} "\\n"? "</tool_call>"

Text before the calls is free up to the first `<tool_call>`: what opens must be a call. Where the vocabulary has
special tokens for the tags, calls are written with those; text then can neither hold them nor spell them.

Source of the syntax: NousResearch, "Hermes Function Calling"; the chat templates of Qwen2.5 and Qwen3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from offseek.grammars.turn import Turn, TurnTree

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
THINK_END: Final = "</think>"


def text_without(tree: TurnTree, word: str) -> int:
    """Any text in which `word` does not occur."""
    return tree.minus(tree.pattern(".*", "s"), tree.pattern(f".*{word}.*", "s"))


def hermes_answer(turn: Turn, tree: TurnTree, functions: list[tuple[str, Any, str]]) -> int:
    """What follows the reasoning: calls of the functions, or with kind "tool_call" text and perhaps calls.

    functions: (name, parameters, JSON pointer). A turn that starts in tool calls starts behind the first opening tag.
    """
    tags = _Tags(turn, tree)
    body = tree.seq([tree.pattern("\n?"), _call(tree, functions), tree.pattern("\n?"), tags.close()])
    more = tree.repeat(tree.seq([tree.pattern("\n?"), tags.open(), body]), 0, None)
    rest = tree.seq([body, more])
    if turn.starts_in_tool_calls:
        return rest
    if turn.kind == "tool_call_required":
        return tree.seq([tree.pattern("\n{0,2}"), tags.open(), rest])
    text = text_without(tree, OPEN)
    if turn.tool_open is not None:
        return tree.seq([text, tree.repeat(tree.seq([tags.open(), rest]), 0, 1)])
    opened = tree.shortest(tree.pattern(f".*{OPEN}", "s"))  # text up to the first tag and the tag
    return tree.alt([text, tree.seq([opened, rest])])


class _Tags:
    """The tags as special tokens where there are any, else as text."""

    def __init__(self, turn: Turn, tree: TurnTree) -> None:
        self.turn, self.tree = turn, tree

    def open(self) -> int:
        known = self.turn.tool_open
        return self.tree.literal(OPEN) if known is None else self.tree.special(known)

    def close(self) -> int:
        known = self.turn.tool_close
        return self.tree.literal(CLOSE) if known is None else self.tree.special(known)


def _call(tree: TurnTree, functions: list[tuple[str, Any, str]]) -> int:
    calls = []
    for name, parameters, _ in functions:
        head = tree.literal(f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": ')
        arguments = tree.json(json.dumps(_object(parameters), ensure_ascii=False), "value", f"tool {name}")
        calls.append(tree.seq([head, arguments, tree.literal("}")]))
    return tree.alt(calls)


def _object(parameters: Any) -> Any:
    """The schema of the arguments: they are an object also where the schema does not say so."""
    if not isinstance(parameters, dict):
        return {"type": "object"}
    kind = parameters.get("type")
    if kind == "object" or (kind is None and "$ref" in parameters):
        return parameters
    return {**parameters, "type": "object"}
