"""Where `%ignore` may stand: before every terminal and at the end, each match as long as it can be.

Lark tries an ignored terminal at every position where a terminal could begin and skips its whole
match, never a part of it. So after a comment `#…` no name can follow on the same line: the comment
would have taken it. Let an ignored terminal end in state q of its automaton; then what follows must not
begin with a text that leads from q to another end. Writing I_s for the texts made of ignored
terminals that end in state s, and R_s for what would extend the last of them,

    I_s = G_s + sum over t of I_t · (G_s without R_t…)        and a terminal T becomes
    T + sum over s of I_s · (T without R_s…)

which is a linear system, solved by elimination. Automata come from `interegular`; a lazy ignored
terminal ends where it ends and extends to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from interegular import InvalidSyntax, Unsupported, parse_pattern
from interegular.fsm import anything_else

from .lark_terminals import (
    Ranges,
    TreeBuilder,
    UnsupportedPatternError,
    disjoint,
    first_characters,
    has_lazy_quantifier,
    terminal_node,
)

MAX_STATES = 24  # of one ignored terminal; white space and comments have two or three
_TOP = 0x10FFFF


@dataclass(frozen=True, slots=True)
class _End:
    """One way for an ignored terminal to end: its texts, and what must not follow (None: nothing is barred).

    `barred_first`: characters that barred texts begin with; `barred_alone`: characters that are barred by themselves.
    """

    texts: int
    first: Ranges
    barred: int | None
    barred_first: Ranges
    barred_alone: Ranges


class Ignored:
    """All ignored terminals of a grammar, ready to be put before terminals."""

    def __init__(self, tree: TreeBuilder, patterns: Sequence[str]) -> None:
        self.tree = tree
        self._anything: int | None = None
        self.ends = [end for p in dict.fromkeys(patterns) for end in self._ends(p)]
        self.runs = self._solve()
        self._optional: dict[tuple[int, ...], int] = {}

    def before(self, node: int, first: Ranges, *, regular: bool = True) -> int:
        """A terminal with ignored text before it. `regular`: it may be restricted (no schema, no token)."""
        free, parts = [], [node]
        for end, run in zip(self.ends, self.runs, strict=True):
            if run is None:
                continue
            if not regular or self._unaffected(end, first):
                free.append(run)
            else:
                parts.append(self.tree.seq([run, self._restricted(node, end)]))
        if free:
            parts[0] = self.tree.seq([self._maybe(tuple(free)), node])
        return parts[0] if len(parts) == 1 else self.tree.alt(parts)

    def at_end(self) -> int | None:
        """Ignored text at the end of the whole text, or nothing; None when nothing is ignored."""
        runs = tuple(r for r in self.runs if r is not None)
        return self._maybe(runs) if runs else None

    def _maybe(self, runs: tuple[int, ...]) -> int:
        if runs not in self._optional:
            any_run = runs[0] if len(runs) == 1 else self.tree.alt(runs)
            self._optional[runs] = self.tree.repeat(any_run, 0, 1)
        return self._optional[runs]

    def _unaffected(self, end: _End, first: Ranges) -> bool:
        return end.barred is None or disjoint(end.barred_first, first)

    def _restricted(self, node: int, end: _End) -> int:
        """The texts of a node that do not begin with what the end bars."""
        assert end.barred is not None
        if self._anything is None:
            self._anything = self.tree.repeat(self.tree.char_class([("\0", chr(_TOP))]), 0, None)
        return self.tree.minus(node, self.tree.seq([end.barred, self._anything]))

    def _ends(self, pattern: str) -> list[_End]:
        if has_lazy_quantifier(pattern):
            return [_End(terminal_node(self.tree, pattern), first_characters(pattern), None, [], [])]
        try:
            built: Any = parse_pattern(pattern).to_fsm()
            fsm = built.reduce()
        except (Unsupported, InvalidSyntax) as e:
            raise UnsupportedPatternError(f"an ignored terminal must be a plain pattern: {e}") from e
        if len(fsm.states) > MAX_STATES:
            raise UnsupportedPatternError(f"an ignored terminal has {len(fsm.states)} states, at most {MAX_STATES}")
        automaton = _Automaton(self.tree, fsm)
        return [automaton.end(state) for state in sorted(fsm.finals)]

    def _solve(self) -> list[int | None]:
        """I_s for every end s, by elimination of the linear system in the module's text."""
        n, t = len(self.ends), self.tree
        start: list[int | None] = [e.texts for e in self.ends]
        # step[j][k]: what may follow a run that ends in j so that it ends in k.
        step: list[list[int | None]] = [[self._step(a, b) for b in self.ends] for a in self.ends]
        for k in range(n):
            loop = step[k][k]
            if loop is not None:
                again = t.repeat(loop, 0, None)
                start[k] = _seq(t, start[k], again)
                for j in range(n):
                    if j != k:
                        step[j][k] = _seq(t, step[j][k], again)
                step[k][k] = None
            for m in range(n):
                if m == k or step[k][m] is None:
                    continue
                start[m] = _alt(t, start[m], _seq(t, start[k], step[k][m]))
                for j in range(n):
                    if j != k:
                        step[j][m] = _alt(t, step[j][m], _seq(t, step[j][k], step[k][m]))
                step[k][m] = None
        return start

    def _step(self, before: _End, after: _End) -> int | None:
        if self._unaffected(before, after.first):
            return after.texts
        if _covers(before.barred_alone, after.first):
            return None
        return self._restricted(after.texts, before)


