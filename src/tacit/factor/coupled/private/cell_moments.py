r"""Coupled factorisation from noisy moments, where a unit is one cell: that it is known, and its value.

Here even a protected entity's own factors may not feed what leaves, unless they are noised: they mix several cells. So

1. *Counts* of the cells of every row of every factor, the protected entities' included, and the mean.
2. *Biases*, factor by factor: sums of the residuals from what is known so far, shrunk by the noise that is known.
3. *Second moment* of the entities' residuals over the most common rows of the largest factor. An entity's vector v is projected
   onto the ball of radius R, :math:`a = v/\max(\|v\|, R)`. Projections do not stretch, so a cell whose residual is cut off
   at c moves a by at most :math:`c/R`. With :math:`aa^\top - bb^\top = \frac12((a+b)(a-b)^\top + (a-b)(a+b)^\top)` and
   :math:`\|a\|, \|b\| \le 1`, it moves :math:`aa^\top` by at most :math:`\|a+b\|\,\|a-b\| \le 2c/R`; and no two such
   products are farther apart than :math:`\sqrt2`. A cell that is replaced by one of another entity moves two of them.
4. With ``protect="user"``, the entities' own factors: sums of residuals times the rows' factors, divided by what the counts
   say of their Gram matrix. Otherwise each site solves them from its own data, and keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.channel import Bound, Outcome, Program, Split, Step, Sum
from tacit.factor.coupled.private.budget import MEAN_VARIANCE, CoupledMomentSettings
from tacit.factor.coupled.private.fixed_factors import FixedFactors, constant
from tacit.factor.coupled.private.unit_cells import UnitCells, added
from tacit.factor.noisy_moments.constants import (
    BIAS_VARIANCE,
    CO_RATING,
    CUT,
    ENTITY_BIAS,
    NOISE,
    POPULARITY_BINS,
    TINY,
)
from tacit.factor.noisy_moments.posterior import loadings
from tacit.factor.noisy_moments.shrinkage import shrunk_biases, shrunk_mean
from tacit.factor.noisy_moments.symmetric import Floats, pack, unpack

COUNTS, ENTITIES, BIASES, SECOND, OWN = 0.12, 0.13, 0.35, 0.40, 0.35
"""Parts of the budget; the last is taken off the others where the entities' own factors are released."""
LONGEST = 1.5
"""Regressors of the own factors are shortened to this."""
CELLS_PER_ENTITY = 10
"""A public guess, for choosing how the budget is divided."""


