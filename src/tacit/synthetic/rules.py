"""Constraints of the schema in a model of bins: pairs of bins that no row has, and drawn values put right."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.constraints import AtMost, Constraint, Implies, constraint_from_dict
from tacit.data.schema import ColumnSpec, Quantity
from tacit.errors import InvalidInputError, words


def comparable(spec: ColumnSpec, column: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    """Return a column of the private table in the form of a drawn one, so that a constraint can be checked in it."""
    read = spec.numbers(column, name)
    if read is None:
        return spec.values(spec.cells(column, name), np.zeros(len(column)))
    assert isinstance(spec, Quantity)
    return np.clip(read, *spec.bounds)


class Rules:
    """The constraints of a table, by the bins of its columns.

    Parameters
    ----------
    specs : mapping from str to ColumnSpec
    constraints : sequence of dict
    bins, within : ndarray of shape (n_cells,)
        Bin of each cell, and its probability within the bin; all columns side by side.
    """

    def __init__(
        self,
        specs: Mapping[str, ColumnSpec],
        constraints: Sequence[Mapping[str, Any]],
        bins: NDArray[np.intp],
        within: NDArray[np.float64],
    ) -> None:
        self.specs, self.names = specs, list(specs)
        self.constraints: list[Constraint] = [constraint_from_dict(one) for one in constraints]
        starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in specs.values()])])
        self.bins = [bins[first:last] for first, last in itertools.pairwise(starts)]
        self.within = [within[first:last] for first, last in itertools.pairwise(starts)]
        self.edges = np.concatenate([[0], np.cumsum([part.max() + 1 for part in self.bins])])

    def forbidden(self, tables: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which pairs of bins no row may have."""
        forbidden = np.zeros(tables.shape, dtype=bool)
        for constraint in self.constraints:
            part, mirror = self._block(constraint)
            ruled_out = ~self._allowed(constraint, tables[part])
            forbidden[part] |= ruled_out
            forbidden[mirror] |= ruled_out.T
        return forbidden

    def enforce(self, drawn: dict[str, NDArray[np.generic]], tables: NDArray[np.float64]) -> None:
        """Change drawn values, in place, until all constraints hold in every row; raise if they cannot hold together."""
        for _ in range(len(self.constraints) + 1):
            for constraint in self.constraints:
                self._put_right(constraint, drawn, tables)
            if not any(constraint.broken(drawn).any() for constraint in self.constraints):
                return
        raise InvalidInputError(
            "constraints that can hold together", words("some that contradict each other"), "Correct the schema."
        )

    def _put_right(
        self, constraint: Constraint, drawn: dict[str, NDArray[np.generic]], tables: NDArray[np.float64]
    ) -> None:
        one, other = drawn[constraint.first], drawn[constraint.second]
        wrong = constraint.broken(drawn)
        if isinstance(constraint, AtMost):
            (low, high), (least, most) = (self._ends(name) for name in (constraint.first, constraint.second))
            smaller = np.clip(other[wrong], low, high)  # in the wrong order: they change places, as far as bounds allow
            drawn[constraint.first], drawn[constraint.second] = one.copy(), other.copy()
            drawn[constraint.first][wrong] = smaller
            drawn[constraint.second][wrong] = np.maximum(np.clip(one[wrong], least, most), smaller)
        elif isinstance(constraint, Implies):
            values = self.specs[constraint.second].values(
                self.specs[constraint.second].cells(np.array(constraint.values), constraint.second), np.zeros(1)
            )
            drawn[constraint.second] = np.where(wrong, values[0], other)
        else:
            place, second = self.names.index(constraint.first), self.names.index(constraint.second)
            cells = self.specs[constraint.first].cells(one, constraint.first)
            goes_with = self._determined(tables[self._block(constraint)[0]])[self.bins[place][cells]]
            # the likeliest cell of the bin, and its middle: the same for all rows
            likeliest = np.array(
                [
                    np.flatnonzero(self.bins[second] == bin_)[np.argmax(self.within[second][self.bins[second] == bin_])]
                    for bin_ in range(int(self.bins[second].max()) + 1)
                ]
            )
            drawn[constraint.second] = self.specs[constraint.second].values(
                likeliest[goes_with], np.full(len(cells), 0.5)
            )

    def _ends(self, name: str) -> tuple[Any, Any]:
        """Return the bounds of a column, as values that are drawn."""
        spec = self.specs[name]
        low, high = spec.values(np.array([0, spec.n_cells - 1 - spec.has_missing]), np.array([0.0, 1.0]))
        return low, high

    def _allowed(self, constraint: Constraint, table: NDArray[np.float64]) -> NDArray[np.bool_]:
        first, second = (self.names.index(name) for name in (constraint.first, constraint.second))
        if isinstance(constraint, AtMost):
            least = self._extreme(first, np.minimum, 0.0, np.inf)
            most = self._extreme(second, np.maximum, 1.0, -np.inf)
            return ~(least[:, None] > most[None, :])
        allowed = np.ones(table.shape, dtype=bool)
        if isinstance(constraint, Implies):
            (value,) = self.specs[constraint.first].cells(np.array([constraint.value]), constraint.first)
            others = self.specs[constraint.second].cells(np.array(constraint.values), constraint.second)
            allowed[self.bins[first][value]] = np.isin(np.arange(table.shape[1]), self.bins[second][others])
            return allowed
        return np.asarray(np.arange(table.shape[1]) == self._determined(table)[:, None])

    @staticmethod
    def _determined(table: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the bin of the second column that goes with each bin of the first."""
        return np.asarray(np.argmax(table, axis=1))

    def _extreme(self, place: int, of: Any, within: float, start: float) -> NDArray[np.float64]:
        """Return the least or the largest value in each bin; a missing value is below or above all others."""
        spec = self.specs[self.names[place]]
        assert isinstance(spec, Quantity)
        extremes = np.full(int(self.bins[place].max()) + 1, start)
        ends = spec.positions(np.arange(spec.n_cells), np.full(spec.n_cells, within))
        of.at(extremes, self.bins[place], np.where(np.isnan(ends), -start, ends))
        return extremes

    def _block(self, constraint: Constraint) -> tuple[Any, Any]:
        i, j = (self.names.index(name) for name in (constraint.first, constraint.second))
        rows, columns = slice(self.edges[i], self.edges[i + 1]), slice(self.edges[j], self.edges[j + 1])
        return (rows, columns), (columns, rows)
