"""Errors of the chat format. Each also derives from the builtin that `deepseek_recipe` raises in its place.

Wrong Python types (`TypeError`), integers out of range (`OverflowError`), too deep Python objects
(`RecursionError`) and lone surrogates (`UnicodeEncodeError`) stay the builtins they are.
"""

from __future__ import annotations

from offseek._errors import OffseekError


class RecipeError(OffseekError):
    """A request, conversation or stream cannot be processed. Base of the errors below."""


class RequestError(RecipeError, ValueError):
    """A body is not JSON or does not have the shape of its protocol, or an argument is out of its domain."""


class ConversionError(RecipeError):
    """A well-formed request is invalid; answered with a status and an error body.

    status_code: HTTP status, 400 for all request errors.
    body: response body, compact JSON, the same shape for the three protocols.
    """

    status_code: int
    body: str

    def __init__(self, message: str, status_code: int = 400, body: str = "") -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body

    def __reduce__(self) -> tuple[type[ConversionError], tuple[str, int, str]]:
        return type(self), (str(self), self.status_code, self.body)


class EncodeError(RecipeError, RuntimeError):
    """A conversation cannot be turned into token ids: no tokenizer, or a special token is not in it."""


class TokenizerError(RecipeError, RuntimeError):
    """A tokenizer file cannot be read, is not byte-level BPE, or contradicts itself, or a text is too long."""


class ConsumedError(RecipeError, RuntimeError):
    """A request was used again after `convert`."""


class StreamError(RecipeError, RuntimeError):
    """The stream processor was used out of turn, or got a chunk that it cannot decode."""


class AnswerError(RecipeError, ValueError):
    """A JSON answer is blank, is not JSON, or does not fit the type that was asked for (then `__cause__` says how)."""


class ImageError(RecipeError):
    """Images of a request cannot be resolved, fetched or preprocessed, or exceed its limits.

    kind: which failure, for example `ImageTooLarge`.
    is_retryable: whether the same call may succeed later.
    """

    kind: str
    is_retryable: bool

    def __init__(self, message: str, kind: str = "", is_retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_retryable = is_retryable

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str, bool]]:
        return type(self), (str(self), self.kind, self.is_retryable)


class CalcResizeError(RecipeError, ValueError):
    """Fitting an image to the token limit did not converge."""
