"""The cells of one holder sorted by unit, and sums in which each unit's term is computed from its own cells alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.factor.arrays import Floats, Integers
from tacit.factor.coupled.cells import added
from tacit.factor.coupled.private.problem import Problem
from tacit.factor.coupled.relation import Relation


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Undisclosed):
    """Pairs of a unit and a row of a factor, each with all cells that the unit has at the row.

    Attributes
    ----------
    of_cell : ndarray of int64
        The pair of every cell.
    unit, row : ndarray of int64
        Of every pair.
    """

    of_cell: Integers
    unit: Integers
    row: Integers

    @classmethod
    def of(cls, unit: Integers, row: Integers, rows: int) -> Pairs:
        """Group cells into pairs."""
        keys, of_cell = np.unique(unit * rows + row, return_inverse=True)
        return cls(of_cell.astype(np.int64), keys // rows, keys % rows)

    def total(self, terms: Floats) -> Floats:
        """Add up the terms (one row per cell) of every pair."""
        return added(self.of_cell, terms, len(self.unit))


@dataclass(frozen=True, eq=False, repr=False)
class UnitCells(Undisclosed):
    """The known cells of one private relation, sorted by the protected entity.

    Attributes
    ----------
    relation : Relation
    coords : ndarray of shape (n, order)
        As in the relation, in this site's own numbering.
    ends : ndarray of int64, shape (entities + 1,)
        The cells of entity u are from ``ends[u]`` up to ``ends[u + 1]``.
    rows : mapping of factor to ndarray
        The row of every cell in the factors over all sites.
    sizes : mapping of factor to int
        Of all sites' factors, the protected entity's first.
    values : ndarray
        Scaled to the range from -1 to 1, and clipped.
    offset : int
        First row of this site's protected entities in their factor over all sites.
    """

    relation: Relation
    coords: NDArray[np.int32]
    ends: Integers
    rows: dict[str, Integers]
    sizes: dict[str, int]
    values: Floats
    offset: int

    @classmethod
    def of(cls, relation: Relation, problem: Problem, least: float, greatest: float) -> UnitCells:
        """List the cells of a relation; `least` and `greatest` are the public range of its values."""
        coords, values = relation.known_cells()
        axis = {
            name: relation.spec.output.index(letter)
            for place, name in enumerate(relation.factors)
            if (letter := relation.spec.data_letters(place))
        }
        order = np.lexsort([coords[:, other] for other in reversed(range(coords.shape[1]))])
        order = order[np.argsort(coords[order, axis[problem.entity]], kind="stable")]
        coords, values = coords[order], values[order]
        counts = np.bincount(coords[:, axis[problem.entity]], minlength=relation.shape[axis[problem.entity]])
        middle, half = (greatest + least) / 2, (greatest - least) / 2
        rows = {
            name: (coords[:, axis[name]].astype(np.int64) + problem.offsets[name])
            if name in axis
            else np.zeros(len(coords), np.int64)
            for name in relation.factors
        }
        return cls(
            relation,
            coords,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rows,
            {name: problem.sizes[name] for name in (problem.entity, *problem.everywhere)},
            np.clip((values - middle) / half, -1.0, 1.0),
            problem.offsets[problem.entity],
        )

    @property
    def n_entities(self) -> int:
        """Number of protected entities in this site's list."""
        return len(self.ends) - 1

    @property
    def counts(self) -> Integers:
        """Number of cells of every entity."""
        return np.diff(self.ends)

    @property
    def most_cells(self) -> int:
        """The number of cells that an entity can have (at least 1), from the public shape of the relation."""
        return max(math.prod(self.relation.shape) // max(self.n_entities, 1), 1)

    @cached_property
    def entity(self) -> Integers:
        """The protected entity of every cell, in this site's numbering."""
        return np.repeat(np.arange(self.n_entities), self.counts)

    @cached_property
    def each(self) -> NDArray[np.int32]:
        """0, 1, 2, ...: the index for kernels that take regressors from a table, if the table has one row per cell."""
        return np.arange(len(self.values), dtype=np.int32)

    def per_entity(self, terms: Floats) -> Floats:
        """Add up the terms of every entity's cells."""
        return added(self.entity, terms, self.n_entities)

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """The pairs of entities and rows, for every factor."""
        return {name: Pairs.of(self.entity, self.rows[name], self.sizes[name]) for name in self.rows}
