r"""Finer bins for the draw: rows are spread evenly inside the cells of the pair tables, too.

The bins of a fit are as wide as its noise demands. A draw that chose the place of a row within its bins at random would add the
noise of that choice to the private table's: with 4,500 rows and 20 classes of each of two columns, more than the noise for
privacy. So a draw divides the bins further. In the parts of a bin, the log-probabilities of a row change along a line through
those of the neighbouring bins, and the tables of pairs of parts follow the tables of the pairs of bins, with which they agree.
A draw leans towards these tables as it does towards those of the bins (`tacit.synthetic.pairwise`).

All of this works on what was released.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.schema import ColumnSpec
from tacit.errors import Undisclosed
from tacit.synthetic.pairwise import LARGEST_COUPLING, Codes, PairwiseModel

PARTS, ROWS = 40, 2.0
"""Parts of all bins of a column of numbers, at most, and mean number of rows in a cell of a table of pairs of parts, at least. Of
20, 40 and 80 parts, and 1 to 20 rows, by the error of pair tables that are not reported: customers and invoice lines of a shop,
news articles."""
ALL_PARTS = 2000
"""Parts of all columns, about, at most: the tables of a draw have the square of this number of cells."""
LARGEST_LIFT = 5.0
"""A pair of bins that is more than e^5 times as frequent as in independent columns, or as rare, counts as if it were just that.
Not tuned."""
ROUNDS = 5
"""How often the tables of parts are scaled to the margins and to the tables of bins. Not tuned."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Parts(Undisclosed):
    """The parts of all bins of all columns, in order.

    Parameters
    ----------
    of_cells : ndarray of shape (n_cells,)
        The part of each cell, numbered within its column.
    within : ndarray of shape (n_cells,)
        The probability of each cell given its part.
    parent : ndarray of shape (n_parts,)
        The bin of each part; bins of all columns are numbered in one sequence.
    chance : ndarray of shape (n_parts,)
        The probability of each part given its bin.
    sizes : ndarray of shape (n_columns,)
        Number of parts of each column.
    steps : ndarray of shape (n_parts, n_bins)
        Values at the bins times this matrix are values at the parts, along lines through the neighbouring bins.
    """

    of_cells: NDArray[np.intp]
    within: Matrix
    parent: NDArray[np.intp]
    chance: Matrix
    sizes: NDArray[np.intp]
    steps: Matrix

    @classmethod
    def of(cls, bins: NDArray[np.intp], within: Matrix, specs: Sequence[ColumnSpec], most: int) -> Parts:
        """Divide the bins of every ordered column into about `most` parts, each bin into as many as the others."""
        starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in specs])])
        columns, first = [], 0
        for spec, (start, end) in zip(specs, itertools.pairwise(starts), strict=True):
            columns.append(_parts_of(bins[start:end], within[start:end], spec, most, first))
            first += int(bins[start:end].max()) + 1
        of_cells, inner, parent, chance, place = zip(*columns, strict=True)
        whole, offsets = np.concatenate(parent), np.concatenate(place)
        steps = np.zeros((len(whole), first))
        rows = np.arange(len(whole))
        steps[rows, whole] = 1.0
        edge = 0
        for spec, own in zip(specs, parent, strict=True):
            here, last = np.arange(edge, edge + len(own)), int(own.max()) - spec.has_missing
            above, below = (np.clip(own + way, int(own.min()), last) for way in (1, -1))
            # half as steep in the first and the last bin; other slopes there made no difference to the tables of ROWS
            np.add.at(steps, (here, above), offsets[here] / 2)
            np.add.at(steps, (here, below), -offsets[here] / 2)
            edge += len(own)
        return cls(
            np.concatenate(of_cells),
            np.concatenate(inner),
            whole,
            np.concatenate(chance),
            np.array([len(own) for own in parent]),
            steps,
        )

    def model(self, coarse: PairwiseModel) -> PairwiseModel:
        """Return the distribution of rows as parts."""
        if len(self.parent) == len(coarse.margins):  # nothing is divided
            return coarse
        margins = coarse.margins[self.parent] * self.chance
        parents = np.ix_(self.parent, self.parent)
        tables = self._tables(coarse, margins)
        fine = PairwiseModel(
            self.sizes, margins, tables, coarse.forbidden[parents], coarse.coarse[self.parent], coarse.triples
        )
        smooth = self.steps @ np.maximum(coarse.couplings, -LARGEST_COUPLING) @ self.steps.T
        fine.couplings = np.where(fine.forbidden, coarse.couplings[parents], smooth).astype(np.float32)
        fine.third = coarse.third
        return fine

    def _tables(self, coarse: PairwiseModel, margins: Matrix) -> Matrix:
        """Return the tables of pairs of parts: they have the margins of the parts, and summed up they are the tables of bins."""
        alone = np.outer(coarse.margins, coarse.margins)
        lift = np.log(np.maximum(coarse.tables, 1e-12) / np.maximum(alone, 1e-12))
        lift = np.where(coarse.mask, np.clip(lift, -LARGEST_LIFT, LARGEST_LIFT), 0.0)
        parents = np.ix_(self.parent, self.parent)
        tables = np.outer(margins, margins) * np.exp(self.steps @ lift @ self.steps.T) * coarse.mask[parents]
        first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        starts = np.searchsorted(self.parent, np.arange(len(coarse.margins)))
        for _ in range(ROUNDS):
            rows = np.maximum(np.add.reduceat(tables, first, axis=1), 1e-300)
            tables = tables * np.repeat(margins[:, None] / rows, self.sizes, axis=1)
            tables = (tables + tables.T) / 2
            sums = np.add.reduceat(np.add.reduceat(tables, starts, axis=0), starts, axis=1)
            tables = tables * (coarse.tables / np.maximum(sums, 1e-300))[parents]
        return tables

    def codes(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return rows of bins as rows of parts: parts are drawn by their probabilities."""
        ends = np.cumsum(self.chance)  # the parts of bin b: from b to b + 1
        parts = np.searchsorted(ends, codes + np.clip(generator.random(codes.shape), 1e-9, 1 - 1e-9), side="right")
        first = np.searchsorted(self.parent, codes)
        last = np.searchsorted(self.parent, codes, side="right") - 1
        return np.ascontiguousarray(np.clip(parts, first, last), dtype=np.int32)


def _parts_of(
    bins: NDArray[np.intp], within: Matrix, spec: ColumnSpec, most: int, first: int
) -> tuple[NDArray[np.intp], Matrix, NDArray[np.intp], Matrix, Matrix]:
    """Return a column's parts of cells, cells within parts, and each part's bin, probability, and distance from the middle."""
    n_bins = int(bins.max()) + 1
    each = max(round(most / n_bins), 1) if spec.is_ordered else 1
    if each == 1:
        return bins, within, first + np.arange(n_bins), np.ones(n_bins), np.zeros(n_bins)
    middle = (
        np.cumsum(within) - bins - within / 2
    )  # bins are in order: how much of its bin is before the middle of a cell
    keys = bins * each + np.minimum((each * np.clip(middle, 0.0, 1.0)).astype(np.intp), each - 1)
    keys, of_cells = np.unique(keys, return_inverse=True)
    parent, chance = keys // each, np.asarray(np.bincount(of_cells, within), dtype=np.float64)
    starts = np.cumsum(chance) - chance - parent
    even = 1 / np.bincount(of_cells)[of_cells]  # for parts that no row is in
    inner: Matrix = np.where(chance[of_cells] > 0, within / np.maximum(chance[of_cells], 1e-300), even)
    return of_cells.astype(np.intp), inner, first + parent, chance, starts + chance / 2 - 0.5


def parts_for(count: float, width: int) -> int:
    """Return into how many parts a column of numbers is divided, in a table of this many rows and columns."""
    return int(np.clip(np.sqrt(count / ROWS), 1, min(PARTS, ALL_PARTS / width)))
