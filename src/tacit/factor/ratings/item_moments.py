r"""The items' side of a recommender under user-level differential privacy, in a few noisy sums.

A user's contribution to a sum is computed from that user's ratings and from earlier totals only, and is divided by its own
norm. So a user with ten thousand ratings changes a sum by no more than a user with ten. Ratings are on a scale from -1
to 1. The sums are

1. *First moments*: for every item, a weight and a weighted sum of the ratings minus the user's own mean. They give noisy
   popularities and biases. The bias of an item is shrunk towards that of items with a similar popularity.
2. *Second moment* of the users' residuals over the most popular items, without its diagonal, which would hold the noise of
   single ratings. Directions whose eigenvalue exceeds the edge of the noise's spectrum become factors. If there is none,
   the model consists of biases, and a warning says so.
3. *Regressions*, in several rounds: the error :math:`e_{ui}` of each rating when it is predicted from the user's **other**
   ratings, times the regressors :math:`x_{u,-i}`, the user's factors solved from these other ratings and a 1 for the bias.
   User u contributes, to item i, the term :math:`g_i e_{ui} x_{u,-i}`, and all terms of u are divided by their joint norm
   :math:`t_u`. The total observes the correction :math:`\delta_i` that is due to the factors and bias of item i, rare
   items included:

   .. math:: m_i = w_i g_i G\, \delta_i + \text{noise}, \qquad
             G = \operatorname{average}_u \frac{n_u}{t_u}\, \bar x_u \bar x_u^\top, \qquad
             \mu_i \leftarrow \mu_i + P_i^{-1} H_i R_i^{-1} m_i ,

   with the weight w and the norm n of the first moments, the gain g of rare items, and
   :math:`H_i = w_i g_i G`. The last equation is the Kalman step of `tacit.factor.noisy_moments.posterior`, which also
   defines P and R.

Everything between the sums is post-processing. The users' own factors never leave their holder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.channel import Bound, Outcome, Program, Split, Step, Sum
from tacit.factor.arrays import Floats
from tacit.factor.kernels import one_blas_thread
from tacit.factor.noisy_moments.constants import (
    FIRST,
    FULL_ACTIVITY,
    LEAST_VALUE_VARIANCE,
    RARITY_POWER,
    REGRESSION_FRACTIONS,
    REGRESSIONS,
    RESIDUAL_CLIP,
    SECOND,
    TINY,
    UNIT_BIAS_VARIANCE,
    VALUE_VARIANCE,
    VALUE_WEIGHT,
)
from tacit.factor.noisy_moments.leave_one_out import regress
from tacit.factor.noisy_moments.posterior import RowPosterior, loadings
from tacit.factor.noisy_moments.second_moment import second_moment
from tacit.factor.noisy_moments.shrinkage import shrunk_biases, shrunk_mean
from tacit.factor.noisy_moments.symmetric import pack, unpack
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.table import RatingTable

FIRST_FRACTIONS = {"users": 0.05, "items": 0.95}
"""How the two arrays of the first sum divide its budget. Chosen on MovieLens 100K and on a part of the training ratings of
MovieLens 1M, like the shared constants: the number of users and their mean are two numbers, and need little."""

MEAN_VARIANCE = 0.1
"""Prior variance of the mean rating on the scale from -1 to 1, of which 0 is the middle. Set by hand."""
VALUE_VARIANCE_DOUBT = 0.1
"""Standard deviation, before a regression, of the variance of a rating. Set by hand."""
MOST_DOUBT = 1.0
"""Regressions correct the items if the noise in the number of active users is at most this fraction of it. Chosen among 0.25,
0.5 and 1 on made-up ratings of 100 to 1,000 users."""
TASTE = 0.1
"""Standard deviation of users' tastes for a public feature, on the scale from -1 to 1. Chosen on a part of the training ratings
of MovieLens 1M."""


@dataclass(frozen=True)
class ItemMomentSettings:
    """Public settings of the program.

    Attributes
    ----------
    n_factors : int
        Maximum number of factors.
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
    table: RatingTable, settings: ItemMomentSettings, scales: Floats | None = None, features: Floats | None = None
) -> Program:
    """One holder's view; the ratings in `table` are between -1 and 1.

    Parameters
    ----------
    table : RatingTable
    settings : ItemMomentSettings
    scales : ndarray of shape (n_users,), optional
        At most 1: the norm of each user's contributions, relative to the bound, where users have budgets of their own.
    features : ndarray of shape (n_items, n_features), optional
        Public. They explain a part of the items' biases and factors, and of directions below the common noise.
    """
    split = settings.split
    scales = np.ones(len(table.users)) if scales is None else scales
    rows, columns, counts = table.rows, table.columns, table.counts
    means = table.per_user(table.values) / np.maximum(counts, 1)
    centred = np.clip(table.values - means[rows], -1.0, 1.0)
    norms = np.sqrt(table.per_user(1 + (VALUE_WEIGHT * centred) ** 2))
    weights = (scales / np.where(norms > 0, norms, 1.0))[rows]
    total = yield Sum(
        users=[scales.sum(), (scales * means).sum()],
        items=_per_item(table, np.stack([weights, VALUE_WEIGHT * weights * centred], axis=1)),
        # users: 1 and a mean within [-1, 1]; items: a vector that was divided by its own norm
        bound={"users": Bound(math.sqrt(2), change=2.0), "items": 1.0},
        fractions=FIRST_FRACTIONS,
        step=split["first"],
        units=len(table.users),
    )
    n_users = max(float(total.users[0]), 1.0)
    mean = shrunk_mean(float(total.users[1]), n_users, total.noise["users"], MEAN_VARIANCE)
    # users' biases are relative to this mean: where the noise moved it, they vary more
    bias_variance = UNIT_BIAS_VARIANCE + 1 / (1 / MEAN_VARIANCE + (n_users / (total.noise["users"] + TINY)) ** 2)
    sigma = total.noise["items"]
    weight, biases = shrunk_biases(
        total["items"][:, 0],
        total["items"][:, 1] / VALUE_WEIGHT,
        count_noise=sigma,
        sum_noise=sigma / VALUE_WEIGHT,
        features=None if features is None else _standardised(features),
    )

    size = min(settings.max_columns, len(table.items))
    popular = np.sort(np.argsort(-total["items"][:, 0], kind="stable")[:size])
    posterior = RowPosterior.of_biases(mean, biases, weight, sigma / VALUE_WEIGHT, n_users)
    if size > 1 and settings.n_factors:
        residuals = _without_user_biases(table, table.values - mean - biases[columns])
        outer = second_moment(
            rows, columns, residuals, popular, n_units=len(table.users), n_columns=len(table.items), scales=scales
        )
        second = yield Sum(
            second=pack(outer),
            # outer products of vectors of norm 1 are at most sqrt(2) apart
            bound=Bound(1.0, change=math.sqrt(2)),
            step=split["second"],
            units=len(table.users),
        )
        factors, spread = loadings(
            unpack(second.second, size),
            second.noise["second"],
            weight[popular],
            n_users,
            settings.n_factors,
            None if features is None else features[popular],
            # the squared entries of a user's outer product add up to 1, and off the diagonal they are packed times sqrt(2)
            sampling=math.sqrt(2 * n_users) / size,
        )
        posterior = posterior.with_factors(popular, factors, spread, features)

    noise = VALUE_VARIANCE
    for _ in range(split["regressions"].count):
        gram_bound, arrays = _regression(table, scales, posterior, noise, norms, bias_variance)
        bound = {"moments": Bound(1.0), "gram": gram_bound, "activity": Bound(math.sqrt(2), change=math.sqrt(2))}
        total = yield Sum(
            bound=bound,
            fractions=REGRESSION_FRACTIONS,
            step=split["regressions"],
            units=len(table.users),
            **arrays,
        )
        activity = max(float(total.activity[0]), 1.0)
        doubt = total.noise["activity"] / activity
        if doubt > MOST_DOUBT:  # so few users that their averages are noise, which would pass for corrections
            continue
        trust = VALUE_VARIANCE_DOUBT**2 / (VALUE_VARIANCE_DOUBT**2 + doubt**2)
        likely = VALUE_VARIANCE + trust * (float(total.activity[1]) / activity - VALUE_VARIANCE)
        noise = float(np.clip(likely, LEAST_VALUE_VARIANCE, 1.0))
        gram = unpack(total.gram, posterior.size) / activity
        posterior = posterior.corrected(total.moments, gram, total.noise["moments"], RARITY_POWER)
    return Outcome({**_item_side(posterior, noise, bias_variance).public(), "weights": weight})


