"""Compiled loops over listed cells of a CP model of any order.

All factors stand in one array, one above the other, so that one loop serves every order: a cell is a row number for each
axis. The cells are sorted by the axis whose factor is updated, so that rows do not depend on each other and can be shared
out to threads, and each row's sums do not depend on how.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.coupled.divergence import LEAST, Floats
from tacit.factor.ratings.small_solves import fused


@fused
def sort_cells(index: NDArray[np.int32], n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each row's cells end up, and the cells in the order of their rows (a counting sort, stable)."""
    ends = np.zeros(n_rows + 1, np.int64)
    for cell in range(index.size):
        ends[index[cell] + 1] += 1
    for row in range(n_rows):
        ends[row + 1] += ends[row]
    fill = ends[:-1].copy()
    order = np.empty(index.size, np.int64)
    for cell in range(index.size):
        row = index[cell]
        order[fill[row]] = cell
        fill[row] += 1
    return ends, order


@fused
def _weights(x: float, mean: float, power: float) -> tuple[float, float]:
    """Return ``x m**-p`` and ``m**(1 - p)``."""
    if power == 0:
        return x, mean
    mean = max(mean, LEAST)
    if power == 1:
        return x / mean, 1.0
    scale = mean ** (1 - power)
    return x * scale / mean, scale


@fused
def spread_rows(
    ends: NDArray[np.int64],
    others: NDArray[np.int32],
    values: Floats,
    stacked: Floats,
    own: Floats,
    power: float,
    numerator: Floats,
    denominator: Floats,
    losses: Floats,
    start: int,
    stop: int,
) -> None:
    """Add up, for rows of one factor, what their cells say.

    With the product v of the other factors' rows and the mean m = sum(own * v): `numerator` gets ``x m**-p v``,
    `denominator` (if it has rows) ``m**(1 - p) v``, and `losses` (if it has any) each row's ``x log m`` for p = 1,
    ``x m`` for p = 0: what depends on the stored cells alone.
    """
    rank = own.shape[1]
    product = np.empty(rank)
    for i in range(start, stop):
        row = own[i]
        top = np.zeros(rank)
        bottom = np.zeros(rank)
        loss = 0.0
        for cell in range(ends[i], ends[i + 1]):
            first = stacked[others[cell, 0]]
            for r in range(rank):
                product[r] = first[r]
            for k in range(1, others.shape[1]):
                factor = stacked[others[cell, k]]
                for r in range(rank):
                    product[r] *= factor[r]
            mean = 0.0
            for r in range(rank):
                mean += product[r] * row[r]
            x = values[cell]
            weight, scale = _weights(x, mean, power)
            if losses.size:
                loss += x * (mean if power == 0 else np.log(max(mean, LEAST)))
            for r in range(rank):
                top[r] += weight * product[r]
            if denominator.shape[0]:
                for r in range(rank):
                    bottom[r] += scale * product[r]
        numerator[i, :] = top
        if denominator.shape[0]:
            denominator[i, :] = bottom
        if losses.size:
            losses[i] = loss


@fused
def means_of(cells: NDArray[np.int32], stacked: Floats, means: Floats, start: int, stop: int) -> None:
    """Set `means` to the model's means of the cells, each a row number for every axis."""
    rank = stacked.shape[1]
    for cell in range(start, stop):
        mean = 0.0
        for r in range(rank):
            product = stacked[cells[cell, 0], r]
            for k in range(1, cells.shape[1]):
                product *= stacked[cells[cell, k], r]
            mean += product
        means[cell] = mean
