"""Front end for JSON Schema: what a caller may pass, as the JSON text that the native compiler takes.

Dictionaries, JSON texts, booleans, pydantic models, TypedDicts and any other type that pydantic can describe. Knows
nothing of how a schema becomes masks; that is `recipe-rs/grammar/src/json_schema`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from offseek.grammars.errors import GrammarLimitError, UnsupportedSchemaError

Whitespace = Literal["spaced", "compact", "any"]
Numbers = Literal["canonical", "any"]
PropertyOrder = Literal["schema", "any"]
Format = Literal["assert", "annotate"]
OnUnsupported = Literal["error", "relax"]

_METASCHEMA_HOST = "json-schema.org/draft"


def schema_text(schema: Any) -> str:
    """The JSON text of a schema.

    schema: a dict or bool, a JSON text, or a type: a pydantic model, a TypedDict, a dataclass, `list[int]`, …

    Raises UnsupportedSchemaError for values without a JSON text (NaN, keys that are not strings) and for types that
    pydantic cannot describe; GrammarLimitError for nesting beyond what Python can write.
    """
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, bool | Mapping):
        schema = _schema_of_type(schema)
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False, default=_plain)
    except RecursionError:
        message = "nesting depth of the schema: more than Python can write as JSON"
        raise GrammarLimitError(message, "source_depth", 1000, 1001) from None
    except (TypeError, ValueError) as error:
        raise UnsupportedSchemaError(f"the schema has no JSON text: {error}") from error


def registry_texts(registry: Mapping[str, Any] | None, schema: str) -> list[tuple[str, str]]:
    """Documents by URI as JSON texts; the published metaschemas are added where the schema refers to one.

    registry: URI -> schema (dict, bool or JSON text).

    Raises as `schema_text`.
    """
    texts = {uri: schema_text(document) for uri, document in (registry or {}).items()}
    refers = '"$ref"' in schema and _METASCHEMA_HOST in schema
    if refers or any(_METASCHEMA_HOST in text for text in texts.values()):
        for uri, text in _metaschemas():
            texts.setdefault(uri, text)
    return list(texts.items())


@cache
def _metaschemas() -> list[tuple[str, str]]:
    """Metaschemas of all drafts and their vocabularies, from the package that `jsonschema` itself uses."""
    from jsonschema_specifications import REGISTRY

    found = []
    for uri in REGISTRY:
        found.append((uri.rstrip("#"), json.dumps(REGISTRY[uri].contents, ensure_ascii=False)))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _schema_of_type(schema: Any) -> Any:
    from pydantic import BaseModel, TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return schema.model_json_schema()
        if schema is None or isinstance(schema, int | float | list | tuple | bytes):
            raise UnsupportedSchemaError(
                f"a schema must be an object, a boolean, a JSON text or a type, not {schema!r}"
            )
        return TypeAdapter(schema).json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        raise UnsupportedSchemaError(f"no JSON Schema for {schema!r}: {error}") from error
