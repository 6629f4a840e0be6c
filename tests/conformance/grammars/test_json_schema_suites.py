"""The official JSON Schema test suite and real schemas, byte by byte: nothing accepted or rejected wrongly.

The data are third-party and lie beside the clone in CI (`../shared/bench`). `benches/coverage.py` counts the same with
the real tokenizer and completions; this is the short form that `make test` runs.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from offseek.grammars import GrammarCompiler, GrammarError, Vocabulary

SHARED = pathlib.Path(__file__).resolve().parents[4] / "shared" / "bench"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
EOS = 256


def need(name: str) -> pathlib.Path:
    path = SHARED / name
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not beside this clone (../shared/bench)")
        pytest.skip(f"{name} is not beside this clone (../shared/bench)")
    return path


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(need(name), "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    """A compiler over all single bytes and one end token."""
    tokens = [bytes([b]) for b in range(256)] + [b""]
    return GrammarCompiler(Vocabulary(tokens, special_token_ids=[EOS], eos_token_ids=[EOS]), cache_bytes=1 << 20)


def suite(name: str) -> dict[str, dict[str, Any]]:
    """Schemas of a suite file with their tests."""
    found: dict[str, dict[str, Any]] = {}
    for row in lines(name):
        schema = row["schema"]
        if row.get("draft") == "7" and isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": DRAFT7, **schema}
        key = json.dumps([row.get("draft"), row["keyword"], schema])
        entry = found.setdefault(key, {"schema": schema, "remote": row.get("remote"), "tests": []})
        entry["tests"].append((json.dumps(row["instance"], ensure_ascii=False), row["valid"], row.get("desc")))
    return found


def check(
    compiler: GrammarCompiler, name: str, *, format: str, known: tuple[str, ...] = ()
) -> tuple[int, int, list[Any]]:
    """(schemas wholly right, schemas, wrong verdicts)."""
    with gzip.open(need("jsts-remotes.json.gz"), "rt", encoding="utf-8") as file:
        registry = json.load(file)
    right, wrong = 0, []
    entries = suite(name)
    for entry in entries.values():
        try:
            grammar = compiler.compile_json_schema(
                entry["schema"],
                whitespace="any",
                numbers="any",
                property_order="any",
                format=format,
                registry=registry if entry["remote"] else None,
            )
        except GrammarError:
            continue
        bad = [t for t in entry["tests"] if passes(grammar, t[0]) != t[1] and not any(k in t[0] for k in known)]
        wrong += [(entry["schema"], *t) for t in bad]
        right += not bad
    return right, len(entries), wrong


def passes(grammar: Any, text: str) -> bool:
    matcher = grammar.matcher()
    data = text.encode()
    return matcher.accept_tokens(list(data)) == len(data) and matcher.is_accepting()


def test_required_tests_of_the_official_suite(compiler: GrammarCompiler) -> None:
    right, total, wrong = check(compiler, "jsts.jsonl.gz", format="annotate")
    assert wrong == []
    assert right >= 0.95 * total


def test_formats_of_the_official_suite(compiler: GrammarCompiler) -> None:
    # "xn--" labels are not written, valid or not (docs/json-schema.md).
    right, total, wrong = check(compiler, "jsts-format.jsonl.gz", format="assert", known=("xn--",))
    assert wrong == []
    assert right >= 0.8 * total


def real_schemas(compiler: GrammarCompiler, step: int) -> tuple[int, int, list[Any]]:
    right, total, wrong = 0, 0, []
    for n, row in enumerate(lines("schemas-visible.jsonl.gz")):
        if n % step:
            continue
        total += 1
        try:
            grammar = compiler.compile_json_schema(row["schema"], whitespace="any", numbers="any", property_order="any")
        except GrammarError:
            continue
        tests = [t for t in row["tests"] if t.get("label") not in ("disputed", "unverified")]
        bad = [t for t in tests if passes(grammar, json.dumps(t["data"], ensure_ascii=False)) != t["valid"]]
        wrong += [(row["id"], t["valid"], t["data"]) for t in bad]
        right += not bad
    return right, total, wrong


def test_a_sample_of_real_schemas(compiler: GrammarCompiler) -> None:
    right, total, wrong = real_schemas(compiler, 12)
    assert wrong == []
    assert right >= 0.97 * total


@pytest.mark.nightly
def test_all_real_schemas(compiler: GrammarCompiler) -> None:
    right, total, wrong = real_schemas(compiler, 1)
    assert wrong == []
    assert right >= 0.99 * total


@pytest.mark.nightly
def test_random_generation_under_masks_ends_in_instances() -> None:
    """10,000 texts: random allowed tokens, then the completion; judged by `jsonschema`, formats included."""
    import random

    import jsonschema
    from jsonschema.validators import validator_for

    tokens = [bytes([b]) for b in range(256)] + [b""]
    compiler = GrammarCompiler(Vocabulary(tokens, special_token_ids=[EOS], eos_token_ids=[EOS]), cache_bytes=1 << 20)
    rng, made = random.Random(11), 0
    rows = [r for r in lines("schemas-visible.jsonl.gz") if len(json.dumps(r["schema"])) < 20_000]
    rng.shuffle(rows)
    for row in rows * 10:
        if made >= 10_000:
            break
        schema = row["schema"]
        cls = validator_for(schema, default=jsonschema.Draft202012Validator)
        judge = cls(schema, format_checker=cls.FORMAT_CHECKER)
        try:
            grammar = compiler.compile_json_schema(schema)
        except GrammarError:
            continue
        for _ in range(8):
            matcher, text = grammar.matcher(), bytearray()
            for _ in range(rng.randrange(120)):
                choices = [t for t in matcher.allowed_tokens() if t != EOS and (t < 0x80 or rng.random() < 0.1)]
                if not choices:
                    break
                byte = rng.choice(choices)
                assert matcher.accept_token(byte)
                text.append(byte)
            text += bytes(t for t in matcher.shortest_completion() if t != EOS)
            # Leap seconds are valid by RFC 3339 but not to Python's datetime.
            assert b":60" in text or judge.is_valid(json.loads(text)), (row["id"], bytes(text))
            made += 1
    assert made >= 10_000
