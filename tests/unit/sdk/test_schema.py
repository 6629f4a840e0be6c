from __future__ import annotations

import json
import pathlib
from typing import Any, Literal

import pytest
from offseek.sdk.errors import SchemaSourceError
from offseek.sdk.schema import close_objects, load_schema
from pydantic import BaseModel, field_validator


class Action(BaseModel):
    element_id: str
    description: str
    method: Literal["click", "fill"]
    arguments: list[str]

    @field_validator("element_id")
    @classmethod
    def numbered(cls, value: str) -> str:
        if not value.startswith("#"):
            raise ValueError("must start with #")
        return value


GOOD = {"element_id": "#1", "description": "d", "method": "click", "arguments": []}


def test_a_pydantic_model_keeps_its_key_order_and_is_closed() -> None:
    schema = load_schema(Action)
    assert schema.keys == ("element_id", "description", "method", "arguments")
    assert schema.schema["additionalProperties"] is False
    assert schema.check(GOOD) is None


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"method": "drag"}, "#/method"),
        ({"arguments": ["a", 1]}, "#/arguments/1"),
        ({"extra": 1}, "#"),
        ({"element_id": "1"}, "#/element_id"),  # only pydantic knows this rule
    ],
)
def test_a_bad_object_is_named_by_pointer(change: dict[str, Any], pointer: str) -> None:
    error = load_schema(Action).check(GOOD | change)
    assert error is not None
    assert (error.type, error.pointer) == ("invalid_object", pointer)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strin"}, "#/type"),
        ({"properties": {"a/b": {"minLength": -1}}}, "#/properties/a~1b/minLength"),
        ({"required": "a"}, "#/required"),
        ([], "#"),
    ],
)
def test_what_is_not_a_json_schema_is_named_by_pointer(tmp_path: pathlib.Path, schema: Any, pointer: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(schema))
    with pytest.raises(SchemaSourceError) as caught:
        load_schema(path)
    assert caught.value.pointer == pointer
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.json", "no such file"),
        ("no_such_module_here:Model", "ModuleNotFoundError"),
        ("json:JSONDecoder", "not a pydantic model"),
        ("json:Nothing", "AttributeError"),
    ],
)
def test_a_source_that_cannot_be_loaded_says_why(source: str, message: str) -> None:
    with pytest.raises(SchemaSourceError, match=message):
        load_schema(source)


def test_a_model_is_imported_from_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shapes.py"
    path.write_text("from pydantic import BaseModel\nclass Point(BaseModel):\n    x: int\n")
    assert load_schema(f"{path}:Point").keys == ("x",)


def test_closing_spares_conjunctions() -> None:
    leaf = {"properties": {"x": {"type": "integer"}}}
    open_ = {"allOf": [{"properties": {"a": leaf}}, {"properties": {"a": {"properties": {"y": {}}}}}]}
    assert close_objects(open_) == open_
    shared = {"allOf": [{"$ref": "#/$defs/P"}], "$defs": {"P": leaf, "Q": leaf}}
    closed = close_objects(shared)
    assert closed["$defs"]["P"] == leaf
    assert closed["$defs"]["Q"] == leaf | {"additionalProperties": False}
    union = {"anyOf": [leaf, {"type": "null"}]}
    assert close_objects(union) == {"anyOf": [leaf | {"additionalProperties": False}, {"type": "null"}]}
    stated = {"properties": {"a": leaf}, "additionalProperties": {"type": "string"}}
    assert close_objects(stated)["additionalProperties"] == {"type": "string"}
    data = {"properties": {"a": {"const": {"properties": {}}}}}
    assert close_objects(data)["properties"] == data["properties"]
