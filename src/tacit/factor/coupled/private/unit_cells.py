"""The cells of one holder sorted by unit, and sums in which each unit's term is formed from its own cells alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.factor.coupled.private.problem import Problem
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.symmetric import Floats

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Undisclosed):
    """The cells of one unit at one row of a factor, taken together: a unit moves a row of a sum once.

    Attributes
    ----------
    of_cell : ndarray of int64
        The pair of every cell.
    unit, row : ndarray of int64
        Of every pair.
    """

    of_cell: Whole
    unit: Whole
    row: Whole

    @classmethod
    def of(cls, unit: Whole, row: Whole, rows: int) -> Pairs:
        """Find the pairs; where no unit meets a row twice, every cell is one."""
        keys, of_cell = np.unique(unit * rows + row, return_inverse=True)
        return cls(of_cell.astype(np.int64), keys // rows, keys % rows)

    def total(self, terms: Floats) -> Floats:
        """Add up the terms (one row a cell) of every pair."""
        return added(self.of_cell, terms, len(self.unit))


def added(places: Whole, terms: Floats, size: int) -> Floats:
    """Add rows of `terms` at their places, in the order of the cells."""
    flat = terms.reshape(len(terms), math.prod(terms.shape[1:]))
    sums = np.empty((size, flat.shape[1]))
    for column in range(flat.shape[1]):
        sums[:, column] = np.bincount(places, flat[:, column], minlength=size)
    return sums.reshape(size, *terms.shape[1:])


@dataclass(frozen=True, eq=False, repr=False)
class UnitCells(Undisclosed):
    """The known cells of one private relation, sorted by the protected entity.

    Attributes
    ----------
    relation : Relation
    coords : ndarray of shape (n, order)
        As in the relation: this site's own numbering.
    ends : ndarray of int64, shape (entities + 1,)
        The cells of entity u are from ``ends[u]`` up to ``ends[u + 1]``.
    rows : mapping of factor to ndarray
        The row of every cell in the factors over all sites.
    sizes : mapping of factor to int
    values : ndarray
        Scaled to lie between -1 and 1, cut off there.
    offset : int
        Where this site's protected entities begin in their factor over all sites.
    """

    relation: Relation
    coords: NDArray[np.int32]
    ends: Whole
    rows: dict[str, Whole]
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
            {name: problem.sizes[name] for name in relation.factors},
            np.clip((values - middle) / half, -1.0, 1.0),
            problem.offsets[problem.entity],
        )

    @property
    def n_entities(self) -> int:
        """How many protected entities this site lists."""
        return len(self.ends) - 1

    @property
    def counts(self) -> Whole:
        """Cells of every entity."""
        return np.diff(self.ends)

    @cached_property
    def entity(self) -> Whole:
        """The protected entity of every cell, in this site's numbering."""
        return np.repeat(np.arange(self.n_entities), self.counts)

    @cached_property
    def each(self) -> NDArray[np.int32]:
        """0, 1, 2, ...: for kernels that look cells up in a table, where the table has one row a cell."""
        return np.arange(len(self.values), dtype=np.int32)

    def per_entity(self, terms: Floats) -> Floats:
        """Add up the terms of every entity's cells."""
        return added(self.entity, terms, self.n_entities)

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """For every factor, entity and row together."""
        return {name: Pairs.of(self.entity, self.rows[name], self.sizes[name]) for name in self.rows}


def check_value_range(value_range: object) -> tuple[float, float]:
    """Return the public least and greatest value; there is no clipping without them."""
    if value_range is None:
        raise InvalidInputError(
            "value_range, the public bounds to which values are clipped",
            words("none"),
            "Give them without looking at the data, for example value_range=(1, 5): without a bound there is no privacy.",
        )
    try:
        pair: Any = () if isinstance(value_range, str) else value_range
        least, greatest = (float(end) for end in pair)
    except (TypeError, ValueError):
        least = greatest = np.nan
    if not (np.isfinite([least, greatest]).all() and least < greatest):
        raise InvalidInputError(
            "value_range to be two numbers, the lesser one first", parameter(value_range), "For example (0, 1)."
        )
    return least, greatest
