"""A recommender from interactions whose items' side may be released: user-level differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, words
from tacit.estimators.base import public, released
from tacit.estimators.scheduled import ScheduledFit
from tacit.estimators.verdict import Concern, only_popularity
from tacit.factor.implicit.interactions import WEIGHTINGS, read_interactions
from tacit.factor.implicit.model import ImplicitModel
from tacit.factor.implicit.program import (
    SPLIT,
    AddedTo,
    Fresh,
    ReleasedItems,
    Scheduled,
    implicit_program,
)
from tacit.factor.ratings.table import IdsLike, RatingsLike, as_ids, public_features
from tacit.progress import tell
from tacit.validation import check_choice, check_count

STAYS = (
    "a user's history stays with its holder: what a user is shown is computed from that user's own history and the released "
    "items' side (joint differential privacy, or the billboard model)"
)
CATALOGUE = "the catalogue, with the features of its items, is public: it says nothing about who chose what"
ONE_FIT = (
    "no user has interactions in two of the fits that this model adds up: for one who has, their guarantees add up"
)


class PrivateImplicitRecommender(ScheduledFit, ImplicitModel):
    r"""Recommend items from clicks, plays or purchases, with privacy for each user's whole history.

    Use it for the question "what comes next on this user's list?". For the question "how would this user rate this item?"
    use `PrivateRecommender`.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the **whole** fit; ``inf`` for none.
    delta : float, default=1e-6
    catalogue : sequence of ids
        All items, chosen by somebody or not: public. Required unless the data is a sparse matrix, whose columns are the
        catalogue. `item_ids_` has its order. An interaction with an item outside is refused.
    features : array_like of shape (n_items, n_features), optional
        Of the items, in the order of the catalogue: public, not negative, such as 1 for each genre or decade of a film. They
        help most where noise is strong: users' tastes for genres are learned before those for single items. Items that share
        a feature of few items, such as a word of their titles, are expected to belong together. See `tacit.data.item_features`.
    weighting : {"log", "linear", "binary"}, default="log"
        What an interaction counts, from its weight w: log2(1 + w), w, or 1. Without weights every interaction counts 1.
    max_columns : int, default=2000
        Maximum number of items in the second moment; those with the largest noisy popularities are kept, and fewer where
        the noise drowns them. The others are ranked by popularity.
    schedule : tuple of int, optional
        For `partial_fit`: the number of releases, in how many of them a user has new interactions at most (1 if not given),
        and how many releases two of these are apart at least (1 if not given). See `tacit.privacy.schedules`.
    schedule_file : path, optional
        For `partial_fit`: a file with what the next release needs, so that another process can make it. It holds sums without
        noise, and stays with the holder.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`; rows are users.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    item_ids_ : ndarray or list
    item_weights_ : ndarray of shape (n_items,)
        Noisy popularities: sums over users of rows of norm 1.
    item_regression_ : ndarray of shape (n_chosen, n_chosen), float32
        The weight of each item of a history (row) for each item (column), for the items of the second moment.
    n_learned_ : int
        Number of items that more than the popularity is known of.
    learned_items_, item_direction_, item_pairs_, pair_noise_, weight_noise_, n_users_
        What was released, for `refit`: the items of the second moment, the direction that was shortened, the noisy second moment,
        the noise in it and in the popularities, and the noisy number of users.
    guarantee_ : Guarantee
    n_duplicates_ : int
        Repeated interactions; not released.

    Privacy
    -------
    Unit: one user with all interactions; add-remove. What leaves: the two noisy sums of `tacit.factor.implicit.program`, and what
    is computed from them. Why the bound holds: each user's row is divided by its own norm, in both sums. What stays: the
    histories. `recommend` and `recommend_for` use one user's own history, and `save` writes none.

    Examples
    --------
    >>> from tacit import PrivateImplicitRecommender
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(3000, 60, random_state=1)
    >>> liked = data.ratings >= 4
    >>> model = PrivateImplicitRecommender(epsilon=5.0, catalogue=range(60)).fit(data.users[liked], data.items[liked])
    >>> model.guarantee_.unit, len(model.recommend_for([3, 5], n=4))
    ('user', 4)
    """

    _unit = "user"

    catalogue: Any = public(default=None)
    features: ArrayLike | None = public(default=None)
    max_columns: int = public(default=2000)
    n_learned_: int = released()
    item_direction_: NDArray[np.float64] = released()
    item_pairs_: NDArray[np.float64] = released()
    pair_noise_: float = released()
    weight_noise_: float = released()
    n_users_: float = released()

    def fit(
        self, users: RatingsLike, items: IdsLike | None = None, weights: ArrayLike | None = None
    ) -> PrivateImplicitRecommender:
        """Learn from interactions: a data frame, a users x items sparse matrix, or ids of users and items."""
        return self._learn(users, items, weights, Fresh())

    def refit(
        self,
        users: RatingsLike,
        items: IdsLike | None = None,
        weights: ArrayLike | None = None,
        *,
        previous: PrivateImplicitRecommender,
    ) -> PrivateImplicitRecommender:
        """Learn from new interactions, and add them to what an earlier model released.

        The fit costs its own `epsilon` for the users of the new interactions, and nothing for the others: the earlier
        interactions are not needed. For users with interactions in both, the two guarantees add up; a ledger counts that.
        The items of the second moment stay those of the earlier model.

        The result holds what both fits released, so that `guarantee_` is the weaker one of the two; if the earlier model has
        none, there is none.

        Parameters
        ----------
        users, items, weights
            The new interactions, given as to `fit`.
        previous : PrivateImplicitRecommender
            Fitted, or loaded from a file, with the same catalogue; it may be this object.
        """
        earlier, its_guarantee = previous._release(), previous.guarantee_
        memory = AddedTo(earlier)
        catalogue = list(self.catalogue) if self.catalogue is not None else None
        if catalogue is not None and catalogue != list(previous.item_ids_):
            raise InvalidInputError("the catalogue of the earlier model", words("another"), "Use the same catalogue.")
        if its_guarantee.holds and (its_guarantee.unit, its_guarantee.adjacency) != (self._unit, self.adjacency):
            raise InvalidInputError(
                f"an earlier model with a guarantee per {self._unit} under {self.adjacency}",
                words(f"one per {its_guarantee.unit} under {its_guarantee.adjacency}"),
                "Fit with the adjacency of the earlier model.",
            )
        with self._fitting():
            self._learn(users, items, weights, memory, n_items=len(earlier.weights))
            self.guarantee_ = self.guarantee_.joined_with(its_guarantee, ONE_FIT)
            return self

    def partial_fit(
        self, users: RatingsLike, items: IdsLike | None = None, weights: ArrayLike | None = None
    ) -> PrivateImplicitRecommender:
        """Learn from the interactions since the last release, and release again: one of the releases of `schedule`.

        All releases together cost `epsilon`, which is charged at the first. The object keeps what later releases need in
        memory, and in `schedule_file` if there is one; it stays with the holder. `recommend` knows the users of the newest
        interactions, by these alone: give the whole history of a user to `recommend_for`.
        """
        self._planned()
        return self._learn(users, items, weights, self._continued(Scheduled))

    def _learn(
        self,
        users: RatingsLike,
        items: IdsLike | None,
        weights: ArrayLike | None,
        memory: Fresh,
        n_items: int | None = None,
    ) -> PrivateImplicitRecommender:
        check_choice(self.weighting, "weighting", WEIGHTINGS)
        check_count(self.max_columns, "max_columns", least=2)
        if self.catalogue is None and not hasattr(users, "tocoo"):
            raise InvalidInputError(
                "a catalogue of all items",
                words("none: the items that somebody chose would be a release without a charge"),
                "Give the list of all items that can be chosen: catalogue=.",
            )
        tell("reading the interactions")
        table = read_interactions(users, items, weights, catalogue=self.catalogue, weighting=self.weighting)
        if hasattr(self, "_memory"):
            n_items = len(self.item_weights_)
        if n_items not in (None, len(table.items)):
            raise InvalidInputError("the catalogue of the earlier model", words("another"), "Use the same catalogue.")
        features = public_features(self.features, len(table.items))
        later = hasattr(self, "_memory")
        if not later:
            self._keep(table)
        given: Any = users if items is None else tuple(as_ids(part, "id") for part in (users, items))
        if weights is not None:
            given = (*given, np.asarray(weights))
        program = implicit_program(table, self.max_columns, features, memory)
        if isinstance(memory, Scheduled):
            outcome = self._run_scheduled(given, program, SPLIT, memory)
            self._memory = memory
            self._keep(table)
        else:
            outcome = self._run(given, program, self._plan(SPLIT))
        if not later:
            self.guarantee_ = self.guarantee_.assuming(STAYS, CATALOGUE)
        self._take_over(outcome.public)
        return self

    def _concerns(self) -> list[Concern]:
        return only_popularity(vars(self).get("n_learned_", 1))

    def _take_over(self, result: Mapping[str, Any]) -> None:
        self.item_weights_, self.weight_noise_, self.n_users_ = (
            result["weights"],
            result["weight_noise"],
            result["users"],
        )
        self.learned_items_, self.item_direction_ = result["items"], result["direction"]
        self.item_pairs_, self.pair_noise_ = result["pairs"], result["pair_noise"]
        self.item_regression_ = result["regression"]
        self.n_learned_ = int(np.any(self.item_regression_, axis=1).sum())

    def _release(self) -> ReleasedItems:
        """Return what this model released, for another to add to."""
        self._items()
        names = {"weights": "item_weights_", "users": "n_users_", "items": "learned_items_", "pairs": "item_pairs_"}
        names |= {"direction": "item_direction_", "weight_noise": "weight_noise_", "pair_noise": "pair_noise_"}
        return ReleasedItems.of({name: getattr(self, own) for name, own in names.items()})
