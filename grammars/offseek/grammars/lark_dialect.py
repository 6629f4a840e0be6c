"""The Lark dialect: a Lark grammar text to a `GrammarTree`, meaning what Lark's Earley parser accepts.

`lark` parses the text and resolves imports, overrides and extensions; the rules are then converted
without expanding anything, so `("a" | "b") ~ 1000` stays one counted repetition. A text matches when
`lark.Lark(grammar, parser="earley", lexer="dynamic_complete")` parses it: terminals may split the text in
any way, priorities choose between parse trees and never decide whether a text matches.

Beyond Lark: `%json {…}` stands for JSON that a schema accepts, `<[128822]>` and `<think>` for special
tokens, anywhere a terminal may stand in a rule.

Source of the notation: Lark's own grammar reference; `lark.load_grammar` for its parse tree.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lark import Tree as LarkTree
from lark.exceptions import GrammarError as LarkGrammarError
from lark.exceptions import LarkError, UnexpectedInput
from lark.grammar import NonTerminal, Terminal
from lark.lexer import Pattern, PatternStr, Token

from .lark_ignore import Ignored
from .lark_terminals import Ranges, UnsupportedPatternError, first_characters, terminal_node

# Lark's reader of grammars, without annotations of its own.
loader: Any = importlib.import_module("lark.load_grammar")

MAX_SOURCE_CHARS: Final = 262_144
MAX_PATTERN_CHARS: Final = 200_000
MAX_TEMPLATES: Final = 5_000

_PLACEHOLDER = "_OFFSEEK_{}"
_ANYTHING: Ranges = [(0, 0x10FFFF)]
# What can hold a `%json` or `<token>` that is none: comments, strings and patterns are skipped whole.
_SCAN = re.compile(
    r"""(?P<skip>//[^\n]*|\#[^\n]*|"(?:\\.|[^"\\\n])*"i?|/(?!/)(?:\\.|[^/\\])*/[imslux]*)"""
    r"""|(?P<json>%json\b)|(?P<token><\[\s*\d+\s*\]>|<[^\s<>"]+>)"""
)

_TERMINAL = re.compile(
    r"^[ \t]*(?:%\w+[ \t]+)?(_?[A-Z][_A-Z0-9]*)(?:\.-?\d+)?[ \t]*:(.*(?:\n[ \t]*\|.*)*)", re.MULTILINE
)
_TERMINAL_NAME = re.compile(r"\b_?[A-Z][_A-Z0-9]*\b")


class LarkSourceError(Exception):
    """The text is not a grammar. `span`: where, as character offsets into the text."""

    def __init__(self, message: str, span: tuple[int, int]) -> None:
        super().__init__(message)
        self.span = span


class LarkLimitError(Exception):
    """A bound was hit: `kind` names it, with its value and what was needed."""

    def __init__(self, kind: str, what: str, limit: int, needed: int) -> None:
        super().__init__(f"{what}: needs {needed}, over the limit {kind}={limit}")
        self.kind, self.what, self.limit, self.needed = kind, what, limit, needed


@dataclass(frozen=True, slots=True)
class Embedded:
    """A `%json` schema or a special token, and the terminal name that stands for it while Lark parses."""

    name: str
    schema: str | None
    token_id: int | None


@dataclass(slots=True)
class Source:
    """A grammar text with its extensions taken out. `anchors`: (offset in `text`, offset in the original)."""

    text: str
    original: str
    embedded: dict[str, Embedded] = field(default_factory=dict)
    anchors: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def original_offset(self, offset: int) -> int:
        at, back = max(a for a in self.anchors if a[0] <= offset)
        return min(back + offset - at, len(self.original))


