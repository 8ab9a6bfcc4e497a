r"""Which tables the second sum of a private table has, and with which weights: a table's precision is its weight squared.

Everything here follows from the schema and from the first sum, which was released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound
from tacit.synthetic.pairwise import pair_counts

LABEL_FRACTION, MOST_LABELS = 0.3, 0.5
"""Fraction of the second sum's budget that the tables of a column likely to be predicted get, at least, and the most that those
of several such columns get together; each of several gets half of what a single one gets, at least. Half for a single column
did not help on mails, for which see TIES; half for nine columns helped on news articles (mean AUC 0.667 and 0.666 in place of
0.657 and 0.663). More than 0.3 for the two columns of Adult did not help there."""
TIES = 1e-3
"""Squares of what a pair table has beyond the product of its margins, as a fraction of the most it could have. Of 1e-3 and 2e-4
(in full), and equal weights and 5e-5 to 1e-5 (in earlier forms), by the AUC on tables that are not reported: the words of 4,600
mails, 36 films of MovieLens 1M by user, 7,928 news articles. Spambase and Diabetes were seen on the way."""
FAINT = 0.01
"""A table with less than this fraction of the precision of the best is not measured. Not tuned."""
MIXED_HUB = 0.5
"""A column of two categories is likely to be predicted if it is mixed as much as this: the rarer one has 15%. Not tuned."""
OWN_FRACTION = 0.1
"""Tables of single columns have this fraction of the precision of the pair tables, at most. Not tuned."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredTables:
    """The tables of the second sum: some of single columns, then those of pairs.

    Parameters
    ----------
    pairs : sequence of pairs of int
        Columns whose pair tables are measured.
    weights : ndarray of shape (n_pairs,)
        Their weights.
    own_weights : ndarray of shape (n_columns,)
        Weights of tables of single columns; there is none where the weight is 0.
    sizes : sequence of int
        Number of bins of each column.
    """

    pairs: Sequence[tuple[int, int]]
    weights: Matrix
    own_weights: Matrix
    sizes: Sequence[int]

    def bound(self, rows_per_unit: int) -> Bound:
        """Return how far a unit moves the sum: a row is 1, times the weight, in one cell of every table."""
        squares = float(np.sum(self.weights**2) + np.sum(self.own_weights**2))
        return Bound(*(rows_per_unit * math.sqrt(factor * squares) for factor in (1, 2)))

    def of_rows(self, codes: NDArray[np.integer], edges: NDArray[np.integer]) -> Matrix:
        """Return the weighted tables of rows, one after another; `codes` numbers the bins of all columns in one sequence."""
        counted = pair_counts(codes, int(edges[-1]))
        single = [
            weight * np.bincount(codes[:, place] - edges[place], minlength=self.sizes[place])
            for place, weight in enumerate(self.own_weights)
            if weight > 0
        ]
        double = [
            weight * counted[edges[i] : edges[i + 1], edges[j] : edges[j + 1]].ravel()
            for (i, j), weight in zip(self.pairs, self.weights, strict=True)
        ]
        return np.concatenate([*single, *double])

    def read(
        self, flat: Matrix, noise: float
    ) -> tuple[dict[int, tuple[Matrix, float]], dict[tuple[int, int], Matrix], dict[tuple[int, int], float]]:
        """Return tables of single columns with the variance of their noise, pair tables, and the noise of the latter."""
        own, tables, spread = {}, {}, {}
        for place, weight in enumerate(self.own_weights):
            if weight > 0:
                own[place] = flat[: self.sizes[place]] / weight, (noise / weight) ** 2
                flat = flat[self.sizes[place] :]
        for pair, weight in zip(self.pairs, self.weights, strict=True):
            shape = self.sizes[pair[0]], self.sizes[pair[1]]
            tables[pair], flat = (flat[: math.prod(shape)] / weight).reshape(shape), flat[math.prod(shape) :]
            spread[pair] = noise / weight
        return own, tables, spread


