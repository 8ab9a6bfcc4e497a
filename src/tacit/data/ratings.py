"""Star ratings with the tails of a real catalogue: few items rated often, few users who rate much."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_count, check_non_negative, check_seed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Chosen to resemble MovieLens, whose items have a Gini coefficient of 0.63 and whose users have one of 0.5.
_FEWEST_RATINGS, _ACTIVITY_SPREAD, _MOST_RATED_SHARE = 5, 1.1, 0.6
_POPULARITY_SHIFT, _POPULARITY_DECAY = 0.05, 4.0
# In stars of a 1-to-5 scale; another scale stretches them.
_MEAN_ABOVE_LEAST, _USER_SPREAD, _ITEM_SPREAD, _POPULARITY_GAIN, _TASTE_SPREAD = 2.4, 0.4, 0.4, 0.25, 0.5
# Users who rate more than this share of the items are drawn by ranking all items: rejection would take long.
_DENSE_SHARE, _DENSE_CELLS = 1 / 8, 2_000_000


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, sorted by user and item, with the parameters they were drawn from.

    Parameters
    ----------
    users, items, ratings : ndarray of int64, shape (n_ratings,)
        One rating for each position; no pair of user and item occurs twice.
    rating_range : tuple of int
        The least and the greatest rating.
    global_mean : float
        The score of an average user for an average item.
    user_biases, item_biases : ndarray of shape (n_users,) and (n_items,)
        How much higher a user rates than the average user, and how much better an item is liked.
    user_factors, item_factors : ndarray of shape (n_users, n_factors) and (n_items, n_factors)
        The tastes of the users, and what the items offer to them.
    popularity : ndarray of shape (n_items,)
        The probability of each item to be the first that a user rates; sums to one.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.int64]
    rating_range: tuple[int, int]
    global_mean: float
    user_biases: NDArray[np.float64]
    item_biases: NDArray[np.float64]
    user_factors: NDArray[np.float64]
    item_factors: NDArray[np.float64]
    popularity: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of users and number of items, those without a rating included."""
        return len(self.user_biases), len(self.item_biases)

    def expected(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """Return the scores before noise, rounding and clipping of the given pairs, rated or not."""
        users, items = np.asarray(users), np.asarray(items)
        score = self.global_mean + self.user_biases[users] + self.item_biases[items]
        # Factor by factor: the memory needed does not grow with their number.
        for tastes, offers in zip(self.user_factors.T, self.item_factors.T, strict=True):
            score = score + tastes[users] * offers[items]
        return np.asarray(score, dtype=np.float64)

    def to_csr(self) -> csr_array[np.float64, tuple[int, int]]:
        """Return the users x items matrix that stores exactly the ratings given, a rating of 0 included."""
        from scipy.sparse import csr_array

        # 32-bit indices, which some solvers insist on; scipy widens the row starts if it has to.
        pairs = self.users.astype(np.int32), self.items.astype(np.int32)
        return csr_array((self.ratings.astype(np.float64), pairs), shape=self.shape)


def make_ratings(
    n_users: int = 600,
    n_items: int = 300,
    *,
    n_factors: int = 4,
    ratings_per_user: int = 40,
    rating_range: tuple[int, int] = (1, 5),
    noise: float = 0.8,
    random_state: int = 0,
) -> Ratings:
    r"""Draw ratings with biases, low-rank tastes, and long tails of popularity and activity.

    With stars :math:`s = (hi - lo) / 4`, the score of item i for user u and the rating are

    .. math::
        m_{ui} = \mu + b_u + c_i + p_u \cdot q_i, \qquad
        r_{ui} = \mathrm{clip}(\mathrm{round}(m_{ui} + \sigma z_{ui}), lo, hi), \quad z_{ui} \sim N(0, 1),

    where :math:`\mu = lo + 2.4 s`, :math:`b_u \sim N(0, (0.4 s)^2)`, :math:`c_i \sim N(t_i s/4, (0.4 s)^2)`
    with :math:`t_i` the standardised logarithm of the popularity, and the entries of the factors are normal
    with the variance that gives :math:`p_u \cdot q_i` the standard deviation :math:`0.5 s`.

    Who rates what does not depend on the tastes. A user has :math:`5 + a e^{1.1 z_u}` ratings, at most 0.6 of
    the items (more if the average needs it), with `a` such that the average is `ratings_per_user`. The items
    are drawn one after the other without replacement, by Zipf's law with a cut-off: item i in proportion to
    :math:`e^{-4 \rho_i} / (\rho_i + 0.05)`, where :math:`\rho_i` is its rank, which is random, divided by the
    number of items.

    Parameters
    ----------
    n_users, n_items : int
        Size of the matrix; items may have no rating, users have at least 5 (or `ratings_per_user`, if less).
    n_factors : int
        Number of tastes; 0 leaves only the biases.
    ratings_per_user : int
        Average number of ratings of a user, at most `n_items`.
    rating_range : tuple of int
        The least and the greatest rating.
    noise : float
        Standard deviation of the noise, in units of the rating; 0 rounds the score itself.
    random_state : int
        Seed; the same seed gives the same data.

    Returns
    -------
    Ratings
        The ratings and their truth. Memory is proportional to users + items + ratings.

    Examples
    --------
    >>> data = make_ratings(100, 50, ratings_per_user=10, random_state=1)
    >>> data.to_csr().shape
    (100, 50)
    """
    n_users, n_items = check_count(n_users, "n_users"), check_count(n_items, "n_items")
    n_factors = check_count(n_factors, "n_factors", least=0)
    ratings_per_user = check_count(ratings_per_user, "ratings_per_user")
    if ratings_per_user > n_items:
        limit = f"ratings_per_user to be at most n_items={n_items}"
        raise InvalidInputError(limit, parameter(ratings_per_user), "Nobody rates an item twice.")
    least, greatest = _check_range(rating_range)
    noise = check_non_negative(noise, "noise")
    rng = np.random.default_rng(check_seed(random_state))

    # Drawn on a 1-to-5 scale and then stretched, so that every scale is used to the same degree.
    star = (greatest - least) / 4
    depth = np.arange(1, n_items + 1) / n_items
    weights = np.exp(-_POPULARITY_DECAY * depth) / (depth + _POPULARITY_SHIFT)
    popularity: NDArray[np.float64] = rng.permutation(weights / weights.sum())
    fame = np.log(popularity) - np.log(popularity).mean()
    fame /= fame.std() or 1.0
    # The product of two normal variables has the product of their variances; n_factors of these are added.
    factor_spread = math.sqrt(_TASTE_SPREAD * star) / max(n_factors, 1) ** 0.25
    user_biases = _USER_SPREAD * star * rng.standard_normal(n_users)
    item_biases = star * (_POPULARITY_GAIN * fame + _ITEM_SPREAD * rng.standard_normal(n_items))
    user_factors = factor_spread * rng.standard_normal((n_users, n_factors))
    item_factors = factor_spread * rng.standard_normal((n_items, n_factors))

    counts = _activity(rng, n_users, n_items, ratings_per_user)
    users, items = _rated_pairs(rng, counts, popularity)
    data = Ratings(
        users=users,
        items=items,
        ratings=np.zeros(len(users), dtype=np.int64),
        rating_range=(least, greatest),
        global_mean=least + _MEAN_ABOVE_LEAST * star,
        user_biases=user_biases,
        item_biases=item_biases,
        user_factors=user_factors,
        item_factors=item_factors,
        popularity=popularity,
    )
    noisy = data.expected(users, items) + noise * rng.standard_normal(len(users))
    data.ratings[:] = np.clip(np.rint(noisy), least, greatest)
    return data


def _check_range(value: object) -> tuple[int, int]:
    pair = list(value) if isinstance(value, (tuple, list)) else []
    whole = all(isinstance(end, numbers.Integral) and not isinstance(end, bool) for end in pair)
    if len(pair) != 2 or not whole or not pair[0] < pair[1]:
        rule = "rating_range to be two whole numbers, the lesser one first"
        raise InvalidInputError(rule, parameter(value), "Give the least and the greatest rating, as in (1, 5).")
    return int(pair[0]), int(pair[1])


def _activity(rng: np.random.Generator, n_users: int, n_items: int, average: int) -> NDArray[np.int64]:
    """Return how many ratings each user gives: log-normal above a minimum, with the average asked for."""
    fewest = min(_FEWEST_RATINGS, average)
    most = math.ceil(max(_MOST_RATED_SHARE * n_items, (n_items + average) / 2))
    tail = np.exp(_ACTIVITY_SPREAD * rng.standard_normal(n_users))
    # The cap lowers the average, so the scale is found by bisection; at `high` everybody is at the cap.
    low, high = 0.0, most / tail.min()
    for _ in range(60):
        middle = (low + high) / 2
        too_few = np.minimum(fewest + middle * tail, most).mean() < average
        low, high = (middle, high) if too_few else (low, middle)
    # Rounded up or down at random, which keeps the average.
    exact = np.minimum(fewest + high * tail, most)
    return np.asarray(np.floor(exact + rng.random(n_users)), dtype=np.int64)


def _rated_pairs(
    rng: np.random.Generator, counts: NDArray[np.int64], popularity: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return users and items, sorted: each user's items drawn by popularity without replacement."""
    many = counts > _DENSE_SHARE * len(popularity)
    # A pair is one number, user * n_items + item, which sorts faster than two.
    pairs = [*_by_ranking(rng, np.flatnonzero(many), counts, popularity)]
    pairs += _by_rejection(rng, np.flatnonzero(~many), counts, popularity)
    return np.divmod(np.sort(np.concatenate(pairs)), len(popularity))


def _by_ranking(
    rng: np.random.Generator, who: NDArray[np.int64], counts: NDArray[np.int64], rates: NDArray[np.float64]
) -> Iterator[NDArray[np.int64]]:
    """Let each item come after an exponential time with its rate, and take those that come first."""
    for start in range(0, len(who), rows := max(1, _DENSE_CELLS // len(rates))):
        part = who[start : start + rows]
        order = np.argsort(rng.standard_exponential((len(part), len(rates))) / rates, axis=1)
        yield (part[:, None] * len(rates) + order)[np.arange(len(rates)) < counts[part, None]]


def _by_rejection(
    rng: np.random.Generator, who: NDArray[np.int64], counts: NDArray[np.int64], rates: NDArray[np.float64]
) -> Iterator[NDArray[np.int64]]:
    """Draw with replacement as many as are missing, drop what a user has already, and repeat."""
    cumulative = np.cumsum(rates)
    pairs, missing = np.empty(0, dtype=np.int64), counts[who]
    while len(who):
        draws = np.searchsorted(cumulative, cumulative[-1] * rng.random(int(missing.sum())), side="right")
        pairs = np.sort(np.concatenate([pairs, np.repeat(who, missing) * len(rates) + draws]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        place = np.searchsorted(who, pairs // len(rates))
        missing = counts[who] - np.bincount(place, minlength=len(who))
        # Users who have all their items leave, so that later rounds sort only what remains.
        complete = missing == 0
        yield pairs[complete[place]]
        pairs, who, missing = pairs[~complete[place]], who[~complete], missing[~complete]
