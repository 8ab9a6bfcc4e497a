"""A recommender from interactions without privacy: the yardstick, and the model for data that may be seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from tacit.channel import Clear, Outcome, Program, Sum, run
from tacit.errors import InvalidInputError, parameter
from tacit.estimators.base import public
from tacit.factor.implicit.interactions import WEIGHTINGS, read_interactions
from tacit.factor.implicit.item_model import item_regression
from tacit.factor.implicit.model import ImplicitModel
from tacit.factor.implicit.program import unit_rows
from tacit.factor.ratings.table import IdsLike, RatingsLike, RatingTable
from tacit.privacy.guarantee import Guarantee
from tacit.progress import tell
from tacit.validation import check_choice, check_count, check_positive


class ImplicitRecommender(ImplicitModel):
    r"""Recommend items from clicks, plays or purchases, without privacy: an item-item ridge regression (EASE [1]_).

    Use it for the question "what comes next on this user's list?". For the question "how would this user rate this item?"
    use `Recommender`.

    Parameters
    ----------
    ridge : float, default=40.0
        Added to the diagonal of the second moment (chosen on validation users of MovieLens 1M).
    user_power : float, default=0.5
        A user with n interactions counts 1 / n to this power: 0 counts every pair of interactions the same (EASE as
        published), 1 every user.
    weighting : {"log", "linear", "binary"}, default="log"
        What an interaction counts, from its weight w: log2(1 + w), w, or 1. Without weights every interaction counts 1.
    max_columns : int, default=5000
        Maximum number of items in the regression, the most popular ones; the others are ranked by popularity. Memory grows
        with its square.
    catalogue : sequence of ids, optional
        All items. Those of the data if not given.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    item_ids_ : ndarray or list
    item_weights_ : ndarray of shape (n_items,)
        Popularities: sums over users of rows of norm 1.
    learned_items_ : ndarray of int64
        Places of the items in the regression.
    item_regression_ : ndarray of shape (n_learned, n_learned), float32
        The weight of each item of a history (row) for each item (column).
    n_duplicates_ : int
        Repeated interactions.
    guarantee_ : Guarantee
        There is none.

    References
    ----------
    .. [1] H. Steck. Embarrassingly shallow autoencoders for sparse data. WWW 2019.

    Examples
    --------
    >>> from tacit import ImplicitRecommender
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(300, 60, random_state=1)
    >>> liked = data.ratings >= 4
    >>> model = ImplicitRecommender().fit(data.users[liked], data.items[liked])
    >>> len(model.recommend_for([3, 5], n=4))
    4
    """

    ridge: float = public(default=40.0)
    user_power: float = public(default=0.5)
    max_columns: int = public(default=5000)
    catalogue: IdsLike | None = public(default=None)

    def fit(
        self, users: RatingsLike, items: IdsLike | None = None, weights: ArrayLike | None = None
    ) -> ImplicitRecommender:
        """Learn from interactions: a data frame, a users x items sparse matrix, or ids of users and items."""
        check_choice(self.weighting, "weighting", WEIGHTINGS)
        ridge, size = check_positive(self.ridge, "ridge"), check_count(self.max_columns, "max_columns", least=2)
        if not 0 <= self.user_power <= 1:
            raise InvalidInputError("user_power from 0 to 1", parameter(self.user_power), "Give for example 0.5.")
        tell("reading the interactions")
        table = read_interactions(users, items, weights, catalogue=self.catalogue, weighting=self.weighting)
        self._keep(table)
        outcome = run(ease_program(table, size, ridge, self.user_power), Clear())
        self.item_weights_, self.learned_items_ = outcome.public["weights"], outcome.public["items"]
        self.item_regression_ = outcome.public["regression"]
        self.guarantee_ = Guarantee.none("the items' regression was computed from the interactions without noise")
        return self


def ease_program(table: RatingTable, max_columns: int, ridge: float, user_power: float) -> Program:
    """One holder's view: popularities, then the second moment of the popular items, then everybody solves the regression."""
    n_items = len(table.items)
    tell("counting items")
    total = yield Sum(items=np.bincount(table.columns, unit_rows(table), minlength=n_items))
    weights = total["items"]
    items = np.sort(np.argsort(-weights, kind="stable")[:max_columns]).astype(np.int64)
    tell("counting pairs of items")
    squares = table.per_user(table.values**2)
    scales = np.where(squares > 0, squares, 1.0) ** (-user_power / 2)
    rows = csr_array((table.values * scales[table.rows], table.columns, table.ends), shape=(len(table.users), n_items))
    rows = rows[:, items]
    second = yield Sum(gram=(rows.T @ rows).toarray())
    tell("solving the regression")
    regression = item_regression(second.gram + ridge * np.eye(len(items)))
    return Outcome({"weights": weights, "items": items, "regression": regression})
