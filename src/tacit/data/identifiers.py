"""Columns that look like identifiers: whoever releases one gives away whose row is whose."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = {"id", "ids", "uuid", "guid", "ssn", "email", "mail", "phone", "telephone", "passport", "iban"}
"""Words in the name of a column that say that it identifies people."""
FEWEST_ROWS = 20
"""In tables with fewer rows, different values in every row are no sign of an identifier."""


def looks_like_identifier(name: str, cells: NDArray[Any]) -> bool:
    """Return whether a column looks like an identifier: by its name, or because every row has another integer or text.

    Examples
    --------
    >>> import numpy as np
    >>> looks_like_identifier("PatientID", np.zeros(3)), looks_like_identifier("paid", np.zeros(3))
    (True, False)
    >>> looks_like_identifier("row", np.arange(20.0)), looks_like_identifier("height", np.arange(20) + 0.5)
    (True, False)
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    if NAMES & {part.lower() for part in parts}:
        return True
    if len(cells) < FEWEST_ROWS:
        return False
    if cells.dtype.kind == "f":
        known = cells[np.isfinite(cells)]
        return len(known) >= FEWEST_ROWS and bool((known == np.floor(known)).all()) and _all_differ(known.tolist())
    return _all_differ(cells.tolist())


def _all_differ(values: list[Any]) -> bool:
    return len(set(values)) == len(values)
