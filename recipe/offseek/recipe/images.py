"""Images of V4.1 requests: from the sources of a conversation to what the model takes in.

`ImageResolver` loads every source (data URL, external URL, bytes), holds the request's limits, and hands the bytes to
a preprocessor; the result goes with the prompt, whose length `image_token_adjustment` corrects. Rules, texts and the
order of checks are those of the reference package (`docs/images.md`). Knows nothing of pixels (`image_preprocessor`) or
sockets (`image_fetcher`).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from offseek import _native

from .errors import ImageError

ImageDetail = Literal["low", "high", "original", "auto"]

MAX_IMAGES = 600
MAX_IMAGE_BYTES = 32 << 20
MAX_TOTAL_BYTES = 64 << 20
MAX_SIDE_PX = 8192
MAX_SIDE_MANY_PX = 4096
MANY_IMAGES = 15
MAX_URL_BYTES = 8192
LOW_DETAIL_PX = 512

_DETAILS = ("low", "high", "original", "auto")
_U32_MAX = 2**32 - 1
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def _check_u32(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 <= value <= _U32_MAX:
        raise OverflowError(f"{name} {value} is not in 0..{_U32_MAX}")


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """A preprocessed image.

    data: encoded image (WebP from `OpenCvImagePreprocessor`).
    width, height: its size in px; unsigned 32-bit, else OverflowError.
    """

    data: bytes
    width: int
    height: int

    def __post_init__(self) -> None:
        _check_u32("width", self.width)
        _check_u32("height", self.height)

    def __repr__(self) -> str:
        return f"ImageInfo({len(self.data)} bytes, width={self.width}, height={self.height})"


class MultiModalData:
    """Images in the order of their placeholders in the prompt."""

    __slots__ = ("_images",)

    def __init__(self, images: Sequence[ImageInfo] | None = None) -> None:
        self._images = tuple(images or ())
        for image in self._images:
            if not isinstance(image, ImageInfo):
                raise TypeError(f"images must be ImageInfo, not {type(image).__name__}")

    @property
    def images(self) -> list[ImageInfo]:
        return list(self._images)

    def is_empty(self) -> bool:
        return not self._images

    def image_token_adjustment(self) -> int:
        """Input tokens of the model beyond one per placeholder.

        Raises CalcResizeError when fitting an image to the token limit does not converge.
        """
        return _native.image_token_adjustment([(image.width, image.height) for image in self._images])

    def __repr__(self) -> str:
        return f"MultiModalData({self.images!r})"


class ImageQuota:
    """Images and encoded bytes of the resolve calls of one request that succeeded so far.

    Pass the same quota to every call of a request; a call that fails adds nothing. Not for concurrent calls.
    """

    __slots__ = ("_byte_size", "_image_count")

    def __init__(self) -> None:
        self._image_count = 0
        self._byte_size = 0

    def image_count(self) -> int:
        return self._image_count

    def byte_size(self) -> int:
        return self._byte_size

    def _add(self, num_images: int, num_bytes: int) -> None:
        self._image_count += num_images
        self._byte_size += num_bytes


@dataclass(frozen=True, slots=True)
class PreprocessOptions:
    """How to preprocess one image.

    detail: `low` reduces the image first; `high`, `original` and `auto` are the same.
    max_dimension_px: longest side accepted, inclusive; judged by the header, before pixels are decoded.
    low_detail_max_dimension_px: long side after the reduction.

    Raises ValueError for another detail, OverflowError for sizes that are not unsigned 32-bit.
    """

    detail: ImageDetail
    max_dimension_px: int
    low_detail_max_dimension_px: int

    def __post_init__(self) -> None:
        if self.detail not in _DETAILS:
            raise ValueError(f'invalid detail "{self.detail}"; expected "low", "high", "original", or "auto"')
        _check_u32("max_dimension_px", self.max_dimension_px)
        _check_u32("low_detail_max_dimension_px", self.low_detail_max_dimension_px)


class ImageSourceLike(Protocol):
    """What the resolver reads of an image source (`DataUrlImageSource`, `UrlImageSource`, `BytesImageSource`)."""

    @property
    def kind(self) -> Literal["data_url", "url", "bytes"]: ...
    @property
    def detail(self) -> ImageDetail: ...
    @property
    def data_url(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def data(self) -> bytes | None: ...
    @property
    def path(self) -> str: ...


class Fetcher(Protocol):
    """Downloads one image; raises ImageError."""

    def fetch(self, url: str) -> bytes: ...


class Preprocessor(Protocol):
    """Turns encoded bytes into what the model takes in; raises ImageError."""

    def preprocess(self, data: bytes, options: PreprocessOptions) -> ImageInfo: ...


@dataclass(frozen=True, slots=True)
class _Location:
    """Where a source stands in the request; `index` counts earlier sources of the call with the same path."""

    path: str
    index: int

    @property
    def image(self) -> str:
        return f"{self.path}.image[{self.index}]" if self.path else f"image[{self.index}]"


def download_error(url: str, kind: str, *, is_retryable: bool) -> ImageError:
    """The error of a download that failed (without a location in its text)."""
    return ImageError(f"Failed to download image from {url}", kind, is_retryable)


class ImageResolver:
    """Loads and preprocesses the image sources of a request within its limits.

    fetcher: downloads external URLs, such as `ImageFetcher`. Several downloads of one call run at the same time.
    preprocessor: such as `OpenCvImagePreprocessor`.
    num_downloads: most downloads at the same time.
    retry_waits_s: waits before the second and later attempts of a download whose failure is retryable.
    num_workers: images preprocessed at the same time, each with one decoded image in memory; default: one per core, at
        most 4.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        preprocessor: Preprocessor,
        *,
        num_downloads: int = 8,
        num_workers: int | None = None,
        retry_waits_s: Sequence[float] = (0.2, 0.5, 1.2),
    ) -> None:
        if num_downloads < 1 or (num_workers is not None and num_workers < 1):
            raise ValueError("num_downloads and num_workers must be at least 1")
        self._fetcher = fetcher
        self._preprocessor = preprocessor
        self._num_downloads = num_downloads
        self._retry_waits_s = tuple(retry_waits_s)
        self._num_workers = num_workers or min(4, os.cpu_count() or 1)

    def resolve(self, sources: Sequence[ImageSourceLike], quota: ImageQuota) -> MultiModalData:
        """Images of `sources`, in order; `quota` counts them if, and only if, all succeed.

        Raises ImageError with the place of the source that failed: stage by stage (count, loading, total size,
        preprocessing), and within a stage the first source in order.
        """
        _check_sources(sources)
        locations = _locations(sources)
        num_images = quota.image_count() + len(sources)
        _check_count(sources, quota.image_count())
        loaded = self._load_all(sources, locations, quota.byte_size())
        total = quota.byte_size()
        for (_, size), location in zip(loaded, locations, strict=True):
            total += size
            if total > MAX_TOTAL_BYTES:
                limit, got = MAX_TOTAL_BYTES >> 20, total >> 20
                text = f"Total image size exceeds the limit: max {limit} MB per request, got {got} MB"
                raise ImageError(_at(location.path, text), "TotalSizeTooLarge")
        side = MAX_SIDE_MANY_PX if num_images >= MANY_IMAGES else MAX_SIDE_PX

        def preprocess(i: int) -> ImageInfo:
            data = loaded[i][0]
            assert data is not None  # only dropped once the total is over the limit
            try:
                return self._preprocessor.preprocess(data, PreprocessOptions(sources[i].detail, side, LOW_DETAIL_PX))
            except ImageError as error:
                raise _relocated(error, locations[i]) from error

        images = _map_in_order(preprocess, range(len(sources)), self._num_workers)
        quota._add(len(sources), total - quota.byte_size())
        return MultiModalData(images)

    def _load_all(
        self, sources: Sequence[ImageSourceLike], locations: Sequence[_Location], before: int
    ) -> list[tuple[bytes | None, int]]:
        """Bytes and size of each source; raises the error of the first, in order, that does not load.

        Sources that need no network come first: when one fails, only downloads in front of it can matter. Bytes are
        dropped once all of them are over the total limit, which the caller reports after every source is known to load:
        memory stays bounded however many sources there are.
        """
        loaded: list[tuple[bytes | None, int]] = [(None, 0)] * len(sources)
        total = [before]

        def keep(i: int, data: bytes) -> None:
            total[0] += len(data)  # a lost update between threads only keeps more; the caller adds up the sizes again
            loaded[i] = (data if total[0] <= MAX_TOTAL_BYTES else None), len(data)

        downloads = []
        failure: ImageError | None = None
        for i, (source, location) in enumerate(zip(sources, locations, strict=True)):
            try:
                if source.url is not None:
                    _check_url(source.url, location)
                    downloads.append(i)
                else:
                    keep(i, _load_local(source, location))
            except ImageError as error:
                failure = error
                break

        def download(i: int) -> None:
            url = sources[i].url
            assert url is not None
            try:
                keep(i, self._download(url))
            except ImageError as error:
                raise _relocated(error, locations[i]) from error

        _map_in_order(download, downloads, self._num_downloads)
        if failure is not None:
            raise failure
        return loaded

    def _download(self, url: str) -> bytes:
        for wait_s in (*self._retry_waits_s, None):
            try:
                data = self._fetcher.fetch(url)
            except ImageError as error:
                if error.kind == "ImageTooLarge":
                    raise download_error(url, "Fetch", is_retryable=True) from error
                if wait_s is None or not error.is_retryable:
                    raise
                time.sleep(wait_s)
            else:
                break
        if len(data) > MAX_IMAGE_BYTES:  # a fetcher with a larger limit, or none
            raise download_error(url, "Fetch", is_retryable=True)
        return data


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _check_sources(sources: Sequence[ImageSourceLike]) -> None:
    for source in sources:
        if getattr(source, "kind", None) not in ("data_url", "url", "bytes"):
            raise TypeError(f"sources must be image sources, not {type(source).__name__}")


