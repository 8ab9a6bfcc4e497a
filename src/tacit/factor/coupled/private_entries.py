r"""Coupled factorisation from noisy moments, where a unit is one cell: that it is known, and its value.

Here even a protected entity's own factors may not feed what leaves, unless they are noised: they mix several cells. So

1. *Counts* of the cells of every row of every factor, the protected entities' included, and the mean.
2. *Biases*, factor by factor: sums of the residuals from what is known so far, shrunk by the noise that is known.
3. *Second moment* of the entities' residuals over the most common rows of the largest factor. An entity's vector v is projected
   onto the ball of radius R, :math:`a = v/\max(\|v\|, R)`. Projections do not stretch, so a cell whose residual is cut off
   at c moves a by at most :math:`c/R`, and :math:`aa^\top` by at most :math:`2c/R`.
4. With ``protect="user"``, the entities' own factors: sums of residuals times the rows' factors, divided by what the counts
   say of their Gram matrix. Otherwise each site solves them from its own data, and keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.channel import Bound, Outcome, Program, Step, Sum
from tacit.factor.coupled.private_cells import Floats, UnitCells, added
from tacit.factor.coupled.private_settings import MEAN_VARIANCE, Settings
from tacit.factor.coupled.private_shrink import BINS, shrunk_biases, shrunk_mean
from tacit.factor.coupled.private_side import ENTITY_BIAS, Side, constant
from tacit.factor.moments import pack, unpack
from tacit.factor.ratings.item_moments import CUT, NOISE
from tacit.factor.ratings.item_posterior import BIAS_VARIANCE, CO_RATING, loadings

COUNTS, ENTITIES, BIASES, SECOND, OWN = 0.12, 0.13, 0.35, 0.40, 0.35
"""Shares of the budget; the last is taken off the others where the entities' own factors are released."""
LONGEST = 1.5
"""Regressors of the own factors are shortened to this."""
CELLS_AN_ENTITY = 10
"""A public guess, for choosing how the budget is shared."""
TINY = 1e-9


