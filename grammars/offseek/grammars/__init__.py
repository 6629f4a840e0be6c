"""Regex, JSON Schema, EBNF and turn grammars compiled to token bitmasks."""
