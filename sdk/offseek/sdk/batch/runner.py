"""Answering batch rows on the engines of one application, many in flight, no thread per row."""

from __future__ import annotations

import hashlib
import json
import queue
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from offseek.engine.request import RequestOutput
from offseek.sdk.application import ApiError, Application, Reply
from offseek.sdk.application.errors import dump
from offseek.sdk.batch.lines import BatchRow
from offseek.sdk.batch.results import failure, record


def answer_rows(
    application: Application, rows: Iterable[BatchRow | None], *, seed: int, max_in_flight: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row index, result line) in order of completion; every row gives exactly one.

    rows: a None among them means "nothing for now"; it is asked again after the next event.
    seed: rows that set none sample with one made of this and their custom_id, so that a job can be run again.
    """
    events: queue.SimpleQueue[tuple[int, RequestOutput]] = queue.SimpleQueue()
    live: dict[int, tuple[BatchRow, Reply]] = {}
    source = iter(rows)
    exhausted = False
    try:
        while True:
            while not exhausted and len(live) < max_in_flight:
                try:
                    row = next(source)
                except StopIteration:
                    exhausted = True
                    break
                if row is None:
                    break
                result = _start(application, row, seed, events, live)
                if result is not None:
                    yield row.index, result
            if not live:
                if exhausted:
                    return
                continue
            index, output = events.get()
            if index not in live:
                continue  # ended already, by a stop sequence
            row, reply = live[index]
            result = _push(row, reply, output, seed)
            if result is not None:
                del live[index]
                yield index, result
    finally:
        for _, reply in live.values():
            if reply.loop is not None:
                reply.loop.cancel(reply.turn.request.request_id)


def _start(
    application: Application,
    row: BatchRow,
    seed: int,
    events: queue.SimpleQueue[tuple[int, RequestOutput]],
    live: dict[int, tuple[BatchRow, Reply]],
) -> dict[str, Any] | None:
    """Submit a row; return its result if it has one already."""
    if row.problem is not None:
        return failure(row.custom_id, "invalid_request", row.problem, seed=seed)
    url = "/anthropic" + row.url if row.url == "/v1/messages" else row.url
    reply = application.open("POST", url, dump(row.body))
    if reply.body is not None:
        return record(row.custom_id, reply.status, json.loads(reply.body), seed=seed)
    turn = reply.turn
    if turn.request.sampling.seed is None:
        sampling = replace(turn.request.sampling, seed=row_seed(seed, row.custom_id))
        turn.request = replace(turn.request, sampling=sampling)
    assert reply.loop is not None
    try:
        reply.loop.submit(turn.request, lambda output, index=row.index: events.put((index, output)))  # type: ignore[misc]
    except Exception as exc:
        return failure(row.custom_id, "engine_error", f"{type(exc).__name__}: {exc}", seed=seed)
    live[row.index] = (row, reply)
    return None


def _push(row: BatchRow, reply: Reply, output: RequestOutput, seed: int) -> dict[str, Any] | None:
    turn = reply.turn
    try:
        turn.push(output)
        if not turn.finished:
            return None
        body = json.loads(turn.response())
    except ApiError as exc:
        return record(row.custom_id, exc.status, exc.payload(envelope=reply.envelope), seed=seed)
    except Exception as exc:  # reading the output failed: this row's fault alone
        return failure(row.custom_id, "engine_error", f"{type(exc).__name__}: {exc}", seed=seed)
    finally:
        if turn.finished and output.finish_reason is None and reply.loop is not None:
            reply.loop.cancel(turn.request.request_id)
    return record(row.custom_id, 200, body, seed=seed)


def row_seed(seed: int, custom_id: str | None) -> int:
    """A row's own seed in [0, 2^63)."""
    data = f"{seed}:{custom_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1
