"""Another engine over HTTP behind the same `EngineProtocol`: a vLLM or SGLang server, or one that speaks as they do.

Prompts go as our own token ids (`POST /v1/completions` takes them), constraints in the server's own fields, and every
answer is checked here again before it counts. So a job that outgrows one machine moves to a cluster by changing the
engine. Answers come whole: a streamed reply over a remote engine arrives in one piece.

Fields: vLLM `structured_outputs` (json, regex, grammar) and `return_token_ids`; SGLang `json_schema`, `regex`, `ebnf`
on its completions endpoint (both as documented by their OpenAI-compatible servers).
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import jsonschema
import jsonschema.validators
from offseek.engine.request import FinishReason, GenerationRequest, RequestOutput, TokenLogprobs
from offseek.grammars.ebnf import known_special_tokens
from offseek.sdk.errors import ClientError

Flavor = Literal["vllm", "sglang"]
_RETRY_STATUS = frozenset({429, 500, 502, 503, 504})


class RemoteError(ClientError):
    """The server refused a request or cannot be reached. `status` is its HTTP status, None without an answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ConstraintViolationError(RemoteError):
    """The server's answer does not satisfy the constraint that was sent with the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteGrammar:
    """A constraint by its source. Stands where a CompiledGrammar stands in a GenerationRequest.

    A whole turn (reasoning before the constraint, tool calls) has no field on these servers. It has `matches_ids`
    instead of a source: it is not sent, and answers that violate it are asked for again.
    """

    kind: Literal["json_schema", "regex", "ebnf", "turn"]
    source: Any = None  # the schema, or the text
    matches: Callable[[str], bool] = lambda text: True  # the local check
    matches_ids: Callable[[Sequence[int]], bool] | None = None

    def fields(self, flavor: Flavor) -> dict[str, Any]:
        """The constraint in the server's own fields."""
        if self.kind == "turn":
            return {"skip_special_tokens": False}  # the tags are part of what is checked
        if flavor == "vllm":
            name = {"json_schema": "json", "regex": "regex", "ebnf": "grammar"}[self.kind]
            return {"structured_outputs": {name: self.source}}
        source = json.dumps(self.source) if self.kind == "json_schema" else self.source
        return {self.kind: source}


class RemoteCompiler:
    """Makes RemoteGrammars; the local grammars do the checking, so that both sides agree on what was asked.

    local: a `GrammarCompiler` over the model's vocabulary: a constraint that we cannot check is refused here.
    encode, decode: text ↔ token ids, for the local checks.
    """

    def __init__(
        self, local: Any, encode: Callable[[str], Sequence[int]], decode: Callable[[Sequence[int]], str]
    ) -> None:
        self.local = local
        self._encode, self._decode = encode, decode

    def compile_json_schema(self, schema: Mapping[str, Any], **layout: Any) -> RemoteGrammar:
        self.local.compile_json_schema(schema, **layout)  # raises for what is not supported, as the local engine would
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)

        def matches(text: str) -> bool:  # by value: the server lays out JSON as it likes
            try:
                return bool(validator.is_valid(json.loads(text)))
            except (ValueError, RecursionError):
                return False

        return RemoteGrammar(kind="json_schema", source=dict(schema), matches=matches)

    def compile_regex(self, pattern: str) -> RemoteGrammar:
        return RemoteGrammar(kind="regex", source=pattern, matches=self._matcher(self.local.compile_regex(pattern)))

    def compile_ebnf(self, source: str, **options: Any) -> RemoteGrammar:
        compiled = self.local.compile_ebnf(source, **options)
        return RemoteGrammar(kind="ebnf", source=source, matches=self._matcher(compiled))

    def compile_turn(
        self, kind: str | None, schema: str = "", *, stage: str | None = None, **markup: Any
    ) -> RemoteGrammar:
        """A turn without reasoning and tools is a plain constraint; any other is checked here alone."""
        reasons = stage in ("reasoning_start", "reasoning_continuation")
        if kind == "json" and not reasons:
            return self.compile_json_schema(json.loads(schema) if schema else {"type": "object"})
        if kind == "regex" and not reasons:
            return self.compile_regex(schema)
        if kind == "ebnf" and not reasons:
            return self.compile_ebnf(schema)
        turn = self.local.compile_turn(kind, schema, stage=stage, **markup)
        if kind != "json":
            return RemoteGrammar(kind="turn", matches_ids=lambda ids: _accepts(turn, ids))
        value = self.compile_json_schema(json.loads(schema) if schema else {"type": "object"})
        tokens = known_special_tokens(self.local.vocabulary, markup.get("special_tokens"))
        think_end = tokens["</think>"]

        def matches_ids(ids: Sequence[int]) -> bool:  # by value: the server lays out JSON as it likes
            return think_end in ids and value.matches(self._decode(ids[list(ids).index(think_end) + 1 :]))

        return RemoteGrammar(kind="turn", matches_ids=matches_ids)

    def _matcher(self, compiled: Any) -> Callable[[str], bool]:
        def matches(text: str) -> bool:
            return _accepts(compiled, self._encode(text))

        return matches


