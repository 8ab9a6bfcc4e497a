r"""Coupled factorisation from noisy moments, where a unit is an entity with all its cells.

It is not an algorithm of the thesis (Ermis 2020). It generalises `tacit.factor.ratings.item_moments` to relations of
any order. An entity's contribution to a sum is computed from its own cells and earlier totals only, and is divided by
its own norm.

1. *First moments*: for every row of every factor, a weight and a weighted sum of centred values. They give biases.
2. *Second moment* of the entities' residuals over the most common rows of the largest factor. Directions whose eigenvalue
   exceeds the edge of the noise's spectrum become factors. If there is none, the model consists of biases.
3. *Regressions*, in several rounds: the error of each cell when it is predicted from the entity's *other* cells, times the
   derivative of the prediction by the row's factors, corrects the rows of all factors (a Kalman step, see
   `tacit.factor.noisy_moments.posterior`).
4. With ``protect="user"`` the entities' own factors are released too: solved, clipped, noised, shrunk.

Public relations give features for the rows' biases. What these explain costs no privacy.

Sites may have different relations: the sums have the rows of all sites' factors, and a site adds zeros to those that it does
not have. If the entities are common to the sites, every site computes its part of an entity's contribution from the entity's
cells there, and the bound of a sum is that of one site times `Problem.repeats`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from tacit.channel import Bound, Outcome, Program, Step, Sum, Total
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import added
from tacit.factor.coupled.private.budget import MEAN_VARIANCE, CoupledMomentSettings
from tacit.factor.coupled.private.fixed_factors import FixedFactors, constant
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.noisy_moments.constants import (
    FULL_ACTIVITY,
    LEAST_VALUE_VARIANCE,
    RARITY_POWER,
    REGRESSION_FRACTIONS,
    RESIDUAL_CLIP,
    UNIT_BIAS_VARIANCE,
    VALUE_VARIANCE,
    VALUE_WEIGHT,
)
from tacit.factor.noisy_moments.posterior import RowPosterior, loadings
from tacit.factor.noisy_moments.second_moment import second_moment
from tacit.factor.noisy_moments.shrinkage import shrunk_biases, shrunk_mean
from tacit.factor.noisy_moments.symmetric import pack, unpack

USUAL_ACTIVITY = 0.7
"""A public guess of the average weight of an entity in averages over entities (half of the cells that give the full weight,
see `activity_of`). Set by hand. It replaces the noisy weight where that is all noise."""
OTHER_VARIANCE = 0.25
"""Prior variance of the factors that start at one: those of all modes except the largest. Set by hand."""
OWN_LONGEST = 1.0
"""Own factors, scaled to unit prior variance, are clipped to this norm before they are released. Set by hand: a larger norm
clips fewer entities and adds noise in proportion."""


def moments_program(
    cells: UnitCells, settings: CoupledMomentSettings, features: Mapping[str, Floats], entity: str
) -> Program:
    """One holder's view.

    Parameters
    ----------
    cells : UnitCells
    settings : CoupledMomentSettings
    features : mapping of factor to ndarray
        Columns that describe its rows, from public relations.
    entity : str
        The factor of the protected entity.
    """
    names = [name for name in cells.sizes if name != entity]
    sites = settings.sites
    active = activity_of(cells)
    averages = cells.per_entity(cells.values) / np.maximum(cells.counts, 1)
    centred = np.clip(cells.values - averages[cells.entity], -1.0, 1.0)
    terms = np.stack([np.ones(len(centred)), VALUE_WEIGHT * centred], axis=1)
    split = settings.split
    level = yield Sum(
        entities=[active.sum(), (active * averages).sum()],
        bound=Bound(math.sqrt(2), change=2.0).times(sites.all),
        step=split["mean"],
        units=cells.n_entities,
    )
    mean = _mean(level.entities, settings.n_listed, level.noise["entities"])
    if settings.only_the_mean:
        return constant(mean, cells, entity, settings)
    n_users = {name: settings.n_listed * sites.fractions.get(name, 1.0) for name in names}

    sums, norms = _normed(cells, {name: terms for name in names if name in cells.rows}, names)
    total = yield Sum(rows=sums, bound=Bound(1.0).times(sites.rows), step=split["first"], units=cells.n_entities)
    sigma = total.noise["rows"]
    posteriors: dict[str, RowPosterior] = {}
    popularity = _by_name(cells, names, total["rows"])
    for name in names:
        weights, biases = shrunk_biases(
            popularity[name][:, 0],
            popularity[name][:, 1] / VALUE_WEIGHT,
            count_noise=sigma,
            sum_noise=sigma / VALUE_WEIGHT,
            features=features.get(name),
        )
        posteriors[name] = RowPosterior.of_biases(mean, biases, weights, sigma / VALUE_WEIGHT, n_users[name])

    if "second" in split:
        assert settings.lead is not None
        size = min(settings.max_columns, cells.sizes[settings.lead])
        popular = np.sort(np.argsort(-popularity[settings.lead][:, 0], kind="stable")[:size])
        outer = np.zeros((size, size))
        if settings.lead in cells.rows:
            pairs = cells.pairs[settings.lead]
            outer = second_moment(
                pairs.unit,
                pairs.row,
                residuals_by_pair(cells, _fixed(posteriors, mean, VALUE_VARIANCE), settings.lead),
                popular,
                n_units=cells.n_entities,
                n_columns=cells.sizes[settings.lead],
            )
        second = yield Sum(
            second=pack(outer),
            # outer products of vectors of norm 1 are at most sqrt(2) apart
            bound=Bound(1.0, change=math.sqrt(2)).times(sites.lead),
            step=split["second"],
            units=cells.n_entities,
        )
        lead = posteriors[settings.lead]
        factors, spread = loadings(
            unpack(second.second, size),
            second.noise["second"],
            lead.weights[popular],
            n_users[settings.lead],
            settings.rank,
        )
        posteriors = {
            name: one.with_factors(popular, factors, spread)
            if name == settings.lead
            else _with_ones(one, factors.shape[1])
            for name, one in posteriors.items()
        }

    noise = VALUE_VARIANCE
    for _ in range(split["regressions"].count if "regressions" in split else 0):
        most, arrays = _regression(cells, posteriors, _fixed(posteriors, mean, noise), norms)
        bound = {
            "moments": Bound(1.0).times(sites.rows),
            "gram": Bound(most, change=math.sqrt(2) * most).times(sites.all),
            "activity": Bound(math.sqrt(2), change=math.sqrt(2)).times(sites.all),
        }
        total = yield Sum(
            bound=bound,
            fractions=REGRESSION_FRACTIONS,
            step=split["regressions"],
            units=cells.n_entities,
            moments=arrays["moments"],
            gram=arrays["gram"],
            activity=arrays["activity"],
        )
        activity = max(float(total.activity[0]), 1.0)
        noise = float(np.clip(total.activity[1] / activity, LEAST_VALUE_VARIANCE, 1.0))
        moments = _by_name(cells, names, total.moments)
        for place, name in enumerate(names):
            before = posteriors[name]
            gram = unpack(total.gram[place], before.size) / (activity * sites.fractions.get(name, 1.0))
            posteriors[name] = before.corrected(moments[name], gram, total.noise["moments"], RARITY_POWER)
    fixed = _fixed(posteriors, mean, noise)
    own = None
    if settings.release_own:
        own = yield from release_own(cells, fixed, entity, split["own"])
    return Outcome({"mean": mean, "noise": noise, "own": own, **{f"rows:{name}": fixed.rows[name] for name in names}})


def activity_of(cells: UnitCells) -> Floats:
    """Return the weight of every entity in averages over entities, at most 1.

    Entities with many cells have more weight, because they also have more cells to predict. In a relation with fewer than
    `FULL_ACTIVITY` cells per entity, an entity with all its cells has the weight 1: the noise is that of the largest weight
    that an entity can have.
    """
    full = min(FULL_ACTIVITY, cells.most_cells)
    weights: Floats = np.minimum(np.sqrt(cells.counts / full), 1.0)
    return weights


def _mean(noisy: Floats, listed: int, noise: float) -> float:
    """Return the mean from a noisy weight and a noisy weighted sum.

    The weight is the posterior mean under a normal prior with mean ``USUAL_ACTIVITY * listed`` and standard deviation
    ``listed / 4``, where `listed` is the length of the public list of entities (of all sites' lists together).
    """
    doubt = (listed / 4) ** 2
    weight = (float(noisy[0]) * doubt + USUAL_ACTIVITY * listed * noise**2) / (doubt + noise**2)
    return shrunk_mean(float(noisy[1]), float(np.clip(weight, 1.0, listed)), noise, MEAN_VARIANCE)


def release_own(cells: UnitCells, fixed: FixedFactors, entity: str, step: Step) -> Generator[Sum, Total, Floats]:
    """Release the entities' own factors (solved, clipped, noised), and return them shrunk by the noise."""
    solved = fixed.solve(cells) * np.sqrt(fixed.precision)  # so that all entries have a prior variance of 1
    lengths = np.linalg.norm(solved, axis=1)
    solved *= (np.minimum(1.0, OWN_LONGEST / np.maximum(lengths, 1e-12)) * (cells.counts > 0))[:, None]
    rows = np.zeros((cells.sizes[entity], fixed.size))
    rows[cells.offset : cells.offset + len(solved)] = solved
    total = yield Sum(own=rows, bound=OWN_LONGEST, step=step, units=cells.n_entities)
    spread, noise = OWN_LONGEST**2 / fixed.size, total.noise["own"]
    shrunk: Floats = total.own * spread / (spread + noise**2) / np.sqrt(fixed.precision)
    return shrunk


def _normed(cells: UnitCells, terms: Mapping[str, Floats], names: Sequence[str]) -> tuple[Floats, Floats]:
    """Add up the terms of each factor by row, with every entity's joint vector divided by its norm; return also the norms.

    The sums have the rows of all `names`, with zeros for those that have no terms here.
    """
    gathered = {name: cells.pairs[name].total(one) for name, one in terms.items()}
    squares = np.zeros(cells.n_entities)
    for name, one in gathered.items():
        squares += added(cells.pairs[name].unit, (one**2).sum(axis=1), cells.n_entities)
    norms = np.sqrt(squares)
    scales = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    sums = {
        name: added(cells.pairs[name].row, one * scales[cells.pairs[name].unit][:, None], cells.sizes[name])
        for name, one in gathered.items()
    }
    width = next(iter(terms.values())).shape[1]
    return np.concatenate([sums.get(name, np.zeros((cells.sizes[name], width))) for name in names]), norms


def _by_name(cells: UnitCells, names: list[str], rows: Floats) -> dict[str, Floats]:
    ends = np.cumsum([cells.sizes[name] for name in names])[:-1]
    return dict(zip(names, np.split(rows, ends), strict=True))


def _fixed(posteriors: Mapping[str, RowPosterior], mean: float, noise: float) -> FixedFactors:
    return FixedFactors(mean, {name: one.means for name, one in posteriors.items()}, noise)


def _with_ones(one: RowPosterior, count: int) -> RowPosterior:
    rows = len(one.means)
    means = np.concatenate([np.ones((rows, count)), one.means], axis=1)
    diagonal = np.concatenate([np.full((rows, count), 1 / OTHER_VARIANCE), one.precisions[:, :, 0]], axis=1)
    return RowPosterior(one.mean, one.weights, one.n_users, means, diagonal[:, :, None] * np.eye(count + 1))


def residuals_by_pair(cells: UnitCells, fixed: FixedFactors, lead: str) -> Floats:
    """Return the entities' residuals at the rows of a factor, minus each entity's shrunk mean."""
    targets = fixed.targets(cells)
    biases = cells.per_entity(targets) / (cells.counts + VALUE_VARIANCE / UNIT_BIAS_VARIANCE)
    return cells.pairs[lead].total(np.clip(targets - biases[cells.entity], -RESIDUAL_CLIP, RESIDUAL_CLIP))


def _regression(
    cells: UnitCells, posteriors: Mapping[str, RowPosterior], fixed: FixedFactors, norms: Floats
) -> tuple[float, dict[str, Floats]]:
    """Return the bound of the Gram matrices, and the entities' contributions to one regression.

    The limits of the regressors and of the Gram matrices are those of `tacit.factor.ratings.item_moments`.
    """
    solutions, errors = fixed.leave_one_out(cells)
    longest, most = 1 + math.sqrt(fixed.size - 1), 4 * math.sqrt(fixed.size)
    terms, averages = {}, {}
    clipped = np.clip(errors, -RESIDUAL_CLIP, RESIDUAL_CLIP)
    here = {name: one for name, one in posteriors.items() if name in cells.rows}
    for name, posterior in here.items():
        factors = solutions[:, :-1] * fixed.product(cells, without=name)
        lengths = np.linalg.norm(factors, axis=1)
        factors *= np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
        regressors = np.concatenate([factors, np.ones((len(factors), 1))], axis=1)
        averages[name] = cells.per_entity(regressors) / np.maximum(cells.counts, 1)[:, None]
        terms[name] = regressors * (clipped * posterior.gain(RARITY_POWER)[cells.rows[name]])[:, None]
    sums, sent = _normed(cells, terms, list(posteriors))
    # G of each factor: the average over active entities of (n_u / t_u) x_u x_u', each clipped to the Frobenius norm
    # `most_each`, so that all matrices of an entity together have at most the norm `most`
    active = activity_of(cells)
    ratios = np.where(sent > 0, norms / np.where(sent > 0, sent, 1.0), 0.0)
    grams = {}
    most_each = most / math.sqrt(len(here))
    for name, average in averages.items():
        size = np.maximum(ratios * (average**2).sum(axis=1), most_each)
        grams[name] = pack((average * (active * ratios * most_each / size)[:, None]).T @ average)
    none = pack(np.zeros((fixed.size, fixed.size)))
    squares = cells.per_entity(np.minimum(errors**2, 1.0)) / np.maximum(cells.counts, 1)
    return most, {
        "moments": sums,
        "gram": np.stack([grams.get(name, none) for name in posteriors]),
        "activity": np.array([active.sum(), (active * squares).sum()]),
    }
