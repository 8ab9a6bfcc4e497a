"""Fixed point: numbers that leave a holder are integers on a grid, added exactly, or modulo 2^64 or 2^128.

`Grid` rounds numbers to multiples of a power of two. `Ring` has the same integers as words of 64 bits that wrap, which is
what masks need: its elements are `uint64` arrays of shape (words, n), least significant word first, in two's complement.
Signed numbers that fit one word may be given as elements of one word in a ring of two, until they are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, RangeError, kind_of, parameter, words
from tacit.privacy.long_arrays import empty, in_parts

LIMIT = 2**62
"""Encoded numbers and totals stay below this in magnitude: a sum of two still fits 64 bits, so it never wraps."""
Elements = NDArray[np.uint64]
_WORD = 64
"""Bits of one word of a ring."""

MANY = 2**16
"""From this many numbers on, a compiled loop puts them on a grid in one pass; it takes a while to load."""
MANY_PER_CORE = 2**17
"""Numbers that a core puts on a grid, or takes off it, at least (about 0.1 ms of work): two cores take part from twice as many
on."""
MANY_WORDS = 2**14
"""From this many words on, a compiled loop adds numbers of 128 bits in one pass."""


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
        # the product with a power of two is exact, like ldexp, and several times faster
        factor = math.ldexp(1.0, -self.exponent)
        if array.size >= MANY and array.dtype == np.float64 and array.flags.c_contiguous:
            from tacit.channel.word_loops import put_on_grid

            integers = empty(array.shape, np.int64)
            values, put = array.reshape(-1), integers.reshape(-1)
            fits = all(
                in_parts(
                    lambda part: put_on_grid(values[part], factor, float(LIMIT), put[part]), values.size, MANY_PER_CORE
                )
            )
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinity, or is NaN, does not fit
                scaled = np.rint(np.multiply(array, factor, dtype=np.float64))
                fits = bool(np.all(np.abs(scaled) < LIMIT))
                integers = scaled.astype(np.int64)
        if not fits:
            raise RangeError(
                f"numbers below {math.ldexp(float(LIMIT), self.exponent):.3g} in magnitude on a grid of step {self.step:.3g}",
                words("a number beyond that, or NaN or infinity"),
                "Scale or clip the data, or use a coarser grid. Nothing was sent.",
            )
        return integers

    def decode(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers that the integers stand for."""
        if not (integers.size >= MANY and integers.dtype == np.int64 and integers.flags.c_contiguous):
            return np.asarray(np.multiply(integers, self.step, dtype=np.float64))
        from tacit.channel.word_loops import take_off_grid

        values = empty(integers.shape, np.float64)
        given, put = integers.reshape(-1), values.reshape(-1)
        in_parts(lambda part: take_off_grid(given[part], self.step, put[part]), given.size, MANY_PER_CORE)
        return values