def _locations(sources: Iterable[ImageSourceLike]) -> list[_Location]:
    seen: Counter[str] = Counter()
    locations = []
    for source in sources:
        locations.append(_Location(source.path, seen[source.path]))
        seen[source.path] += 1
    return locations


def _check_count(sources: Sequence[ImageSourceLike], before: int) -> None:
    num_images = before + len(sources)
    if num_images > MAX_IMAGES:
        first = sources[max(MAX_IMAGES - before, 0)]
        text = f"Too many images: max {MAX_IMAGES} images per request, got {num_images}"
        raise ImageError(_at(first.path, text), "TooManyImages")


def _check_url(url: str, location: _Location) -> None:
    num_bytes = len(url.encode())
    if num_bytes > MAX_URL_BYTES:
        text = f"external link length {num_bytes} too long, max link length {MAX_URL_BYTES}"
        raise ImageError(_at(location.path, text), "UrlTooLong")
    if not url[:8].lower().startswith(("http://", "https://")):
        raise ImageError(_at(location.path, f'invalid url: "{url}"'), "InvalidUrl")


def _load_local(source: ImageSourceLike, location: _Location) -> bytes:
    try:
        if source.data_url is not None:
            return _native.decode_data_url(source.data_url, MAX_IMAGE_BYTES)
        data = source.data or b""
        if len(data) > MAX_IMAGE_BYTES:
            raise ImageError(f"image file size exceeds limit {MAX_IMAGE_BYTES >> 20} MB", "ImageTooLarge")
        if not data:
            _native.read_image_header(data)  # raises EmptyImage
        return data
    except ImageError as error:
        raise _relocated(error, location) from error


def _relocated(error: ImageError, location: _Location) -> ImageError:
    """`error` of a component at `location`; components on their own say `image[0]`."""
    text = str(error).removeprefix("image[0]: ")
    return ImageError(f"{location.image}: {text}", error.kind, error.is_retryable)


def _map_in_order(work: Callable[[_Item], _Result], items: Sequence[_Item], num_threads: int) -> list[_Result]:
    """Results of `work` in order; raises the error of the first item that fails, and then starts no more items."""
    if num_threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(num_threads, len(items))) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
