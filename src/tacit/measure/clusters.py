"""Agreement of the k-means clusters of a release with those of the original."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.measure.inputs import table_pair
from tacit.validation import TableLike, check_count, check_seed


def clustering_accuracy(
    original: TableLike, released: TableLike, n_clusters: int, *, n_init: int = 10, random_state: int = 0
) -> float:
    r"""Return the fraction of rows that k-means puts into the same cluster in the original and in the release.

    .. math::
        \frac{1}{n} \max_{\pi} \# \{ i : \pi(\text{cluster of } b_i) = \text{cluster of } a_i \}

    over all permutations :math:`\pi` of the clusters, found by the Hungarian method, because the numbering of clusters is
    arbitrary. Both tables are clustered from the same starts, so that a difference comes from the release and not from
    chance: `n_init` choices of rows, made on the original by k-means++, of which each table keeps the one with the smallest
    sum of squares.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release. Values are not scaled: scale columns of different units first.
    n_clusters : int
        Number of clusters, at most the number of distinct rows of the original.
    n_init : int
        Number of starts.
    random_state : int
        Seed of the starts.

    Returns
    -------
    float
        From 1 / n_clusters to 1 (all clusters kept); larger is more useful.

    References
    ----------
    Thapa (2013), equation (2.3); with labels matched, which the thesis does not mention.

    Examples
    --------
    >>> table = [[0.0], [0.1], [5.0], [5.1]]
    >>> clustering_accuracy(table, [[7.0], [7.1], [2.0], [2.1]], n_clusters=2)
    1.0
    >>> clustering_accuracy(table, [[0.0], [5.1], [5.0], [5.1]], n_clusters=2)
    0.75
    """
    pair = table_pair(original, released)
    labels = cluster_labels((pair.original, pair.released), n_clusters, n_init=n_init, random_state=random_state)
    return label_agreement(*labels)


def cluster_labels(
    tables: tuple[NDArray[np.float64], ...], n_clusters: int, *, n_init: int = 10, random_state: int = 0
) -> tuple[NDArray[np.int32], ...]:
    """Return the clusters of the rows in several tables with the same rows; the starts are chosen on the first table."""
    from sklearn.cluster import kmeans_plusplus

    n_clusters = check_count(n_clusters, "n_clusters")
    n_init, seed = check_count(n_init, "n_init"), check_seed(random_state)
    distinct = len(np.unique(tables[0], axis=0))
    if n_clusters > distinct:
        raise InvalidInputError(
            f"n_clusters to be at most {distinct}, the number of distinct rows",
            parameter(n_clusters),
            "Ask for fewer clusters.",
        )
    generator = np.random.RandomState(seed)
    starts = [kmeans_plusplus(tables[0], n_clusters, random_state=generator)[1] for _ in range(n_init)]
    return tuple(_best_labels(table, starts) for table in tables)


def label_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Return the fraction of rows on which two clusterings agree, under the best pairing of their clusters.

    Parameters
    ----------
    first, second : array-like of shape (n_rows,)
        The cluster of each row; labels of any type. The numbers of clusters may differ.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> label_agreement([0, 0, 1, 1, 2], ["b", "b", "a", "a", "a"])
    0.8
    """
    # Accuracy, equation (2.3) of Thapa (2013)
    return float(np.mean(matched_labels(first, second) == np.unique(np.asarray(first), return_inverse=True)[1]))


def matched_labels(first: ArrayLike, second: ArrayLike) -> NDArray[np.intp]:
    """Return the second clustering, with each cluster numbered as its match in the first.

    Matches have the largest number of common rows. Clusters of the first are numbered by the order of their labels. If the
    second has more clusters, those without a match get further numbers.
    """
    from scipy.optimize import linear_sum_assignment

    one, other = np.asarray(first), np.asarray(second)
    if one.ndim != 1 or one.shape != other.shape or one.size == 0:
        raise InvalidInputError(
            "two lists of labels, one for each row", words(f"shapes {one.shape} and {other.shape}"), "Give both."
        )
    names, rows = np.unique(one, return_inverse=True)
    other_names, columns = np.unique(other, return_inverse=True)
    together = np.zeros((len(names), len(other_names)), dtype=np.int64)
    np.add.at(together, (rows, columns), 1)
    left, right = linear_sum_assignment(together, maximize=True)
    numbers = np.full(len(other_names), -1, dtype=np.intp)
    numbers[right] = left
    free = np.flatnonzero(numbers < 0)
    numbers[free] = len(names) + np.arange(len(free))
    return numbers[columns]


def _best_labels(table: NDArray[np.float64], starts: list[NDArray[np.intp]]) -> NDArray[np.int32]:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    best: Any = None
    for rows in starts:
        means = KMeans(len(rows), init=table[rows], n_init=1)
        with warnings.catch_warnings():
            # A release may have fewer distinct rows than clusters: some are then empty, and the accuracy shows it.
            warnings.simplefilter("ignore", ConvergenceWarning)
            means.fit(table)
        # Smaller by more than rounding, so that a rotated table keeps the same one of equally good starts.
        if best is None or means.inertia_ < best.inertia_ * (1 - 1e-9):
            best = means
    labels: NDArray[np.int32] = best.labels_
    return labels
