"""Errors of the grammars room. The Rust core raises these; facts are attributes, not only text."""

from __future__ import annotations

from offseek._errors import OffseekError


class GrammarError(OffseekError):
    """A grammar's source is wrong, unsupported, or matches nothing."""


class GrammarSyntaxError(GrammarError):
    """Malformed or unsupported source text.

    message: one sentence.
    span: (start, end) byte offsets into the UTF-8 source.
    line, column: of the start, from 1; columns count characters.
    caret: the source line with carets under the spot.
    """

    def __init__(
        self, message: str, span: tuple[int, int] = (0, 0), line: int = 1, column: int = 1, caret: str = ""
    ) -> None:
        super().__init__(message, span, line, column, caret)
        self.message = message
        self.span = span
        self.line = line
        self.column = column
        self.caret = caret

    def __str__(self) -> str:
        place = f"{self.message} (line {self.line}, column {self.column})"
        return f"{place}\n{self.caret}" if self.caret else place


class UnsupportedSchemaError(GrammarError):
    """A JSON Schema that is not valid, not supported, or that no value satisfies.

    message: one sentence. pointer: JSON pointer of the keyword, such as `#/properties/a/not`.
    keyword: its name, or empty.
    """

    def __init__(self, message: str, pointer: str = "#", keyword: str = "") -> None:
        super().__init__(message, pointer, keyword)
        self.message = message
        self.pointer = pointer
        self.keyword = keyword

    def __str__(self) -> str:
        return f"{self.message} at {self.pointer}"


class GrammarLimitError(GrammarError):
    """A compile or a step hit a limit.

    name: the setting (see `Limits`). limit: its value. needed: how much was needed, at least.
    """

    def __init__(self, message: str, name: str = "", limit: int = 0, needed: int = 0) -> None:
        super().__init__(message, name, limit, needed)
        self.message = message
        self.name = name
        self.limit = limit
        self.needed = needed

    def __str__(self) -> str:
        return self.message


class GrammarCancelledError(GrammarError):
    """The compile's cancel token was set."""


class MatcherError(OffseekError):
    """A call that the matcher's state does not allow, such as a rollback past the start."""
