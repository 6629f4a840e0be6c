"""`offseek grammar check`: compile a schema, regex or EBNF, say what is wrong with it, and try strings against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from offseek.sdk.cli.common import EXIT_FAILED_ROWS, EXIT_USAGE, out, print_json
from offseek.sdk.errors import ClientError
from offseek.sdk.schema import check_is_schema

EXAMPLE = """Example: offseek grammar check --schema person.json '{"name": "Ada", "age": 36}'"""

grammar = typer.Typer(no_args_is_help=True, help="Compile grammars and test strings against them.", epilog=EXAMPLE)


def register(app: typer.Typer) -> None:
    app.add_typer(grammar, name="grammar")


@grammar.callback()
def _group() -> None:
    """Keeps `check` a subcommand although it is the only one."""


@grammar.command("check", epilog=EXAMPLE)
def check(
    strings: Annotated[list[str] | None, typer.Argument(help="strings to test")] = None,
    schema: Annotated[Path | None, typer.Option(help="JSON Schema file")] = None,
    regex: Annotated[str | None, typer.Option(help="regular expression")] = None,
    ebnf: Annotated[Path | None, typer.Option(help="grammar file")] = None,
    dialect: Annotated[str, typer.Option(help="of --ebnf: gbnf or lark")] = "gbnf",
    whitespace: Annotated[str, typer.Option(help="of --schema: any, spaced or compact")] = "any",
    numbers: Annotated[str, typer.Option(help="of --schema: any or canonical")] = "any",
    property_order: Annotated[str, typer.Option(help="of --schema: any or schema")] = "any",
    json_: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
) -> None:
    """Compile a grammar; exit code 2 names what is wrong with it. Exit code 1: a string does not match."""
    if sum(source is not None for source in (schema, regex, ebnf)) != 1:
        raise typer.BadParameter("give exactly one of --schema, --regex and --ebnf")
    compiler = _byte_compiler()
    try:
        if schema is not None:
            source = check_is_schema(_load(schema), str(schema))
            compiled = compiler.compile_json_schema(
                source, whitespace=whitespace, numbers=numbers, property_order=property_order
            )
        elif regex is not None:
            compiled = compiler.compile_regex(regex)
        else:
            assert ebnf is not None
            compiled = compiler.compile_ebnf(ebnf.read_text(encoding="utf-8"), dialect=dialect)
    except (ClientError, OSError):
        raise
    except Exception as exc:
        if "GrammarError" not in {cls.__name__ for cls in type(exc).__mro__}:
            raise
        _report_problem(exc, json_)
        raise typer.Exit(EXIT_USAGE) from exc
    results = [(text, *_test(compiled, text.encode("utf-8", "surrogateescape"))) for text in strings or ()]
    if json_:
        found = [{"string": text, "accepted": at is None, "error_byte": at} for text, at, _ in results]
        print_json({"valid": True, "strings": found})
    else:
        out.print("[green]compiles[/]")
        for text, at, why in results:
            mark = "[green]accepted[/]" if at is None else "[red]rejected[/]"
            out.print(f"{mark} ", end="")
            out.print(text if at is None else f"{text}   ({why})", markup=False, soft_wrap=True)
    if any(at is not None for _, at, _ in results):
        raise typer.Exit(EXIT_FAILED_ROWS)


def _test(compiled: Any, data: bytes) -> tuple[int | None, str]:
    """Byte position at which the string leaves the language (its length: it ends too early), and why; None if in it."""
    matcher = compiled.matcher()
    for position, byte in enumerate(data):
        if not matcher.accept_token(byte):
            return position, f"not allowed at byte {position}: {data[position : position + 12]!r}"
    return (None, "") if matcher.is_accepting() else (len(data), "ends too early")


def _byte_compiler() -> Any:
    """A compiler over the 256 bytes: what a grammar allows does not depend on a tokenizer."""
    from offseek.grammars import GrammarCompiler, Vocabulary

    return GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)]))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ClientError(f"{path}: {exc}") from exc


def _report_problem(exc: Exception, as_json: bool) -> None:
    facts = {name: value for name in ("pointer", "line", "column") if (value := getattr(exc, name, None)) is not None}
    if as_json:
        print_json({"valid": False, "error": {"type": type(exc).__name__, "message": str(exc)} | facts})
        return
    out.print(f"[red]does not compile[/]: {type(exc).__name__}")
    out.print(str(exc), markup=False, soft_wrap=True)
