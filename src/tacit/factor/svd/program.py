r"""Singular vectors and principal components as programs: one exchange of a d x b matrix per step, all columns at once.

Every holder has its own rows; the right singular vectors of all rows together are eigenvectors of :math:`S = X^\top X`,
the sum of the holders' :math:`X_m^\top X_m`. A holder multiplies the shared directions Q by its own
:math:`X_m^\top X_m`, never forming it; the products are totalled, and `Search` makes of the totals what is asked next.
This is Algorithm 4 (PD-SVD) of Tsikhanovich et al. with another way to use the same totals: block Lanczos with
Rayleigh-Ritz in place of the power iteration, which needs several times as many exchanges. `power_program` is
Algorithm 4 as printed (without holders, Algorithm 3); `pca_program` is Algorithm 6, repaired.

References
----------
M. Tsikhanovich et al., "PD-ML-Lite: private distributed machine learning from lightweight cryptography", 2019. Its
Algorithm 6 centres each holder by a multiple of that holder's own mean (line 2), which is wrong; here the mean is that
of all rows, E[X] of appendix D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from tacit.channel import NormedSum, Outcome, Program, Sum
from tacit.estimators.input import Rows
from tacit.factor.kernels import one_blas_thread
from tacit.factor.row_table import Table
from tacit.factor.svd.arpack import by_arpack
from tacit.factor.svd.search import MOST_BLOCKS, Search, first_directions


@dataclass(frozen=True)
class SVDSettings:
    """What all holders of a run agree on.

    Parameters
    ----------
    n_components : int
    hide_singular_values : bool
        Ask for the directions of the products only.
    oversample : int
        Columns asked about beside `n_components`.
    max_iter : int
        Most exchanges.
    tol : float
        See `Search`.
    seed : int
        Of the first directions.
    alone : bool
        Whether there is one holder only, who has nobody to exchange with: then ARPACK finds the vectors.
    one_owner : bool
        Whether all holders are machines of one owner, who may see all products: then a small table is asked about at once.
    power : bool
        Make `max_iter` steps of the block power iteration as the paper prints it, whoever is there.
    """

    n_components: int
    hide_singular_values: bool = True
    oversample: int = 10
    max_iter: int = 100
    tol: float = 1e-9
    seed: int = 0
    alone: bool = False
    one_owner: bool = False
    power: bool = False


class CentredRows:
    """The rows of one holder minus a given mean, without ever storing them: sparse rows stay sparse.

    Parameters
    ----------
    X : ndarray or CSR matrix
    mean : ndarray of shape (n_features,), optional
        Of all holders' rows; nothing is subtracted if not given.
    """

    def __init__(self, X: Rows, mean: NDArray[np.float64] | None = None) -> None:
        self.table, self.mean = Table(X), mean

    def scores(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(X - mean) @ directions`` in double precision."""
        scores = self.table.times(directions).astype(np.float64, copy=False)
        return scores if self.mean is None else scores - self.mean @ directions

    def squared_times(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(X - mean)' (X - mean) @ directions``: S V of line 6 of Algorithm 4, without forming S (line 1)."""
        scores = self.scores(directions)
        product = self.table.transposed_times(scores)
        return product if self.mean is None else product - np.outer(self.mean, scores.sum(axis=0))


def svd_program(X: Rows, settings: SVDSettings, *, mean: NDArray[np.float64] | None = None) -> Program:
    """One holder's view of the right singular vectors of all holders' rows, less `mean` if one is given.

    The outcome's public part has ``components`` (k x d, the strongest first, each with its largest entry positive),
    ``n_iter`` (the number of exchanges; alone, of ARPACK's products), ``residual`` (of the worst component, as a fraction of
    the smallest wanted eigenvalue) and, if they are not hidden, ``singular_values``; else ``relative_values``, in which
    the first is 1: hiding hides the scale, not the ratios.
    """
    if settings.power:
        return (yield from power_program(X, settings, mean=mean))
    decomposition = by_arpack(X, mean, settings.n_components, settings.tol, settings.seed) if settings.alone else None
    if decomposition is not None:
        return _outcome(X, settings, *decomposition)
    rows = CentredRows(X, mean)
    k, features = settings.n_components, rows.table.shape[1]
    block = min(k + settings.oversample, features)
    if settings.one_owner and features <= MOST_BLOCKS * block:
        block = features  # the search would keep as many directions: one exchange takes the time of one, not of several
    start = first_directions(features, block, settings.seed)
    search, exchanges = Search(k, start, settings.tol), 0
    while not search.done and exchanges < settings.max_iter:
        own = rows.squared_times(search.directions)
        total = yield (NormedSum if settings.hide_singular_values else Sum)(products=own)
        search.learn(total.products, normed=settings.hide_singular_values)
        exchanges += 1
    search.close()
    return _outcome(X, settings, search.values[:k], search.vectors.T, search.residuals[-1], exchanges)


def power_program(X: Rows, settings: SVDSettings, *, mean: NDArray[np.float64] | None = None) -> Program:
    r"""Algorithm 4 of Tsikhanovich et al. as printed: :math:`\hat V \leftarrow` orthonormalised :math:`S\hat V`, tau times.

    tau is `max_iter`; there is no oversampling and no stopping rule. The start has entries from N(0, 1/d) (line 1 of
    Algorithm 3), drawn from the common seed instead of summed over the parties (lines 2 and 3 of Algorithm 4). The
    outcome is that of `svd_program`, without ``relative_values``; ``residual`` is the sine of the largest angle of the
    last step.
    """
    rows = CentredRows(X, mean)
    k, features = settings.n_components, rows.table.shape[1]
    V = np.random.default_rng(settings.seed).standard_normal((features, k)) / np.sqrt(features)
    for _ in range(settings.max_iter):
        last = V
        total = yield (NormedSum if settings.hide_singular_values else Sum)(products=rows.squared_times(V))
        with one_blas_thread():
            V = np.linalg.qr(total.products).Q  # line 7; line 6 is the sum, of all columns at once
    before = np.linalg.qr(last).Q
    residual = float(np.linalg.norm(V - before @ (before.T @ V), 2))
    if settings.hide_singular_values:
        return _outcome(X, settings, None, V.T, residual, settings.max_iter)
    within = last.T @ total.products
    squares = eigh((within + within.T) / 2, last.T @ last, eigvals_only=True)[::-1]
    return _outcome(X, settings, np.maximum(squares, 0.0), V.T, residual, settings.max_iter)


def _outcome(
    X: Rows,
    settings: SVDSettings,
    squares: NDArray[np.float64] | None,
    vectors: NDArray[np.float64],
    residual: float,
    n_iter: int,
) -> Outcome:
    public: dict[str, Any] = {"components": signed(vectors), "n_iter": n_iter, "residual": residual}
    private = {"dtype": np.dtype(X.dtype)}
    if squares is None:
        return Outcome(public=public, private=private)
    values = np.sqrt(squares)
    if settings.hide_singular_values:
        public["relative_values"] = values / values[0] if values[0] > 0 else values
    else:
        public["singular_values"] = values
    return Outcome(public=public, private=private)


def pca_program(X: Rows, settings: SVDSettings) -> Program:
    """One holder's view of the principal components (Algorithm 6, repaired): the mean of all rows, then `svd_program`.

    The public part has ``mean`` and ``count`` (of rows) beside what `svd_program` finds.
    """
    total = yield Sum(columns=column_sums(X), count=[X.shape[0]])
    count = float(total["count"][0])  # n, line 1 of Algorithm 6
    mean = total.columns / count  # E[X] of appendix D, in place of line 2
    outcome = yield from svd_program(X, settings, mean=mean)
    return Outcome(public={**outcome.public, "mean": mean, "count": round(count)}, private=outcome.private)


def column_sums(X: Rows) -> NDArray[np.float64]:
    """Return the sums of the columns of a dense or sparse table, in double precision."""
    return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()


def signed(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the components, each with the sign that makes its largest entry positive."""
    largest = components[np.arange(len(components)), np.abs(components).argmax(axis=1)]
    return np.ascontiguousarray(components * np.where(largest < 0, -1.0, 1.0)[:, None])
