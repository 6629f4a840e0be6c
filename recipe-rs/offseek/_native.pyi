"""Types of the compiled extension `offseek._native` (built from `recipe-rs/python`)."""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Buffer

# ---- tokenizer (recipe-rs/chat/src/tokenizer) ------------------------------------------------------------

@final
class Tokenizer:
    """A byte-level BPE tokenizer read from a `tokenizer.json`; immutable, shared freely between threads.

    Ids are those of Hugging Face `tokenizers` for every text. What a file asks for beyond byte-level BPE
    (other models, normalizers, pre-tokenizers) is refused by name when it is loaded (`TokenizerError`, a RuntimeError).
    Texts with lone surrogates raise UnicodeEncodeError.
    """

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Tokenizer:
        """Load a `tokenizer.json` file."""
    @staticmethod
    def from_str(text: str) -> Tokenizer:
        """Load the contents of a `tokenizer.json` file."""
    @staticmethod
    def from_bytes(data: bytes) -> Tokenizer:
        """Load the UTF-8 contents of a `tokenizer.json` file."""
    @staticmethod
    def from_pretrained(identifier: str, revision: str | None = None, token: str | None = None) -> Tokenizer:
        """Load `tokenizer.json` of a Hugging Face repository through `huggingface_hub` (and its cache).

        Raises ImportError without that package (extra `engine`), TokenizerError or RuntimeError when the file cannot be had.
        """
    def encode(self, text: str) -> list[int]:
        """Encode with the full vocabulary: spellings of added tokens become those tokens.

        Nothing is added in front or behind. Prompts are not encoded this way but by the encodings' `encode`,
        where text can never become a special token.
        """
    def encode_ordinary(self, text: str) -> list[int]:
        """Encode without the added vocabulary: every character is plain text."""
    def encode_into(self, text: str, buffer: Buffer, *, ordinary: bool = False) -> int:
        """Encode into the front of a writable C-contiguous uint32 buffer (numpy, `array("I")`); return the count.

        Raises BufferError, with nothing written, when the buffer is too small or of another kind.
        """
    def encode_batch(
        self, texts: Sequence[str], *, ordinary: bool = False, num_threads: int | None = None
    ) -> list[list[int]]:
        """Encode many texts, in order, on `num_threads` threads (default: all cores) without the GIL.

        Raises ValueError for `num_threads=0`.
        """
    def pre_tokenize(self, text: str) -> list[str]:
        """The words that BPE works on, in order; together they are `text` (the added vocabulary plays no part)."""
    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids; invalid UTF-8 becomes U+FFFD per maximal subpart, ids outside the vocabulary nothing.

        An added token stands for its spelling and separates the byte runs around it.
        """
    def token_bytes(self, id: int) -> bytes | None:
        """Bytes of a token (an added token: its spelling in UTF-8); None outside the vocabulary."""
    def special_id(self, spelling: str) -> int | None:
        """Id of the added token with exactly this spelling."""
    def is_added(self, id: int) -> bool:
        """Whether the id is one of the file's added tokens."""
    @property
    def added_tokens(self) -> dict[str, int]:
        """Spelling to id of every added token, by ascending id."""
    @property
    def vocab_size(self) -> int:
        """One more than the largest token id, added tokens included."""

# ---- incremental encoding (recipe-rs/chat/src/tokenizer/incremental.rs) ---------------------------------

@final
class IncrementalEncoder:
    """Token ids of a conversation that grows, encoding only what changed since the last call.

    The ids are always those of `encoding.encode`: stretches of the prompt between special tokens are compared with the
    last prompt's by their text, so a change anywhere, also in an earlier message, is seen. One encoder serves one
    conversation at a time best; any may be given, from any thread.

    Raises RuntimeError when `encoding` has no tokenizer.
    """

    def __new__(cls, encoding: DeepseekV4Encoding | DeepseekV41Encoding) -> IncrementalEncoder: ...
    def encode(self, conversation: Conversation) -> list[int]:
        """Ids of the whole prompt. Raises EncodeError as the encoding's `encode` does."""
    def encode_into(self, conversation: Conversation, buffer: Buffer) -> int:
        """Write the ids to the front of a writable C-contiguous uint32 buffer; return the count.

        Raises BufferError, with nothing written, when the buffer is too small or of another kind.
        """
    @property
    def num_reused_ids(self) -> int:
        """How many ids of the last prompt came from the one before."""
    def clear(self) -> None:
        """Forget the remembered prompt."""

# ---- images (recipe-rs/chat/src/image) ---------------------------------------------------------------------

