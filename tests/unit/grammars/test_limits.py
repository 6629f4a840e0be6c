"""Limits of compiles, masks and tokens: small threads, and other requests that share a grammar."""

from __future__ import annotations

import subprocess
import sys

import pytest
from offseek.grammars import GrammarCompiler, GrammarLimitError, Limits, Matcher, Vocabulary

BYTES = Vocabulary([bytes([byte]) for byte in range(256)])

IN_A_SMALL_THREAD = """
import sys, threading
from offseek.grammars import GrammarCompiler, GrammarError, Vocabulary

compiler = GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)]))
head, before, middle, after, count, front_end = sys.argv[1:]
source = head + before * int(count) + middle + after * int(count)

def compile():
    try:
        grammar = getattr(compiler, front_end)(source)
        matcher = grammar.matcher()
        print("compiled", len(matcher.allowed_tokens()) > 0, len(matcher.shortest_completion()) >= 0)
    except GrammarError as error:
        print(type(error).__name__)

threading.stack_size(256 * 1024)
thread = threading.Thread(target=compile)
thread.start()
thread.join()
"""
SCHEMA, REGEX, EBNF = "compile_json_schema", "compile_regex", "compile_ebnf"
# (head, before, middle, after, front end): head + before * n + middle + after * n
NESTED = {
    "items": ("", '{"items":', "{}", "}", SCHEMA),
    "prefixItems": ("", '{"minItems":1,"prefixItems":[', "{}", "]}", SCHEMA),
    "allOf": ("", '{"allOf":[', "{}", "]}", SCHEMA),
    "anyOf": ("", '{"anyOf":[', "{}", "]}", SCHEMA),
    "properties": ("", '{"properties":{"a":', "{}", "}}", SCHEMA),
    "required": ("", '{"required":["a"],"properties":{"a":', "{}", "}}", SCHEMA),
    "not": ("", '{"not":', '{"type":"null"}', "}", SCHEMA),
    "dependentSchemas": ("", '{"dependentSchemas":{"a":', "{}", "}}", SCHEMA),
    "pattern": ("", "(?:a|", "b", ")*", REGEX),
    "rule": ("root ::= ", "(", '"a"', ")?", EBNF),
}


@pytest.mark.parametrize("count", [10, 300, 900, 10_000])
@pytest.mark.parametrize("name", NESTED)
def test_deep_sources_in_small_threads_compile_or_are_refused(name: str, count: int) -> None:
    *parts, front_end = NESTED[name]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SMALL_THREAD, *parts, str(count), front_end],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-500:]
    refused = {"GrammarLimitError", "GrammarSyntaxError", "UnsupportedSchemaError"}
    assert done.stdout.strip() in refused | {"compiled True True"}
    if count == 10:
        assert done.stdout.strip() == "compiled True True"


def accept(matcher: Matcher, text: bytes) -> None:
    for byte in text:
        assert matcher.accept_token(byte)


# After "b" three hundred rules are open at once; behind "a" nothing is ambiguous.
WIDE = 'root ::= "a"* | "b" (' + " | ".join(f"r{i}" for i in range(300)) + ")\n"
WIDE += "\n".join(f'r{i} ::= "x" r{i}? "{i}"' for i in range(300))


@pytest.mark.parametrize(("limit", "value"), [("threads", 4), ("mask_ms", 0)])
def test_a_matcher_that_hits_a_limit_leaves_the_others_alone(limit: str, value: int) -> None:
    grammar = GrammarCompiler(BYTES, limits=Limits(**{limit: value})).compile_ebnf(WIDE)
    early, wide, late = (grammar.matcher() for _ in range(3))
    accept(early, b"a")
    for _ in range(2):  # a matcher in an error state repeats its error
        with pytest.raises(GrammarLimitError) as caught:
            accept(wide, b"bxx")
        assert caught.value.name == limit
    accept(early, b"aa")
    accept(late, b"aaa")
    accept(grammar.matcher(), b"a")
    assert early.allowed_tokens() == late.allowed_tokens()
    assert early.is_accepting()
    assert late.is_accepting()