def to_tree(
    text: str, tree: Any, *, start: str = "start", special_id: Callable[[str], int | None] = lambda _: None
) -> None:
    """Convert a Lark grammar into rules of `tree` (a fresh `GrammarTree`), whose start rule is then `start`.

    special_id: the id of a special token by its spelling, None when there is none.

    Raises LarkSourceError for malformed or unsupported grammars, LarkLimitError for oversized ones.
    """
    if len(text) > MAX_SOURCE_CHARS:
        raise LarkLimitError("source_bytes", "Lark grammar text", MAX_SOURCE_CHARS, len(text))
    source = take_out_extensions(text, special_id)
    try:
        grammar = load(source)
        _Converter(source, grammar, tree).convert(start)
    except RecursionError as e:
        raise LarkLimitError("source_depth", "nesting of the Lark grammar", 1000, 1001) from e


# -- reading


def take_out_extensions(text: str, special_id: Callable[[str], int | None]) -> Source:
    """Replace `%json {…}` and `<token>` by names of terminals that are defined at the end of the text."""
    out, done, source = [], 0, Source("", text)
    length = 0
    position = 0
    while found := _SCAN.search(text, position):
        position = found.end()
        if found["skip"] is not None:
            continue
        name = _PLACEHOLDER.format(len(source.embedded))
        if found["json"] is not None:
            schema, position = _schema_at(text, position)
            embedded = Embedded(name, schema, None)
        else:
            embedded = Embedded(name, None, _token_id(found["token"], found.span(), special_id))
        source.embedded[name] = embedded
        piece = text[done : found.start()] + name
        out.append(piece)
        length += len(piece)
        done = position
        source.anchors.append((length, done))
    out.append(text[done:] + "\n")
    out += [f'{name}: "{name}"\n' for name in source.embedded]
    source.text = "".join(out)
    return source


def _schema_at(text: str, position: int) -> tuple[str, int]:
    start = position + len(text[position:]) - len(text[position:].lstrip())
    try:
        schema, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError as e:
        raise LarkSourceError(f"expected a JSON Schema after %json: {e}", (position - 5, position)) from e
    except RecursionError as e:
        raise LarkLimitError("source_depth", "schema of %json", 1000, 1001) from e
    if not isinstance(schema, dict | bool):
        raise LarkSourceError("a JSON Schema is an object, true or false", (start, end))
    return text[start:end], end


def _token_id(spelling: str, span: tuple[int, int], special_id: Callable[[str], int | None]) -> int:
    if spelling.startswith("<["):
        return int(spelling[2:-2])
    found = special_id(spelling)
    if found is None:
        found = special_id(spelling[1:-1])
    if found is None:
        raise LarkSourceError("the vocabulary has no such special token", span)
    return found


def load(source: Source) -> Any:
    """Lark's view of the text: definitions with their trees. Raises LarkSourceError."""
    relative = re.search(r"^[ \t]*%import[ \t]+\.", source.text, re.MULTILINE)
    if relative:
        raise _error(source, "relative imports are not supported: no files are read", relative.span())
    check_terminal_sizes(source.text)
    try:
        builder = loader.GrammarBuilder()
        builder.load_grammar(source.text, "the grammar")
        return builder.build()
    except LarkGrammarError as e:
        raise _error(source, *_located(source, str(e))) from e
    except UnexpectedInput as e:
        at = e.pos_in_stream or 0
        raise _error(source, "unexpected text in a Lark grammar", (at, at + 1)) from e
    except OSError as e:
        name = re.search(r"%import[^\n]*", source.text)
        raise _error(
            source, "cannot import: only Lark's own libraries are known", name.span() if name else (0, 1)
        ) from e
    except (LarkError, AssertionError, ValueError, SyntaxError) as e:
        raise _error(source, f"not a Lark grammar: {e}", (0, 1)) from e


