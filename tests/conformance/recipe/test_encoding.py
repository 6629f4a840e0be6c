"""All recorded encoding cases: prompt, special ranges, ids, options, constraint, errors."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest


def load(name: str) -> ModuleType:
    """A helper module of this folder (the test tree is no package)."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, pathlib.Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


replay = load("replay")


@pytest.mark.slow
def test_all_recorded_requests_become_the_official_prompt() -> None:
    outcome = replay.replay("encoding")
    print(outcome.report())
    assert outcome.passed > 5000
    assert not outcome.failures, outcome.report()
    # The words of the schema validator may differ; they count apart.
    assert outcome.by_prefix < 5, outcome.report()
