"""The official DeepSeek API (or a server that speaks as it does) as a remote engine.

Chat requests go out as text and answers come back as text, spelled with V4 tokens again (`dialects.official`). The API
knows JSON mode and strict tools, no schema, pattern or grammar: every constrained answer is checked here, and one that
fails is sent back with the reason, so that the model can repair it. Answers come whole, as from other remote engines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema
import jsonschema.exceptions
import jsonschema.validators
from offseek import recipe
from offseek.engine.request import FinishReason, GenerationRequest, RequestOutput, TokenLogprobs
from offseek.sdk.dialects.official import ChatPrompt, answer_ids, schema_fields
from offseek.sdk.remote import ConstraintViolationError, RemoteEngine, RemoteError

_FIM = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)
_PASSING = frozenset({"insufficient_system_resource", "aborted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialConstraint:
    """What an answer must be. Stands where a CompiledGrammar stands in a GenerationRequest.

    schema: of the JSON answer. tools: name → schema of its arguments; then the answer is text or calls, with
    `required` calls. Exactly one of the two is set.
    """

    schema: Any = None
    tools: Mapping[str, Any] | None = None
    required: bool = False

    def problem(self, message: dict[str, Any]) -> str | None:
        """What is wrong with an answer, None if nothing. A fence around JSON is taken off in place."""
        if self.tools is not None:
            return self._calls_problem(message, self.tools)
        text = message.get("content") or ""
        if fenced := _FENCE.fullmatch(text):
            text = message["content"] = fenced[1]
        return _json_problem(text, self.schema, "the answer")

    def _calls_problem(self, message: dict[str, Any], tools: Mapping[str, Any]) -> str | None:
        calls = message.get("tool_calls") or []
        if self.required and not calls:
            return f"a tool must be called ({', '.join(tools)})"
        for call in calls:
            name = call["function"]["name"]
            if name not in tools:
                return f"there is no tool {name!r}; the tools are {', '.join(tools)}"
            schema = {"allOf": [{"type": "object"}, tools[name]]} if "$ref" not in tools[name] else tools[name]
            if problem := _json_problem(call["function"]["arguments"] or "{}", schema, f"the arguments of {name}"):
                return problem
        return None


def _json_problem(text: str, schema: Any, what: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        return f"{what} is not JSON: {exc}"
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    return None if error is None else f"{what} does not satisfy the schema at {error.json_path}: {error.message[:300]}"


class OfficialCompiler:
    """Makes OfficialConstraints. local: a `GrammarCompiler`; what it cannot enforce is refused here too."""

    def __init__(self, local: Any) -> None:
        self.local = local

    def compile_json_schema(self, schema: Any, **layout: Any) -> OfficialConstraint:
        self.local.compile_json_schema(schema, **layout)
        return OfficialConstraint(schema=schema)

    def compile_turn(self, kind: str | None, schema: str = "", **markup: Any) -> OfficialConstraint:
        if kind == "json":
            return self.compile_json_schema(json.loads(schema) if schema else {"type": "object"})
        if kind in ("tool_call", "tool_call_required"):
            self.local.compile_turn(kind, schema, **markup)
            functions = [tool["function"] for tool in json.loads(schema)]
            tools = {function["name"]: function["parameters"] for function in functions}
            return OfficialConstraint(tools=tools, required=kind == "tool_call_required")
        raise RemoteError(f"the official API has no field for a {kind} constraint", status=400)


class OfficialEngine(RemoteEngine):
    """An `EngineProtocol` over the official API.

    base_url: without `/v1` or `/beta`. model: the API's name of it. tokenizer: V4's. attempts: answers asked for until
    one satisfies its constraint. The other settings are those of RemoteEngine.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        tokenizer: recipe.Tokenizer,
        v41: bool = False,
        attempts: int = 3,
        context_length: int = 2**20,
        **settings: Any,
    ) -> None:
        root = re.sub(r"/(v1|beta)?/?$", "", base_url)
        super().__init__(
            root,
            model,
            encode=tokenizer.encode_ordinary,
            decode=lambda ids: tokenizer.decode(list(ids)),
            context_length=context_length,
            attempts=attempts,
            **settings,
        )
        self.v41 = v41
        self._tokenizer = tokenizer
        self._special = {token: text for text, token in tokenizer.added_tokens.items()}

    def _answer(self, request: GenerationRequest) -> RequestOutput:
        prompt: Any = request.prompt_token_ids
        if not isinstance(prompt, ChatPrompt):
            return self._read(request, self._post("beta/completions", self._text_body(request)))
        constraint: Any = request.grammar
        body = self._chat_body(request, prompt)
        if isinstance(constraint, OfficialConstraint) and constraint.tools is None and "response_format" not in body:
            body |= schema_fields(body["messages"], constraint.schema)
        path = "beta/chat/completions" if prompt.beta else "chat/completions"
        problem = ""
        for _ in range(self.attempts):
            answer = self._post(path, body)
            message, reason = _choice(answer)
            if constraint is None or reason == "length":
                return self._output(request, prompt, answer, message, reason)
            found = constraint.problem(message)
            if found is None:
                return self._output(request, prompt, answer, message, reason)
            problem = found
            body = body | {"messages": [*body["messages"], *_feedback(message, problem)]}
        raise ConstraintViolationError(f"the answer was wrong {self.attempts} times, at last: {problem}", status=502)

    def _chat_body(self, request: GenerationRequest, prompt: ChatPrompt) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {"model": self.model, **prompt.fields, "stream": False}
        body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if sampling.max_tokens is not None:
            body["max_tokens"] = sampling.max_tokens
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": sampling.logprobs}
        return body

    def _text_body(self, request: GenerationRequest) -> dict[str, Any]:
        """A text completion, from the ids of `ChatModel.encode_text`: BOS and a prompt, or BOS begin … hole … end."""
        ids = list(request.prompt_token_ids)
        sampling = request.sampling
        parts: list[list[int]] = [[]]
        marks: list[str] = []
        for token in ids[1:]:
            name = self._special.get(token)
            if name in _FIM:
                marks.append(name)
                parts.append([])
            else:
                parts[-1].append(token)
        texts = [self._decode(part) for part in parts]
        body: dict[str, Any] = {"model": self.model, "temperature": sampling.temperature, "top_p": sampling.top_p}
        body |= {"prompt": texts[1], "suffix": texts[2]} if tuple(marks) == _FIM else {"prompt": "".join(texts)}
        if sampling.max_tokens is not None:
            body["max_tokens"] = sampling.max_tokens
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.logprobs is not None:
            body["logprobs"] = sampling.logprobs
        return body

    def _output(
        self,
        request: GenerationRequest,
        prompt: ChatPrompt,
        answer: dict[str, Any],
        message: dict[str, Any],
        reason: FinishReason,
    ) -> RequestOutput:
        usage = answer.get("usage") or {}
        try:
            ids = answer_ids(self._tokenizer, prompt, message, v41=self.v41)
        except (ValueError, AttributeError) as exc:
            if reason != "length":
                raise RemoteError(f"the server's tool call cannot be read: {exc}", status=502) from exc
            ids = answer_ids(self._tokenizer, prompt, message | {"tool_calls": None}, v41=self.v41)  # cut: no call
        logprobs: tuple[TokenLogprobs, ...] = ()
        if request.sampling.logprobs is not None:
            logprobs = self._logprobs(answer["choices"][0].get("logprobs") or {}, ids)
        return RequestOutput(
            request_id=request.request_id,
            token_ids=tuple(ids),
            logprobs=logprobs,
            finish_reason=reason,
            prompt_tokens=usage.get("prompt_tokens") or len(prompt),
            prompt_cache_hit_tokens=usage.get("prompt_cache_hit_tokens") or 0,
        )

    def _logprobs(self, found: Mapping[str, Any], ids: Sequence[int]) -> tuple[TokenLogprobs, ...]:
        """The server's values for our ids, in order; ids it says nothing of (tags, calls) have probability one."""
        entries = [*(found.get("reasoning_content") or ()), *(found.get("content") or ())]
        values: list[TokenLogprobs] = []
        place = 0
        for token in ids:
            if token not in self._special and place < len(entries):
                entry = entries[place]
                if bytes(entry.get("bytes") or b"") == self._tokenizer.token_bytes(token):
                    value = float(entry["logprob"])
                    values.append(TokenLogprobs(token_id=token, raw=value, masked=value))
                    place += 1
                    continue
            values.append(TokenLogprobs(token_id=token, raw=0.0, masked=0.0))
        if place < len(entries):
            raise RemoteError("the server's log probabilities are of other tokens than its text", status=502)
        return tuple(values)


