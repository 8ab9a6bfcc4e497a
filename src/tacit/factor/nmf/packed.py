"""A packed copy of a factor, to go back to when a sweep fails; a zero takes one bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import compiled, parallel_for

BLOCK = 1 << 12
"""Numbers that are packed together; a multiple of 8."""


class PackedFactor:
    """A copy of a factor, exact, in as little memory as its zeros allow.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.factor.nmf.packed import PackedFactor
    >>> kept = PackedFactor(np.array([[0.0, 2.0], [0.0, 0.0]]))
    >>> kept.put_into(np.empty((2, 2)))
    array([[0., 2.],
           [0., 0.]])
    """

    def __init__(self, factor: NDArray[Any]) -> None:
        numbers = factor.ravel(order="K")
        blocks = -(-numbers.size // BLOCK)
        self._work = np.arange(blocks + 1) * BLOCK
        self._ends = np.zeros(blocks + 1, dtype=np.int64)
        parallel_for(lambda start, stop: _count(numbers, self._ends, start, stop), self._work)
        np.cumsum(self._ends, out=self._ends)
        self._values = np.empty(self._ends[-1], dtype=numbers.dtype)
        self._places = np.empty(-(-numbers.size // 8), dtype=np.uint8)
        parallel_for(
            lambda start, stop: _pack(numbers, self._ends, self._values, self._places, start, stop), self._work
        )

    def put_into(self, factor: NDArray[Any]) -> NDArray[Any]:
        """Overwrite `factor`, of the shape and order of what was kept, and return it."""
        numbers = factor.ravel(order="K")
        assert np.shares_memory(numbers, factor) or not factor.size
        parallel_for(
            lambda start, stop: _unpack(numbers, self._ends, self._values, self._places, start, stop), self._work
        )
        return factor


@compiled
def _count(numbers: NDArray[Any], ends: NDArray[np.int64], start: int, stop: int) -> None:
    for block in range(start, stop):
        for place in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size)):
            ends[block + 1] += numbers[place] != 0


@compiled
def _pack(
    numbers: NDArray[Any],
    ends: NDArray[np.int64],
    values: NDArray[Any],
    places: NDArray[np.uint8],
    start: int,
    stop: int,
) -> None:
    for block in range(start, stop):
        filled = ends[block]
        for first in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size), 8):
            bits = 0
            for place in range(first, min(first + 8, numbers.size)):
                if numbers[place] != 0:
                    values[filled] = numbers[place]
                    filled += 1
                    bits |= 1 << (place - first)
            places[first // 8] = bits


@compiled
def _unpack(
    numbers: NDArray[Any],
    ends: NDArray[np.int64],
    values: NDArray[Any],
    places: NDArray[np.uint8],
    start: int,
    stop: int,
) -> None:
    for block in range(start, stop):
        filled = ends[block]
        for first in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size), 8):
            bits = places[first // 8]
            for place in range(first, min(first + 8, numbers.size)):
                if bits >> (place - first) & 1:
                    numbers[place] = values[filled]
                    filled += 1
                else:
                    numbers[place] = 0
