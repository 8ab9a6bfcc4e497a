"""Sums over a list of stored cells for the update of each factor; the work is proportional to the number of cells.

For CP models of any order the loops are compiled. All factors are stacked in one array, so that the same loop serves every
order: a cell is a row number for each axis. The cells are sorted by the axis whose factor is updated. So rows are independent
and can be divided among threads, and the sums of a row do not depend on this division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import Coords
from tacit.factor.coupled.divergence import LEAST
from tacit.factor.coupled.einsum import Layout, Spec
from tacit.factor.coupled.predict import BY_PAIRS, blocks, cell_letter, gathered, reconstruct_at
from tacit.factor.kernels import parallel_for
from tacit.factor.small_solves import fused


@fused
def sort_cells(index: NDArray[np.int32], n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the cells of each row end, and the cells in the order of their rows (a stable counting sort)."""
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
    """Return ``x m**-p`` and ``m**(1 - p)``, the weights in the numerator and denominator of Ermis 2020, eq. 3.2."""
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
    """Add up the terms of the cells of each row of one factor.

    With the product v of the other factors' rows and the mean m = sum(own * v): `numerator` gets ``x m**-p v``,
    `denominator` (if it has rows) ``m**(1 - p) v``, and `losses` (if it has any) the part of the loss of stored cells: each
    row's ``x log m`` for p = 1, ``x m`` for p = 0.
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
    """Set `means` to the model's means of the cells, which are given by a row number for every axis."""
    rank = stacked.shape[1]
    for cell in range(start, stop):
        mean = 0.0
        for r in range(rank):
            product = stacked[cells[cell, 0], r]
            for k in range(1, cells.shape[1]):
                product *= stacked[cells[cell, k], r]
            mean += product
        means[cell] = mean


@dataclass(frozen=True, eq=False, repr=False)
class _Sorted(Undisclosed):
    """The cells in the order of one factor's rows; the cells of row i are from ``ends[i]`` up to ``ends[i + 1]``."""

    ends: NDArray[np.int64]
    cells: Coords
    values: Floats


