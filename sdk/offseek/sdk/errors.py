"""Errors of the sdk: a schema, a document, a journal or a request that cannot be used.

What happens to one row of a job is never raised: it is written beside the row as a `RowError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from offseek._errors import OffseekError


class ClientError(OffseekError):
    """Something the caller gave cannot be used. Base of every exception raised by `offseek.sdk`."""


class SchemaSourceError(ClientError):
    """A schema cannot be loaded or is not a JSON Schema. `pointer` is the JSON pointer of the fault."""

    def __init__(self, message: str, *, source: str, pointer: str = "#") -> None:
        super().__init__(f"schema {source}: {message} (at {pointer})")
        self.source = source
        self.pointer = pointer


class InputError(ClientError):
    """An input file cannot be read as documents. `line` counts from 1, None when no line is to blame."""

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {message}")
        self.path = path
        self.line = line


class JournalError(ClientError):
    """An output file does not look like one this job wrote. It is left untouched."""

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {message}")
        self.path = path
        self.line = line


class MissingExtraError(ClientError, ImportError):
    """A part of offseek needs an extra that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs an extra: pip install "offseek[{extra}]"')
        self.extra = extra


RowErrorType = Literal[
    "document_too_long",  # prompt and answer do not fit the context, and truncation was not asked for
    "empty_document",  # nothing to extract from
    "truncated",  # the token limit ended the answer before the object was complete
    "invalid_object",  # the object fails the schema or the pydantic model
    "cancelled",  # stopped by the caller
    "engine_error",  # the engine failed on this row
]
RETRYABLE_ROW_ERRORS: frozenset[str] = frozenset({"cancelled", "engine_error"})


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a row has no object. `pointer` names the place inside the object for `invalid_object`."""

    type: RowErrorType
    message: str
    pointer: str | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.type, "message": self.message}
        if self.pointer is not None:
            found["pointer"] = self.pointer
        return found
