"""Synthetic counts of users' activities at places, coupled with a table about the places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check_count, check_positive, check_seed


@dataclass(frozen=True, eq=False)
class Coupled:
    """A tensor and a matrix of counts that share the factor of the places, with the true factors.

    Parameters
    ----------
    tensor : ndarray of int64, shape (n_users, n_places, n_activities)
        The count of each activity of each user at each place.
    features : ndarray of int64, shape (n_places, n_features)
        The count of each feature at each place.
    factors : dict of str to ndarray
        The non-negative factors "user", "place", "activity" and "feature", each with `rank` columns.
    """

    tensor: NDArray[np.int64]
    features: NDArray[np.int64]
    factors: dict[str, NDArray[np.float64]]

    def expected_tensor(self) -> NDArray[np.float64]:
        """Return the means of the tensor's counts."""
        return _product("ir,jr,kr->ijk", *(self.factors[name] for name in ("user", "place", "activity")))

    def expected_features(self) -> NDArray[np.float64]:
        """Return the means of the matrix's counts."""
        return _product("jr,fr->jf", self.factors["place"], self.factors["feature"])

    def coordinates(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cells of the tensor that are not zero, one per row, and their counts."""
        where = np.argwhere(self.tensor)
        return where, self.tensor[tuple(where.T)]


def make_coupled(
    n_users: int = 40,
    n_places: int = 30,
    n_activities: int = 6,
    *,
    rank: int = 3,
    n_features: int = 12,
    mean_count: float = 0.5,
    mean_feature: float = 3.0,
    concentration: float = 0.5,
    random_state: int = 0,
) -> Coupled:
    r"""Draw a users x places x activities tensor and a places x features matrix of Poisson counts.

    .. math::
        X_{ijk} \sim \mathrm{Poisson}\Big(\sum_r U_{ir} V_{jr} A_{kr}\Big), \qquad
        Y_{jf} \sim \mathrm{Poisson}\Big(\sum_r V_{jr} F_{fr}\Big),

    with independent entries of the factors from Gamma distributions of shape `concentration` and of mean 1
    for U and V, `mean_count` / `rank` for A and `mean_feature` / `rank` for F.

    Parameters
    ----------
    n_users, n_places, n_activities : int
        Size of the tensor.
    rank : int
        Number of components of both relations.
    n_features : int
        Number of columns of the matrix.
    mean_count, mean_feature : float
        Mean of an entry of the tensor and of the matrix, over all draws of the factors.
    concentration : float
        Shape of the Gamma distributions; the smaller, the more unequal the entries of a factor.
    random_state : int
        Seed; the same seed gives the same data.

    Returns
    -------
    Coupled
        The counts and their truth.

    Examples
    --------
    >>> data = make_coupled()
    >>> data.tensor.shape, data.features.shape
    ((40, 30, 6), (30, 12))
    """
    rank = check_count(rank, "rank")
    mean_count = check_positive(mean_count, "mean_count")
    mean_feature = check_positive(mean_feature, "mean_feature")
    concentration = check_positive(concentration, "concentration")
    means_and_sizes = {
        "user": (1.0, check_count(n_users, "n_users")),
        "place": (1.0, check_count(n_places, "n_places")),
        "activity": (mean_count / rank, check_count(n_activities, "n_activities")),
        "feature": (mean_feature / rank, check_count(n_features, "n_features")),
    }
    rng = np.random.default_rng(check_seed(random_state))

    factors = {
        name: rng.gamma(concentration, mean / concentration, size=(size, rank))
        for name, (mean, size) in means_and_sizes.items()
    }
    means = Coupled(tensor=np.empty((0, 0, 0), np.int64), features=np.empty((0, 0), np.int64), factors=factors)
    return Coupled(
        tensor=rng.poisson(means.expected_tensor()),
        features=rng.poisson(means.expected_features()),
        factors=factors,
    )


def _product(subscripts: str, *factors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.einsum(subscripts, *factors, optimize=True), dtype=np.float64)
