"""Compiled loops over the numbers of a chain: losses, slopes, norms of rows, and totals in float64 of numbers in float32.

Torch would convert the numbers to float64 first, which takes longer than adding them up. Every loop has a fixed order of
additions: that of the text, except that the compiler chooses the order within a row in `add_row_squares`, so that it can fill
vector registers. The square, the loss and the slopes of a row are computed from that row alone, so they do not depend on the
other rows.
"""

from __future__ import annotations

import math

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
def put_class_slopes(
    scores: NDArray[np.floating], labels: NDArray[np.int64], count: int, losses: NDArray[np.float64]
) -> None:
    """Put the losses of `classification_loss`, and replace the first `count` scores of each row by their slopes.

    Computed in float64; all that follows from a score that is not a finite number is not one either.
    """
    exponentials = np.empty(count)
    for place in range(len(losses)):
        row, label = scores[place], labels[place]
        largest = -np.inf
        for column in range(count):
            largest = max(largest, np.float64(row[column]))
        total = 0.0
        for column in range(count):
            exponentials[column] = math.exp(np.float64(row[column]) - largest)
            total += exponentials[column]
        if not 0 <= label < count:
            total = np.nan
        losses[place] = math.log(total) - (np.float64(row[min(max(label, 0), count - 1)]) - largest)
        for column in range(count):
            row[column] = exponentials[column] / total - np.float64(column == label)


@njit(cache=True, nogil=True)
def put_distances(
    scores: NDArray[np.floating], targets: NDArray[np.floating], count: int, losses: NDArray[np.float64]
) -> None:
    """Put the losses of `regression_loss`, and replace the first `count` scores of each row by their slopes."""
    for place in range(len(losses)):
        row, total = scores[place], 0.0
        for column in range(count):
            distance = np.float64(row[column]) - np.float64(targets[place, column])
            total += distance * distance
            row[column] = distance
        losses[place] = total / 2


@njit(cache=True, nogil=True)
def times_slope_of_tanh(outputs: NDArray[np.floating], slopes: NDArray[np.floating]) -> None:
    """Multiply slopes by the derivative of tanh, where it has these outputs."""
    one = slopes.dtype.type(1)
    for place in range(len(slopes)):
        row, given = slopes[place], outputs[place]
        for column in range(row.size):
            row[column] *= one - given[column] * given[column]


@njit(cache=True, nogil=True)
def times_slope_of_sigmoid(outputs: NDArray[np.floating], slopes: NDArray[np.floating]) -> None:
    """Multiply slopes by the derivative of the logistic function, where it has these outputs."""
    one = slopes.dtype.type(1)
    for place in range(len(slopes)):
        row, given = slopes[place], outputs[place]
        for column in range(row.size):
            row[column] *= given[column] * (one - given[column])


@njit(cache=True, nogil=True)
def times_slope_of_relu(outputs: NDArray[np.floating], slopes: NDArray[np.floating]) -> None:
    """Multiply slopes by the derivative of the rectifier, where it has these outputs; at 0 it is 0, as in torch."""
    for place in range(len(slopes)):
        row, given = slopes[place], outputs[place]
        for column in range(row.size):
            row[column] *= given[column] > 0


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
