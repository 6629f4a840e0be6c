"""Pixels: encoded image to the WebP that V4.1 takes in, through OpenCV's wheel (extra `images`).

Steps, observed from the reference package: decode the first frame to 8 bits without turning it, lay it on gray, reduce
it (low detail), scale it into the target size with bicubic interpolation, pad with gray, encode. Sizes come from the
Rust core; nothing here knows about requests or limits other than the side limit it is given.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from offseek import _native

from .errors import ImageError
from .images import ImageInfo, PreprocessOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

PAD_GRAY = 127
ALPHA_GRAY = 253
WEBP_QUALITY = 90

_UNSUPPORTED = (
    "You have uploaded an unsupported image. Please make sure your image is valid and has one of the following "
    "formats: webp, png, jpeg, and gif."
)
# A header that reads well in front of broken pixels: which kind the reference names, by format.
_BROKEN_KIND = {"png": "EmptyImage", "webp": "EmptyImage", "jpeg": "EmptyImage", "gif": "Decode"}


def _cv2() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise ImportError("image preprocessing needs OpenCV: pip install 'offseek[images]'") from error
    return cv2


class OpenCvImagePreprocessor:
    """Preprocesses images with OpenCV. Stateless; may be shared between threads.

    Raises ImportError, naming the extra, when OpenCV is not installed.
    """

    __slots__ = ()

    def __init__(self) -> None:
        _cv2()

    def preprocess(self, data: bytes, options: PreprocessOptions) -> ImageInfo:
        """The image as the model takes it in: lossy WebP, quality 90.

        Raises ImageError: `EmptyImage`, `UnsupportedMediaType`, `Decode`, or `ImageDimensionsTooLarge` (by the declared
        size, before any pixel is decoded).
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        if not isinstance(options, PreprocessOptions):
            raise TypeError(f"options must be PreprocessOptions, not {type(options).__name__}")
        with _plain_opencv():
            return self._preprocess(bytes(data), options)

    def _preprocess(self, data: bytes, options: PreprocessOptions) -> ImageInfo:
        try:
            format, width, height, is_animated_webp = _native.read_image_header(data)
        except ImageError as error:
            raise _fault(error.kind) from error
        if max(width, height) > options.max_dimension_px:
            raise _fault("ImageDimensionsTooLarge")
        try:
            _native.check_image_body(data)
        except ImageError as error:
            raise _fault(error.kind) from error
        decoded = _decode_gif(data, width, height) if format == "gif" else _decode(data, format)
        pixels = _on_gray(decoded, drop_alpha=is_animated_webp)
        low = options.low_detail_max_dimension_px if options.detail == "low" else None
        height, width = pixels.shape[:2]
        reduced, target = _native.fit_image_size(width, height, low_detail_max_dimension_px=low)
        cv2 = _cv2()
        if reduced != (width, height):
            pixels = cv2.resize(pixels, reduced, interpolation=cv2.INTER_AREA)
        pixels = _contain(pixels, target)
        ok, encoded = cv2.imencode(".webp", pixels, [cv2.IMWRITE_WEBP_QUALITY, WEBP_QUALITY])
        if not ok:
            raise _fault("Decode")
        return ImageInfo(encoded.tobytes(), *target)


@contextlib.contextmanager
def _plain_opencv() -> Iterator[None]:
    """OpenCV's own code instead of Intel's IPP, on this thread: IPP rounds some pixels differently, so that the output
    would no longer be the reference's byte for byte."""
    ipp = getattr(_cv2(), "ipp", None)
    if ipp is None:
        yield
        return
    before = ipp.useIPP()
    ipp.setUseIPP(False)
    try:
        yield
    finally:
        ipp.setUseIPP(before)


def _fault(kind: str) -> ImageError:
    return ImageError(f"image[0]: {_UNSUPPORTED}", kind)


def _decode(data: bytes, format: str) -> Pixels:
    """uint8 [height, width] or [height, width, 3 or 4] (BGR order) of the first frame."""
    import numpy as np

    cv2 = _cv2()
    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise _fault(_BROKEN_KIND[format]) from error
    if pixels is None or pixels.size == 0:
        raise _fault(_BROKEN_KIND[format])
    if pixels.dtype == np.uint16:
        pixels = ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return pixels  # type: ignore[no-any-return]


def _decode_gif(data: bytes, width: int, height: int) -> Pixels:
    """The first frame of a GIF, as `_decode` gives it; uint8 [height, width, 4] where only Pillow reads it.

    OpenCV wants all frames whole and inside the screen, and codes without a fault; the reference does not.
    """
    import numpy as np

    if not _gif_begins_well(data):
        raise _fault("Decode")
    try:
        return _decode(data, "gif")
    except ImageError as refused:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(data), formats=("GIF",)) as image:
                rgba = np.asarray(image.crop((0, 0, width, height)).convert("RGBA"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Warning) as error:
            raise refused from error
        return np.ascontiguousarray(rgba[..., [2, 1, 0, 3]])


def _gif_begins_well(data: bytes) -> bool:
    """Whether the blocks in front of the first image (GIF89a, sections 18 to 26) are ones that the reference reads."""

    def palette_bytes(flags: int) -> int:
        return 3 << ((flags & 7) + 1) if flags & 0x80 else 0

    try:
        at = 13 + palette_bytes(data[10])
        while data[at] == 0x21:
            label, size = data[at + 1], data[at + 2]
            if label not in (0x01, 0xF9, 0xFE, 0xFF) or (label == 0xF9 and size != 4):
                return False
            at += 2
            while data[at]:
                at += data[at] + 1
            at += 1
        if data[at] != 0x2C:
            return False
        local = palette_bytes(data[at + 9])
        return bool(local or data[10] & 0x80) and data[at + 10 + local] > 0
    except IndexError:
        return True  # cut off: the decoders say how


def _on_gray(pixels: Pixels, *, drop_alpha: bool) -> Pixels:
    """uint8 [height, width, 3]: gray expanded, alpha blended with gray 253."""
    import numpy as np

    cv2 = _cv2()
    if pixels.ndim == 2:
        return cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)  # type: ignore[no-any-return]
    if pixels.shape[2] == 3:
        return pixels
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    if drop_alpha or alpha.min() == 255:
        return np.ascontiguousarray(colour)
    # 255 is odd, so a fraction of 255 is never half-way: adding 127 before the division rounds to nearest.
    weight = alpha.astype(np.uint16)
    blended = colour * weight + (255 - weight) * np.uint16(ALPHA_GRAY) + np.uint16(127)
    return (blended // 255).astype(np.uint8)


def _contain(pixels: Pixels, target: tuple[int, int]) -> Pixels:
    """Scale into `target` (width, height) keeping the shape, centred on gray."""
    import numpy as np

    cv2 = _cv2()
    height, width = pixels.shape[:2]
    if (width, height) == target:
        return pixels
    target_width, target_height = target
    # `round` goes half to even, as the reference does.
    if width / height > target_width / target_height:
        size = target_width, max(1, round(height / width * target_width))
    else:
        size = max(1, round(width / height * target_height)), target_height
    if size != (width, height):
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_CUBIC)
    if size == target:
        return pixels
    left = round((target_width - size[0]) / 2)
    top = round((target_height - size[1]) / 2)
    canvas = np.full((target_height, target_width, 3), PAD_GRAY, np.uint8)
    canvas[top : top + size[1], left : left + size[0]] = pixels
    return canvas