def _covers(outer: Ranges, inner: Ranges) -> bool:
    """Whether each range of `inner` lies in one of `outer` (sufficient, not necessary)."""
    return all(any(lo <= x and y <= hi for lo, hi in outer) for x, y in inner)


def _seq(tree: TreeBuilder, a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else tree.seq([a, b])


def _alt(tree: TreeBuilder, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return tree.alt([a, b])


class _Automaton:
    """Texts between states of an `interegular` automaton, by elimination of states."""

    def __init__(self, tree: TreeBuilder, fsm: Any) -> None:
        self.tree, self.fsm = tree, fsm
        self.classes = {key: self._class(symbols) for key, symbols in fsm.alphabet.by_transition.items()}
        live = {s for s in fsm.states if fsm.islive(s)}
        self.edges: dict[int, dict[int, int]] = {}
        for state in sorted(live):
            for key, to in fsm.map[state].items():
                if to in live:
                    row = self.edges.setdefault(state, {})
                    row[to] = tree.alt([row[to], self.classes[key]]) if to in row else self.classes[key]

    def end(self, state: int) -> _End:
        texts = self.between(self.fsm.initial, [state])
        barred = self.between(state, sorted(self.fsm.finals))
        assert texts is not None
        live = {*self.edges, *self.fsm.finals}
        alone = self.first(state, self.fsm.finals)
        return _End(texts, self.first(self.fsm.initial, live), barred, self.first(state, live), alone)

    def first(self, state: int, targets: Collection[int]) -> Ranges:
        """Characters that lead from a state to any of the targets."""
        out: Ranges = []
        for key, to in self.fsm.map[state].items():
            if to in targets:
                out += self._ranges(self.fsm.alphabet.by_transition[key])
        return out

    def between(self, start: int, ends: list[int]) -> int | None:
        """Non-empty texts from `start` to any of `ends`; None when there is none."""
        t = self.tree
        # -1 stands for the start and -2 for the end, so that neither has edges the wrong way.
        edges: dict[int, dict[int, int | None]] = {s: dict(row) for s, row in self.edges.items()}
        edges[-1] = dict(edges.get(start, {}))
        for row in edges.values():
            arriving = [row[e] for e in ends if row.get(e) is not None]
            if arriving:
                row[-2] = arriving[0] if len(arriving) == 1 else t.alt([x for x in arriving if x is not None])
        for gone in [s for s in edges if s != -1]:
            out = edges.pop(gone)
            loop = out.pop(gone, None)
            for row in edges.values():
                into = row.pop(gone, None)
                if into is None:
                    continue
                head = into if loop is None else t.seq([into, t.repeat(loop, 0, None)])
                for to, label in out.items():
                    row[to] = _alt(t, row.get(to), _seq(t, head, label))
        return edges[-1].get(-2)

    def _class(self, symbols: Sequence[Any]) -> int:
        if anything_else in symbols:
            others = [s for key in self.fsm.alphabet.by_transition.values() for s in key if s not in symbols]
            return self.tree.char_class([(c, c) for c in others], True) if others else self._any()
        return self.tree.char_class([(c, c) for c in symbols])

    def _any(self) -> int:
        return self.tree.char_class([("\0", chr(_TOP))])

    def _ranges(self, symbols: Sequence[Any]) -> Ranges:
        if anything_else not in symbols:
            return [(ord(c), ord(c)) for c in symbols]
        others = sorted(ord(s) for key in self.fsm.alphabet.by_transition.values() for s in key if s not in symbols)
        bounds = [-1, *others, _TOP + 1]
        return [(a + 1, b - 1) for a, b in pairwise(bounds) if a + 1 <= b - 1]
