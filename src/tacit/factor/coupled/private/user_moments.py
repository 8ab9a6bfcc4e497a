r"""Coupled factorisation from noisy moments, where a unit is an entity with all its cells.

The items' side of `tacit.factor.ratings.item_moments`, for relations of any order: an entity's contribution to a sum is
computed from its own cells and earlier answers alone, and divided by its own norm.

1. *First moments*: for every row of every factor a weight and a weighted sum of centred values. They give biases.
2. *Second moment* of the entities' residuals over the most common rows of the largest factor. Directions above the noise's
   edge become factors; if there is none, the model is one of biases.
3. *Regressions*, several rounds: each cell's error when predicted from the entity's *other* cells, times what the row's factors
   are multiplied with there, corrects the rows of all factors.
4. With ``protect="user"`` the entities' own factors are released too: solved, cut off, noised, shrunk.

Public relations give regressors for the rows' biases: what they explain is not paid for.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.channel import Bound, Outcome, Program, Step, Sum
from tacit.factor.coupled.private.budget import MEAN_VARIANCE, REGRESSION_FRACTIONS, CoupledMomentSettings
from tacit.factor.coupled.private.fixed_factors import FixedFactors, constant
from tacit.factor.coupled.private.unit_cells import UnitCells, added
from tacit.factor.noisy_moments.constants import (
    ACTIVE,
    BIAS_VARIANCE,
    CUT,
    ENTITY_BIAS,
    LEAST_NOISE,
    NOISE,
    RARE_GAIN,
    RATING_WEIGHT,
)
from tacit.factor.noisy_moments.posterior import ItemPosterior, loadings
from tacit.factor.noisy_moments.shrinkage import shrunk_biases, shrunk_mean
from tacit.factor.noisy_moments.symmetric import Floats, pack, unpack

USUAL_ACTIVITY = 0.7
OTHER_VARIANCE = 0.25
"""Of factors that start at one: those of all modes but the largest."""
OWN_LONGEST = 1.0


def moments_program(
    cells: UnitCells, settings: CoupledMomentSettings, features: Mapping[str, Floats], entity: str
) -> Program:
    """One holder's view.

    Parameters
    ----------
    cells : UnitCells
    settings : CoupledMomentSettings
    features : mapping of factor to ndarray
        What public relations say about its rows.
    entity : str
        The factor of the protected entity.
    """
    names = [name for name in cells.rows if name != entity]
    # those with many cells count for more, as they do among the cells to predict
    active = np.minimum(np.sqrt(cells.counts / ACTIVE), 1.0)
    averages = cells.per_entity(cells.values) / np.maximum(cells.counts, 1)
    centred = np.clip(cells.values - averages[cells.entity], -1.0, 1.0)
    terms = np.stack([np.ones(len(centred)), RATING_WEIGHT * centred], axis=1)
    split = settings.split
    level = yield Sum(
        entities=[active.sum(), (active * averages).sum()],
        bound=Bound(math.sqrt(2), change=2.0),
        step=split["mean"],
        units=cells.n_entities,
    )
    mean = _mean(level.entities, cells.sizes[entity], level.noise["entities"])
    if settings.only_the_mean:
        return constant(mean, cells, entity, settings)
    n_users = float(cells.sizes[entity])

    sums, norms = _normed(cells, dict.fromkeys(names, terms))
    total = yield Sum(rows=sums, bound=1.0, step=split["first"], units=cells.n_entities)
    sigma = total.noise["rows"]
    found: dict[str, ItemPosterior] = {}
    popularity = _by_name(cells, names, total["rows"])
    for name in names:
        seen, biases = shrunk_biases(
            popularity[name][:, 0],
            popularity[name][:, 1] / RATING_WEIGHT,
            count_noise=sigma,
            sum_noise=sigma / RATING_WEIGHT,
            variance=BIAS_VARIANCE,
            value_noise=0.0,
            features=features.get(name),
        )
        found[name] = ItemPosterior.of_biases(mean, biases, seen, sigma / RATING_WEIGHT, n_users)

    if "second" in split:
        assert settings.lead is not None
        size = min(settings.max_columns, cells.sizes[settings.lead])
        popular = np.sort(np.argsort(-popularity[settings.lead][:, 0], kind="stable")[:size])
        second = yield Sum(
            second=pack(_second_moment_of_entities(cells, _side(found, mean, NOISE), settings.lead, popular)),
            # outer products of vectors of norm 1 are at most sqrt(2) apart
            bound=Bound(1.0, change=math.sqrt(2)),
            step=split["second"],
            units=cells.n_entities,
        )
        lead = found[settings.lead]
        factors, spread = loadings(
            unpack(second.second, size),
            second.noise["second"],
            lead.weights[popular],
            n_users,
            settings.rank,
        )
        found = {
            name: one.with_factors(popular, factors, spread)
            if name == settings.lead
            else _with_ones(one, factors.shape[1])
            for name, one in found.items()
        }

    noise = NOISE
    for _ in range(split["regressions"].count if "regressions" in split else 0):
        most, arrays = _regression(cells, found, _side(found, mean, noise), norms)
        bound = {
            "rows": Bound(1.0),
            "grams": Bound(most, change=math.sqrt(2) * most),
            "activity": Bound(math.sqrt(2), change=math.sqrt(2)),
        }
        answer = yield Sum(
            bound=bound,
            fractions=REGRESSION_FRACTIONS,
            step=split["regressions"],
            units=cells.n_entities,
            **arrays,
        )
        activity = max(float(answer.activity[0]), 1.0)
        noise = float(np.clip(answer.activity[1] / activity, LEAST_NOISE, 1.0))
        corrections = _by_name(cells, names, answer.rows)
        for place, name in enumerate(names):
            gram = unpack(answer.grams[place], found[name].size) / activity
            found[name] = found[name].corrected(corrections[name], gram, answer.noise["rows"], RARE_GAIN)
    side = _side(found, mean, noise)
    own = None
    if settings.release_own:
        own = yield from release_own(cells, side, entity, split["own"])
    return Outcome({"mean": mean, "noise": noise, "own": own, **{f"rows:{name}": side.rows[name] for name in names}})


def _mean(noisy: Floats, listed: int, noise: float) -> float:
    """Return the mean; where the noise is strong, the length of the public list stands for the weight of the entities."""
    doubt = (listed / 4) ** 2
    weight = (float(noisy[0]) * doubt + USUAL_ACTIVITY * listed * noise**2) / (doubt + noise**2)
    return shrunk_mean(float(noisy[1]), float(np.clip(weight, 1.0, listed)), noise, MEAN_VARIANCE)


def release_own(cells: UnitCells, side: FixedFactors, entity: str, step: Step) -> Generator[Sum, Any, Floats]:
    """Release the entities' own factors: solved, cut off at a length, noised; return them shrunk to what the noise leaves."""
    solved = side.solve(cells) * np.sqrt(side.precision)  # so that all entries have a spread of about 1
    lengths = np.linalg.norm(solved, axis=1)
    solved *= (np.minimum(1.0, OWN_LONGEST / np.maximum(lengths, 1e-12)) * (cells.counts > 0))[:, None]
    rows = np.zeros((cells.sizes[entity], side.size))
    rows[cells.offset : cells.offset + len(solved)] = solved
    total = yield Sum(own=rows, bound=OWN_LONGEST, step=step, units=cells.n_entities)
    spread, noise = OWN_LONGEST**2 / side.size, total.noise["own"]
    shrunk: Floats = total.own * spread / (spread + noise**2) / np.sqrt(side.precision)
    return shrunk


