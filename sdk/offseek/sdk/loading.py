"""From a model on disk to a `ChatModel`: the local engine, and the dialect that its tokenizer and template call for."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

from offseek.engine import load_engine
from offseek.sdk.model import ChatModel


def load_chat_model(path_or_name: str = "default", *, name: str | None = None, **settings: Any) -> ChatModel:
    """Load a model; see `ChatModel.load`. A checkpoint without a chat template is refused: it cannot be prompted."""
    from offseek.engine.models.install import DEFAULT_MODEL, KNOWN_MODELS

    wanted = DEFAULT_MODEL if path_or_name == "default" else path_or_name
    engine = load_engine(wanted, **settings)
    label = name or (wanted if wanted in KNOWN_MODELS else pathlib.Path(wanted).name)
    known = KNOWN_MODELS.get(wanted)
    sha256 = known.sha256 if known is not None else file_hash(engine.model_path)
    return ChatModel.of_engine(engine, name=label, sha256=sha256)


def file_hash(path: pathlib.Path) -> str:
    """SHA-256 of a model file; of a folder, over the names, sizes and heads of its files (weights are large)."""
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    for file in sorted(path.iterdir()):
        if file.is_file():
            digest.update(f"{file.name}:{os.stat(file).st_size}:".encode())
            with file.open("rb") as content:
                digest.update(content.read(1 << 16))
    return digest.hexdigest()
