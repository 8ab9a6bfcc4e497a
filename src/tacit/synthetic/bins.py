"""Bins that follow a noisy distribution: cells of a column are merged until a bin is worth a row of every pair table.

A column's cells (`tacit.data.schema.ColumnSpec`) are fine: single integers, single categories. The noise of a pair table is the
same for every pair of bins, however few rows they hold, so that a bin with few rows costs accuracy and tells nothing. Everything
here works on the noisy histogram of the cells, which was paid for, and on nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.schema import ColumnSpec

FEWEST_BINS, MOST_BINS = 5, 20
"""Bins of an ordered column. On the test rows of Adult 10 to 40 differ by less than the noise."""
CELL_OVER_NOISE = 2.0
"""Mean number of rows in a cell of a pair table of two ordered columns, in standard deviations of its noise; chosen there."""
LEAST_OVER_NOISE = 3.0
"""Rows of a bin, in the same unit. On the same rows 1.5 to 6 differ by less than the noise."""
OWN_BIN = 0.25
"""Rows in front of a heavy cell are a bin if they have this fraction of what a bin needs; else a neighbour gets them."""
Matrix = NDArray[np.float64]


def merge_cells(histogram: Matrix, spec: ColumnSpec, pair_noise: float) -> NDArray[np.intp]:
    """Return the bin of each cell of a column.

    Parameters
    ----------
    histogram : ndarray of shape (n_cells,)
        Noisy number of rows in each cell.
    spec : ColumnSpec
    pair_noise : float
        Standard deviation of the noise in a cell of a pair table.
    """
    if spec.is_ordered and spec.has_missing:
        bins = merge_neighbours(histogram[:-1], pair_noise)
        return np.append(bins, bins[-1] + 1)
    return merge_neighbours(histogram, pair_noise) if spec.is_ordered else merge_rare(histogram, pair_noise)


def merge_rare(histogram: Matrix, pair_noise: float) -> NDArray[np.intp]:
    """Return bins of categories: one for each frequent category, and one for all others together."""
    rare = histogram < LEAST_OVER_NOISE * pair_noise
    if rare.all():
        rare[np.argmax(histogram)] = False
    if rare.sum() < 2:
        return np.arange(len(histogram), dtype=np.intp)
    bins = np.cumsum(~rare) - 1
    return np.where(rare, int((~rare).sum()), bins).astype(np.intp)


def merge_neighbours(histogram: Matrix, pair_noise: float) -> NDArray[np.intp]:
    """Return bins of neighbouring cells: a heavy cell is a bin of its own, the others are joined to bins of like mass."""
    floor = LEAST_OVER_NOISE * pair_noise
    count = max(float(histogram.sum()), 1.0)
    n_bins = MOST_BINS
    if pair_noise > 0:
        n_bins = int(np.clip(np.sqrt(count / (CELL_OVER_NOISE * pair_noise)), FEWEST_BINS, MOST_BINS))
    heavy = histogram >= max(count / n_bins, floor)
    rest = max(n_bins - int(heavy.sum()), 1)
    least = max(float(histogram[~heavy].sum()) / rest, floor)
    bins, current, waiting = np.zeros(len(histogram), dtype=np.intp), 0, 0.0
    begun = False  # whether the current bin has cells that are not closed yet
    for cell, mass in enumerate(histogram):
        if heavy[cell]:
            if begun and (waiting >= OWN_BIN * least or current == 0):
                current += 1
            elif begun:  # too few rows to be a bin: they join the bin before
                bins[bins == current] = current - 1
            bins[cell], begun, waiting = current, False, 0.0
            current += 1
            continue
        bins[cell], begun, waiting = current, True, waiting + mass
        if waiting >= least:
            current, begun, waiting = current + 1, False, 0.0
    if begun and waiting < least / 2 and current > 0:
        bins[bins == current] = current - 1
    return bins
