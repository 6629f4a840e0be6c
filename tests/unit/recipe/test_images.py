"""Image values, the resolver's bounds, the preprocessor's refusals; and random images against the reference package."""

from __future__ import annotations

import io
import pathlib
import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import cv2
import deepseek_recipe
import numpy as np
import pytest
from offseek import _native
from offseek.recipe.errors import ImageError
from offseek.recipe.image_preprocessor import OpenCvImagePreprocessor
from offseek.recipe.images import ImageInfo, ImageQuota, ImageResolver, MultiModalData, PreprocessOptions
from PIL import Image

HIGH = PreprocessOptions("high", 8192, 512)


@dataclass
class Source:
    kind: str = "bytes"
    data: bytes | None = None
    url: str | None = None
    data_url: str | None = None
    detail: Any = "high"
    path: str = ""


class Fetcher:
    """Gives what it is told, and remembers how many downloads ran at once."""

    def __init__(self, answers: dict[str, bytes | ImageError]) -> None:
        self.answers = answers
        self.calls: list[str] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._both = threading.Barrier(2, timeout=5)

    def fetch(self, url: str) -> bytes:
        with self._lock:
            self.calls.append(url)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            if "wait" in url:
                self._both.wait()
            answer = self.answers[url]
            if isinstance(answer, ImageError):
                raise answer
            return answer
        finally:
            with self._lock:
                self._now -= 1


def encoded(format: str, size: tuple[int, int] = (5, 4), mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, options.pop("color", 77)).save(out, format, **options)
    return out.getvalue()


PNG = encoded("PNG")


