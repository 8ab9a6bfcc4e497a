"""Every cell predicted without itself: what the entity's other cells say about it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import share_out
from tacit.factor.ratings.leave_one_out import leave_out
from tacit.factor.ratings.small_solves import Floats, fused


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
    share_out(
        lambda start, stop: _left_out(ends, targets, regressors, precision, noise, without, residuals, start, stop),
        3 * ends * regressors.shape[1] ** 2,
    )
    return without, residuals
