"""Errors of predicted ratings and quality of ranked lists, on held-out ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import SomeFloats
from tacit.measure.ranking import RankingScores

BLOCK = 512
"""Users whose scores of all items are in memory at the same time."""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes
    ----------
    rmse, mae : float
        Root mean square and mean absolute error of the predicted ratings.
    ranking : RankingScores
        Of the lists of items with the highest expected rating, on relevant held-out items.
    n_ratings : int
        Number of ratings that were measured.
    """

    rmse: float
    mae: float
    ranking: RankingScores
    n_ratings: int

    @property
    def recall(self) -> float:
        """Hits among the first k, over the smaller of k and the number of relevant items, averaged over users."""
        return self.ranking.recall

    @property
    def ndcg(self) -> float:
        """Normalised discounted cumulative gain of the first k."""
        return self.ranking.ndcg

    @property
    def n_users(self) -> int:
        """Number of users with relevant items."""
        return self.ranking.n_users

    def values(self) -> dict[str, float]:
        """Return all measures by name."""
        return {"rmse": self.rmse, "mae": self.mae, **vars(self.ranking), "n_ratings": self.n_ratings}


def rating_errors(predicted: NDArray[np.float64], ratings: NDArray[np.float64]) -> tuple[float, float]:
    """Return the root mean square and the mean absolute error."""
    errors = predicted - ratings
    return math.sqrt(float((errors**2).mean())), float(np.abs(errors).mean())


def ranked_items(
    users: SomeFloats,
    factors: NDArray[np.float64],
    biases: NDArray[np.float64],
    seen: Sequence[NDArray[np.integer]],
    k: int,
) -> list[NDArray[np.intp]]:
    """Return the places of the `k` items with the highest expected rating that were not `seen`, for each user."""
    lists: list[NDArray[np.intp]] = []
    for start in range(0, len(users), BLOCK):
        scores = users[start : start + BLOCK, :-1].astype(np.float64) @ factors.T + biases
        for row, columns in enumerate(seen[start : start + BLOCK]):
            scores[row, columns] = -np.inf
        lists += [best[np.isfinite(scores[row, best])] for row, best in enumerate(first_columns(scores, k))]
    return lists


def first_columns(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Return the columns of the `k` highest scores of every row, in order; of equal scores the first column."""
    if k < scores.shape[1]:
        candidates = np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)
    else:
        candidates = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.argsort(-np.take_along_axis(scores, candidates, axis=1), axis=1, kind="stable")
    return np.take_along_axis(candidates, order, axis=1)
