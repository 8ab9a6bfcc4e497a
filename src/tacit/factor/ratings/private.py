"""A recommender whose items may be released: user-level differential privacy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tacit.channel import Clear, Plan, Split, Step, run
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.private import PrivateFit
from tacit.estimators.verdict import Concern, about_ratings, only_biases
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.item_moments import ItemMomentSettings, item_program, on_rating_scale, with_public_tastes
from tacit.factor.ratings.model import RatingModel
from tacit.factor.ratings.mugdho_imtiaz import (
    UNPROTECTED,
    VALUES_ONLY,
    MugdhoImtiazSettings,
    gradient_program,
    published_program,
)
from tacit.factor.ratings.table import IdsLike, RatingsLike, RatingTable, as_ids, public_features, read_ratings
from tacit.factor.ratings.user_budgets import UserBudgets, budgets_of
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import secure_generator
from tacit.validation import check_choice, check_count, check_epsilon, check_range, check_seed

MOMENT_ROUNDS, GRADIENT_ROUNDS = 4, 30
"""Default rounds. That of "moments" was chosen on MovieLens 100K and on a part of the training ratings of MovieLens 1M;
that of the gradients was set by hand."""
METHODS = {"moments": "user", "gradient": "cell", "published": "cell"}
"""Each method, and the unit that it protects."""

STAYS = (
    "a user's own factors are computed from that user's ratings and the released items, and shown to that user only (joint "
    "differential privacy, or the billboard model): all others together learn no more about a user than the release allows"
)
CATALOGUE = "the list of items is public: the existence of an item says nothing about who rated it"
NO_CATALOGUE = "no catalogue was given, so the items in the data are the public list of items"


class PrivateRecommender(PrivateFit, RatingModel):
    r"""Ratings from biases and factors, :math:`\mu + b_u + c_i + p_u \cdot q_i`, with differential privacy for users.

    Use it for the question "how would this user rate this item?". For the question "what comes next on this user's list?" use
    `PrivateImplicitRecommender` on the high ratings; `evaluate_new_users` measures the lists of both.

    Parameters
    ----------
    n_factors : int, default=10
        Maximum number of factors; those that exceed the noise are used. If there is none, the model consists of biases:
        ``n_factors_`` is 0, and a warning says so.
    epsilon : float, mapping or array, default=1.0
        Privacy loss of the **whole** fit. Users may have budgets of their own: a mapping from user to epsilon, or one
        epsilon per user in the order of the users' ids (of the rows of a sparse matrix). Each user's own guarantee holds,
        see `user_guarantee`. Users with a smaller epsilon contribute less. Users with `inf` are volunteers: no guarantee
        covers them.
    delta : float, default=1e-6
    unit : {"user", "cell"}, default="user"
        What is protected: a user's whole history, or (for "gradient" and "published") the value of one rating.
    rating_range : tuple of float, default=(1, 5)
        The least and greatest rating: public. Ratings outside are refused.
    method : {"moments", "gradient", "published"}, default="moments"
        "moments": noisy biases, one noisy second moment of the users' residuals over popular items, and noisy
        regressions that correct all items (`tacit.factor.ratings.item_moments`). "gradient": noisy gradients, the repaired
        method of Mugdho and Imtiaz, for ``unit="cell"``. "published": their Algorithm 1 as printed; **no** guarantee.
    rounds : int, optional
        Number of regressions (4 if not given) or of gradient steps (30).
    max_columns : int, default=250
        Maximum number of items in the second moment; those with the largest noisy weights are kept.
    catalogue : sequence of ids, optional
        All items: public. If not given, the items in the data count as public.
    features : array_like of shape (n_items, n_features), optional
        Of the items, in the order of the catalogue (of the columns of a sparse matrix): public, not negative, such as 1 for
        each genre or decade of a film; for "moments". See `tacit.data.item_features`. They are added to the items' factors, so
        that a user's taste for them is solved from the user's own ratings, and help to find the items' biases.
    published : MugdhoImtiazSettings, optional
        For "published": step size, regularisation, clipping and the epsilon of one iteration
        (`tacit.factor.ratings.mugdho_imtiaz`).
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`; rows are users.
    random_state : int, default=0
        Seed of the random start of "gradient" and "published". Not secret: privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    global_mean_, item_biases_, item_factors_, item_ids_, user_precision_, noise_
        As for `Recommender`, but noisy.
    item_weights_ : ndarray of shape (n_items,)
        Noisy popularities ("moments" only).
    n_factors_ : int
        Number of factors found; public features, which are columns of `item_factors_` too, are not counted.
    user_factors_ : ndarray
        Released by "gradient" and "published" only.
    guarantee_ : Guarantee
    n_duplicates_ : int
        Not released.
    rmse_by_round_ : ndarray
        For "published": the RMSE of the known ratings before each iteration. Not released.

    Privacy
    -------
    Unit: one user with all ratings. What leaves: the noisy sums of `tacit.factor.ratings.item_moments`, and what is computed
    from them. Why the bound holds: each user's vector is computed from that user's ratings and earlier totals, and divided
    by its own norm. What stays: users' ratings and factors; `predict` and `recommend` use the user's own, and `save` does
    not write them. The split of the budget and all other constants are fixed, and do not depend on the data of the fit.

    References
    ----------
    F. McSherry, I. Mironov. Differentially private recommender systems. KDD 2009. S. Chien et al. Private alternating
    least squares. ICML 2021.

    Examples
    --------
    >>> from tacit import PrivateRecommender
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(2000, 60, random_state=1)
    >>> model = PrivateRecommender(4, epsilon=5.0).fit(data.users, data.items, data.ratings)
    >>> bool(model.guarantee_.epsilon <= 5.0), model.guarantee_.unit
    (True, 'user')
    >>> len(model.recommend_for([3, 5], [5, 1], n=3))
    3
    """

    _unit = "user"
    _unprotected_methods = ("published",)

    n_factors: int = public(default=10, kw_only=False)
    epsilon: Any = public(default=1.0)
    unit: str = public(default="user")
    rating_range: tuple[float, float] | None = public(default=(1, 5))
    method: str = public(default="moments")
    rounds: int | None = public(default=None)
    max_columns: int = public(default=250)
    catalogue: IdsLike | None = public(default=None)
    features: ArrayLike | None = public(default=None)
    published: MugdhoImtiazSettings | None = public(default=None, in_file=False)
    random_state: int = public(default=0)
    n_factors_: int = released()
    item_weights_: NDArray[np.float64] = released()
    user_factors_: NDArray[np.float64] = released()
    rmse_by_round_: NDArray[np.float64] = learned()
    _budgets: UserBudgets = learned()

    def fit(
        self, users: RatingsLike, items: IdsLike | None = None, ratings: ArrayLike | None = None
    ) -> PrivateRecommender:
        """Learn from ratings: a data frame, a users x items sparse matrix, or ids of users and items with ratings."""
        least, greatest = self._check_settings()
        if self.features is not None and self.catalogue is None and items is not None:
            raise InvalidInputError(
                "a catalogue with the features",
                words("features only"),
                "Give the items that the rows of features belong to.",
            )
        table = read_ratings(users, items, ratings, rating_range=(least, greatest), catalogue=self.catalogue)
        self._note_concerns(about_ratings(table.values))
        middle, half = (least + greatest) / 2, (greatest - least) / 2
        scaled = replace(table, values=(table.values - middle) / half)
        self.item_ids_ = table.items.values
        given = users if items is None else (as_ids(users, "user"), as_ids(items, "item"), np.asarray(ratings))
        kept: NDArray[np.float64] | None = None
        if self.method == "moments":
            features = self._item_features(table)
            side, self.item_weights_ = self._fit_moments(scaled, given, features)
            self.n_factors_ = side.factors.shape[1]
            if features is not None:
                side = with_public_tastes(side, features)
        elif self.method == "gradient":
            side, self.user_factors_ = self._fit_gradient(scaled, given)
            self.n_factors_ = side.factors.shape[1]
        else:
            side, self.user_factors_ = self._fit_published(table, 2 * half)
            self.n_factors_ = side.factors.shape[1]
            kept = np.concatenate([self.user_factors_, np.zeros((len(self.user_factors_), 1))], axis=1)
        if self.method != "published":
            side = on_rating_scale(side, middle, half)
        self.n_duplicates_ = table.duplicates
        self._keep(side, table, least, greatest, kept)
        return self

    def user_guarantee(self, user: Hashable) -> Guarantee:
        """Return the guarantee of one user of the fit, where users have budgets of their own."""
        table = self._fitted_table()
        return self._budgets.guarantee(self.guarantee_, table.users.one(user, "user"))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown: str = BaseEstimator.__repr__(self._without_ids(), N_CHAR_MAX)
        return shown

    def _get_params_html(self, deep: bool = True, doc_link: str = "") -> Any:
        return BaseEstimator._get_params_html(self._without_ids(), deep, doc_link)

    def _without_ids(self) -> PrivateRecommender:
        """Return an estimator to show instead of this one: `epsilon` may be a mapping with the users' ids as keys."""
        if not isinstance(self.epsilon, Mapping | np.ndarray | list | tuple):
            return self
        return type(self)(**{**self.get_params(deep=False), "epsilon": "one per user"})

    def _check_settings(self) -> tuple[float, float]:
        check_count(self.n_factors, "n_factors", least=0 if self.method == "moments" else 1)
        check_choice(self.method, "method", METHODS)
        check_choice(self.unit, "unit", ("user", "cell"))
        if self.unit != METHODS[self.method]:
            raise InvalidInputError(
                f"unit={METHODS[self.method]!r} for method {self.method!r}",
                parameter(self.unit),
                "'moments' protects a user's whole history; 'gradient' only the value of one rating (unit='cell').",
            )
        if self.rounds is not None:
            check_count(self.rounds, "rounds")
        check_count(self.max_columns, "max_columns")
        check_seed(self.random_state)
        if not isinstance(self.epsilon, Mapping | np.ndarray | list | tuple):
            check_epsilon(self.epsilon, infinite=True)
        elif self.method != "moments":
            raise InvalidInputError(
                "one epsilon for all users", words("one per user"), "Use method='moments' for users' own budgets."
            )
        if self.published is not None and not (
            self.method == "published" and isinstance(self.published, MugdhoImtiazSettings)
        ):
            raise InvalidInputError(
                "published to be MugdhoImtiazSettings, with method='published'",
                words(f"a {type(self.published).__name__} with another method or of another kind"),
                "See tacit.factor.ratings.mugdho_imtiaz.MugdhoImtiazSettings, or leave published out.",
            )
        if self.features is not None and self.method != "moments":
            raise InvalidInputError("features with method='moments'", parameter(self.method), "Leave features out.")
        return check_range(self.rating_range, "rating_range", example=(1, 5))

    def _fit_moments(
        self, table: RatingTable, given: object, features: NDArray[np.float64] | None
    ) -> tuple[ItemSide, NDArray[np.float64]]:
        rounds = MOMENT_ROUNDS if self.rounds is None else self.rounds
        self._budgets = budgets_of(self.epsilon, self.delta, self.adjacency, table.users, self.max_units)
        plan = None
        settings = ItemMomentSettings(self.n_factors, rounds, self.max_columns)
        if not math.isinf(self._budgets.largest):
            plan = Plan.for_budget(
                self._budgets.largest, self.delta, steps=settings.split, unit=self.unit, adjacency=self.adjacency
            )
        outcome = self._run(given, item_program(table, settings, self._budgets.scales, features), plan)
        self.guarantee_ = self.guarantee_.assuming(STAYS, *self._public_items(), *self._budgets.words)
        return ItemSide.learned(outcome), outcome.public["weights"]

    def _fit_gradient(self, table: RatingTable, given: object) -> tuple[ItemSide, NDArray[np.float64]]:
        rounds = GRADIENT_ROUNDS if self.rounds is None else self.rounds
        plan, split = None, Split(rounds=Step(count=rounds, weight=1 / rounds))
        if not math.isinf(self.epsilon):
            plan = Plan.for_budget(self.epsilon, self.delta, steps=split, unit="cell", adjacency="replace-one")
        program = gradient_program(
            table, n_factors=self.n_factors, step=split["rounds"], random_state=self.random_state
        )
        outcome = self._run(given, program, plan)
        self.guarantee_ = self.guarantee_.assuming(VALUES_ONLY, *self._public_items())
        return ItemSide.learned(outcome), outcome.public["users"]

    def _fit_published(self, table: RatingTable, span: float) -> tuple[ItemSide, NDArray[np.float64]]:
        settings = MugdhoImtiazSettings() if self.published is None else self.published
        rounds = GRADIENT_ROUNDS if self.rounds is None else self.rounds
        program = published_program(
            table,
            n_factors=self.n_factors,
            rounds=rounds,
            noise=settings.noise_multiplier(self.epsilon, self.delta, rounds) * span * settings.C,
            settings=settings,
            random_state=self.random_state,
            generator=secure_generator(),
        )
        outcome = run(program, Clear())
        self.rmse_by_round_ = outcome.public["rmse"]
        self.guarantee_ = Guarantee.none(UNPROTECTED)
        return ItemSide.learned(outcome), outcome.public["users"]

    def _item_features(self, table: RatingTable) -> NDArray[np.float64] | None:
        """Return the public features in the order of the table's items."""
        features = public_features(self.features, len(table.items))
        if features is None or self.catalogue is None:
            return features
        ordered = np.empty_like(features)
        ordered[table.items.codes(self.catalogue, "catalogue")] = features
        return ordered

    def _public_items(self) -> tuple[str, ...]:
        return (CATALOGUE,) if self.catalogue is not None else (CATALOGUE, NO_CATALOGUE)

    def _public_parameters(self) -> dict[str, Any]:
        parameters = super()._public_parameters()
        if isinstance(self.epsilon, Mapping | np.ndarray | list | tuple):
            # users' budgets and the number of users are private; the guarantee states the largest finite budget
            listed = self.epsilon.values() if isinstance(self.epsilon, Mapping) else self.epsilon
            stated = [float(one) for one in listed if isinstance(one, numbers.Real)]
            parameters["epsilon"] = max((one for one in stated if one < math.inf), default=max(stated, default=None))
        return parameters

    def _concerns(self) -> list[Concern]:
        wanted = self.method == "moments" and self.n_factors and self.features is None
        return only_biases(self.n_factors_) if wanted and hasattr(self, "n_factors_") else []
