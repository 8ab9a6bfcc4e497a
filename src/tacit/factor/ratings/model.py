"""What every recommender does the same way once the items are known: solve users, predict, recommend, compare, evaluate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.evaluation import Evaluation, ranking_scores, rating_errors
from tacit.factor.ratings.table import Ids, RatingTable, as_ratings, read_ratings
from tacit.validation import check_choice, check_count


class RatingModel(SavedModel):
    """Base of recommenders.

    A fit ends with `_keep`. The users' ratings and factors are kept in memory only, under private names; `save` writes
    what describes items.
    """

    rating_range: tuple[float, float] | None = public(default=None)
    global_mean_: float = released()
    item_biases_: NDArray[np.float64] = released()
    item_factors_: NDArray[Any] = released()
    item_variances_: NDArray[Any] = released()
    item_ids_: Any = released()
    user_precision_: NDArray[Any] = released()
    noise_: float = released()
    least_: float = released()
    greatest_: float = released()
    n_duplicates_: int = learned()
    _table: RatingTable = learned()
    _users: NDArray[Any] = learned()

    def predict(self, users: Any, items: Any, *, unknown: str = "raise") -> NDArray[np.float64]:
        """Return the expected rating of each pair, within the range of ratings.

        Parameters
        ----------
        users, items : array_like of ids
            The users' ratings were in the fit; for others there is `recommend_for` and `predict_for`.
        unknown : {"raise", "mean"}
            What to do with ids that were not in the fit: raise, or leave out what is not known (a user's bias and
            factors, an item's bias and factors).
        """
        check_choice(unknown, "unknown", ("raise", "mean"))
        table = self._fitted_table()
        if unknown == "raise":
            rows, columns = table.users.known(users, "user"), table.items.known(items, "item")
        else:
            rows, columns = table.users.codes(users, "user"), table.items.codes(items, "item")
        if len(rows) != len(columns):
            raise InvalidInputError("as many users as items", words("different numbers of them"), "Give pairs.")
        return self._scores(self._users, rows, columns)

    def predict_for(self, rated_items: Any, ratings: ArrayLike, items: Any) -> NDArray[np.float64]:
        """Return the expected ratings of `items` by a user who was not in the fit, from the user's own ratings."""
        columns = self._items().known(items, "item")
        user = self._solve_one(*self._own(rated_items, ratings))
        return self._scores(user, np.zeros(len(columns), dtype=np.int64), columns)

    def recommend(self, user: Hashable, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Any, float]]:
        """Return the `n` items with the highest expected rating, and these, for a user of the fit."""
        table = self._fitted_table()
        row = table.users.one(user, "user")
        seen = table.columns[table.of(row)] if exclude_seen else None
        return self._best(self._users[row], n, seen)

    def recommend_for(
        self, items: Any, ratings: ArrayLike, n: int = 10, *, exclude_seen: bool = True
    ) -> list[tuple[Any, float]]:
        """Return the `n` items with the highest expected rating for a user with these ratings, who was not in the fit."""
        columns, values = self._own(items, ratings)
        return self._best(self._solve_one(columns, values)[0], n, columns if exclude_seen else None)

    def user_factors(self, items: Any, ratings: ArrayLike) -> NDArray[np.float64]:
        """Return the factors and, last, the bias of a user with these ratings; they stay with the user."""
        solved: NDArray[np.float64] = self._solve_one(*self._own(items, ratings))[0].astype(np.float64)
        return solved

    def similar_items(self, item: Hashable, n: int = 10) -> list[tuple[Any, float]]:
        """Return the `n` items whose factors point most nearly in the direction of this item's, and the cosines."""
        ids = self._items()
        place, n = ids.one(item, "item"), check_count(n, "n")
        lengths = np.linalg.norm(self.item_factors_, axis=1)
        if not self.item_factors_.shape[1] or lengths[place] == 0:
            raise InvalidInputError(
                "an item with factors", words("one that has a bias only"), "There is nothing to compare it by."
            )
        cosines = (self.item_factors_ @ self.item_factors_[place]) / np.where(lengths > 0, lengths, 1) / lengths[place]
        cosines[place] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(n, len(ids) - 1)]
        return [(ids[index], float(cosines[index])) for index in best]

    def evaluate(
        self, users: Any, items: Any = None, ratings: Any = None, *, k: int = 10, relevant: float | None = None
    ) -> Evaluation:
        """Compare with held-out ratings, given as to `fit`.

        Parameters
        ----------
        users, items, ratings
            Users and items that were not in the fit are predicted by what is known about the other.
        k : int, default=10
            Length of the lists for recall and NDCG. A list holds the items with the highest expected rating among those
            that the user did not rate in the fit.
        relevant : float, optional
            Held-out ratings of at least this count as relevant; three quarters up the range if not given.
        """
        held_out = read_ratings(users, items, ratings)
        table = self._fitted_table()
        rows = table.users.codes(held_out.users.values, "user")[held_out.rows]
        columns = table.items.codes(held_out.items.values, "item")[held_out.columns]
        rmse, mae = rating_errors(self._scores(self._users, rows, columns), held_out.values)
        bar = self.least_ + 0.75 * (self.greatest_ - self.least_) if relevant is None else relevant
        wanted = (rows >= 0) & (columns >= 0) & (held_out.values >= bar)
        recall, ndcg, listed = ranking_scores(
            table,
            self._users,
            np.asarray(self.item_factors_, np.float64),
            self.item_biases_,
            rows[wanted],
            columns[wanted],
            check_count(k, "k"),
        )
        return Evaluation(rmse, mae, recall, ndcg, k, len(held_out.values), listed)

    def _keep(
        self, items: ItemSide, table: RatingTable, least: float, greatest: float, users: NDArray[Any] | None = None
    ) -> None:
        """Keep what was learned about the items, and, in memory only, the users."""
        self.global_mean_, self.item_biases_, self.noise_ = float(items.mean), items.biases, float(items.noise)
        self.item_factors_, self.item_variances_ = items.factors, items.variances
        self.user_precision_ = items.precision
        self.item_ids_ = table.items.values
        self.least_, self.greatest_ = float(least), float(greatest)
        self._table = table
        self._users = items.solve_users(table.ends, table.columns, table.values) if users is None else users

    def _item_side(self) -> ItemSide:
        if not hasattr(self, "item_factors_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        return ItemSide(
            self.global_mean_,
            self.item_biases_,
            self.item_factors_,
            self.item_variances_,
            self.user_precision_,
            self.noise_,
        )

    def _items(self) -> Ids:
        self._item_side()
        return self._table.items if hasattr(self, "_table") else Ids(self.item_ids_)

    def _fitted_table(self) -> RatingTable:
        self._item_side()
        if not hasattr(self, "_table"):
            raise InvalidInputError(
                "a model that was fitted in this process",
                words("one that was loaded, and so knows items but no users"),
                "Give the user's own ratings to recommend_for or predict_for.",
            )
        return self._table

    def _own(self, items: Any, ratings: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        columns = self._items().known(items, "item")
        values = as_ratings(ratings, (self.least_, self.greatest_), is_public=self.rating_range is not None)
        if len(columns) != len(values):
            raise InvalidInputError("one rating per item", words("different numbers of them"), "Give pairs.")
        last = {int(column): float(value) for column, value in zip(columns, values, strict=True)}
        order = sorted(last)
        return np.array(order, dtype=np.int32), np.array([last[column] for column in order])

    def _solve_one(self, columns: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[Any]:
        return self._item_side().solve_users(np.array([0, len(columns)]), columns, values)

    def _scores(self, users: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        scores = np.full(len(rows), self.global_mean_)
        scores += np.where(columns >= 0, self.item_biases_[columns], 0.0) + np.where(rows >= 0, users[rows, -1], 0.0)
        both = np.flatnonzero((rows >= 0) & (columns >= 0))
        for factor in range(self.item_factors_.shape[1]):  # one at a time: memory does not grow with their number
            scores[both] += users[rows[both], factor] * self.item_factors_[columns[both], factor]
        within: NDArray[np.float64] = np.clip(scores, self.least_, self.greatest_)
        return within

    def _best(self, user: NDArray[Any], n: int, seen: NDArray[Any] | None) -> list[tuple[Any, float]]:
        scores = self.global_mean_ + self.item_biases_ + user[-1] + self.item_factors_ @ user[:-1]
        n = check_count(n, "n")
        if seen is not None:
            scores[seen] = -np.inf
        ids = self._items()
        best = [index for index in np.argsort(-scores, kind="stable")[:n] if np.isfinite(scores[index])]
        return [(ids[index], float(np.clip(scores[index], self.least_, self.greatest_))) for index in best]


def check_rating_range(rating_range: Any) -> tuple[float, float]:
    """Return the least and greatest rating."""
    pair = rating_range if isinstance(rating_range, Sequence) and not isinstance(rating_range, str) else ()
    try:
        low, high = (float(end) for end in pair)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not (np.isfinite([low, high]).all() and low < high):
        raise InvalidInputError(
            "rating_range to be two numbers, the lesser one first",
            parameter(rating_range),
            "For example rating_range=(1, 5).",
        )
    return low, high
