r"""Triple tables: how two columns of numbers go together in each class of a third column.

Pairs of columns do not hold what a classifier learns from two columns together. Tables of three columns do, and there are too
many of them to measure all. Those of two columns of numbers and a *hub* are measured, in few bins. A hub is the label, if one was
named, or else each column of two categories, which is what is predicted most often, unless one of the two is rare. A triple table
adds to what pairs tell only how a table of numbers differs between the hub's classes; the rest of it is left out, as noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.schema import CategoryColumn, ColumnSpec
from tacit.synthetic.shrinkage import centred, shrunk, shrunk_matrix

MOST_TRIPLES = 400
"""More triple tables than this are not measured: all of them share one budget."""
MOST_CLASSES = 10
"""A label with more classes than this is no hub."""
FRACTION = 0.5
"""Fraction of the budget of pairs and triples for the triples, if there were many more of them than pairs. Not tuned."""
COARSE_BINS = 8
"""Bins of a column of numbers in triple tables, at most."""
CELL_OVER_NOISE = 2.0
"""Mean number of rows in a cell of a triple table, in standard deviations of its noise, from which on triples are measured. Set
after a look at Magic and Adult, where they do no harm, and at the wines and Yeast, where they gain nothing."""
RARE_OVER_NOISE = 0.5
"""The same for the cells of a hub's rarest class. Not tuned."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Triples:
    """The columns whose triple tables may be measured: they follow from the schema, the label, and the first sum."""

    hubs: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    @classmethod
    def of(cls, specs: Sequence[ColumnSpec], label: int = -1) -> Triples:
        """Return the hubs and the columns of numbers; none of either where triple tables would not pay."""
        hubs = hubs_of(specs, label)
        numbers = tuple(
            place for place, spec in enumerate(specs) if spec.is_ordered and spec.n_cells > 2 and place not in hubs
        )
        triples = cls(hubs, numbers)
        return triples if 0 < triples.count <= MOST_TRIPLES else cls()

    @property
    def count(self) -> int:
        """Number of triple tables, in each of which a row is in one cell."""
        return len(self.hubs) * math.comb(len(self.numbers), 2)

    def paying(self, histograms: Sequence[Matrix], noise: float) -> Triples:
        """Return the triples of the hubs whose tables have larger counts than noise; none if there is no such hub.

        Parameters
        ----------
        histograms : sequence of ndarray
            Noisy number of rows in each cell of each column.
        noise : float
            Standard deviation of the noise in a triple table that had the budget for itself.
        """
        by_rarest = sorted(self.hubs, key=lambda hub: -float(histograms[hub].min()))
        for n_hubs in range(len(by_rarest), 0, -1):
            triples = Triples(tuple(sorted(by_rarest[:n_hubs])), self.numbers)
            cell = COARSE_BINS**2 * noise * math.sqrt(triples.count)
            rarest = float(histograms[by_rarest[n_hubs - 1]].min())
            mean = min(float(histograms[hub].mean()) for hub in triples.hubs)
            if rarest >= RARE_OVER_NOISE * cell and mean >= CELL_OVER_NOISE * cell:
                return triples
        return Triples()

    def fraction(self, n_pairs: int) -> float:
        """Return the fraction of the budget of pairs and triples that the triples get."""
        return FRACTION * self.count / (self.count + n_pairs) if self.count else 0.0


def hubs_of(specs: Sequence[ColumnSpec], label: int = -1) -> tuple[int, ...]:
    """Return the columns that are likely to be predicted: the label if one was named, or else those of two categories."""
    if label >= 0:
        return (label,) if specs[label].n_cells <= MOST_CLASSES else ()
    return tuple(place for place, spec in enumerate(specs) if isinstance(spec, CategoryColumn) and spec.n_cells == 2)


def coarse_bins(masses: Sequence[Matrix], specs: Sequence[ColumnSpec], triples: Triples) -> NDArray[np.int32]:
    """Return the coarse bin of each bin, numbered over all columns of numbers; -1 for bins of other columns.

    Parameters
    ----------
    masses : sequence of ndarray
        Noisy number of rows in each bin of each column.
    specs : sequence of ColumnSpec
    triples : Triples
    """
    groups_of_columns, first = [], 0
    for place, (mass, spec) in enumerate(zip(masses, specs, strict=True)):
        if place not in triples.numbers:
            groups_of_columns.append(np.full(len(mass), -1))
            continue
        known = np.maximum(mass[:-1] if spec.has_missing else mass, 0.0)
        total = max(float(known.sum()), 1.0)
        middle = (np.cumsum(known) - known / 2) / total
        _, groups = np.unique(np.floor(COARSE_BINS * np.clip(middle, 0, 1 - 1e-9)), return_inverse=True)
        groups = np.append(groups, groups[-1] + 1) if spec.has_missing else groups
        groups_of_columns.append(groups + first)
        first += int(groups[-1]) + 1
    return np.concatenate(groups_of_columns).astype(np.int32)


def no_triples(n_bins: int) -> dict[str, object]:
    """Return what is released where no triple tables were measured."""
    return {
        "hubs": np.zeros(0, dtype=np.intp),
        "coarse": np.full(n_bins, -1, dtype=np.int32),
        "triples": np.zeros((0, 0, 0, 0)),
        "triples_noise": 0.0,
    }


def blocks_of(coarse: NDArray[np.int32], edges: NDArray[np.integer], triples: Triples) -> list[tuple[slice, slice]]:
    """Return the parts of a table of coarse bins that belong to two columns of numbers, in the order of measuring."""
    ends = [slice(int(coarse[edges[place]]), int(coarse[edges[place + 1] - 1]) + 1) for place in triples.numbers]
    return list(itertools.combinations(ends, 2))


def in_blocks(flat: Matrix, shape: tuple[int, ...], blocks: Sequence[tuple[slice, slice]]) -> Matrix:
    """Return measured tables, given one after another, as an array of (hub, class, coarse bin, coarse bin)."""
    tables = np.zeros(shape)
    for hub, class_, block in itertools.product(range(shape[0]), range(shape[1]), blocks):
        part = tables[hub, class_][block]
        part[...], flat = flat[: part.size].reshape(part.shape), flat[part.size :]
    return tables


def without_noise(measured: Matrix, expected: Matrix, noise: float, blocks: Sequence[tuple[slice, slice]]) -> Matrix:
    """Return the triple tables of a hub: those that pairs of columns lead to expect, and what is more than noise beyond them.

    Parameters
    ----------
    measured, expected : ndarray of shape (n_classes, n_coarse, n_coarse)
        Probabilities, above the diagonal; measured, and in a distribution that has the pair tables only.
    noise : float
        Standard deviation of the noise in `measured`.
    blocks : sequence of (slice, slice)
    """
    n_classes, size = measured.shape[:2]
    away = np.zeros_like(measured)
    for block in blocks:
        part = (measured - expected)[:, *block]
        away[:, *block] = centred(part - part.mean(axis=0))  # the tables of pairs are known better than from here
    known = np.zeros((size, size))
    for one, other in blocks:
        known[one, other] = known[other, one] = 1.0
    n_columns = len({part.start for block in blocks for part in block})
    sigma = noise * math.sqrt(1 - 1 / n_classes)
    signal = np.zeros_like(away)
    for kept, residual in zip(signal, away, strict=True):
        common = shrunk_matrix(residual + residual.T, sigma * known, n_centred=n_columns)
        for block in blocks:
            kept[block] = common[block] + shrunk(residual[block] - common[block], sigma, is_centred=True)
    signal -= signal.mean(axis=0)
    return np.maximum(expected + signal, 0.0)