def _standardised(features: Floats) -> Floats:
    """Return columns of mean 0 and variance 1; constant columns become zero."""
    centred = features - features.mean(axis=0)
    spread = centred.std(axis=0)
    standardised: Floats = centred / np.where(spread > 0, spread, 1.0)
    return standardised


def _per_item(table: RatingTable, terms: Floats) -> Floats:
    items = len(table.items)
    sums = [np.bincount(table.columns, column, minlength=items) for column in terms.T]
    return np.stack(sums, axis=1)


def _without_user_biases(table: RatingTable, residuals: Floats) -> Floats:
    """Return the residuals minus their user's shrunk mean, clipped."""
    biases = table.per_user(residuals) / (table.counts + VALUE_VARIANCE / UNIT_BIAS_VARIANCE)
    return np.clip(residuals - biases[table.rows], -RESIDUAL_CLIP, RESIDUAL_CLIP)


def _regression(
    table: RatingTable, scales: Floats, posterior: RowPosterior, noise: float, norms: Floats, bias_variance: float
) -> tuple[Bound, dict[str, Any]]:
    """Return the users' contributions to one regression, and the bound of the Gram matrix.

    A user's regressors are clipped to the norm 1 + sqrt(n_factors): users' factors have unit prior variance. Its term of
    the Gram matrix is clipped to the Frobenius norm 4 sqrt(size). Both were chosen with the shared constants; wider
    limits clip fewer users and need more noise.
    """
    side, gain = _item_side(posterior, noise, bias_variance), posterior.gain(RARITY_POWER)
    factors = np.ascontiguousarray(np.concatenate([side.factors, np.ones((len(side.factors), 1))], axis=1))
    longest, most = 1 + math.sqrt(posterior.size - 1), 4 * math.sqrt(posterior.size)
    moments, sent, average, squares = regress(
        table.ends,
        table.columns,
        table.values - side.mean,
        side.biases,
        factors,
        np.asarray(side.precision, dtype=np.float64),
        noise,
        gain=gain,
        longest=longest,
        clip=RESIDUAL_CLIP,
        scales=scales,
    )
    # G: the average over active users of (n_u / t_u) x_u x_u', each clipped to the Frobenius norm `most`
    active = scales * np.minimum(np.sqrt(table.counts / FULL_ACTIVITY), 1.0)
    ratios = np.where(sent > 0, norms / np.where(sent > 0, sent, 1.0), 0.0)
    ratios *= np.minimum(1.0, most / np.maximum(ratios * np.einsum("ij,ij->i", average, average), most))
    with one_blas_thread():
        gram = (average * (active * ratios)[:, None]).T @ average
    activity = np.array([active.sum(), (active * squares).sum()])
    arrays = {"moments": moments, "gram": pack(gram), "activity": activity}
    return Bound(most, change=math.sqrt(2) * most), arrays


def _item_side(posterior: RowPosterior, noise: float, bias_variance: float) -> ItemSide:
    precision = np.r_[np.ones(posterior.size - 1), 1 / bias_variance]
    factors = np.ascontiguousarray(posterior.means[:, :-1])
    return ItemSide(posterior.mean, posterior.means[:, -1].copy(), factors, factors[:0], precision, noise)


def with_public_tastes(side: ItemSide, features: Floats) -> ItemSide:
    """Add public features to the items' factors: each user's taste for them is then solved from the user's own ratings.

    It costs no privacy: the features are public, and the users' tastes never leave their holder.
    """
    factors = np.concatenate([side.factors, TASTE * (features - features.mean(axis=0))], axis=1)
    precision = np.concatenate([side.precision[:-1], np.ones(features.shape[1]), side.precision[-1:]])
    return replace(side, factors=np.ascontiguousarray(factors), variances=factors[:0], precision=precision)


def on_rating_scale(side: ItemSide, middle: float, half: float) -> ItemSide:
    """Return the items' side on the scale of the ratings: 0 becomes `middle`, and a difference of 1 becomes `half`."""
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
