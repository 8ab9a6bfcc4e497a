"""Non-negative factorisation whose dictionary may be released."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tacit.channel import Clear, Outcome, Program, Split, Step, run
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.input import Rows, check_components, clip_rows, clipped_fraction, validated
from tacit.estimators.scheduled import ScheduledFit, ScheduledSums
from tacit.estimators.verdict import Concern, about_columns, about_components, about_parts, some_rows
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.program import factorise
from tacit.factor.nmf.saha_imtiaz import (
    SahaImtiazSettings,
    published_program,
    random_start,
    rounds_program,
    unit_ball,
)
from tacit.factor.nmf.scheduled import SPLIT as SCHEDULED_SPLIT
from tacit.factor.nmf.scheduled import scheduled_moments_program
from tacit.factor.nmf.start import nndsvd
from tacit.factor.nmf.topics import SCHEDULED_TOPIC_COLUMNS, SHORTENING, TOPIC_COLUMNS, flattened, topics_of
from tacit.factor.noisy_moments.centred import SPLIT, CentredMoments, centred_moments_program
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import secure_generator
from tacit.validation import TableLike, check_choice, check_count, check_epsilon, check_positive, check_rate, check_seed

if TYPE_CHECKING:
    from sklearn.utils import Tags

METHODS = ("moments", "rounds", "published")
GOALS = ("auto", "error", "topics")
SYNTHETIC_ROWS = 4000
"""Rows that are drawn from the released moments and factorised. Set by hand: more rows follow the moments more closely, take
longer, and cost no privacy."""
MOST_COLUMNS = 2000
"""Default maximum number of columns in the covariance of dense rows, for time and memory."""
NOISY_START_WEIGHT = 2.0
"""With ``init="noisy"`` the three sums of the start together have this weight, against 1 for all rounds together."""

UNPROTECTED = (
    "the published algorithm {start}assumes row norms that it does not enforce, and uses the exact number of rows"
)
UNPROTECTED_START = "starts from the NNDSVD of the private data without noise, "


class PrivateNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ScheduledFit):  # type: ignore[misc]
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
        Entries that differ from the model's value by more than this are outliers, and are clipped to this distance.
        This adds no noise.
    method : {"moments", "rounds", "published"}, default="moments"
        "moments": release the rows' mean and covariance once (`tacit.factor.noisy_moments.centred`), then compute the
        dictionary from them, which costs nothing more. "rounds": the repaired Algorithm 2 of Saha and
        Imtiaz, a noisy A = W'W and B = W'X each round. "published": Algorithm 2 as printed; it has **no** guarantee.
    goal : {"auto", "error", "topics"}, default="auto"
        For "moments": how the dictionary follows from mean and covariance. "error": synthetic rows are drawn from them and
        factorised, for a small error. "topics": the positive part of the covariance is factorised
        (`tacit.factor.nmf.topics`), for words that occur together. "auto" is "topics" for a sparse `X` and "error" for a dense
        one; which of the two `X` is counts as public.
    init : {"random", "noisy"} or array of shape (n_components, n_features), default="random"
        For "rounds": a random dictionary, one from noisy moments (paid for from the same budget), or a public one.
    rounds : int, default=10
        For "rounds" and "published".
    sampling_rate : float, default=1.0
        For "rounds": rate of each round's Poisson mini-batch.
    max_columns : int, optional
        For "moments": maximum number of columns in the covariance, which has their number squared of entries; 2,000 if not given,
        1,200 for topics, and 500 for topics of a `schedule`. How many there are within that is decided by the noise. On the other
        columns the dictionary follows the mean.
    published : SahaImtiazSettings, optional
        For "published": step sizes, the epsilon of one iteration and the other parameters of the paper
        (`tacit.factor.nmf.saha_imtiaz`).
    schedule : tuple of int, optional
        For `partial_fit`: the number of releases, in how many of them a unit has rows at most (1 if not given), and how many
        releases these are apart at least (1 if not given). See `tacit.privacy.schedules`.
    schedule_file : path, optional
        For `partial_fit`: a file with what the next release needs, so that another process can make it. It holds sums without
        noise, and stays with the holder.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Seed of the random start and of the synthetic rows. Not secret: the privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The dictionary; rows of L2 norm at most 1.
    components_by_round_ : ndarray of shape (rounds, n_components, n_features)
        For "rounds" and "published": the dictionary after every round, which costs nothing more. Not saved.
    guarantee_ : Guarantee
    clipped_fraction_ : float
        Fraction of the rows that were longer than `row_norm`. Computed without noise: for the holder, and not
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
    goal: str = public(default="auto")
    init: Any = public(default="random")
    rounds: int = public(default=10)
    sampling_rate: float = public(default=1.0)
    max_columns: int | None = public(default=None)
    published: SahaImtiazSettings | None = public(default=None, in_file=False)
    random_state: int = public(default=0)
    components_: NDArray[np.float64] = released()
    n_features_in_: int = released()
    components_by_round_: NDArray[np.float64] = learned()
    clipped_fraction_: float = learned()

    def fit(self, X: TableLike, y: object = None) -> PrivateNMF:
        """Learn and release the dictionary of the rows of `X` (dense or sparse, not negative)."""
        rows = self._checked(X)
        if math.isinf(self.epsilon):
            plain = NMF(self.n_components, outliers=self.outliers, random_state=self.random_state)
            self.components_ = np.asarray(plain.fit(clip_rows(rows, self.row_norm)).components_, dtype=np.float64)
            self.guarantee_ = plain.guarantee_
        elif self.method == "published":
            self._fit_published(rows)
        else:
            split = self._split()
            result = self._run(X, self._program(rows, split), self._plan(split)).public
            self.components_ = result["components"]
            if "path" in result:
                self.components_by_round_ = result["path"]
            names = getattr(self, "feature_names_in_", None)
            # clipped, as in the fit: of longer rows a few would decide about the error, and the model knows nothing of them
            clipped = clip_rows(some_rows(rows)[0], self.row_norm)
            self._note_concerns([*about_columns(rows, names), *about_parts(clipped, self.components_)])
        return self

    def partial_fit(self, X: TableLike, y: object = None) -> PrivateNMF:
        """Release a dictionary of all rows so far, given those that are new: one of the releases of `schedule`.

        All releases together cost `epsilon`, which the first charges. By moments only.
        """
        self._planned()
        if self.method != "moments":
            raise InvalidInputError("method='moments' for partial_fit", parameter(self.method), "Use it, or fit.")
        if self.outliers is not None:
            raise InvalidInputError(
                "no outliers for partial_fit", parameter(self.outliers), "Leave it out, or use fit."
            )
        memory = self._continued(
            lambda schedule, max_units: ScheduledSums(schedule, SCHEDULED_SPLIT, max_units)
        )  # before the rows are checked: a file says which columns they have
        rows = self._checked(X, first=not hasattr(self, "_memory"))
        limit = self._column_limit(rows, SCHEDULED_TOPIC_COLUMNS)
        program = scheduled_moments_program(rows, memory, row_norm=self.row_norm, max_columns=limit)
        outcome = self._run_scheduled(X, program, SCHEDULED_SPLIT, memory)
        self._memory = memory
        self.components_ = self._dictionary(outcome.public["moments"], rows)
        return self

    def _concerns(self) -> list[Concern]:
        if math.isinf(self.epsilon) or not hasattr(self, "components_"):  # a choice of the rank has none yet
            return []
        return about_components(self.components_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: TableLike) -> NDArray[np.float64]:
        """Return the weights of the rows of `X` in the dictionary; they stay with whoever holds the rows."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "components_")
        W = solve_rows(validated(self, X, reset=False, non_negative=True), self.components_)
        return np.asarray(W, dtype=np.float64)

    def inverse_transform(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows that the weights stand for."""
        rows: NDArray[np.float64] = np.asarray(W) @ self.components_
        return rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _checked(self, X: TableLike, *, first: bool = True) -> Rows:
        check_epsilon(self.epsilon, infinite=True)
        check_count(self.n_components, "n_components")
        check_positive(self.row_norm, "row_norm")
        check_choice(self.method, "method", METHODS)
        check_choice(self.goal, "goal", GOALS)
        check_count(self.rounds, "rounds")
        check_rate(self.sampling_rate)
        if self.max_columns is not None:
            check_count(self.max_columns, "max_columns")
        check_seed(self.random_state)
        if self.outliers is not None:
            check_positive(self.outliers, "outliers")
        if self.published is not None and not (
            self.method == "published" and isinstance(self.published, SahaImtiazSettings)
        ):
            raise InvalidInputError(
                "published to be SahaImtiazSettings, with method='published'",
                words(f"a {type(self.published).__name__} with another method or of another kind"),
                "See tacit.factor.nmf.saha_imtiaz.SahaImtiazSettings, or leave published out.",
            )
        rows = validated(self, X, reset=first, non_negative=True)
        if first:
            check_components(self.n_components, rows.shape)
        self.clipped_fraction_ = clipped_fraction(rows, self.row_norm)
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
            outcome = yield from self._moments_program(X, split)
            T = self._dictionary(outcome.public["moments"], X)
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

    def _moments_program(self, X: Rows, split: Split) -> Program:
        """Return the program of the sums. For topics rows are flattened, which changes none of their lengths.

        Outliers are bounded in the units of `X`, so rows with a bound on them are not flattened.
        """
        topics = self._wants_topics(X)
        return centred_moments_program(
            flattened(clip_rows(X, self.row_norm)) if topics and self.outliers is None else X,
            row_norm=self.row_norm,
            max_columns=self._column_limit(X),
            outliers=self.outliers,
            own_variance=not topics,
            shortening=SHORTENING if topics else 1.0,
            split=split,
        )

    def _dictionary(self, moments: CentredMoments, X: Rows, n_components: int | None = None) -> NDArray[np.float64]:
        """Return the dictionary of released moments; of `X` only whether it is sparse is used."""
        size = self.n_components if n_components is None else n_components
        return dictionary_of(moments, size, self.random_state, topics=self._wants_topics(X))

    def _column_limit(self, X: Rows, topic_columns: int = TOPIC_COLUMNS) -> int:
        if self.max_columns is not None:
            return self.max_columns
        return topic_columns if self._wants_topics(X) else MOST_COLUMNS

    def _wants_topics(self, X: Rows) -> bool:
        return self.goal == "topics" or (self.goal == "auto" and bool(issparse(X)))

    def _given_start(self, X: Rows) -> NDArray[np.float64]:
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

    def _fit_published(self, X: Rows) -> None:
        settings = SahaImtiazSettings() if self.published is None else self.published
        if settings.start == "nndsvd":
            H, start = nndsvd(X, self.n_components, random_state=self.random_state)
            lengths = np.maximum(np.linalg.norm(start, axis=1), 1.0)
            H, T = H * lengths, start / lengths[:, None]
        else:
            T = random_start(self.n_components, X.shape[1], np.random.default_rng(self.random_state))
            H = solve_rows(X, T)
        program = published_program(
            X,
            np.ascontiguousarray(T),
            np.ascontiguousarray(H),
            rounds=self.rounds,
            multiplier=settings.noise_multiplier(self.epsilon, self.delta, self.rounds),
            outliers=self.outliers,
            settings=settings,
            generator=secure_generator(),
        )
        result = run(program, Clear()).public
        self.components_, self.components_by_round_ = result["components"], result["path"]
        self.guarantee_ = Guarantee.none(
            UNPROTECTED.format(start=UNPROTECTED_START if settings.start == "nndsvd" else "")
        )


def dictionary_of(
    moments: CentredMoments, n_components: int, random_state: int, *, topics: bool
) -> NDArray[np.float64]:
    """Return the dictionary of rows with these moments; all of it is post-processing.

    It is that of synthetic rows, or has topics (`tacit.factor.nmf.topics`). If there is no covariance, the dictionary is the mean
    and a constant; the mean is the cautious one if there is no room for the constant.
    """
    if not len(moments.values):
        T = np.zeros((n_components, len(moments.mean)))
        T[0] = moments.mean if n_components > 1 else moments.cautious_mean
        T[1:2] = 1.0
        T[0] = T[0] if T[0].any() else 1.0
    else:
        T = (topics_of if topics else parts_of)(moments, n_components, random_state)
    return unit_ball(T)


def parts_of(moments: CentredMoments, n_components: int, random_state: int) -> NDArray[np.float64]:
    """Return the dictionary of synthetic rows with these moments, which have a covariance.

    The rows are drawn from the normal distribution with the released mean and covariance and cut off at zero. On columns
    without a covariance they are the mean.
    """
    columns, features = moments.columns, len(moments.mean)
    T = np.zeros((n_components, features))
    generator = np.random.default_rng(random_state)
    spread = np.sqrt(moments.values)[:, None] * moments.vectors[:, columns]
    rows = moments.mean[columns] + generator.standard_normal((SYNTHETIC_ROWS, len(spread))) @ spread
    size = min(n_components, len(columns))
    rows = np.maximum(rows, 0.0)
    W, parts = factorise(rows, size, random_state=random_state)
    weights = solve_rows(rows, parts, W)
    T[:size, columns] = parts
    others = np.delete(np.arange(features), columns)
    # the best dictionary on columns in which all synthetic rows are the same
    T[:size, others] = np.outer(nnls(weights, np.ones(len(weights)))[0], moments.mean[others])
    return T
