"""Tool calls in the Hermes/Qwen syntax: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one element a call.

The reader rewrites such calls, as they stream in, into the recipe's tool markup with private spellings that no model
can write, so that the recipe's stream processor makes the protocol events. (Syntax: NousResearch, "Hermes Function
Calling"; the same in Qwen2.5 and Qwen3 chat templates.)
"""

from __future__ import annotations

import codecs
import json
import secrets
from collections import deque
from typing import Any

from offseek import recipe
from offseek.engine.request import RequestOutput

OPEN, _CLOSE, _THINK_END = b"<tool_call>", b"</tool_call>", b"</think>"
_WORDS = ("invoke", "parameter")


class HermesReader:
    """Engine outputs → inference chunks with the recipe's markup. One per request.

    A call that is not valid JSON of the expected shape is passed on as text: odd model output is data.

    recipe_tokenizer: given when log probabilities are wanted. Content and reasoning then go on as tokens; a token that
    lies half in a tag goes on as text, and the tokens of calls have no log probabilities, as in the V4 syntax.
    masked: pass on the log probabilities after the grammar's mask.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        starts_in_reasoning: bool,
        starts_in_call: bool = False,
        recipe_tokenizer: recipe.Tokenizer | None = None,
        masked: bool = False,
    ) -> None:
        self.tokenizer = recipe_tokenizer  # text chunks need none
        self._tokens = tokenizer
        self._masked = masked
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        nonce = secrets.token_hex(8)
        self.dsml, self.think_end = f"\ue000{nonce}\ue001", f"\ue002{nonce}\ue003"
        self.special_tokens = recipe.SpecialTokens(dsml=self.dsml, thinking_end=self.think_end)
        # Bytes not yet passed on, and the tokens they came from as (id, log probabilities, number of bytes).
        # A required call is opened by the prompt and ends with the output.
        self._pending = OPEN if starts_in_call else b""
        self._sources: deque[tuple[int, Any, int]] = deque()
        self._num_injected = len(self._pending)
        self._starts_in_call = starts_in_call
        self._reasoning = starts_in_reasoning
        self._in_calls = False
        self._chunks: list[recipe.InferenceChunk] = []
        self._text, self._num_tokens = "", 0  # of the chunk that is being put together

    def read(self, output: RequestOutput) -> list[recipe.InferenceChunk]:
        final = output.finish_reason is not None
        for place, token in enumerate(output.token_ids):
            data = self._tokens.token_bytes(token)
            self._pending += data
            entry = output.logprobs[place] if place < len(output.logprobs) else None
            self._sources.append((token, entry, len(data)))
        self._advance(final=final)
        if final:
            self._text += self._decoder.decode(b"", True)
            self._num_tokens += len(self._sources)
            self._sources.clear()
        self._flush()
        chunks, self._chunks = self._chunks, []
        return chunks

    def _flush(self) -> None:
        if self._text or self._num_tokens:
            self._chunks.append(recipe.InferenceChunk.text(self._text, self._num_tokens))
        self._text, self._num_tokens = "", 0

    def _drop(self, size: int) -> bytes:
        """Take bytes from the front that are not passed on; their tokens count with the chunk being put together."""
        data, self._pending = self._pending[:size], self._pending[size:]
        skipped = min(size, self._num_injected)
        self._num_injected -= skipped
        size -= skipped
        while size and self._sources:
            token, _, left = self._sources.popleft()
            if left > size:
                self._sources.appendleft((token, None, left - size))
                break
            size -= left
            self._num_tokens += 1
        return data

    def _pass(self, size: int) -> None:
        """Pass bytes from the front on: as tokens where log probabilities are wanted, else as text."""
        if self.tokenizer is None:
            self._text += self._decoder.decode(self._drop(size))
            return
        while size:
            if not self._sources or self._num_injected:  # what the prompt opened
                self._text += self._decoder.decode(self._drop(size))
                return
            token, entry, left = self._sources[0]
            if entry is None or left > size:
                part = min(left, size)
                self._text += self._decoder.decode(self._drop(part))
                size -= part
                continue
            self._flush()
            self._sources.popleft()
            self._pending = self._pending[left:]
            size -= left
            logprob = (entry.masked, list(entry.top_masked)) if self._masked else (entry.raw, list(entry.top_raw))
            self._chunks.append(recipe.InferenceChunk.tokens([token], [logprob]))

    def _advance(self, *, final: bool) -> None:
        """Pass on as much of the pending bytes as is decided, calls rewritten."""
        while True:
            if self._reasoning:
                at = self._pending.find(_THINK_END)
                if at < 0:
                    self._release(_THINK_END, final)
                    break
                self._pass(at)
                self._drop(len(_THINK_END))
                self._text += self.think_end
                self._reasoning = False
                continue
            at = self._pending.find(OPEN)
            if at < 0:
                self._release(OPEN, final)
                break
            end = self._pending.find(_CLOSE, at)
            if end < 0 and not final:
                self._pass(0 if self._in_calls else len(self._pending[:at].rstrip(b"\n")))
                break
            call = self._pending[at + len(OPEN) : end if end >= 0 else None]
            size = len(OPEN) + len(call) + (len(_CLOSE) if end >= 0 else 0)
            markup = self._markup(call) if end >= 0 or self._starts_in_call else None
            self._before(at, followed_by_call=markup is not None)
            if markup is not None:
                if not self._in_calls:
                    self._text += f"\n\n<{self.dsml}tool_calls>\n"
                    self._in_calls = True
                self._drop(size)
                self._text += markup
            elif self._in_calls:  # nothing can follow calls as text: a broken one is lost, as in the recipe
                self._drop(size)
            else:
                self._pass(size)
        if final and self._in_calls:
            self._text += f"</{self.dsml}tool_calls>"

    def _before(self, size: int, *, followed_by_call: bool) -> None:
        """Pass on the text before a tag, without the line feeds that lead to a call."""
        if self._in_calls:
            self._drop(size)
            return
        kept = len(self._pending[:size].rstrip(b"\n")) if followed_by_call else size
        self._pass(kept)
        self._drop(size - kept)

    def _release(self, marker: bytes, final: bool) -> None:
        """Pass the pending bytes on, but for an end that may be the start of `marker` (and its line feeds)."""
        cut = len(self._pending) - (0 if final else _partial_suffix(self._pending, marker))
        if not final:
            cut = len(self._pending[:cut].rstrip(b"\n"))
        if self._in_calls:
            self._drop(cut)
        else:
            self._pass(cut)

    def _markup(self, call: bytes) -> str | None:
        try:
            value = json.loads(call)
            name, arguments = value["name"], value.get("arguments", {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # UnicodeDecodeError is a ValueError
            return None
        if not isinstance(name, str) or not isinstance(arguments, dict) or '"' in name:
            return None
        return invoke_markup(self.dsml, name, arguments) + "\n"


def invoke_markup(dsml: str, name: str, arguments: dict[str, Any], *, words: tuple[str, str] = _WORDS) -> str:
    """A call in the recipe's tool markup with this spelling of its marker.

    words: of the call's and the parameters' tags.
    """
    call, parameter = words

    def spell(value: Any) -> str:  # the marker's own letters are escaped: a value cannot be read as markup
        text = json.dumps(value, ensure_ascii=False)
        return text.replace(dsml[0], f"\\u{ord(dsml[0]):04x}") if dsml in text else text

    lines = [f'<{dsml}{call} name="{name}">']
    for key, item in arguments.items():
        # Every value goes as JSON: the recipe copies it as it is, and keys up to the first space.
        name_text = spell(key).replace(" ", "\\u0020")[1:-1]
        lines.append(f'<{dsml}{parameter} name="{name_text}" string="false">{spell(item)}</{dsml}{parameter}>')
    lines.append(f"</{dsml}{call}>")
    return "\n".join(lines)


def _partial_suffix(data: bytes, marker: bytes) -> int:
    """Length of the longest end of `data` that begins `marker`."""
    for size in range(min(len(marker) - 1, len(data)), 0, -1):
        if marker.startswith(data[-size:]):
            return size
    return 0