def cell_split(settings: CoupledMomentSettings, n_factors: int) -> Split:
    """Return how the sums divide the budget.

    `n_factors` counts all factors but the protected entity's, whose biases are one sum each.
    """
    if settings.only_the_mean:
        return Split(mean=1.0)
    rest = 1 - settings.mean_weight
    left = rest * (1 - OWN if settings.release_own else 1.0)
    # entities have about ten cells, as far as anyone may know; the bound is that of a radius of about 3
    has_second = settings.worth_a_second_moment(settings.n_listed // CELLS_PER_ENTITY, 2 * CUT / 3, SECOND)
    biases = BIASES if has_second else BIASES + SECOND
    steps: dict[str, float | Step] = {
        "mean": settings.mean_weight,
        "counts": left * COUNTS,
        "entities": left * ENTITIES,
        "biases": Step(count=n_factors, weight=left * biases / n_factors),
    }
    if has_second:
        steps["second"] = left * SECOND
    if settings.release_own:
        steps["own"] = rest * OWN
    return Split(**steps)


def entries_program(
    cells: UnitCells, settings: CoupledMomentSettings, features: Mapping[str, Floats], entity: str
) -> Program:
    """One holder's view; parameters as for `tacit.factor.coupled.private.user_moments.moments_program`."""
    names = [name for name in cells.rows if name != entity]
    split = cell_split(settings, len(names))

    level = yield Sum(
        cells=[len(cells.values), cells.values.sum()],
        bound=Bound(math.sqrt(2), change=2.0),
        step=split["mean"],
        units=len(cells.values),
    )
    n_cells = max(float(level.cells[0]), float(settings.n_listed))
    mean = shrunk_mean(float(level.cells[1]), n_cells, level.noise["cells"], MEAN_VARIANCE)

    if settings.only_the_mean:
        return constant(mean, cells, entity, settings)

    everything = [entity, *names]
    counted = [added(cells.rows[name], np.ones(len(cells.values)), cells.sizes[name]) for name in everything]
    # a cell adds 1 to one row of every factor; two cells have at most all of these rows different
    longest = math.sqrt(len(everything))
    total = yield Sum(
        counts=np.concatenate(counted),
        bound=Bound(longest, change=math.sqrt(2) * longest),
        step=split["counts"],
        units=len(cells.values),
    )
    ends = np.cumsum([cells.sizes[name] for name in everything])[:-1]
    counts = dict(zip(everything, np.split(total.counts, ends), strict=True))

    rows = {name: np.zeros((cells.sizes[name], 1)) for name in everything}
    for place, name in enumerate(everything):
        step = split["entities" if place == 0 else "biases"]
        residuals = cells.values - mean - sum(rows[other][cells.rows[other], 0] for other in everything)
        answer = yield _sum_of(cells, name, residuals[:, None], CUT, step)
        counts[name], rows[name][:, 0] = shrunk_biases(
            counts[name],
            answer.sums[:, 0],
            count_noise=total.noise["counts"],
            sum_noise=answer.noise["sums"],
            variance=ENTITY_BIAS if name == entity else BIAS_VARIANCE,
            value_noise=NOISE,
            features=features.get(name),
            bins=1 if name == entity else POPULARITY_BINS,
        )

    side = FixedFactors(mean, {name: rows[name] for name in names}, NOISE)
    if "second" in split:
        assert settings.lead is not None
        lead, size = settings.lead, min(settings.max_columns, cells.sizes[settings.lead])
        popular = np.sort(np.argsort(-counts[lead], kind="stable")[:size])
        # how many of an entity's cells lie at popular rows, as far as the noisy counts tell
        share = float(np.clip(counts[lead][popular].sum() / counts[lead].sum(), 0.01, 1.0))
        common = np.maximum(counts[entity], 1.0) * share
        radius = math.sqrt(max(float(np.median(common)), 1.0) * NOISE)
        outer = _second_moment_of_cells(cells, side, rows[entity][:, 0], lead, popular, radius, entity)
        second = yield Sum(
            second=pack(outer),
            bound=min(2 * CUT / radius, math.sqrt(2)),
            step=split["second"],
            units=len(cells.values),
        )
        # the entities that have both rows, times what their outer products were divided by
        both = float((common**2 / np.maximum(common * NOISE, radius**2)).sum()) / float(common.sum()) ** 2
        factors, _ = loadings(
            unpack(second.second, size),
            second.noise["second"],
            counts[lead][popular],
            CO_RATING / both,
            settings.rank,
        )
        side = _with_factors(side, lead, popular, factors)
    own = None
    if settings.release_own:
        own = yield from _own(cells, side, counts, rows[entity][:, 0], entity, split["own"])
    return Outcome({"mean": mean, "noise": NOISE, "own": own, **{f"rows:{name}": side.rows[name] for name in names}})


def _sum_of(cells: UnitCells, name: str, terms: Floats, longest: float, step: Step) -> Sum:
    """Ask for the sums over the rows of one factor of a term a cell, no cell's longer than a bound."""
    lengths = np.linalg.norm(terms, axis=1)
    within = terms * np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
    sums = added(cells.rows[name], within, cells.sizes[name])
    return Sum(sums=sums, bound=longest, step=step, units=len(cells.values))


def _second_moment_of_cells(
    cells: UnitCells, side: FixedFactors, biases: Floats, lead: str, popular: np.ndarray, radius: float, entity: str
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


def _with_factors(side: FixedFactors, lead: str, popular: np.ndarray, factors: Floats) -> FixedFactors:
    rows = {}
    for name, one in side.rows.items():
        more = np.ones((len(one), factors.shape[1]))
        if name == lead:
            more = np.zeros_like(more)
            more[popular] = factors
        rows[name] = np.concatenate([more, one], axis=1)
    return FixedFactors(side.mean, rows, side.noise)


def _own(
    cells: UnitCells,
    side: FixedFactors,
    counts: Mapping[str, Floats],
    biases: Floats,
    entity: str,
    step: Step,
) -> Generator[Sum, Any, Floats]:
    """Release what the entities' cells say about their own factors, and solve by the Gram matrix that the counts suggest."""
    regressors = side.regressors(cells)
    lengths = np.linalg.norm(regressors, axis=1)
    regressors *= np.minimum(1.0, LONGEST / np.maximum(lengths, LONGEST))[:, None]
    residuals = np.clip(side.targets(cells) - biases[cells.rows[entity]], -CUT, CUT)
    answer = yield _sum_of(cells, entity, residuals[:, None] * regressors, CUT * LONGEST, step)
    noise = answer.noise["sums"]
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
