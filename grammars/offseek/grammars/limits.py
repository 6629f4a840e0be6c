"""Bounds on what one grammar may cost; hitting one raises GrammarLimitError with its name."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one grammar; None keeps the default (`offseek._native.grammar_limits()` lists them).

    source_bytes: bytes of source text.
    source_depth: nesting of the source text.
    regex_nodes: nodes of regular expressions, derivatives included.
    rules: rules, expressions and automaton states.
    states: stack nodes, machine states and configurations before the engine is rebuilt.
    threads: ways to read a text that are alive at once (ambiguity).
    stack_depth: nesting of the matched text; deeper nesting is not offered.
    emptiness_search: states searched to decide whether an intersection or complement is empty.
    products: combinations of sub-schemas.
    bytes: memory of one grammar's engine before it is rebuilt.
    compile_ms: processor milliseconds of one compile.
    mask_ms: processor milliseconds of one mask, one token or one completion.
    """

    source_bytes: int | None = None
    source_depth: int | None = None
    regex_nodes: int | None = None
    rules: int | None = None
    states: int | None = None
    threads: int | None = None
    stack_depth: int | None = None
    emptiness_search: int | None = None
    products: int | None = None
    bytes: int | None = None
    compile_ms: int | None = None
    mask_ms: int | None = None

    def pairs(self) -> list[tuple[str, int]]:
        """The limits that are set, as the native functions take them."""
        values = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return [(name, value) for name, value in values if value is not None]
