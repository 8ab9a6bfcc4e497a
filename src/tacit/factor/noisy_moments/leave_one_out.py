"""Every value predicted from the other values of its user or entity, without itself; compiled.

Leaving the value out keeps its own noise from being mistaken for signal. `regress` does it for ratings, in one pass, together
with what each user sends; `left_out` does it for cells with regressors of any kind.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import multiply_dense, parallel_for
from tacit.factor.small_solves import Floats, factorise, fused, invert, substitute

LEAST_LEFT = 1e-9
"""A rating's leverage is below 1 by the prior's share; this keeps rounding from making it 1."""
PARTS = 8
"""Users are added up in so many parts, side by side; a fixed number, so that the sum does not depend on that of the cores."""


@fused
def square(rows: Floats, gram: Floats) -> None:
    """Set the lower triangle of `gram` to that of ``rows @ rows.T``, for a few long rows: faster than BLAS on so few."""
    size, count = rows.shape
    for a in range(size):
        left, c = rows[a], 0
        while c + 4 <= a + 1:
            r0, r1, r2, r3 = rows[c], rows[c + 1], rows[c + 2], rows[c + 3]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for b in range(count):
                t0 += left[b] * r0[b]
                t1 += left[b] * r1[b]
                t2 += left[b] * r2[b]
                t3 += left[b] * r3[b]
            gram[a, c], gram[a, c + 1], gram[a, c + 2], gram[a, c + 3] = t0, t1, t2, t3
            c += 4
        while c <= a:
            right, total = rows[c], 0.0
            for b in range(count):
                total += left[b] * right[b]
            gram[a, c] = total
            c += 1


@fused
def inverse_of(triangle: Floats, square: Floats) -> None:
    """Set `square` to ``triangle' triangle`` for a lower triangle, such as `invert` returns."""
    size = triangle.shape[0]
    square[:] = 0
    for p in range(size):
        row = triangle[p]
        for a in range(p + 1):
            into, length = square[a], row[a]
            for c in range(p + 1):
                into[c] += length * row[c]


@fused
def leave_out(
    gathered: Floats,
    precision: Floats,
    noise: float,
    residuals: Floats,
    leverages: Floats,
    reach: Floats,
    gram: Floats,
    upper: Floats,
    inverse: Floats,
    x: Floats,
) -> None:
    """Turn one user's targets (`residuals`) into errors without themselves, and set `reach` to the factors without each.

    By the rank-one formula, from the solution x for all ratings and the inverse of its normal equations.
    """
    size, count = gathered.shape
    square(gathered, gram)
    linear = np.empty(size)
    for a in range(size):
        gram[a, a] += noise * precision[a]
        f, total = gathered[a], 0.0
        for b in range(count):
            total += f[b] * residuals[b]
        linear[a] = total
    factorise(gram, upper)
    substitute(upper, linear, x)
    invert(upper, inverse)
    inverse_of(inverse, gram)
    multiply_dense(gram, gathered, reach, 0, size)
    leverages[:] = 0
    for a in range(size):
        f, far = gathered[a], reach[a]
        for b in range(count):
            residuals[b] -= x[a] * f[b]
            leverages[b] += f[b] * far[b]
    for b in range(count):
        residuals[b] /= max(1 - leverages[b], LEAST_LEFT)
    for a in range(size):
        far = reach[a]
        for b in range(count):
            far[b] = x[a] - residuals[b] * far[b]


@fused
def _regress(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: Floats,
    biases: Floats,
    factors: Floats,
    precision: Floats,
    noise: float,
    gain: Floats,
    longest: float,
    cut: float,
    scales: Floats,
    sums: Floats,
    norms: Floats,
    averages: Floats,
    squares: Floats,
    start: int,
    stop: int,
) -> None:
    """Do what `regress` says for users from `start` up to `stop`.

    Ratings are the long side of a user's arrays (factor by rating), so that every inner loop runs over ratings.
    """
    size, most = factors.shape[1], 0
    for i in range(start, stop):
        most = max(most, ends[i + 1] - ends[i])
    gathered_buffer, reach_buffer = np.empty(size * most), np.empty(size * most)
    residuals, lengths = np.empty(most), np.empty(most)
    gram, upper, inverse = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    x = np.empty(size)
    for i in range(start, stop):
        begin, count = ends[i], ends[i + 1] - ends[i]
        norms[i], squares[i], averages[i, :] = 0, 0, 0
        if count == 0:
            continue
        gathered = gathered_buffer[: size * count].reshape(size, count)
        reach = reach_buffer[: size * count].reshape(size, count)
        for b in range(count):
            item = columns[begin + b]
            residuals[b] = values[begin + b] - biases[item]
            for a in range(size):
                gathered[a, b] = factors[item, a]
        leave_out(gathered, precision, noise, residuals[:count], lengths[:count], reach, gram, upper, inverse, x)
        lengths[:count] = 0
        for a in range(size - 1):
            far = reach[a]
            for b in range(count):
                lengths[b] += far[b] * far[b]
        total, square = 0.0, 0.0
        for b in range(count):
            error = residuals[b]
            square += min(error * error, 1.0)
            lengths[b] = min(1.0, longest / max(np.sqrt(lengths[b]), longest))
            residuals[b] = gain[columns[begin + b]] * min(max(error, -cut), cut)
            reach[size - 1, b] = residuals[b]
            total += residuals[b] * residuals[b]
        for a in range(size - 1):
            far, average = reach[a], 0.0
            for b in range(count):
                shortened = far[b] * lengths[b]
                average += shortened
                far[b] = shortened * residuals[b]
                total += far[b] * far[b]
            averages[i, a] = average / count
        averages[i, size - 1] = 1.0
        norms[i], squares[i] = np.sqrt(total), square / count
        scale = scales[i] / norms[i] if norms[i] > 0 else 0.0
        for b in range(count):
            row = sums[columns[begin + b]]
            for a in range(size):
                row[a] += scale * reach[a, b]


