"""Fresh random requests: no difference from the installed reference package."""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

pytest.importorskip("deepseek_recipe", reason="the reference package is a development dependency")

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261130


@pytest.fixture(scope="module")
def differential() -> Any:
    sys.path.insert(0, str(HERE))
    try:
        import body_sweep  # noqa: F401
        import encoding_differential
    finally:
        sys.path.remove(str(HERE))
    return encoding_differential


def run(differential: Any, cases: int, run_seed: int) -> Any:
    comparer = differential.Comparer()
    for index in range(cases):
        comparer.compare(differential.request_maker.make_case(index, run_seed))
    print(f"seed {run_seed}: {comparer.coverage()}")
    shown = [
        (case["id"], case["protocol"], json.dumps(case["body"]), found) for case, found in comparer.differences[:3]
    ]
    assert not comparer.differences, shown
    assert not comparer.missed(), comparer.missed()
    assert comparer.succeeded * 2 >= cases
    return comparer


@pytest.mark.slow
def test_1000_random_requests_agree_and_reach_every_field_and_error_sentence(differential: Any) -> None:
    run(differential, 1000, SEED)


@pytest.mark.nightly
def test_20000_random_requests_agree(differential: Any) -> None:
    run(differential, 20_000, SEED + 1)


def sweep(differential: Any, step: int) -> None:
    """Every `step`th single change of the full bodies of `body_sweep`."""
    import body_sweep

    comparer = differential.Comparer()
    for case in itertools.islice(body_sweep.cases(), 0, None, step):
        assert comparer.compare(case) is None, (case["id"], comparer.differences[-1][1])
    print(comparer.coverage())


@pytest.mark.slow
def test_unusual_values_at_places_of_full_bodies_agree(differential: Any) -> None:
    sweep(differential, 37)


@pytest.mark.nightly
def test_every_unusual_value_at_every_place_of_full_bodies_agrees(differential: Any) -> None:
    sweep(differential, 1)


@pytest.mark.slow
def test_mutated_requests_agree(differential: Any) -> None:
    comparer = differential.Comparer()
    maker = differential.request_maker

    @seed(SEED)
    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.integers(0, 2**32), st.randoms(use_true_random=False))
    def agree(index: int, rng: Any) -> None:
        case = maker.make_valid(index, SEED)
        case.pop("rng")
        for _ in range(rng.randint(1, 3)):
            body = maker.mutated(case["body"], rng)
            if not isinstance(body, dict) or not body:
                break
            case["body"] = body
        assert comparer.compare(case) is None, json.dumps(case["body"])

    agree()
