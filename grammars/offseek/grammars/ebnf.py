"""From EBNF text, or a turn's constraint, to a compiled grammar: picks the dialect and places errors.

`GrammarCompiler.compile_ebnf` and `compile_turn` add the cache. The dialects: GBNF is read by the native
core, Lark by `lark_dialect.py`; turns are built by `turn.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from offseek import _native
from offseek._native import CancelToken, CompiledGrammar, Vocabulary
from offseek.grammars.errors import GrammarError, GrammarLimitError, GrammarSyntaxError, UnsupportedSchemaError
from offseek.grammars.lark_dialect import LarkLimitError, LarkSourceError, to_tree
from offseek.grammars.turn import START, Turn, TurnSourceError, build_turn

Dialect: TypeAlias = Literal["gbnf", "lark"]
LimitPairs: TypeAlias = list[tuple[str, int]]

DEFAULT_START: Final[Mapping[str, str]] = {"gbnf": "root", "lark": "start"}
# Token ids of the DeepSeek V4 tokenizer's special tokens that turns are made of.
DEEPSEEK_V4_SPECIAL_TOKENS: Final[Mapping[str, int]] = {
    "<think>": 128821,
    "</think>": 128822,
    "｜DSML｜": 128825,
}


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule that cannot be meant in a grammar that compiles all the same.

    kind: "unreachable" (the start rule never leads there) or "non-productive" (it matches no finite text).
    line, column: of its name, from 1.
    """

    kind: Literal["unreachable", "non-productive"]
    rule: str
    line: int
    column: int


def compile_ebnf(
    vocabulary: Vocabulary,
    text: str,
    *,
    dialect: Dialect,
    start: str | None,
    special_tokens: Mapping[str, int],
    limits: LimitPairs,
    cancel: CancelToken | None,
) -> tuple[CompiledGrammar, tuple[RuleFinding, ...]]:
    """The grammar, and remarks about its rules. Raises as `GrammarCompiler.compile_ebnf` says."""
    if dialect not in DEFAULT_START:
        raise ValueError(f"dialect must be 'gbnf' or 'lark', not {dialect!r}")
    root = start or DEFAULT_START[dialect]
    if dialect == "gbnf":
        specials = list(special_tokens.items())
        grammar, found = _native.compile_gbnf(
            vocabulary, text, start=root, specials=specials, limits=limits, cancel=cancel
        )
    else:
        tree = _native.GrammarTree()
        try:
            to_tree(text, tree, start=root, special_id=special_tokens.get)
        except LarkSourceError as e:
            raise syntax_error(str(e), text, e.span) from e
        except LarkLimitError as e:
            raise GrammarLimitError(str(e), e.kind, e.limit, e.needed) from e
        grammar, found = _native.compile_tree(vocabulary, tree, text=text, start=root, limits=limits, cancel=cancel)
    source = text.encode()
    return grammar, tuple(_finding(source, *f) for f in found)


def compile_turn(
    vocabulary: Vocabulary, turn: Turn, *, limits: LimitPairs, cancel: CancelToken | None
) -> CompiledGrammar:
    """The grammar of an assistant turn. Raises as `GrammarCompiler.compile_turn` says."""
    for token_id in (turn.dsml, turn.think_end, turn.tool_open, turn.tool_close):
        if token_id is not None and not vocabulary.is_special(token_id):
            raise GrammarError(f"token {token_id} is not a special token of the vocabulary")
    tree = _native.GrammarTree()
    try:
        build_turn(turn, tree)
    except TurnSourceError as e:
        raise UnsupportedSchemaError(str(e), e.pointer, e.keyword) from e
    grammar, _ = _native.compile_tree(vocabulary, tree, text="", start=START, limits=limits, cancel=cancel)
    return grammar


def ebnf_after_reasoning(source: str, think_end: int) -> tuple[str, str]:
    """A GBNF grammar behind free reasoning and the token that ends it: (source, start rule). `source` has a `root`."""
    start = "offseek-turn"
    while start in source:
        start += "-x"
    return f"{source}\n{start} ::= /.*/s <[{think_end}]> root\n", start


def known_special_tokens(vocabulary: Vocabulary, given: Mapping[str, int] | None) -> Mapping[str, int]:
    """The ids by spelling: as given, or DeepSeek V4's where the vocabulary has special tokens at those ids."""
    if given is not None:
        return given
    return {name: i for name, i in DEEPSEEK_V4_SPECIAL_TOKENS.items() if vocabulary.is_special(i)}


def syntax_error(message: str, text: str, span: tuple[int, int]) -> GrammarSyntaxError:
    """A GrammarSyntaxError at a range of characters of `text`."""
    start, end = min(span[0], len(text)), min(max(span), len(text))
    line, column = _place(text, start)
    shown = text.split("\n")[line - 1] if text else ""
    width = max(1, min(end, start + len(shown) - column + 1) - start)
    skip = max(0, column - 41)
    caret = f"{shown[skip : skip + 100]}\n{' ' * (column - 1 - skip)}{'^' * min(width, 60)}"
    in_bytes = (len(text[:start].encode()), len(text[:end].encode()))
    return GrammarSyntaxError(message, in_bytes, line, column, caret)


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _finding(source: bytes, kind: str, rule: str, start: int, _end: int) -> RuleFinding:
    line, column = _place(source[:start].decode("utf-8", "replace"), len(source[:start].decode("utf-8", "replace")))
    return RuleFinding("unreachable" if kind == "unreachable" else "non-productive", rule, line, column)