class ListedCells:
    """Cells of one relation, arranged for the updates of all its factors.

    Parameters
    ----------
    spec : Spec
    shape : sequence of int
        The relation's shape.
    coords : ndarray of shape (n, order)
    values : ndarray of shape (n,)
    """

    def __init__(self, spec: Spec, shape: Sequence[int], coords: Coords, values: Floats) -> None:
        self.spec, self.shape, self.coords, self.values = spec, tuple(shape), coords, values
        self._sorted: dict[int, _Sorted] = {}

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _axes(self) -> list[int]:
        """The axis of the data that belongs to each factor of a CP model."""
        return [self.spec.output.index(self.spec.data_letters(place)) for place in range(len(self.spec.inputs))]

    def means(self, factors: tuple[Floats, ...]) -> Floats:
        """Return the model's mean of every cell."""
        if not self.spec.is_cp or len(self) == 0:
            return reconstruct_at(self.spec, factors, self.coords)
        stacked, offsets = self._stacked(factors)
        cells, means = self.coords + offsets, np.empty(len(self))
        work = np.arange(len(self) + 1) * (stacked.shape[1] * len(self.shape))
        parallel_for(lambda start, stop: means_of(cells, stacked, means, start, stop), work)
        return means

    def spread(
        self, place: int, factors: tuple[Floats, ...], power: float, *, denominator: bool, loss: bool = False
    ) -> tuple[Floats, Floats | None, float]:
        """Return the sums over the cells of ``x m**-p`` and ``m**(1 - p)`` times the gradient of the mean m by one factor.

        They are the two sums of Ermis 2020, eq. 3.2, of one relation.

        The third is the sum of ``x log m`` (p = 1) or ``x m`` (p = 0) with `loss`, and 0 without.
        """
        if self.spec.is_cp:
            return self._spread_cp(place, factors, power, denominator, loss)
        return self._spread_any(place, factors, power, denominator, loss)

    def _spread_cp(
        self, place: int, factors: tuple[Floats, ...], power: float, denominator: bool, loss: bool
    ) -> tuple[Floats, Floats | None, float]:
        listed = self._by_rows(place)
        layout = Layout.of(self.spec, place)
        own = np.ascontiguousarray(layout.rows(factors[place]))
        stacked, offsets = self._stacked(factors)
        others = [axis for axis in range(len(self.shape)) if axis != self._axes[place]]
        rows = listed.cells + offsets[others] if others else np.full((len(self), 1), len(stacked) - 1, np.int32)
        top = np.empty(own.shape)
        bottom = np.empty(own.shape if denominator else (0, own.shape[1]))
        losses = np.empty(len(own) if loss else 0)
        parallel_for(
            lambda start, stop: spread_rows(
                listed.ends, rows, listed.values, stacked, own, power, top, bottom, losses, start, stop
            ),
            listed.ends * (own.shape[1] * len(self.shape)),
        )
        shape = factors[place].shape
        below = layout.back(bottom, shape) if denominator else None
        return layout.back(top, shape), below, float(losses.sum())

    def _stacked(self, factors: tuple[Floats, ...]) -> tuple[Floats, NDArray[np.int32]]:
        """Return all factors stacked in the order of the axes, with a last row of ones, and the first row of each."""
        parts: list[Floats] = [np.empty((0, 0))] * len(factors)
        for place, axis in enumerate(self._axes):
            parts[axis] = Layout.of(self.spec, place).rows(factors[place])
        stacked = np.concatenate([*parts, np.ones((1, parts[0].shape[1]))])
        return stacked, np.concatenate([[0], np.cumsum(self.shape[:-1])]).astype(np.int32)

    def _spread_any(
        self, place: int, factors: tuple[Floats, ...], power: float, denominator: bool, loss: bool
    ) -> tuple[Floats, Floats | None, float]:
        listed = self._by_rows(place)
        shape = factors[place].shape
        layout = Layout.of(self.spec, place)
        rows, width = layout.size(shape)
        own = self.spec.inputs[place]
        new = cell_letter(self.spec)
        summed = self.spec.summed_letters(place)
        sizes = dict(zip(own, shape, strict=True))
        top, bottom = np.zeros((rows, width)), np.zeros((rows, width) if denominator else (0, 0))
        lost = 0.0
        for block in blocks(self.spec, factors, len(self)):
            text, operands = gathered(self.spec, factors, listed.cells[block])
            groups = text.split(",")
            x = listed.values[block]
            mean = np.einsum(f"{text}->{new}", *operands, optimize=BY_PAIRS)
            if power > 0:
                mean = np.maximum(mean, LEAST)
            if loss:
                lost += float(x @ (mean if power == 0 else np.log(mean)))
            for weight, total in ((x * mean**-power, top), (mean ** (1 - power), bottom)):
                if not len(total):
                    continue
                left, arrays = [*groups[:place], *groups[place + 1 :], new], [*operands[:place], *operands[place + 1 :]]
                # a letter that only this factor has: all entries along it get the same
                free = [letter for letter in summed if letter not in "".join(left)]
                arrays = [*arrays, weight, *(np.ones(sizes[letter]) for letter in free)]
                left += free
                if rows == 1:  # a core: all cells belong to its one row, so they are summed at once
                    total[0] += np.einsum(f"{','.join(left)}->{summed}", *arrays, optimize=BY_PAIRS).ravel()
                    continue
                terms = np.einsum(f"{','.join(left)}->{new}{summed}", *arrays, optimize=BY_PAIRS)
                _add_by_row(total, terms.reshape(len(x), width), listed.ends, block)
        below = layout.back(bottom, shape) if denominator else None
        return layout.back(top, shape), below, lost

    def _by_rows(self, place: int) -> _Sorted:
        """Return the cells sorted by their row of the factor at `place`; sorted once and kept."""
        if place not in self._sorted:
            letters = self.spec.data_letters(place)
            row, n_rows = np.zeros(len(self), np.int32), 1
            for letter in letters:
                size = self.shape[self.spec.output.index(letter)]
                row, n_rows = row * np.int32(size) + self.coords[:, self.spec.output.index(letter)], n_rows * size
            ends, order = sort_cells(row, n_rows)
            kept = list(range(len(self.shape)))
            if self.spec.is_cp:
                kept.remove(self._axes[place])
            cells = np.empty((len(self), len(kept)), np.int32)
            for column, axis in enumerate(kept):
                cells[:, column] = self.coords[order, axis]
            self._sorted[place] = _Sorted(ends, cells, self.values[order])
        return self._sorted[place]


def _add_by_row(total: Floats, terms: Floats, ends: NDArray[np.int64], block: slice) -> None:
    """Add the terms of a range of sorted cells to the rows they belong to."""
    first, last = np.searchsorted(ends, block.start, side="right") - 1, np.searchsorted(ends, block.stop, side="left")
    starts = np.maximum(ends[first:last], block.start)
    filled = starts < np.minimum(ends[first + 1 : last + 1], block.stop)
    total[first:last][filled] += np.add.reduceat(terms, starts[filled] - block.start, axis=0)
