"""A recommender without privacy: for comparison, and for data that is not private."""

from __future__ import annotations

from numpy.typing import ArrayLike

from tacit.channel import Clear, run
from tacit.estimators.base import public
from tacit.factor.ratings.als import ItemSide, als_program
from tacit.factor.ratings.model import RatingModel
from tacit.factor.ratings.table import IdsLike, RatingsLike, read_ratings
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_count, check_range, check_seed


class Recommender(RatingModel):
    r"""Ratings from biases and factors, :math:`\mu + b_u + c_i + p_u \cdot q_i`, without privacy.

    Use it for the question "how would this user rate this item?". For the question "what comes next on this user's list?" use
    `ImplicitRecommender` on the high ratings; `evaluate_new_users` measures the lists of both.

    Parameters
    ----------
    n_factors : int, default=16
    sweeps : int, default=25
        Number of sweeps, in each of which all users and all items are solved.
    rating_range : tuple of float, optional
        The least and greatest rating; those of the data if not given. Ratings outside are refused, predictions clipped.
    random_state : int, default=0
        Seed of the random start.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    global_mean_ : float
    item_biases_ : ndarray of shape (n_items,)
    item_factors_, item_variances_ : ndarray of shape (n_items, n_factors)
        Posterior mean and variance of each item's factors.
    item_ids_ : ndarray or list
    user_precision_ : ndarray of shape (n_factors + 1,)
        Prior precision of a user's factors and bias.
    noise_ : float
        Variance of a rating around its expectation.
    n_duplicates_ : int
        Ratings replaced by a later one of the same user and item.
    guarantee_ : Guarantee
        There is none.

    Notes
    -----
    Variances of priors and noise are estimated together with the factors (`tacit.factor.ratings.als`), so there is no
    regularisation to tune. The saved file holds the items only.

    Examples
    --------
    >>> from tacit import Recommender
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(200, 60, random_state=1)
    >>> model = Recommender(4).fit(data.users, data.items, data.ratings)
    >>> len(model.recommend(7, n=3))
    3
    """

    n_factors: int = public(default=16, kw_only=False)
    sweeps: int = public(default=25)
    random_state: int = public(default=0)

    def fit(self, users: RatingsLike, items: IdsLike | None = None, ratings: ArrayLike | None = None) -> Recommender:
        """Learn from ratings: a data frame, a users x items sparse matrix, or ids of users and items with ratings."""
        bounds = None if self.rating_range is None else check_range(self.rating_range, "rating_range", example=(1, 5))
        program_settings = {
            "n_factors": check_count(self.n_factors, "n_factors", least=0),
            "sweeps": check_count(self.sweeps, "sweeps"),
            "random_state": check_seed(self.random_state),
        }
        table = read_ratings(users, items, ratings, rating_range=bounds)
        least, greatest = bounds if bounds is not None else (table.values.min(), table.values.max())
        outcome = run(als_program(table, **program_settings), Clear())
        self.n_duplicates_ = table.duplicates
        self.guarantee_ = Guarantee.none("the items' factors and biases were computed from the ratings without noise")
        self._keep(ItemSide.learned(outcome), table, least, greatest)
        return self
