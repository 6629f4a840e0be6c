"""Reports from the field (`tests/data/field-reports.jsonl.gz`), components engine and sampler: each stays mended.

Whole engines over a scripted model with real grammars; every test reads its input from the report.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from offseek.engine import GenerationRequest, LocalEngine, NoAllowedTokenError, SamplingParams
from offseek.grammars import GrammarCompiler, GrammarError, Vocabulary
from offseek.kernels import STATUS_NOTHING_ALLOWED, STATUS_OK, RowSettings, sample

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "field-reports.jsonl.gz"
with gzip.open(DATA, "rt", encoding="utf-8") as _lines:
    OURS = {r["id"]: r for r in map(json.loads, _lines) if r["component"] in ("engine", "sampler")}

VOCAB, EOS, THINK_END = 300, 257, 299
BLANKS = {258: b"    ", 259: b"\n\n", 260: b" \n", 261: b" " * 16}
TOKEN_BYTES = [BLANKS.get(i, bytes([i]) if i < 256 else b"") for i in range(VOCAB)]
Make, RunAll = Callable[..., LocalEngine], Callable[..., Any]


def report(name: str) -> dict[str, Any]:
    return OURS[name]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(
        Vocabulary(TOKEN_BYTES, eos_token_ids=[EOS], special_token_ids=[THINK_END], vocab_size=VOCAB)
    )


def prefers(*texts: bytes) -> Callable[[list[int]], torch.Tensor]:
    """Logits that like the tokens in the order given, whatever came before."""
    row = torch.zeros(VOCAB)
    for rank, token in enumerate(itertools.chain.from_iterable(texts)):
        row[token] = 50.0 - rank
    return lambda tokens: row


def text_of(done: Any) -> str:
    return b"".join(TOKEN_BYTES[t] for t in done.tokens).decode()


def test_a_mask_without_tokens_fails_its_own_row() -> None:
    given = report("sampler-empty-mask-row")["input"]
    masks = torch.tensor([[sum(bit << i for i, bit in enumerate(row))] for row in given["masks"]], dtype=torch.int32)
    settings = RowSettings.uniform(3, temperature=given["temperature"])
    out = sample(torch.tensor(given["logits"]), settings, bitmask=masks)
    assert out.token_ids.tolist() == [2, -1, 0]
    assert out.status.tolist() == [STATUS_OK, STATUS_NOTHING_ALLOWED, STATUS_OK]
    assert not bool(torch.isnan(out.logprobs).any())


def test_a_mask_without_tokens_is_a_typed_error_of_its_request(
    toy_engine: Make, run_all: RunAll, scripted_grammar: Any
) -> None:
    report("sampler-empty-mask-row")
    sampling = SamplingParams(temperature=0, max_tokens=4)
    requests = {"a": ([1], sampling), "b": ([1], sampling, scripted_grammar([])), "c": ([1], sampling)}
    done = run_all(toy_engine(prefers(b"x")), requests)
    assert isinstance(done["b"].last.error, NoAllowedTokenError)
    assert text_of(done["a"]) == text_of(done["c"]) == "xxxx"


def test_greedy_rows_beside_sampled_ones_under_minus_infinity() -> None:
    rows = report("sampler-greedy-with-masked-logits")["input"]["rows"]
    logits = torch.tensor([[float(v) for v in row["logits"]] for row in rows])
    settings = RowSettings.uniform(len(rows))
    settings.temperature.copy_(torch.tensor([float(row["temperature"]) for row in rows]))
    for order in itertools.permutations(range(len(rows))):
        index = torch.tensor(order)
        settings.temperature.copy_(torch.tensor([float(rows[i]["temperature"]) for i in order]))
        out = sample(logits[index], settings)
        assert out.token_ids.tolist() == [[1, 2, 0][i] for i in order]
        assert all(math.isfinite(v) for v in out.logprobs.tolist())


def test_log_probabilities_are_strict_json(toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler) -> None:
    given = report("sampler-logprobs-are-json")["input"]
    sampling = SamplingParams(temperature=0, max_tokens=8, logprobs=given["top_logprobs"])
    done = run_all(toy_engine(prefers(b"y")), {"r": ([1], sampling, compiler.compile_regex("yes|no"))})["r"]
    assert text_of(done) == "yes"
    entries = [(e.token_id, e.raw, e.masked, e.top_raw, e.top_masked) for e in done.logprobs]
    assert "Infinity" not in json.dumps(entries, allow_nan=False)
    assert [e.token_id for e in done.logprobs] == done.tokens
    assert [e.masked for e in done.logprobs[1:]] == [0.0, 0.0]  # one token allowed
    assert all(len(e.top_masked) == 1 for e in done.logprobs[1:])


def test_a_seeded_request_does_not_depend_on_its_neighbours(
    toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler
) -> None:
    given = report("sampler-seed-independent-of-neighbours")["input"]
    a = [65], SamplingParams(**given["request_A"], ignore_eos=True)

    def varied(tokens: list[int]) -> torch.Tensor:
        return torch.cos(torch.arange(VOCAB) * (1.0 + sum(tokens) % 97)) * 2

    grammar = compiler.compile_json_schema({"type": "object"})
    mixed = {
        f"n{i}": ([i], SamplingParams(seed=i if i % 2 else None, max_tokens=6 + i), *([grammar] if i % 3 == 0 else []))
        for i in range(31)
    }
    neighbours: list[dict[str, Any]] = [
        {}, {"n": ([2], SamplingParams(max_tokens=9))}, {"n": ([2], SamplingParams(seed=7, max_tokens=9))}, mixed,
    ]  # fmt: skip
    seen = set()
    for _ in range(given["repeats"]):
        for beside, first in itertools.product(neighbours, (True, False)):
            engine = toy_engine(varied, max_num_sequences=40, num_blocks=200)
            requests = {"A": a} | beside if first else beside | {"A": a}
            seen.add(tuple(run_all(engine, requests)["A"].tokens))
    assert [len(tokens) for tokens in seen] == [24]


def test_drafts_after_the_end_of_the_grammar(toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler) -> None:
    given = report("engine-spec-decode-after-end")["input"]
    grammar = compiler.compile_json_schema(given["schema"], whitespace="compact")
    prompt = list(b'{"a":1}\n<think>{"a":1')  # what followed is proposed again
    sampling = SamplingParams(temperature=0, max_tokens=32)
    for drafts in (0, given["draft_tokens_per_step"]):
        engine = toy_engine(prefers(b'}a":1{'), speculative_tokens=drafts, forced_tokens=False)
        done = run_all(engine, {"r": (prompt, sampling, grammar)})["r"]
        assert (text_of(done), done.last.finish_reason, done.last.error) == ('{"a":1}', "stop", None)
        assert (engine.stats.num_draft_tokens > 0) == (drafts > 0)


@pytest.mark.parametrize("drafts", [0, 3])
def test_rows_keep_their_own_masks(toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler, drafts: int) -> None:
    batch = report("engine-mixed-batch-mask-rows")["input"]["batch"]
    sampling = SamplingParams(temperature=0, max_tokens=12)
    requests: dict[str, Any] = {}
    for index, entry in enumerate(batch):
        grammar = ()
        if "schema" in entry:
            grammar = (compiler.compile_json_schema(entry["schema"]),)
        elif "regex" in entry:
            grammar = (compiler.compile_regex(entry["regex"]),)
        requests[entry["id"]] = ([index + 1] * 3, sampling, *grammar)
    requests["free3"] = ([9], sampling)  # takes the place of the first that ends
    names = list(requests)
    for shift in range(len(names)):
        order = names[shift:] + names[:shift]
        engine = toy_engine(prefers(b"!"), max_num_sequences=5, speculative_tokens=drafts)
        done = run_all(engine, {name: requests[name] for name in order})
        assert {name: text_of(done[name]) for name in ("free1", "free2", "free3")} == dict.fromkeys(
            ("free1", "free2", "free3"), "!" * 12
        )
        assert (text_of(done["json1"]), text_of(done["json2"])) == ('"A"', '"B"')
        assert len(text_of(done["re1"])) == 4
        assert text_of(done["re1"]).isdigit()


def test_a_model_that_loves_blanks_cannot_fill_the_budget(
    toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler
) -> None:
    given = report("engine-whitespace-runaway")["input"]
    logits = torch.zeros(VOCAB)
    for rank, token in enumerate([*BLANKS, 32, 10, *b"0123456789", ord('"')]):
        logits[token] = 50.0 - rank
    sampling = SamplingParams(temperature=0, max_tokens=given["max_tokens"])
    strings = {"maxLength": 20}  # blanks inside a string are its own business
    schema = json.loads(json.dumps(given["schema"]))
    schema["properties"]["b"] |= strings
    schema["properties"]["a"] |= {"maximum": 10**6}
    for whitespace in ("spaced", "compact"):
        grammar = compiler.compile_json_schema(schema, whitespace=whitespace)  # type: ignore[arg-type]
        done = run_all(toy_engine(lambda tokens: logits), {"r": ([1], sampling, grammar)})["r"]
        assert done.last.finish_reason == "stop", whitespace
        answer = json.loads(text_of(done))
        assert set(answer) == {"a", "b"}
        outside = text_of(done).replace(json.dumps(answer["b"]), '""')
        assert "         " not in outside.replace("\n", " "), whitespace  # 8 in a row at most


def test_reasoning_is_free_and_the_answer_constrained(
    toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler
) -> None:
    given = report("engine-thinking-plus-schema")["input"]
    schema = json.dumps(given["schema"])
    for run, stage in zip(given["runs"], ("reasoning_start", None), strict=True):
        wanted = run["raw_output"]
        script: list[int] = []
        for index, part in enumerate(wanted.split("</think>")):
            script += [THINK_END] * (index > 0) + list(part.encode())

        def speaks(tokens: list[int], script: list[int] = script) -> torch.Tensor:
            at = 0
            for token in tokens[1:]:
                while at < len(script) and script[at] != token and script[at] in b" \n":
                    at += 1  # blanks that the grammar does not let it say
                at += at < len(script) and script[at] == token
            row = torch.zeros(VOCAB)
            row[EOS] = 7.0
            for rank, token in enumerate(script[at : at + 3]):
                row[token] = max(float(row[token]), 10.0 - rank)
            return row

        grammar = compiler.compile_turn(
            "json",
            schema,
            stage=stage,
            special_tokens={"</think>": THINK_END},  # type: ignore[arg-type]
        )
        sampling = SamplingParams(temperature=0, max_tokens=200)
        done = run_all(toy_engine(speaks, forced_tokens=False), {"r": ([1], sampling, grammar)})["r"]
        before, _, answer = "".join(
            "</think>" if t == THINK_END else TOKEN_BYTES[t].decode() for t in done.tokens
        ).rpartition("</think>")
        assert before == ("Let me see {not json}." if run["thinking"] else "")
        assert json.loads(answer) == {"x": "v"}
        assert done.last.finish_reason == "stop"


def test_a_constraint_that_cannot_be_built_is_an_error(
    toy_engine: Make, run_all: RunAll, compiler: GrammarCompiler
) -> None:
    enforced, impossible, undefined = report("engine-constraint-error-fails-closed")["input"]["requests"]
    matcher = compiler.compile_json_schema(enforced["schema"], whitespace="compact").matcher()
    assert matcher.accept_tokens(list(b'{"g":"ready!"}')) == 14
    matcher.reset()
    assert matcher.accept_tokens(list(b'{"g":"ready"')) < 12
    with pytest.raises(GrammarError):
        compiler.compile_json_schema(impossible["schema"])
    with pytest.raises(GrammarError, match="undefined-rule"):
        compiler.compile_ebnf(undefined["grammar"])


def test_the_cache_of_grammars_is_bounded(compiler: GrammarCompiler) -> None:
    given = report("engine-grammar-cache-bounded")["input"]
    limit = 2**20  # smaller than the report's, so that fewer schemas overflow it
    assert given["cache_limit_mb"] * 2**20 > limit
    small = GrammarCompiler(compiler.vocabulary, cache_bytes=limit)
    for counter in itertools.chain(range(600), range(100)):
        grammar = small.compile_json_schema({"const": counter})
        matcher = grammar.matcher()
        digits = list(str(counter).encode())
        assert matcher.accept_tokens(digits) == len(digits)
        assert matcher.is_accepting()
        held = sum(g.nbytes for g in small._cache._items.values())
        assert held <= limit + 2**16  # those in use grow a little after they were put there
    assert len(small._cache._items) < 600
    a, b = (small.compile_json_schema({"type": "object"}, whitespace=w) for w in ("spaced", "compact"))  # type: ignore[arg-type]
    assert a is not b
    assert small.compile_json_schema({"type": "object"}, whitespace="compact") is b


def test_generated_bytes_never_bring_back_the_prompt(toy_engine: Make) -> None:
    given = report("engine-prompt-ending-in-partial-character")["input"]
    pieces = [bytes.fromhex(p.replace(" ", "")) for p in given["prompt_token_bytes"] + given["generated_token_bytes"]]
    table = [pieces[i] if i < len(pieces) else b"" for i in range(VOCAB)]

    def says(tokens: list[int]) -> torch.Tensor:
        row = torch.zeros(VOCAB)
        row[len(tokens)] = 5.0
        return row

    engine = toy_engine(says, token_bytes=table)
    engine.add_request(
        GenerationRequest(request_id="r", prompt_token_ids=[0, 1], sampling=SamplingParams(temperature=0, max_tokens=2))
    )
    ids: list[int] = []
    while engine.has_work():
        for output in engine.step():
            ids += output.token_ids
    # Ids of the answer only: no text of the prompt can follow from them, and a lone rest of a character stays alone.
    assert b"".join(table[t] for t in ids).decode("utf-8", "replace") == "\ufffd ok"


def test_no_report_is_left_out() -> None:
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert [name for name in OURS if f'report("{name}")' not in source] == []
