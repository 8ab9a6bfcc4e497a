"""Gradients of a relation's cells, one row a cell, for any einsum; and each unit's sum of them, cut off at a norm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.factor.coupled.private_cells import Floats, Pairs, Whole, added
from tacit.factor.coupled.reconstruct import cell_letter
from tacit.factor.coupled.spec import Spec

LEAST_MEAN = 1e-2


@dataclass(frozen=True, eq=False, repr=False)
class Cells(Undisclosed):
    """Cells of one relation, with the row of each in every factor; what a gradient is computed from.

    Attributes
    ----------
    spec : Spec
    names : tuple of str
        The factors, in the order of the einsum.
    ranks : mapping of letter to int
    rows : mapping of factor to ndarray
    values : ndarray
    power : float
        0 for Euclid, 1 for Kullback-Leibler.
    """

    spec: Spec
    names: tuple[str, ...]
    ranks: Mapping[str, int]
    rows: Mapping[str, Whole]
    values: Floats
    power: float

    def taken(self, chosen: NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        rows = {name: one[chosen] for name, one in self.rows.items()}
        return Cells(self.spec, self.names, self.ranks, rows, self.values[chosen], self.power)

    def means(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the model's mean of every cell; `factors` are matrices, one row an entity."""
        groups, operands = self._operands(factors, range(len(self.names)))
        return np.asarray(np.einsum(f"{','.join(groups)}->{cell_letter(self.spec)}", *operands, optimize=True))

    def pull(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the log-likelihood by the mean, for every cell."""
        means = self.means(factors)
        return self.values - means if self.power == 0 else self.values / np.maximum(means, LEAST_MEAN) - 1

    def slopes(self, name: str, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the mean by the row of one factor: one row a cell."""
        place, new = self.names.index(name), cell_letter(self.spec)
        groups, operands = self._operands(factors, [other for other in range(len(self.names)) if other != place])
        summed = self.spec.summed_letters(place)
        # letters that this factor alone has: its entries all get the same
        free = [letter for letter in summed if letter not in "".join(groups)]
        operands += [np.ones(len(self.values)), *(np.ones(self.ranks[letter]) for letter in free)]
        text = ",".join([*groups, new, *free])
        slopes = np.asarray(np.einsum(f"{text}->{new}{summed}", *operands, optimize=True))
        # the width is counted, not left to numpy: a sample may have no cell
        return slopes.reshape(len(self.values), math.prod(self.ranks[letter] for letter in summed))

    def _operands(self, factors: Mapping[str, Floats], places: Sequence[int] | range) -> tuple[list[str], list[Floats]]:
        new = cell_letter(self.spec)
        groups, operands = [], []
        for place in places:
            summed = self.spec.summed_letters(place)
            shape = [self.ranks[letter] for letter in summed]
            rows = factors[self.names[place]]
            if self.spec.data_letters(place):
                groups.append(new + summed)
                operands.append(rows[self.rows[self.names[place]]].reshape(len(self.values), *shape))
            else:
                groups.append(summed)
                operands.append(rows.reshape(shape))
        return groups, operands


def clipped_gradients(
    relations: Sequence[tuple[Cells, Whole]],
    factors: Mapping[str, Floats],
    names: Sequence[str],
    units: int,
    clip: float,
) -> dict[str, Floats]:
    """Return the sum over the units of each one's gradient by the named factors, cut off at norm `clip`.

    Parameters
    ----------
    relations : sequence of (Cells, units)
        Cells, and the unit of each.
    factors : mapping of factor to ndarray
    names : sequence of str
    units : int
        How many units there are.
    clip : float
    """
    terms: dict[str, list[Floats]] = {name: [] for name in names}
    places: dict[str, list[tuple[Whole, Whole]]] = {name: [] for name in names}
    for cells, unit in relations:
        pull = cells.pull(factors)
        for name in names:
            if name in cells.names:
                terms[name].append(pull[:, None] * cells.slopes(name, factors))
                places[name].append((unit, cells.rows[name]))
    gathered: dict[str, tuple[Pairs, Floats]] = {}
    squares = np.zeros(units)
    for name in names:
        unit = np.concatenate([one for one, _ in places[name]])
        row = np.concatenate([one for _, one in places[name]])
        pairs = Pairs.of(unit, row, len(factors[name]))
        total = pairs.total(np.concatenate(terms[name]))
        squares += added(pairs.unit, (total**2).sum(axis=1), units)
        gathered[name] = pairs, total
    scales = np.minimum(1.0, clip / np.maximum(np.sqrt(squares), 1e-300))
    return {
        name: added(pairs.row, total * scales[pairs.unit][:, None], len(factors[name]))
        for name, (pairs, total) in gathered.items()
    }