def test_values_check_their_arguments() -> None:
    for width, height in ((-1, 1), (1, 2**32)):
        with pytest.raises(OverflowError):
            ImageInfo(b"", width, height)
    with pytest.raises(TypeError):
        ImageInfo(b"", 1.5, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        MultiModalData([1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match='invalid detail "medium"; expected "low", "high", "original", or "auto"'):
        PreprocessOptions("medium", 1, 1)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        PreprocessOptions("low", 2**32, 1)
    data = MultiModalData([ImageInfo(b"x", 10, 10)])
    data.images.clear()
    assert not data.is_empty()
    assert data.image_token_adjustment() == 183
    assert MultiModalData().is_empty()
    assert MultiModalData(None).image_token_adjustment() == 0


def test_downloads_of_one_call_run_at_the_same_time() -> None:
    fetcher = Fetcher({f"http://wait/{i}": PNG for i in range(2)})
    sources = [Source("url", url=f"http://wait/{i}") for i in range(2)]
    result = ImageResolver(fetcher, OpenCvImagePreprocessor()).resolve(sources, ImageQuota())
    assert len(result.images) == 2
    assert fetcher.most_at_once == 2


def test_first_failing_source_in_order_is_reported_and_later_ones_are_not_downloaded() -> None:
    gone = ImageError("image[0]: Failed to download image from http://b", "FetchStatus", False)
    fetcher = Fetcher({"http://a": PNG, "http://b": gone, "http://never": PNG})
    sources = [
        Source("url", url="http://a", path="p"),
        Source("url", url="http://b", path="p"),
        Source("data_url", data_url="zzz", path="q"),
        Source("url", url="http://never", path="q"),
    ]
    quota = ImageQuota()
    resolver = ImageResolver(fetcher, OpenCvImagePreprocessor(), retry_waits_s=(0, 0, 0))
    with pytest.raises(ImageError, match=r"^p\.image\[1\]: Failed to download image from http://b$") as caught:
        resolver.resolve(sources, quota)
    assert caught.value.kind == "FetchStatus"
    assert sorted(fetcher.calls) == ["http://a", "http://b"]
    assert (quota.image_count(), quota.byte_size()) == (0, 0)


def test_retryable_failures_are_tried_again_and_others_are_not() -> None:
    for retryable, num_calls in ((True, 4), (False, 1)):
        fetcher = Fetcher({"http://a": ImageError("image[0]: x", "Fetch", retryable)})
        resolver = ImageResolver(fetcher, OpenCvImagePreprocessor(), retry_waits_s=(0, 0, 0))
        with pytest.raises(ImageError):
            resolver.resolve([Source("url", url="http://a")], ImageQuota())
        assert len(fetcher.calls) == num_calls


def test_bytes_over_the_total_are_not_kept() -> None:
    """A thousand megabytes of downloads are reported as too large without being held."""
    import tracemalloc

    big = bytes(32 << 20)
    fetcher = Fetcher({f"http://{i}": b"" for i in range(30)})
    fetcher.fetch = lambda url: big[:-1] + b"x"  # type: ignore[method-assign]
    sources = [Source("url", url=f"http://{i}", path="p") for i in range(30)]
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match="got 96 MB") as caught:
            ImageResolver(fetcher, OpenCvImagePreprocessor(), num_downloads=2).resolve(sources, ImageQuota())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "TotalSizeTooLarge"
    assert peak < 400 << 20


def test_resolver_refuses_what_is_no_source() -> None:
    resolver = ImageResolver(Fetcher({}), OpenCvImagePreprocessor())
    with pytest.raises(TypeError, match="int"):
        resolver.resolve([1], ImageQuota())  # type: ignore[list-item]
    assert resolver.resolve([], ImageQuota()).is_empty()


def test_decompression_bomb_is_refused_by_its_declared_size() -> None:
    bomb = encoded("PNG", (8193, 8193), "1", color=0)
    assert len(bomb) < 20_000
    with pytest.raises(ImageError) as caught:
        OpenCvImagePreprocessor().preprocess(bomb, HIGH)
    assert caught.value.kind == "ImageDimensionsTooLarge"


def test_opencv_settings_of_the_caller_survive() -> None:
    before = cv2.ipp.useIPP()
    OpenCvImagePreprocessor().preprocess(PNG, HIGH)
    with pytest.raises(ImageError):
        OpenCvImagePreprocessor().preprocess(PNG[:60], HIGH)
    assert cv2.ipp.useIPP() == before


def test_missing_opencv_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['cv2'] = None\n"
        "import offseek.recipe\n"
        "try: offseek.recipe.OpenCvImagePreprocessor()\n"
        "except ImportError as error: assert 'offseek[images]' in str(error); print('named')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "named"


def outcome(preprocess: Any, data: bytes, options: Any, error: type[Exception]) -> tuple[Any, ...]:
    try:
        image = preprocess(data, options)
    except error as caught:
        return caught.kind, str(caught), caught.is_retryable  # type: ignore[attr-defined]
    return image.width, image.height, image.data


def damaged_images() -> list[bytes]:
    rng = random.Random(9)
    originals = [
        encoded("PNG", (37, 21)),
        encoded("PNG", (30, 30), "LA", color=(3, 100)),
        encoded("JPEG", (64, 20)),
        encoded("JPEG", (64, 64), progressive=True),
        encoded("GIF", (9, 40), "P"),
        encoded("WEBP", (20, 33)),
        encoded("WEBP", (20, 33), "RGBA", lossless=True, color=(1, 2, 3, 4)),
    ]
    variants = []
    for data in originals:
        variants.append(data)
        for _ in range(12):
            cut = data[: rng.randrange(len(data))]
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            variants += [cut, bytes(flipped)]
    return variants


def test_damaged_files_are_handled_without_a_crash_and_mostly_like_the_reference() -> None:
    ours, reference = OpenCvImagePreprocessor(), deepseek_recipe.OpenCvImagePreprocessor()
    theirs = deepseek_recipe.PreprocessOptions("high", 8192, 512)
    differences = []
    variants = damaged_images()
    for i, data in enumerate(variants):
        got = outcome(ours.preprocess, data, HIGH, ImageError)
        expected = outcome(reference.preprocess, data, theirs, deepseek_recipe.ImageError)
        if got[:2] != expected[:2]:
            differences.append((i, got[:2], expected[:2]))
    assert len(differences) <= DIFFERENCES_ALLOWED, differences


# Files damaged inside their pixel data, where decoders differ in what they still accept.
DIFFERENCES_ALLOWED = 8


def test_random_images_are_the_reference_byte_for_byte() -> None:
    ours, reference = OpenCvImagePreprocessor(), deepseek_recipe.OpenCvImagePreprocessor()
    rng = np.random.default_rng(3)
    for i in range(24):
        width, height = (int(side) for side in rng.integers(1, 400, 2))
        channels = int(rng.integers(1, 5))
        pixels = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        pixels = cv2.GaussianBlur(pixels, (9, 9), 3).reshape(height, width, channels)
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
        out = io.BytesIO()
        image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode)
        image.save(out, ["PNG", "WEBP"][i % 2] if channels > 2 else "PNG")
        detail: Any = ["high", "low"][i % 3 == 0]
        got = ours.preprocess(out.getvalue(), PreprocessOptions(detail, 8192, 200))
        expected = reference.preprocess(out.getvalue(), deepseek_recipe.PreprocessOptions(detail, 8192, 200))
        assert (got.width, got.height) == (expected.width, expected.height)
        assert got.data == expected.data, (i, width, height, channels, detail)


