"""Lark terminals as nodes of a grammar tree, with the texts that Lark's own matcher takes.

Lark's Earley parser (`lexer="dynamic_complete"`) matches a terminal with Python's `re` at some position
and then also tries every shorter text. For greedy patterns that is the whole language of the
pattern. For lazy ones (`".*?"`) it is only the texts that no shorter match cuts off, so that a string
ends at its first quote; this module finds those patterns and says so with `GrammarTree.shortest`. What it
cannot express exactly is refused. It knows nothing of rules or of `%ignore`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

# The stdlib's own parser of patterns, so that laziness and flags mean what they mean to `re`.
_sre: Any = importlib.import_module("re._parser")

# "anything, then an even number of backslashes": the inside of `common.ESCAPED_STRING` and its kin.
_ESCAPED_INNER = r".*?(?<!\\)(\\\\)*?"
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_ANYTHING = [(0, 0x10FFFF)]

Ranges = list[tuple[int, int]]


class TreeBuilder(Protocol):
    """The part of `GrammarTree` that the Lark front end uses; every method gives a node's number."""

    def literal(self, text: str, /) -> int: ...
    def pattern(self, pattern: str, flags: str = "", /) -> int: ...
    def char_class(self, ranges: Sequence[tuple[str, str]], negated: bool = False, /) -> int: ...
    def seq(self, parts: Sequence[int], /) -> int: ...
    def alt(self, parts: Sequence[int], /) -> int: ...
    def repeat(self, body: int, minimum: int, maximum: int | None, /) -> int: ...
    def minus(self, node: int, without: int, /) -> int: ...
    def shortest(self, node: int, /) -> int: ...


class UnsupportedPatternError(ValueError):
    """A pattern whose matches cannot be told exactly."""


def terminal_node(tree: TreeBuilder, pattern: str) -> int:
    """The texts that a terminal with this `re` pattern takes. Raises UnsupportedPatternError."""
    pattern = _plain_escaped_strings(pattern)
    if not has_lazy_quantifier(pattern):
        return tree.pattern(pattern)
    try:
        items = _sre.parse(pattern)
    except re.error as e:
        raise UnsupportedPatternError(str(e)) from e
    return _Lazy(tree).sequence(list(items), "", at_end=True)


def _plain_escaped_strings(pattern: str) -> str:
    """Write `.*?(?<!\\\\)(\\\\\\\\)*?"` as `(?:[^"\\\\\\n]|\\\\[^\\n])*"`: the same texts without looking back."""
    if _ESCAPED_INNER not in pattern or re.search(r"\(\?[a-z]*s", pattern):
        return pattern
    idiom = re.escape(_ESCAPED_INNER) + r"(\\?)([^\w\s\\])"
    return re.sub(idiom, lambda m: rf"(?:[^\{m[2]}\\\n]|\\[^\n])*" + m[1] + m[2], pattern)


def has_lazy_quantifier(pattern: str) -> bool:
    in_class, i = False, 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            i += 1
        elif in_class:
            in_class = c != "]"
        elif c == "[":
            in_class = True
            i += pattern.startswith(("^]", "]"), i + 1) + pattern.startswith("^]", i + 1)
        elif c in "*+?}" and pattern.startswith("?", i + 1) and not pattern.startswith("(?", i - 1):
            return True
        i += 1
    return False


