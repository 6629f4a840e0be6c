"""Which dialect a checkpoint speaks: a property of its tokenizer, not of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offseek.recipe import ModelVersion
from offseek.recipe.checkpoint import v4_version
from offseek.sdk.dialects.base import Dialect, UnsupportedConversationError
from offseek.sdk.dialects.template import TemplateDialect
from offseek.sdk.dialects.v4 import V4Dialect

if TYPE_CHECKING:
    from offseek.grammars import GrammarCompiler


def choose_dialect(name: str, tokenizer: Any, chat_template: str | None, compiler: GrammarCompiler) -> Dialect:
    """V4 (or V4.1) where the tokenizer holds its special tokens, else the checkpoint's chat template."""
    added = {tokenizer.token_bytes(token).decode("utf-8", "replace"): token for token in tokenizer.special_ids}
    version = v4_version(added)
    if version is not None:
        v41 = version == ModelVersion.DeepseekV41Flash
        return V4Dialect(name, tokenizer=tokenizer, compiler=compiler, v41=v41)
    if not chat_template:
        raise UnsupportedConversationError(name, "chat (it carries neither the V4 tokens nor a chat template)")
    return TemplateDialect(name, chat_template, tokenizer=tokenizer, compiler=compiler)
