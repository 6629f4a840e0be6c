"""Documents and a schema in, one validated object or one typed error per document out, in input order.

The flow of one row: prompt turns → token ids → grammar-constrained generation → JSON → `jsonschema` (and
pydantic) check. Nothing is passed off as an object that did not pass the check; nothing that fails stops the
other rows. Writing to disk and resuming is `offseek.sdk.job`'s business.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from offseek.engine.request import EngineProtocol, GenerationRequest, SamplingParams
from offseek.sdk.chunking import merge_objects, split_document
from offseek.sdk.confidence import field_confidence
from offseek.sdk.documents import Document, DocumentSource, read_documents
from offseek.sdk.errors import ClientError, RowError
from offseek.sdk.generation import Completion, generate
from offseek.sdk.prompts import ExtractionPrompt, Turn
from offseek.sdk.schema import ExtractionSchema, SchemaSource, load_schema

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar

Whitespace = Literal["spaced", "compact", "any"]
Numbers = Literal["canonical", "any"]
PropertyOrder = Literal["schema", "any"]


class ExtractionModel(Protocol):
    """What extraction needs of a model; `offseek.sdk.model.ChatModel` is one."""

    @property
    def name(self) -> str: ...
    @property
    def engine(self) -> EngineProtocol: ...
    def encode_turns(self, turns: Sequence[Turn]) -> list[int]: ...
    def decode(self, token_ids: Sequence[int]) -> str: ...
    def token_bytes(self, token_id: int) -> bytes: ...
    def compile_schema(
        self, schema: Mapping[str, Any], *, whitespace: Whitespace, numbers: Numbers, property_order: PropertyOrder
    ) -> CompiledGrammar: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionOptions:
    """Settings of an extraction. The JSON layout defaults are the ones that small models find natural."""

    max_tokens: int = 1024  # of one answer
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0  # every row samples with it; the engine keeps rows independent of each other
    batch_size: int = 32  # rows in flight
    whitespace: Whitespace = "spaced"
    numbers: Numbers = "canonical"
    property_order: PropertyOrder = "schema"
    truncate: bool = False  # cut a document that does not fit, instead of refusing its row
    retries: int = 0  # new attempts after `truncated` and `invalid_object`, each told what was wrong
    confidence: bool = False  # probability of each field's tokens
    chunk_chars: int | None = None  # cut longer documents into pieces of this size and merge their objects
    chunk_overlap_chars: int = 200

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch_size"):
            if getattr(self, name) < 1:
                raise ClientError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.chunk_chars is not None and self.chunk_chars <= self.chunk_overlap_chars:
            raise ClientError(
                f"chunk_chars ({self.chunk_chars}) must be more than chunk_overlap_chars ({self.chunk_overlap_chars})"
            )
        if self.retries < 0:
            raise ClientError(f"retries must not be negative, got {self.retries}")


@dataclass(slots=True)
class ExtractionRow:
    """The outcome of one document: exactly one of `object` and `error` is set."""

    id: str
    object: Any = None
    error: RowError | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated_document: bool = False
    num_chunks: int = 1
    attempts: list[str] = field(default_factory=list)  # reasons of earlier attempts, oldest first
    confidence: dict[str, float] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "object": self.object}
        found["error"] = None if self.error is None else self.error.to_dict()
        found["finish_reason"] = self.finish_reason
        found["usage"] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }
        if self.truncated_document:
            found["truncated_document"] = True
        if self.num_chunks > 1:
            found["chunks"] = self.num_chunks
        if self.attempts:
            found["attempts"] = self.attempts
        if self.confidence is not None:
            found["confidence"] = self.confidence
        return found


class Extractor:
    """A compiled extraction: one schema and prompt on one model, ready for any number of documents.

    Raises on construction, before any token is generated: SchemaSourceError or the grammars' GrammarError (with
    JSON pointer) for a schema that cannot be enforced, ClientError for a prompt or example that cannot work.
    """

    def __init__(
        self,
        model: ExtractionModel,
        schema: SchemaSource | ExtractionSchema,
        *,
        prompt: ExtractionPrompt | None = None,
        options: ExtractionOptions | None = None,
    ) -> None:
        self.model = model
        self.schema = schema if isinstance(schema, ExtractionSchema) else load_schema(schema)
        self.prompt = prompt or ExtractionPrompt()
        self.options = options or ExtractionOptions()
        self.prompt.check(self.schema)
        self.grammar = model.compile_schema(
            self.schema.schema,
            whitespace=self.options.whitespace,
            numbers=self.options.numbers,
            property_order=self.options.property_order,
        )

    def run(
        self, documents: Iterable[Document], *, on_progress: Callable[[Completion], None] | None = None
    ) -> Iterator[ExtractionRow]:
        """Yield one row per document in input order, with `batch_size` documents in flight.

        on_progress is called with every finished generation (also those that will be retried).
        """
        if self.options.chunk_chars is None:
            yield from _Work(self, iter(documents), on_progress).rows()
            return
        origins: deque[tuple[str, int]] = deque()  # (document id, number of pieces), in order
        work = _Work(self, self._pieces(documents, origins), on_progress)
        group: list[ExtractionRow] = []
        for row in work.rows():  # in input order, so the pieces of a document come together
            group.append(row)
            if len(group) == origins[0][1]:
                yield self._merge(origins.popleft()[0], group)
                group = []

    def _pieces(self, documents: Iterable[Document], origins: deque[tuple[str, int]]) -> Iterator[Document]:
        size = self.options.chunk_chars
        assert size is not None
        for document in documents:
            overlap = self.options.chunk_overlap_chars
            pieces = list(split_document(document, chunk_chars=size, overlap_chars=overlap))
            origins.append((document.id, len(pieces)))
            yield from pieces

    def _merge(self, name: str, rows: list[ExtractionRow]) -> ExtractionRow:
        """One row for a document's pieces: their merged object if all gave one and it fits the schema."""
        if len(rows) == 1:
            return rows[0]
        merged = ExtractionRow(name, num_chunks=len(rows), finish_reason="stop")
        for number, row in enumerate(rows, 1):
            merged.prompt_tokens += row.prompt_tokens
            merged.completion_tokens += row.completion_tokens
            merged.attempts += row.attempts
            if row.error is not None and merged.error is None:
                message = f"piece {number} of {len(rows)}: {row.error.message}"
                merged.error = RowError(row.error.type, message, row.error.pointer)
                merged.finish_reason = row.finish_reason
        if merged.error is None:
            value = merge_objects([row.object for row in rows])
            merged.error = self.schema.check(value)
            merged.object = None if merged.error else value
        return merged


