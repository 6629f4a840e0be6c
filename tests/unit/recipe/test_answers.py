"""Typed JSON answers while they stream."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from offseek.recipe import AnswerParser, PartialJson, iter_answer
from offseek.recipe.errors import AnswerError
from pydantic import BaseModel, ValidationError


class Weather(BaseModel):
    city: str
    degrees: list[float]


TEXT = ' {"city": "Oslo \\u00e9 \\ud83d\\ude00", "degrees": [1, -2.5]} '


def is_prefix(before: Any, after: Any) -> bool:
    """Whether `after` only adds to `before`."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(is_prefix, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return list(after)[: len(before)] == list(before) and all(is_prefix(v, after[k]) for k, v in before.items())
    return bool(before == after)


def test_every_state_is_a_prefix_of_the_next_and_the_end_is_typed() -> None:
    states = []
    generator = iter_answer(TEXT, Weather)
    while True:
        try:
            states.append(next(generator))
        except StopIteration as stop:
            result = stop.value
            break
    assert result == Weather(city="Oslo é 😀", degrees=[1, -2.5])
    assert states[:3] == [{}, {"city": ""}, {"city": "O"}]
    assert states[-1] == json.loads(TEXT)
    assert all(is_prefix(a, b) for a, b in itertools.pairwise(states))


def test_states_do_not_depend_on_the_deltas_before() -> None:
    for cut in range(len(TEXT)):
        one, two = PartialJson(), PartialJson()
        one.push(TEXT[:cut])
        for c in TEXT[:cut]:
            two.push(c)
        assert one.value == two.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  \n", "the answer is blank"),
        ('{"city": "Oslo"', "the document is not complete at character 15"),
        ("Sorry", "expected a value, found 'S' at character 0"),
        ('{"city": "Oslo", "degrees": [1,]}', "expected a value, found ']' at character 31"),
        ("[" * 200, "the document nests too deeply at character 127"),
    ],
)
def test_what_is_no_answer_is_an_error(text: str, message: str) -> None:
    with pytest.raises(AnswerError) as raised:
        list(iter_answer([text], Weather))
    assert str(raised.value) == message
    assert isinstance(raised.value, ValueError)


def test_an_answer_of_another_type_says_why() -> None:
    with pytest.raises(AnswerError) as raised:
        list(iter_answer(['{"city": 1, "degrees": []}'], Weather))
    assert isinstance(raised.value.__cause__, ValidationError)


def test_other_types_than_models() -> None:
    parser: AnswerParser[list[int]] = AnswerParser(list[int])
    assert parser.feed("[1, 2") == [1]
    assert parser.feed("3]") == [1, 23]
    assert parser.finish() == [1, 23]
