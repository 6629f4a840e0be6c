"""Compare the two renderers on conversations built by hand: any order of messages, as no request would give it.

    python tests/property/recipe/conversation_differential.py --cases 20000 --seed 1

A case is a plain description, built in `offseek.recipe` and in the installed `deepseek_recipe`; prompt, special ranges,
image sources and token ids are compared for both model versions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import random
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "conformance" / "recipe")]

import replay  # noqa: E402
import request_maker  # noqa: E402

ROLES = ["system", "user", "user", "assistant", "calls", "calls", "tool", "tool", "tool", "latest_reminder"]
IDS = ["a", "b", "c", "é", "a", ""]
SPELLINGS = [
    {},
    {},
    {"user": "<U>", "image": "[img]", "dsml": "DSML"},
    {"bos": "", "eos": "</s>", "thinking_end": ""},
]


class ConversationMaker(request_maker.Maker):
    """Descriptions of conversations."""

    def content(self, has_images: bool) -> dict[str, Any]:
        out: dict[str, Any] = {"content": self.text()}
        if has_images and self.maybe(0.15):
            token = self.pick(["<｜image｜>", "<｜image｜>", "[img]"])
            pieces = [self.text() for _ in range(self.rng.randint(1, 3))]
            out = {"content": token.join(pieces), "images": self.rng.randint(0, 3), "image_token": token}
        return out

    def tools(self, prefix: str) -> list[dict[str, Any]]:
        return [
            {
                "name": f"{prefix}{i}",
                "description": self.pick([None, self.text()]),
                "parameters": self.pick([None, self.json(), self.schema()]),
                "strict": self.pick([None, True, False]),
                "defer_loading": self.maybe(0.3),
            }
            for i in range(self.rng.randint(0, 2))
        ]

    def message(self) -> dict[str, Any]:
        role = self.pick(ROLES)
        if role == "latest_reminder":
            return {"role": role, "content": self.text()}
        if role in ("assistant", "calls"):
            message = {"role": "assistant", "content": self.text(), "reasoning": self.pick([None, self.text(), "r"])}
            message["prefix"] = self.maybe(0.1)
            if role == "calls":
                ids = [self.pick(IDS) for _ in range(self.rng.randint(0, 4))]
                message["calls"] = [(i, self.pick(["g", "", "<x>"]), self.arguments()) for i in ids]
            return message
        message = {"role": role, **self.content(True)}
        if role == "tool":
            message["id"] = self.pick([None, *IDS, "zz"])
        if role == "system" and self.maybe(0.3):
            message["tools"] = self.tools("s")
        return message

    def conversation(self) -> dict[str, Any]:
        out: dict[str, Any] = {"messages": [self.message() for _ in range(self.rng.randint(0, 9))]}
        out["thinking_mode"] = self.maybe()
        out["tools"] = self.tools("t") if self.maybe() else []
        out["tool_choice"] = self.pick(["auto", "auto", "none", "required"])
        out["reasoning_effort"] = self.pick([None, "low", "high", "xhigh", "max"])
        out["format"] = self.pick([{}, {}, {"response_format": "json_object"}, {"response_schema": self.schema()},
                                   {"response_regex": "a+"}])  # fmt: skip
        out["spellings"] = self.pick(SPELLINGS)
        return out


def build(module: Any, case: dict[str, Any]) -> Any:
    """The conversation in the classes of `module`."""

    def tools(described: list[dict[str, Any]]) -> list[Any]:
        return [module.ToolDefinition(**tool) for tool in described]

    def message(m: dict[str, Any]) -> Any:
        if m["role"] == "latest_reminder":
            return module.LatestReminderMessage(m["content"])
        if m["role"] == "assistant":
            calls = None if "calls" not in m else [module.ToolCall(*call) for call in m["calls"]]
            return module.AssistantMessage(m["content"], m["reasoning"], calls, m["prefix"])
        images = [module.UrlImageSource(f"https://a/{i}", path=f"p{i}") for i in range(m.get("images", 0))]
        token = {"image_token": m["image_token"]} if "image_token" in m else {}
        if m["role"] == "user":
            return module.UserMessage(m["content"], images, **token)
        if m["role"] == "tool":
            return module.ToolMessage(m["content"], m["id"], images, **token)
        return module.SystemMessage(m["content"], images, tools(m["tools"]) if "tools" in m else None, **token)

    return module.Conversation(
        [message(m) for m in case["messages"]],
        thinking_mode=case["thinking_mode"],
        tools=tools(case["tools"]),
        tool_choice=case["tool_choice"],
        reasoning_effort=case["reasoning_effort"],
        **case["format"],
    )


class Side:
    """One module's answers."""

    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(name)
        self.tokenizer = self.module.Tokenizer.from_file(str(replay.default_tokenizer()))

    def answer(self, case: dict[str, Any]) -> list[Any]:
        conversation = build(self.module, case)
        special = self.module.SpecialTokens(**case["spellings"])
        out: list[Any] = []
        for cls in (self.module.DeepseekV4Encoding, self.module.DeepseekV41Encoding):
            rendered = cls().with_special_tokens(special).render_conversation(conversation)
            sources = [(s.kind, s.url, s.path) for s in rendered.image_sources]
            out.append((rendered.prompt, [tuple(r) for r in rendered.special_ranges], sources))
        try:
            encoding = self.module.DeepseekV4Encoding().with_tokenizer(self.tokenizer)
            out.append(list(encoding.with_special_tokens(special).encode(conversation)))
        except RuntimeError as error:
            out.append(str(error))
        return out


def excerpt(one: Any, other: Any) -> str:
    """The stretch of `one` around the first place where it differs from `other`."""
    a, b = repr(one), repr(other)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    return a[max(0, at - 150) : at + 150]


def make_case(index: int, seed: int) -> dict[str, Any]:
    return ConversationMaker(random.Random(f"conversation {seed}:{index}")).conversation()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    reference, ours = Side("deepseek_recipe"), Side("offseek.recipe")
    differences = 0
    for index in range(args.cases):
        case = make_case(index, args.seed)
        want, got = reference.answer(case), ours.answer(case)
        if want != got:
            differences += 1
            if differences <= args.show:
                print(f"--- {index}\n    {json.dumps(case, ensure_ascii=False)}")
                for version, a, b in zip(("V4", "V4.1", "ids"), want, got, strict=True):
                    if a != b:
                        print(f"  {version}\n    want {excerpt(a, b)}\n    got  {excerpt(b, a)}")
    print(f"{args.cases} conversations, {differences} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
