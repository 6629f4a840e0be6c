"""Grammar constraints inside the engine: one matcher per request, bitmasks for the rows of a step.

Bitmasks are filled by `offseek.grammars` in Rust threads, off the interpreter lock, while the model's forward pass
runs. Knows nothing of models or sampling; the matcher may be anything that follows `Matcher`'s protocol.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import GrammarStateError

if TYPE_CHECKING:
    from offseek.grammars import Matcher

#: Attempts in a row to spell forced text that may fail before attempts get rarer.
PATIENCE = 3


class MatcherProtocol(Protocol):
    """What the engine needs of `offseek.grammars.Matcher`."""

    def fill_bitmask(self, out: NDArray[np.int32], /) -> None: ...
    def fill_bitmask_draft(self, draft_tokens: Seq[int], out: NDArray[np.int32], /) -> int: ...
    def accept_token(self, token_id: int, /) -> bool: ...
    def validate_tokens(self, token_ids: Seq[int], /) -> int: ...
    def is_finished(self) -> bool: ...
    def forced_tokens(self) -> list[int]: ...
    def forced_bytes(self, *, max_bytes: int) -> bytes: ...


class GrammarState:
    """The matcher of one request. Every token the request generates goes through `accept`."""

    def __init__(self, matcher: MatcherProtocol) -> None:
        self.matcher = matcher
        self._num_misses = 0  # times in a row that forced text could not be spelled
        self._num_skips = 0

    @property
    def is_finished(self) -> bool:
        return self.matcher.is_finished()

    def accept(self, token_id: int) -> None:
        """Advance by a token. Raises GrammarStateError if the matcher refuses it."""
        if not self.matcher.accept_token(token_id):
            raise _refused(token_id)

    def refuse(self, token_id: int) -> NoReturn:
        """Raise the error of a matcher that did not take a token together with others."""
        self.matcher.validate_tokens([token_id])  # a matcher in an error state says so again
        raise _refused(token_id)

    @staticmethod
    def accept_together(states: Seq[GrammarState], token_ids: Seq[int]) -> list[int] | None:
        """Advance each state by its token in one call.

        Returns for each: 1 = accepted, 2 = accepted and finished, 0 = refused, -1 = the matcher failed; None (and
        nothing happened) when that cannot be done in one call.
        """
        if len(states) < 2 or not (matchers := _native_matchers(states)):
            return None
        from offseek.grammars import accept_token_batch

        return accept_token_batch(matchers, token_ids)

    def forced_tokens(self) -> list[int]:
        """Tokens the grammar leaves no choice about, not yet accepted.

        Forced text is spelled as the tokenizer would spell it, which is impossible after tokens that it would not have
        chosen itself. Finding that out is not cheap, so after some misses in a row fewer and fewer steps try.
        """
        if self._num_skips:
            self._num_skips -= 1
            return []
        forced = self.matcher.forced_tokens()
        if forced:
            self._num_misses = 0
        elif self.matcher.forced_bytes(max_bytes=1):
            self._num_misses += 1
            self._num_skips = min(2**self._num_misses, 64) if self._num_misses >= PATIENCE else 0
        return forced

    def cut_drafts(self, drafts: Seq[int]) -> list[int]:
        """Longest prefix of `drafts` that the grammar accepts; the state is left unchanged."""
        return list(drafts[: self.matcher.validate_tokens(list(drafts))])

    def fill(self, out: NDArray[np.int32], drafts: Seq[int]) -> None:
        """Fill bitmask rows [1 + len(drafts), words]: row j is the mask after the first j drafts."""
        if drafts:
            self.matcher.fill_bitmask_draft(list(drafts), out)
        else:
            self.matcher.fill_bitmask(out[0])


def _native_matchers(states: Seq[GrammarState]) -> list[Matcher]:
    """The states' matchers if all of them are those of `offseek.grammars`, else nothing."""
    native = sys.modules.get("offseek.grammars")
    if native is None:  # then nobody can have made one
        return []
    matchers = [state.matcher for state in states]
    return matchers if all(type(m) is native.Matcher for m in matchers) else []  # type: ignore[return-value]


def _refused(token_id: int) -> GrammarStateError:
    return GrammarStateError(f"the grammar refused token {token_id}, which its bitmask allowed")


