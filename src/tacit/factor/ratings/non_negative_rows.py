"""Coordinate descent on many small non-negative problems, each with normal equations of its own."""

from __future__ import annotations

import numpy as np

from tacit.factor.kernels import share_out
from tacit.factor.ratings.small_solves import Floats, fused

DESCENT_TOLERANCE = 1e-12
"""A row is done when a sweep moves less than this share of its squared length."""


@fused
def _descend_packed(
    grams: Floats, linears: Floats, ridge: Floats, rows: Floats, most_sweeps: int, start: int, stop: int
) -> None:
    size = linears.shape[1]
    gradient = np.empty(size, linears.dtype)
    for i in range(start, stop):
        gram, row = grams[i], rows[i]
        for a in range(size):
            gradient[a] = linears[i, a] - ridge[i] * row[a]
        for a in range(size):
            for c in range(size):
                gradient[a] -= gram[max(a, c) * (max(a, c) + 1) // 2 + min(a, c)] * row[c]
        for _ in range(most_sweeps):
            moved, length = 0.0, 0.0
            for a in range(size):
                curvature = gram[a * (a + 1) // 2 + a] + ridge[i]
                if curvature <= 0:
                    continue
                new = max(row[a] + gradient[a] / curvature, 0.0)
                step = new - row[a]
                if step != 0:
                    row[a] = new
                    gradient[a] -= step * ridge[i]
                    for c in range(size):
                        gradient[c] -= step * gram[max(a, c) * (max(a, c) + 1) // 2 + min(a, c)]
                moved += step * step
                length += new * new
            if moved <= DESCENT_TOLERANCE * length:
                break


def descend_packed(grams: Floats, linears: Floats, ridge: Floats, rows: Floats, most_sweeps: int) -> None:
    """Lower ``1/2 x'(G + ridge) x - b'x`` over ``x >= 0`` for every row of `rows`, in place, by coordinate descent."""
    share_out(
        lambda start, stop: _descend_packed(grams, linears, ridge, rows, most_sweeps, start, stop),
        np.arange(len(linears) + 1) * linears.shape[1] ** 2 * 10,
    )
