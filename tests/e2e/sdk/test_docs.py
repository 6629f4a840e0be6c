"""The Python examples of README.md and of the sdk's guides run as they stand."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ("README.md", "docs/extraction.md", "docs/batch.md", "docs/server.md")
BLOCK = re.compile(r"^```python( model)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[Any]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, match in enumerate(BLOCK.finditer(text), 1):
            marks = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(900)] if match[1] else []
            found.append(pytest.param(match[2], id=f"{page}-{number}", marks=marks))
    return found


@pytest.mark.parametrize("source", blocks())
def test_an_example_runs(source: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("model"):
        from offseek.engine import ModelFileError
        from offseek.engine.models.install import model_path

        try:
            model_path()
        except ModelFileError as exc:
            pytest.skip(str(exc))
    path = tmp_path / "example.py"
    path.write_text(source)
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "sdk/README.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
