"""Every rating predicted without itself: what a user's other ratings say about it, by a rank-one formula."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import share_out
from tacit.factor.recommend_kernels import Floats, collect, factorise, fused, invert, substitute


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
    gram, lower, inverse = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    linear, x, half, reach = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for i in range(start, stop):
        collect(ends[i], ends[i + 1], columns, targets, factors, factors[:0], gram, linear)
        for a in range(size):
            gram[a, a] += noise * precision[a]
        factorise(gram, lower)
        substitute(lower, linear, x)
        invert(lower, inverse)
        for place in range(ends[i], ends[i + 1]):
            f = factors[columns[place]]
            residual, leverage = targets[place], 0.0
            reach[:] = 0
            for a in range(size):
                residual -= f[a] * x[a]
                half[a] = 0
                for c in range(a + 1):
                    half[a] += inverse[a, c] * f[c]
                leverage += half[a] * half[a]
                for c in range(a + 1):
                    reach[c] += inverse[a, c] * half[a]
            residual /= 1 - leverage
            residuals[place] = residual
            for a in range(size):
                without[place, a] = x[a] - residual * reach[a]


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
