"""Stop strings over a stream of tokens: holds back what may still become a stop string, cuts where one is found."""

from __future__ import annotations

from collections.abc import Sequence as Seq


class StopChecker:
    """Watches the bytes of generated tokens for stop strings.

    `push` returns how many tokens may be shown so far. Once a stop string is found, `found` names it, `num_shown`
    counts the tokens that hold text before it, and `cut_bytes` says how many bytes at the end of the last of those
    belong to the stop string.
    """

    def __init__(self, stops: Seq[str]) -> None:
        self._stops = [(stop, stop.encode()) for stop in stops if stop]
        self._text = bytearray()
        self._ends: list[int] = []
        self.found: str | None = None
        self.num_shown = 0
        self.cut_bytes = 0

    def push(self, token: bytes) -> int:
        """Add a token's bytes; return the number of tokens, from the first on, that may be shown now."""
        if not self._stops:
            self.num_shown += 1
            return self.num_shown
        before = len(self._text)
        self._text += token
        self._ends.append(len(self._text))
        hits = []
        for stop, raw in self._stops:
            at = self._text.find(raw, max(0, before - len(raw) + 1))
            if at >= 0:
                hits.append((at, -len(raw), stop))
        if hits:
            at, _, self.found = min(hits)
            self.num_shown = sum(1 for i, end in enumerate(self._ends) if (self._ends[i - 1] if i else 0) < at)
            self.cut_bytes = max(0, (self._ends[self.num_shown - 1] if self.num_shown else 0) - at)
            return self.num_shown
        safe = len(self._text) - max(self._held(raw) for _, raw in self._stops)
        while self.num_shown < len(self._ends) and self._ends[self.num_shown] <= safe:
            self.num_shown += 1
        return self.num_shown

    def _held(self, raw: bytes) -> int:
        """Length of the longest end of the text that is a proper beginning of `raw`."""
        for length in range(min(len(raw) - 1, len(self._text)), 0, -1):
            if self._text.endswith(raw[:length]):
                return length
        return 0
