"""A progress bar for jobs: rows, failures, generated tokens per second, time left."""

from __future__ import annotations

from typing import Any, Self

from offseek.sdk.generation import Completion
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class JobProgress:
    """Use as a context manager; feed it `row` and `tokens`. `quiet` shows nothing."""

    def __init__(self, title: str, total: int, *, done: int = 0, quiet: bool = False) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            disable=quiet,
        )
        self.task = self.progress.add_task(title, total=total, completed=done, note="")
        self.num_tokens = 0
        self.num_rows = 0
        self.num_failed = 0

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.progress.stop()

    def row(self, row: Any) -> None:
        """A finished ExtractionRow."""
        self.count(row.error is None)

    def count(self, ok: bool) -> None:
        """A finished row of any kind."""
        self.num_rows += 1
        self.num_failed += not ok
        self.progress.advance(self.task)
        self._note()

    def tokens(self, completion: Completion) -> None:
        """A finished generation."""
        self.num_tokens += len(completion.token_ids)
        self._note()

    def _note(self) -> None:
        elapsed = self.progress.tasks[0].elapsed or 0.0
        if elapsed <= 0:
            return
        rate = f"{self.num_tokens / elapsed:.0f} tok/s" if self.num_tokens else f"{self.num_rows / elapsed:.1f} rows/s"
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        self.progress.update(self.task, note=rate + failed)
