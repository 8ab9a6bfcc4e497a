"""Non-negative factorisation whose dictionary may be released."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from tacit.channel import Clear, Outcome, Program, Split, Step, on_public_data, run
from tacit.errors import InvalidInputError, PrivacyWarning, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.input import check_components, validated
from tacit.estimators.private import PrivateFit
from tacit.estimators.rows import clip_rows, row_norms
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.saha_imtiaz import published_program, random_start, rounds_program, unit_ball
from tacit.factor.nmf.start import nndsvd
from tacit.factor.noisy_moments.centred import SPLIT, CentredMoments, centred_moments_program
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import secure_generator
from tacit.validation import check_choice, check_count, check_epsilon, check_positive, check_rate, check_seed

METHODS = ("moments", "rounds", "published")
SYNTHETIC_ROWS = 4000
NOISY_START_WEIGHT = 2.0
"""With ``init="noisy"`` the three sums of the start together have this weight, against 1 for all rounds together."""

UNPROTECTED = (
    "the published algorithm starts from the NNDSVD of the private data without noise, assumes row norms that it does not "
    "enforce, and uses the exact number of rows"
)


class PrivateNMF(TransformerMixin, PrivateFit):  # type: ignore[misc]
    r"""Non-negative matrix factorisation X ~ W T with a differentially private dictionary T.

    Parameters
    ----------
    n_components : int
        Number of rows k of the dictionary.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` is `tacit.NMF` on the clipped rows.
    row_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it.
    outliers : float, optional
        Entries that differ from what the model says by more than this are taken for outliers and cut off. At no extra
        noise.
    method : {"moments", "rounds", "published"}, default="moments"
        "moments": release the rows' mean and covariance once (`tacit.factor.noisy_moments.centred`), then factorise
        synthetic rows drawn from them, which costs nothing more. "rounds": the repaired Algorithm 2 of Saha and
        Imtiaz, a noisy A = W'W and B = W'X each round. "published": Algorithm 2 as printed; it has **no** guarantee.
    init : {"random", "noisy"} or array of shape (n_components, n_features), default="random"
        For "rounds": a random dictionary, one from noisy moments (paid for from the same budget), or a public one.
    rounds : int, default=10
        For "rounds" and "published".
    sampling_rate : float, default=1.0
        For "rounds": rate of each round's Poisson mini-batch.
    max_columns : int, default=1000
        For "moments": maximum number of columns in the covariance; those with the largest noisy sums are kept. The
        dictionary is zero on the others.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Seed of the random start and of the synthetic rows. Not secret: the privacy noise does not use it.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The dictionary; rows of L2 norm at most 1.
    components_by_round_ : ndarray of shape (rounds, n_components, n_features)
        For "rounds": the dictionary after every round, which costs nothing more. Not saved.
    guarantee_ : Guarantee
    clipped_fraction_ : float
        Share of the rows that were longer than `row_norm`. Computed without noise: for the holder's eyes, and not
        saved.

    Privacy
    -------
    Unit: one row. What leaves: the noisy sums that the method's program asks for, three for "moments", `rounds` for
    "rounds". Why the bound holds: every contribution is clipped for its row alone before it is added, see the
    programs; the start, the number of rounds, the columns kept and the clipping lengths depend on public settings and
    on earlier releases only. `transform` uses a row and the released dictionary, and stays with the row's holder.

    References
    ----------
    S. Saha, H. Imtiaz. Privacy-preserving non-negative matrix factorization with outliers. 2022.

    Examples
    --------
    >>> from tacit import PrivateNMF
    >>> from tacit.data import make_images
    >>> X = make_images(3000, side=6, n_parts=4).images
    >>> model = PrivateNMF(4, epsilon=2.0, delta=1e-6).fit(X)
    >>> model.components_.shape
    (4, 36)
    >>> bool(model.guarantee_.epsilon <= 2.0)
    True
    """

    _unprotected_methods = ("published",)

    n_components: int = public(default=2, kw_only=False)
    row_norm: float = public(default=1.0)
    outliers: float | None = public(default=None)
    method: str = public(default="moments")
    init: Any = public(default="random")
    rounds: int = public(default=10)
    sampling_rate: float = public(default=1.0)
    max_columns: int = public(default=1000)
    random_state: int = public(default=0)
    components_: NDArray[np.float64] = released()
    n_features_in_: int = released()
    components_by_round_: NDArray[np.float64] = learned()
    clipped_fraction_: float = learned()

    def fit(self, X: Any, y: Any = None) -> PrivateNMF:
        """Learn and release the dictionary of the rows of `X` (dense or sparse, not negative)."""
        rows = self._checked(X)
        self.clipped_fraction_ = float((row_norms(rows) > self.row_norm).mean())
        if math.isinf(self.epsilon):
            plain = NMF(self.n_components, outliers=self.outliers, random_state=self.random_state)
            self.components_ = plain.fit(clip_rows(rows, self.row_norm)).components_
            self.guarantee_ = plain.guarantee_
        elif self.method == "published":
            self._fit_published(rows)
        else:
            split = self._split()
            found = self._run(X, self._program(rows, split), self._plan(split)).public
            self.components_ = found["components"]
            if "path" in found:
                self.components_by_round_ = found["path"]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the weights of the rows of `X` in the dictionary; they stay with whoever holds the rows."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "components_")
        return solve_rows(validated(self, X, reset=False, non_negative=True), self.components_)

    def inverse_transform(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows that the weights stand for."""
        rows: NDArray[np.float64] = np.asarray(W) @ self.components_
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _checked(self, X: Any) -> Any:
        check_epsilon(self.epsilon, infinite=True)
        check_count(self.n_components, "n_components")
        check_positive(self.row_norm, "row_norm")
        check_choice(self.method, "method", METHODS)
        check_count(self.rounds, "rounds")
        check_rate(self.sampling_rate)
        check_count(self.max_columns, "max_columns")
        check_seed(self.random_state)
        if self.outliers is not None:
            check_positive(self.outliers, "outliers")
        rows = validated(self, X, reset=True, non_negative=True)
        check_components(self.n_components, rows.shape)
        return rows

    def _starts_from_moments(self) -> bool:
        return self.method == "moments" or (isinstance(self.init, str) and self.init == "noisy")

    def _split(self) -> Split:
        rounds = Split(rounds=Step(self.rounds, 1 / self.rounds, self.sampling_rate))
        if self.method == "moments":
            return SPLIT
        return SPLIT.scaled(NOISY_START_WEIGHT) | rounds if self._starts_from_moments() else rounds

    def _program(self, X: Any, split: Split) -> Program:
        if self._starts_from_moments():
            found = yield from centred_moments_program(
                X,
                row_norm=self.row_norm,
                max_columns=self.max_columns,
                outliers=self.outliers,
                split=split,
            )
            T = dictionary_of(found.public["moments"], self.n_components, X.shape[1], self.random_state)
        else:
            T = self._given_start(X)
        if self.method == "moments":
            return Outcome({"components": T})
        return (
            yield from rounds_program(
                X,
                T,
                row_norm=self.row_norm,
                outliers=self.outliers,
                step=split["rounds"],
            )
        )

    def _given_start(self, X: Any) -> NDArray[np.float64]:
        if isinstance(self.init, str):
            check_choice(self.init, "init", ("random", "noisy"))
            return random_start(self.n_components, X.shape[1], np.random.default_rng(self.random_state))
        start = np.asarray(self.init, dtype=np.float64)
        if start.shape != (self.n_components, X.shape[1]) or not np.all(start >= 0) or not np.all(np.isfinite(start)):
            raise InvalidInputError(
                f"init to be 'random', 'noisy' or a non-negative dictionary of shape {(self.n_components, X.shape[1])}",
                words(f"an array of shape {start.shape}"),
                "Give one row per component; it must not have been computed from the private data.",
            )
        return unit_ball(start)

    def _fit_published(self, X: Any) -> None:
        _, start = nndsvd(X, self.n_components, random_state=self.random_state)
        program = published_program(
            X,
            unit_ball(start),
            rounds=self.rounds,
            epsilon=self.epsilon,
            delta=self.delta,
            outliers=self.outliers,
            generator=secure_generator(),
        )
        self.components_ = run(program, Clear()).public["components"]
        self.guarantee_ = Guarantee.none(UNPROTECTED)


def dictionary_of(
    moments: CentredMoments, n_components: int, n_features: int, random_state: int
) -> NDArray[np.float64]:
    """Return the dictionary of synthetic rows with these moments; all of it is post-processing.

    The rows are drawn from the normal distribution with the released mean and covariance and cut off at zero. Columns
    that the moments left out are zero.
    """
    generator = np.random.default_rng(random_state)
    values, vectors = np.linalg.eigh(moments.covariance)
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = moments.mean + generator.standard_normal((SYNTHETIC_ROWS, len(values))) @ spread.T
    size = min(n_components, len(moments.columns))
    if size < n_components:
        warnings.warn(
            f"Only {size} columns rose above the noise, so only {size} of {n_components} components are not zero. Use a larger "
            "epsilon, more rows, or fewer components.",
            PrivacyWarning,
            stacklevel=2,
        )
    T = np.zeros((n_components, n_features))
    with on_public_data():
        found = NMF(size, random_state=random_state).fit(np.maximum(rows, 0.0))
    T[:size, moments.columns] = found.components_
    return unit_ball(T)
