"""Clusters of rows, found by k-means: Algorithm 1 and equation (1.1) of Thapa (2013), by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_count

if TYPE_CHECKING:
    from sklearn.cluster import KMeans


def k_means(rows: NDArray[np.float64], n_clusters: int, seed: int, n_init: int = 10) -> KMeans:
    """Return scikit-learn's fitted KMeans, the best of several starts by k-means++.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    n_clusters : int
        At most the number of distinct rows.
    seed : int
    n_init : int
    """
    from sklearn.cluster import KMeans

    count = check_count(n_clusters, "n_clusters")
    distinct = len(np.unique(rows, axis=0))
    if count > distinct:
        raise InvalidInputError(
            f"n_clusters of at most {distinct}, the number of distinct rows",
            words(str(count)),
            "Give a smaller n_clusters.",
        )
    return KMeans(count, n_init=check_count(n_init, "n_init"), random_state=int(seed % 2**31)).fit(rows)


def indicators(labels: NDArray[np.intp], n_clusters: int) -> NDArray[np.float64]:
    """Return one row per label, with 1 at the cluster and 0 elsewhere."""
    membership = np.zeros((len(labels), n_clusters))
    membership[np.arange(len(labels)), labels] = 1.0
    return membership