def pair_weights(
    mixed: Matrix, noise: float, hubs: Collection[int] = (), needed: Collection[tuple[int, int]] = ()
) -> Matrix:
    r"""Return the weight of each pair's table, in the order of `pairs_of`; tables of weight 0 are not measured.

    Two columns that hardly vary cannot go together far: the squares of what their table has beyond the product of its margins sum
    to at most about the product of how mixed the two are. S, TIES times that, is what a table is expected to have. With noise of
    precision q, :math:`S / (1 + S q)` of it stays unknown. For a given sum of precisions, the sum of this over all tables is
    smallest for :math:`q = \max(c - 1 / S, 0)` (reverse water-filling). With little noise all weights are about 1.

    Parameters
    ----------
    mixed : ndarray of shape (n_columns,)
        How mixed each column is, from 0 (constant) to 1.
    noise : float
        Standard deviation of the noise in the probabilities of a table that had the budget for itself.
    hubs : collection of int
        Columns whose tables get a label's part of the budget, at least.
    needed : collection of pairs of int
        Pairs that have a table in any case, because a constraint is about them; the lower place first.
    """
    pairs = list(pairs_of(len(mixed)))
    precision = np.ones(len(pairs))
    in_any_case = np.array([pair in needed for pair in pairs])
    if noise > 0:
        least = np.array([1 / max(TIES * mixed[i] * mixed[j], 1e-12) for i, j in pairs])
        ordered = np.sort(least)
        levels = (noise**-2 + np.cumsum(ordered)) / np.arange(1, len(pairs) + 1)
        above = np.flatnonzero(levels > ordered)
        if above.size:  # otherwise all columns seem constant beside this noise, and no table is better than another
            precision = np.maximum(levels[above[-1]] - least, 0.0)
            precision[precision < FAINT * precision.max()] = 0.0
            precision[in_any_case] = np.maximum(precision[in_any_case], precision[precision > 0].mean())
    of_hubs = np.array([any(hub in pair for hub in hubs) for pair in pairs])
    theirs, others = precision[of_hubs].sum(), precision[~of_hubs].sum()
    fraction = min(LABEL_FRACTION * max(1.0, len(hubs) / 2), MOST_LABELS)
    if 0 < theirs < fraction * (theirs + others):
        precision[of_hubs] *= fraction / (1 - fraction) * others / theirs
    weights: Matrix = np.sqrt(precision / precision.max())
    return weights


def column_weights(blocks: Sequence[tuple[int, int]], weights: Matrix, sizes: Sequence[int]) -> Matrix:
    """Return the weight of a table of each column by itself, for those that the pair tables tell too little about.

    The margin of a pair table has the noise of a row of its cells. A column's tables together are to have the precision of one
    table of weight 1, as far as OWN_FRACTION allows.
    """
    known = np.zeros(len(sizes))
    for (i, j), weight in zip(blocks, weights, strict=True):
        known[i] += weight**2 / sizes[j]
        known[j] += weight**2 / sizes[i]
    lacking = np.maximum(1 - known, 0.0)
    most = OWN_FRACTION * float(np.sum(weights**2))
    scaled: Matrix = np.sqrt(lacking * min(1.0, most / max(float(lacking.sum()), 1e-300)))
    return scaled


def mixture(histogram: Matrix, count: float, noise: float) -> float:
    """Return how mixed a column is: twice the probability that two rows differ in it (Gini), and at most 1.

    A column of two equally frequent categories counts as much as one of many values. Noise adds to the sum of squares.
    """
    alike = (float(np.sum(histogram**2)) - len(histogram) * noise**2) / count**2
    return min(max(2 * (1 - alike), 0.0), 1.0)


def noise_by_column(blocks: Sequence[tuple[int, int]], weights: Matrix, width: int, alone: float) -> Matrix:
    """Return the noise by which each column is divided into bins: that of its tables, at most that of tables of equal weights.

    Parameters
    ----------
    blocks, weights : sequence
        The pairs that are measured.
    width : int
        Number of columns.
    alone : float
        Noise of a table that had the budget for itself.
    """
    squares, degree = np.zeros(width), np.zeros(width)
    for pair, weight in zip(blocks, weights, strict=True):
        for place in pair:
            squares[place] += weight**2
            degree[place] += 1
    of_weight_1, equal = alone * math.sqrt(np.sum(weights**2)), alone * math.sqrt(math.comb(width, 2))
    own = of_weight_1 * np.sqrt(degree / np.maximum(squares, 1e-300))
    ahead: Matrix = np.where(degree > 0, np.minimum(own, equal), equal)
    return ahead


def pairs_of(n_columns: int) -> Iterator[tuple[int, int]]:
    """Return all pairs of columns, in the order in which their tables are measured."""
    return itertools.combinations(range(n_columns), 2)
