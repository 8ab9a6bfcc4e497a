"""Measures that are tried one by one: those that a table does not allow are left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, TypeVar

from tacit.errors import TacitError
from tacit.validation import reason_of

Found = TypeVar("Found")


class Attempts:
    """Keeps, while several measures are taken, why some of them could not be.

    Attributes
    ----------
    left_out : dict of str to str
        What was left out, and why, in words.

    Examples
    --------
    >>> from tacit.measure import canonical_correlation
    >>> attempts = Attempts()
    >>> attempts.take("CCA", lambda: canonical_correlation([[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]))
    >>> attempts.left_out["CCA"]
    'needs more rows than the 2 columns; got 2 rows'
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def take(self, name: str, measure: Callable[[], Found], *, asked: bool = False) -> Found | None:
        """Return what `measure` finds; None, and a reason kept, where it refuses or finds no finite number.

        `asked` is for what the user set by hand: that it cannot be had is then an error, not something to leave out.
        """
        try:
            found = measure()
        except ValueError as error:  # tacit's refusals, and those of scikit-learn and numpy, are of this kind
            if asked:
                raise
            self.left_out[name] = reason(error)
            return None
        if not all(map(isfinite, _figures(found))):
            self.left_out[name] = "has no finite value here: the values are too large or too close together"
            return None
        return found


def reason(error: ValueError) -> str:
    """Return why something was refused, as a phrase for a report."""
    if isinstance(error, TacitError):
        return f"needs {error.expected}; got {error.got}"
    return f"cannot be computed here: {reason_of(error)}"


def _figures(found: Any) -> list[float]:
    """Return the numbers that a finding, a score or a plain figure consists of."""
    if isinstance(found, float):
        return [found]
    parts = found if isinstance(found, tuple) else vars(found).values() if is_dataclass(found) else ()
    return [figure for part in parts for figure in _figures(part)]
