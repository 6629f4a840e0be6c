"""Which dialect a checkpoint speaks: a property of its tokenizer, not of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offseek.sdk.dialects.base import Dialect, UnsupportedConversationError
from offseek.sdk.dialects.template import TemplateDialect
from offseek.sdk.dialects.v4 import V4Dialect

if TYPE_CHECKING:
    from offseek.grammars import GrammarCompiler

# Tokens that every V4 prompt needs; `<｜System｜>` came with V4.1.
_V4_TOKENS = ("<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜")
_V41_TOKEN = "<｜System｜>"


def choose_dialect(name: str, tokenizer: Any, chat_template: str | None, compiler: GrammarCompiler) -> Dialect:
    """V4 (or V4.1) where the tokenizer holds its special tokens, else the checkpoint's chat template."""

    def has(token: str) -> bool:
        return tokenizer.token_id(token) in tokenizer.special_ids

    if all(map(has, _V4_TOKENS)):
        return V4Dialect(name, tokenizer=tokenizer, compiler=compiler, v41=has(_V41_TOKEN))
    if not chat_template:
        raise UnsupportedConversationError(name, "chat (it carries neither the V4 tokens nor a chat template)")
    return TemplateDialect(name, chat_template, tokenizer=tokenizer, compiler=compiler)