class _Lazy:
    """Nodes of a parsed pattern that holds lazy quantifiers."""

    def __init__(self, tree: TreeBuilder) -> None:
        self.tree = tree

    def sequence(self, items: list[Any], flags: str, *, at_end: bool) -> int:
        """`at_end`: nothing of the pattern comes after these items, so a lazy part decides where the match ends."""
        for k, (op, argument) in enumerate(items):
            if str(op) == "MIN_REPEAT":
                if not at_end:
                    raise UnsupportedPatternError("a lazy quantifier is supported only where it ends the terminal")
                return self.tree.seq([*self.nodes(items[:k], flags), *self.lazy(argument, items[k + 1 :], flags)])
        return self.tree.seq(self.nodes(items, flags, last_at_end=at_end))

    def nodes(self, items: list[Any], flags: str, *, last_at_end: bool = False) -> list[int]:
        last = len(items) - 1
        return [self.item(op, av, flags, at_end=last_at_end and i == last) for i, (op, av) in enumerate(items)]

    def lazy(self, argument: Any, rest: list[Any], flags: str) -> list[int]:
        """`X*?` and what follows: as few X as let the characters after it match."""
        low, high, body = argument
        size = next((i for i, (op, _) in enumerate(rest) if str(op) not in ("LITERAL", "NOT_LITERAL", "IN")), len(rest))
        stop, after = rest[:size], rest[size:]
        if after and not all(_is_nullable(x) for x in after):
            raise UnsupportedPatternError("what follows a lazy quantifier must be characters that end the terminal")
        unit = self.sequence(list(body), flags, at_end=False)
        units = self.tree.repeat(unit, low, None if high == _sre.MAXREPEAT else int(high))
        ended = self.tree.shortest(self.tree.seq([units, *self.nodes(stop, flags)]))
        return [ended, *self.nodes(after, flags)]

    def item(self, op: Any, av: Any, flags: str, *, at_end: bool) -> int:
        match str(op):
            case "LITERAL":
                return self.tree.pattern(_escape(av), flags) if flags else self.tree.literal(chr(av))
            case "NOT_LITERAL":
                return self.tree.pattern(f"[^{_escape(av)}]", flags)
            case "ANY":
                return self.tree.pattern(".", flags)
            case "IN":
                return self.tree.pattern(_class_text(av), flags)
            case "BRANCH":
                return self.tree.alt([self.sequence(list(x), flags, at_end=at_end) for x in av[1]])
            case "MAX_REPEAT":
                body = self.sequence(list(av[2]), flags, at_end=False)
                return self.tree.repeat(body, int(av[0]), None if av[1] == _sre.MAXREPEAT else int(av[1]))
            case "SUBPATTERN":
                _group, add, remove, body = av
                letters = (set(flags) | _flag_letters(add)) - _flag_letters(remove)
                return self.sequence(list(body), "".join(sorted(letters)), at_end=at_end)
        raise UnsupportedPatternError(f"{str(op).lower()} beside a lazy quantifier is not supported")


def _flag_letters(bits: int) -> set[str]:
    return {c for c, flag in (("i", re.I), ("s", re.S), ("m", re.M), ("x", re.X)) if bits & flag}


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _class_text(items: Any) -> str:
    out = []
    for op, av in items:
        match str(op):
            case "NEGATE":
                out.append("^")
            case "LITERAL":
                out.append(_escape(av))
            case "RANGE":
                out.append(f"{_escape(av[0])}-{_escape(av[1])}")
            case "CATEGORY":
                out.append(_CATEGORIES[str(av)])
    return "[" + "".join(out) + "]"


def _is_nullable(item: Any) -> bool:
    op, av = str(item[0]), item[1]
    if op in ("MAX_REPEAT", "MIN_REPEAT"):
        return av[0] == 0 or all(_is_nullable(x) for x in av[2])
    if op == "SUBPATTERN":
        return all(_is_nullable(x) for x in av[3])
    if op == "BRANCH":
        return any(all(_is_nullable(x) for x in branch) for branch in av[1])
    return op.startswith(("ASSERT", "AT"))


def first_characters(pattern: str) -> Ranges:
    """A superset of the characters that a match can begin with, as code point ranges."""
    try:
        items = list(_sre.parse(pattern))
    except (re.error, RecursionError, OverflowError):
        return _ANYTHING
    ranges, nullable = _first(items, ignore_case="(?i" in pattern)
    return _ANYTHING if nullable else ranges


def _first(items: list[Any], *, ignore_case: bool) -> tuple[Ranges, bool]:
    found: Ranges = []
    for op, av in items:
        ranges, nullable = _first_of(str(op), av, ignore_case=ignore_case)
        found += ranges
        if not nullable:
            return found, False
    return found, True


def _first_of(op: str, av: Any, *, ignore_case: bool) -> tuple[Ranges, bool]:
    if op == "LITERAL":
        text = chr(av)
        return [(ord(c), ord(c)) for x in ((text.lower(), text.upper()) if ignore_case else (text,)) for c in x], False
    if op == "IN" and not ignore_case and all(str(x) in ("LITERAL", "RANGE") for x, _ in av):
        return [(a, a) if str(x) == "LITERAL" else (a[0], a[1]) for x, a in av], False
    if op in ("MAX_REPEAT", "MIN_REPEAT"):
        ranges, nullable = _first(list(av[2]), ignore_case=ignore_case)
        return ranges, nullable or av[0] == 0
    if op == "SUBPATTERN":
        return _first(list(av[3]), ignore_case=ignore_case)
    if op == "BRANCH":
        parts = [_first(list(branch), ignore_case=ignore_case) for branch in av[1]]
        return [r for ranges, _ in parts for r in ranges], any(nullable for _, nullable in parts)
    return _ANYTHING, op.startswith(("ASSERT", "AT"))


def disjoint(a: Ranges, b: Ranges) -> bool:
    return all(hi < x or y < lo for lo, hi in a for x, y in b)
