"""Client-side: extraction and batch jobs, transports for the official clients, a local server.

    from offseek.sdk import extract
    for row in extract("docs/", "invoice.json"):
        print(row.id, row.object or row.error)

Imports neither torch nor a server framework; those are loaded by what needs them.
"""

from __future__ import annotations

from offseek.sdk.documents import Document, read_documents
from offseek.sdk.errors import ClientError, InputError, JournalError, MissingExtraError, RowError, SchemaSourceError
from offseek.sdk.extraction import ExtractionOptions, ExtractionRow, Extractor, extract
from offseek.sdk.job import JobSummary, run_job
from offseek.sdk.prompts import Example, ExtractionPrompt
from offseek.sdk.schema import ExtractionSchema, load_schema

__all__ = [
    "ClientError",
    "Document",
    "Example",
    "ExtractionOptions",
    "ExtractionPrompt",
    "ExtractionRow",
    "ExtractionSchema",
    "Extractor",
    "InputError",
    "JobSummary",
    "JournalError",
    "MissingExtraError",
    "RowError",
    "SchemaSourceError",
    "extract",
    "load_schema",
    "read_documents",
    "run_job",
]
