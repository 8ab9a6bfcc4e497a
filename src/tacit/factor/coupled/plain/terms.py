r"""A relation in a sweep: its statistics for the update of each factor, and its loss; sparse, dense and masked.

All statistics are values of :math:`\Delta_{d,v}` (Ermis 2020, eq. 3.4): with data X, means m and mask M, the numerator
of eq. 3.2 is :math:`\Delta_{d,v}(M \circ m^{-p} \circ X)`, its denominator is :math:`\Delta_{d,v}(M \circ m^{1-p})`,
and `exposure` is :math:`\Delta_{d,v}(M)`. Eq. 3.4 prints a product over the factors that are *not* in the relation; it
means the relation's other factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from tacit.errors import Undisclosed
from tacit.factor.arrays import Floats
from tacit.factor.coupled.divergence import LEAST, divergence
from tacit.factor.coupled.einsum import Layout, Spec
from tacit.factor.coupled.plain.sparse_terms import ListedCells
from tacit.factor.coupled.predict import (
    mean_gradient,
    reconstruct,
    square_gradient,
    square_gram,
    total_mean,
    total_square,
)
from tacit.factor.coupled.relation import Relation

ROUNDING = 1e-11
"""A difference below this fraction of its minuend counts as zero: it is rounding."""
SPARSE_ENOUGH = 0.1
"""Dense data with a smaller fraction of non-zeros is handled in sparse form, if its divergence allows it. Set by hand; it
affects speed only."""


@dataclass(frozen=True, eq=False, repr=False)
class FactorStatistics(Undisclosed):
    """A relation's statistics for the update of one factor.

    Parameters
    ----------
    numerator, denominator : ndarray of the factor's shape
        The gradient of the cost by the factor is the difference, denominator minus numerator (Ermis 2020, eq. A.3).
    loss : float or None
        The divergence of the whole relation, at the given factors.
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
    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> FactorStatistics:
        """Return the statistics for the factor at `place`."""

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
        """Return the Gram matrix that all rows of a factor share under Euclid; None if they do not share one."""
        return None


