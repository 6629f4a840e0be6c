"""Tool calls in the Hermes/Qwen syntax: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one element a call.

The reader rewrites such calls, as they stream in, into the recipe's tool markup with private spellings that no model
can write, so that the recipe's stream processor makes the protocol events. (Syntax: NousResearch, "Hermes Function
Calling"; the same in Qwen2.5 and Qwen3 chat templates.)
"""

from __future__ import annotations

import codecs
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offseek import recipe
from offseek.engine.request import RequestOutput

if TYPE_CHECKING:
    from offseek.grammars import CompiledGrammar, GrammarCompiler

OPEN, _CLOSE, _THINK_END = "<tool_call>", "</tool_call>", "</think>"


class HermesReader:
    """Engine outputs → text chunks with the recipe's markup. One per request.

    A call that is not valid JSON of the expected shape is passed on as text: odd model output is data.
    """

    def __init__(self, tokenizer: Any, *, starts_in_reasoning: bool, starts_in_call: bool = False) -> None:
        self.tokenizer: recipe.Tokenizer | None = None  # text chunks need none
        self._tokens = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        nonce = secrets.token_hex(8)
        self.dsml, self.think_end = f"\ue000{nonce}\ue001", f"\ue002{nonce}\ue003"
        self.special_tokens = recipe.SpecialTokens(dsml=self.dsml, thinking_end=self.think_end)
        # Not yet passed on. A required call is opened by the prompt and ends with the output.
        self._text = OPEN if starts_in_call else ""
        self._starts_in_call = starts_in_call
        self._reasoning = starts_in_reasoning
        self._in_calls = False

    def read(self, output: RequestOutput) -> list[recipe.InferenceChunk]:
        data = b"".join(map(self._tokens.token_bytes, output.token_ids))
        self._text += self._decoder.decode(data, output.finish_reason is not None)
        text = self._advance(final=output.finish_reason is not None)
        if not text and not output.token_ids:
            return []
        return [recipe.InferenceChunk.text(text, len(output.token_ids))]

    def _advance(self, *, final: bool) -> str:
        """Take as much of the pending text as is decided and return it rewritten."""
        out: list[str] = []
        while True:
            if self._reasoning:
                before, found, after = self._text.partition(_THINK_END)
                if found:
                    out += [before, self.think_end]
                    self._text, self._reasoning = after, False
                    continue
                self._release(out, _THINK_END, final)
                break
            before, found, after = self._text.partition(OPEN)
            if not found:
                self._release(out, OPEN, final)
                break
            call, closed, rest = after.partition(_CLOSE)
            if not closed and not final:
                if before and not self._in_calls:
                    out.append(before.rstrip("\n"))
                self._text = found + after
                break
            markup = self._markup(call) if closed or self._starts_in_call else None
            if before and not self._in_calls:
                out.append(before.rstrip("\n") if markup else before)
            if markup is not None:
                if not self._in_calls:
                    out.append(f"\n\n<{self.dsml}tool_calls>\n")
                    self._in_calls = True
                out.append(markup)
                self._text = rest
                continue
            if (
                self._in_calls
            ):  # nothing can follow calls as text: a broken call after good ones is lost, as in the recipe
                self._text = rest
                continue
            out.append(found + call + closed)
            self._text = rest
        if final and self._in_calls:
            out.append(f"</{self.dsml}tool_calls>")
        return "".join(out)

    def _release(self, out: list[str], marker: str, final: bool) -> None:
        """Pass the pending text on, but for an end that may be the start of `marker` (and its line feeds)."""
        keep = 0 if final else _partial_suffix(self._text, marker)
        cut = len(self._text) - keep
        if not final:
            while cut and self._text[cut - 1] == "\n":
                cut -= 1
        if not self._in_calls:
            out.append(self._text[:cut])
        self._text = self._text[cut:]

    def _markup(self, call: str) -> str | None:
        try:
            value = json.loads(call)
            name, arguments = value["name"], value.get("arguments", {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if not isinstance(name, str) or not isinstance(arguments, dict) or '"' in name:
            return None
        lines = [f'<{self.dsml}invoke name="{name}">']
        for key, item in arguments.items():
            # Every value goes as JSON: the recipe copies it as it is, and keys up to the first space.
            spelled = json.dumps(key, ensure_ascii=False).replace(" ", "\\u0020")[1:-1]
            value_text = json.dumps(item, ensure_ascii=False)
            lines.append(f'<{self.dsml}parameter name="{spelled}" string="false">{value_text}</{self.dsml}parameter>')
        lines.append(f"</{self.dsml}invoke>\n")
        return "\n".join(lines)


def _partial_suffix(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    for size in range(min(len(marker) - 1, len(text)), 0, -1):
        if marker.startswith(text[-size:]):
            return size
    return 0


def hermes_grammar(compiler: GrammarCompiler, tools: Sequence[recipe.ToolDefinition]) -> CompiledGrammar:
    """A grammar for the JSON of exactly one call of one of the tools; the prompt has opened the call."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": tool.parameters or {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return compiler.compile_json_schema(
        {"anyOf": calls}, whitespace="spaced", numbers="canonical", property_order="schema"
    )
