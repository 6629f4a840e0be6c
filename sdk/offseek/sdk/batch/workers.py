"""Several processes on one batch: each with its own application and its own journal, fed row by row by this one.

The parent hands out row numbers and hears back which rows are on disk; it never sees the results. A worker that dies
is replaced and its unfinished rows go out again; a row that was in flight at two deaths is given up as `worker_died`.
Workers end by themselves when the parent is gone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offseek.sdk.batch.lines import BatchInput, BatchRow, read_row
from offseek.sdk.batch.results import failure, is_ok, journal_path, next_journal_number
from offseek.sdk.batch.runner import answer_rows
from offseek.sdk.errors import ClientError
from offseek.sdk.journal import Journal

if TYPE_CHECKING:
    from offseek.sdk.batch.job import BatchOptions

FLUSH_S = 1.0
MAX_DEATHS = 2  # of workers with the same row in flight
MAX_BARREN_DEATHS = 3  # of workers in a row that finished nothing: the application itself does not start


class _Worker:
    """The parent's end of one worker."""

    def __init__(self, context: Any, factory: Any, rows: BatchInput, folder: Path, number: int, options: Any) -> None:
        ours, theirs = context.Pipe()
        self.pipe: Connection = ours
        self.input = rows
        self.process = context.Process(
            target=_work, args=(theirs, factory, str(rows.path), folder, number, options), daemon=True
        )
        self.process.start()
        theirs.close()
        self.rows: set[int] = set()
        self.num_done = 0


def run_workers(
    factory: Callable[[], Any],
    rows: BatchInput,
    pending: Iterator[int],
    folder: Path,
    options: BatchOptions,
    count: Callable[[bool], None],
) -> None:
    """Run the pending rows in `options.workers` processes. Raises ClientError when workers keep dying at once."""
    context = multiprocessing.get_context("spawn")
    again: deque[int] = deque()
    deaths: Counter[int] = Counter()
    given_up: list[int] = []
    number = next_journal_number(folder)
    barren = 0

    def take() -> int | None:
        return again.popleft() if again else next(pending, None)

    def start() -> _Worker | None:
        nonlocal number
        index = take()
        if index is None:
            return None
        worker = _Worker(context, factory, rows, folder, number, options)
        number += 1
        _feed(worker, index)
        for _ in range(options.max_in_flight - 1):
            if (more := take()) is None:
                break
            _feed(worker, more)
        return worker

    workers = [worker for _ in range(options.workers) if (worker := start()) is not None]
    try:
        while workers:
            for ready in wait([worker.pipe for worker in workers]):
                worker = next(w for w in workers if w.pipe is ready)
                try:
                    finished: list[tuple[int, bool]] = worker.pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    worker.process.join()
                    barren = 0 if worker.num_done else barren + 1
                    if barren >= MAX_BARREN_DEATHS:
                        raise ClientError(
                            f"workers die before they finish a row (exit code {worker.process.exitcode}); "
                            "run with one worker to see why"
                        ) from None
                    for index in sorted(worker.rows):
                        deaths[index] += 1
                        (given_up if deaths[index] >= MAX_DEATHS else again).append(index)
                    if (fresh := start()) is not None:
                        workers.append(fresh)
                    continue
                for index, ok in finished:
                    worker.rows.discard(index)
                    worker.num_done += 1
                    count(ok)
                    if (more := take()) is not None:
                        _feed(worker, more)
                if not worker.rows:
                    _feed(worker, None)
                    workers.remove(worker)
                    worker.process.join()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
    if given_up:
        _give_up(given_up, rows, folder, number, options, count)


def _feed(worker: _Worker, index: int | None) -> None:
    if index is not None:
        worker.rows.add(index)
    with contextlib.suppress(OSError):  # it died: seen at its pipe's end
        worker.pipe.send(None if index is None else (index, *worker.input.place(index)))


def _give_up(
    indices: list[int], rows: BatchInput, folder: Path, number: int, options: Any, count: Callable[[bool], None]
) -> None:
    message = f"the worker process died {MAX_DEATHS} times while this row was in flight"
    with Journal(journal_path(folder, number)) as journal:
        for row in rows.rows(iter(indices)):
            result = failure(row.custom_id, "worker_died", message, seed=options.seed)
            journal.append([{"n": row.index, "record": result}])
            count(False)


# --- the worker process


def _work(pipe: Connection, factory: Any, source: str, folder: Path, number: int, options: Any) -> None:
    """Answer rows until told to stop; report them once they are on disk."""
    parent = os.getppid()
    threading.Thread(target=_follow_parent, args=(parent,), daemon=True).start()
    application = factory()
    group: list[dict[str, Any]] = []
    report: list[tuple[int, bool]] = []
    with Journal(journal_path(folder, number)) as journal, open(source, "rb") as file:

        def flush() -> None:
            if group:
                journal.append(group)
                pipe.send(report)
                group.clear()
                report.clear()

        rows = _rows(pipe, file, flush)
        flushed_s = time.monotonic()
        for index, result in answer_rows(application, rows, seed=options.seed, max_in_flight=options.max_in_flight):
            group.append({"n": index, "record": result})
            report.append((index, is_ok(result)))
            if len(group) >= max(1, options.max_in_flight // 4) or time.monotonic() - flushed_s > FLUSH_S:
                flush()
                flushed_s = time.monotonic()
        flush()
    application.close()


def _rows(pipe: Connection, file: Any, flush: Callable[[], None]) -> Iterator[BatchRow | None]:
    """Rows that the parent hands out. Before waiting for more, what is done is reported: else both would wait."""
    while True:
        if not pipe.poll():
            flush()
            if not pipe.poll(0.02):
                yield None
                continue
        try:
            place = pipe.recv()
        except EOFError:
            os._exit(1)
        if place is None:
            return
        yield read_row(file, *place)


def _follow_parent(parent: int) -> None:
    """End this process when its parent is gone, whatever it is doing."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
