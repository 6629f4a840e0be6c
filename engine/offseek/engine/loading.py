"""From a path or a name to a running engine: `load_engine`.

Accepts a `.gguf` file, a folder in Hugging Face layout (config.json, *.safetensors, tokenizer.json), a repository name
in the local hub cache, or the name of an installed model. Never touches the network.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from .config import DType, EngineConfig
from .errors import ConfigError, ModelFileError
from .gguf_file import GGUFFile
from .kv_cache import BlockPool
from .llm import LocalEngine
from .model_runner import ModelRunner
from .models.config import ModelConfig, config_from_gguf, config_from_hf
from .models.install import DEFAULT_MODEL, KNOWN_MODELS, model_path
from .models.operations import CpuOperations, CudaOperations, Operations
from .models.transformer import KVCache, Transformer
from .models.weights import TensorSource, gguf_source, safetensors_source
from .tokenizer import CheckpointTokenizer, read_json

if TYPE_CHECKING:
    from offseek.grammars import Vocabulary


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a model's files hold, before weights are read."""

    path: pathlib.Path
    config: ModelConfig
    tokenizer: CheckpointTokenizer
    chat_template: str | None
    tensors: TensorSource


class LoadedEngine(LocalEngine):
    """A `LocalEngine` together with the checkpoint it runs.

    tokenizer:     text <-> ids (`CheckpointTokenizer`).
    chat_template: Jinja source from the checkpoint, or None.
    model_path:    file or folder it was loaded from.
    """

    tokenizer: CheckpointTokenizer
    chat_template: str | None
    model_path: pathlib.Path
    _vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary for `offseek.grammars.GrammarCompiler`, made on first use."""
        if self._vocabulary is None:
            self._vocabulary = self.tokenizer.build_vocabulary(vocab_size=self.vocab_size)
        return self._vocabulary


def open_checkpoint(path_or_name: str | os.PathLike[str] = DEFAULT_MODEL) -> Checkpoint:
    """Read configuration, tokenizer and chat template. Raises ModelFileError saying what is wrong or missing."""
    path = _resolve(path_or_name)
    if path.is_dir():
        raw = read_json(path / "config.json")
        generation = read_json(path / "generation_config.json") if (path / "generation_config.json").exists() else {}
        config = config_from_hf(raw, generation, where=str(path / "config.json"))
        tokenizer = CheckpointTokenizer.from_directory(
            path, eos_token_ids=config.eos_token_ids, bos_token_id=config.bos_token_id
        )
        return Checkpoint(path, config, tokenizer, _folder_template(path), safetensors_source(path))
    gguf = GGUFFile(path)
    config = config_from_gguf(gguf)
    tokenizer = CheckpointTokenizer.from_gguf(gguf)
    config = replace(config, eos_token_ids=tokenizer.eos_token_ids, bos_token_id=tokenizer.bos_token_id)
    return Checkpoint(path, config, tokenizer, gguf.metadata.get("tokenizer.chat_template"), gguf_source(gguf, config))


def load_engine(
    path_or_name: str | os.PathLike[str] = DEFAULT_MODEL,
    *,
    config: EngineConfig | None = None,
    device: str = "auto",
    dtype: DType = "auto",
) -> LoadedEngine:
    """Load a model and return an engine that runs it.

    path_or_name: `.gguf` file, checkpoint folder, repository in the local hub cache, or installed model name.
    device: "cpu", "cuda", "cuda:1", ... or "auto" (CUDA if there is one).
    dtype: of weights and activations; "int8" (CPU only) keeps weights in 8 bits; "auto": float32 on CPU, else bfloat16.

    Raises ModelFileError for files, ConfigError for settings.
    """
    settings = config or EngineConfig()
    place = _device(device)
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    checkpoint = open_checkpoint(path_or_name)
    shape = checkpoint.config
    ops = _operations(place, _dtype(dtype, place), shape, deterministic=settings.deterministic)
    model = Transformer.load(shape, checkpoint.tensors, ops)
    on_gpu = place.type == "cuda"
    max_num_sequences = settings.max_num_sequences or min(256 if on_gpu else 32, settings.max_batch_tokens or 2**30)
    max_batch_tokens = settings.max_batch_tokens or max(8192 if on_gpu else 512, max_num_sequences)
    context_length = min(settings.context_length or shape.context_length, shape.context_length)
    size = settings.block_size
    num_blocks = settings.num_blocks or max(-(-context_length // size), max_num_sequences * 1024 // size)
    cache = KVCache.allocate(shape, num_blocks=num_blocks, block_size=size, dtype=ops.cache_dtype, device=place)
    tokenizer = checkpoint.tokenizer
    engine = LoadedEngine(
        ModelRunner(
            model, cache, block_size=size, max_blocks=-(-context_length // size), carried_rows=max_num_sequences
        ),
        BlockPool(num_blocks=num_blocks, block_size=size, reuse_prefixes=settings.prefix_cache),
        settings,
        context_length=min(context_length, num_blocks * size),
        vocab_size=min(shape.vocab_size, max(tokenizer.vocab_size, max(shape.eos_token_ids, default=0) + 1)),
        eos_token_ids=shape.eos_token_ids,
        token_bytes=[tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)],
        max_num_sequences=max_num_sequences,
        max_batch_tokens=max_batch_tokens,
        mask_threads=min(4, os.cpu_count() or 1) if on_gpu else 1,
    )
    engine.tokenizer = tokenizer
    engine.chat_template = checkpoint.chat_template
    engine.model_path = checkpoint.path
    return engine


def _operations(device: torch.device, dtype: DType, shape: ModelConfig, *, deterministic: bool) -> Operations:
    if device.type == "cpu" and dtype in ("float32", "int8") and shape.head_dim % 16 == 0:
        return CpuOperations(dtype=dtype, deterministic=deterministic)
    if device.type == "cuda":
        return CudaOperations(device=device, dtype=dtype, deterministic=deterministic)
    if deterministic:
        raise ConfigError(
            f"deterministic mode is not supported for {dtype} on {device.type} with head_dim {shape.head_dim}",
            field="deterministic",
        )
    if dtype == "int8":
        raise ConfigError(
            f"dtype 'int8' needs a head_dim that is a multiple of 16, not {shape.head_dim}", field="dtype"
        )
    return Operations(device=device, dtype=dtype)


def _resolve(path_or_name: str | os.PathLike[str]) -> pathlib.Path:
    name = os.fspath(path_or_name)
    if name in KNOWN_MODELS:
        return model_path(name)
    path = pathlib.Path(name).expanduser()
    if path.exists():
        return path
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        from huggingface_hub import snapshot_download

        try:
            return pathlib.Path(snapshot_download(name, local_files_only=True))
        except Exception as error:  # the hub library raises many kinds for "not in the cache"
            raise ModelFileError(
                f"'{name}' is neither a path nor in the local hub cache: {error}", path=name
            ) from error
    known = ", ".join(KNOWN_MODELS)
    raise ModelFileError(f"no model at '{name}': not a file, a folder or an installed model ({known})", path=name)


def _folder_template(folder: pathlib.Path) -> str | None:
    if (file := folder / "chat_template.jinja").exists():
        return file.read_text(encoding="utf-8")
    template = read_json(file).get("chat_template") if (file := folder / "tokenizer_config.json").exists() else None
    if isinstance(template, list):  # named templates
        template = next((t["template"] for t in template if t.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device '{name}' is not known: {error}", field="device") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device '{name}' is not supported (cpu and cuda are)", field="device")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device '{name}' was asked for but torch sees no CUDA device", field="device")
    return device


def _dtype(name: DType, device: torch.device) -> DType:
    if name == "auto":
        return "float32" if device.type == "cpu" else "bfloat16"
    if name not in ("float32", "bfloat16", "float16", "int8"):
        raise ConfigError(f"dtype '{name}' is not supported (float32, bfloat16, float16, int8 are)", field="dtype")
    if name == "int8" and device.type != "cpu":
        raise ConfigError("dtype 'int8' runs on the CPU only", field="dtype")
    return name
