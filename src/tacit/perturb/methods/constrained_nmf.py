r"""Constrained non-negative factorisation (CNMF, sparse: SCNMF): cluster memberships are kept, values change.

CNMF is the inner loop of Algorithm 2 of Thapa (2013) with C from k-means (section 4.3); SCNMF is Algorithm 3.

The solver minimises :math:`\alpha\|A - HW\|_F^2 + \beta\|H - C\|_F^2` over :math:`H, W \ge 0`: equations (3.16), (3.26)
and (3.27). With W fixed, H is a non-negative least-squares problem of ``[sqrt(alpha) A, sqrt(beta) C]`` on
``[sqrt(alpha) W, sqrt(beta) I]``; with H fixed, W is one of A on H. The two alternate, each with a few sweeps of
coordinate descent, so the objective never increases. At the end H is solved to convergence. (Thapa's multiplicative
updates (3.24) and (3.25) lower the same objective, more slowly; `tacit.reproduce.thapa.multiplicative` has them. In the
denominator of (3.25), beta multiplies H, as in the derivative (3.23).)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter
from tacit.estimators.base import public, withheld
from tacit.factor.nmf.nnls import MOST_SWEEPS as TO_CONVERGENCE
from tacit.factor.nmf.nnls import solve_rows
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.clusters import indicators, k_means
from tacit.perturb.methods.nmf import check_non_negative_rows
from tacit.perturb.target import Range
from tacit.validation import check_non_negative

Matrix = NDArray[np.float64]
MOST_SWEEPS, TOLERANCE = 300, 1e-6
"""Most outer sweeps, and the relative decrease of the objective at which they stop. Set by hand."""
INNER_SWEEPS = 3
"""Sweeps of coordinate descent per half-step. Set by hand: the next half-step continues from there."""
SOME_BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Where the distortion of the sparsified method is computed before a search. Set by hand."""


@dataclass(frozen=True, repr=False)
class Constrained(Undisclosed):
    """Factors with H near the memberships, and the objective after every sweep."""

    H: Matrix
    W: Matrix
    objective: tuple[float, ...]


def constrained_factors(
    A: Matrix, C: Matrix, beta: float, W: Matrix, *, most_sweeps: int = MOST_SWEEPS, tolerance: float = TOLERANCE
) -> Constrained:
    """Factorise `A` with H near the memberships `C`, from the centroids `W`; alpha is ``1 - beta``.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns), not negative
    C : ndarray of shape (n_rows, n_clusters), not negative
    beta : float in [0, 1]
    W : ndarray of shape (n_clusters, n_columns)
        The initial W.
    most_sweeps, tolerance
        Stop when a sweep lowers the objective by less than this fraction of it.
    """
    H, objective = C, [np.inf]
    columns = np.ascontiguousarray(A.T)
    for _ in range(most_sweeps):
        H = solve_memberships(A, C, beta, W, start=H, most_sweeps=INNER_SWEEPS)
        solved = solve_rows(columns, np.ascontiguousarray(H.T), np.ascontiguousarray(W.T), most_sweeps=INNER_SWEEPS)
        W = np.asarray(solved.T, dtype=np.float64)
        fit, distance = np.sum((A - H @ W) ** 2), np.sum((H - C) ** 2)  # Q and L of equations (3.17) and (3.18)
        objective.append(float((1 - beta) * fit + beta * distance))
        if objective[-2] - objective[-1] <= tolerance * objective[-1]:
            break
    return Constrained(solve_memberships(A, C, beta, W, start=H), np.ascontiguousarray(W), tuple(objective[1:]))


def solve_memberships(
    A: Matrix, C: Matrix, beta: float, W: Matrix, *, start: Matrix, most_sweeps: int = TO_CONVERGENCE
) -> Matrix:
    """Return H after coordinate descent with fixed W, by default to convergence."""
    alpha_root, beta_root = np.sqrt(1 - beta), np.sqrt(beta)
    data = np.hstack([alpha_root * A, beta_root * C])
    basis = np.hstack([alpha_root * W, beta_root * np.eye(len(W))])
    return np.asarray(solve_rows(data, basis, start, most_sweeps=most_sweeps), dtype=np.float64)


