"""What recommenders from interactions do the same way once items are known: rank, recommend, compare, evaluate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tacit.errors import InvalidInputError, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.implicit.interactions import WEIGHTINGS, CatalogueIds, as_weights, read_interactions
from tacit.factor.ratings.evaluation import first_columns
from tacit.factor.ratings.table import Ids, IdsLike, RatingsLike, RatingTable
from tacit.measure.ranking import RankingScores, divided_histories, ranking_scores
from tacit.validation import check_choice, check_count

BLOCK = 512
"""Users are scored this many at a time."""
TAIL = 1e-6
"""Weight of an item's popularity (as a fraction of the largest) in its score: it orders items that the scores leave equal."""
LEAST_POPULARITY, RARITY = 1e-3, 0.1
"""Scores are divided by the item's popularity, as a fraction of the largest and at least the first number, to the power of the
second: a regression towards zero favours popular items. Chosen on validation users of MovieLens 1M, the anime log, Steam and
Last.fm."""

History = tuple[NDArray[np.integer], NDArray[np.float64]]
"""The columns of a user's items, and their weights."""


class ImplicitModel(SavedModel):
    """Base of recommenders from interactions.

    A subclass learns an item-item regression. Users' histories are kept in memory only; `save` writes what describes items.
    """

    weighting: str = public(default="log")
    item_ids_: Any = released()
    item_weights_: NDArray[np.float64] = released()
    learned_items_: NDArray[np.int64] = released()
    item_regression_: NDArray[np.float32] = released()
    n_duplicates_: int = learned()
    _table: RatingTable = learned()

    def recommend(self, user: Hashable, n: int = 10, *, exclude_seen: bool = True) -> list[tuple[Hashable, float]]:
        """Return the `n` items with the highest scores, and these, for a user of the fit, from the user's own history."""
        table = self._fitted_table()
        own = table.of(table.users.one(user, "user"))
        return self._best(table.columns[own], table.values[own], n, exclude_seen)

    def recommend_for(
        self,
        items: IdsLike,
        n: int = 10,
        *,
        weights: ArrayLike | None = None,
        exclude_seen: bool = True,
        unknown: str = "raise",
    ) -> list[tuple[Hashable, float]]:
        """Return the `n` items with the highest scores, and these, for a user who was not in the fit.

        Parameters
        ----------
        items : sequence of ids
            The user's own history, which stays here; empty for a user without one, who gets the popular items.
        n : int, default=10
        weights : array_like, optional
            One per item, as for `fit`.
        exclude_seen : bool, default=True
            Whether the items of the history are left out.
        unknown : {"raise", "ignore"}, default="raise"
            What to do with items that the model does not know.
        """
        columns, values = self._own(items, weights, unknown)
        return self._best(columns, values, n, exclude_seen)

    def similar_items(self, item: Hashable, n: int = 10) -> list[tuple[Hashable, float]]:
        """Return the `n` items with the highest partial correlation with this one, given all other items, and these."""
        ids = self._items()
        place, n = ids.one(item, "item"), check_count(n, "n")
        likeness = self._likeness(place)
        if not np.any(likeness):
            raise InvalidInputError(
                "an item that the model has learned about",
                words("one of which only the popularity is known"),
                "There is nothing to compare it by.",
            )
        likeness[place] = -np.inf
        best = np.argsort(-likeness, kind="stable")[: min(n, len(ids) - 1)]
        return [(ids[index], float(likeness[index])) for index in best]

    def rank(
        self, histories: Sequence[IdsLike], n: int = 10, *, weights: Sequence[ArrayLike] | None = None
    ) -> list[list[Hashable]]:
        """Return the `n` best items for each of several histories, without the items of that history."""
        given = [None] * len(histories) if weights is None else weights
        own = [self._own(items, one, "ignore") for items, one in zip(histories, given, strict=True)]
        ids = self._items()
        return [[ids[index] for index in best] for best in self._ranked(own, check_count(n, "n"))]

    def evaluate(
        self, users: RatingsLike, items: IdsLike | None = None, weights: ArrayLike | None = None, *, k: int = 20
    ) -> RankingScores:
        """Measure the lists of users of the fit on items that were held out of it.

        Parameters
        ----------
        users, items, weights
            Held-out interactions, given as to `fit`. Users and items that the fit did not know are left out.
        k : int, default=20
        """
        table = self._fitted_table()
        held_out = read_interactions(users, items, weights, weighting=self.weighting)
        rows = table.users.codes(held_out.users.values, "user")
        columns = table.items.codes(held_out.items.values, "item")[held_out.columns]
        histories, relevant = [], []
        for place, row in enumerate(rows):
            if row >= 0:
                own = table.of(int(row))
                histories.append((table.columns[own], table.values[own]))
                chosen = columns[held_out.of(place)]
                relevant.append(np.setdiff1d(chosen[chosen >= 0], table.columns[own]))
        return self._measured(histories, relevant, check_count(k, "k"))

    def evaluate_new_users(
        self,
        users: RatingsLike,
        items: IdsLike | None = None,
        weights: ArrayLike | None = None,
        *,
        k: int = 20,
        fraction: float = 0.2,
        random_state: int = 0,
    ) -> RankingScores:
        """Measure the lists of users who were not in the fit (strong generalisation).

        Parameters
        ----------
        users, items, weights
            All interactions of these users, given as to `fit`. Items that the model does not know are left out.
        k : int, default=20
        fraction : float, default=0.2
            Of each history this fraction is relevant, and the model sees the rest; see `tacit.measure.divided_histories`.
        random_state : int, default=0
        """
        held_out = read_interactions(users, items, weights, weighting=self.weighting)
        columns = self._items().codes(held_out.items.values, "item")[held_out.columns]
        parts = [held_out.of(user) for user in range(len(held_out.users))]
        places = [np.arange(part.start, part.stop)[columns[part] >= 0] for part in parts]
        seen, relevant = divided_histories(places, fraction=fraction, random_state=random_state)
        histories = [(columns[part], held_out.values[part]) for part in (np.array(p, dtype=np.int64) for p in seen)]
        wanted = [columns[np.array(part, dtype=np.int64)] for part in relevant]
        return self._measured(histories, wanted, check_count(k, "k"))

    def _personal_scores(self, histories: Any) -> NDArray[np.float64]:
        """Return the scores of all items for each row of a CSR matrix of histories."""
        scores, weights = np.zeros(histories.shape), self.item_weights_[self.learned_items_]
        popularity = np.maximum(weights / max(float(weights.max(initial=0.0)), 1e-300), LEAST_POPULARITY)
        predicted = histories[:, self.learned_items_] @ self.item_regression_.astype(np.float64)
        scores[:, self.learned_items_] = predicted / popularity**RARITY
        return scores

    def _likeness(self, place: int) -> NDArray[np.float64]:
        """Return the partial correlation of every item with the one at `place`."""
        # -P_ij / P_jj times -P_ij / P_ii is the square of the partial correlation
        likeness = np.zeros(len(self.item_weights_))
        where = np.flatnonzero(self.learned_items_ == place)
        if len(where):
            row, column = self.item_regression_[where[0]], self.item_regression_[:, where[0]]
            likeness[self.learned_items_] = np.sign(row) * np.sqrt(np.abs(row * column))
        return likeness

    def _measured(
        self,
        histories: Sequence[History],
        relevant: Sequence[NDArray[np.integer]],
        k: int,
    ) -> RankingScores:
        lists = self._ranked(histories, k)
        return ranking_scores(
            lists, relevant, k=k, n_items=len(self._items()), popularity=np.maximum(self.item_weights_, 0.0)
        )

    def _ranked(self, histories: Sequence[History], n: int) -> list[NDArray[np.int64]]:
        """Return the places of the `n` best items that are not in the history, for each history."""
        lists: list[NDArray[np.int64]] = []
        for start in range(0, len(histories), BLOCK):
            block = histories[start : start + BLOCK]
            scores = self._scores(block)
            for row, (columns, _) in enumerate(block):
                scores[row, columns] = -np.inf
            lists += [best[np.isfinite(scores[row, best])] for row, best in enumerate(first_columns(scores, n))]
        return lists

    def _scores(self, histories: Sequence[History]) -> NDArray[np.float64]:
        ends = np.cumsum([0, *(len(columns) for columns, _ in histories)])
        joined = [np.concatenate([history[part] for history in histories]) for part in (0, 1)]
        matrix = csr_array((joined[1], joined[0].astype(np.int32), ends), shape=(len(histories), len(self._items())))
        popularity = self.item_weights_ / max(float(np.abs(self.item_weights_).max()), 1e-300)
        scores: NDArray[np.float64] = self._personal_scores(matrix) + TAIL * popularity
        return scores

    def _best(
        self, columns: NDArray[np.integer], values: NDArray[np.float64], n: int, exclude_seen: bool
    ) -> list[tuple[Hashable, float]]:
        n, ids = check_count(n, "n"), self._items()
        scores = self._scores([(columns, values)])
        if exclude_seen:
            scores[0, columns] = -np.inf
        best = [place for place in first_columns(scores, n)[0] if np.isfinite(scores[0, place])]
        return [(ids[int(place)], float(scores[0, place])) for place in best]

    def _own(
        self, items: IdsLike, weights: ArrayLike | None, unknown: str
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        check_choice(unknown, "unknown", ("raise", "ignore"))
        ids = self._items()
        columns = ids.codes(items, "item")
        if unknown == "raise" and (columns < 0).any():
            raise InvalidInputError(
                "items that the model knows", words("an unknown item"), 'Leave it out, or set unknown="ignore".'
            )
        values = np.ones(len(columns)) if weights is None else as_weights(weights)
        if len(columns) != len(values):
            raise InvalidInputError("one weight per item", words("another number"), "Give pairs.")
        kept = columns >= 0
        distinct, places = np.unique(columns[kept], return_inverse=True)
        if weights is None:
            return distinct, np.ones(len(distinct))
        totals = np.bincount(places, values[kept], minlength=len(distinct))
        return distinct[totals > 0], WEIGHTINGS[self.weighting](totals[totals > 0].astype(np.float64))

    def _items(self) -> Ids:
        if not hasattr(self, "item_ids_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        return self._table.items if hasattr(self, "_table") else CatalogueIds(self.item_ids_)

    def _fitted_table(self) -> RatingTable:
        self._items()
        if not hasattr(self, "_table"):
            raise InvalidInputError(
                "a model that was fitted in this process",
                words("one that was loaded, and so knows items but no users"),
                "Give the user's own history to recommend_for.",
            )
        return self._table

    def _keep(self, table: RatingTable) -> None:
        """Keep the catalogue and, in memory only, the users' histories."""
        self.item_ids_, self._table, self.n_duplicates_ = table.items.values, table, table.duplicates
