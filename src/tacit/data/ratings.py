"""Synthetic star ratings with the long tails of real ones: a few popular items, and a few very active users."""

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

# Chosen to resemble MovieLens, where the Gini coefficient is 0.63 for items and 0.5 for users.
_FEWEST_RATINGS, _ACTIVITY_SPREAD, _MOST_RATED_FRACTION = 5, 1.1, 0.6
_POPULARITY_SHIFT, _POPULARITY_DECAY = 0.05, 4.0  # of the same choice
# In stars on a scale from 1 to 5; they are rescaled for other scales. Set by hand.
_MEAN_ABOVE_LEAST, _USER_SPREAD, _ITEM_SPREAD, _POPULARITY_GAIN, _TASTE_SPREAD = 2.4, 0.4, 0.4, 0.25, 0.5
# The items of users who rate more than this fraction of them are drawn by ranking all items, because rejection would be slow;
# and the largest number of ranked cells at the same time. Set by hand; they affect speed only.
_DENSE_FRACTION, _DENSE_CELLS = 1 / 8, 2_000_000


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, sorted by user and item, with the parameters from which they were drawn.

    Parameters
    ----------
    users, items, ratings : ndarray of int64, shape (n_ratings,)
        One rating for each position; no pair of user and item occurs twice.
    rating_range : tuple of int
        The least and the greatest rating.
    global_mean : float
        The score of an average user for an average item.
    user_biases, item_biases : ndarray of shape (n_users,) and (n_items,)
        How much higher a user rates than the average user, and how much higher an item is rated than the average item.
    user_factors, item_factors : ndarray of shape (n_users, n_factors) and (n_items, n_factors)
        The factors of the users and of the items.
    popularity : ndarray of shape (n_items,)
        The probability that an item is the first that a user rates; sums to one.
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

        # 32-bit indices, which some solvers require; scipy widens the row starts if necessary.
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

    Which items a user rates does not depend on the factors. A user has :math:`5 + a e^{1.1 z_u}` ratings, at most 0.6 of
    the items (more if the average needs it), with `a` such that the average is `ratings_per_user`. The items
    are drawn without replacement, by a truncated Zipf's law: item i in proportion to
    :math:`e^{-4 \rho_i} / (\rho_i + 0.05)`, where :math:`\rho_i` is its rank, which is random, divided by the
    number of items.

    Parameters
    ----------
    n_users, n_items : int
        Size of the matrix; items may have no rating, users have at least 5 (or `ratings_per_user`, if less).
    n_factors : int
        Number of factors; with 0 there are only biases.
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
    rng = np.random.default_rng(check_seed(random_state))
    return _drawn(rng, rng, n_users, n_items, n_factors, ratings_per_user, rating_range, noise)


