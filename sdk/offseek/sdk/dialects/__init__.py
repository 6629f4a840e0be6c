"""Ways of prompting checkpoints and reading their output; see `base` for the seam."""

from __future__ import annotations
