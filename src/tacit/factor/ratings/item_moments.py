r"""The items' side of a recommender under user-level differential privacy, in a few noisy sums.

Every user's contribution to a sum is computed from that user's ratings and from earlier answers alone, and divided by its
own norm, so that a user with ten thousand ratings moves no sum further than one with ten. Ratings are on a scale from -1
to 1. The sums are

1. *First moments*: for every item a weight and a weighted sum of the ratings less the user's own mean. They give noisy
   popularities and biases; an item's bias is shrunk towards that of items of like popularity.
2. *Second moment* of the users' residuals over the most popular items, without its diagonal, which would carry the ratings'
   own noise. Directions whose eigenvalue rises above the noise's known edge become factors; if none does, the model is
   one of biases, and says so.
3. *Regressions*, several rounds: the error of each rating, predicted from the user's **other** ratings, times the factors
   that were solved from these other ratings (leaving the rating out keeps its noise from being mistaken for signal). They
   correct all items' biases and factors, those of rare items included, by the rule for normal distributions with the noise
   of every release known (a Kalman step).

All between the sums is post-processing. The users' own factors never leave their holder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Step, Sum
from tacit.factor.kernels import one_blas_thread
from tacit.factor.noisy_moments.constants import (
    ACTIVE,
    CUT,
    FIRST,
    LEAST_NOISE,
    NOISE,
    RARE_GAIN,
    RATING_WEIGHT,
    REGRESSIONS,
    SECOND,
    USER_BIAS,
)
from tacit.factor.noisy_moments.leave_one_out import regress
from tacit.factor.noisy_moments.posterior import ItemPosterior, loadings
from tacit.factor.noisy_moments.shrinkage import first_biases
from tacit.factor.noisy_moments.symmetric import pack, unpack
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.table import RatingTable

FIRST_FRACTIONS = {"users": 0.05, "items": 0.95}
REGRESSION_FRACTIONS = {"moments": 0.94, "gram": 0.04, "activity": 0.02}
BLOCK = 2048


@dataclass(frozen=True)
class ItemMomentSettings:
    """Public settings of the program.

    Attributes
    ----------
    n_factors : int
        At most so many factors.
    rounds : int
        Number of regressions.
    max_columns : int
        Maximum number of items in the second moment.
    """

    n_factors: int
    rounds: int
    max_columns: int

    @property
    def split(self) -> Split:
        """How the sums divide the budget."""
        return Split(first=FIRST, second=SECOND, regressions=Step(count=self.rounds, weight=REGRESSIONS / self.rounds))


def item_program(
    table: RatingTable, settings: ItemMomentSettings, scales: NDArray[np.float64] | None = None
) -> Program:
    """One holder's view; the ratings in `table` are between -1 and 1.

    Parameters
    ----------
    table : RatingTable
    settings : ItemMomentSettings
    scales : ndarray of shape (n_users,), optional
        At most 1: how much less than the bound each user contributes, where users have budgets of their own.
    """
    split = settings.split
    scales = np.ones(len(table.users)) if scales is None else scales
    rows, columns, counts = table.rows, table.columns, table.counts
    means = table.per_user(table.values) / np.maximum(counts, 1)
    centred = np.clip(table.values - means[rows], -1.0, 1.0)
    norms = np.sqrt(table.per_user(1 + (RATING_WEIGHT * centred) ** 2))
    weights = (scales / np.where(norms > 0, norms, 1.0))[rows]
    total = yield Sum(
        users=[scales.sum(), (scales * means).sum()],
        items=_per_item(table, np.stack([weights, RATING_WEIGHT * weights * centred], axis=1)),
        # a user is 1 and a mean within [-1, 1]; over the items, the vector was divided by its own norm
        bound={"users": Bound(math.sqrt(2), change=2.0), "items": 1.0},
        fractions=FIRST_FRACTIONS,
        step=split["first"],
        units=len(table.users),
    )
    n_users = max(float(total.users[0]), 1.0)
    mean = float(np.clip(total.users[1] / n_users, -1.0, 1.0))
    sigma = total.noise["items"]
    weight, biases = first_biases(
        total["items"][:, 0], total["items"][:, 1] / RATING_WEIGHT, sigma, sigma / RATING_WEIGHT
    )

    size = min(settings.max_columns, len(table.items))
    popular = np.sort(np.argsort(-total["items"][:, 0], kind="stable")[:size])
    found = ItemPosterior.of_biases(mean, biases, weight, sigma / RATING_WEIGHT, n_users)
    if size > 1 and settings.n_factors:
        outer = _second_moment_of_users(table, scales, popular, table.values - mean - biases[columns])
        second = yield Sum(
            second=pack(outer),
            # outer products of vectors of norm 1 are at most sqrt(2) apart
            bound=Bound(1.0, change=math.sqrt(2)),
            step=split["second"],
            units=len(table.users),
        )
        factors, spread = loadings(
            unpack(second.second, size), second.noise["second"], weight[popular], n_users, settings.n_factors
        )
        found = found.with_factors(popular, factors, spread)

    noise = NOISE
    for _ in range(split["regressions"].count):
        asked, arrays = _regression(table, scales, found, noise, norms)
        bound = {"moments": Bound(1.0), "gram": asked, "activity": Bound(math.sqrt(2), change=math.sqrt(2))}
        answer = yield Sum(
            bound=bound,
            fractions=REGRESSION_FRACTIONS,
            step=split["regressions"],
            units=len(table.users),
            **arrays,
        )
        activity = max(float(answer.activity[0]), 1.0)
        noise = float(np.clip(answer.activity[1] / activity, LEAST_NOISE, 1.0))
        gram = unpack(answer.gram, found.size) / activity
        found = found.corrected(answer.moments, gram, answer.noise["moments"], RARE_GAIN)
    return Outcome({**_item_side(found, noise).public(), "weights": weight})


def _per_item(table: RatingTable, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    items = len(table.items)
    sums = [np.bincount(table.columns, column, minlength=items) for column in terms.T]
    return np.stack(sums, axis=1)


def _second_moment_of_users(
    table: RatingTable, scales: NDArray[np.float64], popular: NDArray[np.intp], residuals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum the outer products of the users' residuals over the popular items, each divided by its norm; no diagonal."""
    rows = table.rows
    biases = table.per_user(residuals) / (table.counts + NOISE / USER_BIAS)
    place = np.full(len(table.items), -1)
    place[popular] = np.arange(len(popular))
    chosen = place[table.columns]
    cut = np.clip(residuals - biases[rows], -CUT, CUT)
    outer = np.zeros((len(popular), len(popular)))
    for start in range(0, len(table.users), BLOCK):
        users = slice(int(table.ends[start]), int(table.ends[min(start + BLOCK, len(table.users))]))
        inside = chosen[users] >= 0
        dense = np.zeros((min(BLOCK, len(table.users) - start), len(popular)))
        dense[rows[users][inside] - start, chosen[users][inside]] = cut[users][inside]
        lengths = np.linalg.norm(dense, axis=1)
        factor = np.sqrt(scales[start : start + BLOCK]) / np.where(lengths > 0, lengths, 1.0)
        dense *= factor[:, None]
        outer += dense.T @ dense
    np.fill_diagonal(outer, 0.0)
    return outer


