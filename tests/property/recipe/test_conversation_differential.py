"""Conversations built by hand, in any order: both versions render them as the installed reference package does."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
from offseek.recipe import (
    AssistantMessage,
    Conversation,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    SpecialTokens,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    UrlImageSource,
    UserMessage,
)

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261201


@pytest.fixture(scope="module")
def differential() -> Any:
    pytest.importorskip("deepseek_recipe", reason="the reference package is a development dependency")
    sys.path.insert(0, str(HERE))
    try:
        import conversation_differential
    finally:
        sys.path.remove(str(HERE))
    return conversation_differential


def run(differential: Any, num_cases: int, seed: int) -> None:
    reference, ours = differential.Side("deepseek_recipe"), differential.Side("offseek.recipe")
    for index in range(num_cases):
        case = differential.make_case(index, seed)
        assert ours.answer(case) == reference.answer(case), case


@pytest.mark.slow
def test_500_random_conversations_agree(differential: Any) -> None:
    run(differential, 500, SEED)


@pytest.mark.nightly
def test_20000_random_conversations_agree(differential: Any) -> None:
    run(differential, 20_000, SEED + 1)


def prompt(messages: list[Any], **settings: Any) -> str:
    conversation = Conversation(messages, **{"thinking_mode": False, **settings})
    text = DeepseekV4Encoding().render_conversation(conversation).prompt
    for token, short in [
        ("<｜begin▁of▁sentence｜>", ""), ("<｜User｜>", "[U]"), ("<｜Assistant｜></think>", "[A]"),
        ("<｜end▁of▁sentence｜>", ""), ("<tool_result>", "<"), ("</tool_result>", ">"), ("\n\n", "_"),
    ]:  # fmt: skip
        text = text.replace(token, short)
    return text.split("</｜DSML｜tool_calls>")[-1]


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage("", None, [ToolCall(i, "g", "{}") for i in ids])


def test_v4_orders_exactly_as_many_messages_as_there_are_calls() -> None:
    a, b, x = ToolMessage("A", "a"), ToolMessage("B", "b"), ToolMessage("X", None)
    user, empty = UserMessage("u"), UserMessage("")
    assert prompt([calls("b", "a"), b, a]) == "[U]<A>_<B>[A]"
    assert prompt([calls("a", "b"), b, user, a]) == "[U]<B>_u[U]<A>[A]"
    assert prompt([calls("a", "b"), user, b, a, user]) == "[U]<B>_u[U]<A>_u[A]"
    assert prompt([calls("a", "b", "c"), b, a]) == "[U]<B>_<A>[A]"  # fewer messages than calls: as they stand
    assert prompt([calls("a", "b"), a, x]) == "[U]<X>_<A>[A]"
    assert prompt([calls("a", "b"), user, user, a]) == "[U]<A>_u_u[A]"  # users side by side are one
    assert prompt([calls("a", "b", "c"), user, b, empty]) == "[U]<B>_u_[A]"


def test_v4_keeps_images_of_user_messages_without_placeholders() -> None:
    conversation = Conversation([UserMessage("a"), UserMessage("", [UrlImageSource("https://x")])])
    assert len(DeepseekV4Encoding().render_conversation(conversation).image_sources) == 1


def test_deferred_tools_and_empty_calls_of_hand_made_conversations() -> None:
    tools = [ToolDefinition("t", None, {}, None, True)]
    conversation = Conversation([AssistantMessage("a", None, [])], tools=tools, thinking_mode=False)
    v4 = DeepseekV4Encoding().render_conversation(conversation).prompt
    assert "### Available Tool Schemas\n\n\nYou MUST" in v4
    assert "a\n\n<｜DSML｜tool_calls>\n</｜DSML｜tool_calls>" in v4
    v41 = DeepseekV41Encoding().render_conversation(conversation).prompt
    assert "### Available Tool Schemas\n\n\n\nYou MUST" in v41
    assert "calls>\n</" not in v41.split("You MUST strictly")[1]


def test_v41_reasoning_between_empty_spellings_is_left_out() -> None:
    conversation = Conversation([AssistantMessage("a")], tools=[ToolDefinition("t")])
    spellings = SpecialTokens(thinking_end="")
    text = DeepseekV41Encoding().with_special_tokens(spellings).render_conversation(conversation).prompt
    assert "<｜Assistant｜>a<｜end▁of▁sentence｜>" in text


def test_v41_results_find_the_last_message_that_made_calls() -> None:
    messages = [calls("b", "a"), AssistantMessage("x"), ToolMessage("A", "a"), ToolMessage("B", "b")]
    conversation = Conversation(messages, thinking_mode=False)
    text = DeepseekV41Encoding().render_conversation(conversation).prompt
    assert text.index("<tool_result>B") < text.index("<tool_result>A")
