"""Where the shape of an extraction comes from: a JSON Schema file, a dict, or a pydantic model.

Loads it, checks that it is a JSON Schema at all (so that a fault is named by its JSON pointer before
any token is generated), closes its objects, and validates finished objects against it. Which keywords
can be enforced while generating is the business of `offseek.grammars`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema.exceptions
from jsonschema.validators import validator_for
from offseek.sdk.errors import RowError, SchemaSourceError
from pydantic import BaseModel, ValidationError

SchemaSource = str | os.PathLike[str] | Mapping[str, Any] | type[BaseModel]


@dataclass(frozen=True, slots=True)
class ExtractionSchema:
    """A checked schema. `model` is set when it came from pydantic, and then objects are validated by it too."""

    schema: Mapping[str, Any]
    source: str
    model: type[BaseModel] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the top-level properties in schema order, following a top-level local `$ref`."""
        node: Any = self.schema
        if isinstance(ref := node.get("$ref"), str) and ref.startswith("#/"):
            node = _resolve(self.schema, ref) or node
        properties = node.get("properties")
        return tuple(properties) if isinstance(properties, Mapping) else ()

    def check(self, value: Any) -> RowError | None:
        """Validate a finished object; None when it is valid."""
        cls = validator_for(self.schema, default=jsonschema.Draft202012Validator)
        validator = cls(self.schema, format_checker=cls.FORMAT_CHECKER)
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            return RowError("invalid_object", error.message, pointer=to_pointer(error.absolute_path))
        if self.model is not None:
            try:
                self.model.model_validate(value)
            except ValidationError as exc:
                first = exc.errors(include_url=False)[0]
                return RowError("invalid_object", first["msg"], pointer=to_pointer(first["loc"]))
        return None


def load_schema(source: SchemaSource, *, close: bool = True) -> ExtractionSchema:
    """Load and check a schema.

    source: path of a JSON Schema file, `module:Model` or `path/to/file.py:Model`, a mapping, or a pydantic model class.
    close: objects that list `properties` and say nothing of others allow no others (`additionalProperties: false`),
        so that a model cannot pad its answer with keys that nobody asked for.

    Raises SchemaSourceError naming the JSON pointer when the source is not a valid JSON Schema.
    """
    model: type[BaseModel] | None = None
    schema: Any
    if isinstance(source, type):
        if not issubclass(source, BaseModel):
            raise SchemaSourceError("not a pydantic model class", source=source.__qualname__)
        model, name, schema = source, f"{source.__module__}:{source.__qualname__}", source.model_json_schema()
    elif isinstance(source, Mapping):
        name, schema = "(given object)", source
    else:
        text = os.fspath(source)
        if Path(text).exists() or ":" not in text or text.endswith(".json"):
            name, schema = text, _read_json(text)
        else:
            model = _import_model(text)
            name, schema = text, model.model_json_schema()
    checked = check_is_schema(schema, name)
    return ExtractionSchema(close_objects(checked) if close else checked, name, model)


def check_is_schema(schema: Any, source: str) -> Mapping[str, Any]:
    """Return `schema` if it is a JSON Schema object; raise SchemaSourceError with the pointer if not."""
    if not isinstance(schema, Mapping):
        raise SchemaSourceError(f"a schema is a JSON object, got {type(schema).__name__}", source=source)
    try:
        json.dumps(schema)
    except (TypeError, ValueError) as exc:
        raise SchemaSourceError(f"not JSON: {exc}", source=source) from exc
    cls = validator_for(schema, default=jsonschema.Draft202012Validator)
    error = jsonschema.exceptions.best_match(cls(cls.META_SCHEMA).iter_errors(schema))
    if error is not None:
        raise SchemaSourceError(error.message, source=source, pointer=to_pointer(error.absolute_path))
    return schema


