"""Constrained-decoding engines behind one interface, for `maskbench.py`, `masks.py` and `coverage.py`.

An adapter wraps one engine:

    compile(kind, source, **hints) -> compiled grammar; raises on input the engine does not take
    start(compiled)        -> a fresh matcher state
    mask(state, out)       -> fill `out`, int32[ceil(vocab / 32)], bit t = token t allowed
    accept(state, token)   -> True when the token was consumed, False when it is not allowed
    is_accepting(state)    -> True when the text so far is complete (None: read it off the EOS bit)

`kind` is "json_schema" (source: the schema as JSON text), "regex" (source: the pattern, matched
against the whole text) or "ebnf:<dialect>" (source: the grammar text; "gbnf" or "lark"). Hints:
format = "assert" | "annotate", registry = {uri: schema} for remote references. Optional:

    batch_mask(states, out2d, threads)   fill row i of out2d for states[i]
    completion(state)                    token ids from here to the end of some full match, without EOS
    fork(state)                          an independent copy of a state

To add an engine, subclass `Adapter` in a file of your own and pass `--engines path/to/file.py:ClassName`.
Engines are imported inside `__init__`, so a missing one does not break the others.
"""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.int32]


class UnsupportedKindError(Exception):
    """The engine does not take this kind of input at all."""


class Vocab:
    """A byte-level-BPE `tokenizer.json` as engines see it: raw bytes of each token, EOS, special tokens."""

    def __init__(self, path: str, eos: int | None = None) -> None:
        import tokenizers

        self.path = path
        self.tokenizer = tokenizers.Tokenizer.from_file(path)
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        table = byte_level_table()
        added = {t["id"]: t for t in data.get("added_tokens", [])}
        vocab = data["model"]["vocab"]
        self.size = max(max(vocab.values()), max(added, default=0)) + 1
        self.tokens = [b""] * self.size  # raw bytes; empty for special tokens
        self.special: set[int] = set()
        for text, i in vocab.items():
            if i not in added:
                self.tokens[i] = bytes(table[c] for c in text)
        for i, t in added.items():
            if t.get("special"):
                self.special.add(i)
            else:
                self.tokens[i] = t["content"].encode()
        self.eos = guess_eos(added) if eos is None else eos
        self.special.add(self.eos)
        self.words = (self.size + 31) // 32

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def guess_eos(added: dict[int, dict[str, Any]]) -> int:
    names = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>")
    for i, t in added.items():
        if ("end" in t["content"] and "sentence" in t["content"]) or t["content"] in names:
            return i
    raise ValueError("no EOS among the added tokens; pass eos=")


