r"""How a factor moves: multiplied entry by entry, or solved row by row where its rows share one quadratic problem.

A multiplicative step multiplies each entry by :math:`(num / den)^\gamma`. Relations with powers :math:`p_v` have surrogates
with derivatives :math:`den_v u^{a_v} - num_v u^{-b_v}` in the change u (see `curvatures`). For u between 1 and
:math:`(\sum num_v / \sum den_v)^\gamma` with :math:`\gamma = 1 / (\max a_v + \max b_v)` their sum keeps its sign, so the step
never raises the cost, whatever divergences meet in a factor; for a single p up to 1 this is :math:`\gamma = 1`, the usual update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.factor import kernels
from tacit.factor.coupled.divergence import Floats, curvatures
from tacit.factor.coupled.layout import Layout
from tacit.factor.coupled.relation import Relation

SWEEPS, SHRINK, ROUNDING = 20, 0.1, 1e-14


@dataclass(frozen=True)
class Prior:
    """A Gamma prior on every entry of every factor.

    Parameters
    ----------
    shape : float
        At least 1 for a point estimate, which would otherwise be pulled to zero without end.
    rate : float
        Shape over mean. The default of the two is a flat prior: maximum likelihood.
    """

    shape: float = 1.0
    rate: float = 0.0

    def cost(self, factor: Floats) -> float:
        """Return minus the log density, up to a constant."""
        if self.shape == 1:
            return self.rate * float(factor.sum()) if self.rate else 0.0
        return self.rate * float(factor.sum()) - (self.shape - 1) * float(np.log(np.maximum(factor, 1e-300)).sum())


FLAT = Prior()
"""The prior of maximum likelihood."""


@dataclass(frozen=True)
class Rule:
    """How one factor moves.

    Parameters
    ----------
    exponent : float
        Of the multiplicative step.
    solve : Layout, optional
        Its rows, where all relations give them one common quadratic problem, so that they can be solved instead.
    """

    exponent: float = 1.0
    solve: Layout | None = None


def rules_for(relations: Sequence[Relation], prior: Prior) -> dict[str, Rule]:
    """Return the rule of every factor. All sites that share a factor must use one rule, made from all their relations."""
    rules = {}
    for name in dict.fromkeys(name for relation in relations for name in relation.factors):
        uses = [(relation, relation.factors.index(name)) for relation in relations if name in relation.factors]
        bends = [curvatures(relation.power) for relation, _ in uses]
        if prior != FLAT:
            bends.append((0.0, 1.0))
        exponent = 1 / (max(rise for rise, _ in bends) + max(fall for _, fall in bends))
        layouts = {Layout.of(relation.spec, place) for relation, place in uses}
        quadratic = prior.shape == 1 and all(_shares_gram(relation, place) for relation, place in uses)
        rules[name] = Rule(exponent, layouts.pop() if quadratic and len(layouts) == 1 else None)
    return rules


def _shares_gram(relation: Relation, place: int) -> bool:
    """Whether a relation gives all rows of a factor the same quadratic problem, but for its linear part."""
    spec = relation.spec
    gaps = relation.stored_only or relation.mask is not None or len(relation.holes) > 0
    others = "".join(group for at, group in enumerate(spec.inputs) if at != place)
    data = spec.data_letters(place)
    own_gaps = any(relation.keep[spec.output.index(letter)] is not None for letter in data)
    return relation.power == 0 and not gaps and not own_gaps and not set(data) & set(others)


def multiplied(factor: Floats, numerator: Floats, denominator: Floats, prior: Prior, exponent: float) -> Floats:
    """Return the factor after one multiplicative step; entries that nothing is known of stay."""
    top, bottom = factor * numerator + (prior.shape - 1), factor * (denominator + prior.rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = top / bottom
    change = np.where(np.isfinite(change), change, 1.0)
    return factor * (change if exponent == 1 else change**exponent)


def solved(layout: Layout, factor: Floats, numerator: Floats, gram: Floats, prior: Prior) -> Floats:
    """Return the factor after some sweeps of coordinate descent on ``1/2 v'Gv - v'b`` over rows ``v >= 0``."""
    rows = np.array(layout.rows(factor), order="C")
    linear = np.ascontiguousarray(layout.rows(numerator)) - prior.rate
    diagonal = np.diag(gram)
    steep = diagonal > ROUNDING * max(float(diagonal.max()), 1e-300)
    inverse = np.where(steep, 1 / np.where(steep, diagonal, 1.0), 0.0)
    values = np.empty(len(rows))
    kernels.share_out(
        lambda start, stop: kernels.descend(gram, inverse, linear, rows, values, SWEEPS, SHRINK, ROUNDING, start, stop),
        np.arange(len(rows) + 1) * gram.size,
    )
    return layout.back(rows, factor.shape)
