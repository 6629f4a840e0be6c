"""From a document to the chat that asks for its facts: instructions, schema text, examples, document.

Produces plain (role, text) turns; turning them into token ids is the model's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from offseek.sdk.documents import Document
from offseek.sdk.errors import ClientError
from offseek.sdk.schema import ExtractionSchema

Role = Literal["system", "user", "assistant"]
SchemaInPrompt = Literal["full", "keys", "none"]

DEFAULT_INSTRUCTIONS = "You extract facts from a document and reply with one JSON object."
DEFAULT_TEMPLATE = "Document:\n{document}\n\nReply with a JSON object with the keys {keys}."
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the chat."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """A document with the object it should give; shown to the model as an earlier exchange."""

    document: str
    object: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionPrompt:
    """How a document is put to the model.

    instructions:     the system message.
    template:         the user message; `{document}`, `{keys}`, `{schema}`, `{id}` and the row's own columns are filled
                      in, in one pass (braces in a document are safe). Other braces stay as they are.
    schema_in_prompt: "full" adds the JSON Schema to the system message, "keys" relies on `{keys}` in the template.
    examples:         few-shot examples, each checked against the schema before the job starts.
    """

    instructions: str = DEFAULT_INSTRUCTIONS
    template: str = DEFAULT_TEMPLATE
    schema_in_prompt: SchemaInPrompt = "full"
    examples: Sequence[Example] = ()

    def check(self, schema: ExtractionSchema) -> None:
        """Raise ClientError for a template without the document, or an example that its own schema refuses."""
        if "document" not in _PLACEHOLDER.findall(self.template):
            raise ClientError("the prompt template must contain {document}")
        for number, example in enumerate(self.examples, 1):
            if error := schema.check(example.object):
                raise ClientError(f"example {number} does not fit the schema: {error.message} (at {error.pointer})")

    def turns(self, schema: ExtractionSchema, document: Document) -> list[Turn]:
        system = self.instructions
        if self.schema_in_prompt == "full":
            system += "\nThe object follows this JSON Schema:\n" + json.dumps(schema.schema, ensure_ascii=False)
        turns = [Turn("system", system)] if system else []
        for example in self.examples:
            turns.append(Turn("user", self._fill(schema, Document("example", example.document))))
            turns.append(Turn("assistant", json.dumps(_ordered(example.object, schema), ensure_ascii=False)))
        turns.append(Turn("user", self._fill(schema, document)))
        return turns

    def _fill(self, schema: ExtractionSchema, document: Document) -> str:
        values: dict[str, Any] = dict(document.fields)
        values |= {
            "document": document.text,
            "id": document.id,
            "keys": ", ".join(schema.keys),
            "schema": json.dumps(schema.schema, ensure_ascii=False),
        }
        return _PLACEHOLDER.sub(lambda m: str(values[m[1]]) if m[1] in values else m[0], self.template)


def _ordered(value: Mapping[str, Any], schema: ExtractionSchema) -> dict[str, Any]:
    """The example's keys in schema order, which is the order the answer is constrained to."""
    first = [key for key in schema.keys if key in value]
    return {key: value[key] for key in [*first, *(k for k in value if k not in first)]}


def load_examples(path: str) -> list[Example]:
    """Read examples from JSONL lines `{"document": text, "object": {...}}`. Raises ClientError naming the line."""
    found: list[Example] = []
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not (
                    isinstance(row, dict)
                    and isinstance(row.get("document"), str)
                    and isinstance(row.get("object"), dict)
                ):
                    raise ClientError(f'{path}, line {number}: an example is {{"document": text, "object": {{...}}}}')
                found.append(Example(row["document"], row["object"]))
    except (OSError, ValueError) as exc:
        raise ClientError(f"{path}: {exc}") from exc
    return found
