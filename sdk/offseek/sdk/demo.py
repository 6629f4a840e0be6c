"""`make demo`: constrained extraction over real documents with the embedded default model, offline.

Reads the metadata of installed Python packages, asks SmolLM2-135M for seven facts of each, and prints what it found
beside the truth from the same files, the accuracy of every field beside that of always giving the most frequent
value, the speed, and the share of time that token masks took. The rows go to a JSONL file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from offseek.sdk.cli.common import err
from offseek.sdk.demo_documents import PackageDocument, package_documents
from offseek.sdk.extraction import ExtractionOptions, ExtractionRow, Extractor
from offseek.sdk.job import run_job
from offseek.sdk.model import ChatModel
from offseek.sdk.progress import JobProgress
from offseek.sdk.prompts import Example, ExtractionPrompt
from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

out = Console(highlight=False)
if not out.is_terminal:
    out = Console(highlight=False, width=150)  # tables in a log file keep their lines

License = Literal["MIT", "Apache-2.0", "BSD-3-Clause", "BSD-2-Clause", "MPL-2.0", "PSF-2.0"]


class PythonVersion(BaseModel):
    minimum: Annotated[str, Field(max_length=6)]


class PackageFacts(BaseModel):
    """What is asked of every document."""

    name: Annotated[str, Field(max_length=40)]
    version: Annotated[str, Field(max_length=20)]
    license: License
    python: PythonVersion
    requires: Annotated[list[Annotated[str, Field(max_length=30)]], Field(max_length=3)]
    status: Annotated[int, Field(ge=1, le=7)]
    production_stable: bool


# Invented packages: the model sees the task, not an answer.
EXAMPLES = (
    Example(
        """Name: Quickhash
Version: 0.9.12
Summary: Hash functions
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: cffi>=1.15
Requires-Dist: lxml<6
Requires-Dist: pandas==2.*
Classifier: Development Status :: 4 - Beta

# Quickhash Fast hashes for Python.""",
        {
            "name": "Quickhash",
            "version": "0.9.12",
            "license": "Apache-2.0",
            "python": {"minimum": "3.10"},
            "requires": ["cffi", "lxml", "pandas"],
            "status": 4,
            "production_stable": False,
        },
    ),
    Example(
        """Name: tabulate-lite
Version: 2.14
Summary: Pretty tables in plain text
License-Expression: BSD-3-Clause
Requires-Python: >=3.7
Requires-Dist: wcwidth
Requires-Dist: numpy<3,>=1.20
Classifier: Development Status :: 3 - Alpha

tabulate-lite prints small tables. Install it with pip.""",
        {
            "name": "tabulate-lite",
            "version": "2.14",
            "license": "BSD-3-Clause",
            "python": {"minimum": "3.7"},
            "requires": ["wcwidth", "numpy"],
            "status": 3,
            "production_stable": False,
        },
    ),
    Example(
        """Name: farm_lib
Version: 21.4.0
Summary: Field data for agronomists
License-Expression: MPL-2.0
Requires-Python: >=3.8
Requires-Dist: Flask>=2.0
Classifier: Development Status :: 5 - Production/Stable

farm_lib reads field data.""",
        {
            "name": "farm_lib",
            "version": "21.4.0",
            "license": "MPL-2.0",
            "python": {"minimum": "3.8"},
            "requires": ["Flask"],
            "status": 5,
            "production_stable": True,
        },
    ),
)
PROMPT = ExtractionPrompt(schema_in_prompt="keys", examples=EXAMPLES)


def run(output: Path, num_documents: int) -> bool:
    """Run the demo; True when every document has a row and at least 95% of the rows are valid objects."""
    packages = package_documents(num_documents)
    started = time.monotonic()
    with err.status("loading SmolLM2-135M-Instruct and compiling the schema"):
        model = ChatModel.load("default")
        options = ExtractionOptions(max_tokens=160, batch_size=32)
        job = Extractor(model, PackageFacts, prompt=PROMPT, options=options)
    load_s = time.monotonic() - started
    rows: list[ExtractionRow] = []
    with JobProgress("extracting", len(packages)) as bar:

        def keep(row: ExtractionRow) -> None:
            rows.append(row)
            bar.row(row)

        documents = [package.document for package in packages]
        summary = run_job(job, documents, output, overwrite=True, on_row=keep, on_progress=bar.tokens)
    by_id = {row.id: row for row in rows}
    found = [(package, by_id.get(package.document.id)) for package in packages]
    out.print(results_table(found))
    out.print(accuracy_table(found))
    stats: Any = model.engine.stats  # type: ignore[attr-defined]  # the local engine's
    busy_s = summary.elapsed_s
    out.print(
        f"{len(packages)} documents, {summary.num_ok} valid objects, {summary.num_failed} typed errors, "
        f"{len(packages) - len(by_id)} missing"
    )
    out.print(
        f"{stats.num_generated_tokens} tokens in {busy_s:.1f} s ({stats.num_generated_tokens / busy_s:.0f} tokens/s; "
        f"{stats.num_prompt_tokens} prompt tokens, {stats.num_cached_tokens} of them from the prefix cache); "
        f"loading and compiling took {load_s:.1f} s"
    )
    out.print(
        f"time on token masks: {stats.mask_fill_s:.2f} s filled beside the model "
        f"({100 * stats.mask_fill_s / busy_s:.1f} %), of which the model waited {stats.mask_wait_s:.2f} s"
    )
    out.print(f"rows: {output}")
    return len(by_id) == len(packages) and summary.num_ok >= 0.95 * len(packages)


def results_table(found: Sequence[tuple[PackageDocument, ExtractionRow | None]]) -> Table:
    """One line per document; values that differ from the truth in red."""
    table = Table(title="what the model read (red: not what the document says)", title_justify="left")
    for name in PackageFacts.model_fields:
        table.add_column(name, overflow="fold")
    for package, row in found:
        if row is None or row.error is not None:
            why = "missing" if row is None or row.error is None else row.error.type
            table.add_row(package.document.id, f"[red]{why}[/]")
            continue
        cells = []
        for name in PackageFacts.model_fields:
            value = row.object.get(name)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text = text.replace("[", "\\[")
            cells.append(text if value == package.truth[name] else f"[red]{text}[/]")
        table.add_row(*cells)
    return table


def accuracy_table(found: Sequence[tuple[PackageDocument, ExtractionRow | None]]) -> Table:
    """Share of right values per field, beside the share that the most frequent true value would get."""
    table = Table(title="accuracy per field", title_justify="left")
    for name in ("field", "right", "most frequent value", "difference"):
        table.add_column(name, justify="left" if name == "field" else "right")
    for name in PackageFacts.model_fields:
        truths = [json.dumps(package.truth[name], sort_keys=True) for package, _ in found]
        right = sum(
            row is not None and row.error is None and row.object.get(name) == package.truth[name]
            for package, row in found
        )
        value, baseline = Counter(truths).most_common(1)[0]
        total = len(found)
        gain = (right - baseline) / total
        colour = "green" if gain > 0 else "red" if gain < 0 else "white"
        table.add_row(
            name,
            f"{right / total:.0%}",
            f"{baseline / total:.0%} ({value})".replace("[", "\\["),
            f"[{colour}]{gain:+.0%}[/]",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m offseek.sdk.demo", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out/demo.jsonl"))
    parser.add_argument("--documents", type=int, default=30)
    arguments = parser.parse_args()
    raise SystemExit(0 if run(arguments.output, arguments.documents) else 1)


if __name__ == "__main__":
    main()
