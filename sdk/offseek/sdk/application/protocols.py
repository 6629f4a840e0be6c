"""The three chat protocols side by side: request, response and SSE classes of the recipe, ids and error envelope."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

from offseek import recipe

ProtocolName = Literal["chat", "responses", "messages"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """One wire format. `request` and `response` are the recipe's classes of it."""

    name: ProtocolName
    request: Any
    response: Any
    id_prefix: str
    envelope: bool  # errors carry "type": "error"

    def new_id(self) -> str:
        """Ids look like the official ones: a bare UUID for chat, prefixed hex for the others."""
        return str(uuid.uuid4()) if not self.id_prefix else f"{self.id_prefix}{uuid.uuid4().hex}"


CHAT = Protocol("chat", recipe.ChatCompletionRequest, recipe.ChatCompletionResponse, "", False)
RESPONSES = Protocol("responses", recipe.ResponsesRequest, recipe.ResponsesResponse, "resp_", False)
MESSAGES = Protocol("messages", recipe.MessagesRequest, recipe.MessagesResponse, "msg_", True)
