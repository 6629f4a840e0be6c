"""A checkpoint ready to be talked to: its engine, its way of prompting, and grammars over its vocabulary.

The meeting point of the rooms: engine (token ids), recipe (prompts and parsing) and grammars (constraints) are put
together here and nowhere else. torch is imported only by `load`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from offseek import recipe
from offseek.engine.request import EngineProtocol
from offseek.sdk.dialects.base import Dialect, UnsupportedConversationError
from offseek.sdk.errors import MissingExtraError
from offseek.sdk.prompts import Turn

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar, GrammarCompiler

_FIM = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")  # V4's own names for prefix, hole, suffix end


class ChatModel:
    """One model as jobs, transports and the server see it.

    name:      what it is called in manifests, errors and the models list.
    engine:    anything that satisfies EngineProtocol.
    tokenizer: text ↔ ids; needs `encode`, `decode`, `token_bytes`, `token_id` as the engine's CheckpointTokenizer.
    compiler:  grammars over this model's vocabulary.
    dialect:   how it is prompted and read.
    sha256:    hash of its files, for manifests.
    """

    def __init__(
        self,
        *,
        name: str,
        engine: EngineProtocol,
        tokenizer: Any,
        compiler: GrammarCompiler,
        dialect: Dialect,
        sha256: str | None = None,
    ) -> None:
        self.name = name
        self.engine = engine
        self.tokenizer = tokenizer
        self.compiler = compiler
        self.dialect = dialect
        self.sha256 = sha256

    @classmethod
    def load(cls, path_or_name: str = "default", *, name: str | None = None, **settings: Any) -> ChatModel:
        """Load a model with the local engine.

        path_or_name: an installed model, a GGUF file, a checkpoint folder, or a repository in the local hub cache.
        settings: keyword arguments of `offseek.engine.load_engine` (config, device, dtype).

        Raises MissingExtraError without torch, ModelFileError when the model is missing or damaged.
        """
        try:
            import torch  # noqa: F401
        except ImportError as exc:
            raise MissingExtraError("the local engine", "engine") from exc
        from offseek.sdk.loading import load_chat_model

        return load_chat_model(path_or_name, name=name, **settings)

    @classmethod
    def remote(cls, path_or_name: str, base_url: str, **settings: Any) -> ChatModel:
        """A model that runs on a vLLM or SGLang server; see `offseek.sdk.loading.load_remote_model`."""
        from offseek.sdk.loading import load_remote_model

        return load_remote_model(path_or_name, base_url, **settings)

    @classmethod
    def official(cls, model: str = "deepseek-flash", **settings: Any) -> ChatModel:
        """A model of the official API; see `offseek.sdk.loading.load_official_model`."""
        from offseek.sdk.loading import load_official_model

        return load_official_model(model, **settings)

    @classmethod
    def of_engine(cls, engine: Any, *, name: str, sha256: str | None = None) -> ChatModel:
        """Wrap an engine that carries `tokenizer`, `vocabulary` and `chat_template`, such as `load_engine` returns.

        The dialect is V4 where the tokenizer holds the V4 special tokens, else the checkpoint's own template.
        Raises UnsupportedConversationError when it has neither.
        """
        from offseek.grammars import GrammarCompiler
        from offseek.sdk.dialects.choose import choose_dialect

        compiler = GrammarCompiler(engine.vocabulary)
        dialect = choose_dialect(name, engine.tokenizer, engine.chat_template, compiler)
        return cls(
            name=name, engine=engine, tokenizer=engine.tokenizer, compiler=compiler, dialect=dialect, sha256=sha256
        )

    @property
    def fingerprint(self) -> str:
        """Short and stable: changes with the model's files."""
        return "fp_" + hashlib.sha256(f"{self.name}:{self.sha256}".encode()).hexdigest()[:10]

    # --- chat

    def conversion_options(self, requested: str) -> recipe.ConversionOptions:
        """Options under which a request that names this model `requested` is converted."""
        version = self.dialect.model_version
        options = recipe.ConversionOptions().with_model_versions_by_name({requested: version})
        return self.dialect.options(options)

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        """Token ids of a plain chat that the model is to answer, without thinking."""
        return self.dialect.encode_turns(turns)

    # --- text

    def encode_text(self, prompt: str, suffix: str | None = None) -> list[int]:
        """Token ids of a text completion; with a suffix, of a hole between prompt and suffix.

        Raises UnsupportedConversationError when the tokenizer has no fill-in-the-middle tokens.
        """
        ids = self.dialect.encode_plain(prompt)
        if suffix is None:
            return ids
        begin, hole, end = (self.tokenizer.token_id(token) for token in _FIM)
        if begin is None or hole is None or end is None:
            raise UnsupportedConversationError(self.name, "a suffix (it has no fill-in-the-middle tokens)")
        first, rest = self.dialect.split_bos(ids)
        return [*first, begin, *rest, hole, *self.dialect.encode_plain(suffix, bos=False), end]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ids without special tokens; bytes that are not UTF-8 become U+FFFD."""
        text: str = self.tokenizer.decode(token_ids)
        return text

    def token_bytes(self, token_id: int) -> bytes:
        data: bytes = self.tokenizer.token_bytes(token_id)
        return data

    # --- grammars

    def compile_schema(
        self,
        schema: Mapping[str, Any],
        *,
        whitespace: Literal["spaced", "compact", "any"] = "spaced",
        numbers: Literal["canonical", "any"] = "canonical",
        property_order: Literal["schema", "any"] = "schema",
    ) -> CompiledGrammar:
        """A grammar for one JSON value of the schema. Raises GrammarError naming the JSON pointer."""
        return self.compiler.compile_json_schema(
            schema, whitespace=whitespace, numbers=numbers, property_order=property_order
        )
