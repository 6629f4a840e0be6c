"""A whole assistant turn as a grammar: reasoning, then an answer or tool calls, in V4 or V4.1 markup.

    reasoning </think> ( answer | text? "\\n\\n<" DSML calls "</" DSML "tool_calls>" )

Reasoning and text are any text without special tokens. `</think>` and `｜DSML｜` are token ids: the same
letters spelled with ordinary tokens are text and end nothing. A call names a declared tool; its
parameters come in any order, none twice, the required ones present. A string is written raw between
`string="true">` and `</｜DSML｜`, any other value as JSON after `string="false">`; where a schema allows
both, both are there.

Checkpoints with a chat template of their own write calls in the Hermes syntax instead (version "hermes", see `hermes`).

Takes the constraint as plain data (the kind and schema of the recipe's `OutputConstraint`), so it knows
nothing of conversations. What a tool's `parameters` say about the object as a whole beyond properties,
required ones and counts is refused by name; only declared properties (and required ones) are written.

Source of the markup: the DSML format of DeepSeek V4 and V4.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

from offseek.grammars.hermes import THINK_END, hermes_answer, text_without

TurnKind = Literal["json", "regex", "ebnf", "tool_call", "tool_call_required"]
TurnVersion = Literal["v4", "v4.1", "hermes"]
TurnStage = Literal["reasoning_start", "reasoning_continuation", "content_continuation"]
JsonForm = Literal["value", "value_or_nothing", "raw_string"]

START: Final = "turn"
_ANY_OBJECT: Final = '{"type": "object"}'
_NOT_A_STRING: Final = {"type": ["object", "array", "number", "boolean", "null"]}
_PARAMETERS_URI: Final = "urn:offseek:parameters"
# Keywords about the parameters object as a whole that are understood, and ones that say nothing.
_UNDERSTOOD: Final = {
    "type", "properties", "required", "additionalProperties", "minProperties", "maxProperties", "dependentRequired",
}  # fmt: skip
_SILENT: Final = {
    "$schema", "$id", "id", "$comment", "$defs", "definitions", "$def", "title", "description", "default", "examples",
    "deprecated", "readOnly", "writeOnly", "strict",
}  # fmt: skip
_COMBINING: Final = {
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "patternProperties",
    "propertyNames", "unevaluatedProperties", "enum", "const", "$dynamicRef", "$recursiveRef",
}  # fmt: skip


class TurnSourceError(Exception):
    """The constraint cannot be compiled. `tool`: the name of the tool at fault; `pointer`: the keyword."""

    def __init__(self, message: str, *, tool: str | None = None, pointer: str = "#", keyword: str = "") -> None:
        super().__init__(f"tool {tool}: {message}" if tool else message)
        self.tool, self.pointer, self.keyword = tool, pointer, keyword


class TurnTree(Protocol):
    """The part of `GrammarTree` that turns use; methods give a node's number."""

    def literal(self, text: str, /) -> int: ...
    def pattern(self, pattern: str, flags: str = "", /) -> int: ...
    def json(self, schema: str, form: str = "value", context: str = "", /) -> int: ...
    def special(self, token_id: int, /) -> int: ...
    def seq(self, parts: Sequence[int], /) -> int: ...
    def alt(self, parts: Sequence[int], /) -> int: ...
    def repeat(self, body: int, minimum: int, maximum: int | None, /) -> int: ...
    def minus(self, node: int, without: int, /) -> int: ...
    def shortest(self, node: int, /) -> int: ...
    def any_order(
        self,
        items: Sequence[int],
        required: Sequence[int],
        dependent: Sequence[tuple[int, Sequence[int]]],
        minimum: int,
        maximum: int | None,
        context: str,
        /,
    ) -> int: ...
    def declare(self, name: str, span: tuple[int, int], /) -> int: ...
    def define(self, rule: int, node: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Markup:
    """The words of a version's DSML tags, and the line between the tags of a call without parameters."""

    calls: str
    invoke: str
    parameter: str
    empty_call: str


MARKUPS: Final[Mapping[str, Markup]] = {
    "v4": Markup("tool_calls", "invoke", "parameter", ""),
    "v4.1": Markup(" calls", " invoke", " parameter", "\n"),
    "hermes": Markup("", "", "", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the turn must be.

    dsml, think_end: token ids; needed only where the turn uses them.
    tool_open, tool_close: ids of the Hermes tags; None where they are spelled with ordinary tokens.

    kind, schema: those of the recipe's output constraint; kind None leaves the answer free.
    stage: None when thinking is off; a content continuation starts in the middle of the answer.
    starts_in_tool_calls: the prompt ends with the opening tag of the calls.
    """

    kind: TurnKind | None
    schema: str = ""
    version: TurnVersion = "v4"
    stage: TurnStage | None = None
    starts_in_tool_calls: bool = False
    dsml: int | None = None
    think_end: int | None = None
    tool_open: int | None = None
    tool_close: int | None = None


def build_turn(turn: Turn, tree: TurnTree) -> None:
    """Put the grammar of a turn into an empty tree; its start rule is `START`. Raises TurnSourceError."""
    if turn.version not in MARKUPS:
        raise TurnSourceError(f"version must be 'v4', 'v4.1' or 'hermes', not {turn.version!r}")
    builder = _Builder(turn, tree)
    body = builder.calls_only() if turn.starts_in_tool_calls and turn.version != "hermes" else builder.answer()
    if turn.stage in ("reasoning_start", "reasoning_continuation") and not turn.starts_in_tool_calls:
        if turn.think_end is None:
            raise TurnSourceError("the vocabulary has no </think> token, which ends the reasoning")
        # Hermes output is read as text, so reasoning must not spell the tag that ends it.
        free = text_without(tree, THINK_END) if turn.version == "hermes" else builder.any_text()
        body = tree.seq([free, tree.special(turn.think_end), body])
    rule = tree.declare(START, (0, 0))
    tree.define(rule, body)


class _Builder:
    def __init__(self, turn: Turn, tree: TurnTree) -> None:
        self.turn, self.tree = turn, tree
        self.markup = MARKUPS[turn.version]

    def any_text(self) -> int:
        return self.tree.pattern(".*", "s")

    def answer(self) -> int:
        """What follows the reasoning."""
        kind, schema = self.turn.kind, self.turn.schema
        if kind is None:
            return self.any_text()
        if kind == "json":
            return self.tree.json(schema or _ANY_OBJECT)
        if kind == "regex":
            return self.tree.pattern(schema)
        if kind not in ("tool_call", "tool_call_required"):
            raise TurnSourceError(f"unknown kind of constraint {kind!r}")
        if self.turn.version == "hermes":
            return hermes_answer(self.turn, self.tree, read_functions(schema))
        block = self.tree.seq([self.tag("\n\n<", self.markup.calls + ">\n"), self.calls_only()])
        if kind == "tool_call_required":
            return block
        return self.tree.seq([self.any_text(), self.tree.repeat(block, 0, 1)])

    def tag(self, before: str, after: str) -> int:
        """`before`, the DSML token, `after`."""
        if self.turn.dsml is None:
            raise TurnSourceError("the vocabulary has no ｜DSML｜ token, which tool calls are written with")
        t = self.tree
        return t.seq([t.literal(before), t.special(self.turn.dsml), t.literal(after)])

    def calls_only(self) -> int:
        """One or more calls and the closing tag."""
        if self.turn.kind not in ("tool_call", "tool_call_required"):
            raise TurnSourceError("a turn that starts in tool calls needs declared tools")
        t, m = self.tree, self.markup
        tools = [self.tool(tool) for tool in read_tools(self.turn.schema)]
        call = t.seq([self.tag("<", f'{m.invoke} name="'), t.alt(tools), self.tag("</", f"{m.invoke}>")])
        more = t.repeat(t.seq([t.literal("\n"), call]), 0, None)
        return t.seq([call, more, self.tag("\n</", f"{m.calls}>")])

    def tool(self, tool: Tool) -> int:
        """The name and the parameters of a call, up to its closing tag."""
        t = self.tree
        items = [self.parameter(tool, p) for p in tool.parameters]
        head = t.literal(f'{tool.name}">\n')
        index = {p.name: i for i, p in enumerate(tool.parameters)}
        required = [index[name] for name in tool.required]
        dependent = [(index[n], [index[o] for o in others]) for n, others in tool.dependent if n in index]
        empty = t.literal(self.markup.empty_call)
        may_be_empty = not required and tool.minimum == 0
        if not items:
            if not may_be_empty:
                raise TurnSourceError("asks for more parameters than it declares", tool=tool.name, pointer=tool.pointer)
            return t.seq([head, empty])
        context = f"tool {tool.name}"
        some = t.any_order(items, required, dependent, tool.minimum, tool.maximum, context)
        return t.seq([head, t.alt([some, empty]) if may_be_empty else some])

    def parameter(self, tool: Tool, parameter: Parameter) -> int:
        """One parameter with its tags and the line end behind it."""
        t, m = self.tree, self.markup
        context = f"tool {tool.name}, parameter {parameter.name}"
        raw = t.json(parameter.schema, "raw_string", context)
        value = t.json(parameter.other_schema, "value_or_nothing", context)
        as_text = t.seq([t.literal('true">'), raw])
        as_json = t.seq([t.literal('false">'), value])
        opening = self.tag("<", f'{m.parameter} name="{parameter.name}" string="')
        return t.seq([opening, t.alt([as_text, as_json]), self.tag("</", f"{m.parameter}>\n")])


# -- tools


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's schema as a document of its own, and the same without strings (JSON texts)."""

    name: str
    schema: str
    other_schema: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool. `dependent`: (name, names that must come with it)."""

    name: str
    pointer: str
    parameters: tuple[Parameter, ...]
    required: tuple[str, ...]
    dependent: tuple[tuple[str, tuple[str, ...]], ...]
    minimum: int
    maximum: int | None


def read_tools(text: str) -> list[Tool]:
    """The tools of a constraint: a JSON array of Chat Completions function tools. Raises TurnSourceError."""
    return [_read_tool(name, parameters, pointer) for name, parameters, pointer in read_functions(text)]


def read_functions(text: str) -> list[tuple[str, Any, str]]:
    """(name, parameters, JSON pointer to them) of the tools of a constraint. Raises TurnSourceError."""
    try:
        declared = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise TurnSourceError(f"the tools are not JSON: {e}") from e
    if not isinstance(declared, list) or not declared:
        raise TurnSourceError("the tools are a JSON array of at least one tool")
    found: dict[str, tuple[str, Any, str]] = {}
    for i, entry in enumerate(declared):
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise TurnSourceError("a tool is an object with a function that has a name", pointer=f"#/{i}")
        name = function["name"]
        if name in found:
            raise TurnSourceError("two tools have this name", tool=name, pointer=f"#/{i}/function/name")
        parameters = function.get("parameters")
        found[name] = (name, {} if parameters is None else parameters, f"#/{i}/function/parameters")
    return list(found.values())


def _read_tool(name: str, schema: Any, pointer: str) -> Tool:
    if not _is_plain_name(name):
        raise TurnSourceError("a name without quotes, backslashes, spaces and line ends is needed", tool=name)
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise TurnSourceError("parameters are a JSON Schema object", tool=name, pointer=pointer)
    root, path = _follow_references(schema, name, pointer)
    for keyword in root:
        if keyword in _COMBINING and not (keyword == "unevaluatedProperties" and root[keyword] is False):
            where = f"{pointer}/{keyword}"
            message = f"{keyword!r} of the parameters as a whole is not supported"
            raise TurnSourceError(message, tool=name, pointer=where, keyword=keyword)
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise TurnSourceError(f"parameters must be an object, not {kind!r}", tool=name, pointer=f"{pointer}/type")
    properties = root.get("properties", {})
    required = root.get("required", [])
    extra = root.get("additionalProperties", True)
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise TurnSourceError("properties must be an object and required a list", tool=name, pointer=pointer)
    parameters = []
    for key in dict.fromkeys([*properties, *required]):
        if not isinstance(key, str) or not _is_plain_name(key):
            message = f"parameter {key!r} cannot be written in a tag: quotes, backslashes and spaces end its name"
            raise TurnSourceError(message, tool=name, pointer=f"{pointer}/properties")
        if key not in properties and extra is False:
            message = f"requires {key!r}, which additionalProperties forbids"
            raise TurnSourceError(message, tool=name, pointer=f"{pointer}/required", keyword="required")
        spot: str | None = f"{path}/properties/{_escape(key)}"
        if key not in properties:
            spot = f"{path}/additionalProperties" if "additionalProperties" in root else None
        parameters.append(_parameter(key, schema, spot))
    dependent = root.get("dependentRequired", {})
    pairs = tuple((n, tuple(o for o in others)) for n, others in dependent.items())
    # A name that is needed but cannot be written bars whatever needs it.
    writable = {p.name for p in parameters}
    while barred := {n for n, others in pairs if n in writable and not writable.issuperset(others)}:
        writable -= barred
    if not writable.issuperset(required):
        raise TurnSourceError("a required parameter needs one that is not declared", tool=name, pointer=pointer)
    kept = tuple(p for p in parameters if p.name in writable)
    pairs = tuple((n, others) for n, others in pairs if n in writable)
    minimum, maximum = root.get("minProperties", 0), root.get("maxProperties")
    return Tool(name, pointer, kept, tuple(dict.fromkeys(required)), pairs, int(minimum), maximum)


def _is_plain_name(name: str) -> bool:
    """Whether the parser of model output reads the name back as it is, and as valid JSON."""
    return bool(name) and not any(c in '"\\' or c.isspace() or ord(c) < 0x20 for c in name)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _follow_references(schema: dict[str, Any], tool: str, pointer: str) -> tuple[dict[str, Any], str]:
    """The object behind a `$ref` at the root, and the pointer to it inside the schema."""
    at, path = schema, ""
    for _ in range(20):
        reference = at.get("$ref")
        if reference is None:
            return at, path
        found: Any = schema
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise TurnSourceError(f"reference {reference!r} leads out of the parameters", tool=tool, pointer=pointer)
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise TurnSourceError(f"reference {reference!r} leads nowhere", tool=tool, pointer=f"{pointer}/$ref")
        if set(at) - _SILENT - {"$ref"}:
            raise TurnSourceError(
                "keywords beside the $ref of the parameters are not supported", tool=tool, pointer=pointer
            )
        at, path = found, reference[1:]
    raise TurnSourceError("the $ref of the parameters refers to itself", tool=tool, pointer=f"{pointer}/$ref")


def _parameter(name: str, schema: dict[str, Any], path: str | None) -> Parameter:
    """A parameter's schema within the whole document, so that its references still lead where they did."""
    if path is None:
        return Parameter(name, "true", json.dumps(_NOT_A_STRING))
    dialect = str(schema.get("$schema", ""))
    old = any(draft in dialect for draft in ("draft-04", "draft-06", "draft-07"))
    id_key = "id" if "draft-04" in dialect else "$id"
    own = schema.get(id_key)
    uri = own if isinstance(own, str) and ":" in own else _PARAMETERS_URI
    document = {**schema, id_key: uri}
    reference = {"$ref": f"{uri.rstrip('#')}#{quote(path, safe='/~$!&()*+,;=:@')}"}
    # A document of another dialect keeps it, inside and out.
    outer = {k: schema[k] for k in ("$schema",) if k in schema}
    wrap: dict[str, Any] = {**outer, "definitions" if old else "$defs": {"parameters": document}}
    return Parameter(
        name,
        json.dumps({**wrap, "allOf": [reference]}, ensure_ascii=False),
        json.dumps({**wrap, "allOf": [reference, _NOT_A_STRING]}, ensure_ascii=False),
    )
