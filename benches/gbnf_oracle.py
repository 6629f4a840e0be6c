"""A slow, plain recogniser for GBNF-style grammars: the reference that labels are checked with.

    Grammar(text).matches(string) -> bool          whole-string membership
    Grammar(text).viable(string)  -> bool          is it a prefix of some sentence?

Character-level Earley over the grammar as written: literals, character classes, groups,
alternatives, ? * + {m} {m,} {m,n}, # comments, left recursion and ambiguity. Counted repetitions
are expanded, so keep the counts small. Meant for checking, not for speed; it trusts its input.
"""

from __future__ import annotations

from typing import Literal

ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "a": "\a", "e": "\x1b"}

Ranges = tuple[tuple[str, str], ...]
Set = tuple[Literal["set"], bool, Ranges]  # ("set", negated, ranges)
Ref = tuple[Literal["ref"], str]
Symbol = Set | Ref
Sequence = list[Symbol]
Item = tuple[str, int, int, int]  # rule, alternative, dot, start
Chart = list[set[Item]]


class Grammar:
    def __init__(self, text: str, root: str = "root") -> None:
        self.s, self.i = text, 0
        self.rules: dict[str, list[Sequence]] = {}
        self.fresh = 0
        self._skip()
        while self.i < len(self.s):
            name = self._name()
            self._skip()
            assert self.s.startswith("::=", self.i), (name, self.s[self.i : self.i + 20])
            self.i += 3
            self.rules.setdefault(name, []).extend(self._alternatives())
        for alternatives in self.rules.values():
            for sequence in alternatives:
                for x in sequence:
                    assert x[0] == "set" or x[1] in self.rules, f"undefined rule {x[1]}"
        assert root in self.rules
        self.root = root
        self.nullable: set[str] = set()
        grown = True
        while grown:
            grown = False
            for name, alternatives in self.rules.items():
                empty = any(all(x[0] == "ref" and x[1] in self.nullable for x in seq) for seq in alternatives)
                if empty and name not in self.nullable:
                    self.nullable.add(name)
                    grown = True
        self._prune()

    # -- reading

    def _skip(self) -> None:
        while self.i < len(self.s):
            c = self.s[self.i]
            if c in " \t\r\n":
                self.i += 1
            elif c == "#":
                j = self.s.find("\n", self.i)
                self.i = len(self.s) if j < 0 else j
            else:
                return

    def _name(self) -> str:
        j = self.i
        while j < len(self.s) and (self.s[j].isalnum() or self.s[j] in "_-."):
            j += 1
        assert j > self.i, f"name expected at {self.s[self.i : self.i + 20]!r}"
        name, self.i = self.s[self.i : j], j
        return name

    def _at_rule(self) -> bool:
        """Is the next thing `name ::=` (the start of another rule)?"""
        keep = self.i
        try:
            self._name()
            self._skip()
            return self.s.startswith("::=", self.i)
        except AssertionError:
            return False
        finally:
            self.i = keep

    def _alternatives(self) -> list[Sequence]:
        alternatives = [self._sequence()]
        while True:
            self._skip()
            if self.i < len(self.s) and self.s[self.i] == "|":
                self.i += 1
                alternatives.append(self._sequence())
            else:
                return alternatives

    def _sequence(self) -> Sequence:
        sequence: Sequence = []
        while True:
            self._skip()
            if self.i >= len(self.s) or self.s[self.i] in "|)" or self._at_rule():
                return sequence
            item = self._atom()
            self._skip()
            sequence += self._repeat(item)

    def _new(self, alternatives: list[Sequence]) -> Ref:
        self.fresh += 1
        name = f"_{self.fresh}"
        self.rules[name] = alternatives
        return ("ref", name)

    def _repeat(self, item: Sequence) -> Sequence:
        c = self.s[self.i] if self.i < len(self.s) else ""
        low, high = 0, None
        if c == "?":
            high = 1
        elif c == "+":
            low = 1
        elif c == "{":
            j = self.s.index("}", self.i)
            body = self.s[self.i + 1 : j].split(",")
            low = int(body[0]) if body[0].strip() else 0
            high = low if len(body) == 1 else int(body[1]) if body[1].strip() else None
            self.i = j
        elif c != "*":
            return item
        self.i += 1
        out = item * low
        if high is None:
            star = self._new([[]])
            self.rules[star[1]].append(item + [star])
            return out + [star]
        tail: Sequence = []
        for _ in range(high - low):
            tail = [self._new([[], item + tail])]
        return out + tail

    def _char(self) -> str:
        c = self.s[self.i]
        self.i += 1
        if c != "\\":
            return c
        c = self.s[self.i]
        self.i += 1
        if c in "xuU":
            n = {"x": 2, "u": 4, "U": 8}[c]
            c = chr(int(self.s[self.i : self.i + n], 16))
            self.i += n
            return c
        return ESCAPES.get(c, c)

    def _atom(self) -> Sequence:
        c = self.s[self.i]
        if c == '"':
            self.i += 1
            out: Sequence = []
            while self.s[self.i] != '"':
                ch = self._char()
                out.append(("set", False, ((ch, ch),)))
            self.i += 1
            return out
        if c == "[":
            self.i += 1
            negated = self.s[self.i] == "^"
            self.i += negated
            ranges = []
            while self.s[self.i] != "]":
                a = self._char()
                if self.s[self.i] == "-" and self.s[self.i + 1] != "]":
                    self.i += 1
                    ranges.append((a, self._char()))
                else:
                    ranges.append((a, a))
            self.i += 1
            return [("set", negated, tuple(ranges))]
        if c == "(":
            self.i += 1
            alternatives = self._alternatives()
            self._skip()
            assert self.s[self.i] == ")", self.s[self.i : self.i + 20]
            self.i += 1
            return [self._new(alternatives)]
        if c == ".":
            self.i += 1
            return [("set", True, (("\n", "\n"), ("\r", "\r")))]
        return [("ref", self._name())]

    def _prune(self) -> None:
        """Drop alternatives that derive no finite string, so that a live item means a viable prefix."""
        good: set[str] = set()
        grown = True
        while grown:
            grown = False
            for name, alternatives in self.rules.items():
                if name not in good and any(all(x[0] == "set" or x[1] in good for x in a) for a in alternatives):
                    good.add(name)
                    grown = True
        for name, alternatives in self.rules.items():
            self.rules[name] = [a for a in alternatives if all(x[0] == "set" or x[1] in good for x in a)]

    # -- recognising

    def start(self) -> Chart:
        """The Earley sets before any character."""
        first = {(self.root, k, 0, 0) for k in range(len(self.rules[self.root]))}
        return [self._close(first, [], 0)]

    def extend(self, chart: Chart, text: str) -> Chart | None:
        """The Earley sets after some more characters; None at a dead end. Leaves `chart` as it is."""
        chart = list(chart)
        for ch in text:
            following = set()
            for name, k, dot, begin in chart[-1]:
                sequence = self.rules[name][k]
                if dot < len(sequence):
                    symbol = sequence[dot]
                    if symbol[0] == "set" and any(a <= ch <= b for a, b in symbol[2]) != symbol[1]:
                        following.add((name, k, dot + 1, begin))
            if not following:
                return None
            chart.append(self._close(following, chart, len(chart)))
        return chart if chart[-1] else None

    def accepts(self, chart: Chart) -> bool:
        """Whether the characters so far are a sentence."""
        return any(n == self.root and d == len(self.rules[n][k]) and s == 0 for n, k, d, s in chart[-1])

    def _close(self, items: set[Item], chart: list[set[Item]], position: int) -> set[Item]:
        work, done = list(items), set(items)
        while work:
            name, k, dot, start = work.pop()
            sequence = self.rules[name][k]
            new: list[Item] = []
            if dot == len(sequence):
                for n2, k2, d2, s2 in list(done if start == position else chart[start]):
                    other = self.rules[n2][k2]
                    if d2 < len(other) and other[d2] == ("ref", name):
                        new.append((n2, k2, d2 + 1, s2))
            else:
                symbol = sequence[dot]
                if symbol[0] == "ref":
                    new += [(symbol[1], j, 0, position) for j in range(len(self.rules[symbol[1]]))]
                    if symbol[1] in self.nullable:
                        new.append((name, k, dot + 1, start))
            for item in new:
                if item not in done:
                    done.add(item)
                    work.append(item)
        return done

    def matches(self, text: str) -> bool:
        chart = self.extend(self.start(), text)
        return chart is not None and self.accepts(chart)

    def viable(self, text: str) -> bool:
        return self.extend(self.start(), text) is not None
