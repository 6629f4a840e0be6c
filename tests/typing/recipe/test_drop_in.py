"""Code written for `deepseek_recipe` finds every name here, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import offseek.recipe
import pytest

reference = pytest.importorskip("deepseek_recipe", reason="the reference package is a development dependency")

# Fetching and preprocessing of images: the extra `images`.
IMAGES = {
    "ImageInfo", "ImageQuota", "ImageResolver", "MultiModalData", "OpenCvImagePreprocessor", "PreprocessOptions",
    "ReqwestImageFetcher",
}  # fmt: skip
NAMES = sorted(set(reference.__all__) - IMAGES)


def parameters(thing: Any) -> list[tuple[str, Any, bool]] | None:
    """Names, kinds and whether they are optional."""
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return None
    return [(p.name, p.kind, p.default is inspect.Parameter.empty) for p in signature.parameters.values()]


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_with_its_members_and_parameters(name: str) -> None:
    ours, theirs = getattr(offseek.recipe, name), getattr(reference, name)
    if not isinstance(theirs, type):
        assert isinstance(ours, type(theirs))
        return
    if issubclass(theirs, Exception):
        assert issubclass(ours, Exception)
        assert not issubclass(theirs, ValueError) or issubclass(ours, ValueError)
        return
    assert public(theirs) <= public(ours)
    wanted, given = parameters(theirs), parameters(ours)
    if wanted is not None and given is not None:
        assert given[: len(wanted)] == wanted
        assert not any(required for _, _, required in given[len(wanted) :])
    for member in public(theirs):
        wanted, given = parameters(getattr(theirs, member)), parameters(getattr(ours, member))
        if wanted is not None and given is not None:
            assert given[: len(wanted)] == wanted, member


def test_images_aside_nothing_is_missing() -> None:
    missing = set(reference.__all__) - set(offseek.recipe.__all__)
    assert missing <= IMAGES