def byte_level_table() -> dict[str, int]:
    """The printable stand-in characters of byte-level BPE (GPT-2's), to bytes."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in set(keep)]
    return {chr(b): b for b in keep} | {chr(256 + n): b for n, b in enumerate(rest)}


class Adapter:
    name: ClassVar[str] = "?"
    package: ClassVar[str | None] = None
    has_batch: ClassVar[bool] = False
    has_completion: ClassVar[bool] = False
    has_fork: ClassVar[bool] = False
    # The grammar dialects the engine reads, its own one first.
    dialects: ClassVar[tuple[str, ...]] = ("gbnf", "lark")

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def version(self) -> str:
        return version(self.package) if self.package else "-"

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        raise NotImplementedError

    def start(self, compiled: Any) -> Any:
        raise NotImplementedError

    def mask(self, state: Any, out: Row) -> None:
        raise NotImplementedError

    def accept(self, state: Any, token: int) -> bool:
        raise NotImplementedError

    def is_accepting(self, state: Any) -> bool | None:
        return None

    def batch_mask(self, states: list[Any], out: Row, threads: int) -> None:
        raise NotImplementedError

    def completion(self, state: Any) -> list[int]:
        raise NotImplementedError

    def fork(self, state: Any) -> Any:
        raise NotImplementedError


class XGrammar(Adapter):
    """xgrammar as close to the JSON Schema specification as its options go."""

    name, package = "xgrammar", "xgrammar"
    has_batch = has_fork = True
    strict = False
    cache = True

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        import xgrammar as xgr

        self.xgr = xgr
        words = [b"" if i in vocab.special else vocab.tokens[i] for i in range(vocab.size)]
        info = xgr.TokenizerInfo(words, xgr.VocabType.RAW, vocab_size=vocab.size, stop_token_ids=[vocab.eos])
        self.compiler = xgr.GrammarCompiler(info, max_threads=1, cache_enabled=self.cache)
        self.batchers: dict[int, Any] = {}

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        if kind == "json_schema":
            return self.compiler.compile_json_schema(source, any_whitespace=True, strict_mode=self.strict)
        if kind == "regex":
            return self.compiler.compile_regex(source)
        if kind == "ebnf:gbnf":
            return self.compiler.compile_grammar(source)
        if kind == "ebnf:lark" and hasattr(self.xgr.Grammar, "from_lark"):
            return self.compiler.compile_grammar(self.xgr.Grammar.from_lark(source))
        raise UnsupportedKindError(kind)

    def start(self, compiled: Any) -> Any:
        return self.xgr.GrammarMatcher(compiled)

    def mask(self, state: Any, out: Row) -> None:
        state.fill_next_token_bitmask(out.reshape(1, -1))

    def accept(self, state: Any, token: int) -> bool:
        return bool(state.accept_token(token))

    def batch_mask(self, states: list[Any], out: Row, threads: int) -> None:
        if threads not in self.batchers:
            self.batchers[threads] = self.xgr.BatchGrammarMatcher(threads)
        self.batchers[threads].batch_fill_next_token_bitmask(states, out)

    def fork(self, state: Any) -> Any:
        return state.fork()


class XGrammarStrict(XGrammar):
    """xgrammar with its default `strict_mode=True`: no undeclared properties or items."""

    name = "xgrammar-strict"
    strict = True


class XGrammarNoCache(XGrammar):
    name = "xgrammar-nocache"
    cache = False


class LLGuidance(Adapter):
    name, package = "llguidance", "llguidance"
    has_batch = has_fork = True
    dialects = ("lark", "gbnf")

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        import llguidance

        self.llg = llguidance
        self.tok = llguidance.LLTokenizer(vocab.tokenizer.to_str(), n_vocab=vocab.size, eos_token=vocab.eos)
        self.executors: dict[int, Any] = {}

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        m = self.llg.LLMatcher
        if kind == "json_schema":
            grammar = m.grammar_from_json_schema(source)
        elif kind == "regex":
            grammar = m.grammar_from_regex(source)
        elif kind == "ebnf:lark":
            grammar = m.grammar_from_lark(source)
        elif kind == "ebnf:gbnf":
            from llguidance.gbnf_to_lark import gbnf_to_lark

            grammar = m.grammar_from_lark(gbnf_to_lark(source))
        else:
            raise UnsupportedKindError(kind)
        matcher = m(self.tok, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error()[:300])
        return matcher

    def start(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def mask(self, state: Any, out: Row) -> None:
        state.unsafe_compute_mask_ptr(out.ctypes.data, out.size * 4)
        if state.is_error():
            raise RuntimeError(state.get_error()[:300])

    def accept(self, state: Any, token: int) -> bool:
        return bool(state.consume_token(token))

    def batch_mask(self, states: list[Any], out: Row, threads: int) -> None:
        if threads not in self.executors:
            self.executors[threads] = self.llg.LLExecutor(threads)
        rows = [(s, i) for i, s in enumerate(states)]
        self.executors[threads].unsafe_compute_mask_ptr(rows, out.ctypes.data, out.shape[1] * 4, out.shape[0])

    def fork(self, state: Any) -> Any:
        return state.deep_copy()


class LLGuidanceJsonSlices(LLGuidance):
    """llguidance with the slices its authors give for JSON Schema."""

    name = "llguidance-json"

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        self.tok = self.tok.with_slices(self.llg.LLTokenizer.json_slices())


class Outlines(Adapter):
    name, package = "outlines-core", "outlines_core"

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        import outlines_core
        from outlines_core import json_schema

        self.oc, self.js = outlines_core, json_schema
        table: dict[bytes, list[int]] = {}
        for i, b in enumerate(vocab.tokens):
            if b and i not in vocab.special:
                table.setdefault(b, []).append(i)
        self.voc = outlines_core.Vocabulary(vocab.eos, table)

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        if kind == "json_schema":
            source = self.js.build_regex_from_schema(source)
        elif kind != "regex":
            raise UnsupportedKindError(kind)
        return self.oc.Index(source, self.voc)

    def start(self, compiled: Any) -> Any:
        return self.oc.Guide(compiled)

    def mask(self, state: Any, out: Row) -> None:
        state.write_mask_into(out.ctypes.data, out.size, 4)

    def accept(self, state: Any, token: int) -> bool:
        try:
            state.advance(token, return_tokens=False)
        except ValueError:
            return False
        return True


class LMFormatEnforcer(Adapter):
    name, package = "lm-format-enforcer", "lm-format-enforcer"

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        import logging

        logging.disable(logging.CRITICAL)
        from lmformatenforcer import JsonSchemaParser, RegexParser, TokenEnforcer
        from lmformatenforcer.tokenenforcer import TokenEnforcerTokenizerData

        self.json_parser, self.regex_parser, self.enforcer = JsonSchemaParser, RegexParser, TokenEnforcer
        pairs = [(i, b) for i, b in enumerate(vocab.tokens) if b and i not in vocab.special]
        regular = [(i, b.decode("utf-8", "replace"), False) for i, b in pairs]

        def decode(ids: list[int]) -> str:
            return b"".join(vocab.tokens[i] for i in ids).decode("utf-8", "replace").rstrip("\ufffd")

        self.data = TokenEnforcerTokenizerData(regular, decode, vocab.eos, True, vocab.size)

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        if kind == "json_schema":
            return self.enforcer(self.data, self.json_parser(json.loads(source)))
        if kind == "regex":
            return self.enforcer(self.data, self.regex_parser(source))
        raise UnsupportedKindError(kind)

    def start(self, compiled: Any) -> Any:
        return [compiled, [], None]

    def mask(self, state: Any, out: Row) -> None:
        state[2] = state[0].get_allowed_tokens(state[1])
        out[:] = state[2].allowed_tokens.numpy()

    def accept(self, state: Any, token: int) -> bool:
        if state[2] is None:
            state[2] = state[0].get_allowed_tokens(state[1])
        allowed = bool(state[2].is_token_allowed(token))
        state[1].append(token)
        state[2] = None
        return allowed


PEERS: dict[str, type[Adapter]] = {
    c.name: c
    for c in (XGrammar, XGrammarStrict, XGrammarNoCache, LLGuidance, LLGuidanceJsonSlices, Outlines, LMFormatEnforcer)
}


def load(spec: str) -> type[Adapter]:
    """An engine's class from its name ("offseek", a peer's) or from `file.py:ClassName`."""
    if spec == "offseek":
        from offseek_adapter import Offseek

        return Offseek
    if spec in PEERS:
        return PEERS[spec]
    if ":" not in spec:
        raise SystemExit(f"unknown engine {spec!r}; known: offseek, {', '.join(PEERS)} or file.py:ClassName")
    path, _, cls = spec.rpartition(":")
    module_spec = importlib.util.spec_from_file_location("maskbench_adapter_" + cls, path)
    if module_spec is None or module_spec.loader is None:
        raise SystemExit(f"cannot import {path}")
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    found: type[Adapter] = getattr(module, cls)
    return found
