"""`offseek batch`: requests from an OpenAI Batch file, answered on this machine."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from offseek.sdk.cli.common import EXIT_FAILED_ROWS, load_model, out, print_json
from offseek.sdk.cli.serve import assign_names
from offseek.sdk.progress import JobProgress
from rich.table import Table

if TYPE_CHECKING:
    from offseek.sdk.batch import BatchSummary

EXAMPLE = "Example: offseek batch requests.jsonl --output results.jsonl --served-model-name deepseek-flash"


def register(app: typer.Typer) -> None:
    app.command("batch", epilog=EXAMPLE)(batch)


def make_application(models: tuple[str, ...], names: tuple[str, ...], server: tuple[Any, ...]) -> Any:
    """Load the models and serve them; run in this process or in each worker."""
    from offseek.sdk.application import Application

    return Application(assign_names({spec: load_model(spec, *server) for spec in models}, list(names)))


def describe_models(
    models: tuple[str, ...], server: str | None, server_kind: str, server_model: str | None
) -> dict[str, Any]:
    """For the manifest: the models with the hash of their files, and where they run."""
    if server is None:
        remote: dict[str, Any] = {}
    else:
        remote = {"server": {"url": server, "kind": server_kind, "model": server_model}}
    if server is not None and server_kind == "deepseek":
        return remote
    from offseek.sdk.loading import model_hash

    return {"models": {spec: model_hash(spec) for spec in models}} | remote


def batch(
    requests: Annotated[Path, typer.Argument(help='JSONL of {"custom_id", "method", "url", "body"}')],
    output: Annotated[Path, typer.Option(help="results with status 200, in input order")],
    errors: Annotated[Path | None, typer.Option(help="the other results (default: OUTPUT with .errors)")] = None,
    model: Annotated[list[str], typer.Option(help="model name, GGUF file or checkpoint folder; may be repeated")] = [  # noqa: B006
        "default"
    ],
    served_model_name: Annotated[
        list[str], typer.Option(help="API name of the models in order, or NAME=MODEL; may be repeated")
    ] = [],  # noqa: B006
    server: Annotated[str | None, typer.Option(help="run the model on the server at this URL")] = None,
    server_kind: Annotated[str, typer.Option(help="vllm, sglang, or deepseek (the official API)")] = "vllm",
    server_model: Annotated[str | None, typer.Option(help="the server's name of the model")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue a stopped job")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="start anew over existing files")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="with --resume: run failed rows again")] = False,
    workers: Annotated[int, typer.Option(min=1, help="processes, each with the model")] = 1,
    max_in_flight: Annotated[int, typer.Option(min=1, help="rows on their way per worker")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="of rows that set none")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="print the summary as JSON, no progress bar")] = False,
) -> None:
    """Answer every request of a batch file: one result line each, whatever happens to it.

    A killed job continues with --resume; nothing is lost or doubled. Exit code 1 when some requests failed.
    """
    from offseek.sdk.batch import BatchOptions, run_batch

    models = tuple(dict.fromkeys(model))
    factory = functools.partial(make_application, models, tuple(served_model_name), (server, server_kind, server_model))
    bar: JobProgress | None = None

    def start(total: int, done: int) -> None:
        nonlocal bar
        bar = JobProgress("batch", total, done=done, quiet=json_)
        bar.progress.start()

    def row(ok: bool) -> None:
        if bar is not None:
            bar.count(ok)

    try:
        summary = run_batch(
            requests,
            output,
            factory,
            errors=errors,
            options=BatchOptions(seed=seed, workers=workers, max_in_flight=max_in_flight),
            resume=resume,
            overwrite=overwrite,
            retry_failed=retry_failed,
            describe=lambda: (
                describe_models(models, server, server_kind, server_model) | {"served_model_names": served_model_name}
            ),
            on_start=start,
            on_row=row,
        )
    finally:
        if bar is not None:
            bar.progress.stop()
    _report(summary, json_)
    if summary.num_failed:
        raise typer.Exit(EXIT_FAILED_ROWS)


def _report(summary: BatchSummary, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "output": summary.output,
                "errors": summary.errors,
                "rows": summary.num_rows,
                "ok": summary.num_ok,
                "failed": summary.num_failed,
                "resumed": summary.num_resumed,
                "elapsed_s": round(summary.elapsed_s, 3),
            }
        )
        return
    table = Table(title=summary.output, title_justify="left")
    for name in ("rows", "answered", "failed", "from earlier runs", "rows/s", "seconds"):
        table.add_column(name, justify="right")
    rate = summary.num_run / summary.elapsed_s if summary.elapsed_s else 0.0
    table.add_row(
        str(summary.num_rows),
        str(summary.num_ok),
        str(summary.num_failed),
        str(summary.num_resumed),
        f"{rate:.1f}",
        f"{summary.elapsed_s:.1f}",
    )
    out.print(table)
    if summary.num_failed:
        out.print(f"failed requests: {summary.errors}", markup=False)
