"""Compiled loops over the numbers of a chain: norms of rows, and totals in float64 of numbers in float32.

Torch would convert the numbers to float64 first, which takes longer than adding them up. Every loop has a fixed order of
additions and is compiled without fast-math options. The square of a row is computed from that row alone, so it does not
depend on the other rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def add_row_squares(rows: NDArray[np.floating], width: int, totals: NDArray[np.float64]) -> None:
    """Add the squared norm of the first `width` numbers of each row to its total, in float64."""
    lanes = np.empty(8)
    for place in range(len(totals)):
        lanes[:] = 0.0  # eight running totals, which fill a vector register
        for start in range(0, width - 7, 8):
            for lane in range(8):
                number = np.float64(rows[place, start + lane])
                lanes[lane] += number * number
        for left in range(width - width % 8, width):
            number = np.float64(rows[place, left])
            lanes[0] += number * number
        total = 0.0
        for lane in range(8):
            total += lanes[lane]
        totals[place] += total


@njit(cache=True, nogil=True)
def add_single(total: NDArray[np.float64], numbers: NDArray[np.float32]) -> None:
    """Add numbers in float32 to totals in float64, entry by entry."""
    for place in range(total.size):
        total[place] += np.float64(numbers[place])


@njit(cache=True, nogil=True)
def add_columns(rows: NDArray[np.float32], totals: NDArray[np.float64]) -> None:
    """Add up the columns of the rows, in float64."""
    for place in range(len(rows)):
        for column in range(totals.size):
            totals[column] += np.float64(rows[place, column])