class MaskRequest(NamedTuple):
    """Rows `first_row` .. `first_row + len(drafts)` of the step's bitmask belong to `state`."""

    state: GrammarState
    first_row: int
    drafts: tuple[int, ...]


#: A step whose masks took longer than this (seconds) has the next step's filled by a thread beside the forward pass.
SLOW_FILL_S = 0.0005


class MaskJob:
    """The masks of one step: being filled by the background thread, or to be filled when asked for."""

    def __init__(
        self, filler: MaskFiller, requests: list[MaskRequest], out: NDArray[np.int32], *, in_background: bool
    ) -> None:
        self._filler = filler
        self._done = False
        self._work = requests, out
        self.requests = requests
        self._future = filler.submit(requests, out) if in_background and filler.last_fill_s > SLOW_FILL_S else None
        self.failed: dict[int, Exception] = {}  # by index of the request; complete after `wait`

    def wait(self) -> None:
        """Return when every mask is there."""
        if self._done:
            return
        start = time.perf_counter()
        self.failed = self._future.result() if self._future is not None else self._filler.fill(*self._work)
        self._done = True
        self._filler.wait_s += time.perf_counter() - start


class MaskFiller:
    """Fills the bitmasks of a step while the forward pass runs.

    On a GPU they are filled once the pass is launched, while the device computes it. On a CPU the pass blocks: quick
    masks (the usual case: about a microsecond each) are filled after it, which costs less than waking a thread, slow
    ones by a thread from the start of the step.

    num_threads: Rust threads that share the rows of one call.
    """

    def __init__(self, *, num_threads: int = 1) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="offseek-masks")
        self._num_threads = num_threads
        self.last_fill_s = 0.0
        self.fill_s = 0.0  # time spent filling, wherever it ran
        self.wait_s = 0.0  # time a step spent on masks after its pass was launched

    def start(self, requests: Seq[MaskRequest], out: NDArray[np.int32], *, in_background: bool) -> MaskJob:
        """Begin filling `out` int32 [rows, words]; unless `in_background`, it is filled when waited for."""
        return MaskJob(self, list(requests), out, in_background=in_background)

    def submit(self, requests: list[MaskRequest], out: NDArray[np.int32]) -> Future[dict[int, Exception]]:
        return self._worker.submit(self.fill, requests, out)

    def close(self) -> None:
        self._worker.shutdown(wait=True)

    def fill(self, requests: list[MaskRequest], out: NDArray[np.int32]) -> dict[int, Exception]:
        """Fill every row; returns the errors of the requests whose matcher failed, by index."""
        start = time.perf_counter()
        failed: dict[int, Exception] = {}
        if all(not r.drafts for r in requests) and self._fill_together(requests, out):
            self.last_fill_s = time.perf_counter() - start
            self.fill_s += self.last_fill_s
            return failed
        plain = [i for i, r in enumerate(requests) if not r.drafts]
        if not self._fill_together([requests[i] for i in plain], out):
            plain = []
        together = set(plain)
        for index, request in enumerate(requests):
            if index in together:
                continue
            rows = out[request.first_row : request.first_row + 1 + len(request.drafts)]
            try:
                request.state.fill(rows, request.drafts)
            except Exception as error:  # any failure of one matcher is that request's alone
                rows[:] = 0
                failed[index] = error
        self.last_fill_s = time.perf_counter() - start
        self.fill_s += self.last_fill_s
        return failed

    def _fill_together(self, requests: list[MaskRequest], out: NDArray[np.int32]) -> bool:
        """One call for all plain rows; False (and nothing promised about them) if it cannot be used or fails."""
        if len(requests) < 2:
            return False
        matchers = _native_matchers([r.state for r in requests])
        if not matchers:
            return False
        from offseek.grammars import fill_bitmask_batch

        rows = [r.first_row for r in requests]
        contiguous = rows == list(range(rows[0], rows[0] + len(rows)))
        target = out[rows[0] : rows[0] + len(rows)] if contiguous else np.empty((len(rows), out.shape[1]), np.int32)
        try:
            fill_bitmask_batch(matchers, target, threads=self._num_threads)
        except Exception:  # find out row by row whose fault it is
            return False
        if not contiguous:
            out[rows] = target
        return True
