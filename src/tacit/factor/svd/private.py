"""Singular vectors, principal components and regression on them, with differential privacy.

All three come from one private estimate of the rows' mean and covariance (`tacit.factor.noisy_moments.centred`): noise is
added to the second moment of the rows' distances to a released centre, not to that of the rows themselves, which is larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.channel import Outcome, Program, Split, Sum
from tacit.errors import InvalidInputError, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.input import (
    Rows,
    as_numbers,
    check_components,
    checked_range,
    clip_rows,
    clipped_fraction,
    validated,
)
from tacit.estimators.private import PrivateFit
from tacit.estimators.verdict import (
    Concern,
    about_columns,
    about_directions,
    about_strength,
    not_better_than,
    some_rows,
)
from tacit.factor.arrays import Floats
from tacit.factor.noisy_moments.centred import LEAST_SPREAD, SPLIT, TINY, CentredMoments, centred_moments_program
from tacit.factor.noisy_moments.symmetric import nearest_semidefinite, pack, semicircle_edge, unpack
from tacit.factor.row_table import Table
from tacit.factor.svd.estimator import SVD
from tacit.factor.svd.pca import PCA
from tacit.factor.svd.program import signed
from tacit.factor.svd.regression import PrincipalComponentRegression, checked_targets
from tacit.validation import TableLike, check_count, check_positive

if TYPE_CHECKING:
    from sklearn.utils import Tags

REGRESSION_SPLIT = SPLIT.scaled(0.6) | Split(normal=0.4)
"""Components and regression; chosen on the wine quality data."""
EXPLAINED = 0.02
"""The variance of targets between -1 and 1 that the components explain is taken to be at most this. Set by hand, on the wine
quality data."""
CONSTANT_VARIANCE = 0.1
"""Prior variance of the prediction at the mean, for targets between -1 and 1. Set by hand."""
SCORE_LENGTHS = 2.0
"""For the regression, scores are clipped to this many times their expected length."""


@dataclass(frozen=True)
class ComponentSettings:
    """Public bounds of a private estimate of components; see `PrivateSVD`."""

    n_components: int
    row_norm: float
    max_columns: int
    non_negative: bool


class PrivateComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateFit):  # type: ignore[misc]
    """What `PrivateSVD`, `PrivatePCA` and `PrivatePCR` share: public bounds, fitting, projecting and back."""

    _centred: ClassVar[bool] = True

    n_components: int = public(default=10, kw_only=False)
    row_norm: float = public(default=1.0)
    feature_range: ArrayLike | None = public(default=None)
    non_negative: bool = public(default=False)
    max_columns: int = public(default=2000)
    components_: Floats = released()
    mean_: Floats = released()
    count_: float = released()
    n_features_in_: int = released()
    clipped_fraction_: float = learned()

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn and release the components of the rows of `X` (dense or sparse)."""
        rows = self._checked(X)
        if math.isinf(self.epsilon):
            self._fit_without_noise(clip_rows(rows, self.row_norm))
        else:
            program = components_program(rows, self._settings(), centred=self._centred)
            self._learned(self._run(X, program, self._plan(SPLIT)).public)
            self._note_about(rows)
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> Floats:
        """Learn the components of the rows of `X`; return their scores, as `transform` would."""
        return self.fit(X, y).transform(X)

    def transform(self, X: TableLike) -> Floats:
        """Return the scores of the rows, their coordinates along the components; they stay with whoever holds the rows."""
        check_is_fitted(self, "components_")
        return self._scores(self.scaled(self._validated(X, reset=False)))

    def inverse_transform(self, scores: ArrayLike) -> Floats:
        """Return the rows that have these scores."""
        check_is_fitted(self, "components_")
        rows = np.asarray(scores) @ self.components_
        if self._centred:
            rows = rows + self.scaled(self.mean_[None])
        if self.feature_range is None:
            return rows
        middle, half = self._middle_and_half(rows.shape[1])
        return np.asarray(rows * half + middle)

    def _scores(self, rows: Rows) -> Floats:
        scores = np.asarray(Table(rows).times(self.components_.T), dtype=np.float64)
        return scores - self.scaled(self.mean_[None]) @ self.components_.T if self._centred else scores

    def _learned(self, result: Mapping[str, Any]) -> None:
        """Take over what the program found."""
        self.components_, self.count_ = result["components"], result["count"]
        self._set_mean(result["mean"])
        self._set_values(result["values"])

    def _note_about(self, rows: Rows) -> None:
        """Note concerns about the columns, and about what the components explain of some of the rows."""
        (some,) = some_rows(rows)
        some = some.toarray() if hasattr(some, "toarray") else some
        centred = some - self.scaled(self.mean_[None]) if self._centred else some
        total = float(np.square(centred).sum())
        explained = float(np.square(centred @ self.components_.T).sum()) / total if total else 1.0
        names = getattr(self, "feature_names_in_", None)
        directions = about_directions(explained, *self.components_.shape)
        spread = (
            some - some.mean(axis=0) if self._centred else some
        )  # by the true mean: the noise of few rows is no column's
        self._note_concerns([*about_columns(spread, names), *directions])

    def _concerns(self) -> list[Concern]:
        values = vars(self).get("singular_values_", vars(self).get("explained_variance_", ()))
        return [] if math.isinf(self.epsilon) else about_strength(values)

    def _set_mean(self, mean: Floats) -> None:
        """Keep the mean, in the units of the rows as they were given."""
        middle, half = self._middle_and_half(len(mean)) if self.feature_range is not None else (0.0, 1.0)
        self.mean_ = mean * half + middle

    def _set_values(self, values: Floats) -> None:
        """Keep the variance along the components."""
        raise NotImplementedError

    def _fit_without_noise(self, rows: Rows) -> None:
        raise NotImplementedError

    def _settings(self) -> ComponentSettings:
        non_negative = bool(self.non_negative and self.feature_range is None)
        return ComponentSettings(self.n_components, self.row_norm, self.max_columns, non_negative)

    def _checked(self, X: TableLike) -> Rows:
        """Return the rows for a fit, scaled by their public range."""
        check_count(self.n_components, "n_components")
        check_positive(self.row_norm, "row_norm")
        check_count(self.max_columns, "max_columns")
        rows = self._validated(X, reset=True)
        check_components(self.n_components, rows.shape)
        rows = self.scaled(rows)
        self.clipped_fraction_ = clipped_fraction(rows, self.row_norm)
        return rows

    def _validated(self, X: TableLike, *, reset: bool) -> Rows:
        return validated(self, X, reset=reset, non_negative=bool(self.non_negative))

    @overload
    def scaled(self, rows: Floats) -> Floats: ...
    @overload
    def scaled(self, rows: Rows) -> Rows: ...
    def scaled(self, rows: Rows) -> Rows:
        """Return the rows as the components see them: every column mapped from its public range to [-1, 1] / sqrt(n_features).

        Without a `feature_range` they stay as they are.
        """
        if self.feature_range is None:
            return rows
        if not isinstance(rows, np.ndarray):
            raise InvalidInputError(
                "dense rows with feature_range",
                words("sparse ones"),
                "Centring would make them dense: leave feature_range out and give row_norm, or call toarray() first.",
            )
        middle, half = self._middle_and_half(rows.shape[1])
        return (np.clip(rows, *checked_range(self.feature_range, rows.shape[1])) - middle) / half

    def _middle_and_half(self, features: int) -> tuple[Floats, Floats]:
        low, high = checked_range(self.feature_range, features)
        return (low + high) / 2, (high - low) / 2 * math.sqrt(features)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


