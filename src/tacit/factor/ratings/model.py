"""The base of all recommenders: with fitted items, it solves users, predicts, recommends, compares items and evaluates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.arrays import SomeFloats
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.evaluation import Evaluation, ranked_items, rating_errors
from tacit.factor.ratings.table import Ids, IdsLike, RatingsLike, RatingTable, as_ratings, read_ratings
from tacit.measure.ranking import RankingScores, divided_histories, ranking_scores
from tacit.validation import check_choice, check_count

RELEVANT = 0.75
"""A held-out rating is relevant if it is at least this far up the range: 4 of 1 to 5, the usual choice for such data."""


class RatingModel(SavedModel):
    """Base of recommenders.

    A fit ends with `_keep`. The users' ratings and factors are kept in memory only, under private names; `save` writes
    the attributes that describe items.
    """

    rating_range: tuple[float, float] | None = public(default=None)
    global_mean_: float = released()
    item_biases_: NDArray[np.float64] = released()
    item_factors_: SomeFloats = released()
    item_variances_: SomeFloats = released()
    item_ids_: NDArray[Any] | list[Hashable] = released()
    user_precision_: SomeFloats = released()
    noise_: float = released()
    least_: float = released()
    greatest_: float = released()
    n_duplicates_: int = learned()
    _table: RatingTable = learned()
    _users: SomeFloats = learned()

    def predict(self, users: RatingsLike, items: IdsLike, *, unknown: str = "raise") -> NDArray[np.float64]:
        """Return the expected rating of each pair, within the range of ratings.

        Parameters
        ----------
        users, items : array_like of ids
            The users' ratings were in the fit; for other users, see `recommend_for` and `predict_for`.
        unknown : {"raise", "mean"}
            What to do with ids that were not in the fit: raise, or use zero for the bias and factors of such a user or
            item.
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

    def predict_for(self, rated_items: IdsLike, ratings: ArrayLike, items: IdsLike) -> NDArray[np.float64]:
        """Return the expected ratings of `items` by a user who was not in the fit, from the user's own ratings."""
        columns = self._items().known(items, "item")
        user = self._solve_one(*self._own(rated_items, ratings))
        return self._scores(user, np.zeros(len(columns), dtype=np.int64), columns)

    def recommend(self, user: Hashable, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Hashable, float]]:
        """Return the `n` items with the highest expected ratings, with these ratings, for a user of the fit."""
        table = self._fitted_table()
        row = table.users.one(user, "user")
        seen = table.columns[table.of(row)] if exclude_seen else None
        return self._best(self._users[row], n, seen)

    def recommend_for(
        self, items: IdsLike, ratings: ArrayLike, n: int = 10, *, exclude_seen: bool = True
    ) -> list[tuple[Hashable, float]]:
        """Return the `n` items with the highest expected ratings for a user with these ratings, who was not in the fit."""
        columns, values = self._own(items, ratings)
        return self._best(self._solve_one(columns, values)[0], n, columns if exclude_seen else None)

    def user_factors(self, items: IdsLike, ratings: ArrayLike) -> NDArray[np.float64]:
        """Return the factors and, last, the bias of a user with these ratings; they stay with the user."""
        solved: NDArray[np.float64] = self._solve_one(*self._own(items, ratings))[0].astype(np.float64)
        return solved

    def similar_items(self, item: Hashable, n: int = 10) -> list[tuple[Hashable, float]]:
        """Return the `n` items whose factors have the largest cosine with this item's, and the cosines."""
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
        self,
        users: RatingsLike,
        items: IdsLike | None = None,
        ratings: ArrayLike | None = None,
        *,
        k: int = 10,
        relevant: float | None = None,
    ) -> Evaluation:
        """Compare with held-out ratings, given as to `fit`.

        Parameters
        ----------
        users, items, ratings
            For a user or item that was not in the fit, the prediction uses the other of the pair only.
        k : int, default=10
            Length of the lists for recall and NDCG. A list holds the items with the highest expected rating among those
            that the user did not rate in the fit.
        relevant : float, optional
            Held-out ratings of at least this count as relevant; if not given, the lower end of the range plus three quarters
            of its width.
        """
        held_out = read_ratings(users, items, ratings)
        table = self._fitted_table()
        rows = table.users.codes(held_out.users.values, "user")[held_out.rows]
        columns = table.items.codes(held_out.items.values, "item")[held_out.columns]
        rmse, mae = rating_errors(self._scores(self._users, rows, columns), held_out.values)
        least = self.least_ + RELEVANT * (self.greatest_ - self.least_) if relevant is None else relevant
        wanted = (rows >= 0) & (columns >= 0) & (held_out.values >= least)
        listed, starts = np.unique(rows[wanted], return_index=True)  # ratings are ordered by user
        chosen = np.split(columns[wanted], starts[1:]) if len(listed) else []
        ranking = self._ranking(
            self._users[listed], [table.columns[table.of(int(row))] for row in listed], chosen, check_count(k, "k")
        )
        return Evaluation(rmse, mae, ranking, len(held_out.values))

    def evaluate_new_users(
        self,
        users: RatingsLike,
        items: IdsLike | None = None,
        ratings: ArrayLike | None = None,
        *,
        k: int = 20,
        relevant: float | None = None,
        fraction: float = 0.2,
        random_state: int = 0,
    ) -> RankingScores:
        """Measure the lists of users who were not in the fit (strong generalisation).

        A list holds the items with the highest expected rating: the answer to "what would this user rate highly?". For
        "what will this user choose next?" fit `ImplicitRecommender` or `PrivateImplicitRecommender`, whose lists hit more.

        Parameters
        ----------
        users, items, ratings
            All ratings of these users, given as to `fit`. Items that the model does not know are left out.
        k : int, default=20
        relevant : float, optional
            As for `evaluate`.
        fraction : float, default=0.2
            This fraction of each user's ratings is held out; the model sees the rest. Of those held out, the relevant ones
            are to be found.
        random_state : int, default=0
        """
        held_out = read_ratings(users, items, ratings, rating_range=(self.least_, self.greatest_))
        columns = self._items().codes(held_out.items.values, "item")[held_out.columns]
        least = self.least_ + RELEVANT * (self.greatest_ - self.least_) if relevant is None else relevant
        places = [np.arange(part.start, part.stop) for part in map(held_out.of, range(len(held_out.users)))]
        known = [own[columns[own] >= 0] for own in places]
        seen, taken = divided_histories(known, fraction=fraction, random_state=random_state)
        given = [np.sort(np.array(one, dtype=np.int64)) for one in seen]
        wanted = [columns[one[held_out.values[one] >= least]] for one in (np.array(t, dtype=np.int64) for t in taken)]
        ends = np.cumsum([0, *map(len, given)]).astype(np.int64)
        joined = np.concatenate([*given, np.zeros(0, np.int64)])
        solved = self._item_side().solve_users(ends, columns[joined].astype(np.int32), held_out.values[joined])
        return self._ranking(solved, [columns[one] for one in given], wanted, check_count(k, "k"))

    def _ranking(
        self, users: SomeFloats, seen: Sequence[NDArray[np.integer]], relevant: Sequence[NDArray[np.integer]], k: int
    ) -> RankingScores:
        """Measure the lists of users with these factors; the popularity of items is the released one, where there is one."""
        lists = ranked_items(users, np.asarray(self.item_factors_, np.float64), self.item_biases_, seen, k)
        weights = getattr(self, "item_weights_", None)
        popularity = None if weights is None else np.maximum(weights, 0.0)
        return ranking_scores(lists, relevant, k=k, n_items=len(self.item_biases_), popularity=popularity)

    def _keep(
        self, items: ItemSide, table: RatingTable, least: float, greatest: float, users: SomeFloats | None = None
    ) -> None:
        """Set the attributes of the items and, in memory only, the users."""
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
                words("a loaded one, which has items but no users"),
                "Give the user's own ratings to recommend_for or predict_for.",
            )
        return self._table

    def _own(self, items: IdsLike, ratings: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        columns = self._items().known(items, "item")
        values = as_ratings(ratings, (self.least_, self.greatest_), is_public=self.rating_range is not None)
        if len(columns) != len(values):
            raise InvalidInputError("one rating per item", words("different numbers of them"), "Give pairs.")
        last = {int(column): float(value) for column, value in zip(columns, values, strict=True)}
        order = sorted(last)
        return np.array(order, dtype=np.int32), np.array([last[column] for column in order])

    def _solve_one(self, columns: NDArray[np.int32], values: NDArray[np.float64]) -> SomeFloats:
        return self._item_side().solve_users(np.array([0, len(columns)]), columns, values)

    def _scores(self, users: SomeFloats, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        scores = np.full(len(rows), self.global_mean_)
        scores += np.where(columns >= 0, self.item_biases_[columns], 0.0) + np.where(rows >= 0, users[rows, -1], 0.0)
        both = np.flatnonzero((rows >= 0) & (columns >= 0))
        for factor in range(
            self.item_factors_.shape[1]
        ):  # one at a time, so that memory does not grow with their number
            scores[both] += users[rows[both], factor] * self.item_factors_[columns[both], factor]
        within: NDArray[np.float64] = np.clip(scores, self.least_, self.greatest_)
        return within

    def _best(self, user: SomeFloats, n: int, seen: NDArray[np.integer] | None) -> list[tuple[Hashable, float]]:
        scores = self.global_mean_ + self.item_biases_ + user[-1] + self.item_factors_ @ user[:-1]
        n = check_count(n, "n")
        if seen is not None:
            scores[seen] = -np.inf
        ids = self._items()
        best = [index for index in np.argsort(-scores, kind="stable")[:n] if np.isfinite(scores[index])]
        return [(ids[index], float(np.clip(scores[index], self.least_, self.greatest_))) for index in best]
