"""The root of every error of this distribution; below all rooms, so that they share it without knowing each other."""

from __future__ import annotations


class OffseekError(Exception):
    """Base class of all offseek errors. Never raised itself."""
