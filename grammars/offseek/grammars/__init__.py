"""Regex, JSON Schema, EBNF and turn grammars compiled to token bitmasks."""

from offseek._native import CancelToken, CompiledGrammar, Matcher, Vocabulary, accept_token_batch, fill_bitmask_batch
from offseek.grammars.compiler import GrammarCompiler
from offseek.grammars.errors import (
    GrammarCancelledError,
    GrammarError,
    GrammarLimitError,
    GrammarSyntaxError,
    MatcherError,
    UnsupportedSchemaError,
)
from offseek.grammars.limits import Limits

__all__ = [
    "CancelToken",
    "CompiledGrammar",
    "GrammarCancelledError",
    "GrammarCompiler",
    "GrammarError",
    "GrammarLimitError",
    "GrammarSyntaxError",
    "Limits",
    "Matcher",
    "MatcherError",
    "UnsupportedSchemaError",
    "Vocabulary",
    "accept_token_batch",
    "fill_bitmask_batch",
]
