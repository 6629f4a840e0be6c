"""Batch jobs in the OpenAI Batch format: many requests from a JSONL file, one result line per request.

`job` ties it together: `lines` reads and checks the input, `runner` answers rows on one engine, `workers` does so in
several processes, `results` keeps the journals and writes the output and error files in input order.
"""

from __future__ import annotations

from offseek.sdk.batch.job import BatchOptions, BatchSummary, run_batch
from offseek.sdk.batch.lines import BatchInput, BatchInputError

__all__ = ["BatchInput", "BatchInputError", "BatchOptions", "BatchSummary", "run_batch"]
