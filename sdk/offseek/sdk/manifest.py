"""What a result was made with, so that it can be made again: versions of everything that decides tokens."""

from __future__ import annotations

import platform
from importlib import metadata

_DECIDING = ("offseek", "torch", "numpy", "tokenizers", "gguf", "jsonschema", "pydantic")


def versions() -> dict[str, str]:
    """Versions of Python, the machine and the installed packages that decide a job's output."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DECIDING:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
