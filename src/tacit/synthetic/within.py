"""How likely each cell of a column is within its bin, from the noisy histogram that the bins were made from.

A bin is wide where rows are few, and what lies inside it is known from the histogram of fine cells only, whose noise is large
beside a single cell. Two things help. A bin's density goes on in its neighbours, so that the cells of an ordered column are
spread along a line through the densities of neighbouring bins and not evenly. And parts of a bin are compared before its single
cells are: the cells are halved again and again, the two parts are compared each time, and what may be noise is left out (as in
a Haar wavelet). Where a bin is cut is arbitrary, so that many such trees with random cuts are averaged (as in cycle spinning;
Coifman & Donoho, "Translation-invariant de-noising", 1995).

Everything here works on noisy histograms and margins, which were paid for, and on nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.noise.entropy import insecure_generator

TREES = 16
"""Trees that are averaged: 64 were better by 1% at most, on the tables of DOUBT."""
CUTS = 0.25, 0.75
"""A part is cut somewhere between these fractions of its cells. Not tuned."""
DOUBT = 2.0
"""A difference between two parts is kept less :math:`2 \\sigma^2` over its square. Of 0.5, 1, 2, 3 and 4, by the error of
single columns of tables that are not reported: customers and invoice lines of a shop, news articles."""
Matrix = NDArray[np.float64]


def cells_within_bins(
    histogram: Matrix, widths: Matrix, bins: NDArray[np.intp], margin: Matrix, noise: float, *, ordered: bool
) -> Matrix:
    """Return the probability of each cell given its bin.

    Parameters
    ----------
    histogram : ndarray of shape (n_cells,)
        Noisy number of rows in each cell.
    widths : ndarray of shape (n_cells,)
        How much of the bin a cell would have if values were spread evenly.
    bins : ndarray of shape (n_cells,)
        The bin of each cell; in order, if the column is `ordered`.
    margin : ndarray of shape (n_bins,)
        Probabilities of the bins.
    noise : float
        Standard deviation of the noise in the histogram.
    ordered : bool
        Whether neighbouring cells hold neighbouring values.
    """
    if ordered:
        return halved(histogram, along_a_line(widths, bins, margin), bins, noise)
    probabilities = np.zeros(len(histogram))
    for place in range(int(bins.max()) + 1):
        cells = np.flatnonzero(bins == place)
        probabilities[cells] = pulled(histogram[cells], widths[cells] / widths[cells].sum(), noise)
    return probabilities


def along_a_line(widths: Matrix, bins: NDArray[np.intp], margin: Matrix) -> Matrix:
    """Return the probability of each cell given its bin if the density is a line between the middles of wide bins."""
    sums = np.bincount(bins, widths)
    middle = np.cumsum(widths) - widths / 2
    wide = (
        np.bincount(bins) > 1
    )  # a bin of one cell is one because a value is frequent, and says nothing of its neighbours
    if wide.sum() > 1:
        middles, densities = np.bincount(bins, widths * middle)[wide] / sums[wide], margin[wide] / sums[wide]
        line = widths * np.maximum(np.interp(middle, middles, densities), 1e-9 * densities.max())
    else:
        line = widths
    # a single cell has all of its bin, also one that is too narrow for a sum
    return np.where(wide[bins], line / np.maximum(np.bincount(bins, line), 1e-300)[bins], 1.0)


def halved(counts: Matrix, expected: Matrix, bins: NDArray[np.intp], noise: float) -> Matrix:
    """Return the probability of each cell given its bin: `expected`, and what is more than noise beyond it.

    Parameters
    ----------
    counts : ndarray of shape (n_cells,)
        Noisy number of rows in neighbouring cells.
    expected : ndarray of shape (n_cells,)
        The probability of each cell given its bin, without regard to the counts.
    bins : ndarray of shape (n_cells,)
        The bin of each cell, in order.
    noise : float
        Standard deviation of the noise in the counts.
    """
    generator = insecure_generator(0)  # the cuts are the same for all tables
    counted, awaited = (np.concatenate([[0.0], np.cumsum(values)]) for values in (counts, expected))
    n_bins = int(bins[-1]) + 1
    first = np.tile(np.searchsorted(bins, np.arange(n_bins)), TREES)
    last = np.tile(np.searchsorted(bins, np.arange(n_bins), side="right"), TREES)
    chance = np.ones(len(first))  # of a part, given its bin
    rows = counted[last] - counted[first]  # of its bin
    probabilities = np.zeros(len(counts))
    while len(first):
        whole = last - first == 1
        np.add.at(probabilities, first[whole], chance[whole] / TREES)
        first, last, chance, rows = (values[~whole] for values in (first, last, chance, rows))
        length = last - first
        cut = first + np.clip(np.round(length * generator.uniform(*CUTS, len(first))).astype(np.intp), 1, length - 1)
        left, right = cut - first, last - cut
        both = awaited[last] - awaited[first]
        share = np.where(both > 0, (awaited[cut] - awaited[first]) / np.maximum(both, 1e-300), left / length)
        away = counted[cut] - counted[first] - share * (counted[last] - counted[first])
        variance = noise**2 * (left * (1 - share) ** 2 + right * share**2)
        square = away**2
        keep = np.maximum(1 - DOUBT * variance / np.maximum(square, 1e-300), 0.0)
        share = np.clip(share + np.where(rows > 0, keep * away / np.maximum(chance * rows, 1e-9), 0.0), 0.0, 1.0)
        first, last = np.concatenate([first, cut]), np.concatenate([cut, last])
        chance, rows = np.concatenate([chance * share, chance * (1 - share)]), np.concatenate([rows, rows])
    return probabilities


def pulled(counts: Matrix, even: Matrix, noise: float) -> Matrix:
    """Return probabilities from noisy counts, all pulled towards `even` alike (positive-part James-Stein)."""
    mass = float(counts.sum())
    if mass <= 0 or len(counts) == 1:
        return even
    away = counts - mass * even
    energy = float(np.sum(away**2))
    keep = max(0.0, 1 - (len(counts) - 1) * noise**2 / energy) if energy > 0 else 0.0
    kept = np.maximum(even + keep * away / mass, 0.0)
    return np.asarray(kept / kept.sum())
