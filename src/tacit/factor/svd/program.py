r"""Singular vectors and principal components as programs: one exchange of a d x b matrix a step, all columns at once.

Every holder has its own rows; the right singular vectors of all rows together are eigenvectors of :math:`S = X^\top
X`, the sum of the holders' :math:`X_m^\top X_m`. A holder multiplies the shared directions Q by its own
:math:`X_m^\top X_m`, never forming it; the products are totalled, and `Search` makes of the totals what is asked
next. This is Algorithm 4 (PD-SVD) with another way to use the same totals: block Lanczos with Rayleigh-Ritz in place
of the power iteration, which needs several times as many exchanges.

References
----------
M. Tsikhanovich et al., "PD-ML-Lite: private distributed machine learning from lightweight cryptography", 2019. Its
Algorithm 6 centres each holder by a multiple of that holder's own mean, which is wrong; here the mean is that of all
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import NormedSum, Outcome, Program, Sum
from tacit.factor.row_table import Table
from tacit.factor.svd.search import Search, first_directions


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
    """

    n_components: int
    hide_singular_values: bool = True
    oversample: int = 10
    max_iter: int = 100
    tol: float = 1e-9
    seed: int = 0


class CentredRows:
    """The rows of one holder minus a given mean, without ever storing them: sparse rows stay sparse.

    Parameters
    ----------
    X : ndarray or CSR matrix
    mean : ndarray of shape (n_features,), optional
        Of all holders' rows; nothing is subtracted if not given.
    """

    def __init__(self, X: Any, mean: NDArray[np.float64] | None = None) -> None:
        self.table, self.mean = Table(X), mean

    def scores(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(X - mean) @ directions`` in double precision."""
        scores = self.table.times(directions).astype(np.float64, copy=False)
        return scores if self.mean is None else scores - self.mean @ directions

    def squared_times(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(X - mean)' (X - mean) @ directions``."""
        scores = self.scores(directions)
        product = self.table.transposed_times(scores)
        return product if self.mean is None else product - np.outer(self.mean, scores.sum(axis=0))


def svd_program(X: Any, settings: SVDSettings, *, mean: NDArray[np.float64] | None = None) -> Program:
    """One holder's view of the right singular vectors of all holders' rows, less `mean` if one is given.

    The outcome's public part has ``components`` (k x d, the strongest first, each with its largest entry positive),
    ``n_iter`` (the number of exchanges), ``residual`` (of the worst component, as a share of the smallest wanted
    eigenvalue) and, if they are not hidden, ``singular_values``; else ``relative_values``, in which the first is 1:
    hiding hides the scale, not the ratios.
    """
    rows = CentredRows(X, mean)
    k, features = settings.n_components, rows.table.shape[1]
    start = first_directions(features, min(k + settings.oversample, features), settings.seed)
    search, exchanges = Search(k, start, settings.tol), 0
    while not search.done and exchanges < settings.max_iter:
        own = rows.squared_times(search.directions)
        total = yield (NormedSum if settings.hide_singular_values else Sum)(products=own)
        search.learn(total.products, normed=settings.hide_singular_values)
        exchanges += 1
    search.close()
    values = np.sqrt(search.values[:k])
    public: dict[str, Any] = {
        "components": _signed(search.vectors.T),
        "n_iter": exchanges,
        "residual": search.residuals[-1],
    }
    if settings.hide_singular_values:
        public["relative_values"] = values / values[0] if values[0] > 0 else values
    else:
        public["singular_values"] = values
    return Outcome(public=public, private={"dtype": np.dtype(X.dtype)})


def pca_program(X: Any, settings: SVDSettings) -> Program:
    """One holder's view of the principal components: one exchange for the mean of all rows, then `svd_program`.

    The public part has ``mean`` and ``count`` (of rows) beside what `svd_program` finds.
    """
    total = yield Sum(columns=column_sums(X), count=[X.shape[0]])
    count = float(total["count"][0])
    mean = total.columns / count
    found = yield from svd_program(X, settings, mean=mean)
    return Outcome(public={**found.public, "mean": mean, "count": round(count)}, private=found.private)


def column_sums(X: Any) -> NDArray[np.float64]:
    """Return the sums of the columns of a dense or sparse table, in double precision."""
    return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()


def _signed(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the components, each with the sign that makes its largest entry positive."""
    largest = components[np.arange(len(components)), np.abs(components).argmax(axis=1)]
    return np.ascontiguousarray(components * np.where(largest < 0, -1.0, 1.0)[:, None])