@dataclass(frozen=True)
class EntryWeights:
    """How the sums share the budget."""

    mean: float
    counts: float
    entities: float
    biases: float
    second: float
    own: float

    @classmethod
    def of(cls, settings: Settings, n_factors: int) -> EntryWeights:
        """Return the weights; `n_factors` counts all factors but the protected entity's, whose biases are one sum each."""
        if settings.only_the_mean:
            return cls(1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        rest = 1 - settings.mean_weight
        left = rest * (1 - OWN if settings.release_own else 1.0)
        # entities have about ten cells, as far as anyone may know; the bound is that of a radius of about 3
        has_second = settings.worth_a_second_moment(settings.n_listed // CELLS_AN_ENTITY, 2 * CUT / 3, SECOND)
        biases = BIASES if has_second else BIASES + SECOND
        return cls(
            settings.mean_weight,
            left * COUNTS,
            left * ENTITIES,
            left * biases / n_factors,
            left * SECOND if has_second else 0.0,
            rest * OWN if settings.release_own else 0.0,
        )

    def steps(self, n_factors: int) -> list[Step]:
        """Return the sums to plan for."""
        asked = [
            (1, self.mean),
            (1, self.counts),
            (1, self.entities),
            (n_factors, self.biases),
            (1, self.second),
            (1, self.own),
        ]
        return [Step(count=count, weight=weight) for count, weight in asked if weight]


def entries_program(cells: UnitCells, settings: Settings, features: Mapping[str, Floats], entity: str) -> Program:
    """One holder's view; parameters as for `tacit.factor.coupled.private_moments.moments_program`."""
    names = [name for name in cells.rows if name != entity]
    weights = EntryWeights.of(settings, len(names))

    level = yield Sum(
        cells=[len(cells.values), cells.values.sum()],
        bound=Bound(math.sqrt(2), change=2.0),
        weight=weights.mean,
        units=len(cells.values),
    )
    n_cells = max(float(level.cells[0]), float(settings.n_listed))
    mean = shrunk_mean(float(level.cells[1]), n_cells, settings.sigma(weights.mean) * math.sqrt(2), MEAN_VARIANCE)

    if settings.only_the_mean:
        return constant(mean, cells, entity, settings)

    everything = [entity, *names]
    counted = [added(cells.rows[name], np.ones(len(cells.values)), cells.sizes[name]) for name in everything]
    # a cell is one row of every factor
    longest = math.sqrt(len(everything))
    total = yield Sum(counts=np.concatenate(counted), bound=longest, weight=weights.counts, units=len(cells.values))
    ends = np.cumsum([cells.sizes[name] for name in everything])[:-1]
    counts = dict(zip(everything, np.split(total.counts, ends), strict=True))
    count_noise = settings.sigma(weights.counts) * longest

    rows = {name: np.zeros((cells.sizes[name], 1)) for name in everything}
    for place, name in enumerate(everything):
        weight = weights.entities if place == 0 else weights.biases
        residuals = cells.values - mean - sum(rows[other][cells.rows[other], 0] for other in everything)
        answer = yield _sum_of(cells, name, residuals[:, None], CUT, weight)
        counts[name], rows[name][:, 0] = shrunk_biases(
            counts[name],
            answer.sums[:, 0],
            count_noise=count_noise,
            sum_noise=settings.sigma(weight) * CUT,
            variance=ENTITY_BIAS if name == entity else BIAS_VARIANCE,
            value_noise=NOISE,
            features=features.get(name),
            bins=1 if name == entity else BINS,
        )

    side = Side(mean, {name: rows[name] for name in names}, NOISE)
    if weights.second:
        assert settings.lead is not None
        lead, size = settings.lead, min(settings.popular, cells.sizes[settings.lead])
        popular = np.sort(np.argsort(-counts[lead], kind="stable")[:size])
        # how many of an entity's cells lie at popular rows, as far as the noisy counts tell
        share = float(np.clip(counts[lead][popular].sum() / counts[lead].sum(), 0.01, 1.0))
        common = np.maximum(counts[entity], 1.0) * share
        radius = math.sqrt(max(float(np.median(common)), 1.0) * NOISE)
        outer = _second_moment(cells, side, rows[entity][:, 0], lead, popular, radius, entity)
        second = yield Sum(second=pack(outer), bound=2 * CUT / radius, weight=weights.second, units=len(cells.values))
        # the entities that have both rows, times what their outer products were divided by
        both = float((common**2 / np.maximum(common * NOISE, radius**2)).sum()) / float(common.sum()) ** 2
        factors, _ = loadings(
            unpack(second.second, size),
            settings.sigma(weights.second) * 2 * CUT / radius,
            counts[lead][popular],
            CO_RATING / both,
            settings.rank,
        )
        side = _with_factors(side, lead, popular, factors)
    own = None
    if settings.release_own:
        noise = settings.sigma(weights.own) * CUT * LONGEST
        own = yield from _own(cells, side, counts, rows[entity][:, 0], entity, weights.own, noise)
    return Outcome({"mean": mean, "noise": NOISE, "own": own, **{f"rows:{name}": side.rows[name] for name in names}})


def _sum_of(cells: UnitCells, name: str, terms: Floats, longest: float, weight: float) -> Sum:
    """Ask for the sums over the rows of one factor of a term a cell, no cell's longer than a bound."""
    lengths = np.linalg.norm(terms, axis=1)
    within = terms * np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
    sums = added(cells.rows[name], within, cells.sizes[name])
    return Sum(sums=sums, bound=longest, weight=weight, units=len(cells.values))


def _second_moment(
    cells: UnitCells, side: Side, biases: Floats, lead: str, popular: np.ndarray, radius: float, entity: str
) -> Floats:
    residuals = np.clip(side.targets(cells) - biases[cells.rows[entity]], -CUT, CUT)
    place = np.full(cells.sizes[lead], -1)
    place[popular] = np.arange(len(popular))
    inside = place[cells.rows[lead]] >= 0
    table = csr_array(
        (residuals[inside], (cells.entity[inside], place[cells.rows[lead][inside]])),
        shape=(cells.n_entities, len(popular)),
    )
    norms = np.sqrt(np.asarray((table * table).sum(axis=1)).ravel())
    table = csr_array(table.multiply((1 / np.maximum(norms, radius))[:, None]))
    outer = (table.T @ table).toarray()
    np.fill_diagonal(outer, 0.0)
    return np.asarray(outer)


def _with_factors(side: Side, lead: str, popular: np.ndarray, factors: Floats) -> Side:
    rows = {}
    for name, one in side.rows.items():
        more = np.ones((len(one), factors.shape[1]))
        if name == lead:
            more = np.zeros_like(more)
            more[popular] = factors
        rows[name] = np.concatenate([more, one], axis=1)
    return Side(side.mean, rows, side.noise)


def _own(
    cells: UnitCells,
    side: Side,
    counts: Mapping[str, Floats],
    biases: Floats,
    entity: str,
    weight: float,
    noise: float,
) -> Generator[Sum, Any, Floats]:
    """Release what the entities' cells say about their own factors, and solve by the Gram matrix that the counts suggest."""
    regressors = side.regressors(cells)
    lengths = np.linalg.norm(regressors, axis=1)
    regressors *= np.minimum(1.0, LONGEST / np.maximum(lengths, LONGEST))[:, None]
    residuals = np.clip(side.targets(cells) - biases[cells.rows[entity]], -CUT, CUT)
    answer = yield _sum_of(cells, entity, residuals[:, None] * regressors, CUT * LONGEST, weight)
    # rows weighed by how common they are stand for the rows that an entity has
    gram = np.eye(side.size)
    if side.size > 1:
        lead = max(side.rows, key=lambda name: len(side.rows[name]))
        table = np.concatenate([side.rows[lead][:, :-1], np.ones((len(side.rows[lead]), 1))], axis=1)
        common = np.maximum(counts[lead], 0.0) + TINY
        gram = (table * common[:, None]).T @ table / common.sum()
    slope = np.maximum(counts[entity], 1.0)[:, None, None] * gram
    weighed = slope @ np.linalg.inv(slope * side.noise + noise**2 * np.eye(side.size))
    found = np.linalg.solve(np.diag(side.precision) + weighed @ slope, weighed @ answer.sums[:, :, None])[:, :, 0]
    found[:, -1] += biases
    return np.asarray(found)
