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
from offseek.grammars.ebnf import (
    Dialect,
    RuleFinding,
    compile_ebnf,
    compile_turn,
    ebnf_after_reasoning,
    known_special_tokens,
)
from offseek.grammars.errors import GrammarError
from offseek.grammars.limits import Limits
from offseek.grammars.turn import Turn, TurnKind, TurnStage, TurnVersion

DEFAULT_CACHE_BYTES = 192 << 20
MAX_SPELLINGS = 2_000


class _Cache:
    """Least recently used first out; sizes are asked anew at each insertion, since grammars grow in use."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._items: OrderedDict[Hashable, CompiledGrammar] = OrderedDict()
        self._spellings: OrderedDict[Hashable, Hashable] = OrderedDict()
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

    def by_spelling(self, spelling: Hashable | None) -> CompiledGrammar | None:
        """The grammar that was compiled from exactly this text and these settings."""
        with self._lock:
            key = self._spellings.get(spelling)
            found = self._items.get(key) if key is not None else None
            if found is not None:
                self._items.move_to_end(key)
            return found

    def add_spelling(self, spelling: Hashable | None, key: Hashable) -> None:
        if spelling is None:
            return
        with self._lock:
            self._spellings[spelling] = key
            while len(self._spellings) > MAX_SPELLINGS:
                self._spellings.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._spellings.clear()

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
        self._findings: dict[Hashable, tuple[RuleFinding, ...]] = {}

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
        settings = (whitespace, numbers, property_order, format, dialect, on_unsupported)
        spelling = None if registry else (text, settings)
        known = self._cache.by_spelling(spelling)
        if known is not None:
            return known
        for value, literal in zip(
            settings[1:4] + settings[5:],
            (
                json_schema.Numbers,
                json_schema.PropertyOrder,
                json_schema.Format,
                json_schema.OnUnsupported,
            ),
            strict=True,
        ):
            if value not in get_args(literal):
                raise ValueError(f"{value!r} is not one of {', '.join(map(repr, get_args(literal)))}")
        documents = json_schema.registry_texts(registry, text)
        # Other spellings of a schema are the same schema; what is no JSON is refused by the compiler.
        key = ("json_schema", _native.json_fingerprint(text) or text, settings, tuple(documents))
        grammar = self._cached(
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
        self._cache.add_spelling(spelling, key)
        return grammar

    def compile_ebnf(
        self,
        source: str,
        *,
        dialect: Dialect = "gbnf",
        start: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        cancel: CancelToken | None = None,
    ) -> CompiledGrammar:
        """Compile a context-free grammar; any will do (left recursion, ambiguity, nullable rules).

        dialect: "gbnf" (llama.cpp's notation, also XGrammar's and W3C's spellings) or "lark" (what
        `lark.Lark(source, parser="earley", lexer="dynamic_complete")` parses).
        start: the rule to start from; default `root` (gbnf) or `start` (lark).
        special_tokens: ids by spelling, for `<text>` in the grammar; default: DeepSeek V4's.
        `ebnf_findings` says which rules are unreachable or match nothing.

        Raises GrammarSyntaxError with line, column and caret; UnsupportedSchemaError for a schema of
        `%json`; GrammarLimitError; GrammarCancelledError.
        """
        return self._ebnf(source, dialect, start, special_tokens, cancel)[0]

    def ebnf_findings(
        self, source: str, *, dialect: Dialect = "gbnf", start: str | None = None
    ) -> tuple[RuleFinding, ...]:
        """Rules of a grammar that cannot be meant: unreachable and non-productive ones. Raises as `compile_ebnf`."""
        return self._ebnf(source, dialect, start, None, None)[1]

    def compile_turn(
        self,
        kind: TurnKind | None,
        schema: str = "",
        *,
        version: TurnVersion = "v4",
        stage: TurnStage | None = None,
        starts_in_tool_calls: bool = False,
        special_tokens: Mapping[str, int] | None = None,
        cancel: CancelToken | None = None,
    ) -> CompiledGrammar:
        """Compile the grammar of a whole assistant turn (see `offseek.grammars.turn`).

        kind, schema: those of the recipe's output constraint, or "ebnf" and a GBNF grammar; kind None constrains
        nothing but the markup.
        version: spelling of the tags ("hermes": `<tool_call>` elements).
        stage: where the turn starts in thinking mode; None when thinking is off.
        starts_in_tool_calls: the prompt ends with the opening tag of the calls.
        special_tokens: ids of `</think>`, `｜DSML｜`, `<tool_call>` and `</tool_call>`; default: DeepSeek V4's.

        Raises UnsupportedSchemaError naming the tool; GrammarSyntaxError for a bad pattern; GrammarError
        when a needed special token is missing; GrammarLimitError; GrammarCancelledError.
        """
        tokens = known_special_tokens(self.vocabulary, special_tokens)
        if kind == "ebnf":
            plain = self.compile_ebnf(schema, special_tokens=special_tokens, cancel=cancel)
            if stage not in ("reasoning_start", "reasoning_continuation"):
                return plain
            if "</think>" not in tokens:
                raise GrammarError("the vocabulary has no </think> token, which ends the reasoning")
            source, start = ebnf_after_reasoning(schema, tokens["</think>"])
            return self.compile_ebnf(source, start=start, special_tokens=special_tokens, cancel=cancel)
        turn = Turn(
            kind=kind,
            schema=schema,
            version=version,
            stage=stage,
            starts_in_tool_calls=starts_in_tool_calls,
            dsml=tokens.get("｜DSML｜"),
            think_end=tokens.get("</think>"),
            tool_open=tokens.get("<tool_call>"),
            tool_close=tokens.get("</tool_call>"),
        )
        return self._cached(
            ("turn", turn), lambda: compile_turn(self.vocabulary, turn, limits=self._limit_pairs, cancel=cancel)
        )

    def _ebnf(
        self,
        source: str,
        dialect: Dialect,
        start: str | None,
        special_tokens: Mapping[str, int] | None,
        cancel: CancelToken | None,
    ) -> tuple[CompiledGrammar, tuple[RuleFinding, ...]]:
        tokens = known_special_tokens(self.vocabulary, special_tokens)
        key = ("ebnf", source, dialect, start, tuple(sorted(tokens.items())))
        findings = self._findings.get(key)
        grammar = self._cache.get(key)
        if grammar is None or findings is None:
            grammar, findings = compile_ebnf(
                self.vocabulary,
                source,
                dialect=dialect,
                start=start,
                special_tokens=tokens,
                limits=self._limit_pairs,
                cancel=cancel,
            )
            self._cache.put(key, grammar)
            if len(self._findings) > 1000:
                self._findings.clear()
            self._findings[key] = findings
        return grammar, findings

    def clear_cache(self) -> None:
        """Forget all compiled grammars that nobody else holds."""
        self._cache.clear()

    def _cached(self, key: Hashable, build: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        found = self._cache.get(key)
        if found is None:
            found = build()
            self._cache.put(key, found)
        return found