def exact_sum(terms: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add integer arrays exactly; a total beyond the range raises `RangeError`, it never wraps.

    The total of a single array is that array itself.
    """
    if len(terms) == 1:
        return terms[0]
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


@dataclass(frozen=True)
class Ring:
    """The integers modulo ``2**(64 * words)``.

    Parameters
    ----------
    words : {1, 2}

    Examples
    --------
    >>> from tacit.channel import Grid
    >>> from tacit.channel.fixedpoint import Ring
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
        """Round to the grid; raise `RangeError` for values with which a total over all parties could wrap."""
        return self._encoded(np.asarray(values, dtype=np.float64).ravel(), grid, parties)

    def encode_all(self, vectors: Sequence[NDArray[np.float64]], grid: Grid, *, parties: int) -> Elements:
        """Return the elements of several vectors, one after the other; see `encode`. They have one word if all fit that."""
        ends = np.cumsum([vector.size for vector in vectors])
        lower = np.empty(int(ends[-1]), dtype=np.int64)
        for vector, end in zip(vectors, ends, strict=True):
            if not self._put(vector, grid, parties, lower[end - vector.size : end]):
                return np.concatenate([self._encoded(vector, grid, parties) for vector in vectors], axis=1)
        return lower.view(np.uint64)[None]

    def _put(self, vector: NDArray[np.float64], grid: Grid, parties: int, integers: NDArray[np.int64]) -> bool:
        """Set integers of one word; return whether all numbers fit it and the ring."""
        most = min(math.ldexp(1.0, _WORD * self.words - 2) / parties, math.ldexp(1.0, _WORD - 1))
        if vector.size >= MANY and vector.flags.c_contiguous:
            from tacit.channel.word_loops import put_on_grid

            return bool(put_on_grid(vector, math.ldexp(1.0, -grid.exponent), most, integers))
        scaled = _scaled(vector, grid)
        fits = _largest(scaled) < most
        if fits:
            integers[:] = scaled
        return fits

    def _encoded(self, vector: NDArray[np.float64], grid: Grid, parties: int) -> Elements:
        scaled = _scaled(vector, grid)
        largest = _largest(scaled)
        self._check(largest < math.ldexp(1.0, _WORD * self.words - 2) / parties, grid, parties)
        if self.words == 1:
            return scaled.astype(np.int64).view(np.uint64)[None]
        if largest < 2.0 ** (_WORD - 1):  # the usual case, many times faster: the upper word is the sign
            signed = np.empty((2, scaled.size), dtype=np.int64)
            signed[0] = scaled
            np.right_shift(signed[0], _WORD - 1, out=signed[1])
            return signed.view(np.uint64)
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
        parts = in_parts(lambda part: _are_below(flat[part], most), flat.size, MANY_PER_CORE)
        self._check(all(parts), Grid(0), parties)
        return flat.view(np.uint64)[None]

    def decode(self, elements: Elements, grid: Grid) -> NDArray[np.float64]:
        """Return the numbers that the elements stand for, rounded to 53 bits."""
        lower = np.ascontiguousarray(elements[0]).view(np.int64)
        if len(elements) == 1 or np.array_equal(lower >> _WORD - 1, elements[1].view(np.int64)):
            # in one thread: parties on one computer have one core each at most
            return np.asarray(np.multiply(lower, grid.step, dtype=np.float64))
        # Near zero the upper word of a negative number is -1 and the lower one huge: negate first, so that no digits cancel,
        # then put the sign back.
        negative = elements[1].view(np.int64) < 0
        size = np.where(negative, self.minus(np.zeros_like(elements), elements), elements)
        magnitude = np.ldexp(size[1].astype(np.float64), _WORD) + size[0].astype(np.float64)
        numbers: NDArray[np.float64] = np.where(negative, -magnitude, magnitude)
        numbers *= grid.step  # a power of two: exact
        return numbers

    def add_to(self, total: Elements, term: Elements) -> None:
        """Add in place, wrapping."""
        if self.words == 2 and total.size >= MANY_WORDS:
            from tacit.channel.word_loops import add_two_words

            add_two_words(total[0], total[1], term[0], term[1])
            return
        total += term
        if self.words == 2:
            total[1] += total[0] < term[0]

    def take_from(self, total: Elements, term: Elements) -> None:
        """Subtract in place, wrapping."""
        if self.words == 2 and total.size >= MANY_WORDS:
            from tacit.channel.word_loops import take_two_words

            take_two_words(total[0], total[1], term[0], term[1])
            return
        if self.words == 2:
            total[1] -= total[0] < term[0]
        total -= term

    def plus(self, left: Elements, right: Elements) -> Elements:
        """Add, wrapping."""
        total = left.copy()
        self.add_to(total, right)
        return total

    def minus(self, left: Elements, right: Elements) -> Elements:
        """Subtract, wrapping."""
        rest = left.copy()
        self.take_from(rest, right)
        return rest

    def _check(self, fits: bool, grid: Grid, parties: int) -> None:
        if not fits:
            most = math.ldexp(1.0, _WORD * self.words - 2 + grid.exponent) / parties
            raise RangeError(
                f"numbers below {most:.3g} in magnitude ({_WORD * self.words} bits, step {grid.step:.3g}, {parties} parties)",
                words("a number beyond that, or NaN or infinity"),
                "Scale the data down, use words of 128 bits, or a coarser grid. Nothing was sent.",
            )


def _are_below(integers: NDArray[np.int64], most: int) -> bool:
    return not integers.size or -most < int(integers.min()) <= int(integers.max()) < most


def _scaled(vector: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    """Return numbers in steps of the grid, rounded to integers."""
    with np.errstate(over="ignore"):  # an overflow becomes infinity, which is refused later
        scaled: NDArray[np.float64] = vector * math.ldexp(1.0, -grid.exponent)
    return np.rint(scaled, out=scaled)


def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest magnitude; with NaN among the values it is NaN, which compares false."""
    return max(float(np.max(values)), -float(np.min(values))) if values.size else 0.0
