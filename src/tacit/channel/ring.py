"""Whole numbers modulo 2^64 or 2^128, in arrays: what masked numbers are made of.

Elements are `uint64` arrays of shape (words, n), least significant word first, in two's complement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel.fixedpoint import Grid
from tacit.errors import InvalidInputError, RangeError, parameter, words

Elements = NDArray[np.uint64]
_WORD = 64


@dataclass(frozen=True)
class Ring:
    """The integers modulo ``2**(64 * words)``.

    Parameters
    ----------
    words : {1, 2}

    Examples
    --------
    >>> from tacit.channel import Grid
    >>> from tacit.channel.ring import Ring
    >>> ring, grid = Ring(2), Grid(-40)
    >>> a, b = (ring.encode(values, grid, parties=2) for values in ([1e9, -2.5], [0.25, 1.0]))
    >>> ring.decode(ring.plus(a, b), grid)
    array([ 1.0e+09, -1.5e+00])
    """

    words: int = 1

    def __post_init__(self) -> None:
        if self.words not in (1, 2):
            raise InvalidInputError(
                "1 or 2 words of 64 bits", parameter(self.words), "Use 2 where 64 bits are too few."
            )

    def encode(self, values: ArrayLike, grid: Grid, *, parties: int) -> Elements:
        """Round to the grid; what could make a total of so many parties wrap raises `RangeError`."""
        with np.errstate(over="ignore"):  # an overflow becomes infinity, which is refused below
            scaled = np.asarray(values, dtype=np.float64).ravel() * math.ldexp(1.0, -grid.exponent)
        np.rint(scaled, out=scaled)
        self._check(_largest(scaled) < math.ldexp(1.0, _WORD * self.words - 2) / parties, grid, parties)
        if self.words == 1:
            return scaled.astype(np.int64).view(np.uint64)[None]
        # of the magnitude, not of the number: 2^64 - x need not be a float where x is
        size = np.abs(scaled)
        upper = np.floor(np.ldexp(size, -_WORD))
        lower = size - np.ldexp(upper, _WORD)
        elements = np.stack([lower.astype(np.uint64), upper.astype(np.uint64)])
        return np.where(scaled < 0, self.minus(np.zeros_like(elements), elements), elements)

    def of_integers(self, integers: NDArray[np.int64], *, parties: int) -> Elements:
        """Take integers as they are, under the same condition; one word only."""
        flat = np.ascontiguousarray(integers, dtype=np.int64).ravel()
        most = 2 ** (_WORD - 2) // parties  # compared from both sides: the least integer has no magnitude
        self._check(bool(np.all((flat < most) & (flat > -most))), Grid(0), parties)
        return flat.view(np.uint64)[None]

    def decode(self, elements: Elements, grid: Grid) -> NDArray[np.float64]:
        """Return the numbers that the elements stand for, rounded to 53 bits."""
        signed = elements[-1].view(np.int64).astype(np.float64)
        if self.words == 2:
            # Near zero the upper word of a negative number is -1 and the lower one huge: negate first, so that no
            # digits cancel, then put the sign back.
            negative = elements[1].view(np.int64) < 0
            size = np.where(negative, self.minus(np.zeros_like(elements), elements), elements)
            magnitude = np.ldexp(size[1].astype(np.float64), _WORD) + size[0].astype(np.float64)
            signed = np.where(negative, -magnitude, magnitude)
        numbers: NDArray[np.float64] = signed
        numbers *= grid.step  # a power of two: exact
        return numbers

    def plus(self, left: Elements, right: Elements) -> Elements:
        """Add, wrapping."""
        total = left + right
        if self.words == 2:
            total[1] += total[0] < left[0]
        return total

    def minus(self, left: Elements, right: Elements) -> Elements:
        """Subtract, wrapping."""
        rest = left - right
        if self.words == 2:
            rest[1] -= left[0] < right[0]
        return rest

    def _check(self, fits: bool, grid: Grid, parties: int) -> None:
        if not fits:
            most = math.ldexp(1.0, _WORD * self.words - 2 + grid.exponent) / parties
            raise RangeError(
                f"numbers below {most:.3g} in magnitude ({_WORD * self.words} bits, step {grid.step:.3g}, {parties} parties)",
                words("a number beyond that, or NaN or infinity"),
                "Scale the data down, use words of 128 bits, or a coarser grid. Nothing was sent.",
            )


def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest magnitude; with NaN among the values it is NaN, which compares false."""
    return max(float(np.max(values)), -float(np.min(values))) if values.size else 0.0
