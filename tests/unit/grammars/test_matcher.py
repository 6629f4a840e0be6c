"""The public API of matchers on a toy vocabulary: masks, memory checks, rollback, drafts, batches, errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from offseek.grammars import (
    CancelToken,
    GrammarCancelledError,
    GrammarCompiler,
    GrammarError,
    GrammarLimitError,
    GrammarSyntaxError,
    Limits,
    MatcherError,
    Vocabulary,
    accept_token_batch,
    fill_bitmask_batch,
)

TOKENS = [b"a", b"b", b"ab", b"abc", b"c", b"\xc3", b"\xa9", b"", b"</s>", b"<t>"]
EOS, SPECIAL = 8, 9


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    vocabulary = Vocabulary(TOKENS, special_token_ids=[SPECIAL], eos_token_ids=[EOS], vocab_size=70)
    return GrammarCompiler(vocabulary)


def bits(row: np.ndarray) -> list[int]:
    return [t for t in range(len(row) * 32) if (int(row[t >> 5]) >> (t & 31)) & 1]


def test_mask_is_exactly_the_tokens_that_can_continue(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("(ab)*c?").matcher()
    out = np.full(4, -1, dtype=np.int32)
    matcher.fill_bitmask(out)
    assert bits(out) == [0, 2, 3, 4, EOS]
    assert matcher.accept_token(0)
    matcher.fill_bitmask(out)
    assert bits(out) == [1]
    assert not matcher.accept_token(0)
    assert not matcher.is_accepting()


def test_tokens_may_end_inside_a_character(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("é").matcher()
    assert matcher.allowed_tokens() == [5]
    assert matcher.accept_tokens([5, 6]) == 2
    assert matcher.is_finished()


def test_special_and_eos_tokens_only_where_named(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex(".*").matcher()
    assert SPECIAL not in matcher.allowed_tokens()
    assert not matcher.accept_token(SPECIAL)
    assert matcher.accept_token(EOS)
    assert matcher.is_finished()
    assert matcher.allowed_tokens() == [EOS]
    assert not matcher.accept_token(0)
    matcher.rollback(1)
    assert matcher.accept_token(0)


def test_rollback_restores_the_mask_and_knows_its_bounds(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("(?:ab|c){2,5}").matcher()
    before = matcher.allowed_tokens()
    matcher.accept_tokens([2, 4, 0])
    assert matcher.token_ids == [2, 4, 0]
    matcher.rollback(3)
    assert matcher.allowed_tokens() == before
    with pytest.raises(MatcherError, match="only 0 were accepted"):
        matcher.rollback(1)


def test_fork_is_independent(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("[abc]{1,3}").matcher()
    matcher.accept_token(0)
    fork = matcher.fork()
    fork.accept_tokens([0, 0])
    assert (matcher.token_ids, fork.token_ids) == ([0], [0, 0, 0])
    assert fork.is_finished()
    assert not matcher.is_finished()


def test_completion_and_forced_bytes(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("abc(?:a|b){2}").matcher()
    assert matcher.forced_bytes() == b"abc"
    completion = matcher.shortest_completion()
    assert matcher.accept_tokens(completion) == len(completion)
    assert matcher.is_accepting()


def test_draft_rows_stop_at_the_first_token_that_breaks_the_grammar(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("ab*c").matcher()
    out = np.full((5, 3), -1, dtype=np.int32)
    assert matcher.fill_bitmask_draft([0, 1, 0, 1], out) == 2
    assert [bits(r) for r in out] == [[0, 2, 3], [1, 4], [1, 4], [], []]
    assert matcher.token_ids == []


def test_batch_fills_rows_in_order_with_any_number_of_threads(compiler: GrammarCompiler) -> None:
    grammars = [compiler.compile_regex(p) for p in ("a+", "b+", "[^a]*")]
    matchers = [g.matcher() for g in grammars * 5]
    for threads in (1, 3):
        out = np.zeros((15, 3), dtype=np.int32)
        fill_bitmask_batch(matchers, out, threads=threads)
        assert [bits(r) for r in out] == [m.allowed_tokens() for m in matchers]
    with pytest.raises(MatcherError, match="twice"):
        fill_bitmask_batch([matchers[0], matchers[0]], np.zeros((2, 3), dtype=np.int32))


def test_batch_accepts_one_token_each_and_says_which_are_finished(compiler: GrammarCompiler) -> None:
    matchers = [compiler.compile_regex(p).matcher() for p in ("ab", "b+", "a", "a+")]
    assert accept_token_batch(matchers, [0, 0, 0, 0]) == [1, 0, 2, 1]
    assert [m.token_ids for m in matchers] == [[0], [], [0], [0]]
    assert matchers[1].accept_token(1)  # a refused token changes nothing
    assert accept_token_batch([], []) == []
    with pytest.raises(ValueError, match="1 matchers but 2 tokens"):
        accept_token_batch(matchers[:1], [0, 1])


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros(3, dtype=np.int64), TypeError),
        (np.zeros(2, dtype=np.int32), ValueError),
        (np.zeros(8, dtype=np.int32)[::2], ValueError),
        (np.zeros((1, 1, 3), dtype=np.int32), ValueError),
        ([0, 0, 0], TypeError),
    ],
)
def test_memory_that_does_not_fit_is_refused(compiler: GrammarCompiler, out: object, error: type[Exception]) -> None:
    matcher = compiler.compile_regex("a").matcher()
    with pytest.raises(error):
        matcher.fill_bitmask(out)


def test_read_only_memory_and_rows_out_of_range_are_refused(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_regex("a").matcher()
    frozen = np.zeros(3, dtype=np.int32)
    frozen.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        matcher.fill_bitmask(frozen)
    with pytest.raises(IndexError):
        matcher.fill_bitmask(np.zeros((2, 3), dtype=np.int32), row=2)


def test_torch_memory_is_written_in_place(compiler: GrammarCompiler) -> None:
    torch = pytest.importorskip("torch")
    out = torch.full((2, 3), -1, dtype=torch.int32)
    compiler.compile_regex("a+").matcher().fill_bitmask(out, 1)
    assert out.tolist() == [[-1, -1, -1], [1, 0, 0]]
    with pytest.raises(TypeError):
        compiler.compile_regex("a+").matcher().fill_bitmask(torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        ("ab(c", 3, "not closed"),
        ("a\n[z-a]", 2, "before its start"),
        ("é*+x", 2, "possessive"),
        (r"(a)\1", 4, "back-reference"),
        ("(?>a)", 1, "atomic"),
        ("(?:(?=a)b)*", 4, "unbounded repetition"),
        ("a^b", 1, "no text"),
        (r"\p{Nonsense}", 1, "Unicode property"),
        ("a{5,2}", 2, "minimum"),
    ],
)
def test_syntax_errors_name_the_spot(compiler: GrammarCompiler, pattern: str, column: int, message: str) -> None:
    with pytest.raises(GrammarSyntaxError, match=message) as caught:
        compiler.compile_regex(pattern)
    assert caught.value.column == column
    assert "^" in caught.value.caret
    assert isinstance(caught.value, GrammarError)


@pytest.mark.parametrize(
    "pattern", ["(" * 3000 + ")" * 3000, "(?:(?:a{1,9999}){1,9999}b?){1,9999}" * 3, "x" * (9 << 20)]
)
def test_hostile_patterns_are_refused_or_compile_within_their_limits(compiler: GrammarCompiler, pattern: str) -> None:
    caught = None
    try:
        matcher = compiler.compile_regex(pattern).matcher()
    except GrammarLimitError as error:
        caught = error
    if caught is None:
        assert matcher.allowed_tokens()
    else:
        assert caught.needed > caught.limit


def test_a_limit_is_a_setting(compiler: GrammarCompiler) -> None:
    tight = GrammarCompiler(compiler.vocabulary, limits=Limits(regex_nodes=20))
    with pytest.raises(GrammarLimitError) as caught:
        tight.compile_regex("[ab]c[^a]d" * 10)
    assert (caught.value.name, caught.value.limit) == ("regex_nodes", 20)


def test_a_cancelled_compile_stops(compiler: GrammarCompiler) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(GrammarCancelledError):
        compiler.compile_regex("(?:cancelled)", cancel=cancel)


def test_the_cache_returns_the_same_grammar(compiler: GrammarCompiler) -> None:
    assert compiler.compile_regex("[ab]{3}") is compiler.compile_regex("[ab]{3}")
    assert compiler.compile_regex("[ab]{3}") is not compiler.compile_regex("[ab]{3}", search=True)


def test_matchers_work_from_many_threads(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile_regex("(?:a|b|c){1,400}")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            matcher = grammar.matcher()
            out = np.zeros(3, dtype=np.int32)
            for i in range(300):
                matcher.fill_bitmask(out)
                assert matcher.accept_token((0, 1, 4)[(i * seed) % 3])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_vocabulary_rejects_nonsense() -> None:
    with pytest.raises(GrammarError, match="outside the vocabulary"):
        Vocabulary([b"a"], eos_token_ids=[5])
    with pytest.raises(GrammarError, match="below the number"):
        Vocabulary([b"a", b"b"], vocab_size=1)
    with pytest.raises(OSError, match="cannot read"):
        Vocabulary.from_tokenizer_file("/nonexistent/tokenizer.json", eos_token_ids=[1])
