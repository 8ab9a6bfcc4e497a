"""Values as JSON that every program reads: its numbers are finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def as_json(values: object) -> str:
    """Return JSON of plain values; a number that is not finite, such as a mean over nothing, becomes null."""
    return json.dumps(_finite(values), indent=2, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
