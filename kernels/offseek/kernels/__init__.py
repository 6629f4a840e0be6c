"""Triton kernels, each with a plain torch twin: masking, deterministic sampling, batch-invariant ops."""

from .bitmask import apply_token_bitmask_inplace, unpack_bitmask
from .errors import KernelError, ShapeError, UnsupportedDeviceError
from .sampling import (
    STATUS_NON_FINITE,
    STATUS_NOTHING_ALLOWED,
    STATUS_OK,
    Penalties,
    RowSettings,
    SampleOutput,
    sample,
)

__all__ = [
    "STATUS_NON_FINITE",
    "STATUS_NOTHING_ALLOWED",
    "STATUS_OK",
    "KernelError",
    "Penalties",
    "RowSettings",
    "SampleOutput",
    "ShapeError",
    "UnsupportedDeviceError",
    "apply_token_bitmask_inplace",
    "sample",
    "unpack_bitmask",
]
