r"""Coupled factorisation from noisy moments, where a unit is one cell: its presence and its value.

A protected entity's own factors depend on several cells. So here they may not influence a sum unless they are noised
themselves. It is not an algorithm of the thesis (Ermis 2020), whose unit this is. The sums are

1. *Counts* of the cells of every row of every factor, those of the protected entities included, and the mean.
2. *Biases*, one factor after another: sums of the residuals of the current model, shrunk by the noise in them.
3. *Second moment* of the entities' residuals over the most common rows of the largest factor. An entity's vector v is
   projected onto the ball of radius R and divided by R, :math:`a = v/\max(\|v\|, R)`. Projections do not increase distances,
   so one cell, whose residual is clipped to c, changes a by at most :math:`c/R`. With
   :math:`aa^\top - bb^\top = \frac12((a+b)(a-b)^\top + (a-b)(a+b)^\top)` and :math:`\|a\|, \|b\| \le 1`, the cell changes
   :math:`aa^\top` by at most :math:`\|a+b\|\,\|a-b\| \le 2c/R`. Also, the distance of two such products is at most
   :math:`\sqrt2`. Replacing a cell by a cell of another entity changes two products.
   Sites may have different relations: each cell is at one site, so that its bounds are those of its own relation.
4. With ``protect="user"``, the entities' own factors: sums of residuals times the rows' factors, solved with a Gram matrix
   that is estimated from the counts. Otherwise each site solves them from its own data, and keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Step, Sum, Total
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import added
from tacit.factor.coupled.private.budget import MEAN_VARIANCE, CoupledMomentSettings
from tacit.factor.coupled.private.fixed_factors import FixedFactors, constant
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.noisy_moments.constants import (
    BIAS_VARIANCE,
    CO_RATING,
    POPULARITY_BINS,
    RESIDUAL_CLIP,
    TINY,
    UNIT_BIAS_VARIANCE,
    VALUE_VARIANCE,
)
from tacit.factor.noisy_moments.posterior import loadings
from tacit.factor.noisy_moments.second_moment import second_moment
from tacit.factor.noisy_moments.shrinkage import shrunk_biases, shrunk_mean
from tacit.factor.noisy_moments.symmetric import pack, unpack

COUNTS, ENTITIES, BIASES, SECOND, OWN = 0.12, 0.13, 0.35, 0.40, 0.35
"""Fractions of the budget (without that of the mean) for the counts, the entities' biases, the other biases, the second
moment, and the entities' own factors; the last is subtracted from the others if own factors are released. Chosen with the
first of the three MovieLens splits of docs/results/private_coupled.md."""
LONGEST = 1.5
"""Regressors of the own factors are clipped to this norm. Set by hand: a larger norm clips fewer cells and adds noise."""
CELLS_PER_ENTITY = 10
"""A public guess of the number of cells per entity, for the division of the budget. Set by hand."""
USUAL_RADIUS = 3.0
"""A public guess of R, for the same purpose. Set by hand."""
LEAST_FRACTION = 0.01
"""Least fraction of an entity's cells that counts as being at popular rows. Set by hand, so that R is positive."""