def test_data_urls_are_read_like_the_reference_reads_them() -> None:
    """Random edits of a data URL, through both resolvers."""
    import base64

    rng = random.Random(4)
    theirs = deepseek_recipe.ImageResolver(
        deepseek_recipe.ReqwestImageFetcher(), deepseek_recipe.OpenCvImagePreprocessor()
    )
    ours = ImageResolver(Fetcher({}), OpenCvImagePreprocessor())
    base = "data:image/png;base64," + base64.b64encode(PNG).decode()
    pieces = [" ", "\t", "\n", "%20", "%41", "%", "=", "==", ",", ";", "base64", ";base64", "#", "-", "_", "é", "\x0b",
              "\x0c", "A", "data:", "image/jpeg", "IMAGE/PNG", "\x00"]  # fmt: skip
    for _ in range(400):
        url = base
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(30) if rng.random() < 0.6 else rng.randrange(len(url) - 4, len(url) + 1)
            url = url[:at] + rng.choice(pieces) + url[at + rng.choice([0, 0, 0, 1]) :]
        results = []
        for resolver, source, quota, error in (
            (ours, Source("data_url", data_url=url), ImageQuota(), ImageError),
            (theirs, deepseek_recipe.DataUrlImageSource(url), deepseek_recipe.ImageQuota(), deepseek_recipe.ImageError),
        ):
            try:
                resolver.resolve([source], quota)  # type: ignore[attr-defined]
                results.append(("ok", quota.byte_size()))  # type: ignore[attr-defined]
            except error as caught:
                results.append((caught.kind, str(caught)))  # type: ignore[attr-defined]
        assert results[0] == results[1], url


def test_headers_give_the_sizes_that_pillow_reads(tmp_path: pathlib.Path) -> None:
    for format in ("PNG", "JPEG", "GIF", "WEBP"):
        for size in ((1, 1), (17, 300), (640, 3)):
            name, width, height, animated = _native.read_image_header(encoded(format, size))
            assert (name, (width, height), animated) == (format.lower(), size, False)


def odd_gifs() -> dict[str, bytes]:
    """A small GIF with single faults, by what is wrong with it."""
    image = Image.new("P", (20, 15))
    image.putpalette([(i * 7) % 256 for i in range(768)])
    image.putdata([(x * y) % 200 for y in range(15) for x in range(20)])
    out = io.BytesIO()
    image.save(out, "GIF")
    gif = out.getvalue()
    at = gif.index(b"\x2c", 13 + (3 << ((gif[10] & 7) + 1)))

    def screen(width: int, height: int) -> bytes:
        return gif[:6] + width.to_bytes(2, "little") + height.to_bytes(2, "little") + gif[10:]

    return {
        "no trailer": gif[:-1],
        "bytes behind the trailer": gif + b"junk",
        "frame larger than the screen": screen(10, 10),
        "no screen": screen(0, 15),
        "background out of the palette": gif[:11] + b"\xff" + gif[12:],
        "comment": gif[:at] + b"\x21\xfe\x03abc\x00" + gif[at:],
        "unknown extension": gif[:at] + b"\x21\x77\x03abc\x00" + gif[at:],
        "long control extension": gif[:at] + b"\x21\xf9\x05\x01\x00\x00\x05\x00\x00" + gif[at:],
        "stray block": gif[:at] + b"\x55" + gif[at:],
        "no palette": gif[:10] + bytes([gif[10] & 0x7F]) + gif[11:13] + gif[at:],
        "code size 0": gif[: at + 10] + b"\x00" + gif[at + 11 :],
        "cut in the palette": gif[:100],
        "cut in the pixels": gif[: at + 60],
        "trailer first": gif[:at] + b";" + gif[at:],
    }


@pytest.mark.parametrize("fault", sorted(odd_gifs()))
def test_odd_gifs_are_read_or_refused_as_by_the_reference(fault: str) -> None:
    data = odd_gifs()[fault]

    def answer(preprocessor: Any, options: Any, error: type[Exception]) -> tuple[Any, ...]:
        try:
            image = preprocessor.preprocess(data, options)
        except error as refused:
            return (refused.kind,)  # type: ignore[attr-defined]
        return image.width, image.height

    theirs = deepseek_recipe.OpenCvImagePreprocessor(), deepseek_recipe.PreprocessOptions("high", 8192, 512)
    ours = OpenCvImagePreprocessor(), PreprocessOptions("high", 8192, 512)
    assert answer(*ours, ImageError) == answer(*theirs, deepseek_recipe.ImageError)
