"""`offseek serve`: the official API over HTTP, on this machine."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Annotated, Any

import typer
from offseek.sdk.cli.common import err
from offseek.sdk.errors import MissingExtraError

EXAMPLE = "Example: offseek serve --model default --served-model-name deepseek-flash --port 8000"


def register(app: typer.Typer) -> None:
    app.command("serve", epilog=EXAMPLE)(serve)


def serve(
    model: Annotated[list[str], typer.Option(help="model name, GGUF file or checkpoint folder; may be repeated")] = [  # noqa: B006
        "default"
    ],
    served_model_name: Annotated[
        list[str], typer.Option(help="API name of the models in order, or NAME=MODEL; may be repeated")
    ] = [],  # noqa: B006
    host: Annotated[
        str, typer.Option(help="address to bind; other machines reach only non-loopback ones")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    api_key: Annotated[
        list[str], typer.Option(envvar="OFFSEEK_API_KEY", help="ask for this key; may be repeated")
    ] = [],  # noqa: B006
    max_concurrency: Annotated[int, typer.Option(min=1, help="requests answered at once; more get 429")] = 512,
    max_queue: Annotated[int, typer.Option(min=1, help="live requests per engine; more get 429")] = 1024,
    max_body_mib: Annotated[int, typer.Option(min=1)] = 48,
    keep_alive_s: Annotated[float, typer.Option(min=0.1, help="silence before a keep-alive")] = 10.0,
    grace_s: Annotated[float, typer.Option(min=0, help="time that live requests get on shutdown")] = 30.0,
    json_: Annotated[bool, typer.Option("--json", help="log lines as JSON")] = False,
) -> None:
    """Serve chat completions, completions, responses, messages and models on `/v1`, `/beta` and `/anthropic`.

    Ends on SIGINT or SIGTERM, after live requests had `--grace-s` to finish.
    """
    try:
        import uvicorn
        from offseek.sdk.server import ServerOptions, create_app
    except ImportError as exc:
        raise MissingExtraError("the server", "serve") from exc
    from offseek.sdk.application import Application
    from offseek.sdk.model import ChatModel

    loaded = {spec: ChatModel.load(spec) for spec in dict.fromkeys(model)}
    application = Application(assign_names(loaded, served_model_name), max_requests=max_queue)
    options = ServerOptions(
        api_keys=tuple(key for key in api_key if key),
        max_body_bytes=max_body_mib * 2**20,
        max_concurrency=max_concurrency,
        keep_alive_s=keep_alive_s,
    )
    _log_to_stderr(as_json=json_)
    if not options.api_keys and host not in ("127.0.0.1", "localhost", "::1"):
        err.print(f"[yellow]warning:[/] {host} may be reached from other machines and no --api-key is set")
    config = uvicorn.Config(
        create_app(application, options),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(grace_s) or 1,
        timeout_keep_alive=75,
    )
    err.print(f"serving {', '.join(sorted(application.models))} on http://{host}:{port}", markup=False)
    try:
        uvicorn.Server(config).run()
    finally:
        application.close(timeout_s=grace_s, drain=True)


def assign_names(loaded: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """API names → models. Without names each model goes by its own.

    Names given plain belong to the models in order (the last takes the rest); `NAME=MODEL` is clear.
    """
    plain = [name for name in names if "=" not in name]
    found: dict[str, Any] = {}
    specs = list(loaded)
    for index, name in enumerate(plain):
        found[name] = loaded[specs[min(index, len(specs) - 1)]]
    for name in names:
        label, equals, spec = name.partition("=")
        if equals:
            if spec not in loaded:
                raise typer.BadParameter(f"{spec!r} is not one of the models", param_hint="--served-model-name")
            found[label] = loaded[spec]
    named = {id(chat_model) for chat_model in found.values()}
    for chat_model in loaded.values():
        if id(chat_model) not in named:
            found[chat_model.name] = chat_model
    return found


class _Formatter(logging.Formatter):
    """One line per record: time, level, message and the structured fields, as text or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": stamp, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        fields = getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if self.as_json:
            return json.dumps(line | fields, ensure_ascii=False)
        return " ".join([stamp, line["level"], line["message"], *(f"{k}={v}" for k, v in fields.items())])


def _log_to_stderr(*, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(as_json=as_json))
    logging.basicConfig(level=os.environ.get("OFFSEEK_LOG", "INFO").upper(), handlers=[handler], force=True)
