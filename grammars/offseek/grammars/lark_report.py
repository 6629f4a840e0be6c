"""Terminals of a Lark grammar that can match the same text, each pair with an example.

Lark's Earley parser and our masks try every reading, so a collision is no error; a grammar that was
written for a lexer with priorities may mean something narrower, though, and this tells where. Found
with `interegular`, which compares patterns as automata; patterns it cannot read are left out and named.
A tool for authors of grammars: unlike compiling, comparing has no time limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interegular import Comparator, InvalidSyntax, Unsupported, parse_pattern
from lark.exceptions import LarkError

from .lark_dialect import MAX_PATTERN_CHARS, LarkSourceError, expanded_size, load, loader, take_out_extensions

MAX_TERMINALS = 200


@dataclass(frozen=True, slots=True)
class Collision:
    """Two terminals that both match `example`."""

    first: str
    second: str
    example: str


@dataclass(frozen=True, slots=True)
class LarkReport:
    """`skipped`: terminals that could not be compared (look-around, or more than MAX_TERMINALS of them)."""

    collisions: tuple[Collision, ...]
    skipped: tuple[str, ...]


def lark_report(text: str, *, seconds_per_example: float = 0.2) -> LarkReport:
    """Compare all named terminals of a Lark grammar pairwise. Raises LarkSourceError for malformed text."""
    source = take_out_extensions(text, lambda _: 0)
    grammar = load(source)
    patterns: dict[str, Any] = {}
    skipped = []
    for name, (term, _priority) in grammar.term_defs:
        if name in source.embedded or term is None:
            continue
        if expanded_size(term) > MAX_PATTERN_CHARS:
            skipped.append(name)
            continue
        try:
            prepared = (loader.PrepareLiterals() * loader.TerminalTreeToPattern()).transform(
                loader.nr_deepcopy_tree(term)
            )
            if len(patterns) >= MAX_TERMINALS:
                raise Unsupported
            patterns[name] = parse_pattern(prepared.to_regexp())
        except (Unsupported, InvalidSyntax):
            skipped.append(name)
        except LarkError as e:
            raise LarkSourceError(str(e).split("\n")[0], (0, 1)) from e
    comparator = Comparator(patterns)
    found = []
    for a, b in comparator.check(skip_marked=True):
        overlap = comparator.get_example_overlap(a, b, max_time=seconds_per_example)
        first, second = sorted((str(a), str(b)))
        found.append(Collision(first, second, overlap.full_text))
    return LarkReport(tuple(sorted(found, key=lambda c: (c.first, c.second))), tuple(skipped))
