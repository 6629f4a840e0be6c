"""The stub of the extension says what the binary has."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_stub_agrees_with_the_binary(tmp_path: pathlib.Path) -> None:
    allowed = tmp_path / "allowlist.txt"
    allowed.write_text("offseek._native.__all__\n")  # PyO3 makes it; users import names through the packages
    command = [sys.executable, "-m", "mypy.stubtest", "offseek._native", "--allowlist", str(allowed)]
    command += ["--ignore-disjoint-bases"]  # every class is final, which says more
    path = os.pathsep.join(str(ROOT / room) for room in ("recipe", "recipe-rs"))
    done = subprocess.run(command, env={**os.environ, "MYPYPATH": path}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