def fit_image_size(
    width: int, height: int, *, low_detail_max_dimension_px: int | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Sizes in px, each (width, height): after the low-detail reduction (if a long side is given), and the target.

    Raises CalcResizeError when fitting does not converge.
    """

def image_token_adjustment(sizes: Sequence[tuple[int, int]]) -> int:
    """Model tokens of images of these (width, height) sizes, beyond one placeholder each.

    Raises CalcResizeError when fitting does not converge.
    """

def decode_data_url(url: str, max_bytes: int) -> bytes:
    """Bytes of an image in a data URL. Raises ImageError (without a location in the text)."""

def read_image_header(data: bytes) -> tuple[Literal["png", "jpeg", "gif", "webp"], int, int, bool]:
    """Format, width and height in px, and whether it is an animated WebP, from the header alone.

    Raises ImageError (without a location in the text).
    """

def check_image_body(data: bytes) -> None:
    """Check that pixel data is not cut and, for PNG, has its checksums. Raises ImageError (without a location in the text)."""

# ---- special tokens (recipe-rs/chat/src/special.rs) ------------------------------------------------------

@final
class SpecialToken:
    """A kind of special token."""

    Bos: SpecialToken
    Eos: SpecialToken
    ThinkingStart: SpecialToken
    ThinkingEnd: SpecialToken
    System: SpecialToken
    User: SpecialToken
    Assistant: SpecialToken
    LatestReminder: SpecialToken
    Dsml: SpecialToken
    Image: SpecialToken
    Ref: SpecialToken
    RefEnd: SpecialToken
    Box: SpecialToken
    BoxEnd: SpecialToken
    Point: SpecialToken
    PointEnd: SpecialToken
    Polygon: SpecialToken
    PolygonEnd: SpecialToken

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def default_str(self) -> str:
        """The spelling used unless a mapping replaces it."""

@final
class SpecialTokens:
    """A spelling for every `SpecialToken`; those not given keep their default."""

    def __new__(
        cls,
        *,
        bos: str | None = None,
        eos: str | None = None,
        thinking_start: str | None = None,
        thinking_end: str | None = None,
        system: str | None = None,
        user: str | None = None,
        assistant: str | None = None,
        latest_reminder: str | None = None,
        dsml: str | None = None,
        image: str | None = None,
        ref: str | None = None,
        ref_end: str | None = None,
        box: str | None = None,
        box_end: str | None = None,
        point: str | None = None,
        point_end: str | None = None,
        polygon: str | None = None,
        polygon_end: str | None = None,
    ) -> SpecialTokens: ...
    def token(self, token: SpecialToken) -> str:
        """The spelling of `token` in this mapping."""

# ---- requests and conversations (recipe-rs/chat/src/{request,conversation,render,encode}) -----------------

__version__: str
IMAGE_SPECIAL_TOKEN_ID: int

_ToolChoice: TypeAlias = Literal["auto", "none", "required"]
_ReasoningEffort: TypeAlias = Literal["low", "high", "xhigh", "max"]
_ResponseFormat: TypeAlias = Literal["text", "json_object", "json_schema", "regex"]
_ImageDetail: TypeAlias = Literal["low", "high", "original", "auto"]
_Role: TypeAlias = Literal["system", "user", "assistant", "tool", "latest_reminder"]
_ImageSourceKind: TypeAlias = Literal["data_url", "url", "bytes"]
_RequestBody: TypeAlias = bytes | str | dict[str, Any]

@final
class ModelVersion:
    """The model version that a conversation targets; selects the prompt encoding."""

    DeepseekV4Pro: ModelVersion
    """Rendered by `DeepseekV4Encoding`."""
    DeepseekV41Flash: ModelVersion
    """Rendered by `DeepseekV41Encoding`."""

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class WebSearchBehavior:
    """What conversion does with web-search tools, choices and blocks."""

    Drop: WebSearchBehavior
    """Leave them out."""
    Reject: WebSearchBehavior
    """Refuse the request."""

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ReasoningContentBehavior:
    """What conversion does, in thinking mode, with assistant history that lacks reasoning."""

    FillEmpty: ReasoningContentBehavior
    """Read it as empty."""
    Reject: ReasoningContentBehavior
    """Refuse the request where the reasoning has to be sent back."""

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ConversionOptions:
    """Options of request conversion. Immutable: every `with_*` gives a changed copy."""

    def __new__(
        cls,
        *,
        default_thinking_mode: bool = True,
        reasoning_content_behavior: ReasoningContentBehavior = ...,
        responses_web_search: WebSearchBehavior = ...,
        messages_web_search: WebSearchBehavior = ...,
        thinking_max_tokens_upper_bound: int = ...,
        non_thinking_max_tokens_upper_bound: int = ...,
    ) -> ConversionOptions: ...
    @property
    def default_thinking_mode(self) -> bool:
        """Mode of requests that say nothing about thinking."""
    @property
    def model_versions_by_name(self) -> dict[str, ModelVersion]:
        """Accepted model names, as a copy; others are refused."""
    @property
    def thinking_max_tokens_upper_bound(self) -> int:
        """Largest output limit in thinking mode. Chat and Responses refuse a larger one, Messages lowers it."""
    @property
    def non_thinking_max_tokens_upper_bound(self) -> int:
        """The same outside thinking mode."""
    @property
    def reasoning_content_behavior(self) -> ReasoningContentBehavior: ...
    @property
    def responses_web_search(self) -> WebSearchBehavior: ...
    @property
    def messages_web_search(self) -> WebSearchBehavior: ...
    @property
    def special_tokens(self) -> SpecialTokens:
        """Spellings handed on to `ParsingOptions`, and of image placeholders in contents."""
    def with_default_thinking_mode(self, default_thinking_mode: bool) -> ConversionOptions: ...
    def with_reasoning_content_behavior(self, reasoning_content_behavior: ReasoningContentBehavior) -> ConversionOptions: ...
    def with_responses_web_search(self, responses_web_search: WebSearchBehavior) -> ConversionOptions: ...
    def with_messages_web_search(self, messages_web_search: WebSearchBehavior) -> ConversionOptions: ...
    def with_special_tokens(self, special_tokens: SpecialTokens) -> ConversionOptions: ...
    def with_model_alias(self, model: str, model_version: ModelVersion) -> ConversionOptions:
        """Accept one more name (case-sensitive), or change what a name stands for."""
    def with_model_versions_by_name(self, model_versions_by_name: dict[str, ModelVersion]) -> ConversionOptions:
        """Accept exactly these names."""
    def with_thinking_max_tokens_upper_bound(self, thinking_max_tokens_upper_bound: int) -> ConversionOptions: ...
    def with_non_thinking_max_tokens_upper_bound(self, non_thinking_max_tokens_upper_bound: int) -> ConversionOptions: ...

@final
class ToolCall:
    """A tool call of the history. `arguments` is JSON text, not validated."""

    def __new__(cls, id: str, name: str, arguments: str) -> ToolCall: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...

@final
class ToolDefinition:
    """A tool that the model may call. `parameters` is a JSON Schema, taken as it is."""

    def __new__(
        cls,
        name: str,
        description: str | None = None,
        parameters: Any = None,
        strict: bool | None = None,
        defer_loading: bool = False,
    ) -> ToolDefinition: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> Any:
        """The schema, as a fresh copy."""
    @property
    def strict(self) -> bool | None: ...
    @property
    def defer_loading(self) -> bool:
        """Hidden until revealed (V4.1)."""

class ImageSource:
    """An image of a message. Base of the three classes below; not made itself."""

    @property
    def kind(self) -> _ImageSourceKind: ...
    @property
    def detail(self) -> _ImageDetail: ...
    @property
    def data_url(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def data(self) -> bytes | None: ...
    @property
    def path(self) -> str:
        """Where the request has the image, as errors spell it; empty when made directly."""

@final
class DataUrlImageSource(ImageSource):
    """An image in a data URL."""

    def __new__(cls, data_url: str, detail: _ImageDetail = "high", *, path: str = ...) -> DataUrlImageSource: ...

@final
class UrlImageSource(ImageSource):
    """An image at an external address."""

    def __new__(cls, url: str, detail: _ImageDetail = "high", *, path: str = ...) -> UrlImageSource: ...

@final
class BytesImageSource(ImageSource):
    """An image as encoded bytes."""

    def __new__(cls, data: bytes, detail: _ImageDetail = "high", *, path: str = ...) -> BytesImageSource: ...

class Message:
    """A message of a conversation. Base of the five classes below; not made itself.

    Properties that a role does not have are None, False or empty.
    """

    @property
    def role(self) -> _Role: ...
    @property
    def content(self) -> str: ...
    @property
    def reasoning_content(self) -> str | None: ...
    @property
    def tool_calls(self) -> list[ToolCall] | None: ...
    @property
    def tool_call_id(self) -> str | None: ...
    @property
    def image_sources(self) -> list[ImageSource]: ...
    @property
    def prefix(self) -> bool:
        """Whether the model continues this assistant message."""

@final
class SystemMessage(Message):
    """A system message; `tools` are revealed by it (V4.1). Images as in `UserMessage`."""

    def __new__(
        cls,
        content: str,
        image_sources: Sequence[ImageSource] | None = None,
        tools: Sequence[ToolDefinition] | None = None,
        *,
        image_token: str | None = None,
    ) -> SystemMessage: ...
    @property
    def tools(self) -> list[ToolDefinition] | None: ...

@final
class UserMessage(Message):
    """A user message.

    The first occurrences of `image_token` in `content` (default: the default spelling of the image token), one per
    image source, become image placeholders; later ones stay text. Sources without an occurrence are kept, so a
    prompt may have fewer placeholders than sources. Raises ValueError for an empty `image_token`.
    """

    def __new__(
        cls, content: str, image_sources: Sequence[ImageSource] | None = None, *, image_token: str | None = None
    ) -> UserMessage: ...

@final
class AssistantMessage(Message):
    """An assistant message; with `prefix` the model continues it."""

    def __new__(
        cls,
        content: str,
        reasoning_content: str | None = None,
        tool_calls: Sequence[ToolCall] | None = None,
        prefix: bool = False,
    ) -> AssistantMessage: ...

@final
class ToolMessage(Message):
    """A tool result. Images as in `UserMessage`."""

    def __new__(
        cls,
        content: str,
        tool_call_id: str | None = None,
        image_sources: Sequence[ImageSource] | None = None,
        *,
        image_token: str | None = None,
    ) -> ToolMessage: ...

@final
class LatestReminderMessage(Message):
    """Additional instructions in the course of a conversation."""

    def __new__(cls, content: str) -> LatestReminderMessage: ...

@final
class Conversation:
    """Messages and prompt settings; immutable.

    `response_schema` selects the format `json_schema`, `response_regex` the format `regex`; they exclude each
    other and `json_object` (ValueError).
    """

    def __new__(
        cls,
        messages: Sequence[Message] | None = None,
        *,
        thinking_mode: bool = True,
        tools: Sequence[ToolDefinition] | None = None,
        tool_choice: _ToolChoice = "auto",
        reasoning_effort: _ReasoningEffort | None = None,
        response_format: Literal["text", "json_object"] = "text",
        response_schema: Any | None = None,
        response_regex: str | None = None,
    ) -> Conversation: ...
    @property
    def messages(self) -> list[Message]: ...
    @property
    def thinking_mode(self) -> bool: ...
    @property
    def tools(self) -> list[ToolDefinition]: ...
    @property
    def tool_choice(self) -> _ToolChoice: ...
    @property
    def reasoning_effort(self) -> _ReasoningEffort | None: ...
    @property
    def response_format(self) -> _ResponseFormat: ...
    @property
    def response_schema(self) -> Any | None: ...
    @property
    def response_regex(self) -> str | None: ...

@final
class OutputConstraint:
    """What constrained decoding can enforce on the output."""

    @property
    def kind(self) -> str:
        """`json`, `regex`, `tool_call` or `tool_call_required`."""
    @property
    def schema(self) -> str:
        """Compact JSON of a schema or of a list of function tools, an expression, or "" for any JSON value."""

@final
class InferenceOptions:
    """Sampling parameters of a converted request; what the request leaves open is None."""

    @property
    def max_tokens(self) -> int | None: ...
    @property
    def temperature(self) -> float | None: ...
    @property
    def top_p(self) -> float | None: ...
    @property
    def logprobs(self) -> bool: ...
    @property
    def top_logprobs(self) -> int | None: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def output_constraint(self) -> OutputConstraint | None:
        """As `deepseek_recipe` gives it. Engines enforce `ConversationRequest.enforced_constraint` instead."""

@final
class RequestWarning:
    """A field of a request that has no effect."""

    @property
    def pointer(self) -> str:
        """JSON pointer into the body."""
    @property
    def reason(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ConversationRequest:
    """A converted request: the conversation, and what is needed to run it and to read the answer."""

    def __new__(cls, conversation: Conversation, model_version: ModelVersion) -> ConversationRequest: ...
    @property
    def conversation(self) -> Conversation: ...
    @property
    def inference_options(self) -> InferenceOptions: ...
    @property
    def parsing_options(self) -> ParsingOptions: ...
    @property
    def model_version(self) -> ModelVersion: ...
    @property
    def stream(self) -> bool: ...
    @property
    def enforced_constraint(self) -> OutputConstraint | None:
        """The constraint to enforce: strict schemas keep the definitions and keywords that normalisation drops."""
    @property
    def warnings(self) -> list[RequestWarning]:
        """Every field of the request that has no effect."""
    def resolve_max_tokens(self, prompt_tokens: int, context_limit: int) -> int:
        """Output limit for a prompt of so many tokens in a context of so many, at least 1.

        A requested limit is kept; else 8192, while thinking 65536 or (effort max) 131072, lowered to what the prompt
        leaves. Raises ConversionError when prompt and requested limit, or the prompt alone, do not fit.
        """

@final
class ChatCompletionRequest:
    """A Chat Completions request. `convert` consumes it, even when it fails.

    The body is JSON text or parsed JSON. Raises RequestError (a ValueError) for text that is not JSON or a body of
    the wrong shape, TypeError, OverflowError, RecursionError or UnicodeEncodeError for Python values that are not JSON.
    """

    def __new__(cls, body: _RequestBody) -> ChatCompletionRequest: ...
    @property
    def model(self) -> str: ...
    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Check the request and convert it. Raises ConversionError."""
    @staticmethod
    def chunk_generator(request: ConversationRequest, id: str, model: str) -> ChatCompletionChunkGenerator: ...

@final
class ResponsesRequest:
    """A Responses request. `convert` consumes it, even when it fails. Bodies as in `ChatCompletionRequest`."""

    def __new__(cls, body: _RequestBody) -> ResponsesRequest: ...
    @property
    def model(self) -> str: ...
    def namespace_tool_map(self, options: ConversionOptions) -> dict[str, tuple[str, str]]:
        """Names that conversion gives to declared namespace tools -> (namespace, name). Raises ConversionError."""
    def echo(self) -> ResponsesEcho:
        """The settings that response objects repeat."""
    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Check the request and convert it. Raises ConversionError."""
    @staticmethod
    def chunk_generator(request: ConversationRequest, id: str, model: str) -> ResponsesChunkGenerator: ...

@final
class MessagesRequest:
    """A Messages request. `convert` consumes it, even when it fails. Bodies as in `ChatCompletionRequest`."""

    def __new__(cls, body: _RequestBody) -> MessagesRequest: ...
    @property
    def model(self) -> str: ...
    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Check the request and convert it. Raises ConversionError."""
    @staticmethod
    def chunk_generator(request: ConversationRequest, id: str, model: str) -> MessagesChunkGenerator: ...

@final
class EncodedRequest:
    """A converted request and its prompt's token ids."""

    @property
    def request(self) -> ConversationRequest: ...
    @property
    def token_ids(self) -> list[int]:
        """As a fresh list."""
    @property
    def num_tokens(self) -> int: ...
    def to_bytes(self) -> bytes:
        """The ids as native-endian uint32, for `numpy.frombuffer`."""

def encode_batch(
    protocol: Literal["chat_completions", "responses", "messages"],
    bodies: Sequence[_RequestBody],
    options: ConversionOptions,
    tokenizer: Tokenizer,
    *,
    threads: int | None = None,
) -> list[EncodedRequest | Exception]:
    """Decode, convert, render and encode many requests, on all cores unless `threads` says fewer.

    Results stand in the order of the bodies. A body that fails gives the exception that the single calls would
    raise, and does not touch the others. Text is parsed without the interpreter lock, parsed bodies are read with it.
    """

@final
class RenderedPrompt:
    """A prompt, and which parts of it are special tokens and images."""

    @property
    def prompt(self) -> str: ...
    @property
    def special_ranges(self) -> list[tuple[int, int]]:
        """Ascending, disjoint (start, end) code point offsets of the special tokens; all else is plain text."""
    @property
    def image_sources(self) -> list[ImageSource]: ...

@final
class DeepseekV4Encoding:
    """Renders conversations as V4 prompts and, with a tokenizer, encodes them. Immutable."""

    def __new__(cls) -> DeepseekV4Encoding: ...
    def with_tokenizer(self, tokenizer: Tokenizer) -> DeepseekV4Encoding: ...
    def with_special_tokens(self, special_tokens: SpecialTokens) -> DeepseekV4Encoding: ...
    def render_conversation(self, conversation: Conversation) -> RenderedPrompt: ...
    def encode(self, conversation: Conversation) -> list[int]:
        """Token ids. Raises EncodeError or RuntimeError without a tokenizer or when a special token is not in it."""
    def encode_into(self, conversation: Conversation, buffer: Buffer) -> int:
        """Token ids into the front of a writable C-contiguous uint32 buffer; returns the count. Raises BufferError."""

@final
class DeepseekV41Encoding:
    """Renders conversations as V4.1 prompts and, with a tokenizer, encodes them. Immutable."""

    def __new__(cls) -> DeepseekV41Encoding: ...
    def with_tokenizer(self, tokenizer: Tokenizer) -> DeepseekV41Encoding: ...
    def with_special_tokens(self, special_tokens: SpecialTokens) -> DeepseekV41Encoding: ...
    def render_conversation(self, conversation: Conversation) -> RenderedPrompt: ...
    def encode(self, conversation: Conversation) -> list[int]:
        """Token ids. Raises EncodeError or RuntimeError without a tokenizer or when a special token is not in it."""
    def encode_into(self, conversation: Conversation, buffer: Buffer) -> int:
        """Token ids into the front of a writable C-contiguous uint32 buffer; returns the count. Raises BufferError."""

# ---- parsing (recipe-rs/chat/src/{parse,response}) -------------------------------------------------------

@final
class ThinkingInitialStage:
    """Where parsing begins in thinking mode."""

    ReasoningStart: ThinkingInitialStage
    """A new turn: line feeds at the beginning of the reasoning are dropped."""
    ReasoningContinuation: ThinkingInitialStage
    """The prompt ends inside the reasoning; nothing is dropped."""
    ContentContinuation: ThinkingInitialStage
    """The prompt ends inside the answer; nothing is dropped."""

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def starts_in_reasoning(self) -> bool:
        """Whether the first text is reasoning."""

@final
class ParsingOptions:
    """Settings of a `StreamProcessor`, copied when it is made.

    A request's own settings are `ConversationRequest.parsing_options`. What each does to the output is in
    `docs/parsing.md`.
    """

    def __new__(
        cls,
        *,
        parse_tool_calls: bool = True,
        starts_in_tool_calls: bool = False,
        parse_json_output: bool = False,
        thinking_initial_stage: ThinkingInitialStage | None = None,
        stop_sequences: Sequence[str] | None = None,
        special_tokens: SpecialTokens | None = None,
        recover: bool = False,
    ) -> ParsingOptions: ...
    parse_tool_calls: bool
    """Look for tool-call markup."""
    starts_in_tool_calls: bool
    """The prompt ends inside an opened tool-call block; wins over `thinking_initial_stage`."""
    parse_json_output: bool
    """Pass fenced or bare JSON through and turn the answer text around it into spaces."""
    thinking_initial_stage: ThinkingInitialStage | None
    """None: thinking is off, and reasoning tokens are not counted."""
    recover: bool
    """Repair damaged tool calls or report them, instead of following the markup to the letter (ours; default off)."""
    @property
    def stop_sequences(self) -> list[str]:
        """Texts that end the answer, as a copy; empty ones never match."""
    @stop_sequences.setter
    def stop_sequences(self, value: Sequence[str]) -> None: ...
    @property
    def special_tokens(self) -> SpecialTokens:
        """Spellings in the output; only those of `</think>` and the DSML token matter."""
    @special_tokens.setter
    def special_tokens(self, value: SpecialTokens) -> None: ...

@final
class PromptUsage:
    """Token counts of the prompt, as the backend reports them. Integers below 2**64, else OverflowError."""

    def __new__(cls, *, prompt_tokens: int = 0, prompt_cache_hit_tokens: int = 0) -> PromptUsage: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def prompt_cache_hit_tokens(self) -> int:
        """How many of them came from a prefix cache."""

@final
class InferenceFinishReason:
    """Why the backend stopped. The reason that a protocol reports also depends on what was parsed."""

    Stop: InferenceFinishReason
    Length: InferenceFinishReason
    ContentFilter: InferenceFinishReason

    def __int__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class InferenceChunk:
    """One update of the backend; made by one of the static methods, and may be pushed more than once."""

    @staticmethod
    def ready(*, prompt_usage: PromptUsage | None = None, system_fingerprint: str | None = None) -> InferenceChunk:
        """Start the stream. Counts only as the first chunk; otherwise ignored."""
    @staticmethod
    def text(content: str, token_count: int = 0) -> InferenceChunk:
        """Decoded text that stands for `token_count` output tokens."""
    @staticmethod
    def tokens(
        token_ids: Sequence[int],
        logprobs: Sequence[tuple[float, Sequence[tuple[int, float]]]] | None = None,
    ) -> InferenceChunk:
        """Output token ids (32-bit unsigned).

        logprobs: per id its natural-log probability (kept as float32) and `(id, logprob)` alternatives, in the
        order in which they shall be reported.
        """
    @staticmethod
    def finish(finish_reason: InferenceFinishReason) -> InferenceChunk:
        """End the stream."""
    @property
    def kind(self) -> Literal["ready", "text", "tokens", "finish"]: ...
    @property
    def content(self) -> str | None: ...
    @property
    def token_ids(self) -> list[int] | None: ...
    @property
    def finish_reason(self) -> InferenceFinishReason | None: ...
    @property
    def prompt_usage(self) -> PromptUsage | None: ...
    @property
    def token_count(self) -> int | None: ...
    @property
    def system_fingerprint(self) -> str | None: ...

@final
class ResponsesEcho:
    """Request settings that the response objects of the Responses protocol repeat.

    `ResponsesRequest.echo` reads them from a request; the constructor gives those of a request that sets nothing.
    """

    def __new__(cls) -> ResponsesEcho: ...
    @property
    def instructions(self) -> str | None: ...
    @property
    def max_output_tokens(self) -> int | None: ...
    @property
    def temperature(self) -> float:
        """As requested, or 1.0; not what the sampler used."""
    @property
    def top_p(self) -> float:
        """As requested, or 1.0; not what the sampler used."""
    @property
    def top_logprobs(self) -> int: ...
    @property
    def user(self) -> str | None: ...

@final
class ChatCompletionChunkGenerator:
    """Makes Chat Completions chunks; used up by the `StreamProcessor` that it is given to."""

@final
class ResponsesChunkGenerator:
    """Makes Responses events; used up by the `StreamProcessor` that it is given to, and by its own methods."""

    def with_namespace_tool_map(self, namespace_tool_map: dict[str, tuple[str, str]]) -> ResponsesChunkGenerator:
        """The same generator, splitting the names that are keys into `(namespace, local name)`."""
    def with_echo(self, echo: ResponsesEcho) -> ResponsesChunkGenerator:
        """The same generator, repeating these request settings."""

@final
class MessagesChunkGenerator:
    """Makes Messages events; used up by the `StreamProcessor` that it is given to, and by its own methods."""

    def __new__(cls, id: str, model: str, thinking_mode: bool) -> MessagesChunkGenerator: ...
    def with_signature(self, signature: str) -> MessagesChunkGenerator:
        """The same generator, signing thinking blocks with this instead of the response id."""

@final
class ChatCompletionChunk:
    """One chunk of a Chat Completions stream. `accumulate` uses it up; after that its methods raise RuntimeError."""

    def to_json(self) -> str:
        """Compact JSON, the data of one SSE message."""

@final
class ResponsesStreamEvent:
    """One event of a Responses stream. `accumulate` uses it up; after that its methods raise RuntimeError."""

    def to_json(self) -> str:
        """Compact JSON, the data of one SSE message."""

@final
class MessagesStreamEvent:
    """One event of a Messages stream. `accumulate` uses it up; after that its methods raise RuntimeError."""

    def to_json(self) -> str:
        """Compact JSON, the data of one SSE message."""

@final
class ChatCompletionResponse:
    """A complete Chat Completions response, built from the chunks of its stream. Usage comes from the last chunk."""

    def __new__(
        cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int
    ) -> ChatCompletionResponse: ...
    def accumulate(self, chunk: ChatCompletionChunk) -> None:
        """Apply a chunk and use it up."""
    def to_json(self) -> str:
        """Compact JSON of the response so far."""
    @staticmethod
    def sse_event_name(chunk: ChatCompletionChunk) -> str | None:
        """None: the protocol's SSE messages have no event name."""
    @staticmethod
    def sse_done_data() -> str | None:
        """`[DONE]`, the data of the last SSE message."""

@final
class ResponsesResponse:
    """A complete Responses response, built from the events of its stream, whose id, model and times it takes over."""

    def __new__(
        cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int
    ) -> ResponsesResponse: ...
    def accumulate(self, chunk: ResponsesStreamEvent) -> None:
        """Apply an event and use it up."""
    def to_json(self) -> str:
        """Compact JSON of the response so far."""
    @staticmethod
    def sse_event_name(chunk: ResponsesStreamEvent) -> str | None:
        """The event type."""
    @staticmethod
    def sse_done_data() -> str | None:
        """None: the last event ends the stream."""

@final
class MessagesResponse:
    """A complete Messages response, built from the events of its stream, whose id and model it takes over."""

    def __new__(
        cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int
    ) -> MessagesResponse: ...
    def accumulate(self, chunk: MessagesStreamEvent) -> None:
        """Apply an event and use it up."""
    def to_json(self) -> str:
        """Compact JSON of the response so far."""
    @staticmethod
    def sse_event_name(chunk: MessagesStreamEvent) -> str | None:
        """The event type."""
    @staticmethod
    def sse_done_data() -> str | None:
        """None: the last event ends the stream."""

@final
class ToolCallReport:
    """What recover mode says about one tool call of the output."""

    @property
    def index(self) -> int | None:
        """Index of the call in the response; None when malformed."""
    @property
    def name(self) -> str | None:
        """Name of the tool as far as it was readable."""
    @property
    def arguments(self) -> str | None:
        """JSON text of the object handed out; None when malformed."""
    @property
    def status(self) -> Literal["well_formed", "repaired", "malformed"]:
        """A malformed call is no call of the response; its text stayed in the answer or reasoning."""
    @property
    def repairs(self) -> list[str]:
        """Names of the repairs, see the table in `docs/parsing.md`."""
    @property
    def problems(self) -> list[str]:
        """Why it is malformed; else an unknown tool name, or how the arguments do not fit the declared schema."""
    @property
    def raw(self) -> str:
        """The text of the call as the model wrote it."""

@final
class PartialJson:
    """Reads one JSON document that is still growing. `AnswerParser` adds the type at the end.

    Linear in the text; `value` costs its own size. At most 127 levels deep.
    """

    def __new__(cls) -> PartialJson: ...
    def push(self, text: str) -> None:
        """Read more text. Raises AnswerError (a ValueError) where it cannot be JSON any more."""
    @property
    def value(self) -> Any:
        """The document so far, as new objects; None before it begins (see `started`)."""
    @property
    def started(self) -> bool:
        """Whether there is a value; tells a null from nothing."""
    @property
    def complete(self) -> bool:
        """Whether the document has ended; a number at the top level ends only with `finish`."""
    def finish(self) -> Any:
        """The whole document. Raises AnswerError if it is not complete."""

@final
class StreamProcessor:
    """Turns the chunks of one stream into the events of the generator's protocol.

    Drive it with `push` until `finished` is true (a matched stop sequence finishes it inside a `push`), then call
    `finish`, which ends a stream that had no finish chunk. Text is held back only while it may belong to a marker.
    """

    def __new__(
        cls,
        generator: ChatCompletionChunkGenerator | ResponsesChunkGenerator | MessagesChunkGenerator,
        options: ParsingOptions,
        tokenizer: Tokenizer | None = None,
    ) -> StreamProcessor:
        """Use up the generator. The tokenizer decodes `tokens` chunks and counts the tokens of the reasoning."""
    @property
    def finished(self) -> bool:
        """Whether the stream completed and the processor was not closed."""
    @property
    def state(self) -> str:
        """Name of the parser's state, such as `reasoning` or `string_value`; for diagnostics."""
    @property
    def call_reports(self) -> list[ToolCallReport]:
        """What recover mode found out about the calls decided so far, in order; empty without recover mode."""
    def push(
        self, chunk: InferenceChunk
    ) -> list[ChatCompletionChunk | ResponsesStreamEvent | MessagesStreamEvent]:
        """Process one chunk and return its events.

        Raises StreamError (a RuntimeError) after the end or after `close`; also, and then the processor is closed,
        for token ids without a tokenizer and for log probabilities that are not one per id.
        """
    def finish(self) -> list[ChatCompletionChunk | ResponsesStreamEvent | MessagesStreamEvent]:
        """End the input: release what is held back and return the last events; no events once the stream completed.

        Raises StreamError after `close` and after an error.
        """
    def close(self) -> None:
        """Give up the stream; may be called again."""
# ---- CPU kernels (recipe-rs/python/src/cpu); used through `offseek.kernels.cpu` ------------------------

from typing import Any as _Any

from numpy.typing import NDArray as _NDArray

_Array = _NDArray[_Any]

def cpu_add_rms_norm(residual: _Array, delta: _Array | None, weight: _Array, eps: float, out: _Array) -> None: ...
def cpu_silu_mul(gate_up: _Array, out: _Array, width: int) -> None: ...
def cpu_rotate_and_store(
    qkv: _Array, cos_sin: _Array, keys: _Array, values: _Array, slots: _Array, q_out: _Array,
    q_norm: _Array | None, k_norm: _Array | None, eps: float, shape: tuple[int, int, int, int],
) -> None: ...
def cpu_paged_attention(
    q: _Array, keys: _Array, values: _Array, tables: _Array, starts: _Array, lengths: _Array, out: _Array,
    shape: tuple[int, int, int, int, int], threads: int,
) -> None: ...
def cpu_quantize_rows(x: _Array, out: _Array, scales: _Array) -> None: ...
def cpu_dequantize_product(
    sums: _Array, row_scales: _Array, column_scales: _Array, bias: _Array | None, out: _Array
) -> None: ...
def cpu_best_allowed(
    logits: _Array, stride: int, vocab: int, masks: _Array | None, mask_words: int, mask_rows: _Array,
    token_ids: _Array, status: _Array, logprobs: _Array, want_logprobs: bool, threads: int,
) -> None: ...

# ---- grammars (recipe-rs/grammar) --------------------------------------------------------------------------

@final
class Vocabulary:
    """A tokenizer's vocabulary, prepared once for masks; immutable, shared freely between threads.

    tokens: the bytes of each id, in order. special_token_ids: matched by id only, where a grammar names them; EOS
    ids are special too. vocab_size: padded width of the logits, at least the number of tokens (the default).

    Raises GrammarError for ids out of range.
    """

    def __new__(
        cls,
        tokens: Sequence[bytes],
        *,
        special_token_ids: Sequence[int] = ...,
        eos_token_ids: Sequence[int] = ...,
        vocab_size: int | None = None,
    ) -> Vocabulary: ...
    @staticmethod
    def from_tokenizer_file(
        path: str | os.PathLike[str],
        *,
        eos_token_ids: Sequence[int],
        vocab_size: int | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> Vocabulary:
        """Read a `tokenizer.json`; every entry of `added_tokens` is special, whatever its flag says.

        cache: a directory in which the prepared vocabulary is kept by content and read back the next time.

        Raises OSError, or GrammarError when the file is not such a tokenizer.
        """
    @staticmethod
    def from_bytes(data: bytes) -> Vocabulary:
        """What `to_bytes` gave. Raises GrammarError for damaged data."""
    def to_bytes(self) -> bytes: ...
    def token_bytes(self, token_id: int) -> bytes:
        """Bytes of a token; empty for special ones and ids without a token."""
    def is_special(self, token_id: int) -> bool: ...
    def spell(self, text: bytes) -> list[int] | None:
        """Tokens whose bytes join to `text`, each as long as possible; None when they cannot."""
    @property
    def eos_token_ids(self) -> list[int]: ...
    @property
    def vocab_size(self) -> int:
        """Padded width of the logits."""
    @property
    def num_words(self) -> int:
        """int32 words of a bitmask row: ceil(vocab_size / 32)."""
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...

@final
class CompiledGrammar:
    """A grammar tied to a vocabulary; shared freely between threads. Made by `GrammarCompiler`."""

    def matcher(self) -> Matcher:
        """A matcher before any token."""
    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def nbytes(self) -> int:
        """Memory of the engine that its matchers share, in bytes, roughly."""
    @property
    def relaxed_keywords(self) -> list[tuple[str, str]]:
        """Keywords of a JSON Schema that were left out under `on_unsupported="relax"`: (JSON pointer, keyword)."""

@final
class Matcher:
    """The state of one text. Calls are serialised by a lock of its own and run without the interpreter lock.

    All calls raise GrammarLimitError when a step hits a limit; the matcher then repeats the error until it is
    rolled back or reset.
    """

    def fill_bitmask(self, out: Any, row: int = 0) -> None:
        """Write the mask of the next token: bit `t % 32` of word `t // 32` is 1 exactly when token `t` may follow.

        out: int32 numpy array or CPU tensor [words] or [rows, words], C-contiguous, words >= num_words; words past
        the vocabulary are cleared. The EOS bits are set exactly when the text may end; after EOS only they are.

        Raises TypeError, ValueError or IndexError for memory that does not fit.
        """
    def fill_bitmask_draft(self, draft_tokens: Sequence[int], out: Any) -> int:
        """Write 1 + k rows along a draft of k tokens, without moving: row `i` is the mask after `i` of them.

        Returns how many draft tokens the grammar allows; rows after the first that is not allowed are zero.
        """
    def accept_token(self, token_id: int) -> bool:
        """Take one token; False, and nothing changes, when it may not follow."""
    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Take tokens until one may not follow; the number taken."""
    def validate_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens may follow, one after the other; nothing changes."""
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
    def is_finished(self) -> bool:
        """Whether the text must end here: EOS was taken, or nothing else may follow."""
    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens (EOS counts as one). Raises MatcherError when there are fewer."""
    def reset(self) -> None:
        """Back to the start."""
    def fork(self) -> Matcher:
        """An independent matcher in the same state."""
    def shortest_completion(self) -> list[int]:
        """Token ids (without EOS) that lead from here to the end of a full match on a short way."""
    def forced_tokens(self, *, max_tokens: int = 64) -> list[int]:
        """The tokens that must come next, in the tokenizer's own tokenisation.

        The last ones are held back where a longer token could cover the border. A vocabulary that was not read from a
        `tokenizer.json` gives only tokens that are each the single one in the mask.
        """
    def forced_bytes(self, *, max_bytes: int = 4096) -> bytes:
        """The bytes that must come next, as far as only one can each time."""
    def allowed_tokens(self) -> list[int]:
        """The ids in the mask, ascending; for looking at small masks."""
    @property
    def token_ids(self) -> list[int]:
        """The tokens taken so far, without EOS."""
    @property
    def grammar(self) -> CompiledGrammar: ...
    def __copy__(self) -> Matcher: ...

@final
class CancelToken:
    """Stops a compile from another thread."""

    def __new__(cls) -> CancelToken: ...
    def cancel(self) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

def fill_bitmask_batch(matchers: Sequence[Matcher], out: Any, *, threads: int = 1) -> None:
    """Fill row `i` of `out` (int32 [rows, words], as in `Matcher.fill_bitmask`) for matcher `i`.

    threads: worker threads that share the rows. Raises MatcherError when a matcher occurs twice.
    """

def accept_token_batch(matchers: Sequence[Matcher], token_ids: Sequence[int]) -> list[int]:
    """Accept one token per matcher in one call, without the interpreter lock.

    Returns for each: 0 = refused, 1 = accepted, 2 = accepted and the text must end here, -1 = the matcher failed, which
    harms no other (its own methods raise its error). Raises ValueError when the lengths differ.
    """

def grammar_limits() -> list[tuple[str, int]]:
    """Names and default values of all limits."""

def json_fingerprint(text: str) -> bytes | None:
    """A hash of a JSON text's value that other spellings of it share, within this process; None: not JSON."""

def compile_json_schema(
    vocab: Vocabulary,
    schema: str,
    *,
    whitespace: str,
    canonical_numbers: bool,
    any_order: bool,
    assert_format: bool,
    dialect: str | None,
    relax: bool,
    registry: Sequence[tuple[str, str]],
    limits: Sequence[tuple[str, int]],
    cancel: CancelToken | None,
) -> CompiledGrammar:
    """See `GrammarCompiler.compile_json_schema`."""

def compile_regex(
    vocab: Vocabulary,
    pattern: str,
    *,
    search: bool,
    ecma: bool,
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    verbose: bool,
    limits: Sequence[tuple[str, int]],
    cancel: CancelToken | None,
) -> CompiledGrammar:
    """See `GrammarCompiler.compile_regex`."""

# ---- grammars: trees of rules and EBNF (recipe-rs/grammar/src/ebnf) ------------------------------------------

@final
class GrammarTree:
    """A grammar built node by node; every method that makes a node returns its number.

    Children are made before their parents, rules are declared before they are used. Raises GrammarError otherwise.
    """

    def __new__(cls) -> GrammarTree: ...
    def literal(self, text: str, /) -> int:
        """Exactly this text."""
    def pattern(self, pattern: str, flags: str = ..., /) -> int:
        """A pattern, matched in full; flags: letters of i, m, s, u, x."""
    def char_class(self, ranges: Sequence[tuple[str, str]], negated: bool = False, /) -> int:
        """One character in (or outside) ranges of characters, both ends included."""
    def json(self, schema: str, form: str = "value", context: str = ..., /) -> int:
        """A value of a schema (JSON text), one line with spaces.

        form: "value"; "value_or_nothing" (no error when nothing satisfies the schema); "raw_string" (its strings,
        written without quotes and escapes). context: put in front of messages.
        """
    def special(self, token_id: int, /) -> int:
        """A special token, by id."""
    def seq(self, parts: Sequence[int], /) -> int: ...
    def alt(self, parts: Sequence[int], /) -> int: ...
    def repeat(self, body: int, minimum: int, maximum: int | None, /) -> int: ...
    def minus(self, node: int, without: int, /) -> int:
        """What the first matches and the second does not; both regular."""
    def shortest(self, node: int, /) -> int:
        """The matches that no shorter match is a prefix of; regular."""
    def any_order(
        self,
        items: Sequence[int],
        required: Sequence[int],
        dependent: Sequence[tuple[int, Sequence[int]]],
        minimum: int,
        maximum: int | None,
        context: str,
        /,
    ) -> int:
        """At least one of the items, in any order, none twice.

        required: indexes of items that must come. dependent: (index, indexes that must come with it).
        """
    def rule(self, rule: int, /) -> int:
        """A use of a rule."""
    def declare(self, name: str, span: tuple[int, int], /) -> int:
        """A new rule; span: bytes of its name in the source."""
    def define(self, rule: int, body: int, /) -> None: ...

def compile_gbnf(
    vocab: Vocabulary,
    text: str,
    *,
    start: str,
    specials: Sequence[tuple[str, int]],
    limits: Sequence[tuple[str, int]],
    cancel: CancelToken | None,
) -> tuple[CompiledGrammar, list[tuple[str, str, int, int]]]:
    """The grammar, and findings: (kind, rule, start and end byte of its name)."""

def compile_tree(
    vocab: Vocabulary,
    tree: GrammarTree,
    *,
    text: str,
    start: str,
    limits: Sequence[tuple[str, int]],
    cancel: CancelToken | None,
) -> tuple[CompiledGrammar, list[tuple[str, str, int, int]]]:
    """As `compile_gbnf`, from a tree whose rules' spans are into `text`."""
