"""The `offseek` command. One module per subcommand; this one only joins them and turns errors into exit codes.

Exit codes: 0 all well; 1 the job ended but some rows failed, or the thing checked was found wanting; 2 wrong usage or
input (options, schema, files); 3 the model cannot be used (missing, damaged, an extra not installed); 130 interrupted.
"""

from __future__ import annotations

import sys

import typer
from offseek.sdk.cli import batch, extract, grammar, models, prompts, serve
from offseek.sdk.cli.common import EXIT_INTERRUPTED, exit_code_of, report_error

app = typer.Typer(
    name="offseek",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="DeepSeek, offline: prompts, constrained extraction and a local engine behind the official clients.",
    epilog="Example: offseek extract --schema invoice.json --input docs/ --output out.jsonl. "
    "Exit codes: 0 well, 1 some rows failed, 2 wrong usage or input, 3 model unusable, 130 interrupted.",
)
for part in (prompts, grammar, extract, batch, serve, models):
    part.register(app)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as exc:
        code = exit_code_of(exc)
        if code is None:
            raise
        report_error(exc)
        sys.exit(code)
