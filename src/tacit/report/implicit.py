"""A recommender from interactions, with privacy and without, measured on users that neither was fitted to."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.split import check_fraction, held_out_users
from tacit.errors import InvalidInputError, words
from tacit.estimators.verdict import Concern, not_better_than, only_popularity
from tacit.factor.implicit.model import ImplicitModel
from tacit.factor.implicit.plain import ImplicitRecommender
from tacit.factor.implicit.private import PrivateImplicitRecommender
from tacit.measure.ranking import divided_histories, ranking_scores
from tacit.privacy.ledger.spending import account_of
from tacit.report.figures import histogram
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, interactions_frontier
from tacit.validation import check_count, check_epsilon

if TYPE_CHECKING:
    import polars
    from narwhals.typing import IntoDataFrame

    from tacit.privacy.ledger import Ledger

POPULAR = "the most popular items"
PLAIN, PRIVATE, FITTED = "without privacy", "private", "fitted"
EXAMPLES, SHOWN = 3, 5
"""Number of users whose lists are shown, and items of each."""


@dataclass(frozen=True, eq=False)
class ImplicitComparison(FitResult):
    """The result of `compare_implicit`.

    Attributes
    ----------
    model : PrivateImplicitRecommender or ImplicitRecommender
        The one to use: private if an epsilon was given.
    plain : ImplicitRecommender
        The fit without privacy.
    measures : dict of str to dict
        Of each model, and of the list of the most popular items: see `tacit.measure.RankingScores`.
    examples : list of dict
        For some users who were not in the fit: a part of the history, and the first items of each list.
    interactions_per_user : ndarray of int
        Numbers of fitted interactions.
    n_interactions, n_held_out : int
        Fitted interactions, and users held out.
    k : int
    source : dict of str to str
        Where the interactions came from; ``result.json`` holds it.
    frontier : Frontier or None
        Recall against epsilon, on synthetic users.
    """

    title = "Recommender from interactions"
    model_name = "recommender"

    model: ImplicitModel
    plain: ImplicitRecommender
    measures: dict[str, dict[str, float]]
    examples: list[dict[str, list[Hashable]]]
    interactions_per_user: NDArray[np.int64]
    n_interactions: int
    n_held_out: int
    k: int
    source: dict[str, str] = field(default_factory=dict)
    frontier: Frontier | None = None

    @property
    def n_units(self) -> int:
        """The number of users that were fitted."""
        return len(self.interactions_per_user)

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the lists and what was learned."""
        concerns = super().concerns
        if POPULAR in self.measures:
            recall, trivial = next(iter(self.measures.values()))["recall"], self.measures[POPULAR]["recall"]
            concerns += not_better_than(POPULAR, recall, trivial, measure=f"recall at {self.k}", higher=True)
        return concerns + (only_popularity(self.model.n_learned_) if self.guarantee.holds else [])

    def values(self) -> dict[str, object]:
        """Return scores and the frontier as plain values."""
        values = {
            **self.source,
            "interactions": self.n_interactions,
            "users_held_out": self.n_held_out,
            "scores": self.measures,
            "examples": self.examples,
        }
        if self.frontier is not None:
            values["frontier_on_synthetic_users"] = self.frontier.values()
        return values

    def lines(self) -> list[str]:
        """Return each model's recall."""
        return [f"{name}: recall at {self.k} {scores['recall']:.4f}" for name, scores in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add scores, what privacy costs, examples of lists and the users' contributions."""
        keys = {
            "recall": f"recall at {self.k}",
            "ndcg": f"NDCG at {self.k}",
            "average_precision": f"MAP at {self.k}",
            "coverage": "coverage",
            "popularity_bias": "popularity bias",
        }
        rows = [[name, *(f"{scores[key]:.4f}" for key in keys)] for name, scores in self.measures.items()]
        report.table(
            "Users who were not in the fit",
            ["model", *keys.values()],
            rows,
            "A part of each user's history is given, and the rest is to be found. Coverage: the fraction of the catalogue in at "
            "least one list. Popularity bias: how much more popular listed items are than those that users chose.",
        )
        if self.frontier is not None:
            self.frontier.draw(report)
        if self.examples:
            names = [name for name in self.examples[0] if name != "history"]
            report.table(
                "Examples of lists",
                ["from the history", *names],
                [
                    [", ".join(map(str, one["history"])), *(", ".join(map(str, one[name])) for name in names)]
                    for one in self.examples
                ],
                "Users who were not in the fit; a part of each history, and the first items of each list.",
            )
        report.figure(
            "Contributions",
            histogram(self.interactions_per_user, value_name="interactions of a user"),
            "Some users do much more than others. In a private fit each user's contribution has a norm of at most 1.",
        )


@concerns_in_the_result
def compare_implicit(
    interactions: IntoDataFrame,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    catalogue: Sequence[Hashable] | None = None,
    features: ArrayLike | None = None,
    weighting: str = "log",
    held_out: float = 0.1,
    k: int = 20,
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ImplicitComparison:
    """Fit a recommender from interactions with and without privacy, and measure both on users who are in neither fit.

    Parameters
    ----------
    interactions : data frame
        With the columns user, item and optionally weight.
    epsilon : float, optional
        Total privacy loss of a user's whole history; without it there is no private fit.
    delta, catalogue, features, weighting
        See `tacit.PrivateImplicitRecommender`. The catalogue is required for a private fit.
    held_out : float, default=0.1
        Fraction of the users to hold out of all fits; each by the id, under a secret key (`tacit.data.split`).
    k : int, default=20
        Length of the lists that are measured.
    frontier : bool, default=False
        With an `epsilon`: draw the recall against epsilon, on synthetic users drawn from the released model. It costs no
        privacy.
    ledger, dataset
        See `tacit.PrivateImplicitRecommender`.
    random_state : int, default=0
        Of the division of the held-out users' histories.
    source : dict of str to str, optional
        Kept with the result.
    progress : callable, optional
        Called with the name of each stage.

    Returns
    -------
    ImplicitComparison
        Scores are computed without noise, and are for the holder of the data.

    Examples
    --------
    >>> import numpy, polars
    >>> from tacit.report import compare_implicit
    >>> likes = numpy.where(numpy.arange(24)[None, :] % 3 == numpy.arange(2000)[:, None] % 3, 0.7, 0.1)
    >>> user, item = numpy.nonzero(numpy.random.default_rng(0).random(likes.shape) < likes)
    >>> result = compare_implicit(polars.DataFrame({"user": user, "item": item}), epsilon=10.0, catalogue=range(24), k=3)
    >>> bool(result.measures["private"]["recall"] > result.measures["the most popular items"]["recall"])
    True
    """
    say = progress or (lambda stage: None)
    check_count(k, "k")
    check_fraction(held_out)
    if epsilon is not None:
        check_epsilon(epsilon)
        if catalogue is None:
            raise InvalidInputError(
                "a catalogue of all items for a private fit",
                words("none: the items that somebody chose would be a release without a charge"),
                "Give the list of all items that can be chosen: set catalogue=.",
            )
    frame = _frame(interactions)
    out = held_out_users(frame["user"], fraction=held_out)
    train, test = frame.filter(~out), frame.filter(out)
    settings: dict[str, Any] = {"weighting": weighting, "catalogue": None if catalogue is None else list(catalogue)}
    say("fitting without privacy, to compare")
    plain = ImplicitRecommender(**settings).fit(train)
    histories, relevant = _histories(test, plain, random_state)

    def scores(lists: list[list[Hashable]]) -> dict[str, float]:
        popularity = {item: max(float(weight), 0.0) for item, weight in zip(ids, plain.item_weights_, strict=True)}
        return dict(vars(ranking_scores(lists, relevant, k=k, n_items=len(ids), popularity=popularity)))

    ids = _plain_ids(plain)
    lists = {FITTED if epsilon is None else PLAIN: plain.rank(histories, k)}
    popular = [ids[place] for place in np.argsort(-plain.item_weights_, kind="stable")]
    lists[POPULAR] = [_unseen(popular, history, k) for history in histories]
    drawn: Frontier | None = None
    model: ImplicitModel = plain
    if epsilon is not None:
        say("fitting with privacy")
        model = PrivateImplicitRecommender(
            epsilon=epsilon,
            delta=delta,
            features=features,
            ledger=ledger,
            dataset=account_of(ledger, dataset, interactions),
            **settings,
        ).fit(train)
        keep_release(model, ImplicitComparison.model_name)
        say("measuring")
        lists = {PRIVATE: model.rank(histories, k), **lists}
        if frontier:
            drawn = interactions_frontier(model, train["user"].n_unique(), len(train), k)
    measures = {name: scores(listed) for name, listed in lists.items()} if histories else {}
    examples = [
        {"history": history[:SHOWN], **{name: listed[place][:SHOWN] for name, listed in lists.items()}}
        for place, history in enumerate(histories[:EXAMPLES])
    ]
    per_user = train.group_by("user").len()["len"].to_numpy().astype(np.int64)
    return ImplicitComparison(
        model, plain, measures, examples, per_user, len(train), test["user"].n_unique(), k, source or {}, drawn
    )


def _frame(interactions: IntoDataFrame) -> polars.DataFrame:
    """Return the interactions as a polars frame with the columns user, item and, if there is one, weight."""
    import narwhals as nw
    import polars as pl

    try:
        frame = nw.from_native(interactions, eager_only=True)
    except TypeError:
        frame = None
    if frame is None or not {"user", "item"} <= set(frame.columns):
        raise InvalidInputError(
            "a data frame with the columns user and item (and weight, if there is one)",
            words("other columns" if frame is not None else f"a {type(interactions).__name__}"),
            "Rename the columns.",
        )
    names = [name for name in ("user", "item", "weight") if name in frame.columns]
    native = frame.to_native()
    if isinstance(native, pl.DataFrame):
        return native.select(names)
    return pl.DataFrame({name: frame[name].to_list() for name in names})


def _histories(
    test: polars.DataFrame, model: ImplicitRecommender, random_state: int
) -> tuple[list[list[Hashable]], list[list[Hashable]]]:
    """Return, for each held-out user with two known items or more, what the model sees and what it should find."""
    known = set(_plain_ids(model))
    by_user = test.select("user", "item").unique(maintain_order=True).group_by("user", maintain_order=True).all()
    own = [[item for item in items if item in known] for items in by_user["item"].to_list()]
    seen, relevant = divided_histories(own, random_state=random_state)
    pairs = [(history, wanted) for history, wanted in zip(seen, relevant, strict=True) if wanted]
    return [history for history, _ in pairs], [wanted for _, wanted in pairs]


def _plain_ids(model: ImplicitModel) -> list[Hashable]:
    ids = model.item_ids_
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def _unseen(ranked: Sequence[Hashable], history: Sequence[Hashable], k: int) -> list[Hashable]:
    seen = set(history)
    chosen: list[Hashable] = []
    for item in ranked:
        if item not in seen:
            chosen.append(item)
        if len(chosen) == k:
            break
    return chosen