def cell_split(settings: CoupledMomentSettings, n_factors: int) -> Split:
    """Return how the sums divide the budget.

    `n_factors` counts all factors except the protected entity's. The biases of each are one sum.
    """
    if settings.only_the_mean:
        return Split(mean=1.0)
    rest = 1 - settings.mean_weight
    left = rest * (1 - OWN if settings.release_own else 1.0)
    bound = 2 * RESIDUAL_CLIP / USUAL_RADIUS
    has_second = settings.worth_a_second_moment(settings.n_listed // CELLS_PER_ENTITY, bound, SECOND)
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


def cells_program(
    cells: UnitCells, settings: CoupledMomentSettings, features: Mapping[str, Floats], entity: str
) -> Program:
    """One holder's view; parameters as for `tacit.factor.coupled.private.user_moments.moments_program`."""
    names = [name for name in cells.sizes if name != entity]
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
    ones = np.ones(len(cells.values))
    counted = [
        added(cells.rows[name], ones, cells.sizes[name]) if name in cells.rows else np.zeros(cells.sizes[name])
        for name in everything
    ]
    # a cell adds 1 to one row of every factor of its relation; two cells differ in at most all of these rows
    longest = math.sqrt(settings.sites.most_factors or len(everything))
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
        residuals = cells.values - mean - sum(rows[other][cells.rows[other], 0] for other in cells.rows)
        sums = yield _sum_of(cells, name, residuals[:, None], RESIDUAL_CLIP, step)
        counts[name], rows[name][:, 0] = shrunk_biases(
            counts[name],
            sums.sums[:, 0],
            count_noise=total.noise["counts"],
            sum_noise=sums.noise["sums"],
            variance=UNIT_BIAS_VARIANCE if name == entity else BIAS_VARIANCE,
            value_noise=VALUE_VARIANCE,
            features=features.get(name),
            bins=1 if name == entity else POPULARITY_BINS,
        )

    fixed = FixedFactors(mean, {name: rows[name] for name in names}, VALUE_VARIANCE)
    if "second" in split:
        assert settings.lead is not None
        lead, size = settings.lead, min(settings.max_columns, cells.sizes[settings.lead])
        popular = np.sort(np.argsort(-counts[lead], kind="stable")[:size])
        # n_u, the number of an entity's cells at popular rows, estimated from the noisy counts
        fraction = float(np.clip(counts[lead][popular].sum() / counts[lead].sum(), LEAST_FRACTION, 1.0))
        at_lead, lead_fraction = _with_lead(settings, counts, entity)
        at_popular = np.maximum(counts[entity][at_lead], 1.0) * fraction * lead_fraction
        radius = math.sqrt(max(float(np.median(at_popular)), 1.0) * VALUE_VARIANCE)
        second = yield Sum(
            second=pack(
                second_moment(
                    cells.entity,
                    cells.rows[lead],
                    _residuals(cells, fixed, rows[entity][:, 0], entity),
                    popular,
                    n_units=cells.n_entities,
                    n_columns=cells.sizes[lead],
                    radius=radius,
                )
                if lead in cells.rows
                else np.zeros((size, size))
            ),
            bound=min(2 * RESIDUAL_CLIP / radius, math.sqrt(2)),
            step=split["second"],
            units=len(cells.values),
        )
        # An entity with n cells has both of two rows, with the counts c and d of N = sum n cells, n^2 c d / N^2 times
        # on average, and its outer product was divided by max(|v|^2, R^2), about max(n s^2, R^2). `loadings` takes
        # c d CO_RATING / n_users for the sum of these quotients over entities.
        squared_norms = np.maximum(at_popular * VALUE_VARIANCE, radius**2)
        co_occurrence = float((at_popular**2 / squared_norms).sum()) / float(at_popular.sum()) ** 2
        factors, _ = loadings(
            unpack(second.second, size),
            second.noise["second"],
            counts[lead][popular],
            CO_RATING / co_occurrence,
            settings.rank,
        )
        fixed = _with_factors(fixed, lead, popular, factors)
    own = None
    if settings.release_own:
        own = yield from _own(cells, fixed, counts, rows[entity][:, 0], entity, settings.lead, split["own"])
    released = {f"rows:{name}": fixed.rows[name] for name in names}
    return Outcome({"mean": mean, "noise": VALUE_VARIANCE, "own": own, **released})


def _with_lead(
    settings: CoupledMomentSettings, counts: Mapping[str, Floats], entity: str
) -> tuple[NDArray[np.intp], float]:
    """Return the entities at sites that have the lead, and the fraction of their cells that is in relations with it."""
    sites, every = settings.sites, np.arange(len(counts[entity]))
    if settings.lead is None or sites.fractions.get(settings.lead, 1.0) == 1:
        return every, 1.0
    chosen = every if sites.lead_entities is None else np.concatenate([every[one] for one in sites.lead_entities])
    lead_fraction = float(counts[settings.lead].sum()) / max(float(counts[entity][chosen].sum()), 1.0)
    return chosen, float(np.clip(lead_fraction, LEAST_FRACTION, 1.0))


def _sum_of(cells: UnitCells, name: str, terms: Floats, longest: float, step: Step) -> Sum:
    """Ask for the sums, over the rows of one factor, of one term per cell, clipped to the norm `longest`.

    A site that does not have the factor adds zeros.
    """
    lengths = np.linalg.norm(terms, axis=1)
    within = terms * np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
    sums = np.zeros((cells.sizes[name], terms.shape[1]))
    if name in cells.rows:
        sums = added(cells.rows[name], within, cells.sizes[name])
    return Sum(sums=sums, bound=longest, step=step, units=len(cells.values))


def _residuals(cells: UnitCells, fixed: FixedFactors, biases: Floats, entity: str) -> Floats:
    return np.clip(fixed.targets(cells) - biases[cells.rows[entity]], -RESIDUAL_CLIP, RESIDUAL_CLIP)


def _with_factors(fixed: FixedFactors, lead: str, popular: np.ndarray, factors: Floats) -> FixedFactors:
    """Add the factors of the popular rows: zero for the other rows of that factor, one for all rows of the others."""
    rows = {}
    for name, one in fixed.rows.items():
        more = np.ones((len(one), factors.shape[1]))
        if name == lead:
            more = np.zeros_like(more)
            more[popular] = factors
        rows[name] = np.concatenate([more, one], axis=1)
    return FixedFactors(fixed.mean, rows, fixed.noise)


def _own(
    cells: UnitCells,
    fixed: FixedFactors,
    counts: Mapping[str, Floats],
    biases: Floats,
    entity: str,
    lead: str | None,
    step: Step,
) -> Generator[Sum, Total, Floats]:
    r"""Release the sums of residuals times regressors of the entities' cells, and solve for their own factors.

    With :math:`H_u = n_u G`, from the entity's noisy count and the average Gram matrix of its rows (weighted by their
    noisy counts), the sums are :math:`m_u = H_u x_u + e`, where e has the covariance :math:`R_u = s^2 H_u + \sigma^2 I`.
    The solution is the posterior mean :math:`x_u = (P + H_u R_u^{-1} H_u)^{-1} H_u R_u^{-1} m_u`.
    """
    regressors = fixed.regressors(cells)
    lengths = np.linalg.norm(regressors, axis=1)
    regressors *= np.minimum(1.0, LONGEST / np.maximum(lengths, LONGEST))[:, None]
    residuals = _residuals(cells, fixed, biases, entity)
    total = yield _sum_of(cells, entity, residuals[:, None] * regressors, RESIDUAL_CLIP * LONGEST, step)
    gram = np.eye(fixed.size)
    if fixed.size > 1:
        assert lead is not None  # its rows have the factors; those of all other factors are one
        table = np.concatenate([fixed.rows[lead][:, :-1], np.ones((len(fixed.rows[lead]), 1))], axis=1)
        common = np.maximum(counts[lead], 0.0) + TINY
        gram = (table * common[:, None]).T @ table / common.sum()
    number = np.maximum(counts[entity], 1.0)
    # H and R have the same eigenvectors; in directions without any information, where without noise R is singular, H / R is 0
    values, vectors = np.linalg.eigh(gram)
    information = number[:, None] * np.maximum(values, 0.0)
    variance = fixed.noise * information + total.noise["sums"] ** 2
    ratio = np.divide(information, variance, out=np.zeros_like(information), where=variance > 0)
    weighted = (vectors * ratio[:, None, :]) @ vectors.T
    precision = np.diag(fixed.precision) + weighted @ (number[:, None, None] * gram)
    solved = np.linalg.solve(precision, weighted @ total.sums[:, :, None])[:, :, 0]
    solved[:, -1] += biases
    return np.asarray(solved)