@dataclass(slots=True)
class _Attempt:
    """One document on its way: its turns so far, and the row that it becomes."""

    document: Document
    row: ExtractionRow
    turns: list[Turn] = field(default_factory=list)
    max_tokens: int = 0
    done: bool = False


class _Work:
    """The bookkeeping of one `Extractor.run`: a window of attempts between the input and the engine."""

    def __init__(
        self, job: Extractor, documents: Iterator[Document], on_progress: Callable[[Completion], None] | None
    ) -> None:
        self.job = job
        self.documents = documents
        self.on_progress = on_progress
        self.window: deque[_Attempt] = deque()  # input order, finished or not
        self.retries: deque[_Attempt] = deque()
        self.live: dict[str, _Attempt] = {}
        self.numbers = itertools.count()
        self.exhausted = False
        self.limit = 4 * job.options.batch_size  # attempts kept while an early row is slow

    def rows(self) -> Iterator[ExtractionRow]:
        # One pass of `generate` does it all, unless it ends with retries still queued or the window full of
        # finished rows; then another pass goes on.
        while not self.exhausted or self.retries or self.window:
            requests = self.requests()
            for completion in generate(self.job.model.engine, requests, max_in_flight=self.job.options.batch_size):
                self.finish(completion)
                yield from self.ready()
            yield from self.ready()

    def ready(self) -> Iterator[ExtractionRow]:
        while self.window and self.window[0].done:
            yield self.window.popleft().row

    def requests(self) -> Iterator[GenerationRequest | None]:
        while True:
            if self.retries:
                attempt = self.retries.popleft()
            elif len(self.window) >= self.limit:
                yield None
                continue
            else:
                document = next(self.documents, None)
                if document is None:
                    self.exhausted = True
                    return
                attempt = _Attempt(document, ExtractionRow(document.id), max_tokens=self.job.options.max_tokens)
                self.window.append(attempt)
            request = self.request(attempt)
            if request is not None:
                yield request

    def request(self, attempt: _Attempt) -> GenerationRequest | None:
        """The attempt as an engine request; None when its row has failed before generation."""
        options, row = self.job.options, attempt.row
        if not attempt.document.text.strip():
            row.error = RowError("empty_document", "the document has no text")
        else:
            ids = self.prompt_ids(attempt)
            if ids is not None:
                request_id = f"extract-{next(self.numbers)}"
                self.live[request_id] = attempt
                sampling = SamplingParams(
                    max_tokens=attempt.max_tokens,
                    temperature=options.temperature,
                    top_p=options.top_p,
                    seed=options.seed,
                    logprobs=0 if options.confidence else None,
                )
                return GenerationRequest(
                    request_id=request_id, prompt_token_ids=ids, sampling=sampling, grammar=self.job.grammar
                )
        attempt.done = True
        return None

    def prompt_ids(self, attempt: _Attempt) -> list[int] | None:
        """Encode the prompt; cut the document if allowed; None (and the row's error set) when it does not fit."""
        model, row = self.job.model, attempt.row
        room = model.engine.context_length - attempt.max_tokens
        if not attempt.turns:
            attempt.turns = self.job.prompt.turns(self.job.schema, attempt.document)
        ids = model.encode_turns(attempt.turns)
        if len(ids) > room and self.job.options.truncate and not row.attempts:
            attempt.document, ids = self.fit(attempt.document, room)
            attempt.turns = self.job.prompt.turns(self.job.schema, attempt.document)
            row.truncated_document = True
        if len(ids) <= room:
            return ids
        row.prompt_tokens = len(ids)
        row.error = RowError(
            "document_too_long",
            f"the prompt has {len(ids)} tokens and the answer may have {attempt.max_tokens}, more than the context of "
            f"{model.engine.context_length}; shorten or chunk the document, or allow truncation",
        )
        return None

    def fit(self, document: Document, room: int) -> tuple[Document, list[int]]:
        """The longest prefix of the document whose prompt fits `room` tokens (or the empty one if none does)."""
        low, high, best = 0, len(document.text), Document(document.id, "", document.fields)
        ids = self.job.model.encode_turns(self.job.prompt.turns(self.job.schema, best))
        while high - low > 16:
            middle = (low + high + 1) // 2
            candidate = Document(document.id, document.text[:middle], document.fields)
            found = self.job.model.encode_turns(self.job.prompt.turns(self.job.schema, candidate))
            if len(found) <= room:
                low, best, ids = middle, candidate, found
            else:
                high = middle
        return best, ids

    def finish(self, completion: Completion) -> None:
        attempt = self.live.pop(completion.request_id)
        if self.on_progress is not None:
            self.on_progress(completion)
        row = attempt.row
        row.finish_reason = completion.finish_reason
        row.prompt_tokens += completion.prompt_tokens
        row.completion_tokens += len(completion.token_ids)
        text = self.job.model.decode(completion.token_ids)
        row.object, row.error = judge(text, completion, self.job.schema)
        mendable = row.error is not None and row.error.type in ("truncated", "invalid_object")
        if mendable and len(row.attempts) < self.job.options.retries:
            self.retry(attempt, text)
            return
        if row.error is None and self.job.options.confidence:
            row.confidence = field_confidence(completion, self.job.model.token_bytes)
        attempt.done = True

    def retry(self, attempt: _Attempt, text: str) -> None:
        """Queue another attempt that tells the model what was wrong with the last one."""
        error = attempt.row.error
        assert error is not None
        where = f" (at {error.pointer})" if error.pointer else ""
        attempt.row.attempts.append(f"{error.type}: {error.message}{where}")
        if error.type == "truncated":
            room = self.job.model.engine.context_length
            attempt.max_tokens = min(2 * attempt.max_tokens, max(room // 2, attempt.max_tokens))
            reason = "Your answer was cut off because it was too long. Answer again, more briefly."
            text = text[:200]
        else:
            reason = f"That object is not acceptable: {error.message}{where}. Answer again."
        first = self.job.prompt.turns(self.job.schema, attempt.document)
        attempt.turns = [*first, Turn("assistant", text), Turn("user", reason)]
        attempt.row.error = None
        self.retries.append(attempt)


def judge(text: str, completion: Completion, schema: ExtractionSchema) -> tuple[Any, RowError | None]:
    """Decide what a finished generation is worth: (object, None) or (None, why not)."""
    match completion.finish_reason:
        case "error":
            return None, RowError("engine_error", f"{type(completion.error).__name__}: {completion.error}")
        case "cancelled":
            return None, RowError("cancelled", "the request was cancelled")
        case "length":
            message = f"the answer was cut off after {len(completion.token_ids)} tokens"
            return None, RowError("truncated", message)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        return None, RowError("invalid_object", f"not JSON: {exc}")
    error = schema.check(value)
    return (None, error) if error else (value, None)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def extract(
    source: DocumentSource | Sequence[DocumentSource],
    schema: SchemaSource | ExtractionSchema,
    *,
    model: ExtractionModel | str = "default",
    prompt: ExtractionPrompt | None = None,
    options: ExtractionOptions | None = None,
    text_field: str = "text",
    id_field: str = "id",
) -> Iterator[ExtractionRow]:
    """Extract one object per document. The short way to `Extractor`; see there for what is raised and when.

    source: whatever `read_documents` takes: paths, rows, frames. model: a loaded model or the name of one.
    """
    if isinstance(model, str):
        from offseek.sdk.model import ChatModel

        loaded: ExtractionModel = ChatModel.load(model)
    else:
        loaded = model
    job = Extractor(loaded, schema, prompt=prompt, options=options)
    return job.run(read_documents(source, text_field=text_field, id_field=id_field))
