"""A relation made ready for sweeps: what it says to each factor, and what its misfit costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from tacit.errors import Undisclosed
from tacit.factor.coupled.contraction import (
    mean_gradient,
    square_gradient,
    square_gram,
    total_mean,
    total_square,
)
from tacit.factor.coupled.divergence import Floats, divergence
from tacit.factor.coupled.listed import ListedCells
from tacit.factor.coupled.relation import Relation

ROUNDING = 1e-11
"""A difference below this share of what it was taken from is nothing but rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Statistics(Undisclosed):
    """What a relation says to one factor, before its update.

    Parameters
    ----------
    numerator, denominator : ndarray of the factor's shape
        The gradient of the cost by the factor is the difference: denominator minus numerator.
    loss : float or None
        The divergence of the whole relation, at the factors given.
    """

    numerator: Floats
    denominator: Floats
    loss: float | None = None


class Term(ABC):
    """One relation in a sweep; `factors` are always given in the order of its einsum.

    `power` is the divergence that the statistics are for; by default the relation's own.
    """

    def __init__(self, relation: Relation) -> None:
        self.relation, self.spec, self.power = relation, relation.spec, relation.power
        self.n_observed = relation.n_observed

    @abstractmethod
    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> Statistics:
        """Return what the relation says to the factor at `place`."""

    @abstractmethod
    def loss(self, factors: tuple[Floats, ...]) -> float:
        """Return the divergence of the known cells from their means."""

    @abstractmethod
    def means_of_stored(self, factors: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Return the values that are not zero, and their means."""

    @abstractmethod
    def numerator(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return the numerator of `statistics` alone."""

    @abstractmethod
    def exposure(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return the gradient of the sum of all known cells' means by the factor at `place`."""

    @abstractmethod
    def mass(self, factors: tuple[Floats, ...]) -> float:
        """Return the sum of all known cells' means."""

    def gram(self, place: int, factors: tuple[Floats, ...]) -> Floats | None:
        """Return the Gram matrix that all rows of a factor share under Euclid; None where they do not share one."""
        return None


class StoredTerm(Term):
    """A relation whose known cells are the stored ones."""

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        self.listed = ListedCells(self.spec, relation.shape, *relation.stored())

    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> Statistics:
        """See `Term`."""
        top, bottom, _ = self.listed.spread(place, factors, self.power, denominator=True)
        assert bottom is not None
        return Statistics(top, bottom, self.loss(factors) if loss else None)

    def loss(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        return float(divergence(self.listed.values, self.listed.means(factors), self.power).sum())

    def means_of_stored(self, factors: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """See `Term`."""
        return self.listed.values, self.listed.means(factors)

    def numerator(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        return self.listed.spread(place, factors, self.power, denominator=False)[0]

    def exposure(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        bottom = self.listed.spread(place, factors, 1.0, denominator=True)[1]
        assert bottom is not None
        return bottom

    def mass(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        return float(self.listed.means(factors).sum())


class ZerosTerm(Term):
    """A sparse relation whose other cells are zeros, but for some that are unknown; Euclid or Kullback-Leibler.

    What the zeros say is what all cells would say as zeros, by column sums and Grams, less what the unknown ones would.
    """

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        self.keep = relation.keep
        coords, values = relation.stored()
        filled = values != 0
        self.listed = ListedCells(self.spec, relation.shape, coords[filled], values[filled])
        self.holes = ListedCells(self.spec, relation.shape, relation.holes, np.zeros(len(relation.holes)))
        x = self.listed.values
        self._constant = float(x @ np.log(x) - x.sum()) if self.power == 1 else 0.5 * float(x @ x)

    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> Statistics:
        """See `Term`."""
        top, _, stored = self.listed.spread(place, factors, self.power, denominator=False, loss=loss)
        bottom = self.exposure(place, factors) if self.power == 1 else self._squares(place, factors)
        return Statistics(top, bottom, self._constant - stored + self._penalty(factors) if loss else None)

    def loss(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        x, means = self.means_of_stored(factors)
        stored = x @ np.log(np.maximum(means, 1e-12)) if self.power == 1 else x @ means
        return self._constant - float(stored) + self._penalty(factors)

    def means_of_stored(self, factors: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """See `Term`."""
        return self.listed.values, self.listed.means(factors)

    def numerator(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        return self.listed.spread(place, factors, self.power, denominator=False)[0]

    def exposure(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        return self._less_holes(mean_gradient(self.spec, factors, self.keep, place), place, factors, 1.0)

    def mass(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        return max(total_mean(self.spec, factors, self.keep) - float(self.holes.means(factors).sum()), 0.0)

    def gram(self, place: int, factors: tuple[Floats, ...]) -> Floats | None:
        """See `Term`."""
        return None if len(self.holes) else square_gram(self.spec, factors, self.keep, place)

    def _squares(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        return self._less_holes(square_gradient(self.spec, factors, self.keep, place), place, factors, 0.0)

    def _less_holes(self, full: Floats, place: int, factors: tuple[Floats, ...], power: float) -> Floats:
        if not len(self.holes):
            return full
        hidden = self.holes.spread(place, factors, power, denominator=True)[1]
        assert hidden is not None
        rest = full - hidden
        return np.where(rest > ROUNDING * full, rest, 0.0) if power == 1 or (full >= 0).all() else rest

    def _penalty(self, factors: tuple[Floats, ...]) -> float:
        if self.power == 1:
            return self.mass(factors)
        hidden = self.holes.means(factors)
        return 0.5 * (total_square(self.spec, factors, self.keep) - float(hidden @ hidden))
