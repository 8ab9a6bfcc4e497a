"""How good recommended lists are: recall, NDCG and average precision at k, coverage, popularity bias.

The functions take one list of items and one set of relevant items per user, so they serve every protocol:

* *held-out users* (strong generalisation): the users were not in the fit; the model sees a part of each user's history and
  the rest is relevant. `divided_histories` makes this division.
* *held-out items*: the users were in the fit, and some of their interactions were not.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_count, check_seed


@dataclass(frozen=True)
class RankingScores:
    """The result of `ranking_scores`: means over the users with relevant items.

    Attributes
    ----------
    recall : float
        Hits among the first k, over the smaller of k and the number of relevant items: 1 is the best possible.
    ndcg : float
        Hits discounted by 1 / log2(rank + 1), over the best possible.
    average_precision : float
        Precision at the rank of each hit, added up over the hits, over the smaller of k and the number of relevant items.
        Its mean over users is known as MAP at k.
    coverage : float
        Fraction of the catalogue that appears in at least one list; NaN without `n_items`.
    popularity_bias : float
        Mean popularity of the listed items over the mean popularity of the relevant items: 1 if lists are as popular as what
        users choose, above 1 if they are more so; NaN without `popularity`.
    k : int
    n_users : int
        Number of users with relevant items.
    """

    recall: float
    ndcg: float
    average_precision: float
    coverage: float
    popularity_bias: float
    k: int
    n_users: int


def ranking_scores(
    lists: Sequence[Sequence[Hashable] | NDArray[np.generic]],
    relevant: Sequence[Collection[Hashable] | NDArray[np.generic]],
    *,
    k: int = 20,
    n_items: int | None = None,
    popularity: Mapping[Any, float] | Sequence[float] | NDArray[np.number] | None = None,
) -> RankingScores:
    """Compare recommended lists with what users chose.

    Parameters
    ----------
    lists : sequence of sequences of ids
        One per user, best first, without repetitions; of each the first `k` count. A list may be shorter.
    relevant : sequence of collections of ids
        One per user, in the same order. Users without relevant items are left out of all measures but coverage.
    k : int, default=20
    n_items : int, optional
        Size of the catalogue, for the coverage.
    popularity : mapping or array, optional
        Of each item, in any unit, for the popularity bias.

    Returns
    -------
    RankingScores

    Examples
    --------
    >>> from tacit.measure import ranking_scores
    >>> result = ranking_scores([["a", "b", "c"], ["b", "c", "d"]], [{"a", "d"}, {"d"}], k=3, n_items=5)
    >>> result.recall, result.coverage
    (0.75, 0.8)
    """
    k = check_count(k, "k")
    if len(lists) != len(relevant):
        raise InvalidInputError(
            "one list and one collection of relevant items per user",
            words("different numbers of them"),
            "Give both in the order of the users.",
        )
    discounts = 1 / np.log2(np.arange(k) + 2.0)
    recalls, gains, precisions = [], [], []
    listed_popularity, relevant_popularity = [], []
    shown: set[Hashable] = set()
    for given, chosen in zip(lists, relevant, strict=True):
        best = _plain(given)[:k]
        if len(set(best)) < len(best):
            raise InvalidInputError(
                "lists without repetitions", words("an item twice in one list"), "Remove repetitions."
            )
        shown.update(best)
        wanted = set(_plain(chosen))
        if not wanted:
            continue
        hits = np.array([item in wanted for item in best], dtype=bool)
        most = min(k, len(wanted))
        ranks = np.arange(len(best)) + 1.0
        recalls.append(hits.sum() / most)
        gains.append(discounts[: len(best)][hits].sum() / discounts[:most].sum())
        precisions.append(((np.cumsum(hits) / ranks)[hits]).sum() / most)
        if popularity is not None:
            listed_popularity += [float(popularity[item]) for item in best]
            relevant_popularity += [float(popularity[item]) for item in wanted]
    chosen_mean = _mean(relevant_popularity)
    return RankingScores(
        recall=_mean(recalls),
        ndcg=_mean(gains),
        average_precision=_mean(precisions),
        coverage=float("nan") if n_items is None else len(shown) / check_count(n_items, "n_items"),
        popularity_bias=_mean(listed_popularity) / chosen_mean if chosen_mean else float("nan"),
        k=k,
        n_users=len(recalls),
    )


def divided_histories(
    histories: Sequence[Sequence[Hashable] | NDArray[np.generic]], *, fraction: float = 0.2, random_state: int = 0
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Divide the history of each held-out user into what the model sees and what it should find.

    Parameters
    ----------
    histories : sequence of sequences of ids
        One per user.
    fraction : float, default=0.2
        Fraction of a history that becomes relevant, rounded down; at least one item, if there are two or more. A user with
        fewer has no relevant items.
    random_state : int, default=0

    Returns
    -------
    seen, relevant : list of lists
        One of each per user.
    """
    if not 0 < fraction < 1:
        raise InvalidInputError("fraction to be between 0 and 1", parameter(fraction), "Give for example 0.2.")
    generator = np.random.default_rng(check_seed(random_state))
    seen, relevant = [], []
    for history in histories:
        items = _plain(history)
        order = generator.permutation(len(items))
        count = max(1, int(fraction * len(items))) if len(items) > 1 else 0
        relevant.append([items[place] for place in order[:count]])
        seen.append([items[place] for place in order[count:]])
    return seen, relevant


def _plain(items: Collection[Hashable] | NDArray[np.generic]) -> list[Any]:
    """Return ids as Python values: NumPy's numbers are hashed slowly."""
    return items.tolist() if isinstance(items, np.ndarray) else list(items)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
