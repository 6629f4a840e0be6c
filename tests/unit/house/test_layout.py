"""The house: namespace roots, light imports, one extension."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_no_root_hides_the_others() -> None:
    assert list(ROOT.glob("*/offseek/__init__.py")) == []


@pytest.mark.parametrize("package", ["offseek.recipe", "offseek.grammars", "offseek.sdk"])
def test_core_packages_import_without_torch(package: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import {package}; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_native_extension_loads() -> None:
    import offseek._native

    assert offseek._native.__file__ is not None
    assert offseek._native.__file__.endswith("_native.abi3.so")
