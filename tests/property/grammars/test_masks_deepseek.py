"""Masks over all tokens of the DeepSeek vocabulary, against stepping each token alone and against `regex`."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import regex
from offseek.grammars import GrammarCompiler, Vocabulary

EOS = 1
CASES = [
    (r"[a-z]{2,9}(?: [A-Z][a-z]+)*", ["", "ab", "abc D"]),
    (r"a.*?b", ["a", "a xx", "ab"]),
    (r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*", ', ['"', '"x\\', '"x\\u0']),
    (r"(?:[^\",\n]*|\"(?:[^\"]|\"\")*\")(?:,(?:[^\",\n]*|\"(?:[^\"]|\"\")*\"))*", ["", "a,b", '"x"']),
    (r"[一-鿿]{2,40}[,。]\d{3,}", ["", "你好", "你好,12"]),
    (r"(?=.*[0-9])[a-z0-9 ]{4,300}", ["", "abc 1"]),
    (r"\w+@\w+\.(?:com|org)", ["", "me", "me@x.c"]),
    (r"(?:```)(?:[a-z]+)?\n(?:[^`]|`{1,2}[^`])*```", ["```py\n", "```py\nx = `"]),
]


@pytest.fixture(scope="module")
def compiler(deepseek_tokenizer_path: pathlib.Path) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[EOS]))


@pytest.mark.parametrize(("pattern", "prefixes"), CASES)
def test_masks_equal_brute_force_over_the_whole_vocabulary(
    compiler: GrammarCompiler, pattern: str, prefixes: list[str]
) -> None:
    vocabulary = compiler.vocabulary
    judge = regex.compile(pattern)
    for prefix in prefixes:
        matcher = compiler.compile_regex(pattern).matcher()
        spelled = vocabulary.spell(prefix.encode())
        assert spelled is not None
        assert matcher.accept_tokens(spelled) == len(spelled)
        row = np.zeros(vocabulary.num_words, dtype=np.int32)
        matcher.fill_bitmask(row)
        mask = np.unpackbits(row.view(np.uint8), bitorder="little").astype(bool)
        assert mask[EOS] == bool(judge.fullmatch(prefix)) == matcher.is_accepting()
        for token in range(len(vocabulary)):
            if token == EOS:
                continue
            raw = vocabulary.token_bytes(token)
            if vocabulary.is_special(token) or not raw:
                assert not mask[token]
                continue
            # `validate_tokens` steps this token alone.
            assert bool(mask[token]) == (matcher.validate_tokens([token]) == 1), (prefix, token, raw)
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                continue
            possible = judge.fullmatch(prefix + text, partial=True) is not None
            if "(?=" in pattern or "*?" in pattern:
                # A partial match does not see that a look-ahead can no longer come true, and takes a line feed
                # for the start of what a lazy dot might still match.
                assert possible or not mask[token]
            else:
                assert bool(mask[token]) == possible, (prefix, token, raw)


def test_a_vocabulary_comes_back_from_its_cache(deepseek_tokenizer_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def read() -> Vocabulary:
        return Vocabulary.from_tokenizer_file(deepseek_tokenizer_path, eos_token_ids=[EOS], cache=tmp_path)

    first = read()
    (kept,) = tmp_path.iterdir()
    assert Vocabulary.from_bytes(kept.read_bytes()).to_bytes() == first.to_bytes() == read().to_bytes()
    kept.write_bytes(b"damaged")
    assert read().to_bytes() == first.to_bytes()


def test_forced_tokens_are_those_of_the_tokenizer(
    compiler: GrammarCompiler, deepseek_tokenizer_path: pathlib.Path
) -> None:
    from offseek._native import Tokenizer

    tokenizer = Tokenizer.from_file(deepseek_tokenizer_path)
    whole = "The quick brown fox jumps over the lazy dog: "
    matcher = compiler.compile_regex(regex.escape(whole) + r"\d+").matcher()
    forced = matcher.forced_tokens()
    canonical = tokenizer.encode_ordinary(whole)
    assert forced == canonical[: len(forced)]
    # The last space could begin a longer token.
    assert len(canonical) - 2 <= len(forced) < len(canonical)
    assert matcher.accept_tokens(forced) == len(forced)
    ended = compiler.compile_regex(regex.escape(whole)).matcher()
    assert ended.forced_tokens() == canonical
