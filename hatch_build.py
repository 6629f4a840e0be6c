"""Build hook: compile the Rust extension once and place it at `recipe-rs/offseek/_native.abi3.so`.

Runs for wheels and for editable installs. maturin alone cannot assemble this wheel, because its
`python-source` takes a single directory and the distribution has six namespace roots; so hatchling
assembles and maturin only compiles. `OFFSEEK_CARGO_PROFILE` picks the cargo profile (default `release`).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "_native.abi3.so"


def build_native(root: pathlib.Path, profile: str) -> pathlib.Path:
    """Compile `recipe-rs/python` with maturin and return the path of the placed extension."""
    target = root / "recipe-rs" / "offseek" / NAME
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [sys.executable, "-m", "maturin", "build", "--quiet", "--profile", profile, "--interpreter", sys.executable,
             "--manifest-path", str(root / "recipe-rs" / "python" / "Cargo.toml"), "--out", out,
             "--compatibility", "linux" if sys.platform == "linux" else "off"],
            check=True, cwd=root,
        )  # fmt: skip
        (wheel,) = pathlib.Path(out).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [n for n in archive.namelist() if pathlib.PurePosixPath(n).name == NAME]
            fresh = pathlib.Path(out) / NAME
            fresh.write_bytes(archive.read(member))
        # Replace by rename: a running process keeps the old file mapped.
        staged = target.with_suffix(".new")
        shutil.copy(fresh, staged)
        staged.chmod(0o755)
        staged.replace(target)
    return target


class NativeBuildHook(BuildHookInterface):
    """Adds `offseek._native` to the wheel and tags it abi3."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict) -> None:
        root = pathlib.Path(self.root)
        if os.environ.get("OFFSEEK_SKIP_NATIVE") != "1":
            build_native(root, os.environ.get("OFFSEEK_CARGO_PROFILE", "release"))
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["artifacts"].append(f"recipe-rs/offseek/{NAME}")


if __name__ == "__main__":  # `python hatch_build.py [profile]`: what `make native` calls
    print(build_native(pathlib.Path(__file__).resolve().parent, sys.argv[1] if len(sys.argv) > 1 else "release"))