def check_terminal_sizes(text: str) -> None:
    """Raise LarkLimitError when terminals that name terminals would be too long once written out.

    Lark writes them out while it reads a grammar, so this looks at the text before Lark does.
    """
    plain = _SCAN.sub(lambda m: " " if m["skip"] is not None else m[0], text)
    bodies: dict[str, str] = {}
    for found in _TERMINAL.finditer(plain):
        bodies[found[1]] = bodies.get(found[1], "") + found[2]
    sizes: dict[str, int] = {}
    for name in bodies:
        stack = [name]
        while stack:
            at = stack[-1]
            parts = [r for r in _TERMINAL_NAME.findall(bodies[at]) if r in bodies]
            # A name that is still open refers to itself; Lark says so.
            missing = [r for r in parts if r not in sizes and r not in stack]
            if missing and at not in sizes:
                stack += missing[:1]
                continue
            sizes[at] = len(bodies[at]) + sum(sizes.get(r, 0) for r in parts)
            if sizes[at] > MAX_PATTERN_CHARS:
                raise LarkLimitError("regex_nodes", f"pattern of terminal {at}", MAX_PATTERN_CHARS, sizes[at])
            stack.pop()


def _error(source: Source, message: str, span: tuple[int, int]) -> LarkSourceError:
    start = source.original_offset(span[0])
    return LarkSourceError(message, (start, max(start + 1, source.original_offset(span[1]))))