def _normed(cells: UnitCells, terms: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Add the terms of each factor up by row, every entity's joint vector divided by its norm; return the norms too."""
    gathered = {name: cells.pairs[name].total(one) for name, one in terms.items()}
    squares = np.zeros(cells.n_entities)
    for name, one in gathered.items():
        squares += added(cells.pairs[name].unit, (one**2).sum(axis=1), cells.n_entities)
    norms = np.sqrt(squares)
    scales = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    sums = [
        added(cells.pairs[name].row, one * scales[cells.pairs[name].unit][:, None], cells.sizes[name])
        for name, one in gathered.items()
    ]
    return np.concatenate(sums), norms


def _by_name(cells: UnitCells, names: list[str], rows: Floats) -> dict[str, Floats]:
    ends = np.cumsum([cells.sizes[name] for name in names])[:-1]
    return dict(zip(names, np.split(rows, ends), strict=True))


def _side(found: Mapping[str, ItemPosterior], mean: float, noise: float) -> FixedFactors:
    return FixedFactors(mean, {name: one.means for name, one in found.items()}, noise)


def _with_ones(one: ItemPosterior, count: int) -> ItemPosterior:
    rows = len(one.means)
    means = np.concatenate([np.ones((rows, count)), one.means], axis=1)
    diagonal = np.concatenate([np.full((rows, count), 1 / OTHER_VARIANCE), one.precisions[:, :, 0]], axis=1)
    return ItemPosterior(one.mean, one.weights, one.n_users, means, diagonal[:, :, None] * np.eye(count + 1))


def residuals_by_pair(cells: UnitCells, side: FixedFactors, lead: str) -> Floats:
    """Return the entities' residuals at the rows of a factor, each entity's bias taken out."""
    targets = side.targets(cells)
    biases = cells.per_entity(targets) / (cells.counts + NOISE / ENTITY_BIAS)
    return cells.pairs[lead].total(np.clip(targets - biases[cells.entity], -CUT, CUT))


def _second_moment_of_entities(cells: UnitCells, side: FixedFactors, lead: str, popular: np.ndarray) -> Floats:
    pairs, residuals = cells.pairs[lead], residuals_by_pair(cells, side, lead)
    place = np.full(cells.sizes[lead], -1)
    place[popular] = np.arange(len(popular))
    inside = place[pairs.row] >= 0
    unit, column, value = pairs.unit[inside], place[pairs.row[inside]], residuals[inside]
    norms = np.sqrt(added(unit, value**2, cells.n_entities))
    table = csr_array(
        (value / np.where(norms > 0, norms, 1.0)[unit], (unit, column)), shape=(cells.n_entities, len(popular))
    )
    outer = (table.T @ table).toarray()
    np.fill_diagonal(outer, 0.0)
    return np.asarray(outer)


def _regression(
    cells: UnitCells, found: Mapping[str, ItemPosterior], side: FixedFactors, norms: Floats
) -> tuple[float, dict[str, Floats]]:
    """Return what the entities send for one correction of all factors."""
    without, errors = side.left_out(cells)
    longest, most = 1 + math.sqrt(side.size - 1), 4 * math.sqrt(side.size)
    terms, averages = {}, {}
    cut = np.clip(errors, -CUT, CUT)
    for name in found:
        factors = without[:, :-1] * side.product(cells, without=name)
        lengths = np.linalg.norm(factors, axis=1)
        factors *= np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
        regressors = np.concatenate([factors, np.ones((len(factors), 1))], axis=1)
        averages[name] = cells.per_entity(regressors) / np.maximum(cells.counts, 1)[:, None]
        terms[name] = regressors * (cut * found[name].gain(RARE_GAIN)[cells.rows[name]])[:, None]
    sums, sent = _normed(cells, terms)
    # how much the rows' weights grow by being multiplied with the regressors, on average over active entities
    active = np.minimum(np.sqrt(cells.counts / ACTIVE), 1.0)
    stretch = np.where(sent > 0, norms / np.where(sent > 0, sent, 1.0), 0.0)
    grams = []
    share = most / math.sqrt(len(found))
    for average in averages.values():
        size = np.maximum(stretch * (average**2).sum(axis=1), share)
        grams.append(pack((average * (active * stretch * share / size)[:, None]).T @ average))
    squares = cells.per_entity(np.minimum(errors**2, 1.0)) / np.maximum(cells.counts, 1)
    return most, {
        "rows": sums,
        "grams": np.stack(grams),
        "activity": np.array([active.sum(), (active * squares).sum()]),
    }
