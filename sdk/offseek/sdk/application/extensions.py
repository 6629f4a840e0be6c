"""What a body may hold beyond the recipe's own fields, taken out before conversion; and what is refused.

Extensions of Chat Completions: `response_format: {"type": "ebnf", "ebnf": source}` and `max_completion_tokens`
(the newer name of `max_tokens`; both together must agree). Fields that would change the answer and that this
application cannot honour are refused by name instead of ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from offseek.sdk.application.errors import ApiError
from offseek.sdk.application.protocols import Protocol

_REFUSED = ("logit_bias", "functions", "function_call", "audio", "prediction", "web_search_options")


@dataclass(frozen=True, slots=True)
class Extensions:
    """What was taken out of the body. `document` is the parsed body, None when it is not a JSON object."""

    document: dict[str, Any] | None = None
    ebnf: str | None = None


def split_body(protocol: Protocol, body: bytes) -> tuple[bytes | dict[str, Any], Extensions]:
    """Return the body for the recipe and what it does not know.

    The bytes go through untouched unless something was taken out. A body that is not a JSON object goes through
    too: the recipe says best what is wrong with it.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body, Extensions()
    if not isinstance(document, dict):
        return body, Extensions()
    if protocol.name != "chat":
        return body, Extensions(document)
    for name in _REFUSED:
        if document.get(name):
            raise ApiError(400, f"'{name}' is not supported by this server.")
    if document.get("modalities") not in (None, ["text"]):
        raise ApiError(400, "'modalities' other than [\"text\"] are not supported by this server.")
    changed = dict(document)
    _merge_max_tokens(changed)
    ebnf = _take_ebnf(changed)
    if changed == document:
        return body, Extensions(document)
    return changed, Extensions(document, ebnf)


def _merge_max_tokens(body: dict[str, Any]) -> None:
    newer = body.pop("max_completion_tokens", None)
    if newer is None:
        return
    if body.get("max_tokens") not in (None, newer):
        raise ApiError(
            400, f"max_tokens ({body['max_tokens']}) and max_completion_tokens ({newer}) contradict each other."
        )
    body["max_tokens"] = newer


def _take_ebnf(body: dict[str, Any]) -> str | None:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") != "ebnf":
        return None
    source = wanted.get("ebnf")
    if not isinstance(source, str):
        raise ApiError(422, "response_format of type 'ebnf' needs a string 'ebnf'.")
    if body.get("tools"):
        raise ApiError(400, "response_format of type 'ebnf' cannot be combined with tools.")
    del body["response_format"]
    return source


_IMAGE_PARTS = frozenset({"image_url", "file", "input_image", "image"})


def has_images(body: Any) -> bool:
    """Whether any content part of the body's messages or items is an image."""
    if isinstance(body, list):
        return any(map(has_images, body))
    if not isinstance(body, dict):
        return False
    if body.get("type") in _IMAGE_PARTS:
        return True
    return any(has_images(body.get(key)) for key in ("messages", "input", "content", "output"))
