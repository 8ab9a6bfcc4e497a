r"""Predict every value of a unit (user, entity) from the unit's other values; compiled.

Leaving the value out keeps its own noise from entering the prediction as signal. With the ridge solution
:math:`x = A^{-1} F y` of a unit's values y (the columns f of F are regressors), :math:`A = F F^\top + s^2 P`, and the
leverage :math:`h_b = f_b^\top A^{-1} f_b`, the error and the solution without value b follow from the rank-one update
(Sherman and Morrison):

.. math:: e_b = \frac{y_b - f_b \cdot x}{1 - h_b}, \qquad x_{-b} = x - e_b A^{-1} f_b .

`regress` does this for ratings, in one pass, together with the terms that each user contributes to a sum.
`leave_one_out` does it for cells with any regressors.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import Floats, Integers
from tacit.factor.kernels import multiply_dense, parallel_for
from tacit.factor.small_solves import factorise, fused, invert, substitute

LEAST_LEFT = 1e-9
"""The least 1 - h. A prior makes it positive; this keeps rounding from making it zero."""
PARTS = 8
"""Users are added up in this many parts, in parallel. The number is fixed, so that the sum does not depend on the number
of cores."""


@fused
def square(rows: Floats, gram: Floats) -> None:
    """Set the lower triangle of `gram` to that of ``rows @ rows.T``; faster than BLAS for a few long rows."""
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
def leave_each_out(
    regressors: Floats,
    precision: Floats,
    noise: float,
    residuals: Floats,
    leverages: Floats,
    solutions: Floats,
    gram: Floats,
    upper: Floats,
    inverse: Floats,
    x: Floats,
) -> None:
    """Replace one unit's targets, `residuals`, by their leave-one-out errors; set the columns of `solutions` to x without each.

    `gram`, `upper`, `inverse`, `leverages` and `x` are work space.
    """
    size, count = regressors.shape
    square(regressors, gram)
    linear = np.empty(size)
    for a in range(size):
        gram[a, a] += noise * precision[a]  # A = F F' + s^2 P
        f, total = regressors[a], 0.0
        for b in range(count):
            total += f[b] * residuals[b]
        linear[a] = total
    factorise(gram, upper)
    substitute(upper, linear, x)
    invert(upper, inverse)
    inverse_of(inverse, gram)
    multiply_dense(gram, regressors, solutions, 0, size)  # A^-1 F, for now
    leverages[:] = 0
    for a in range(size):
        f, solved = regressors[a], solutions[a]
        for b in range(count):
            residuals[b] -= x[a] * f[b]
            leverages[b] += f[b] * solved[b]
    for b in range(count):
        residuals[b] /= max(1 - leverages[b], LEAST_LEFT)
    for a in range(size):
        solved = solutions[a]
        for b in range(count):
            solved[b] = x[a] - residuals[b] * solved[b]


@fused
def _regress(
    ends: Integers,
    columns: NDArray[np.int32],
    values: Floats,
    biases: Floats,
    factors: Floats,
    precision: Floats,
    noise: float,
    gain: Floats,
    longest: float,
    clip: float,
    scales: Floats,
    sums: Floats,
    norms: Floats,
    averages: Floats,
    squares: Floats,
    start: int,
    stop: int,
) -> None:
    """Do what `regress` describes for the users from `start` up to `stop`.

    A user's arrays have one column per rating, so that every inner loop runs over ratings.
    """
    size, most = factors.shape[1], 0
    for i in range(start, stop):
        most = max(most, ends[i + 1] - ends[i])
    regressor_buffer, solution_buffer = np.empty(size * most), np.empty(size * most)
    residuals, lengths = np.empty(most), np.empty(most)
    gram, upper, inverse = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    x = np.empty(size)
    for i in range(start, stop):
        begin, count = ends[i], ends[i + 1] - ends[i]
        norms[i], squares[i], averages[i, :] = 0, 0, 0
        if count == 0:
            continue
        regressors = regressor_buffer[: size * count].reshape(size, count)
        solutions = solution_buffer[: size * count].reshape(size, count)
        for b in range(count):
            item = columns[begin + b]
            residuals[b] = values[begin + b] - biases[item]
            for a in range(size):
                regressors[a, b] = factors[item, a]
        errors, work = residuals[:count], lengths[:count]
        leave_each_out(regressors, precision, noise, errors, work, solutions, gram, upper, inverse, x)
        lengths[:count] = 0
        for a in range(size - 1):
            solved = solutions[a]
            for b in range(count):
                lengths[b] += solved[b] * solved[b]
        total, square = 0.0, 0.0
        for b in range(count):
            error = residuals[b]
            square += min(error * error, 1.0)
            lengths[b] = min(1.0, longest / max(np.sqrt(lengths[b]), longest))
            residuals[b] = gain[columns[begin + b]] * min(max(error, -clip), clip)
            solutions[size - 1, b] = residuals[b]
            total += residuals[b] * residuals[b]
        for a in range(size - 1):
            terms, average = solutions[a], 0.0
            for b in range(count):
                clipped = terms[b] * lengths[b]
                average += clipped
                terms[b] = clipped * residuals[b]
                total += terms[b] * terms[b]
            averages[i, a] = average / count
        averages[i, size - 1] = 1.0
        norms[i], squares[i] = np.sqrt(total), square / count
        scale = scales[i] / norms[i] if norms[i] > 0 else 0.0
        for b in range(count):
            row = sums[columns[begin + b]]
            for a in range(size):
                row[a] += scale * solutions[a, b]


def regress(
    ends: Integers,
    columns: NDArray[np.int32],
    values: Floats,
    biases: Floats,
    factors: Floats,
    precision: Floats,
    noise: float,
    *,
    gain: Floats,
    longest: float,
    clip: float,
    scales: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Add up, per item, the leave-one-out errors of the ratings times their regressors.

    A rating's regressors are its user's factors, solved from the user's **other** ratings and clipped to the norm
    `longest`, and last a 1. They are multiplied by the rating's error under these factors, clipped to `clip`, and by its
    item's gain. All terms of a user together are scaled to have the user's scale as their norm. `values` are ratings minus
    the mean, and `biases` those of the items. All solutions of a user cost about twice as much as one.

    Returns
    -------
    sums : ndarray of shape (n_items, n_factors)
    norms : ndarray of shape (n_users,)
        Norm of each user's terms, before they were divided by it.
    averages : ndarray of shape (n_users, n_factors)
        Average of each user's regressors.
    squares : ndarray of shape (n_users,)
        Average of each user's squared errors, each clipped to 1.
    """
    users, size = len(ends) - 1, factors.shape[1]
    norms, squares, averages = np.empty(users), np.empty(users), np.empty((users, size))
    sums = np.zeros((PARTS, len(factors), size))
    inner = np.searchsorted(ends, np.linspace(0, ends[-1], PARTS + 1)[1:-1])
    limits = [0, *(min(int(place), users) for place in inner), users]

    def add(start: int, stop: int) -> None:
        given = ends, columns, values, biases, factors, precision, noise, gain, longest, clip, scales
        for part in range(start, stop):
            _regress(*given, sums[part], norms, averages, squares, limits[part], limits[part + 1])

    parallel_for(add, np.arange(PARTS + 1) * math.ceil(3 * len(columns) * size**2 / PARTS))
    return sums.sum(axis=0), norms, averages, squares


@fused
def _leave_one_out(
    ends: Integers,
    targets: Floats,
    regressors: Floats,
    precision: Floats,
    noise: float,
    solutions: Floats,
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
        own, without, leverages = np.empty((size, count)), np.empty((size, count)), np.empty(count)
        for b in range(count):
            residuals[begin + b] = targets[begin + b]
            for a in range(size):
                own[a, b] = regressors[begin + b, a]
        errors = residuals[begin : begin + count]
        leave_each_out(own, precision, noise, errors, leverages, without, gram, upper, inverse, x)
        for b in range(count):
            for a in range(size):
                solutions[begin + b, a] = without[a, b]


def leave_one_out(
    ends: Integers, targets: Floats, regressors: Floats, precision: Floats, noise: float
) -> tuple[Floats, Floats]:
    """Solve, for every cell, its entity's problem without the cell; return these solutions and the cells' errors.

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
    solutions, residuals = np.empty_like(regressors), np.empty(len(targets))
    given = ends, targets, regressors, precision, noise, solutions, residuals
    parallel_for(lambda start, stop: _leave_one_out(*given, start, stop), 3 * ends * regressors.shape[1] ** 2)
    return solutions, residuals
