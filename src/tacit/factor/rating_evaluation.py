"""How good predicted ratings and ranked lists are, on ratings that were held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.ratings import RatingTable

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

    Items that a user rated in `table` are not listed, unless they are relevant to the user now.
    """
    discounts = 1 / np.log2(np.arange(min(k, len(biases))) + 2)
    recalls, gains = [], []
    listed = np.unique(rows)
    for start in range(0, len(listed), BLOCK):
        block = listed[start : start + BLOCK]
        scores = users[block, :-1].astype(np.float64) @ factors.T + biases
        for place, user in enumerate(block):
            scores[place, table.columns[table.of(int(user))]] = -np.inf
            relevant = columns[rows == user]
            top = np.argsort(-scores[place], kind="stable")[: len(discounts)]
            hits = np.isin(top, relevant) & np.isfinite(scores[place, top])
            distinct = len(np.unique(relevant))
            recalls.append(hits.sum() / distinct)
            gains.append(discounts[hits].sum() / discounts[: min(distinct, len(discounts))].sum())
    if not len(listed):
        return math.nan, math.nan, 0
    return float(np.mean(recalls)), float(np.mean(gains)), len(listed)