def to_pointer(path: Any) -> str:
    """Write a path of keys and indices as a JSON pointer in URI fragment form (RFC 6901), `#` for the root."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


# --- closing objects

_OPEN_PARENTS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_CLOSERS = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"})
_DATA = frozenset({"const", "enum", "default", "examples", "required"})


def close_objects(schema: Mapping[str, Any], *, require_all: bool = False) -> Mapping[str, Any]:
    """Add `additionalProperties: false` where an object lists its properties and says nothing of others.

    require_all: such an object without `required` requires every property (the meaning of `strict: true`).

    An object that takes part in a combination with its siblings (`allOf`, `if`, `$ref` beside it, ...) is left
    open, since closing one part of a conjunction would forbid what the other part asks for.
    """
    shared = {ref for under, node in _nodes(schema) if under for ref in [node.get("$ref")] if isinstance(ref, str)}
    closed: dict[str, Any] = _close(schema, pointer="#", conjunct=False, shared=shared, require=require_all)
    return closed


def _close(node: Any, *, pointer: str, conjunct: bool, shared: set[str], require: bool) -> Any:
    def walk(child: Any, step: str, conjunct: bool) -> Any:
        return _close(child, pointer=f"{pointer}/{step}", conjunct=conjunct, shared=shared, require=require)

    if isinstance(node, list):
        return [walk(item, str(i), conjunct) for i, item in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    combined = conjunct or pointer in shared or any(key in node for key in _OPEN_PARENTS) or "$ref" in node
    found: dict[str, Any] = {}
    for key, value in node.items():
        if key in _DATA:
            found[key] = value
        elif key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, Mapping):
            # Definitions stand alone; a property of a conjunct may be described by its siblings as well.
            beside = combined and key in ("properties", "patternProperties")
            found[key] = {name: walk(sub, f"{key}/{name}", beside) for name, sub in value.items()}
        elif key in ("anyOf", "oneOf"):  # a bare union's members stand alone; beside properties they conjoin
            found[key] = walk(value, key, conjunct or "properties" in node)
        else:
            found[key] = walk(value, key, combined or key in ("not", "if", "then", "else", "dependentSchemas"))
    if isinstance(node.get("properties"), Mapping) and not combined and not any(key in node for key in _CLOSERS):
        found["additionalProperties"] = False
        if require and "required" not in node:
            found["required"] = list(node["properties"])
    return found


def _nodes(node: Any, *, under: bool = False) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Every sub-object with whether it stands under a conjunction, where a `$ref` is combined with siblings."""
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item, under=under)
    elif isinstance(node, Mapping):
        combined = under or ("$ref" in node and "properties" in node)
        yield combined, node
        for key, value in node.items():
            if key not in _DATA:
                yield from _nodes(value, under=combined or key in ("allOf", "not", "if", "then", "else"))


# --- sources


def _read_json(path: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        hint = "no such file (a pydantic model is written module:Model)"
        raise SchemaSourceError(hint, source=path) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise SchemaSourceError(str(exc), source=path) from exc
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise SchemaSourceError(f"not JSON: {exc.msg}, line {exc.lineno} column {exc.colno}", source=path) from exc
    except RecursionError as exc:
        raise SchemaSourceError("nested too deeply", source=path) from exc


def _import_model(spec: str) -> type[BaseModel]:
    where, _, attribute = spec.rpartition(":")
    try:
        if where.endswith(".py"):
            loader = importlib.util.spec_from_file_location(Path(where).stem, where)
            if loader is None or loader.loader is None:
                raise ImportError(f"cannot load {where}")
            module = importlib.util.module_from_spec(loader)
            sys.modules.setdefault(loader.name, module)
            loader.loader.exec_module(module)
        else:
            if (here := os.getcwd()) not in sys.path:
                sys.path.insert(0, here)  # as `python -m` does: `models:Invoice` beside the caller
            module = importlib.import_module(where)
        found = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as exc:  # the module is the caller's code: whatever it raises is a fault of this source
        raise SchemaSourceError(f"cannot import: {type(exc).__name__}: {exc}", source=spec) from exc
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise SchemaSourceError(f"{attribute} is not a pydantic model class", source=spec)
    return found


def _resolve(schema: Mapping[str, Any], ref: str) -> Any:
    node: Any = schema
    for part in ref[2:].split("/"):
        if not isinstance(node, Mapping):
            return None
        node = node.get(part.replace("~1", "/").replace("~0", "~"))
    return node
