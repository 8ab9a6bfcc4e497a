"""The certificate of an audit: what was audited, what is claimed, what attacks showed, which planted bugs they caught."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, words
from tacit.privacy.ledger.store import canonical_json

FORMAT = 1
"""Version of the file; it is raised when a field changes its meaning."""
PRIVATE, MADE_UP = "private", "made up"
FOR_THE_HOLDER = (
    "For the holder of the data. The lower bounds were measured on the data without noise, so publishing this certificate is a "
    "release that no budget covers. Repeat the audit on made-up data of the same public shape to publish one."
)
MAY_BE_PUBLISHED = (
    "The audit used made-up data. This certificate says nothing about a person's data and may be published at no cost."
)


@dataclass(frozen=True)
class Certificate:
    """A record that can be filed; `digest` covers all of it and is what a ledger chains.

    Attributes
    ----------
    content : mapping
        All fields, as plain values.
    """

    content: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The hash of all fields."""
        return f"sha256:{hashlib.sha256(canonical_json(self.content).encode('ascii')).hexdigest()}"

    @property
    def may_be_published(self) -> bool:
        """Whether the audit used no private data."""
        return bool(self.content["data"] == MADE_UP)

    def to_json(self) -> str:
        """Return the certificate with its digest as JSON."""
        return json.dumps({**self.content, "digest": self.digest}, indent=2)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate; raise if a field was changed since it was written."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        digest = values.pop("digest", None)
        certificate = Certificate(values)
        if digest != certificate.digest:
            raise InvalidInputError(
                "a certificate whose digest is that of its fields",
                words("another"),
                "The file was changed or cut off: ask for the original.",
            )
        return certificate


def finite(value: float) -> float | str:
    """Return a number, or a word for infinity, which JSON does not have."""
    return value if math.isfinite(value) else "infinite"
