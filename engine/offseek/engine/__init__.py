"""Offline inference in torch: continuous batching, paged KV cache, structured-output sampler.

Start with `load_engine`. Request and error types import without torch; the engine itself is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import EngineConfig
from .errors import (
    ConfigError,
    ContextLengthError,
    EngineError,
    GrammarStateError,
    InvalidLogitsError,
    ModelFileError,
    NoAllowedTokenError,
    OutOfBlocksError,
    OutOfDeviceMemoryError,
    RowError,
)
from .request import (
    EngineProtocol,
    FinishReason,
    GenerationRequest,
    RequestOutput,
    SamplingParams,
    TokenLogprobs,
)

if TYPE_CHECKING:
    from .llm import EngineStats, LocalEngine
    from .loading import LoadedEngine, load_engine, open_checkpoint
    from .tokenizer import CheckpointTokenizer

_LAZY = {
    "EngineStats": "llm",
    "LocalEngine": "llm",
    "LoadedEngine": "loading",
    "load_engine": "loading",
    "open_checkpoint": "loading",
    "CheckpointTokenizer": "tokenizer",
}

__all__ = [
    "CheckpointTokenizer",
    "ConfigError",
    "ContextLengthError",
    "EngineConfig",
    "EngineError",
    "EngineProtocol",
    "EngineStats",
    "FinishReason",
    "GenerationRequest",
    "GrammarStateError",
    "InvalidLogitsError",
    "LoadedEngine",
    "LocalEngine",
    "ModelFileError",
    "NoAllowedTokenError",
    "OutOfBlocksError",
    "OutOfDeviceMemoryError",
    "RequestOutput",
    "RowError",
    "SamplingParams",
    "TokenLogprobs",
    "load_engine",
    "open_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import importlib
    import os
    import sys

    # OpenMP threads that spin while idle make every product several times slower when cores are shared. Read once,
    # when torch loads.
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("torch", "tokenizers", "gguf", "safetensors"):
            raise ImportError(f"{name} needs {error.name}; install it with: pip install 'offseek[engine]'") from error
        raise
