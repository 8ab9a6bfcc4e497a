"""Every rating predicted without itself: what a user's other ratings say about it, by a rank-one formula."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import share_out
from tacit.factor.ratings.kernels import collect, workspace
from tacit.factor.ratings.small_solves import Floats, factorise, fused, invert, substitute

LEAST_LEFT = 1e-9
"""A rating's leverage is below 1 by the prior's share; this keeps rounding from making it 1."""


@fused
def _leave_one_out(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: Floats,
    factors: Floats,
    precision: Floats,
    noise: float,
    without: Floats,
    residuals: Floats,
    start: int,
    stop: int,
) -> None:
    size = factors.shape[1]
    gathered, gram, upper, inverse, linear = workspace(size, factors)
    x = np.empty(size)
    for i in range(start, stop):
        collect(ends[i], ends[i + 1], columns, targets, factors, factors[:0], gathered, gram, linear)
        for a in range(size):
            gram[a, a] += noise * precision[a]
        factorise(gram, upper)
        substitute(upper, linear, x)
        invert(upper, inverse)
        # the inverse of the normal equations, for all of the row's ratings
        covariance = np.dot(inverse.T, inverse)
        place = ends[i]
        while place < ends[i + 1]:
            many = min(len(gathered), ends[i + 1] - place)
            for b in range(many):
                gathered[b] = factors[columns[place + b]]
            reach = np.dot(gathered[:many], covariance)
            for b in range(many):
                f, far, left_out = gathered[b], reach[b], without[place + b]
                residual, leverage = targets[place + b], 0.0
                for a in range(size):
                    residual -= f[a] * x[a]
                    leverage += f[a] * far[a]
                residual /= max(1 - leverage, LEAST_LEFT)
                residuals[place + b] = residual
                for a in range(size):
                    left_out[a] = x[a] - residual * far[a]
            place += many


def leave_one_out(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: NDArray[np.float64],
    factors: NDArray[np.float64],
    precision: NDArray[np.float64],
    noise: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every rating, solve its row's problem without it: return these solutions, and the rating's error under each.

    By the rank-one formula, so that all of a row's cost about twice what one does.
    """
    without, residuals = np.empty((len(columns), factors.shape[1])), np.empty(len(columns))
    share_out(
        lambda start, stop: _leave_one_out(
            ends, columns, targets, factors, precision, noise, without, residuals, start, stop
        ),
        3 * ends * factors.shape[1] ** 2,
    )
    return without, residuals


@fused
def _user_terms(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    regressors: Floats,
    errors: Floats,
    gain: Floats,
    longest: float,
    cut: float,
    norms: Floats,
    averages: Floats,
    squares: Floats,
    start: int,
    stop: int,
) -> None:
    size = regressors.shape[1]
    for i in range(start, stop):
        total, square = 0.0, 0.0
        averages[i, :] = 0
        for place in range(ends[i], ends[i + 1]):
            row = regressors[place]
            length = 0.0
            for a in range(size - 1):
                length += row[a] * row[a]
            shorter = min(1.0, longest / max(np.sqrt(length), longest))
            for a in range(size - 1):
                row[a] *= shorter
                averages[i, a] += row[a]
            row[size - 1] = 1.0
            averages[i, size - 1] += 1.0
            square += min(errors[place] * errors[place], 1.0)
            factor = gain[columns[place]] * min(max(errors[place], -cut), cut)
            for a in range(size):
                row[a] *= factor
                total += row[a] * row[a]
        norms[i] = np.sqrt(total)
        count = max(ends[i + 1] - ends[i], 1)
        squares[i] = square / count
        for a in range(size):
            averages[i, a] /= count


def user_terms(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    regressors: NDArray[np.float64],
    errors: NDArray[np.float64],
    gain: NDArray[np.float64],
    longest: float,
    cut: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Turn regressors into terms, in place, and return what describes each user.

    A rating's regressors are shortened to `longest`, their last is set to 1, and all are multiplied by the rating's error,
    cut off at `cut`, and its item's gain. For every user are returned: the L2 norm of all these terms, the average of
    the regressors, and the average squared error (at most 1).
    """
    users = len(ends) - 1
    norms, squares, averages = np.empty(users), np.empty(users), np.empty((users, regressors.shape[1]))
    share_out(
        lambda start, stop: _user_terms(
            ends, columns, regressors, errors, gain, longest, cut, norms, averages, squares, start, stop
        ),
        4 * ends * regressors.shape[1],
    )
    return norms, averages, squares


@fused
def add_by_item(
    ends: NDArray[np.int64], columns: NDArray[np.int32], terms: Floats, scales: Floats, sums: Floats
) -> None:
    """Add every rating's terms, times its user's scale, to the sums of its item."""
    size = terms.shape[1]
    for i in range(len(ends) - 1):
        scale = scales[i]
        for place in range(ends[i], ends[i + 1]):
            row, total = terms[place], sums[columns[place]]
            for a in range(size):
                total[a] += scale * row[a]