def components_program(X: Rows, settings: ComponentSettings, *, centred: bool, split: Split = SPLIT) -> Program:
    """One holder's view: the moments of the rows, and their leading directions.

    The public part has ``components``, ``values`` (the mean square of the rows along them, 0 for a direction that did not rise
    above the noise), ``mean``, ``count`` and ``spread``.
    """
    outcome = yield from centred_moments_program(
        X,
        row_norm=settings.row_norm,
        max_columns=settings.max_columns,
        non_negative=settings.non_negative,
        rank=settings.n_components,
        split=split,
    )
    moments: CentredMoments = outcome.public["moments"]
    components, values = moments.vectors, moments.values
    if not centred:
        components, values = uncentred(moments)
    leading = {"components": signed(components), "values": values}
    return Outcome({**leading, "mean": moments.mean, "count": moments.count, "spread": moments.spread})


def uncentred(moments: CentredMoments) -> tuple[Floats, Floats]:
    """Return the leading directions of covariance plus mean times mean, which is the second moment, and their values."""
    above = moments.values > 0
    factor = np.vstack([moments.mean, np.sqrt(moments.values[above])[:, None] * moments.vectors[above]])
    _, lengths, rotated = np.linalg.svd(factor, full_matrices=False)
    size = len(moments.values)
    directions = np.vstack([rotated, moments.vectors[~above]])[:size]
    # what is not above the noise is made orthogonal to what is
    basis, triangle = np.linalg.qr(directions.T)
    directions = (basis * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T
    return directions, np.concatenate([lengths**2, np.zeros(size)])[:size]


class PrivateSVD(PrivateComponents):
    r"""The leading right singular vectors of the rows, :math:`X \approx X V V^\top`, with differential privacy.

    Parameters
    ----------
    n_components : int
        Number k of singular vectors, at most the number of features.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` is `tacit.SVD` on the clipped rows.
    row_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it.
    feature_range : pair, optional
        Public lowest and highest value of the columns: two numbers, or two lists. Values beyond are clipped, and each
        column is mapped to [-1, 1] divided by the root of the number of columns, so that no row is longer than 1. For
        tables whose columns have different units; nothing is standardised by moments of the private rows. Dense rows only.
    non_negative : bool, default=False
        Promise that no entry is negative (one that is, is refused). Then column sums say how much of the rows is in a
        column, and the covariance of wide tables, as of texts, can be restricted to the columns that matter.
    max_columns : int, default=2000
        Maximum number of columns in the covariance, for time and memory. The components are zero on the others.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, the strongest first, each with its largest entry positive.
    singular_values_ : ndarray of shape (n_components,)
        Shrunk by the noise; 0 for a component that did not rise above it. Rows are clipped on the way, so they are
        rather too small.
    mean_ : ndarray of shape (n_features,)
    count_ : float
        Noisy number of rows.
    clipped_fraction_ : float
        Fraction of the rows that were longer than `row_norm`. Computed without noise: for the holder only, and not saved.
    guarantee_ : Guarantee

    Privacy
    -------
    Unit: one row. What leaves: the three noisy sums of `tacit.factor.noisy_moments.centred`. Why the bound holds: every row is
    scaled by public numbers and clipped for itself before it is added; the centre, the columns kept and the clipping
    lengths follow from earlier releases. The components are post-processing. The number of rows need not be known.

    References
    ----------
    C. Dwork, K. Talwar, A. Thakurta, L. Zhang. Analyze Gauss. STOC 2014: noise on the second moment of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateSVD
    >>> X = np.random.default_rng(0).dirichlet(np.ones(6) / 3, size=5000)
    >>> PrivateSVD(2, epsilon=3.0).fit_transform(X).shape
    (5000, 2)
    """

    _centred = False

    singular_values_: Floats = released()

    def _set_values(self, values: Floats) -> None:
        self.singular_values_ = np.sqrt(values * self.count_)

    def _fit_without_noise(self, rows: Rows) -> None:
        plain = SVD(self.n_components, hide_singular_values=False).fit(rows)
        self.components_ = np.asarray(plain.components_, dtype=np.float64)
        self.singular_values_ = np.asarray(plain.singular_values_, dtype=np.float64)
        self.count_ = float(rows.shape[0])
        self._set_mean(np.asarray(rows.mean(axis=0)).ravel())
        self.guarantee_ = plain.guarantee_


class PrivatePCA(PrivateComponents):
    """Principal components of the rows, with differential privacy.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of features.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` is `tacit.PCA` on the clipped rows.
    row_norm, feature_range, non_negative, max_columns, adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateSVD`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, the strongest first, each with its largest entry positive.
    mean_ : ndarray of shape (n_features,)
        Shrunk by the noise; in the units of the rows.
    explained_variance_ : ndarray of shape (n_components,)
        Along the components, shrunk by the noise; 0 for a component that did not rise above it. With `feature_range`, of
        the scaled columns. Rows are clipped on the way, so the variances are rather too small.
    count_, clipped_fraction_, guarantee_
        As for `PrivateSVD`.

    Privacy
    -------
    As for `PrivateSVD`. The mean and the number of rows are released too, so neither has to be known.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivatePCA
    >>> X = 5 + np.random.default_rng(0).standard_normal((20000, 6)) * [3, 2, 1, 1, 1, 1]
    >>> model = PrivatePCA(2, epsilon=3.0, feature_range=(-5, 15)).fit(X)
    >>> np.abs(model.components_).argmax(axis=1).tolist()
    [0, 1]
    """

    explained_variance_: Floats = released()

    def _set_values(self, values: Floats) -> None:
        self.explained_variance_ = values

    def _fit_without_noise(self, rows: Rows) -> None:
        plain = PCA(self.n_components, hide_singular_values=False).fit(rows)
        self.components_ = np.asarray(plain.components_, dtype=np.float64)
        self.explained_variance_ = np.asarray(plain.explained_variance_, dtype=np.float64)
        self.count_ = float(plain.n_samples_)
        self._set_mean(np.asarray(plain.mean_, dtype=np.float64))
        self.guarantee_ = plain.guarantee_


class PrivatePCR(RegressorMixin, PrivateComponents):  # type: ignore[misc]
    """Linear regression on the scores of the leading principal components, with differential privacy.

    Parameters
    ----------
    n_components : int
        Number k of components, at most the number of features.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` is `tacit.PrincipalComponentRegression`
        on the clipped rows.
    target_range : pair, default=(0.0, 1.0)
        Public lowest and highest target; targets beyond are clipped, and so are predictions.
    row_norm, feature_range, non_negative, max_columns, adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateSVD`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_, mean_, explained_variance_, count_, clipped_fraction_, guarantee_
        As for `PrivatePCA`.
    score_coef_ : ndarray of shape (n_components,)
        Coefficients of the scores.
    intercept_ : float
        The prediction where all scores are 0.
    clipped_target_fraction_ : float
        Fraction of the targets outside `target_range`, without noise: for the holder only, and not saved.

    Privacy
    -------
    Unit: one row with its target. What leaves: the sums of `PrivatePCA`, and one more with the normal equations of the
    scores. Why the bound holds: with a constant in front, scores clipped to length 1 have norm at most sqrt(2), so
    their outer product has norm at most 2 and their product with a target in [-1, 1] at most sqrt(2).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivatePCR
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 4)) * [1, 1, 0.1, 0.1]
    >>> y = X[:, 0] - X[:, 1] / 2
    >>> model = PrivatePCR(2, epsilon=3.0, feature_range=(-1, 1), target_range=(-2, 2)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    target_range: tuple[float, float] = public(default=(0.0, 1.0))
    explained_variance_: Floats = released()
    score_coef_: Floats = released()
    intercept_: float = released()
    clipped_target_fraction_: float = learned()

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn and release the components of the rows of `X` and the regression of `y` on their scores."""
        rows = self._checked(X)
        targets = checked_targets(self, rows, y)
        (low,), (high,) = checked_range(self.target_range, 1, "target_range")
        self.clipped_target_fraction_ = float(((targets < low) | (targets > high)).mean())
        scaled = 2 * (np.clip(targets, low, high) - low) / (high - low) - 1
        if math.isinf(self.epsilon):
            plain = PrincipalComponentRegression(self.n_components, hide_singular_values=False)
            plain.fit(clip_rows(rows, self.row_norm), scaled)
            self.components_ = np.asarray(plain.components_, dtype=np.float64)
            self.explained_variance_ = np.asarray(plain.explained_variance_, dtype=np.float64)
            self.count_, self.guarantee_ = float(plain.n_samples_), plain.guarantee_
            self._set_mean(np.asarray(plain.mean_, dtype=np.float64))
            coefficients, constant = plain.score_coef_, float(plain.intercept_ + plain.mean_ @ plain.coef_)
        else:
            program = regression_program(rows, scaled, self._settings())
            result = self._run((X, targets), program, self._plan(REGRESSION_SPLIT)).public
            self._learned(result)
            coefficients, constant = result["coefficients"], result["constant"]
        half = (high - low) / 2
        self.score_coef_, self.intercept_ = coefficients * half, float(low + (constant + 1) * half)
        if not math.isinf(self.epsilon):
            some, answers = some_rows(rows, targets)
            predicted = np.clip(self._scores(some) @ self.score_coef_ + self.intercept_, low, high)
            errors = [float(np.sqrt(np.square(answers - one).mean())) for one in (predicted, answers.mean())]
            self._note_concerns(not_better_than("the mean target", *errors, measure="error on some of the rows"))
        return self

    def predict(self, X: TableLike) -> Floats:
        """Return the predicted targets of the rows, within `target_range`."""
        low, high = checked_range(self.target_range, 1, "target_range")
        predicted: Floats = np.clip(self.transform(X) @ self.score_coef_ + self.intercept_, low, high)
        return predicted

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the predictions."""
        return float(super().score(X, as_numbers(y, "targets"), sample_weight))

    def _set_values(self, values: Floats) -> None:
        self.explained_variance_ = values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the noise, and components chosen without looking at the target
        tags.target_tags.required = True
        return tags


def regression_program(X: Rows, targets: NDArray[np.float64], settings: ComponentSettings) -> Program:
    """One holder's view: components, then the normal equations of the scores, with a ridge of the size of their noise.

    The public part has ``coefficients`` and ``constant`` beside what `components_program` finds; targets are in [-1, 1].
    """
    outcome = yield from components_program(X, settings, centred=True, split=REGRESSION_SPLIT)
    components, values, row_norm = outcome.public["components"], outcome.public["values"], settings.row_norm
    # a direction that did not rise above the noise has about as much of the spread as any other
    unknown = float((values == 0).mean()) * len(values) / components.shape[1] * outcome.public["spread"] ** 2
    length = max(SCORE_LENGTHS * math.sqrt(float(values.sum()) + unknown), LEAST_SPREAD * row_norm)
    rows = clip_rows(X, row_norm)
    scores = clip_rows(Table(rows).times(components.T) - outcome.public["mean"] @ components.T, length) / length
    design = np.hstack([np.ones((len(scores), 1)), scores])
    total = yield Sum(
        gram=pack(design.T @ design),
        moment=design.T @ targets,
        # |design| <= sqrt(2), |target| <= 1
        bound={"gram": 2.0, "moment": math.sqrt(2)},
        step=REGRESSION_SPLIT["normal"],
        units=len(scores),
    )
    size = design.shape[1]
    count = max(float(outcome.public["count"]), 1.0)
    gram = nearest_semidefinite(unpack(total["gram"], size))
    # the noise of the products is known: it acts like this much less of the scores' variance
    ridge = semicircle_edge(total.noise["gram"], size)
    explained = explained_variance(gram, total["moment"], ridge, total.noise["moment"], count)
    # of the constant, which has no variance to lose, noise in the number of rows and in the sum of the targets counts
    own = (total.noise["moment"] ** 2 / CONSTANT_VARIANCE + total.noise["gram"] ** 2) / max(float(gram[0, 0]), 1.0)
    solution = np.append(total["moment"][0] / (gram[0, 0] + own + TINY), np.zeros(size - 1))
    if explained > 0:
        # what the noise does to the solution if the components explain this much
        ridge += total.noise["moment"] ** 2 * size / count / explained
        solution = np.linalg.solve(gram + np.diag(np.append(own, np.full(size - 1, ridge))), total["moment"])
    return Outcome({**outcome.public, "coefficients": solution[1:] / length, "constant": float(solution[0])})


def explained_variance(gram: Floats, moment: Floats, ridge: float, noise: float, count: float) -> float:
    """Return how much of the targets' variance the scores explain beyond what noise alone would seem to; 0 if that is nothing.

    After the constant is eliminated, scores that explain nothing have products with the targets that are noise alone, so the mean
    of their squared length is known. (To ask for one or two standard deviations more was worse on the wine quality data.)
    """
    constant = max(float(gram[0, 0]), 1.0)
    scores = gram[1:, 1:] - np.outer(gram[1:, 0], gram[1:, 0]) / constant
    products = moment[1:] - gram[1:, 0] * moment[0] / constant
    values, vectors = np.linalg.eigh(scores)
    values = np.maximum(values, 0.0) + ridge + TINY
    surplus = float(np.sum(((vectors.T @ products) ** 2 - noise**2) / values))
    return min(max(surplus / count, 0.0), EXPLAINED)
