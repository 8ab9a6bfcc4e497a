"""How good predicted ratings and ranked lists are, on ratings that were held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.ratings.table import RatingTable

BLOCK = 512


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Attributes
    ----------
    rmse, mae : float
        Root mean square and mean absolute error of the predicted ratings.
    recall : float
        Share of a user's relevant held-out items that are among the first k; averaged over users who have any.
    ndcg : float
        The same with hits discounted by the logarithm of their rank, over the best possible.
    k : int
    n_ratings, n_users : int
        How many ratings, and how many users with relevant items, this was measured on.
    """

    rmse: float
    mae: float
    recall: float
    ndcg: float
    k: int
    n_ratings: int
    n_users: int


def rating_errors(predicted: NDArray[np.float64], ratings: NDArray[np.float64]) -> tuple[float, float]:
    """Return the root mean square and the mean absolute error."""
    errors = predicted - ratings
    return math.sqrt(float((errors**2).mean())), float(np.abs(errors).mean())


def ranking_scores(
    table: RatingTable,
    users: NDArray[Any],
    factors: NDArray[np.float64],
    biases: NDArray[np.float64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    k: int,
) -> tuple[float, float, int]:
    """Return recall and NDCG of the first `k`, given the relevant pairs, and the number of users with any.

    Pairs are distinct. Items that a user rated in `table` are not listed.
    """
    discounts = 1 / np.log2(np.arange(min(k, len(biases))) + 2)
    recalls, gains = [], []
    order = np.argsort(rows, kind="stable")
    listed, starts = np.unique(rows[order], return_index=True)
    columns, starts = columns[order], np.append(starts, len(rows))
    for start in range(0, len(listed), BLOCK):
        block = listed[start : start + BLOCK]
        scores = users[block, :-1].astype(np.float64) @ factors.T + biases
        for place, user in enumerate(block):
            scores[place, table.columns[table.of(int(user))]] = -np.inf
        tops = _first(scores, len(discounts))
        for place in range(len(block)):
            relevant = columns[starts[start + place] : starts[start + place + 1]]
            hits = np.isin(tops[place], relevant) & np.isfinite(scores[place, tops[place]])
            recalls.append(hits.sum() / len(relevant))
            gains.append(discounts[hits].sum() / discounts[: min(len(relevant), len(discounts))].sum())
    if not len(listed):
        return math.nan, math.nan, 0
    return float(np.mean(recalls)), float(np.mean(gains)), len(listed)


def _first(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Return the columns of the `k` highest scores of every row, in order."""
    if k < scores.shape[1]:
        candidates = np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)
    else:
        candidates = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.argsort(-np.take_along_axis(scores, candidates, axis=1), axis=1, kind="stable")
    return np.take_along_axis(candidates, order, axis=1)