def _choice(answer: dict[str, Any]) -> tuple[dict[str, Any], FinishReason]:
    """The message of an answer and how it ended. Raises RemoteError when there is none."""
    try:
        choice = answer["choices"][0]
        message: dict[str, Any] = dict(choice["message"])
        reason: str = choice["finish_reason"]
    except (LookupError, TypeError, ValueError) as exc:
        raise RemoteError(f"the server's answer has no message: {str(answer)[:300]}", status=502) from exc
    if reason in _PASSING:
        raise RemoteError(f"the server gave up ({reason})", status=503)
    if reason == "content_filter":
        raise RemoteError("the server's content filter withheld the answer", status=400)
    return message, "length" if reason == "length" else "stop"


def _feedback(message: dict[str, Any], problem: str) -> list[dict[str, Any]]:
    """The wrong answer and what is wrong with it, as further messages."""
    said = {key: message[key] for key in ("content", "reasoning_content", "tool_calls") if message.get(key)}
    said = {"role": "assistant", "content": ""} | said
    calls = message.get("tool_calls") or []
    if calls:
        return [said, *({"role": "tool", "tool_call_id": call["id"], "content": f"Error: {problem}"} for call in calls)]
    return [said, {"role": "user", "content": f"That cannot be used: {problem}. Answer again, with nothing else."}]
