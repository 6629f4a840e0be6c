"""Typed JSON answers while they stream: the growing object first, the validated object at the end.

Takes the text deltas of an answer, from whichever protocol; knows nothing of chunks and events. The reading
is done by `PartialJson` (incremental, in Rust), the typing by pydantic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Generic, TypeVar

from offseek._native import PartialJson
from offseek.recipe.errors import AnswerError
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


class AnswerParser(Generic[T]):
    """Reads one JSON answer that shall become a `T`.

    type_: whatever pydantic validates: a model, a dataclass, `list[int]`, a union.

        parser = AnswerParser(Weather)
        for delta in deltas:
            show(parser.feed(delta))
        weather = parser.finish()
    """

    def __init__(self, type_: type[T] | Any) -> None:
        self._adapter: TypeAdapter[T] = TypeAdapter(type_)
        self._reader = PartialJson()
        self._parts: list[str] = []

    def feed(self, delta: str) -> Any:
        """Read a delta and return the answer so far as plain objects; None before it begins.

        Containers and strings appear when they begin, numbers and words when they are complete, members when
        their value begins, so every state is a prefix of the next. The cost is that of the returned object;
        `push` reads without building it.

        Raises AnswerError at the first character with which the text cannot be JSON.
        """
        self.push(delta)
        return self._reader.value

    def push(self, delta: str) -> None:
        """Read a delta. Raises AnswerError as `feed` does."""
        self._parts.append(delta)
        self._reader.push(delta)

    @property
    def value(self) -> Any:
        """The answer so far; None before it begins."""
        return self._reader.value

    @property
    def text(self) -> str:
        """The text read so far."""
        return "".join(self._parts)

    def finish(self) -> T:
        """The validated object.

        Raises AnswerError if the answer is blank, not complete, or does not fit the type (`__cause__` is
        pydantic's ValidationError).
        """
        text = self.text
        if not text.strip():
            raise AnswerError("the answer is blank")
        self._reader.finish()
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise AnswerError(f"the answer does not fit the type: {error}") from error


def iter_answer(deltas: Iterable[str], type_: type[T] | Any) -> Generator[Any, None, T]:
    """Yield the answer after every delta that changes it; return the validated object.

    With `result = yield from iter_answer(...)`, or by the `value` of StopIteration. Raises AnswerError as
    `AnswerParser` does.
    """
    parser: AnswerParser[T] = AnswerParser(type_)
    before = None
    for delta in deltas:
        state = parser.feed(delta)
        if state != before:
            before = state
            yield state
    return parser.finish()
