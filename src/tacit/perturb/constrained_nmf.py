"""Constrained non-negative factorisation (CNMF): memberships of clusters are kept, values change."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, parameter
from tacit.factor.base import public, withheld
from tacit.perturb.base import Release, Rows
from tacit.perturb.clusters import indicators, k_means
from tacit.perturb.constrained_solver import constrained_factors, solve_memberships
from tacit.perturb.nmf_release import check_non_negative_rows
from tacit.perturb.search import Range
from tacit.validation import check_non_negative

SOME_BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class ConstrainedNMF(Release):
    r"""Release ``H W`` with H near the memberships of the rows' clusters.

    .. math:: \min_{H, W \ge 0}\ (1 - \beta) \|A - HW\|_F^2 + \beta \|H - C\|_F^2

    C has a 1 at the cluster of each row, found by k-means on the table, and 0 elsewhere. At :math:`\beta = 0` this is a plain
    factorisation; at 1 every row becomes its cluster's centroid. With `sparsify`, entries of H below it become 0 (SCNMF).

    Parameters
    ----------
    beta : float in [0, 1], optional
        How much the memberships count.
    n_clusters : int, default=3
        Clusters, and rank of the factorisation.
    n_starts : int, default=10
        Starts of k-means.
    sparsify : float, optional
        The threshold :math:`\delta`.
    level : float, optional
        Another name of `beta`.
    target_distortion : float, optional
        In their place: the value difference to reach. It lies between that of a plain factorisation and that of centroids.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries. `random_state` is that of
        k-means and protects nothing.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.
    cluster_centers_ : ndarray of shape (n_clusters, n_columns)
        In the table's units.
    labels_ : ndarray of shape (n_rows,)
        The cluster of each fitted row.

    Privacy
    -------
    None is proven. The closer to centroids, the fewer rows can be told apart; nothing bounds what is left.

    References
    ----------
    Thapa 2013, sections 4.3 and 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import ConstrainedNMF
    >>> generator = np.random.default_rng(0)
    >>> table = np.vstack([centre + 0.1 * generator.random((40, 3)) for centre in ([0, 0, 1], [1, 0, 0], [0, 1, 0])])
    >>> method = ConstrainedNMF(0.9, n_clusters=3, random_state=0).fit(table)
    >>> method.distortion_ < 0.1
    True
    """

    _level_name = "beta"

    beta: float | None = public(default=None, kw_only=False)
    n_clusters: int = public(default=3)
    n_starts: int = public(default=10)
    sparsify: float | None = public(default=None)
    random_state: int | None = withheld(default=0)

    def _learn(self, rows: Rows, y: Any) -> None:
        if self.sparsify is not None:
            check_non_negative(self.sparsify, "sparsify")
        check_non_negative_rows(rows)
        self._k_means = k_means(rows, self.n_clusters, self._seed, self.n_starts)
        self.labels_ = self._k_means.labels_
        self.cluster_centers_ = self._scaling.up(self._k_means.cluster_centers_)

    def _settings(self, rows: Rows) -> Range:
        if self.sparsify is None:
            return Range(0.0, 1.0)
        # near 0 the scale of H is arbitrary, and a threshold can cut off almost anything: begin where it cuts least
        changed = {beta: float(np.linalg.norm(rows - self._change(rows, beta))) for beta in SOME_BETAS}
        least = min(changed, key=changed.__getitem__)
        return Range(least, 1.0 if least < 1 else max(changed, key=changed.__getitem__))

    def _check_level(self, value: Any) -> float:
        beta = check_non_negative(value, "beta")
        if beta > 1:
            raise InvalidInputError(
                "beta in [0, 1]", parameter(value), "At 1 every row becomes its cluster's centroid."
            )
        return beta

    def _change(self, rows: Rows, level: float) -> Rows:
        found = constrained_factors(rows, self._memberships(self.labels_), level, self._k_means.cluster_centers_)
        self._basis = found.W
        return self._product(found.H)

    def _change_new(self, rows: Rows) -> Rows:
        rows = np.maximum(rows, 0.0)
        memberships = self._memberships(self._k_means.predict(rows))
        return self._product(solve_memberships(rows, memberships, self.level_, self._basis, start=memberships))

    def _memberships(self, labels: Any) -> Rows:
        return indicators(labels, self.n_clusters)

    def _product(self, H: Rows) -> Rows:
        if self.sparsify is not None:
            H = H * (H >= self.sparsify)  # noqa: SIM300 (H is a matrix, not a constant)
        product: Rows = H @ self._basis
        return product