class ConstrainedNMF(TablePerturbation):
    r"""Release ``H W`` with H near the memberships of the rows' clusters.

    .. math:: \min_{H, W \ge 0}\ (1 - \beta) \|A - HW\|_F^2 + \beta \|H - C\|_F^2

    C has a 1 at the cluster of each row, found by k-means on the table, and 0 elsewhere. At :math:`\beta = 0` this is a
    plain factorisation; at 1 every row becomes its cluster's centroid. With `sparsify`, entries of H below it become 0
    (SCNMF). This is equation (3.27) of the thesis with :math:`\alpha = 1 - \beta`.

    Parameters
    ----------
    beta : float in [0, 1], optional
        The weight of the memberships.
    n_clusters : int, default=3
        Number of clusters, and rank of the factorisation.
    n_init : int, default=10
        Number of starts of k-means.
    sparsify : float, optional
        The threshold :math:`\delta` of section 4.4 (stol of Algorithm 3, which also sets entries equal to it to 0).
    level : float, optional
        Another name of `beta`.
    target_distortion : float, optional
        Instead: the value difference to reach, between that of a plain factorisation and that of the centroids.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries. `random_state` is the seed of
        k-means, and protects nothing.

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
    None is proven. The closer to the centroids, the harder rows are to distinguish; nothing bounds what remains.

    References
    ----------
    Thapa 2013, sections 3.4 (the objective), 4.3 (CNMF), 4.4 and 4.7 (SCNMF, Algorithm 3).

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
    n_init: int = public(default=10)
    sparsify: float | None = public(default=None)
    random_state: int | None = withheld(default=0)

    def _learn(self, rows: Rows, y: object) -> None:
        if self.sparsify is not None:
            check_non_negative(self.sparsify, "sparsify")
        check_non_negative_rows(rows)
        self._k_means = k_means(rows, self.n_clusters, self._seed, self.n_init)
        self.labels_ = self._k_means.labels_
        self.cluster_centers_ = self._scaling.up(self._k_means.cluster_centers_)

    def _settings(self, rows: Rows) -> Range:
        if self.sparsify is None:
            return Range(0.0, 1.0)
        # near beta = 0 the scale of H is arbitrary, and a threshold can remove almost anything: start where it changes least
        changed = {beta: float(np.linalg.norm(rows - self._change(rows, beta))) for beta in SOME_BETAS}
        least = min(changed, key=changed.__getitem__)
        return Range(least, 1.0 if least < 1 else max(changed, key=changed.__getitem__))

    def _check_level(self, value: float) -> float:
        beta = check_non_negative(value, "beta")
        if beta > 1:
            raise InvalidInputError(
                "beta in [0, 1]", parameter(value), "At 1 every row becomes its cluster's centroid."
            )
        return beta

    def _change(self, rows: Rows, level: float) -> Rows:
        factors = constrained_factors(rows, self._memberships(self.labels_), level, self._k_means.cluster_centers_)
        self._basis = factors.W
        return self._product(factors.H)

    def _change_new(self, rows: Rows) -> Rows:
        rows = np.maximum(rows, 0.0)
        memberships = self._memberships(self._k_means.predict(rows))
        return self._product(solve_memberships(rows, memberships, self.level_, self._basis, start=memberships))

    def _memberships(self, labels: NDArray[np.intp]) -> Rows:
        return indicators(labels, self.n_clusters)

    def _product(self, H: Rows) -> Rows:
        if self.sparsify is not None:
            # section 4.4: h stays if |h| >= delta
            H = H * (H >= self.sparsify)  # noqa: SIM300 (H is a matrix, not a constant)
        product: Rows = H @ self._basis
        return product
