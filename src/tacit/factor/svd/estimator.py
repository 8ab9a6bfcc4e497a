"""Truncated singular value decomposition: the estimator, and what it shares with principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.channel import Outcome, Program, has_one_owner, is_alone
from tacit.estimators.base import public, released
from tacit.estimators.holders import AmongHolders
from tacit.estimators.input import Rows, check_components, validated
from tacit.estimators.saved import SavedModel
from tacit.factor.arrays import SomeFloats
from tacit.factor.row_table import Table
from tacit.factor.svd.program import SVDSettings, svd_program
from tacit.validation import TableLike, check_choice, check_count, check_flag, check_non_negative, check_seed

if TYPE_CHECKING:
    from sklearn.utils import Tags


class Components(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AmongHolders, SavedModel):  # type: ignore[misc]
    """What `SVD` and `PCA` have in common: parameters, fitting, projecting onto the components and back."""

    n_components: int = public(default=10, kw_only=False)
    hide_singular_values: bool = public(default=True)
    method: str = public(default="lanczos")
    oversample: int = public(default=10)
    max_iter: int = public(default=100)
    tol: float = public(default=1e-9)
    random_state: int = public(default=0)
    components_: SomeFloats = released()
    singular_values_: SomeFloats = released()
    n_iter_: int = released()
    residual_: float = released()
    n_features_in_: int = released()

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn the components of the rows of `X`."""
        self._run(self._program(X, alone=is_alone(), one_owner=has_one_owner()))
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> SomeFloats:
        """Learn the components of the rows of `X`; return their scores, as `transform` would."""
        return self.fit(X).transform(X)

    def transform(self, X: TableLike) -> SomeFloats:
        """Return the scores of the rows: their coordinates along the components."""
        check_is_fitted(self)
        return self._scores(Table(self._validated(X, reset=False)))

    def inverse_transform(self, scores: ArrayLike) -> SomeFloats:
        """Return the rows that have these scores: of a table's own scores, its best approximation of this rank."""
        check_is_fitted(self)
        product: SomeFloats = np.asarray(scores) @ self.components_
        return product

    def _scores(self, table: Table) -> SomeFloats:
        return table.times(self.components_.T)

    def _program(self, X: TableLike, y: object = None, *, alone: bool = False, one_owner: bool = False) -> Program:
        """Return this holder's program, for any channel; the other holders' must have the same parameters and columns.

        If the holder is `alone`, it asks for nothing; if all holders have `one_owner`, it may ask about all columns at once.
        """
        settings = self._settings(alone, one_owner)
        return svd_program(self._checked(X, settings), settings)

    def _learned(self, outcome: Outcome) -> Self:
        """Set the fitted attributes from the outcome of `_program`."""
        result = outcome.public
        self.components_ = result["components"].astype(outcome.private["dtype"])
        self.n_iter_, self.residual_ = result["n_iter"], result["residual"]
        if "singular_values" in result:
            self.singular_values_ = result["singular_values"].astype(outcome.private["dtype"])
        return self

    def _settings(self, alone: bool, one_owner: bool) -> SVDSettings:
        return SVDSettings(
            n_components=check_count(self.n_components, "n_components"),
            hide_singular_values=check_flag(self.hide_singular_values, "hide_singular_values"),
            oversample=check_count(self.oversample, "oversample", least=0),
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=check_non_negative(self.tol, "tol"),
            seed=check_seed(self.random_state),
            alone=alone,
            one_owner=one_owner,
            power=check_choice(self.method, "method", ("lanczos", "power")) == "power",
        )

    def _checked(self, X: TableLike, settings: SVDSettings) -> Rows:
        """Return the holder's rows for a fit; the number of rows is not compared with anything: others have more."""
        rows = self._validated(X, reset=True)
        check_components(settings.n_components, rows.shape)
        return rows

    def _validated(self, X: TableLike, *, reset: bool) -> Rows:
        return validated(self, X, reset=reset, dtype=[np.float64, np.float32])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


class SVD(Components):
    r"""The leading right singular vectors of all holders' rows: :math:`X \approx X V V^\top`.

    Alone it is a truncated singular value decomposition, found by ARPACK; among holders every one learns the same V and keeps
    its own rows.
    Dense or sparse (CSR) rows, float32 or float64; sparse ones are never made dense, and :math:`X^\top X` is formed
    on a cluster of one owner only, if it is small.

    Parameters
    ----------
    n_components : int
        Number k of singular vectors, at most the number of features.
    hide_singular_values : bool, default=True
        Ask for the *directions* of totals only (`tacit.channel.NormedSum`). Otherwise for the totals, which give the
        singular values too; among two holders, or where the channel has no normalised sum, use that.
    method : {"lanczos", "power"}, default="lanczos"
        "lanczos": block Lanczos among holders, ARPACK alone. "power": exactly `max_iter` steps of the block power iteration,
        Algorithm 4 of Tsikhanovich et al. as printed, for reproduction; it needs several times as many exchanges.
    oversample : int, default=10
        Among holders: further columns of an exchange; more make each larger and all of them fewer. On a cluster of one owner,
        a table with at most 6 (k + oversample) columns needs one exchange, of X'X.
    max_iter : int, default=100
        Among holders: maximum number of exchanges. With "power", the number of steps.
    tol : float, default=1e-9
        Alone, the tolerance of ARPACK. Among holders: stop when the residuals :math:`\|S v - \theta v\|` of
        :math:`S = X^\top X` are all below this fraction of the smallest wanted eigenvalue. It follows from totals alone, as
        do the two other ends: nothing is left to ask, or the residuals, already small, stop shrinking because the totals are
        not more precise.
    random_state : int, default=0
        Seed of the first directions, which do not depend on the data. All holders need the same.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The rows are the singular vectors, the strongest first, each with its largest entry positive.
    singular_values_ : ndarray of shape (n_components,)
        Only if they were not hidden.
    n_iter_ : int
        Number of exchanges; alone, of products that ARPACK asked for.
    residual_ : float
        What `tol` is compared with. Well above it, some components are not found: the spectrum has no gap there, or
        `max_iter` was too small.
    guarantee_ : Guarantee
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the columns have names.

    Privacy
    -------
    No guarantee by itself. What leaves a holder is its term of a sum of d x (k + oversample) numbers an exchange, and
    a channel decides who sees it. Of the total, all see the directions of the columns, or with
    ``hide_singular_values=False`` the columns. **What hiding hides is the scale**: how large the data are, and with
    it the number of rows of known size. The *ratios* of the singular values follow from the directions of several
    exchanges, in this as in every power iteration. `tacit.measure.ksdp` measures what that reveals about single
    rows.

    References
    ----------
    Tsikhanovich et al. 2019 (PD-SVD, Algorithm 4); Wu & Simon 2000 (thick-restart Lanczos).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import SVD
    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((200, 4)) @ generator.standard_normal((4, 30))
    >>> model = SVD(4).fit(X)
    >>> bool(np.allclose(model.inverse_transform(model.transform(X)), X))
    True
    >>> bool(np.allclose(SVD(4, hide_singular_values=False).fit(X).singular_values_, np.linalg.svd(X)[1][:4]))
    True
    """
