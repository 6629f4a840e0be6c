"""The engine loop over a scripted model: every row gets its own settings, mask, stop and error."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from offseek.engine import (
    ConfigError,
    ContextLengthError,
    GenerationRequest,
    InvalidLogitsError,
    LocalEngine,
    NoAllowedTokenError,
    SamplingParams,
)

VOCAB, EOS = 300, 257
GREEDY = SamplingParams(temperature=0, max_tokens=12)
BANG = ord("!")


def always(token: int) -> Callable[[list[int]], torch.Tensor]:
    """A model whose favourite is always the same token; others slightly prefer low ids."""

    def logits_of(tokens: list[int]) -> torch.Tensor:
        row = -torch.arange(VOCAB) * 1e-3
        row[token] = 5.0
        return row

    return logits_of


def counting(tokens: list[int]) -> torch.Tensor:
    """A model that says last token + 1, with a distribution that depends on the whole prefix."""
    row = torch.cos(torch.arange(VOCAB) * (1.0 + sum(tokens) % 97)) * 2
    row[(tokens[-1] + 1) % 256] += 3.0
    row[EOS] = -10.0
    return row


def text(tokens: list[int]) -> str:
    return bytes(tokens).decode()


@pytest.mark.parametrize("speculative_tokens", [0, 3])
@pytest.mark.parametrize("forced_tokens", [False, True])
def test_free_and_constrained_rows_keep_their_own_masks_in_every_order(
    toy_engine: Callable[..., LocalEngine],
    run_all: Callable[..., Any],
    scripted_grammar: Any,
    speculative_tokens: int,
    forced_tokens: bool,
) -> None:
    digits = scripted_grammar([f"{a}{b}{a}{b}".encode() for a, b in itertools.product(range(10), repeat=2)])
    requests: dict[str, Any] = {
        "free1": ([1], GREEDY), "json1": ([2], GREEDY, scripted_grammar([b'"A"'])), "free2": ([3], GREEDY),
        "re1": ([4], GREEDY, digits), "json2": ([5], GREEDY, scripted_grammar([b'"B"', b'"Bee"'])),
    }  # fmt: skip
    names = list(requests)
    for shift in range(len(names)):
        engine = toy_engine(
            always(BANG), max_num_sequences=4, speculative_tokens=speculative_tokens, forced_tokens=forced_tokens
        )
        order = names[shift:] + names[:shift]  # one more than fits at once: the last takes a slot that became free
        done = run_all(engine, {name: requests[name] for name in order})
        assert {name: text(done[name].tokens) for name in names} == {
            "free1": "!" * 12, "free2": "!" * 12, "json1": '"A"', "re1": "0000", "json2": '"B"',
        }  # fmt: skip
        assert {n: done[n].last.finish_reason for n in names} == {
            "free1": "length", "free2": "length", "json1": "stop", "re1": "stop", "json2": "stop",
        }  # fmt: skip


def test_drafts_after_the_end_of_the_grammar_change_nothing(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    body = b'{"a":1}'
    prompt = list(body + b"\n<think>" + body[:-1])

    def likes_to_repeat(tokens: list[int]) -> torch.Tensor:
        row = torch.zeros(VOCAB)
        row[ord("}")], row[EOS], row[ord("\n")] = 3.0, 2.0, 4.0
        return row

    for speculative_tokens in (0, 3):
        engine = toy_engine(likes_to_repeat, speculative_tokens=speculative_tokens, forced_tokens=False)
        done = run_all(engine, {"r": (prompt, GREEDY, scripted_grammar([body]))})["r"]
        assert (bytes(done.tokens), done.last.finish_reason, done.last.error) == (body, "stop", None)
        assert (engine.stats.num_draft_tokens > 0) == (speculative_tokens > 0)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_speculation_gives_the_same_tokens_in_fewer_steps(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], temperature: float
) -> None:
    def repeating(tokens: list[int]) -> torch.Tensor:
        row = torch.zeros(VOCAB)
        row[b"abcde"[len(tokens) % 5]] = 9.0
        row[EOS] = -9.0
        return row

    sampling = SamplingParams(temperature=temperature, max_tokens=80, seed=5)
    plain, drafted = toy_engine(repeating), toy_engine(repeating, speculative_tokens=6)
    a, b = (run_all(e, {"r": (list(b"abcdeabcde"), sampling)})["r"].tokens for e in (plain, drafted))
    assert a == b
    assert drafted.stats.num_steps < plain.stats.num_steps / 2
    assert 0 < drafted.stats.num_accepted_draft_tokens <= drafted.stats.num_draft_tokens


def test_seeded_request_does_not_depend_on_its_neighbours(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    a = ([65], SamplingParams(seed=11, temperature=0.9, max_tokens=24))
    many = {
        f"n{i}": (
            [i], SamplingParams(seed=i if i % 2 else None, temperature=1.3, top_k=5 * (i % 3), max_tokens=5 + i),
            *([scripted_grammar([b"yes", b"no"])] if i % 4 == 0 else []),
        )
        for i in range(31)
    }  # fmt: skip
    alone = run_all(toy_engine(counting), {"A": a})["A"].tokens
    assert len(alone) == 24
    settings = {"max_num_sequences": 32, "num_blocks": 128}
    neighbourhoods: list[dict[str, Any]] = [
        {"B": ([9], SamplingParams(temperature=1.0, max_tokens=30))},
        {"B": ([9], SamplingParams(temperature=1.0, seed=7, max_tokens=30))},
        many,
    ]
    for others in neighbourhoods:
        for requests in ({"A": a} | others, others | {"A": a}):
            assert run_all(toy_engine(counting, **settings), requests)["A"].tokens == alone


def test_row_without_an_allowed_token_fails_alone(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    done = run_all(
        toy_engine(always(BANG)),
        {
            "a": ([1], GREEDY),
            "empty": ([1], GREEDY, scripted_grammar([])),
            "b": ([1], GREEDY, scripted_grammar([b"ok"])),
        },
    )
    assert isinstance(done["empty"].last.error, NoAllowedTokenError)
    assert done["empty"].last.finish_reason == "error"
    assert (done["empty"].tokens, text(done["a"].tokens), text(done["b"].tokens)) == ([], "!" * 12, "ok")


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_row_with_invalid_logits_fails_alone(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], poison: float
) -> None:
    def logits_of(tokens: list[int]) -> torch.Tensor:
        row = always(BANG)(tokens)
        if tokens[0] == 13 and len(tokens) == 4:
            row[77] = poison
        return row

    for temperature in (0.0, 0.7):
        sampling = SamplingParams(temperature=temperature, max_tokens=6, seed=1)
        done = run_all(toy_engine(logits_of), {"good": ([1], sampling), "bad": ([13], sampling)})
        assert isinstance(done["bad"].last.error, InvalidLogitsError)
        assert len(done["bad"].tokens) == 3
        assert (len(done["good"].tokens), done["good"].last.finish_reason) == (6, "length")


def test_failing_matcher_ends_its_own_request_only(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    class Failing(scripted_grammar):  # type: ignore[misc]
        def matcher(self) -> Any:
            matcher = super().matcher()

            class Broken(type(matcher)):  # type: ignore[misc]
                def fill_bitmask(self, out: Any) -> None:
                    if len(self.seen) == 2:
                        raise RuntimeError("the matcher broke")
                    super().fill_bitmask(out)

            return Broken(matcher.grammar, matcher.seen)

    done = run_all(
        toy_engine(always(BANG), forced_tokens=False),
        {"bad": ([1], GREEDY, Failing([b"abcd"])), "good": ([1], GREEDY, scripted_grammar([b"abcd"]))},
    )
    assert text(done["good"].tokens) == "abcd"
    assert (text(done["bad"].tokens), done["bad"].last.finish_reason) == ("ab", "error")
    assert "the matcher broke" in str(done["bad"].last.error)


def test_preemption_and_resume_change_nothing(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    requests = {f"r{i}": ([i, i + 1], SamplingParams(temperature=0.8, seed=i, max_tokens=90)) for i in range(6)}
    roomy = run_all(toy_engine(counting), requests)
    for prefix_cache in (False, True):
        tight = toy_engine(counting, num_blocks=13, prefix_cache=prefix_cache)
        done = run_all(tight, requests)
        assert tight.stats.num_preemptions > 0
        assert {n: d.tokens for n, d in done.items()} == {n: d.tokens for n, d in roomy.items()}
        assert tight._pool.num_free == 13


def test_prefix_hits_are_reported_in_whole_blocks(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    engine = toy_engine(counting)
    prompt = [(7 * i) % 256 for i in range(40)]
    first = run_all(engine, {"a": (prompt, GREEDY)})["a"]
    again = run_all(engine, {"b": (prompt, GREEDY)})["b"]
    other = run_all(engine, {"c": (prompt[:20] + [0] * 20, GREEDY)})["c"]
    exact = run_all(engine, {"d": (prompt[:32], GREEDY)})["d"]
    hits = [d.last.prompt_cache_hit_tokens for d in (first, again, other, exact)]
    assert hits == [0, 32, 16, 16]  # one token of a prompt always has to be computed
    assert again.tokens == first.tokens
    off = toy_engine(counting, prefix_cache=False)
    run_all(off, {"a": (prompt, GREEDY)})
    assert run_all(off, {"b": (prompt, GREEDY)})["b"].last.prompt_cache_hit_tokens == 0


def test_prompts_that_arrive_together_share_their_prefix(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    prompt = [(7 * i) % 256 for i in range(40)]
    requests = {"a": (prompt, GREEDY), "b": (prompt, GREEDY), "c": (prompt[:20] + [0] * 20, GREEDY)}
    expected = run_all(toy_engine(counting, prefix_cache=False), requests)
    for budget in (64, 128, 24):  # within one pass, and in chunks over several
        engine = toy_engine(counting, max_batch_tokens=budget)
        done = run_all(engine, requests)
        assert [done[name].last.prompt_cache_hit_tokens for name in requests] == [0, 32, 16]
        assert {n: d.tokens for n, d in done.items()} == {n: d.tokens for n, d in expected.items()}
        assert engine._pool.num_free == 64
        assert engine.stats.num_cached_tokens == 48


def test_prefixes_shared_with_a_pass_that_did_not_happen_are_forgotten(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    prompt = [(7 * i) % 256 for i in range(40)]
    expected = run_all(toy_engine(counting), {"b": (prompt, GREEDY)})["b"].tokens
    interrupts = iter([True])

    def interrupted(tokens: list[int]) -> torch.Tensor:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return counting(tokens)

    engine = toy_engine(interrupted, max_batch_tokens=128)
    for name in ("a", "b"):
        engine.add_request(GenerationRequest(request_id=name, prompt_token_ids=prompt, sampling=GREEDY))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    engine._runner.model._by_slot.clear()  # type: ignore[attr-defined]  # what the broken pass stored counts for nothing
    engine.cancel("a")  # so "b" has to compute the prefix itself
    tokens: list[int] = []
    while engine.has_work():
        for output in engine.step():
            tokens += output.token_ids if output.request_id == "b" else ()
            hits = output.prompt_cache_hit_tokens
    assert (tokens, hits) == (expected, 0)
    assert engine._pool.num_free == 64


@pytest.mark.parametrize("toy_engine", ["overlapped"], indirect=True)
@pytest.mark.parametrize(
    "settings", [{"async_scheduling": True}, {"speculative_tokens": 4}, {"prefix_cache": False}], ids=str
)
@pytest.mark.parametrize("seed", range(6))
def test_how_the_engine_works_changes_no_output(
    toy_engine: Callable[..., LocalEngine], scripted_grammar: Any, seed: int, settings: dict[str, Any]
) -> None:
    """Random requests of all kinds that come at random steps, in tight memory."""
    rng = random.Random(seed)
    texts = [b"yes", b"no", b'{"a": 1, "b": 2}', b'{"a": 12, "c": 2}', b'{"a": 3']
    plan: dict[str, tuple[int, GenerationRequest]] = {}
    for i in range(14):
        sampling = SamplingParams(
            max_tokens=rng.randrange(1, 40), temperature=rng.choice([0.0, 0.9]), seed=i, top_k=rng.choice([0, 5]),
            stop=rng.choice([(), ("AB", "y")]), logprobs=rng.choice([None, None, 2]), ignore_eos=rng.random() < 0.5,
            repetition_penalty=rng.choice([1.0, 1.3]), stop_token_ids=rng.choice([(), (70, 80)]),
        )  # fmt: skip
        prompt = [rng.randrange(256) for _ in range(rng.randrange(1, 50))]
        grammar = scripted_grammar(rng.sample(texts, 3)) if rng.random() < 0.5 else None
        plan[f"r{i}"] = (
            rng.randrange(12),
            GenerationRequest(request_id=f"r{i}", prompt_token_ids=prompt, sampling=sampling, grammar=grammar),
        )

    def run(**settings: Any) -> dict[str, Any]:
        engine = toy_engine(counting, num_blocks=13, max_batch_tokens=32, **settings)
        found: dict[str, list[Any]] = {name: [[], [], None] for name in plan}
        for at in range(3000):
            for when, request in plan.values():
                if when == at:
                    engine.add_request(request)
            if at > 12 and not engine.has_work():
                break
            for output in engine.step():
                entry = found[output.request_id]
                assert entry[2] is None, "output after the last one"
                entry[0] += output.token_ids
                entry[1] += output.logprobs
                if output.finish_reason is not None:
                    entry[2] = output.finish_reason, output.stop_sequence, output.stop_cut_bytes, str(output.error)
        assert engine._pool.num_free == 13
        return found

    assert run(**settings) == run(async_scheduling=False)


@pytest.mark.parametrize("toy_engine", ["in turn"], indirect=True)
@pytest.mark.parametrize("settings", [{}, {"speculative_tokens": 3}, {"async_scheduling": True}], ids=str)
def test_answers_under_a_grammar_follow_the_exact_distribution(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    """Whole answers of many seeds against the product of the renormalised steps, with drafts that often fail."""
    texts = [b"abab", b"abba", b"baab", b"ba"]
    sampling = {"temperature": 1.3, "max_tokens": 8}
    bias = torch.zeros(VOCAB)
    bias[list(b"ab")], bias[EOS] = torch.tensor([0.4, 0.0]), 0.3

    def weights(prefix: bytes) -> dict[bytes, float]:
        """Probability of each text that begins with `prefix`, given it."""
        if prefix in texts and not any(t != prefix and t.startswith(prefix) for t in texts):
            return {prefix: 1.0}
        options = {t[len(prefix)] for t in texts if t.startswith(prefix) and t != prefix}
        options |= {EOS} if prefix in texts else set()
        logits = torch.tensor([float(bias[o]) / 1.3 for o in sorted(options)]).softmax(0).tolist()
        found: dict[bytes, float] = {}
        for option, share in zip(sorted(options), logits, strict=True):
            rest = {prefix: 1.0} if option == EOS else weights(prefix + bytes([option]))
            for done, inner in rest.items():
                found[done] = found.get(done, 0.0) + share * inner
        return found

    expected = weights(b"")
    engine = toy_engine(
        lambda tokens: bias,
        num_blocks=512,
        max_num_sequences=200,
        max_batch_tokens=4096,
        forced_tokens=False,
        **settings,
    )
    count = 4000
    requests = {
        f"r{i}": (list(b"xababbaab"), SamplingParams(seed=i, **sampling), scripted_grammar(texts)) for i in range(count)
    }
    done = run_all(engine, requests)
    seen = {text: sum(bytes(d.tokens) == text for d in done.values()) for text in texts}
    assert sum(seen.values()) == count
    chi_square = sum((seen[t] - count * expected[t]) ** 2 / (count * expected[t]) for t in texts)
    assert chi_square < 3 + 5 * (2 * 3) ** 0.5  # five standard deviations at three degrees of freedom
    if "speculative_tokens" in settings:
        assert 0 < engine.stats.num_accepted_draft_tokens < engine.stats.num_draft_tokens


def test_the_number_of_drafts_follows_how_many_were_accepted(scripted_grammar: Any) -> None:
    from offseek.engine.speculative import PromptLookup

    lookup = PromptLookup()
    assert lookup.confidence == 1.0
    for _ in range(20):
        lookup.learn(4, 0)
    assert round(lookup.confidence * 8) == 0
    for _ in range(5):
        lookup.learn(0, 0)  # steps without a draft: it is tried again after a while
    assert round(lookup.confidence * 8) == 2
    for _ in range(20):
        lookup.learn(2, 2)
    assert round(lookup.confidence * 8) == 8


def test_chunked_prefill_gives_the_same_tokens(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    requests = {f"r{i}": ([(i + j) % 250 for j in range(30 + 13 * i)], GREEDY) for i in range(5)}
    whole = run_all(toy_engine(counting, max_batch_tokens=512), requests)
    for budget in (8, 17):
        chunked = run_all(toy_engine(counting, max_batch_tokens=budget), requests)
        assert {n: d.tokens for n, d in chunked.items()} == {n: d.tokens for n, d in whole.items()}


@pytest.mark.parametrize(
    ("stop", "shown", "cut"),
    [(("CD",), b"ABC", 1), (("EF", "DE"), b"ABCD", 1), (("zz",), None, 0), (("B",), b"AB", 1), (("A",), b"A", 1)],
)
def test_stop_string_is_found_across_tokens_and_held_back(
    toy_engine: Callable[..., LocalEngine], stop: tuple[str, ...], shown: bytes | None, cut: int
) -> None:
    # Tokens 1, 2, 3 stand for "A", "BC", "DEFG"; then 0 ("x") for ever.
    pieces = [b"x", b"A", b"BC", b"DEFG"] + [b""] * (VOCAB - 4)

    def logits_of(tokens: list[int]) -> torch.Tensor:
        row = torch.zeros(VOCAB)
        row[len(tokens) if len(tokens) <= 3 else 0] = 5.0
        return row

    engine = toy_engine(logits_of, token_bytes=pieces)
    engine.add_request(
        GenerationRequest(
            request_id="r", prompt_token_ids=[9], sampling=SamplingParams(temperature=0, max_tokens=6, stop=stop)
        )
    )
    seen = b""
    while engine.has_work():
        for output in engine.step():
            seen += b"".join(pieces[t] for t in output.token_ids)
            assert not any(s.encode() in seen[: len(seen) - output.stop_cut_bytes] for s in stop)
            last = output
    if shown is None:
        assert (seen, last.finish_reason, last.stop_sequence) == (b"ABCDEFGxxx", "length", None)
    else:
        at = min(b"ABCDEFG".index(s.encode()) for s in stop)
        assert last.finish_reason == "stop"
        assert last.stop_sequence in stop
        assert seen[: len(seen) - last.stop_cut_bytes] == b"ABCDEFG"[:at]


def test_stop_tokens_and_eos_end_without_being_shown(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    def logits_of(tokens: list[int]) -> torch.Tensor:
        row = torch.zeros(VOCAB)
        row[EOS if len(tokens) == 5 else 40 + len(tokens)] = 5.0
        return row

    def run(**settings: Any) -> Any:
        return run_all(toy_engine(logits_of), {"r": ([1], SamplingParams(temperature=0, max_tokens=8, **settings))})[
            "r"
        ]

    assert (run().tokens, run().last.finish_reason) == ([41, 42, 43, 44], "stop")
    stopped = run(stop_token_ids=(43,))
    assert (stopped.tokens, stopped.last.finish_reason) == ([41, 42], "stop")
    assert len(run(ignore_eos=True).tokens) == 8


def test_cancel_frees_the_request_and_leaves_the_others(toy_engine: Callable[..., LocalEngine]) -> None:
    engine = toy_engine(always(BANG), max_num_sequences=2)
    for name in ("a", "b", "waiting"):
        engine.add_request(GenerationRequest(request_id=name, prompt_token_ids=[1], sampling=GREEDY))
    engine.step()
    engine.cancel("a")
    engine.cancel("waiting")
    engine.cancel("nobody")
    last = {}
    while engine.has_work():
        for output in engine.step():
            if output.finish_reason:
                last[output.request_id] = output.finish_reason
    assert last == {"a": "cancelled", "waiting": "cancelled", "b": "length"}
    assert engine._pool.num_free == 64
    engine.add_request(GenerationRequest(request_id="a", prompt_token_ids=[1], sampling=GREEDY))  # the id is free again


def test_logprobs_of_raw_and_masked_distribution_are_finite_and_named_apart(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    sampling = SamplingParams(temperature=0, max_tokens=5, logprobs=5, repetition_penalty=1.5)
    done = run_all(toy_engine(counting), {"r": ([1], sampling, scripted_grammar([b"yes", b"no"]))})["r"]
    assert text(done.tokens) in ("yes", "no")
    assert [entry.token_id for entry in done.logprobs] == done.tokens
    prefix = [1]
    for index, entry in enumerate(done.logprobs):
        raw = counting(prefix).log_softmax(-1)
        assert entry.raw == pytest.approx(float(raw[entry.token_id]), abs=1e-5)
        assert [i for i, _ in entry.top_raw] == raw.topk(5).indices.tolist()
        assert all(value > -1e4 for _, value in entry.top_raw + entry.top_masked)
        if index == 0:
            assert sorted(i for i, _ in entry.top_masked) == sorted(b"yn")
        else:  # one allowed token
            assert entry.top_masked == ((entry.token_id, 0.0),)
            assert entry.masked == 0.0
        prefix.append(entry.token_id)


def test_forced_tokens_save_steps_and_are_counted(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    grammar = scripted_grammar([b'{"colour": "red"}', b'{"colour": "blue"}'])
    sampling = SamplingParams(temperature=0, max_tokens=64)
    slow, fast = toy_engine(counting, forced_tokens=False), toy_engine(counting)
    a, b = (run_all(e, {"r": ([1], sampling, grammar)})["r"] for e in (slow, fast))
    assert a.tokens == b.tokens
    extra = 1 if fast._overlapped else 0  # a pass is launched before the end of the text is known
    assert fast.stats.num_steps == 1 + extra
    assert slow.stats.num_steps == len(a.tokens) + extra
    assert fast.stats.num_forced_tokens == len(a.tokens) - 1


def test_text_that_cannot_be_spelled_is_tried_less_and_less(scripted_grammar: Any) -> None:
    from offseek.engine.structured import GrammarState

    matcher = scripted_grammar([b"abc"]).matcher()
    calls = 0

    def unspellable() -> list[int]:
        nonlocal calls
        calls += 1
        return []

    matcher.forced_tokens, spell = unspellable, matcher.forced_tokens
    matcher.forced_bytes = lambda max_bytes: b"a"
    state = GrammarState(matcher)
    assert [state.forced_tokens() for _ in range(200)] == [[]] * 200
    assert 3 <= calls <= 10
    matcher.forced_tokens = spell
    assert any(state.forced_tokens() == [97, 98, 99] for _ in range(70))


def test_grammar_that_forces_everything_needs_no_forward_pass(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any
) -> None:
    engine = toy_engine(counting)
    done = run_all(engine, {"r": ([1], GREEDY, scripted_grammar([b"fixed"]))})["r"]
    assert (text(done.tokens), done.last.finish_reason, engine.stats.num_steps) == ("fixed", "stop", 0)


@pytest.mark.parametrize(
    ("request_change", "field"),
    [
        ({"prompt_token_ids": []}, "prompt_token_ids"),
        ({"prompt_token_ids": [300]}, "prompt_token_ids"),
        ({"prompt_token_ids": [-1]}, "prompt_token_ids"),
        ({"sampling": SamplingParams(temperature=-1)}, "temperature"),
        ({"sampling": SamplingParams(temperature=float("nan"))}, "temperature"),
        ({"sampling": SamplingParams(top_p=0)}, "top_p"),
        ({"sampling": SamplingParams(top_k=-1)}, "top_k"),
        ({"sampling": SamplingParams(min_p=2)}, "min_p"),
        ({"sampling": SamplingParams(max_tokens=0)}, "max_tokens"),
        ({"sampling": SamplingParams(repetition_penalty=0)}, "repetition_penalty"),
        ({"sampling": SamplingParams(stop=("",))}, "stop"),
        ({"sampling": SamplingParams(seed=2**64)}, "seed"),
        ({"request_id": "taken"}, "request_id"),
    ],
)
def test_request_that_can_never_run_is_refused_before_work(
    toy_engine: Callable[..., LocalEngine], request_change: dict[str, Any], field: str
) -> None:
    engine = toy_engine(counting)
    engine.add_request(GenerationRequest(request_id="taken", prompt_token_ids=[1], sampling=GREEDY))
    arguments: dict[str, Any] = {"request_id": "r", "prompt_token_ids": [1], "sampling": GREEDY} | request_change
    with pytest.raises(ConfigError) as caught:
        engine.add_request(GenerationRequest(**arguments))
    assert caught.value.field == field


def test_request_longer_than_the_context_is_refused(toy_engine: Callable[..., LocalEngine]) -> None:
    engine = toy_engine(counting, context_length=64)
    with pytest.raises(ContextLengthError, match="needs 65 tokens but the context holds 64") as caught:
        engine.add_request(
            GenerationRequest(request_id="r", prompt_token_ids=[1] * 40, sampling=SamplingParams(max_tokens=25))
        )
    assert (caught.value.needed, caught.value.context_length) == (65, 64)
    assert not engine.has_work()


def test_interrupt_between_steps_leaves_the_engine_usable(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    calls = 0

    def interrupted(tokens: list[int]) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return counting(tokens)

    expected = run_all(toy_engine(counting), {"a": ([1], GREEDY), "b": ([2], GREEDY)})
    engine = toy_engine(interrupted)
    tokens: dict[str, list[int]] = {"a": [], "b": []}
    for name, prompt in (("a", [1]), ("b", [2])):
        engine.add_request(GenerationRequest(request_id=name, prompt_token_ids=prompt, sampling=GREEDY))
    interrupts = 0
    while engine.has_work():
        try:
            for output in engine.step():
                tokens[output.request_id] += output.token_ids
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts == 1
    assert tokens == {name: done.tokens for name, done in expected.items()}


def test_device_out_of_memory_shrinks_the_batch_then_fails_clearly(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    from offseek.engine import OutOfDeviceMemoryError

    requests = {f"r{i}": ([i] * 50, GREEDY) for i in range(4)}
    expected = run_all(toy_engine(counting, max_batch_tokens=256), requests)
    engine = toy_engine(counting, max_batch_tokens=256)
    forward = engine._runner.model.forward

    def small_only(batch: Any, cache: Any) -> torch.Tensor:
        if len(batch.token_ids) > 70:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(batch, cache)

    engine._runner.model.forward = small_only  # type: ignore[method-assign]
    assert {n: d.tokens for n, d in run_all(engine, requests).items()} == {n: d.tokens for n, d in expected.items()}

    def never(batch: Any, cache: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    engine._runner.model.forward = never  # type: ignore[method-assign]
    with pytest.raises(OutOfDeviceMemoryError, match="out of device memory"):
        run_all(engine, requests)


def test_out_of_memory_while_sampling_repeats_the_pass(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any]
) -> None:
    requests = {f"r{i}": ([i] * 20, SamplingParams(temperature=0.8, seed=i, max_tokens=12)) for i in range(4)}
    expected = run_all(toy_engine(counting, max_batch_tokens=256), requests)
    for failing in (0, 1, 5):
        engine = toy_engine(counting, max_batch_tokens=256)
        launch, calls = engine._sampler.launch, itertools.count()

        def flaky(*args: Any, launch: Any = launch, calls: Any = calls, failing: int = failing) -> Any:
            if next(calls) == failing:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return launch(*args)

        engine._sampler.launch = flaky  # type: ignore[method-assign]
        assert {n: d.tokens for n, d in run_all(engine, requests).items()} == {n: d.tokens for n, d in expected.items()}
        assert engine._pool.num_free == 64


@pytest.mark.parametrize("place", ["forward", "launch", "read"])
def test_interrupts_at_any_place_lose_and_repeat_nothing(
    toy_engine: Callable[..., LocalEngine], run_all: Callable[..., Any], scripted_grammar: Any, place: str
) -> None:
    requests: dict[str, Any] = {
        "a": ([1], SamplingParams(temperature=0.9, seed=1, max_tokens=9, repetition_penalty=1.4)),
        "b": ([2], GREEDY, scripted_grammar([b"yes", b"no", b"never"])),
        "c": (list(range(40)), SamplingParams(temperature=0.9, seed=2, max_tokens=9)),
    }
    expected = run_all(toy_engine(counting), requests)
    for when in range(8):
        engine = toy_engine(counting)
        owner: Any = engine._runner if place == "forward" else engine._sampler
        real, calls = getattr(owner, place), itertools.count()

        def interrupted(*args: Any, real: Any = real, calls: Any = calls, when: int = when) -> Any:
            if next(calls) == when:
                raise KeyboardInterrupt
            return real(*args)

        setattr(owner, place, interrupted)
        for name, (prompt, sampling, *grammar) in requests.items():
            engine.add_request(
                GenerationRequest(
                    request_id=name, prompt_token_ids=prompt, sampling=sampling, grammar=next(iter(grammar), None)
                )
            )
        tokens: dict[str, list[int]] = {name: [] for name in requests}
        while engine.has_work():
            try:
                for output in engine.step():
                    tokens[output.request_id] += output.token_ids
            except KeyboardInterrupt:
                continue
        assert tokens == {name: done.tokens for name, done in expected.items()}
