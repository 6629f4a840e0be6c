"""Errors of the kernels: wrong shapes or dtypes, and devices without a kernel."""

from __future__ import annotations

from offseek._errors import OffseekError


class KernelError(OffseekError):
    """Base class of this package's errors."""


class ShapeError(KernelError, ValueError):
    """A tensor has the wrong shape, dtype, layout or device; the message names the tensor and what was expected."""


class UnsupportedDeviceError(KernelError, RuntimeError):
    """The asked-for backend cannot run on the tensor's device."""
