"""Exactness on real schemas, the official suite and our own cases: no count may fall behind the baseline."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.conftest import need_shared

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_quick_coverage_is_no_worse_than_the_baseline() -> None:
    shared = need_shared("bench/schemas-visible.jsonl.gz").parent
    command = [
        sys.executable,
        str(ROOT / "benches" / "coverage.py"),
        "--quick",
        "--shared",
        str(shared),
        "--timeout",
        "60",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1400)
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(table) == 8, done.stdout  # a head and seven suites
