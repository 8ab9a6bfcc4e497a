"""Regression on principal components, with normal equations totalled over all holders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tacit.channel import NormedSum, Outcome, Program, Sum, has_one_owner, is_alone
from tacit.errors import InvalidInputError, kind_of, words
from tacit.estimators.base import Estimator, released
from tacit.estimators.input import Rows, as_numbers
from tacit.factor.arrays import SomeFloats
from tacit.factor.svd.pca import PCA
from tacit.factor.svd.program import CentredRows, SVDSettings, column_sums, svd_program
from tacit.validation import TableLike, refuse_dates

if TYPE_CHECKING:
    from sklearn.utils import Tags


def regression_program(X: Rows, y: NDArray[np.float64], settings: SVDSettings) -> Program:
    r"""One holder's view: means, components, then :math:`\beta = (Z^\top Z)^{-1} Z^\top (y - \bar y)` of all scores Z.

    This is principal component regression (PCR) of Tsikhanovich et al. (2019), section 5.2, where :math:`\beta`
    minimises :math:`\|Z\beta - y_0\|` over each party's own rows and :math:`y_0` is centred by the party's own mean;
    here both are over all rows.

    :math:`\beta` does not change if both sides of the normal equations have the same factor. So where singular values
    are hidden, the two are asked for as *one* normalised vector: :math:`Z^\top Z` by itself would give the singular
    values.

    The public part has ``coefficients`` (of the scores) and ``target_mean`` beside what `pca_program` finds.
    """
    total = yield Sum(columns=column_sums(X), count=[X.shape[0]], target=[float(y.sum())])
    count = float(total["count"][0])
    mean, target_mean = total.columns / count, float(total.target[0]) / count
    outcome = yield from svd_program(X, settings, mean=mean)
    k = settings.n_components
    scores = CentredRows(X, mean).scores(outcome.public["components"].T)
    normal = np.concatenate([(scores.T @ scores).ravel(), scores.T @ (y - target_mean)])
    answer = yield (NormedSum if settings.hide_singular_values else Sum)(normal=normal)
    square, moment = answer.normal[: k * k].reshape(k, k), answer.normal[k * k :]
    # a component without variance has no scores to regress on: the least-norm solution gives it none
    coefficients = np.linalg.lstsq((square + square.T) / 2, moment, rcond=1e-12)[0]
    learned = {"coefficients": coefficients, "target_mean": target_mean, "mean": mean, "count": round(count)}
    return Outcome(public={**outcome.public, **learned}, private=outcome.private)


def checked_targets(estimator: Estimator, X: Rows, y: object) -> NDArray[np.float64]:
    """Return the targets as a vector of finite numbers, one per row of `X`."""
    if y is None:
        raise InvalidInputError(
            "a target for every row",
            words(f"none: {type(estimator).__name__} requires y to be passed, but the target y is None"),
            "Call fit(X, y).",
        )
    refuse_dates(y, "targets")
    try:
        target = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("one number per row as the target", kind_of(y), "Give y as a vector.") from None
    if len(target) != X.shape[0] or not np.all(np.isfinite(target)):
        raise InvalidInputError(
            "one finite target per row",
            words("more or fewer targets than rows" if len(target) != X.shape[0] else "NaN or infinity (inf)"),
            "Give y in the order of the rows; fill or drop what is missing.",
        )
    return target


class PrincipalComponentRegression(RegressorMixin, PCA):  # type: ignore[misc]
    r"""Linear regression on the scores of the leading principal components of all holders' rows.

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
    components_, mean_, n_samples_, n_iter_, residual_, guarantee_, n_features_in_, feature_names_in_
        As for `tacit.PCA`.
    score_coef_ : ndarray of shape (n_components,)
        Coefficients of the scores.
    coef_ : ndarray of shape (n_features,)
        Coefficients of the features: :math:`V \beta`.
    intercept_ : float

    Privacy
    -------
    As for `tacit.PCA`. Beside that leave: the sum of the targets, and the normal equations of the scores in one
    vector, of which only the direction is asked for if singular values are hidden; the regression needs no more.

    References
    ----------
    Tsikhanovich et al. 2019, section 5.2, where each holder regresses on its own rows only.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrincipalComponentRegression
    >>> generator = np.random.default_rng(0)
    >>> X = 5 + generator.standard_normal((500, 6)) * [5, 3, 1, 1, 1, 1]
    >>> y = X @ [1, 2, 0, 0, 0, 0] + 3
    >>> bool(PrincipalComponentRegression(2).fit(X, y).score(X, y) > 0.99)
    True
    """

    score_coef_: SomeFloats = released()
    coef_: SomeFloats = released()
    intercept_: float = released()

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn the components of the rows of `X` and the regression of `y` on their scores."""
        self._run(self._program(X, y, alone=is_alone(), one_owner=has_one_owner()))
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> SomeFloats:
        """Fit; return the scores of the rows."""
        return self.fit(X, y).transform(X)

    def predict(self, X: TableLike) -> SomeFloats:
        """Return the predicted targets of the rows."""
        check_is_fitted(self)
        return np.asarray(self._validated(X, reset=False) @ self.coef_ + self.intercept_)

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the predictions."""
        return float(super().score(X, as_numbers(y, "targets"), sample_weight))

    def _program(self, X: TableLike, y: object = None, *, alone: bool = False, one_owner: bool = False) -> Program:
        """As that of `PCA`, with the normal equations after it."""
        settings = self._settings(alone, one_owner)
        rows = self._checked(X, settings)
        return regression_program(rows, checked_targets(self, rows, y), settings)

    def _learned(self, outcome: Outcome) -> Self:
        super()._learned(outcome)
        public, dtype = outcome.public, outcome.private["dtype"]
        coefficients = public["components"].T @ public["coefficients"]
        self.score_coef_ = public["coefficients"].astype(dtype)
        self.coef_ = coefficients.astype(dtype)
        self.intercept_ = float(public["target_mean"] - public["mean"] @ coefficients)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the components are chosen without looking at the target
        return tags
