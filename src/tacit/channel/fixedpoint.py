"""Fixed point: numbers that leave a holder are integers on a grid, added exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, RangeError, kind_of, parameter, words

LIMIT = 2**62
"""Encoded numbers and totals stay below this in magnitude: a sum of two still fits 64 bits, so it never wraps."""


@dataclass(frozen=True)
class Grid:
    """The multiples of ``2**exponent``.

    Parameters
    ----------
    exponent : int
        Binary logarithm of the step; -40 keeps 40 fractional bits. A power of two makes scaling exact.

    Examples
    --------
    >>> from tacit.channel import Grid
    >>> grid = Grid(-3)
    >>> grid.encode([0.25, -1.3])
    array([  2, -10])
    >>> grid.decode(grid.encode([0.25, -1.3]))
    array([ 0.25, -1.25])
    """

    exponent: int

    def __post_init__(self) -> None:
        if isinstance(self.exponent, bool) or not isinstance(self.exponent, int) or not -900 <= self.exponent <= 900:
            raise InvalidInputError(
                "an exponent between -900 and 900", parameter(self.exponent), "Use -40 for 40 fractional bits."
            )

    @property
    def step(self) -> float:
        """The distance between neighbouring grid points."""
        return math.ldexp(1.0, self.exponent)

    def encode(self, values: ArrayLike) -> NDArray[np.int64]:
        """Round to the nearest grid point, as integers; what does not fit raises `RangeError`."""
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise InvalidInputError("real numbers to put on the grid", kind_of(array), "Convert the data to floats.")
        with np.errstate(over="ignore"):  # an overflow becomes infinity, which is refused below
            scaled = np.rint(np.ldexp(array.astype(np.float64), -self.exponent))
        # NaN compares false, so it is caught here too
        if not np.all(np.abs(scaled) < LIMIT):
            raise RangeError(
                f"numbers below {math.ldexp(float(LIMIT), self.exponent):.3g} in magnitude on a grid of step {self.step:.3g}",
                words("a number beyond that, or NaN or infinity"),
                "Scale or clip the data, or use a coarser grid. Nothing was sent.",
            )
        return scaled.astype(np.int64)

    def decode(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers that the integers stand for."""
        return np.ldexp(integers.astype(np.float64), self.exponent)


def exact_sum(terms: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add integer arrays exactly; a total beyond the range raises `RangeError`, it never wraps."""
    total = terms[0].copy()
    for term in terms[1:]:
        total += term  # both below 2^62 in magnitude, so this cannot wrap
        if not np.all(np.abs(total) < LIMIT):
            raise RangeError(
                f"totals below {LIMIT} grid steps in magnitude",
                words("a larger one"),
                "Use a coarser grid. Nothing was sent.",
            )
    return total
