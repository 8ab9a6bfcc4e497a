"""Non-negative factors of ratings, which a person can read, under user-level differential privacy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter
from tacit.estimators.base import learned, public, released
from tacit.estimators.private import PrivateFit
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.program import factorise
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.item_moments import ItemMomentSettings, item_program, on_rating_scale
from tacit.factor.ratings.model import RatingModel
from tacit.factor.ratings.non_negative import NonNegativeRatings, NonNegativeSide, RatingNMF
from tacit.factor.ratings.private import CATALOGUE, NO_CATALOGUE, STAYS
from tacit.factor.ratings.table import IdsLike, RatingsLike, as_ids, read_ratings
from tacit.validation import check_count, check_epsilon, check_positive, check_range, check_seed

SYNTHETIC_USERS = 2000
"""Number of users drawn from the released model, to which the non-negative factors are fitted. Set by hand: more users take
longer, fewer add sampling error."""
REGRESSIONS, POPULAR_ITEMS = 4, 250
"""As for `PrivateRecommender`."""


class PrivateRatingNMF(NonNegativeRatings, PrivateFit, RatingModel):
    """Non-negative factorisation of the ratings given, with private items' factors; what is missing does not count as zero.

    The items' side of `PrivateRecommender` is released; synthetic users are drawn from it, who rate all items, and their
    ratings are factorised. Everything after the release is free.

    Parameters
    ----------
    n_factors : int, default=10
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` is `RatingNMF`.
    rating_range : tuple of float, default=(1, 5)
        The least and greatest rating: public, not below 0. Ratings outside are refused.
    penalty : float, default=0.05
        On the squared length of a user's factors, for each rating.
    catalogue : sequence of ids, optional
        All items, which are public. If not given, the items in the data are taken to be public.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`; rows are users.
    random_state : int, default=0
        Seed of the synthetic users and of the start. Not secret: the privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_factors)
        Not negative.
    rating_mean_ : float
        Predicted where the user or the item is not known.
    item_weights_ : ndarray of shape (n_items,)
        Released popularities of the items. Not set by ``epsilon=inf``.
    drawn_from_ : ItemSide
        The released items' side from which synthetic users were drawn. Not saved, and not set by ``epsilon=inf``.
    item_ids_, guarantee_, n_duplicates_
        As for `PrivateRecommender`; the biases and the mean are zero.

    Privacy
    -------
    Unit: one user with all ratings. What leaves, and why the bound holds: the noisy sums of
    `tacit.factor.ratings.item_moments`, as for `PrivateRecommender`; all else is computed from them. Users' ratings and
    factors stay.

    Examples
    --------
    >>> from tacit import PrivateRatingNMF
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(2000, 60, random_state=1)
    >>> model = PrivateRatingNMF(4, epsilon=5.0).fit(data.users, data.items, data.ratings)
    >>> bool(model.item_factors_.min() >= 0), model.guarantee_.unit
    (True, 'user')
    """

    _unit = "user"

    n_factors: int = public(default=10, kw_only=False)
    rating_range: tuple[float, float] | None = public(default=(1, 5))
    penalty: float = public(default=0.05)
    catalogue: IdsLike | None = public(default=None)
    random_state: int = public(default=0)
    rating_mean_: float = released()
    item_weights_: NDArray[np.float64] = released()
    drawn_from_: ItemSide = learned()

    def fit(
        self, users: RatingsLike, items: IdsLike | None = None, ratings: ArrayLike | None = None
    ) -> PrivateRatingNMF:
        """Learn from ratings, given as to `PrivateRecommender.fit`."""
        check_epsilon(self.epsilon, infinite=True)
        check_count(self.n_factors, "n_factors")
        check_positive(self.penalty, "penalty")
        check_seed(self.random_state)
        least, greatest = check_range(self.rating_range, "rating_range", example=(1, 5))
        if least < 0:
            raise InvalidInputError(
                "a rating_range that does not begin below 0",
                parameter(self.rating_range),
                "Shift the ratings by a public amount.",
            )
        table = read_ratings(users, items, ratings, rating_range=(least, greatest), catalogue=self.catalogue)
        self.item_ids_ = table.items.values
        self.n_duplicates_ = table.duplicates
        if math.isinf(self.epsilon):
            plain = RatingNMF(
                self.n_factors, penalty=self.penalty, rating_range=(least, greatest), random_state=self.random_state
            ).fit(users, items, ratings)
            self.guarantee_, self.rating_mean_ = plain.guarantee_, plain.rating_mean_
            self._keep(plain._item_side(), plain._fitted_table(), least, greatest)
            return self
        middle, half = (least + greatest) / 2, (greatest - least) / 2
        settings = ItemMomentSettings(self.n_factors, REGRESSIONS, POPULAR_ITEMS)
        given = users if items is None else (as_ids(users, "user"), as_ids(items, "item"), np.asarray(ratings))
        program = item_program(replace(table, values=(table.values - middle) / half), settings)
        outcome = self._run(given, program, self._plan(settings.split))
        self.guarantee_ = self.guarantee_.assuming(
            STAYS, CATALOGUE, *([NO_CATALOGUE] if self.catalogue is None else [])
        )
        side = on_rating_scale(ItemSide.learned(outcome), middle, half)
        self.drawn_from_, self.item_weights_ = side, outcome.public["weights"]
        weights = self.item_weights_
        self.rating_mean_ = float(np.clip(side.mean + weights @ side.biases / weights.sum(), least, greatest))
        rated = synthetic_ratings(side, least, greatest, self.random_state)
        factors = non_negative_factors(rated, self.n_factors, self.random_state)
        zeros = np.zeros(len(factors))
        precision = np.ones(self.n_factors + 1)
        self._keep(NonNegativeSide(0.0, zeros, factors, factors[:0], precision, self.penalty), table, least, greatest)
        return self


def synthetic_ratings(side: ItemSide, least: float, greatest: float, random_state: int) -> NDArray[np.float64]:
    """Return what users drawn from the model's prior would give all items, without noise."""
    generator = np.random.default_rng(random_state)
    users = generator.standard_normal((SYNTHETIC_USERS, len(side.precision))) / np.sqrt(side.precision)
    ratings = side.mean + side.biases + users[:, :-1] @ side.factors.T + users[:, -1:]
    return np.asarray(np.clip(ratings, least, greatest))


def non_negative_factors(ratings: NDArray[np.float64], n_factors: int, random_state: int) -> NDArray[np.float64]:
    """Return items' factors of a complete table of ratings, of the lengths that the penalties of `RatingNMF` would give them."""
    size = min(n_factors, ratings.shape[1])
    W, T = factorise(ratings, size, random_state=random_state)
    weights = solve_rows(ratings, T, W)
    # sum_u n_u |p_u|^2 and sum_i n_i |q_i|^2 are equal, factor by factor, where both are penalised
    balance = np.sqrt((weights**2).mean(axis=0) / np.maximum((T**2).mean(axis=1), 1e-12))
    factors = np.zeros((ratings.shape[1], n_factors))
    factors[:, :size] = (T * np.sqrt(balance)[:, None]).T
    return factors
