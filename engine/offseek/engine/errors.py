"""Errors of the engine. Each names the setting, file, tensor or row at fault; facts are attributes too."""

from __future__ import annotations

from offseek._errors import OffseekError


class EngineError(OffseekError):
    """Base of everything the engine raises."""


class ConfigError(EngineError):
    """Bad or contradicting settings. `field` is the setting at fault."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ContextLengthError(ConfigError):
    """A request that cannot fit into the context. Raised before any work is done."""

    def __init__(self, *, needed: int, context_length: int, what: str) -> None:
        super().__init__(
            f"{what} needs {needed} tokens but the context holds {context_length}", field="prompt_token_ids"
        )
        self.needed = needed
        self.context_length = context_length


class ModelFileError(EngineError):
    """A model file is missing, cut off, of an unsupported kind, or disagrees with its own header."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        tensor: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.tensor = tensor
        self.expected = expected
        self.found = found


class OutOfBlocksError(EngineError):
    """The KV cache has too few blocks for a request even when it runs alone."""

    def __init__(self, *, needed: int, free: int) -> None:
        super().__init__(f"the KV cache needs {needed} blocks but only {free} exist or are free")
        self.needed = needed
        self.free = free


class OutOfDeviceMemoryError(EngineError):
    """The device ran out of memory even at the smallest batch."""


class RowError(EngineError):
    """One request failed in the sampler; the others of its batch are not affected."""


class NoAllowedTokenError(RowError):
    """The constraint allows no token at all at this position."""


class InvalidLogitsError(RowError):
    """The model produced NaN or +inf logits for this row."""


class GrammarStateError(RowError):
    """The grammar matcher failed or refused a token that its own bitmask allowed."""