def make_rating_parts(
    n_users: int,
    n_items: int,
    parts: int,
    *,
    n_factors: int = 4,
    ratings_per_user: int = 40,
    rating_range: tuple[int, int] = (1, 5),
    noise: float = 0.8,
    random_state: int = 0,
) -> Iterator[Ratings]:
    """Draw ratings as `make_ratings` does, a part of the users at a time: data that is larger than memory.

    Parameters
    ----------
    n_users, n_items : int
        Of all parts together.
    parts : int
        Number of parts of about equal size that the users are divided into; in each part they are numbered from 0.
    n_factors, ratings_per_user, rating_range, noise, random_state
        See `make_ratings`. Part number k is the same whichever parts were drawn before it.

    Yields
    ------
    Ratings
        All parts have the same items.

    Examples
    --------
    >>> from tacit.data import make_rating_parts
    >>> [part.shape for part in make_rating_parts(100, 50, 3, ratings_per_user=10)]
    [(33, 50), (33, 50), (34, 50)]
    """
    seed, parts = check_seed(random_state), check_count(parts, "parts")
    ends = [check_count(n_users, "n_users") * place // parts for place in range(parts + 1)]
    for place in range(parts):
        items, users = np.random.default_rng([seed, 0]), np.random.default_rng([seed, place + 1])
        count = ends[place + 1] - ends[place]
        yield _drawn(items, users, count, n_items, n_factors, ratings_per_user, rating_range, noise)


def _drawn(
    items_rng: np.random.Generator,
    rng: np.random.Generator,
    n_users: int,
    n_items: int,
    n_factors: int,
    ratings_per_user: int,
    rating_range: tuple[int, int],
    noise: float,
) -> Ratings:
    """Draw what belongs to items from one generator, and users and ratings from the other, which may be the same."""
    n_users, n_items = check_count(n_users, "n_users"), check_count(n_items, "n_items")
    n_factors = check_count(n_factors, "n_factors", least=0)
    ratings_per_user = check_count(ratings_per_user, "ratings_per_user")
    if ratings_per_user > n_items:
        limit = f"ratings_per_user to be at most n_items={n_items}"
        raise InvalidInputError(limit, parameter(ratings_per_user), "A user rates each item at most once.")
    least, greatest = _check_range(rating_range)
    noise = check_non_negative(noise, "noise")

    # Drawn on a 1-to-5 scale and then stretched, so that every scale is used to the same degree.
    star = (greatest - least) / 4
    depth = np.arange(1, n_items + 1) / n_items
    weights = np.exp(-_POPULARITY_DECAY * depth) / (depth + _POPULARITY_SHIFT)
    popularity: NDArray[np.float64] = items_rng.permutation(weights / weights.sum())
    fame = np.log(popularity) - np.log(popularity).mean()
    fame /= fame.std() or 1.0
    # The product of two normal variables has the product of their variances; n_factors of these are added.
    factor_spread = math.sqrt(_TASTE_SPREAD * star) / max(n_factors, 1) ** 0.25
    user_biases = _USER_SPREAD * star * rng.standard_normal(n_users)
    item_biases = star * (_POPULARITY_GAIN * fame + _ITEM_SPREAD * items_rng.standard_normal(n_items))
    user_factors = factor_spread * rng.standard_normal((n_users, n_factors))
    item_factors = factor_spread * items_rng.standard_normal((n_items, n_factors))

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
        rule = "rating_range to be two whole numbers, the smaller one first"
        raise InvalidInputError(rule, parameter(value), "Give the least and the greatest rating, as in (1, 5).")
    return int(pair[0]), int(pair[1])


def _activity(rng: np.random.Generator, n_users: int, n_items: int, average: int) -> NDArray[np.int64]:
    """Return the number of ratings of each user: log-normal above a minimum, with the given average."""
    fewest = min(_FEWEST_RATINGS, average)
    most = math.ceil(max(_MOST_RATED_FRACTION * n_items, (n_items + average) / 2))
    tail = np.exp(_ACTIVITY_SPREAD * rng.standard_normal(n_users))
    # The upper limit lowers the average, so the scale is found by bisection; at `high` all users are at the limit.
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
    many = counts > _DENSE_FRACTION * len(popularity)
    # A pair is one number, user * n_items + item, which sorts faster than two.
    pairs = [*_by_ranking(rng, np.flatnonzero(many), counts, popularity)]
    pairs += _by_rejection(rng, np.flatnonzero(~many), counts, popularity)
    return np.divmod(np.sort(np.concatenate(pairs)), len(popularity))


def _by_ranking(
    rng: np.random.Generator, who: NDArray[np.int64], counts: NDArray[np.int64], rates: NDArray[np.float64]
) -> Iterator[NDArray[np.int64]]:
    """Draw an exponential time for each item, with its rate, and take the items with the smallest times."""
    for start in range(0, len(who), rows := max(1, _DENSE_CELLS // len(rates))):
        part = who[start : start + rows]
        order = np.argsort(rng.standard_exponential((len(part), len(rates))) / rates, axis=1)
        yield (part[:, None] * len(rates) + order)[np.arange(len(rates)) < counts[part, None]]


def _by_rejection(
    rng: np.random.Generator, who: NDArray[np.int64], counts: NDArray[np.int64], rates: NDArray[np.float64]
) -> Iterator[NDArray[np.int64]]:
    """Draw the missing number of items with replacement, drop those that a user already has, and repeat."""
    cumulative = np.cumsum(rates)
    pairs, missing = np.empty(0, dtype=np.int64), counts[who]
    while len(who):
        draws = np.searchsorted(cumulative, cumulative[-1] * rng.random(int(missing.sum())), side="right")
        pairs = np.sort(np.concatenate([pairs, np.repeat(who, missing) * len(rates) + draws]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        place = np.searchsorted(who, pairs // len(rates))
        missing = counts[who] - np.bincount(place, minlength=len(who))
        # Users with all their items are finished, so that later rounds sort only the rest.
        complete = missing == 0
        yield pairs[complete[place]]
        pairs, who, missing = pairs[~complete[place]], who[~complete], missing[~complete]