class StoredTerm(Term):
    """A relation whose known cells are the stored ones."""

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        self.listed = ListedCells(self.spec, relation.shape, *relation.stored())

    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> FactorStatistics:
        """See `Term`."""
        top, bottom, _ = self.listed.spread(place, factors, self.power, denominator=True)
        assert bottom is not None
        return FactorStatistics(top, bottom, self.loss(factors) if loss else None)

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
    """A sparse relation whose other cells are zeros, except for some that are unknown; Euclid or Kullback-Leibler.

    The terms of the zeros are those of all cells, by column sums and Gram matrices, minus those of the unknown cells.
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

    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> FactorStatistics:
        """See `Term`."""
        top, _, stored = self.listed.spread(place, factors, self.power, denominator=False, loss=loss)
        bottom = self.exposure(place, factors) if self.power == 1 else self._squares(place, factors)
        return FactorStatistics(top, bottom, self._constant - stored + self._penalty(factors) if loss else None)

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


class DenseTerm(Term):
    """A relation held as an array, with or without a mask."""

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        assert relation.dense is not None
        self.x = relation.dense
        self.known: Floats | None = None if relation.mask is None else relation.mask.astype(np.float64)
        self.keep = relation.keep
        self._squares = float(np.vdot(self.x, self.x)) if self.power == 0 else 0.0
        self._products = PartialProducts(self.spec, self.x)
        self._exposures = None if self.known is None else PartialProducts(self.spec, self.known)

    def statistics(self, place: int, factors: tuple[Floats, ...], *, loss: bool = False) -> FactorStatistics:
        """See `Term`."""
        if self.power == 0 and self.known is None:
            top = self._products.with_factors(place, factors)
            cost = None
            if loss:
                fitted = float(np.vdot(top, factors[place]))
                cost = 0.5 * (self._squares + total_square(self.spec, factors, self.keep)) - fitted
            return FactorStatistics(top, square_gradient(self.spec, factors, self.keep, place), cost)
        means = self._means(factors)
        top = weighted_sum(self.spec, self.x if self.power == 0 else self.x * means**-self.power, factors, place)
        if self.power == 1:
            bottom = self.exposure(place, factors)
        else:
            bottom = weighted_sum(self.spec, self._masked(means ** (1 - self.power)), factors, place)
        return FactorStatistics(top, bottom, self._cost(means) if loss else None)

    def loss(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        return self._cost(self._means(factors))

    def means_of_stored(self, factors: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """See `Term`."""
        filled = self.x != 0
        return self.x[filled], self._means(factors)[filled]

    def numerator(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        if self.power == 0:
            return self._products.with_factors(place, factors)
        return weighted_sum(self.spec, self.x * self._means(factors) ** -self.power, factors, place)

    def exposure(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        if self._exposures is None:
            return mean_gradient(self.spec, factors, self.keep, place)
        return self._exposures.with_factors(place, factors)

    def mass(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        if self.known is None:
            return total_mean(self.spec, factors, self.keep)
        return float(np.vdot(self.exposure(0, factors), factors[0]))

    def gram(self, place: int, factors: tuple[Floats, ...]) -> Floats | None:
        """See `Term`."""
        return square_gram(self.spec, factors, self.keep, place) if self.known is None else None

    def _means(self, factors: tuple[Floats, ...]) -> Floats:
        means = reconstruct(self.spec, factors)
        return np.maximum(means, LEAST) if self.power > 0 else means

    def _masked(self, array: Floats) -> Floats:
        return array if self.known is None else array * self.known

    def _cost(self, means: Floats) -> float:
        if self.known is None:
            return float(divergence(self.x, means, self.power).sum())
        known = self.known > 0
        return float(divergence(self.x[known], means[known], self.power).sum())


class MaskedCountsTerm(ZerosTerm):
    """A dense relation with a mask and few non-zeros, under Kullback-Leibler: only the mask is used as a dense array."""

    def __init__(self, relation: Relation) -> None:
        assert relation.mask is not None
        super().__init__(relation.as_sparse(holes=False))
        self.relation, self.n_observed = relation, relation.n_observed
        self._known = PartialProducts(self.spec, relation.mask.astype(np.float64))

    def exposure(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """See `Term`."""
        return self._known.with_factors(place, factors)

    def mass(self, factors: tuple[Floats, ...]) -> float:
        """See `Term`."""
        return float(np.vdot(self.exposure(0, factors), factors[0]))

    def gram(self, place: int, factors: tuple[Floats, ...]) -> Floats | None:
        """See `Term`."""
        return None


class PartialProducts:
    """Products of one array with all factors except one, for factors that are updated one after another.

    In a CP model the array is first multiplied by the factor of its first or last axis. This product is the expensive part. It
    is kept and reused until that factor changes, so a sweep reads the array twice instead of once per factor.
    """

    def __init__(self, spec: Spec, x: Floats) -> None:
        self.spec, self.x = spec, x
        self._kept: dict[int, tuple[Floats, Floats]] = {}

    def with_factors(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return the einsum of the array and all factors except the one at `place`, with that factor's letters."""
        spec = self.spec
        if not spec.is_cp or len(spec.output) < 3:
            return weighted_sum(spec, self.x, factors, place)
        at = {spec.data_letters(index): index for index in range(len(factors))}
        ends = [axis for axis in (0, len(spec.output) - 1) if at[spec.output[axis]] != place]
        fresh = [axis for axis in ends if axis in self._kept and self._kept[axis][0] is factors[at[spec.output[axis]]]]
        axis = fresh[0] if fresh else ends[0]
        used = at[spec.output[axis]]
        if not fresh:
            self._kept[axis] = (factors[used], self._product(axis, Layout.of(spec, used).rows(factors[used])))
        rank = spec.summed
        letters = spec.output.replace(spec.output[axis], "")
        letters = rank + letters if axis == 0 else letters + rank
        rest = [index for index in range(len(factors)) if index not in (used, place)]
        text = ",".join([letters, *(spec.inputs[index] for index in rest)])
        return np.asarray(
            np.einsum(
                f"{text}->{spec.inputs[place]}",
                self._kept[axis][1],
                *(factors[index] for index in rest),
                optimize=len(rest) > 1,
            )
        )

    def _product(self, axis: int, factor: Floats) -> Floats:
        rank = factor.shape[1]
        if axis == 0:
            return (factor.T @ self.x.reshape(len(self.x), -1)).reshape(rank, *self.x.shape[1:])
        return (self.x.reshape(-1, self.x.shape[-1]) @ factor).reshape(*self.x.shape[:-1], rank)


def weighted_sum(spec: Spec, weights: Floats, factors: tuple[Floats, ...], place: int) -> Floats:
    r"""Return the sum over all cells of `weights` times the gradient of their means by the factor at `place`.

    This is :math:`\Delta_{d,v}(A)` of Ermis 2020, eq. 3.4, with the weights A.
    """
    own = spec.inputs[place]
    sizes = dict(zip(own, factors[place].shape, strict=True))
    others = [index for index in range(len(factors)) if index != place]
    left = [spec.output, *(spec.inputs[index] for index in others)]
    free = [letter for letter in own if letter not in "".join(left)]
    arrays = [weights, *(factors[index] for index in others), *(np.ones(sizes[letter]) for letter in free)]
    return np.asarray(np.einsum(f"{','.join([*left, *free])}->{own}", *arrays, optimize=len(arrays) > 1))


def term_of(relation: Relation) -> Term:
    """Return the relation in the form that is expected to be fastest."""
    if relation.dense is None:
        return StoredTerm(relation) if relation.stored_only else ZerosTerm(relation)
    if np.count_nonzero(relation.dense) < SPARSE_ENOUGH * relation.dense.size:
        if relation.mask is None and relation.power in (0, 1):
            return ZerosTerm(relation.as_sparse())
        if relation.power == 1:
            return MaskedCountsTerm(relation)
    return DenseTerm(relation)
