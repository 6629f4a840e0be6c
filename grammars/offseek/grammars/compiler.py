"""`GrammarCompiler`: source text to `CompiledGrammar`, with a cache that is bounded in bytes.

Sits between the front ends (native, or Python in `lark.py`) and the matchers. Knows nothing of models
or of chat formats.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, get_args

from offseek import _native
from offseek._native import CancelToken, CompiledGrammar, Vocabulary
from offseek.grammars import json_schema
from offseek.grammars.limits import Limits

DEFAULT_CACHE_BYTES = 192 << 20


class _Cache:
    """Least recently used first out; sizes are asked anew at each insertion, since grammars grow in use."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._items: OrderedDict[Hashable, CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> CompiledGrammar | None:
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
            return found

    def put(self, key: Hashable, grammar: CompiledGrammar) -> None:
        with self._lock:
            self._items[key] = grammar
            self._items.move_to_end(key)
            total = sum(g.nbytes for g in self._items.values())
            while total > self._max_bytes and len(self._items) > 1:
                _, dropped = self._items.popitem(last=False)
                total -= dropped.nbytes

    def clear(self) -> None:
        with self._lock:
            self._items.clear()

    def __len__(self) -> int:
        return len(self._items)


class GrammarCompiler:
    """Compiles grammars for one vocabulary. Safe to use from several threads.

    limits: bounds of each grammar; the defaults keep hostile sources within 2 s and 512 MB.
    cache_bytes: memory of the cache of compiled grammars; 0 keeps only the last one.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, limits: Limits | None = None, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        self.vocabulary = vocabulary
        self.limits = limits or Limits()
        self._limit_pairs = self.limits.pairs()
        self._cache = _Cache(cache_bytes)

    def compile_regex(
        self,
        pattern: str,
        *,
        search: bool = False,
        dialect: str = "python",
        ignore_case: bool = False,
        multi_line: bool = False,
        dot_all: bool = False,
        verbose: bool = False,
        cancel: CancelToken | None = None,
    ) -> CompiledGrammar:
        r"""Compile a pattern, matched against the whole text (or, with `search`, found somewhere in it).

        dialect: "python" (`\d \w \s` are Unicode, `$` may stand before a last line feed) or "ecma" (ASCII).

        Raises GrammarSyntaxError with the spot for malformed patterns, for back-references, recursion,
        atomic and possessive groups, and for patterns that match no text; GrammarLimitError;
        GrammarCancelledError.
        """
        if dialect not in ("python", "ecma"):
            raise ValueError(f"dialect must be 'python' or 'ecma', not {dialect!r}")
        key = ("regex", pattern, search, dialect, ignore_case, multi_line, dot_all, verbose)
        return self._cached(
            key,
            lambda: _native.compile_regex(
                self.vocabulary,
                pattern,
                search=search,
                ecma=dialect == "ecma",
                ignore_case=ignore_case,
                multi_line=multi_line,
                dot_all=dot_all,
                verbose=verbose,
                limits=self._limit_pairs,
                cancel=cancel,
            ),
        )

    def compile_json_schema(
        self,
        schema: Any,
        *,
        whitespace: json_schema.Whitespace = "spaced",
        numbers: json_schema.Numbers = "canonical",
        property_order: json_schema.PropertyOrder = "schema",
        format: json_schema.Format = "assert",
        registry: Mapping[str, Any] | None = None,
        dialect: str | None = None,
        on_unsupported: json_schema.OnUnsupported = "error",
        cancel: CancelToken | None = None,
    ) -> CompiledGrammar:
        """Compile a JSON Schema: exactly its instances, spelled as the settings say (docs/json-schema.md).

        schema: a dict or bool, a JSON text, a pydantic model, a TypedDict or another type that pydantic describes.
        whitespace: "spaced" (`, ` and `: `, one line), "compact" (none) or "any".
        numbers: "canonical" (no exponent, no fraction on integers, at most 20 digits unless the schema's own numbers
            have more) or "any" spelling.
        property_order: "schema" (declared properties in declaration order, others after them) or "any".
        format: "assert" or "annotate".
        registry: URI -> schema (dict, bool or JSON text), for references out of the schema; nothing is fetched.
        dialect: "draft-04", "draft-06", "draft-07", "2019-09" or "2020-12"; by `$schema` (else 2020-12) when None.
        on_unsupported: "error", or "relax" to leave out what is not supported; what was left out is in
            `CompiledGrammar.relaxed_keywords`.

        Raises UnsupportedSchemaError with the JSON pointer for a schema that is malformed, uses something that is not
        decided here, or has no instance; GrammarLimitError; GrammarCancelledError.
        """
        text = json_schema.schema_text(schema)
        documents = json_schema.registry_texts(registry, text)
        key = (
            "json_schema",
            text,
            whitespace,
            numbers,
            property_order,
            format,
            tuple(documents),
            dialect,
            on_unsupported,
        )
        for value, literal in zip(
            key[3:6] + key[8:],
            (json_schema.Numbers, json_schema.PropertyOrder, json_schema.Format, json_schema.OnUnsupported),
            strict=True,
        ):
            if value not in get_args(literal):
                raise ValueError(f"{value!r} is not one of {', '.join(map(repr, get_args(literal)))}")
        return self._cached(
            key,
            lambda: _native.compile_json_schema(
                self.vocabulary,
                text,
                whitespace=whitespace,
                canonical_numbers=numbers == "canonical",
                any_order=property_order == "any",
                assert_format=format == "assert",
                dialect=dialect,
                relax=on_unsupported == "relax",
                registry=documents,
                limits=self._limit_pairs,
                cancel=cancel,
            ),
        )

    def clear_cache(self) -> None:
        """Forget all compiled grammars that nobody else holds."""
        self._cache.clear()

    def _cached(self, key: Hashable, build: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        found = self._cache.get(key)
        if found is None:
            found = build()
            self._cache.put(key, found)
        return found
