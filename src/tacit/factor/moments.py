r"""The simplest private model: number of rows, mean and second moment, from one noisy release.

Everything computed from these afterwards (principal components, regressions, synthetic data) costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum
from tacit.estimators.base import public, released
from tacit.estimators.input import Rows, clip_rows, validated
from tacit.estimators.private import PrivateFit
from tacit.factor.noisy_moments.symmetric import nearest_semidefinite, pack, unpack
from tacit.validation import TableLike, check_positive

FRACTIONS = {"count": 0.02, "total": 0.18, "second": 0.8}
"""How the three arrays of the one sum divide its budget. Set by hand: the second moment has the most numbers and gets the
most; the count is one number."""


def moments_program(X: Rows, *, row_norm: float, fractions: Mapping[str, float] = FRACTIONS) -> Program:
    """One holder's view: clip the rows, ask once for count, sum and sum of outer products, divide."""
    rows = clip_rows(X, row_norm)
    second = rows.T @ rows if isinstance(rows, np.ndarray) else (rows.T @ rows).toarray()
    total = yield Sum(
        count=[rows.shape[0]],
        total=np.asarray(rows.sum(axis=0)).ravel(),
        second=pack(second.astype(np.float64)),
        # one row adds 1 to the count, itself to the sum, and its outer product, of norm |x|^2, to the second moment
        bound={"count": 1.0, "total": row_norm, "second": row_norm**2},
        fractions=fractions,
        units=rows.shape[0],
    )
    count = max(float(total["count"][0]), 1.0)
    return Outcome(
        public={
            "count": count,
            "mean": total.total / count,
            "second_moment": nearest_semidefinite(unpack(total.second, X.shape[1])) / count,
        }
    )


class PrivateMoments(PrivateFit):
    r"""Number of rows, mean and second moment :math:`\frac1n\sum x x^\top`, with differential privacy.

    Parameters
    ----------
    epsilon, delta : float
        Privacy loss and failure probability of the whole fit. ``epsilon=inf`` adds no noise and has no guarantee.
    row_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it. Choose it without looking at the data.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
    max_units : int, default=2**20
        Public upper bound on the number of rows.
    ledger : Ledger or path, optional
        Charged before anything is released; a path must be that of an existing ledger. A fit without a guarantee is refused.
    dataset : str, optional
        The account to charge; the data's fingerprint if not given.
    insecure_seed : int, optional
        Reproducible noise, for tests only; voids the guarantee.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    count_ : float
        Noisy number of rows, at least 1.
    mean_ : ndarray of shape (n_features,)
    second_moment_ : ndarray of shape (n_features, n_features)
        Symmetric and positive semi-definite.
    guarantee_ : Guarantee
    n_features_in_ : int

    Privacy
    -------
    Unit: one row. What leaves: one noisy vector of count, sum and one triangle of the sum of outer products. Why the
    bound holds: each row is clipped to `row_norm` by itself, so it adds at most 1, `row_norm` and ``row_norm**2`` in L2
    norm to the three arrays. They divide the budget by fixed fractions of the squared ratio of bound to noise. The rest
    is post-processing.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateMoments
    >>> X = np.random.default_rng(0).dirichlet(np.ones(3), size=5000)
    >>> model = PrivateMoments(epsilon=1.0, delta=1e-6).fit(X)
    >>> bool(np.abs(model.mean_ - X.mean(axis=0)).max() < 0.02)
    True
    """

    row_norm: float = public(default=1.0)
    count_: float = released()
    mean_: NDArray[np.float64] = released()
    second_moment_: NDArray[np.float64] = released()
    n_features_in_: int = released()

    def fit(self, X: TableLike, y: object = None) -> PrivateMoments:
        """Release the moments of the rows of `X` (dense or sparse), once."""
        rows = validated(self, X, reset=True)
        norm = check_positive(self.row_norm, "row_norm")
        outcome = self._run(X, moments_program(rows, row_norm=norm), self._plan(steps=1))
        for name, value in outcome.public.items():
            setattr(self, f"{name}_", value)
        return self
