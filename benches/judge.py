"""Independent judges of finished texts: `jsonschema` (formats asserted), `regex`, `lark`, and our GBNF oracle."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import gbnf_oracle


def judge(kind: str, source: str, hints: dict[str, Any], text: str) -> bool | None:
    """Whether `text` is a full match; None where the judge cannot tell (it refuses the source, or takes too long)."""
    if kind == "regex":
        return judge_regex(source, text)
    if kind == "json_schema":
        return judge_json(source, hints, text)
    if kind == "ebnf:gbnf":
        return gbnf(source).matches(text) if len(text) <= 400 else None
    if kind == "ebnf:lark":
        return judge_lark(source, text)
    return None


def judge_regex(source: str, text: str) -> bool | None:
    import regex

    try:
        return regex.fullmatch(source, text, timeout=5) is not None
    except (regex.error, TimeoutError):
        return None


def judge_json(source: str, hints: dict[str, Any], text: str) -> bool | None:
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    try:
        value = json.loads(text, object_pairs_hook=no_duplicates)
    except ValueError:
        return False
    schema = json.loads(source)
    cls = validator_for(schema, default=jsonschema.Draft202012Validator)
    documents = (hints.get("registry") or {}).items()
    registry: Any = Registry().with_resources(
        (uri, Resource.from_contents(d, default_specification=DRAFT202012)) for uri, d in documents
    )
    checker = cls.FORMAT_CHECKER if hints.get("format", "assert") == "assert" else None
    try:
        return bool(cls(schema, format_checker=checker, registry=registry).is_valid(value))
    except Exception:
        return None


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def judge_lark(source: str, text: str) -> bool | None:
    from lark.exceptions import LarkError, UnexpectedInput

    if len(text) > 400:
        return None
    try:
        lark_parser(source).parse(text)
    except UnexpectedInput:
        return False
    except LarkError:
        return None
    return True


@lru_cache(maxsize=64)
def lark_parser(source: str) -> Any:
    import lark

    return lark.Lark(source, parser="earley", lexer="dynamic_complete")


@lru_cache(maxsize=64)
def gbnf(source: str) -> gbnf_oracle.Grammar:
    return gbnf_oracle.Grammar(source)
