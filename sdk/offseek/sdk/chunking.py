"""Long documents in pieces: where to cut them, and how the objects of the pieces become one object.

Merging, field by field: lists are joined without doubles, objects are merged recursively, other values take the
majority of the pieces that gave one (null counts as none), the earliest on a tie.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from offseek.sdk.documents import Document

_BOUNDARIES = ("\n\n", "\n", ". ", " ")


def split_document(document: Document, *, chunk_chars: int, overlap_chars: int) -> Iterator[Document]:
    """Yield pieces of at most `chunk_chars` characters that overlap by about `overlap_chars`, cut where text allows.

    Ids are `id#1`, `id#2`, ...; a document that fits stays as it is.
    """
    text = document.text
    if len(text) <= chunk_chars:
        yield document
        return
    start = number = 0
    while start < len(text):
        end = _cut(text, start, start + chunk_chars)
        number += 1
        yield Document(f"{document.id}#{number}", text[start:end], document.fields)
        if end >= len(text):
            return
        start = max(end - overlap_chars, start + 1)


def _cut(text: str, start: int, end: int) -> int:
    """The last boundary in the second half of text[start:end], else `end` itself."""
    if end >= len(text):
        return len(text)
    middle = (start + end) // 2
    for boundary in _BOUNDARIES:
        found = text.rfind(boundary, middle, end)
        if found >= 0:
            return found + len(boundary)
    return end


def merge_objects(values: Sequence[Any]) -> Any:
    """Merge the objects of a document's pieces, in order. Raises ValueError for an empty sequence."""
    given = [value for value in values if value is not None]
    if not values:
        raise ValueError("nothing to merge")
    if not given:
        return None
    if all(isinstance(value, dict) for value in given):
        keys = dict.fromkeys(key for value in given for key in value)
        return {key: merge_objects([value[key] for value in given if key in value]) for key in keys}
    if all(isinstance(value, list) for value in given):
        seen = {json.dumps(item, sort_keys=True): item for value in reversed(given) for item in reversed(value)}
        return [seen[key] for key in reversed(seen)]
    spelled = [json.dumps(value, sort_keys=True) for value in given]
    (best, _), *_ = Counter(spelled).most_common(1)  # first seen on a tie
    return given[spelled.index(best)]
