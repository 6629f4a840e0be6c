"""`offseek extract`: documents and a schema in, a JSONL file of objects out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from offseek.sdk.cli.common import EXIT_FAILED_ROWS, load_model, out, print_json
from offseek.sdk.documents import read_documents
from offseek.sdk.errors import InputError
from offseek.sdk.extraction import ExtractionOptions, Extractor
from offseek.sdk.job import JobSummary, run_job
from offseek.sdk.progress import JobProgress
from offseek.sdk.prompts import DEFAULT_INSTRUCTIONS, DEFAULT_TEMPLATE, ExtractionPrompt, load_examples
from offseek.sdk.schema import load_schema
from rich.table import Table

EXAMPLE = "Example: offseek extract --schema invoice.json --input docs/ --output out.jsonl"


def register(app: typer.Typer) -> None:
    app.command("extract", epilog=EXAMPLE)(extract)


def extract(
    schema: Annotated[str, typer.Option(help="JSON Schema file, or module:Model of a pydantic model")],
    input: Annotated[list[str], typer.Option(help="text file, folder, .jsonl, .csv or .parquet; may be repeated")],
    output: Annotated[Path, typer.Option(help=".jsonl (or .parquet), one row per document")],
    model: Annotated[str, typer.Option(help="model name, GGUF file or checkpoint folder")] = "default",
    server: Annotated[str | None, typer.Option(help="run the model on the server at this URL")] = None,
    server_kind: Annotated[str, typer.Option(help="vllm, sglang, or deepseek (the official API)")] = "vllm",
    server_model: Annotated[str | None, typer.Option(help="the server's name of the model")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue a stopped run of the same job")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="start anew over an existing file")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="with --resume: run failed rows again")] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="cut documents that do not fit the context")] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="limit of one answer")] = 1024,
    batch_size: Annotated[int, typer.Option(min=1, help="documents in flight")] = 32,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    retries: Annotated[int, typer.Option(min=0, help="new attempts for a cut or invalid answer")] = 0,
    chunk_chars: Annotated[
        int | None, typer.Option(min=1, help="cut longer documents into pieces of this size and merge their objects")
    ] = None,
    chunk_overlap_chars: Annotated[int, typer.Option(min=0)] = 200,
    confidence: Annotated[bool, typer.Option("--confidence", help="add a probability per field")] = False,
    whitespace: Annotated[str, typer.Option(help="spaced, compact or any")] = "spaced",
    numbers: Annotated[str, typer.Option(help="canonical or any")] = "canonical",
    property_order: Annotated[str, typer.Option(help="schema or any")] = "schema",
    instructions: Annotated[str, typer.Option(help="system message")] = DEFAULT_INSTRUCTIONS,
    template: Annotated[str, typer.Option(help="user message; {document}, {keys} and columns are filled in")] = (
        DEFAULT_TEMPLATE
    ),
    schema_in_prompt: Annotated[str, typer.Option(help="full, keys or none")] = "full",
    examples: Annotated[Path | None, typer.Option(help='JSONL of {"document": text, "object": {...}}')] = None,
    text_field: Annotated[str, typer.Option(help="column with the text")] = "text",
    id_field: Annotated[str, typer.Option(help="column with the id")] = "id",
    open_objects: Annotated[bool, typer.Option("--open-objects", help="allow keys the schema does not list")] = False,
    json_: Annotated[bool, typer.Option("--json", help="print the summary as JSON, no progress bar")] = False,
) -> None:
    """Extract one validated JSON object per document.

    Every document gets exactly one row: the object, or a typed error. Exit code 1 when some rows failed.
    """
    _one_of("--whitespace", whitespace, ("spaced", "compact", "any"))
    _one_of("--numbers", numbers, ("canonical", "any"))
    _one_of("--property-order", property_order, ("schema", "any"))
    _one_of("--schema-in-prompt", schema_in_prompt, ("full", "keys", "none"))
    loaded = load_schema(schema, close=not open_objects)
    prompt = ExtractionPrompt(
        instructions=instructions,
        template=template,
        schema_in_prompt=schema_in_prompt,  # type: ignore[arg-type]  # checked above
        examples=load_examples(str(examples)) if examples else (),
    )
    options = ExtractionOptions(
        max_tokens=max_tokens,
        batch_size=batch_size,
        temperature=temperature,
        seed=seed,
        retries=retries,
        confidence=confidence,
        chunk_chars=chunk_chars,
        chunk_overlap_chars=chunk_overlap_chars,
        truncate=truncate,
        whitespace=whitespace,  # type: ignore[arg-type]
        numbers=numbers,  # type: ignore[arg-type]
        property_order=property_order,  # type: ignore[arg-type]
    )
    prompt.check(loaded)
    total = _count(input, text_field, id_field)
    journal = output.with_name(output.name + ".jsonl") if output.suffix == ".parquet" else output
    _refuse_overlap(input, journal)
    chat = load_model(model, server, server_kind, server_model)  # only once all the input is known to be sound
    job = Extractor(chat, loaded, prompt=prompt, options=options)
    documents = read_documents(input, text_field=text_field, id_field=id_field)
    with JobProgress("extract", total, quiet=json_) as bar:
        summary = run_job(
            job,
            documents,
            journal,
            resume=resume,
            overwrite=overwrite,
            retry_failed=retry_failed,
            on_row=bar.row,
            on_progress=bar.tokens,
        )
    if journal is not output:
        from offseek.sdk.parquet import write_parquet

        write_parquet(journal, output)
    _report(summary, json_)
    if summary.num_failed:
        raise typer.Exit(EXIT_FAILED_ROWS)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}", param_hint=option)


def _count(paths: list[str], text_field: str, id_field: str) -> int:
    """Read the whole input once: faults and double ids are named before the model is even loaded."""
    total = sum(1 for _ in read_documents(paths, text_field=text_field, id_field=id_field))
    if not total:
        raise InputError("no documents", path=", ".join(paths))
    return total


def _refuse_overlap(paths: list[str], output: Path) -> None:
    if any(Path(path).exists() and output.exists() and output.samefile(path) for path in paths):
        raise InputError("the output is also an input", path=str(output))


def _report(summary: JobSummary, as_json: bool) -> None:
    rate = summary.completion_tokens / summary.elapsed_s if summary.elapsed_s else 0.0
    if as_json:
        print_json(
            {
                "output": summary.output,
                "rows": summary.num_rows,
                "ok": summary.num_ok,
                "failed": summary.num_failed,
                "failures": summary.failures,
                "resumed": summary.num_resumed,
                "prompt_tokens": summary.prompt_tokens,
                "completion_tokens": summary.completion_tokens,
                "elapsed_s": round(summary.elapsed_s, 3),
                "tokens_per_s": round(rate, 1),
            }
        )
        return
    table = Table(title=summary.output, title_justify="left")
    for name in ("rows", "valid objects", "failed", "from earlier runs", "tokens in / out", "tokens/s", "seconds"):
        table.add_column(name, justify="right")
    table.add_row(
        str(summary.num_rows),
        str(summary.num_ok),
        str(summary.num_failed),
        str(summary.num_resumed),
        f"{summary.prompt_tokens} / {summary.completion_tokens}",
        f"{rate:.0f}",
        f"{summary.elapsed_s:.1f}",
    )
    out.print(table)
    for kind, number in sorted(summary.failures.items()):
        out.print(f"  {number} x {kind}")