def regress(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    biases: NDArray[np.float64],
    factors: NDArray[np.float64],
    precision: NDArray[np.float64],
    noise: float,
    *,
    gain: NDArray[np.float64],
    longest: float,
    cut: float,
    scales: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Add up, by item, the errors of the ratings times their regressors; every user's terms have the user's scale for norm.

    A rating's regressors are its user's factors, solved from the user's **other** ratings (by the rank-one formula, so that
    all of a user's cost about twice what one does), shortened to `longest`, and last a 1. They are multiplied by the
    rating's error under these factors, cut off at `cut`, and by its item's gain. `values` are ratings less what is the same
    for all, `biases` the items'.

    Returns
    -------
    sums : ndarray of shape (n_items, n_factors)
    norms : ndarray of shape (n_users,)
        Of each user's terms, before they were divided by it.
    averages : ndarray of shape (n_users, n_factors)
        Of each user's regressors.
    squares : ndarray of shape (n_users,)
        Average squared error, each at most 1.
    """
    users, size = len(ends) - 1, factors.shape[1]
    norms, squares, averages = np.empty(users), np.empty(users), np.empty((users, size))
    sums = np.zeros((PARTS, len(factors), size))
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], PARTS + 1)[1:-1])
    limits = [0, *(min(int(place), users) for place in cuts), users]

    def add(start: int, stop: int) -> None:
        given = ends, columns, values, biases, factors, precision, noise, gain, longest, cut, scales
        for part in range(start, stop):
            _regress(*given, sums[part], norms, averages, squares, limits[part], limits[part + 1])

    parallel_for(add, np.arange(PARTS + 1) * math.ceil(3 * len(columns) * size**2 / PARTS))
    return sums.sum(axis=0), norms, averages, squares


@fused
def _left_out(
    ends: NDArray[np.int64],
    targets: Floats,
    regressors: Floats,
    precision: Floats,
    noise: float,
    without: Floats,
    residuals: Floats,
    start: int,
    stop: int,
) -> None:
    size = regressors.shape[1]
    gram, upper, inverse = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    x = np.empty(size)
    for i in range(start, stop):
        begin, count = ends[i], ends[i + 1] - ends[i]
        if count == 0:
            continue
        gathered, reach, leverages = np.empty((size, count)), np.empty((size, count)), np.empty(count)
        for b in range(count):
            residuals[begin + b] = targets[begin + b]
            for a in range(size):
                gathered[a, b] = regressors[begin + b, a]
        errors = residuals[begin : begin + count]
        leave_out(gathered, precision, noise, errors, leverages, reach, gram, upper, inverse, x)
        for b in range(count):
            for a in range(size):
                without[begin + b, a] = reach[a, b]


def left_out(
    ends: NDArray[np.int64], targets: Floats, regressors: Floats, precision: Floats, noise: float
) -> tuple[Floats, Floats]:
    """For every cell, solve its entity's problem without it: return these solutions, and the cell's error under each.

    Parameters
    ----------
    ends : ndarray of shape (n_entities + 1,)
        The cells of entity i are those from ``ends[i]`` up to ``ends[i + 1]``.
    targets : ndarray of shape (n_cells,)
    regressors : ndarray of shape (n_cells, size)
    precision : ndarray of shape (size,)
        Of the prior.
    noise : float
        Variance of a cell.
    """
    without, residuals = np.empty_like(regressors), np.empty(len(targets))
    parallel_for(
        lambda start, stop: _left_out(ends, targets, regressors, precision, noise, without, residuals, start, stop),
        3 * ends * regressors.shape[1] ** 2,
    )
    return without, residuals
