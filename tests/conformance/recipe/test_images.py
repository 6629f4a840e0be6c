"""The recorded image cases (`tests/data/images.jsonl.gz`; form: the last section of the image specification).

Sizes, token counts, limits and errors must be equal; pixels within 3 of the probes; output hashes are not compared.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import pathlib
import socket
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import pytest
from offseek import _native
from offseek.recipe.errors import ImageError
from offseek.recipe.image_fetcher import ImageFetcher
from offseek.recipe.image_preprocessor import OpenCvImagePreprocessor
from offseek.recipe.images import ImageInfo, ImageQuota, ImageResolver, MultiModalData, PreprocessOptions

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "images.jsonl.gz"


@functools.cache
def all_cases() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt") as lines:
        return [json.loads(line) for line in lines]


def cases(kind: str) -> list[dict[str, Any]]:
    found = [case for case in all_cases() if case["type"] == kind]
    assert found
    return found


def params(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases(kind)]


@dataclass
class Source:
    kind: str
    data_url: str | None = None
    url: str | None = None
    data: bytes | None = None
    detail: str = "high"
    path: str = ""


def png(rows: bytes, width: int, height: int, depth: int, colour: int, level: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([depth, colour, 0, 0, 0])
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, level)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def png_zero(width: int, height: int) -> bytes:
    return png(bytes(height * (1 + (width + 7) // 8)), width, height, 1, 0, 1)


def png_grad(width: int, height: int, channels: int, bit_depth: int) -> bytes:
    y, x = np.mgrid[:height, :width].astype(np.int64)
    r = x * 255 // max(1, width - 1)
    g = y * 255 // max(1, height - 1)
    b = (x + y) * 255 // max(1, width + height - 2)
    a = (3 * x + 2 * y) % 256
    planes = {1: [r], 2: [r, a], 3: [r, g, b], 4: [r, g, b, a]}[channels]
    pixels = np.stack(planes, axis=-1)
    if bit_depth == 16:
        pixels = np.maximum(0, 257 * pixels - 37 * x[..., None])
        raw = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    else:
        raw = pixels.astype(np.uint8).reshape(height, -1)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), raw], axis=1).tobytes()
    return png(rows, width, height, bit_depth, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 1)


def generate(gen: dict[str, Any]) -> bytes:
    if gen["kind"] == "png_zero":
        return png_zero(gen["w"], gen["h"])
    assert gen["kind"] == "png_grad"
    return png_grad(gen["w"], gen["h"], gen["channels"], gen["bit_depth"])


def sources_of(call: list[dict[str, Any]]) -> list[Source]:
    sources = []
    for spec in call:
        more = {"detail": spec.get("detail", "high"), "path": spec.get("path", "")}
        data = (
            base64.b64decode(spec["b64"]) if "b64" in spec else png_zero(spec["w"], spec["h"]) if "w" in spec else b""
        )
        data += bytes(max(0, spec.get("pad_to", 0) - len(data)))
        if spec["kind"] == "data_url_of":
            body = base64.b64encode(data).decode()
            body = body.rstrip("=") if spec.get("strip_padding") else body
            source = Source("data_url", data_url="data:image/png;base64," + body, **more)
        elif spec["kind"] == "data_url":
            source = Source("data_url", data_url=spec["url"], **more)
        elif spec["kind"] == "url":
            source = Source("url", url=spec["url"], **more)
        else:
            source = Source("bytes", data=data, **more)
        sources += [source] * spec.get("repeat", 1)
    return sources


def error_of(error: ImageError) -> dict[str, Any]:
    return {"kind": error.kind, "message": str(error), "retryable": error.is_retryable}


def resolver(**settings: Any) -> ImageResolver:
    return ImageResolver(
        ImageFetcher(allow_private=True), OpenCvImagePreprocessor(), retry_waits_s=(0, 0, 0), **settings
    )


def resolve(call: list[Source], quota: ImageQuota) -> dict[str, Any]:
    try:
        result = resolver().resolve(call, quota)
    except ImageError as error:
        return {"error": error_of(error), "quota": [quota.image_count(), quota.byte_size()]}
    return {
        "images": [[image.width, image.height] for image in result.images],
        "adjustment": result.image_token_adjustment(),
        "quota": [quota.image_count(), quota.byte_size()],
    }


def preprocess(data: bytes, detail: Any, max_px: int, low_px: int) -> tuple[dict[str, Any], bytes]:
    try:
        image = OpenCvImagePreprocessor().preprocess(data, PreprocessOptions(detail, max_px, low_px))
    except ImageError as error:
        return {"error": error_of(error)}, b""
    adjustment = MultiModalData([image]).image_token_adjustment()
    return {"width": image.width, "height": image.height, "adjustment": adjustment}, image.data


def test_resize_cases_have_the_recorded_sizes() -> None:
    """Every size through the core; every error and every 40th size through the pixels too."""
    wrong = []
    for i, case in enumerate(cases("resize")):
        gen, expect = case["gen"], case["expect"]
        low = case["low_detail_max_dimension_px"]
        if "error" in expect or i % 40 == 0:
            got, _ = preprocess(generate(gen), case["detail"], case["max_dimension_px"], low)
        else:
            low_px = low if case["detail"] == "low" else None
            _, (width, height) = _native.fit_image_size(gen["w"], gen["h"], low_detail_max_dimension_px=low_px)
            adjustment = _native.image_token_adjustment([(width, height)])
            got = {"width": width, "height": height, "adjustment": adjustment}
        if got != expect:
            wrong.append((case["id"], got, expect))
    assert wrong == []


def test_token_cases_have_the_recorded_counts() -> None:
    for case in cases("tokens"):
        images = [ImageInfo(b"", width, height) for width, height in case["images"]]
        assert {"adjustment": MultiModalData(images).image_token_adjustment()} == case["expect"], case["id"]


@pytest.mark.parametrize("case", params("pixels"))
def test_pixel_case_is_within_the_codec_of_the_probes(case: dict[str, Any]) -> None:
    got, data = preprocess(generate(case["gen"]), case["detail"], 8192, 512)
    expect = case["expect"]
    assert got == {name: expect[name] for name in ("width", "height", "adjustment")}
    assert data[:4] == b"RIFF"
    assert data[8:16] == b"WEBPVP8 "
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert pixels.shape == (expect["height"], expect["width"], 3)
    for x, y, r, g, b in expect["probe"]:
        off = np.abs(pixels[y, x].astype(int) - [b, g, r]).max()
        assert off <= 3, (x, y, pixels[y, x], (b, g, r))


@pytest.mark.parametrize("case", params("bytes"))
def test_bytes_case_has_the_recorded_outcome(case: dict[str, Any]) -> None:
    got, data = preprocess(base64.b64decode(case["data_b64"]), case["detail"], 8192, 512)
    expect = {
        name: case["expect"][name] for name in ("width", "height", "adjustment", "error") if name in case["expect"]
    }
    assert got == expect
    if "out_len" in case["expect"]:
        # Equal pixels give equal bytes with the same codec version; near-equal ones nearly the same length.
        same = hashlib.sha256(data).hexdigest() == case["expect"]["out_sha256"]
        assert same or abs(len(data) - case["expect"]["out_len"]) <= 0.1 * case["expect"]["out_len"] + 64


@pytest.mark.parametrize("case", params("data_url"))
def test_data_url_case_has_the_recorded_outcome(case: dict[str, Any]) -> None:
    assert resolve([Source("data_url", data_url=case["url"], path=case["path"])], ImageQuota()) == case["expect"]


@pytest.mark.parametrize("case", params("resolve"))
def test_resolve_case_has_the_recorded_outcome(case: dict[str, Any]) -> None:
    quota = ImageQuota()
    expect = case["expect"]
    got = [resolve(sources_of(call), quota) for call in case["calls"]]
    for one, expected in zip(got, expect, strict=True):
        if len(expected.get("images", ())) < len(one.get("images", ())):  # a long list is recorded by its first entries
            assert one["images"][: len(expected["images"])] == expected["images"]
            assert len(one["images"]) == one["quota"][0]
            one["images"] = expected["images"]
    assert got == expect


class Server:
    """A raw HTTP server that answers as the `server` field of a case says and counts requests."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.num_requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    part = connection.recv(65536)
                    if not part:
                        break
                    request += part
                if request:
                    self.num_requests += 1
                    try:
                        connection.sendall(self._answer(request.split(b" ")[1].decode()))
                    except OSError:  # the client went away
                        continue

    def _answer(self, target: str) -> bytes:
        script = self.script
        redirects = script.get("redirects")
        if redirects == "loop":
            return b"HTTP/1.1 302 x\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n"
        if redirects is not None:
            done = int(target.rpartition("/")[2]) if target.startswith("/r/") else 0
            if done < redirects:
                head = f"HTTP/1.1 {script['redirect_status']} x\r\nlocation: /r/{done + 1}\r\ncontent-length: 0\r\n\r\n"
                return head.encode()
            script = script["then"]
        if "status" not in script:
            return b""
        body = self._body(script.get("body", ""))
        head = f"HTTP/1.1 {script['status']} x\r\n"
        for name in ("location", "content_type", "content_encoding"):
            if name in script:
                head += f"{name.replace('_', '-')}: {script[name]}\r\n"
        if script["status"] in (204, 304):
            return (head + "\r\n").encode()
        if script.get("chunked"):
            chunks = [body[i : i + 1_000_000] for i in range(0, len(body), 1_000_000)] + [b""]
            return (head + "transfer-encoding: chunked\r\n\r\n").encode() + b"".join(
                b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks
            )
        declared = script.get("content_length", True)
        length = len(body) if declared is True else declared
        return (head + f"content-length: {length}\r\n\r\n").encode() + body

    @staticmethod
    def _body(spec: str) -> bytes:
        if not spec.endswith(("png_zero 2x2", "bytes")):
            return spec.encode()
        body = png_zero(2, 2)
        if spec.startswith("gzip of "):
            return gzip.compress(body)
        if " zero-padded to " in spec:
            base, _, offset = spec.rpartition(" to ")[2].removesuffix(" bytes").partition("33554432")
            assert base == ""
            body += bytes(33554432 + int(offset) - len(body))
        return body


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("server", "case"),
    [pytest.param(case["server"], case, id=case["id"]) for case in cases("url")],
    indirect=["server"],
)
def test_url_case_has_the_recorded_outcome(server: Server, case: dict[str, Any]) -> None:
    url = case["server"].get("url", server.base + "/x")
    if "url_bytes" in case["server"]:
        url += "x" * (case["server"]["url_bytes"] - len(url))
    quota = ImageQuota()
    got = resolve([Source("url", url=url, path=case["path"])], quota)
    expect = case["expect"]
    if "error" in expect:
        message = expect["error"]["message"].replace("{url}", url)
        assert got["error"] == expect["error"] | {"message": message}
    else:
        assert got["images"] == expect["images"]
        assert got["quota"] == [1, expect["encoded_bytes"]]
    assert server.num_requests == expect["requests"]
