"""offseek behind the harness's interface: `--engines offseek`.

It also pins the part of the public API of `offseek.grammars` that benches and engines rely on.
"""

from __future__ import annotations

from typing import Any

from adapters import Adapter, Row, UnsupportedKindError, Vocab


class Offseek(Adapter):
    """All of JSON: any white space, any order of properties, any spelling of a number."""

    name, package = "offseek", "offseek"
    has_batch = has_completion = has_fork = True

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        from offseek.grammars import GrammarCompiler, Vocabulary, fill_bitmask_batch

        self.batch = fill_bitmask_batch
        # Every entry of `added_tokens` is special, whatever its `special` flag says.
        vocabulary = Vocabulary.from_tokenizer_file(vocab.path, eos_token_ids=[vocab.eos], vocab_size=vocab.size)
        self.compiler = GrammarCompiler(vocabulary)

    def compile(self, kind: str, source: str, **hints: Any) -> Any:
        if kind == "json_schema":
            return self.compiler.compile_json_schema(
                source,
                whitespace="any",
                property_order="any",
                numbers="any",
                format=hints.get("format", "assert"),
                registry=hints.get("registry"),
            )
        if kind == "regex":
            return self.compiler.compile_regex(source)
        if kind.startswith("ebnf:"):
            dialect: Any = kind.partition(":")[2]
            return self.compiler.compile_ebnf(source, dialect=dialect)
        raise UnsupportedKindError(kind)

    def start(self, compiled: Any) -> Any:
        return compiled.matcher()

    def mask(self, state: Any, out: Row) -> None:
        state.fill_bitmask(out)

    def accept(self, state: Any, token: int) -> bool:
        return bool(state.accept_token(token))

    def is_accepting(self, state: Any) -> bool | None:
        return bool(state.is_accepting())

    def completion(self, state: Any) -> list[int]:
        return list(state.shortest_completion())

    def batch_mask(self, states: list[Any], out: Row, threads: int) -> None:
        self.batch(states, out, threads=threads)

    def fork(self, state: Any) -> Any:
        return state.fork()
