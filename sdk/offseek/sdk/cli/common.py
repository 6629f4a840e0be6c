"""What the subcommands share: consoles, exit codes, and how an error is told to people and to machines."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import typer
from offseek._errors import OffseekError
from offseek.sdk.errors import MissingExtraError
from rich.console import Console

EXIT_OK, EXIT_FAILED_ROWS, EXIT_USAGE, EXIT_MODEL, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
_MODEL_ERRORS = frozenset({"ModelFileError", "RemoteError", "UnsupportedDeviceError", "OutOfBlocksError"})

SERVER_KINDS = ("vllm", "sglang", "deepseek")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def exit_code_of(exc: BaseException) -> int | None:
    """Exit code of an error that is the user's to fix; None for one of ours, which deserves its traceback."""
    names = {cls.__name__ for cls in type(exc).__mro__}
    if isinstance(exc, MissingExtraError) or names & _MODEL_ERRORS:
        return EXIT_MODEL
    return EXIT_USAGE if isinstance(exc, OffseekError) else None


def load_model(spec: str, server: str | None = None, server_kind: str = "vllm", server_model: str | None = None) -> Any:
    """The model of a command: local, or with `server` running there. The API key is taken from OFFSEEK_SERVER_KEY."""
    if server_kind not in SERVER_KINDS:
        raise typer.BadParameter(f"{server_kind!r} is not one of {', '.join(SERVER_KINDS)}", param_hint="--server-kind")
    from offseek.sdk.model import ChatModel

    if server is None:
        return ChatModel.load(spec)
    key = os.environ.get("OFFSEEK_SERVER_KEY")
    if server_kind == "deepseek":
        return ChatModel.official(server_model or "deepseek-flash", base_url=server, api_key=key)
    return ChatModel.remote(spec, server, flavor=server_kind, server_model=server_model, api_key=key)


def report_error(exc: BaseException) -> None:
    """Tell an error on stderr; as one JSON line when the command line asked for `--json`."""
    if "--json" in sys.argv:
        facts = {name: value for name, value in vars(exc).items() if isinstance(value, (str, int)) and name[0] != "_"}
        print_json({"error": {"type": type(exc).__name__, "message": str(exc)} | facts}, stderr=True)
    else:
        err.print(f"[bold red]error:[/] {type(exc).__name__}: ", end="")
        err.print(str(exc), markup=False, soft_wrap=True)


def print_json(value: Any, *, stderr: bool = False) -> None:
    """Print one line of JSON, untouched by width or colour."""
    print(json.dumps(value, ensure_ascii=False), file=sys.stderr if stderr else sys.stdout, flush=True)
