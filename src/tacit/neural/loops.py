"""Compiled loops over the numbers of a chain: norms of rows, and totals in float64 of numbers in float32.

Torch would convert the numbers to float64 first, which takes longer than adding them up. Every loop has a fixed order of
additions: that of the text, except that the compiler chooses the order within a row in `add_row_squares`, so that it can fill
vector registers. The square of a row is computed from that row alone, so it does not depend on the other rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_row_squares(rows: NDArray[np.floating], width: int, totals: NDArray[np.float64]) -> None:
    """Add the squared norm of the first `width` numbers of each row to its total, in float64."""
    for place in range(len(totals)):
        row, total = rows[place], 0.0
        for column in range(width):
            number = np.float64(row[column])
            total += number * number
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


@njit(cache=True, nogil=True)
def move(
    theta: NDArray[np.float64],
    speed: NDArray[np.float64],
    noisy: NDArray[np.float64],
    factors: tuple[float, float, float],
    size: float,
) -> None:
    """Set the speed to the sum of speed, weight and noisy total, each times a factor, and take a step against it."""
    of_speed, of_theta, of_noisy = factors
    for place in range(theta.size):
        speed[place] = of_speed * speed[place] + of_theta * theta[place] + of_noisy * noisy[place]
        theta[place] -= size * speed[place]