def _located(source: Source, message: str) -> tuple[str, tuple[int, int]]:
    """The first line of Lark's message, and the spot it speaks of: a line and column, or a quoted name."""
    head = message.strip().split("\n")[0].rstrip(": ")
    spot = re.search(r"line (\d+),? column (\d+)", head)
    if spot:
        lines = source.text.split("\n")
        offset = sum(len(x) + 1 for x in lines[: int(spot[1]) - 1]) + int(spot[2]) - 1
        head = re.sub(r",? (?:in the grammar )?at line \d+,? column \d+(?: in the grammar)?", "", head)
        return head, (offset, offset + 1)
    for name in re.findall(r"'(\w+)'", head) or re.findall(r"\b_?[A-Z][A-Z0-9_]+\b", head):
        spots = list(re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", source.text))
        uses = [m for m in spots if not re.match(r"\s*[:.{]", source.text[m.end() :])]
        if spots:
            return head, (spots[-1] if "more than once" in head or not uses else uses[0]).span()
    return head, (0, 1)


# -- converting

Environment = Mapping[str, tuple[str, int]]


class _Converter:
    """Definitions to rules of a tree. An argument of a template is (its spelling, its node)."""

    def __init__(self, source: Source, grammar: Any, tree: Any) -> None:
        self.source, self.tree = source, tree
        self.rules: dict[str, tuple[tuple[str, ...], Any]] = {n: (tuple(p), t) for n, p, t, _o in grammar.rule_defs}
        self.terms: dict[str, Any] = {name: term for name, (term, _priority) in grammar.term_defs}
        self.pattern_cache: dict[str, Pattern] = {}
        self.nodes: dict[str, int] = {}
        self.declared: dict[str, int] = {}
        self.pending: list[tuple[int, Any, Environment, str]] = []
        self.ignored = self._ignored(grammar.ignore)

    def _ignored(self, names: list[str]) -> Ignored:
        patterns = []
        for name in dict.fromkeys(names):
            if name in self.source.embedded:
                raise self._at(name, "a schema or special token cannot be ignored")
            patterns.append(self._regexp(name, self._term_pattern(name)))
        try:
            return Ignored(self.tree, patterns)
        except UnsupportedPatternError as e:
            raise self._at("%ignore", str(e)) from e

    def convert(self, start: str) -> None:
        if start not in self.rules or self.rules[start][0]:
            raise LarkSourceError(f"the grammar has no rule {start!r} to start from", (0, 1))
        # The whole text is the start rule and ignored text; the rule itself may be used by others.
        root = self.tree.declare(start, self._definition_span(start))
        for name, (params, _body) in self.rules.items():
            if not params:
                self._rule(name, (), {})
        while self.pending:
            rule, body, env, name = self.pending.pop()
            if body is None:
                raise self._at(name, f"rule {name} is declared but not defined")
            self.tree.define(rule, self.expression(body, env))
        whole, end = self.tree.rule(self.declared[start]), self.ignored.at_end()
        self.tree.define(root, whole if end is None else self.tree.seq([whole, end]))

    def _rule(self, name: str, args: tuple[str, ...], env: Environment) -> int:
        key = f"{name}{{{','.join(args)}}}" if args else name
        if key not in self.declared:
            if len(self.declared) > MAX_TEMPLATES + len(self.rules):
                raise LarkLimitError("rules", "instances of templates", MAX_TEMPLATES, MAX_TEMPLATES + 1)
            rule = self.tree.declare(key, self._definition_span(name))
            self.declared[key] = rule
            self.pending.append((rule, self.rules[name][1], env, key))
        return self.declared[key]

    def _definition_span(self, name: str) -> tuple[int, int]:
        """Byte range of a rule's name where it is defined."""
        found = re.search(rf"^[ \t]*[?!]*({re.escape(name)})\s*[.:{{]", self.source.text, re.MULTILINE)
        if found is None:
            return 0, 0
        original = self.source.original
        start, end = (self.source.original_offset(x) for x in found.span(1))
        return len(original[:start].encode()), len(original[:end].encode())

    def _at(self, name: str, message: str) -> LarkSourceError:
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.source.text)
        return _error(self.source, message, found.span() if found else (0, 1))

    def expression(self, node: Any, env: Environment) -> int:
        if isinstance(node, Terminal):
            return self.terminal(node.name)
        if isinstance(node, NonTerminal):
            return env[node.name][1] if node.name in env else self.tree.rule(self._rule(node.name, (), {}))
        match node.data:
            case "expansions":
                return self._one(self.tree.alt, [self.expression(x, env) for x in node.children])
            case "expansion":
                if not node.children:
                    return int(self.tree.literal(""))
                return self._one(self.tree.seq, [self.expression(x, env) for x in node.children])
            case "alias" | "value":
                return self.expression(node.children[0], env)
            case "maybe":
                return int(self.tree.repeat(self.expression(node.children[0], env), 0, 1))
            case "expr":
                low, high = self._counts(node.children[1:])
                return int(self.tree.repeat(self.expression(node.children[0], env), low, high))
            case "literal":
                return self.literal(node.children[0])
            case "range":
                return self.range(*node.children)
            case "template_usage":
                return self.template(node, env)
        raise LarkSourceError(f"{node.data} is not supported in a Lark grammar", (0, 1))

    def _one(self, combine: Callable[[list[int]], int], nodes: list[int]) -> int:
        return nodes[0] if len(nodes) == 1 else combine(nodes)

    def _counts(self, operator: list[Token]) -> tuple[int, int | None]:
        symbol = str(operator[0])
        if symbol != "~":
            return {"?": (0, 1), "*": (0, None), "+": (1, None)}[symbol]
        low, high = int(operator[1]), int(operator[-1])
        if low < 0 or high < low:
            at = operator[0].start_pos or 0
            raise _error(self.source, f"repetition from {low} to {high}", (at, at + 1))
        if high >= 2**32 - 1:
            raise LarkLimitError("rules", "count of a repetition", 2**32 - 2, high)
        return low, high

    def template(self, node: Any, env: Environment) -> int:
        name, args = node.children[0].name, node.children[1:]
        if name in env:
            raise self._at(name, "a template parameter cannot be used as a template")
        params = self.rules[name][0]
        bound = {p: (self._spelling(a, env), self.expression(a, env)) for p, a in zip(params, args, strict=True)}
        return int(self.tree.rule(self._rule(name, tuple(s for s, _ in bound.values()), bound)))

    def _spelling(self, arg: Any, env: Environment) -> str:
        """A name for a template's argument that is equal only for equal arguments."""
        if isinstance(arg, Terminal | NonTerminal):
            return env[arg.name][0] if arg.name in env else str(arg.name)
        if isinstance(arg, LarkTree):
            if arg.data == "value":
                return self._spelling(arg.children[0], env)
            return f"{arg.data}({','.join(self._spelling(c, env) for c in arg.children)})"
        return str(arg)

    # -- terminals

    def terminal(self, name: str) -> int:
        if name not in self.nodes:
            self.nodes[name] = self._terminal(name)
        return self.nodes[name]

    def _terminal(self, name: str) -> int:
        embedded = self.source.embedded.get(name)
        if embedded is None:
            return self._with_ignored(name, self._term_pattern(name))
        if embedded.schema is not None:
            node = self.tree.json(embedded.schema)
        else:
            node = self.tree.special(embedded.token_id)
        return self.ignored.before(node, _ANYTHING, regular=False)

    def literal(self, token: Token) -> int:
        key = f"{token.type} {token.value}"
        if key not in self.nodes:
            self.nodes[key] = self._with_ignored(str(token.value), self._literal_pattern(token))
        return self.nodes[key]

    def range(self, start: Token, end: Token) -> int:
        tree = loader.PrepareLiterals().transform(LarkTree("range", [start, end]))
        return self._with_ignored(f"{start}..{end}", tree.children[0])

    def _literal_pattern(self, token: Token) -> Pattern:
        try:
            pattern: Pattern = loader._literal_to_pattern(token)
        except LarkGrammarError as e:
            at = token.start_pos or 0
            raise _error(self.source, str(e), (at, at + len(token))) from e
        return pattern

    def _term_pattern(self, name: str) -> Pattern:
        if name in self.pattern_cache:
            return self.pattern_cache[name]
        term = self.terms.get(name)
        if term is None:
            raise self._at(name, f"terminal {name} is declared but has no pattern")
        if expanded_size(term) > MAX_PATTERN_CHARS:
            raise LarkLimitError("regex_nodes", f"pattern of terminal {name}", MAX_PATTERN_CHARS, expanded_size(term))
        try:
            pattern: Pattern = (loader.PrepareLiterals() * loader.TerminalTreeToPattern()).transform(
                loader.nr_deepcopy_tree(term)
            )
        except LarkError as e:
            raise self._at(name, str(e).strip().split("\n")[0]) from e
        self.pattern_cache[name] = pattern
        return pattern

    def _regexp(self, name: str, pattern: Pattern) -> str:
        regexp = str(pattern.to_regexp())
        try:
            empty = pattern.min_width == 0
        except (re.error, ValueError, OverflowError, RecursionError) as e:
            raise self._at(name, f"terminal {name}: {e}") from e
        if empty:
            raise self._at(name, f"terminal {name} can match nothing at all; Lark refuses that too")
        return regexp

    def _with_ignored(self, name: str, pattern: Pattern) -> int:
        regexp = self._regexp(name, pattern)
        try:
            if isinstance(pattern, PatternStr) and not pattern.flags:
                node = self.tree.literal(pattern.value)
            else:
                node = terminal_node(self.tree, regexp)
        except UnsupportedPatternError as e:
            raise self._at(name, f"terminal {name}: {e}") from e
        return self.ignored.before(node, first_characters(regexp))


def expanded_size(term: Any) -> int:
    """Characters of a terminal's pattern once its references are written out, without writing them out."""
    sizes: dict[int, int] = {}
    stack = [(term, False)]
    while stack:
        node, ready = stack.pop()
        if not isinstance(node, LarkTree):
            sizes[id(node)] = len(str(node)) + 8
        elif ready:
            sizes[id(node)] = 4 + sum(sizes[id(c)] for c in node.children)
        elif id(node) not in sizes:
            stack.append((node, True))
            stack += [(c, False) for c in node.children]
    return sizes[id(term)]