def _regression(
    table: RatingTable, scales: NDArray[np.float64], found: ItemPosterior, noise: float, norms: NDArray[np.float64]
) -> tuple[Bound, dict[str, NDArray[np.float64]]]:
    """Return what the users send for one correction: errors times regressors by item, and averages over users."""
    side, gain = _item_side(found, noise), found.gain(RARE_GAIN)
    factors = np.ascontiguousarray(np.concatenate([side.factors, np.ones((len(side.factors), 1))], axis=1))
    longest, most = 1 + math.sqrt(found.size - 1), 4 * math.sqrt(found.size)
    moments, sent, average, squares = regress(
        table.ends,
        table.columns,
        table.values - side.mean,
        side.biases,
        factors,
        side.precision,
        noise,
        gain=gain,
        longest=longest,
        cut=CUT,
        scales=scales,
    )
    # how much the items' weights grow by being multiplied with the regressors, on average over active users
    active = scales * np.minimum(np.sqrt(table.counts / ACTIVE), 1.0)
    stretch = np.where(sent > 0, norms / np.where(sent > 0, sent, 1.0), 0.0)
    stretch *= np.minimum(1.0, most / np.maximum(stretch * np.einsum("ij,ij->i", average, average), most))
    with one_blas_thread():
        gram = (average * (active * stretch)[:, None]).T @ average
    activity = np.array([active.sum(), (active * squares).sum()])
    arrays = {"moments": moments, "gram": pack(gram), "activity": activity}
    return Bound(most, change=math.sqrt(2) * most), arrays


def _item_side(found: ItemPosterior, noise: float) -> ItemSide:
    precision = np.r_[np.ones(found.size - 1), 1 / USER_BIAS]
    factors = np.ascontiguousarray(found.means[:, :-1])
    return ItemSide(found.mean, found.means[:, -1].copy(), factors, factors[:0], precision, noise)


def on_rating_scale(side: ItemSide, middle: float, half: float) -> ItemSide:
    """Return the items' side on the scale of the ratings: `middle` for 0, `half` for 1."""
    precision = side.precision.copy()
    precision[-1] /= half**2
    return replace(
        side,
        mean=middle + half * side.mean,
        biases=half * side.biases,
        factors=half * side.factors,
        precision=precision,
        noise=half**2 * side.noise,
    )
