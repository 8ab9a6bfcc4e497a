"""Principal components of all holders' rows, centred by the mean of all of them."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tacit.channel import Outcome, Program
from tacit.estimators.base import released
from tacit.factor.arrays import SomeFloats
from tacit.factor.row_table import Table
from tacit.factor.svd.estimator import Components
from tacit.factor.svd.program import pca_program
from tacit.validation import TableLike


class PCA(Components):
    r"""Principal components: the singular vectors of the rows less their mean, the mean being that of **all** holders' rows.

    Sparse rows are never made dense: the mean is subtracted from products, not from the rows.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of features.
    hide_singular_values, method, oversample, max_iter, tol, random_state
        As for `tacit.SVD`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    mean_ : ndarray of shape (n_features,)
        Of all rows.
    n_samples_ : int
        Number of all rows.
    singular_values_, explained_variance_ : ndarray of shape (n_components,)
        Only with ``hide_singular_values=False``. The variance along a component is its singular value squared, by
        ``n_samples_ - 1``.
    n_iter_ : int
        Number of exchanges, beside the one for the mean; alone, of products that ARPACK asked for.
    residual_ : float
        As for `tacit.SVD`.
    guarantee_ : Guarantee
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the columns have names.

    Privacy
    -------
    As for `tacit.SVD`; beside that, the number of all rows and the sums of their columns leave, in one sum.

    References
    ----------
    Tsikhanovich et al. 2019, Appendix D. There (Algorithm 6) a holder subtracts a multiple of its own mean, which
    does not give the principal components of all rows unless all holders have the same mean.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PCA
    >>> generator = np.random.default_rng(0)
    >>> X = 5 + generator.standard_normal((500, 6)) * [5, 3, 1, 1, 1, 1]
    >>> model = PCA(2, hide_singular_values=False).fit(X)
    >>> np.abs(model.components_).argmax(axis=1)
    array([0, 1])
    """

    mean_: SomeFloats = released()
    n_samples_: int = released()
    explained_variance_: SomeFloats = released()

    def inverse_transform(self, scores: ArrayLike) -> SomeFloats:
        """Return the rows that have these scores: the mean plus the components' parts."""
        check_is_fitted(self)
        rows: SomeFloats = super().inverse_transform(scores) + self.mean_
        return rows

    def _scores(self, table: Table) -> SomeFloats:
        scores: SomeFloats = super()._scores(table) - self.mean_ @ self.components_.T
        return scores

    def _program(self, X: TableLike, y: object = None, *, alone: bool = False, one_owner: bool = False) -> Program:
        """As that of `SVD`, with one exchange before it."""
        settings = self._settings(alone, one_owner)
        return pca_program(self._checked(X, settings), settings)

    def _learned(self, outcome: Outcome) -> Self:
        super()._learned(outcome)
        self.mean_ = outcome.public["mean"].astype(outcome.private["dtype"])
        self.n_samples_ = outcome.public["count"]
        if "singular_values" in outcome.public:
            spread = np.square(outcome.public["singular_values"]) / max(self.n_samples_ - 1, 1)
            self.explained_variance_ = spread.astype(outcome.private["dtype"])
        return self
