"""Read a GGUF file: metadata, tensor directory, tensors dequantised to float32.

Format: "GGUF" specification of the ggml project, versions 2 and 3, little endian. The header is parsed
here because `gguf.GGUFReader` takes seconds for the 100,000 strings of a tokenizer (it wraps each one in
numpy arrays); block types and dequantisation come from the `gguf` package. Knows nothing of models.
"""

from __future__ import annotations

import mmap
import pathlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ModelFileError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. `shape` is in row-major order (outermost first), the reverse of the file's."""

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int  # absolute, in bytes
    num_bytes: int


class GGUFFile:
    """An open GGUF file.

    metadata: key -> scalar, str or list; strings that are not UTF-8 keep their bytes as surrogate escapes.
    tensors:  name -> TensorInfo.

    Raises ModelFileError when the file is missing, not GGUF, of an unknown version, or cut off.
    """

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path = pathlib.Path(path)
        try:
            with self.path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise ModelFileError(f"no such model file: {self.path}", path=str(self.path)) from None
        except (OSError, ValueError) as error:
            raise ModelFileError(f"cannot read {self.path}: {error}", path=str(self.path)) from error
        self._pos = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        try:
            self._read_header()
        except (struct.error, IndexError, OverflowError, MemoryError) as error:
            raise self._corrupt(f"header is cut off or damaged near byte {self._pos}") from error

    def _corrupt(self, what: str, **facts: Any) -> ModelFileError:
        return ModelFileError(f"{self.path} is not a usable GGUF file: {what}", path=str(self.path), **facts)

    def _unpack(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._pos)
        self._pos += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        length = self._unpack("Q")
        end = self._pos + length
        if end > len(self._data):
            raise IndexError(end)
        raw = self._data[self._pos : end]
        self._pos = end
        return raw.decode("utf-8", "surrogateescape")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._unpack("I"), self._unpack("Q")
            if inner in _SCALARS:
                values = list(struct.unpack_from(f"<{count}{_SCALARS[inner]}", self._data, self._pos))
                self._pos += struct.calcsize(f"<{count}{_SCALARS[inner]}")
                return values
            if count > len(self._data):
                raise IndexError(count)
            return [self._value(inner) for _ in range(count)]
        if kind not in _SCALARS:
            raise self._corrupt(f"unknown metadata type {kind} near byte {self._pos}")
        return self._unpack(_SCALARS[kind])

    def _read_header(self) -> None:
        from gguf.constants import GGML_QUANT_SIZES

        if self._data[:4] != b"GGUF":
            raise self._corrupt("it does not begin with the bytes 'GGUF'")
        self._pos = 4
        version, num_tensors, num_pairs = self._unpack("I"), self._unpack("Q"), self._unpack("Q")
        if version not in (2, 3):
            raise self._corrupt(f"version {version} (2 and 3 are supported)")
        for _ in range(num_pairs):
            key = self._string()
            self.metadata[key] = self._value(self._unpack("I"))
        entries = []
        for _ in range(num_tensors):
            name, num_dims = self._string(), self._unpack("I")
            if num_dims > _MAX_DIMENSIONS:
                raise self._corrupt(f"tensor '{name}' claims {num_dims} dimensions", tensor=name)
            dims = tuple(self._unpack("Q") for _ in range(num_dims))
            entries.append((name, tuple(reversed(dims)), self._unpack("I"), self._unpack("Q")))
        alignment = self.metadata.get("general.alignment", 32)
        start = -(-self._pos // alignment) * alignment
        sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
        for name, shape, kind, offset in entries:
            if kind not in sizes:
                raise self._corrupt(f"tensor '{name}' has unknown type {kind}", tensor=name)
            block, block_bytes = sizes[kind]
            num_bytes = int(np.prod(shape, dtype=np.uint64)) // block * block_bytes
            if shape and shape[-1] % block:
                raise self._corrupt(f"tensor '{name}': {shape[-1]} columns are no multiple of {block}", tensor=name)
            if start + offset + num_bytes > len(self._data):
                missing = start + offset + num_bytes - len(self._data)
                raise self._corrupt(f"tensor '{name}' ends {missing} bytes past the end of the file", tensor=name)
            self.tensors[name] = TensorInfo(name, shape, kind, start + offset, num_bytes)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as float32 [*shape], dequantised. Raises ModelFileError for unknown names and types."""
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        info = self.tensors.get(name)
        if info is None:
            raise ModelFileError(f"{self.path} has no tensor '{name}'", path=str(self.path), tensor=name)
        raw = np.frombuffer(self._data, np.uint8, info.num_bytes, info.offset)
        kind = GGMLQuantizationType(info.ggml_type)
        if kind == GGMLQuantizationType.F32:
            return raw.view(np.float32).reshape(info.shape)
        if kind == GGMLQuantizationType.F16:
            return raw.view(np.float16).astype(np.float32).reshape(info.shape)
        rows = raw.reshape(*info.shape[:-1], -1) if len(info.shape) > 1 else raw
        try:
            values: NDArray[np.float32] = dequantize(rows, kind)
        except NotImplementedError:
            raise ModelFileError(
                f"{self.path}: tensor '{name}' is stored as {kind.name}, which the gguf package cannot dequantise",
                path=str(self.path), tensor=name, found=kind.name,
            ) from None  # fmt: skip
        return values.reshape(info.shape)