def _accepts(compiled: Any, ids: Sequence[int]) -> bool:
    matcher = compiled.matcher()
    return all(matcher.accept_token(token) for token in ids) and matcher.is_accepting()


class RemoteEngine:
    """An `EngineProtocol` over a server.

    base_url: up to and with `/v1`. model: the server's name of it. encode, decode: the model's tokenizer, which must be
    the server's too. context_length: of the server. max_in_flight: requests at once. retries: of passing failures
    (429, 5xx, a broken connection), with doubling waits from `backoff_s`. attempts: sampled answers asked for until one
    satisfies a constraint that could not be sent.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        encode: Callable[[str], Sequence[int]],
        decode: Callable[[Sequence[int]], str],
        context_length: int,
        flavor: Flavor = "vllm",
        api_key: str | None = None,
        max_in_flight: int = 64,
        timeout_s: float = 600.0,
        retries: int = 4,
        backoff_s: float = 0.5,
        attempts: int = 3,
        transport: Any = None,
    ) -> None:
        self.model = model
        self.context_length = context_length
        self.flavor = flavor
        self.retries = retries
        self.backoff_s = backoff_s
        self.attempts = attempts
        self._encode, self._decode = encode, decode
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        limits = httpx.Limits(max_connections=max_in_flight)
        self._http = httpx.Client(
            base_url=base_url, headers=headers, timeout=timeout_s, limits=limits, transport=transport
        )
        self._pool = ThreadPoolExecutor(max_in_flight, thread_name_prefix="offseek-remote")
        self._done: queue.SimpleQueue[RequestOutput] = queue.SimpleQueue()
        self._live: set[str] = set()
        self._stop = threading.Event()

    def add_request(self, request: GenerationRequest) -> None:
        """Send a request. Raises RemoteError for one longer than the context."""
        if len(request.prompt_token_ids) >= self.context_length:
            message = f"the prompt has {len(request.prompt_token_ids)} tokens, the context {self.context_length}"
            raise RemoteError(message, status=400)
        self._live.add(request.request_id)
        self._pool.submit(self._run, request)

    def cancel(self, request_id: str) -> None:
        """Forget a request: its last output comes now, and what the server still sends is dropped."""
        if request_id in self._live:
            self._live.discard(request_id)
            self._done.put(RequestOutput(request_id=request_id, finish_reason="cancelled"))

    def has_work(self) -> bool:
        return bool(self._live) or not self._done.empty()

    def step(self) -> list[RequestOutput]:
        """Wait a moment for finished requests; return those there are."""
        outputs: list[RequestOutput] = []
        try:
            outputs.append(self._done.get(timeout=0.05))
            while True:
                outputs.append(self._done.get_nowait())
        except queue.Empty:
            pass
        kept = [o for o in outputs if o.request_id in self._live or o.finish_reason == "cancelled"]
        self._live.difference_update(o.request_id for o in kept)
        return kept

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._http.close()

    def _run(self, request: GenerationRequest) -> None:
        try:
            output = self._answer(request)
        except Exception as exc:  # belongs to this request alone
            output = RequestOutput(request_id=request.request_id, finish_reason="error", error=exc)
        self._done.put(output)

    def _answer(self, request: GenerationRequest) -> RequestOutput:
        body = self._body(request)
        unsent = getattr(request.grammar, "matches_ids", None) is not None
        attempts = self.attempts if unsent and request.sampling.temperature > 0 else 1
        attempt = 0
        while True:
            try:
                return self._read(request, self._post("completions", body))
            except ConstraintViolationError:
                attempt += 1
                if attempt >= attempts:
                    raise
            if request.sampling.seed is not None:
                body["seed"] = request.sampling.seed + attempt

    def _body(self, request: GenerationRequest) -> dict[str, Any]:
        sampling = request.sampling
        room = self.context_length - len(request.prompt_token_ids)
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(request.prompt_token_ids),
            "max_tokens": min(room, sampling.max_tokens) if sampling.max_tokens is not None else room,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
        }
        optional = {
            "seed": sampling.seed,
            "stop": list(sampling.stop) or None,
            "stop_token_ids": list(sampling.stop_token_ids) or None,
            "top_k": sampling.top_k or None,
            "min_p": sampling.min_p or None,
            "repetition_penalty": sampling.repetition_penalty if sampling.repetition_penalty != 1.0 else None,
            "ignore_eos": sampling.ignore_eos or None,
            "logprobs": sampling.logprobs,
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        if self.flavor == "vllm":
            body["return_token_ids"] = True
        if request.grammar is not None:
            if not isinstance(request.grammar, RemoteGrammar):
                raise RemoteError("this constraint has no form that can be sent to a server", status=400)
            body |= request.grammar.fields(self.flavor)
        return body

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        wait_s = self.backoff_s
        for attempt in range(self.retries + 1):
            try:
                response = self._http.post(path, json=body)
            except httpx.HTTPError as exc:
                failure = RemoteError(f"{type(exc).__name__}: {exc}")
            else:
                if response.status_code == 200:
                    found: dict[str, Any] = response.json()
                    return found
                failure = RemoteError(
                    f"the server answered {response.status_code}: {response.text[:500]}", status=response.status_code
                )
                if response.status_code not in _RETRY_STATUS:
                    raise failure
            if attempt == self.retries or self._stop.wait(wait_s):
                raise failure
            wait_s *= 2
        raise AssertionError("unreachable")

    def _read(self, request: GenerationRequest, answer: dict[str, Any]) -> RequestOutput:
        try:
            choice = answer["choices"][0]
            text: str = choice["text"]
            reason: FinishReason = "length" if choice["finish_reason"] == "length" else "stop"
            usage = answer.get("usage") or {}
        except (KeyError, IndexError, TypeError) as exc:
            raise RemoteError(f"the server's answer has no completion: {str(answer)[:300]}") from exc
        ids = choice.get("token_ids")
        grammar: Any = request.grammar
        matches_ids: Callable[[Any], bool] | None = getattr(
            grammar, "matches_ids", None
        )  # its text holds special tokens
        if ids is None or (matches_ids is None and self._decode(ids) != text):
            ids = self._encode(text)
        elif reason == "stop" and ids and not self._decode(ids[-1:]):
            ids = ids[:-1]  # the server counts EOS among its ids
        valid = grammar is None or (grammar.matches(text) if matches_ids is None else matches_ids(ids))
        if reason == "stop" and not valid:
            message = f"the server's answer violates the constraint: {text[:200]!r}"
            raise ConstraintViolationError(message, status=502)
        details = usage.get("prompt_tokens_details") or {}
        return RequestOutput(
            request_id=request.request_id,
            token_ids=tuple(ids),
            logprobs=_logprobs(choice.get("logprobs"), ids) if request.sampling.logprobs is not None else (),
            finish_reason=reason,
            stop_sequence=choice["stop_reason"] if isinstance(choice.get("stop_reason"), str) else None,
            prompt_tokens=usage.get("prompt_tokens") or len(request.prompt_token_ids),
            prompt_cache_hit_tokens=details.get("cached_tokens") or 0,
        )


def _logprobs(layout: Any, ids: Sequence[int]) -> tuple[TokenLogprobs, ...]:
    """Log probabilities of the chosen ids from the legacy layout; the server's values stand for both kinds."""
    values = (layout or {}).get("token_logprobs") or []
    if len(values) < len(ids):
        raise RemoteError("the server sent no log probabilities for some tokens")
    return tuple(
        TokenLogprobs(token_id=i, raw=v if v is not None else 0.0, masked=v if v is not None else 0.0)
        for i, v in zip(ids, values, strict=False)
    )


def served_model(base_url: str, *, api_key: str | None = None) -> str:
    """The name of the first model of a server. Raises RemoteError when it cannot be asked."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        response = httpx.get(base_url.rstrip("/") + "/models", headers=headers, timeout=30)
        response.raise_for_status()
        name: str = response.json()["data"][0]["id"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as exc:
        raise RemoteError(f"cannot ask {base_url} for its models: {exc}") from exc
    return name
