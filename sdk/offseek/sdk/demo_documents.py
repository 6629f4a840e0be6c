"""Real documents for the demo: the metadata files of the installed Python packages.

A document is the start of a package's METADATA (core metadata specification, packaging.python.org): its header lines
and the beginning of its README. The same file gives the truth to compare with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from typing import Any, cast

from offseek.sdk.documents import Document

# Spellings of a licence that name it without doubt.
_LICENSES = {
    "MIT": "MIT",
    "MIT License": "MIT",
    "Apache-2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "BSD-3-Clause": "BSD-3-Clause",
    "BSD-2-Clause": "BSD-2-Clause",
    "MPL-2.0": "MPL-2.0",
    "PSF-2.0": "PSF-2.0",
}
LICENSES = tuple(dict.fromkeys(_LICENSES.values()))
_HEADER = ("Name", "Version", "Summary", "License", "License-Expression", "Requires-Python")
_README_CHARS = 160
_MAX_REQUIRED = 3


@dataclass(frozen=True, slots=True)
class PackageDocument:
    """One package: the text to read, and the facts that it states."""

    document: Document
    truth: dict[str, Any]


def package_documents(limit: int) -> list[PackageDocument]:
    """Up to `limit` installed packages, by name, whose metadata states every fact of the demo's schema."""
    found = (_read(distribution) for distribution in metadata.distributions())
    usable = {entry.document.id: entry for entry in found if entry is not None}
    return [usable[name] for name in sorted(usable, key=str.lower)][:limit]


def _read(distribution: metadata.Distribution) -> PackageDocument | None:
    meta = distribution.metadata
    fields = {key: str(meta[key]).strip() for key in _HEADER if key in meta}
    classifiers = [str(c) for c in meta.get_all("Classifier") or []]
    license_name = _LICENSES.get(fields.get("License-Expression") or fields.get("License") or "")
    status = next((c for c in classifiers if c.startswith("Development Status ::")), None)
    minimum = re.match(r">=\s*(3\.\d+)", fields.get("Requires-Python", ""))
    required = [r for r in map(str, meta.get_all("Requires-Dist") or []) if ";" not in r][:_MAX_REQUIRED]
    if license_name is None or status is None or minimum is None or not required:
        return None
    lines = [f"{key}: {value}" for key, value in fields.items()]
    lines += [f"Requires-Dist: {requirement}" for requirement in required]
    lines.append(f"Classifier: {status}")
    readme = re.sub(r"\s+", " ", str(cast(Message, meta).get_payload() or ""))[:_README_CHARS]
    number = int(re.findall(r"\d", status)[0])
    truth = {
        "name": fields["Name"],
        "version": fields["Version"],
        "license": license_name,
        "python": {"minimum": minimum[1]},
        "requires": [re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in required],
        "status": number,
        "production_stable": number == 5,
    }
    return PackageDocument(Document(fields["Name"], "\n".join(lines) + "\n\n" + readme), truth)
