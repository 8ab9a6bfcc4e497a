"""Compressed non-negative factorisation (ComNMF): rows move towards the centroid of their cluster.

ComNMF is section 4.5 of Thapa (2013), which solves equation (4.2) by the multiplicative updates (4.13) and (4.14). Here
`tacit.NMF` factorises G of equation (4.16), which has the same minimum.
"""

from __future__ import annotations

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public, withheld
from tacit.factor.nmf.estimator import NMF
from tacit.measure import value_difference
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.clusters import k_means
from tacit.perturb.methods.nmf import check_non_negative_rows
from tacit.perturb.target import Range
from tacit.validation import check_count, check_non_negative

MOST_BETA = 2.0
"""Largest beta: a row is then reflected at its centroid, at the same distance as before."""


class CompressedNMF(TablePerturbation):
    r"""Release ``H W`` between the rows and the centroids of their clusters.

    .. math:: \min_{H, W \ge 0}\ (1 - \beta) \|A - HW\|_F^2 + \beta \|HW - C_L\|_F^2

    Row i of :math:`C_L` is the centroid of the cluster of row i, and :math:`\alpha = 1 - \beta` (equations (4.1) and
    (4.2) of the thesis). The objective is, up to a constant, :math:`\|G - HW\|_F^2` with
    :math:`G = (1 - \beta) A + \beta C_L` (4.16): `tacit.NMF` of G. At :math:`\beta = 1` every row becomes its centroid.
    Beyond 1, up to 2, rows are on the other side of their centroid, which distorts more and leaves clusters as tight as
    at :math:`2 - \beta`; negative values become zero.

    Parameters
    ----------
    beta : float in [0, 2], optional
        The weight of the centroids.
    n_clusters : int, default=3
    n_init : int, default=10
        Number of starts of k-means.
    rank : int, optional
        Rank of the factorisation; `n_clusters` if not given (with a target, more if the target needs it). At full rank, only
        `beta` changes the table.
    level : float, optional
        Another name of `beta`.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries. `random_state` is the seed of
        k-means, and protects nothing.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.
    rank_ : int
    cluster_centers_, labels_
        As in `ConstrainedNMF`.

    Privacy
    -------
    None is proven. At full rank, the release of a cluster is its rows, shrunk by a factor; anyone who finds the factor can undo
    it.

    References
    ----------
    Thapa 2013, sections 4.5 and 4.6.1. The thesis has :math:`\beta \le 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import CompressedNMF
    >>> generator = np.random.default_rng(0)
    >>> table = np.vstack([centre + 0.1 * generator.random((40, 3)) for centre in ([0, 0, 1], [1, 0, 0], [0, 1, 0])])
    >>> released = CompressedNMF(0.5, n_clusters=3, random_state=0).fit_transform(table)
    >>> bool(released[:40].std(axis=0).max() < 0.6 * table[:40].std(axis=0).max())
    True
    """

    _level_name = "beta"

    beta: float | None = public(default=None, kw_only=False)
    n_clusters: int = public(default=3)
    n_init: int = public(default=10)
    rank: int | None = public(default=None)
    random_state: int | None = withheld(default=0)

    def _learn(self, rows: Rows, y: object) -> None:
        check_non_negative_rows(rows)
        self._k_means = k_means(rows, self.n_clusters, self._seed, self.n_init)
        self.labels_ = self._k_means.labels_
        self.cluster_centers_ = self._scaling.up(self._k_means.cluster_centers_)
        full = min(rows.shape)
        self.rank_ = min(self.n_clusters, full) if self.rank is None else check_count(self.rank, "rank")
        if self.rank_ > full:
            raise InvalidInputError(
                f"rank of at most {full}, the number of rows or columns",
                words(str(self.rank_)),
                "Ask for a lower rank.",
            )
        self._full = self.rank_ == full

    def _settings(self, rows: Rows) -> Range:
        if self.rank is None:
            table, target = self._scaling.up(rows), float(self.target_distortion or 0.0)
            while not self._full and value_difference(table, self._scaling.up(self._change(rows, 0.0))) > target:
                self.rank_ += 1
                self._full = self.rank_ == min(rows.shape)
        return Range(0.0, MOST_BETA)

    def _check_level(self, value: float) -> float:
        beta = check_non_negative(value, "beta")
        if beta > MOST_BETA:
            raise InvalidInputError(
                "beta in [0, 2]", parameter(value), "At 1 every row becomes its cluster's centroid."
            )
        return beta

    def _change(self, rows: Rows, level: float) -> Rows:
        moved = self._moved(rows, level)
        if self._full:
            return moved  # H = G and W = I are non-negative factors of full rank
        self._model = NMF(self.rank_, max_iter=1000, random_state=int(self._seed % 2**31)).fit(moved)
        return self._product(moved)

    def _change_new(self, rows: Rows) -> Rows:
        moved = self._moved(np.maximum(rows, 0.0), self.level_)
        return moved if self._full else self._product(moved)

    def _moved(self, rows: Rows, beta: float) -> Rows:
        centroids = self._k_means.cluster_centers_[self._k_means.predict(rows)]
        # G of equation (4.16)
        moved: Rows = np.maximum((1 - beta) * rows + beta * centroids, 0.0)
        return moved

    def _product(self, moved: Rows) -> Rows:
        product = np.asarray(self._model.inverse_transform(self._model.transform(moved)), dtype=np.float64)
        return product
