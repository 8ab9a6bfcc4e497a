"""Non-negative matrix factorisation, without privacy: the whole fit from one holder's view, and the estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.channel import Outcome, Program
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public, released
from tacit.estimators.holders import AmongHolders
from tacit.estimators.input import Rows, check_components, validated
from tacit.estimators.saved import SavedModel
from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.nnls import Outliers, Penalty, solve_rows
from tacit.factor.nmf.pd_nmf import merge_program, topic_program
from tacit.factor.nmf.program import NMFSettings, batch_program, nmf_program
from tacit.factor.nmf.start import checked_start, nndsvd_program, random_program
from tacit.factor.row_table import Table
from tacit.validation import (
    TableLike,
    check_choice,
    check_count,
    check_flag,
    check_non_negative,
    check_positive,
    check_rate,
    check_seed,
)

if TYPE_CHECKING:
    from sklearn.utils import Tags

SCHEDULES = ("sweep", "topic")


def fit_program(
    X: Rows,
    n_components: int,
    start: str | NDArray[np.float64],
    *,
    schedule: str,
    random_state: int,
    settings: NMFSettings,
) -> Program:
    """One holder's view of a fit; nothing of the start is one holder's own.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The holder's rows.
    n_components : int
    start : str or ndarray
        As `checked_start` returns it.
    schedule : {"sweep", "topic"}
    random_state : int
    settings : NMFSettings
    """
    if not isinstance(start, str):
        T = start
    elif start == "nndsvd":
        T, _ = yield from nndsvd_program(X, n_components, random_state=random_state)
    elif start == "random":
        T, _ = yield from random_program(X, n_components, random_state=random_state)
    else:
        T, _ = yield from merge_program(X, n_components, random_state=random_state, settings=settings)
    sweeps = nmf_program if schedule == "sweep" else topic_program
    return (yield from sweeps(X, T, settings=settings))


class NMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AmongHolders, SavedModel):  # type: ignore[misc]
    r"""Non-negative matrix factorisation :math:`X \approx W T`, with outliers set aside if asked for.

    .. math::

        \min_{W, T \ge 0,\ |R| \le M}\ \tfrac12\|X - WT - R\|_F^2 + \lambda\|R\|_1
            + l_1^W \|W\|_1 + \tfrac{l_2^W}{2} \|W\|_F^2 + l_1^T \|T\|_1 + \tfrac{l_2^T}{2} \|T\|_F^2

    Accelerated HALS with extrapolation; the objective never increases. `X` may be dense or sparse (CSR), float32 or
    float64. Without outliers a sparse `X` is never made dense; with them, a few rows at a time are, and the
    work is that of a dense table. Runs on ``NUMBA_NUM_THREADS`` threads, all cores if that is not set.

    Parameters
    ----------
    n_components : int
        Rank k of the factorisation, at most the number of features.
    outliers : float, optional
        The :math:`\lambda` of the model: what an outlier costs per unit of its size, so a residual below it is not one.
        Without it there is no R.
    outlier_bound : float, default=inf
        The largest size M of an outlier.
    init : {"nndsvd", "random", "merge-local"} or ndarray of shape (n_components, n_features), default="nndsvd"
        The starting dictionary. Among holders all follow from totals: "nndsvd" by a singular value decomposition of all rows,
        "merge-local" by factorising the topics that each holder found alone (PD-NMF-Init), "random" from the seed.
    schedule : {"sweep", "topic"}, default="sweep"
        One exchange per sweep, or one per topic as in PD-NMF-Iter, without extrapolation and without outliers. Both end at
        the same kind of point.
    simplex : bool, default=False
        With ``schedule="topic"``: project every topic onto the simplex after its update, so that its entries sum to 1, as
        Algorithm 1 of Tsikhanovich et al. prints it. For reproduction: the objective may rise.
    max_iter : int, default=200
        Most sweeps.
    tol : float, default=1e-5
        Stop when a sweep lowers the objective by less than this fraction of it; 0 makes all sweeps.
    l1_W, l2_W, l1_T, l2_T : float, default=0.0
        Penalties of the factors. They are not scaled by the size of `X`. One on a single factor shrinks it and grows the
        other, which undoes it; penalise both, or neither.
    forget_factor : float, default=0.7
        In `partial_fit`: what the statistics of earlier batches count, at every new batch.
    random_state : int, default=0
        Seed of the random start, and of the randomised SVD.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The dictionary T. Its rows have unit length if there are no penalties, and the sum 1 with `simplex`.
    reconstruction_err_ : float
        Frobenius norm of ``X - W T - R`` on the data last fitted.
    loss_curve_ : ndarray of shape (``n_iter_``,)
        The objective after every sweep; a sweep that was taken back repeats the value before it.
    n_iter_ : int
        Number of sweeps, or of batches.
    sum_WX_, sum_WW_ : ndarray
        :math:`W^\top (X - R)` and :math:`W^\top W`, from which `partial_fit` goes on.
    guarantee_ : Guarantee
        That there is none.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the columns have names.

    Privacy
    -------
    None: every number of the model depends on the data without noise.

    References
    ----------
    Gillis & Glineur 2012 (accelerated HALS), Ang & Gillis 2019 (extrapolation), Boutsidis & Gallopoulos 2008 (NNDSVD),
    Mairal et al. 2010 (online), Saha & Imtiaz 2022 (outliers).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import NMF
    >>> generator = np.random.default_rng(0)
    >>> X = generator.random((60, 3)) @ generator.random((3, 12))
    >>> model = NMF(3, tol=0).fit(X)
    >>> bool(model.reconstruction_err_ < 0.01 * np.linalg.norm(X))
    True
    """

    n_components: int = public(default=10, kw_only=False)
    outliers: float | None = public(default=None)
    outlier_bound: float = public(default=np.inf)
    init: Any = public(default="nndsvd")
    schedule: str = public(default="sweep")
    simplex: bool = public(default=False)
    max_iter: int = public(default=200)
    tol: float = public(default=1e-5)
    l1_W: float = public(default=0.0)
    l2_W: float = public(default=0.0)
    l1_T: float = public(default=0.0)
    l2_T: float = public(default=0.0)
    forget_factor: float = public(default=0.7)
    random_state: int = public(default=0)
    components_: SomeFloats = released()
    reconstruction_err_: float = released()
    loss_curve_: NDArray[np.float64] = released()
    n_iter_: int = released()
    sum_WX_: NDArray[np.float64] = released()
    sum_WW_: NDArray[np.float64] = released()
    n_features_in_: int = released()

    def fit(self, X: TableLike, y: object = None) -> NMF:
        """Learn the dictionary of the rows of `X`."""
        self._fit(X)
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> SomeFloats:
        """Learn the dictionary of the rows of `X`; return their W, as `transform` would."""
        outcome = self._fit(X)
        return self._solved(self._validated(X, reset=False), outcome.private["W"])

    def transform(self, X: TableLike) -> SomeFloats:
        """Return W for new rows: each solved for the dictionary, to convergence."""
        check_is_fitted(self)
        return self._solved(self._validated(X, reset=False))

    def inverse_transform(self, W: ArrayLike) -> SomeFloats:
        """Return ``W T``."""
        check_is_fitted(self)
        product: SomeFloats = np.asarray(W) @ self.components_
        return product

    def outliers_of(self, X: TableLike) -> Any:
        """Return R for the rows of `X`, sparse: what the dictionary does not explain and the model set aside."""
        from scipy.sparse import csr_array, vstack

        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        parts, limits = [], self._settings().outliers
        if limits is None:
            return csr_array(rows.shape, dtype=rows.dtype)
        for place, cleaned, _ in Table(rows).clean_blocks(
            self._solved(rows), self.components_, limits.threshold, limits.bound
        ):
            block = rows[place] if isinstance(rows, np.ndarray) else rows[place].toarray()
            parts.append(csr_array(block - cleaned))
        return vstack(parts, format="csr")

    def partial_fit(self, X: TableLike, y: object = None) -> NMF:
        """Improve the dictionary by one batch of rows.

        The statistics of the batch are added to those of earlier ones, which fade by `forget_factor`. The first batch is
        fitted in full.
        """
        if not hasattr(self, "components_"):
            return self.fit(X)
        rows = self._validated(X, reset=False)
        forget = check_rate(self.forget_factor, "forget_factor")
        batch = batch_program(
            rows, self.components_, self.sum_WX_, self.sum_WW_, forget=forget, settings=self._settings()
        )
        self._run(batch)
        self.n_iter_ += 1
        return self

    def _fit(self, X: Any) -> Outcome:
        return self._run(self._program(X))

    def _program(self, X: Any, y: object = None) -> Program:
        """Return this holder's program, for any channel; the other holders' must have the same parameters and columns."""
        settings = self._settings()
        k = check_count(self.n_components, "n_components")
        seed = check_seed(self.random_state)
        schedule = check_choice(self.schedule, "schedule", SCHEDULES)
        if schedule == "topic" and settings.outliers is not None:
            raise InvalidInputError(
                "no outliers with schedule='topic'", parameter(self.outliers), "Use schedule='sweep'."
            )
        if schedule != "topic" and settings.simplex:
            raise InvalidInputError(
                "simplex=False with schedule='sweep'", parameter(True), "Use schedule='topic', or leave simplex out."
            )
        X = self._validated(X, reset=True)
        check_components(k, X.shape)
        start = checked_start(self.init, (k, X.shape[1]))
        return fit_program(X, k, start, schedule=schedule, random_state=seed, settings=settings)

    def _learned(self, outcome: Outcome) -> NMF:
        """Set the fitted attributes from the outcome of `_program`."""
        public = outcome.public
        self.components_ = np.asarray(public["T"], dtype=outcome.private["W"].dtype)
        self.sum_WX_, self.sum_WW_ = public["WX"], public["WW"]
        self.reconstruction_err_ = float(np.sqrt(public["squared_error"]))
        if "loss_curve" in public:
            self.loss_curve_ = public["loss_curve"]
            self.n_iter_ = len(self.loss_curve_)
        return self

    def _solved(self, X: Rows, W: SomeFloats | None = None) -> SomeFloats:
        settings = self._settings()
        return solve_rows(X, self.components_, W, penalty=settings.row_penalty, outliers=settings.outliers)

    def _settings(self) -> NMFSettings:
        outliers = None
        if self.outliers is not None:
            bound = check_positive(self.outlier_bound, "outlier_bound", infinite=True)
            outliers = Outliers(check_positive(self.outliers, "outliers"), bound)
        penalties = {name: check_non_negative(getattr(self, name), name) for name in ("l1_W", "l2_W", "l1_T", "l2_T")}
        return NMFSettings(
            outliers=outliers,
            row_penalty=Penalty(penalties["l1_W"], penalties["l2_W"]),
            dictionary_penalty=Penalty(penalties["l1_T"], penalties["l2_T"]),
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=check_non_negative(self.tol, "tol"),
            simplex=check_flag(self.simplex, "simplex"),
        )

    def _validated(self, X: TableLike, *, reset: bool) -> Rows:
        """Return `X` as a non-negative array or CSR matrix of floats, not all zero, or raise with what to do."""
        rows = validated(self, X, reset=reset, dtype=[np.float64, np.float32], non_negative=True)
        if reset and (rows if isinstance(rows, np.ndarray) else rows.data).max(initial=0) == 0:
            raise InvalidInputError(
                "at least one entry above 0", words("a table of zeros"), "There is nothing to factorise."
            )
        return rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])
