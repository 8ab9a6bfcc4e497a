"""A recommender with privacy and one without, measured on held-out ratings."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.split import check_fraction, held_out_by_seed, held_out_pairs
from tacit.errors import InvalidInputError, PrivacyWarning, words
from tacit.estimators.verdict import Concern, about_ratings, not_better_than, only_biases
from tacit.factor.ratings.non_negative import RatingNMF
from tacit.factor.ratings.plain import Recommender
from tacit.factor.ratings.private import PrivateRecommender
from tacit.factor.ratings.private_non_negative import PrivateRatingNMF
from tacit.privacy.ledger.spending import account_of
from tacit.report.figures import bars, frontier, histogram
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, ratings_frontier
from tacit.validation import check_epsilon

if TYPE_CHECKING:
    import polars
    from narwhals.typing import IntoDataFrame

    from tacit.privacy.ledger import Ledger

GROUPS = 5
"""Number of groups of held-out ratings in the figure, from those of rare items to those of popular ones."""
OWN_MEAN = "a user's own mean"
RatingModel = PrivateRecommender | PrivateRatingNMF | Recommender | RatingNMF


@dataclass(frozen=True, eq=False)
class RecommenderComparison(FitResult):
    """The result of `compare_recommenders`.

    Attributes
    ----------
    model : PrivateRecommender, PrivateRatingNMF, Recommender or RatingNMF
        The one to use: private if an epsilon was given.
    plain : Recommender or RatingNMF
        The fit without privacy.
    measures : dict of str to dict
        RMSE, MAE, recall and NDCG on held-out ratings, of each model and of the users' own means.
    curves : dict of float to float
        RMSE by epsilon.
    guarantee : Guarantee
        That of `model`.
    by_popularity : dict of str to list of float
        RMSE of each model in groups of held-out ratings, by ascending popularity of the items.
    ratings_per_user : ndarray of int
        Numbers of fitted ratings.
    n_ratings, n_held_out : int
    source : dict of str to str
        Where the ratings came from; it is in ``result.json``.
    all_equal : bool
        Whether all ratings are the same number.
    frontier : Frontier or None
        The error against epsilon, on synthetic users.
    """

    title = "Recommender"
    model_name = "recommender"

    model: PrivateRecommender | PrivateRatingNMF | Recommender | RatingNMF
    plain: Recommender | RatingNMF
    measures: dict[str, dict[str, float]]
    curves: dict[float, float]
    by_popularity: dict[str, list[float]]
    ratings_per_user: NDArray[np.int64]
    n_ratings: int
    n_held_out: int
    source: dict[str, str] = field(default_factory=dict)
    all_equal: bool = False
    frontier: Frontier | None = None

    @property
    def n_units(self) -> int:
        """The number of fitted users."""
        return len(self.ratings_per_user)

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the ratings, the error and the factors."""
        concerns = super().concerns
        if self.all_equal:
            concerns += about_ratings(np.zeros(1))
        elif OWN_MEAN in self.measures:
            error, trivial = next(iter(self.measures.values()))["rmse"], self.measures[OWN_MEAN]["rmse"]
            concerns += not_better_than(f"{OWN_MEAN}, which costs no privacy", error, trivial, measure="RMSE")
        return concerns + only_biases(int(np.any(self.model.item_factors_)))

    def values(self) -> dict[str, object]:
        """Return scores and the frontier as plain values."""
        values = {
            **self.source,
            "ratings": self.n_ratings,
            "held_out": self.n_held_out,
            "scores": self.measures,
        }
        if self.curves:
            values["rmse_by_epsilon"] = {f"{epsilon:g}": self.curves[epsilon] for epsilon in sorted(self.curves)}
        if self.frontier is not None:
            values["frontier_on_synthetic_users"] = self.frontier.values()
        return values

    def lines(self) -> list[str]:
        """Return each model's error."""
        return [f"{name}: RMSE {scores['rmse']:.4f}" for name, scores in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add scores, the cost of privacy, errors by popularity and the users' contributions."""
        keys = ("rmse", "mae", "recall", "ndcg", "average_precision", "coverage", "popularity_bias")
        names = ["RMSE", "MAE", "recall at 10", "NDCG at 10", "MAP at 10", "coverage", "popularity bias"]
        rows = [
            [name, *(f"{scores[key]:.4f}" if math.isfinite(scores.get(key, math.nan)) else "" for key in keys)]
            for name, scores in self.measures.items()
        ]
        report.table(
            "Held-out ratings",
            ["model", *names],
            rows,
            "This model answers how a user would rate an item (RMSE, MAE). A list of its highest predictions has rare items that "
            "few people chose: for lists, fit the high ratings with --implicit, or with ImplicitRecommender.",
        )
        if self.curves:
            epsilons = sorted(self.curves)
            figure = frontier(
                epsilons,
                [self.curves[epsilon] for epsilon in epsilons],
                reference=self.measures["without privacy"]["rmse"],
                value_name="RMSE on held-out ratings",
                reference_name="without privacy",
                baseline=(self.measures[OWN_MEAN]["rmse"], f"{OWN_MEAN} (free)"),
            )
            report.figure("What privacy costs", figure, "Lower is better. A user's own mean costs no privacy.")
        if self.frontier is not None:
            self.frontier.draw(report)
        if self.by_popularity:
            labels = ["rarest", *[""] * (GROUPS - 2), "most popular"]
            report.figure(
                "Error by popularity",
                bars(labels, self.by_popularity, value_name="RMSE"),
                "Held-out ratings in five groups of equal size, from those of rare items to those of popular ones.",
            )
        report.figure(
            "Contributions",
            histogram(self.ratings_per_user, value_name="ratings of a user"),
            "Some users rate much more than others. In a private fit each user's contribution is scaled to the same norm.",
        )


@concerns_in_the_result
def compare_recommenders(
    ratings: IntoDataFrame,
    n_factors: int = 16,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    rating_range: tuple[float, float] = (1, 5),
    catalogue: Sequence[Hashable] | None = None,
    features: ArrayLike | None = None,
    non_negative: bool = False,
    held_out: float = 0.1,
    other_epsilons: Sequence[float] = (),
    frontier: bool = False,
    budgets: Mapping[Hashable, float] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RecommenderComparison:
    """Fit a recommender with and without privacy, and measure both on held-out ratings.

    Parameters
    ----------
    ratings : data frame
        With the columns user, item and rating.
    n_factors : int, default=16
    epsilon : float, optional
        Total privacy loss of a user's whole history; without it there is no private fit.
    delta, rating_range
        See `tacit.PrivateRecommender`.
    catalogue : sequence of ids
        All items: public, and required for a private fit.
    features : array_like of shape (n_items, n_features), optional
        Of the items, for the private fit: public. See `tacit.PrivateRecommender`.
    non_negative : bool, default=False
        Fit `tacit.PrivateRatingNMF` and `tacit.RatingNMF`, whose factors a person can read, in place of
        `tacit.PrivateRecommender` and `tacit.Recommender`. Without features and budgets of the users.
    held_out : float, default=0.1
        Fraction of the ratings to hold out of both fits. With an `epsilon`, each rating is held out or kept by its user
        and item, under a secret key (`tacit.data.split`); otherwise by `random_state`.
    other_epsilons : sequence of float
        Also fit with these, to draw the cost of privacy: for ratings that are public or made up. The curve is computed
        from the ratings themselves, and neither protected nor charged.
    frontier : bool, default=False
        With an `epsilon`: draw the error against epsilon, on synthetic users drawn from the released model. It costs no
        privacy.
    budgets : mapping of user to float, optional
        In place of `epsilon`: each user's own; `inf` for volunteers, whom no guarantee covers.
    ledger, dataset
        See `tacit.PrivateRecommender`.
    random_state : int, default=0
        Without `epsilon`, the seed of the split.
    source : dict of str to str, optional
        Kept with the result, for example the name of the file of the ratings.
    progress : callable, optional
        Called with the name of each stage.

    Returns
    -------
    RecommenderComparison
        Scores are computed without noise, and are for the holder of the data.

    Examples
    --------
    >>> import polars
    >>> from tacit.data import make_ratings
    >>> from tacit.report import compare_recommenders
    >>> made = make_ratings(2000, 40, random_state=1)
    >>> frame = polars.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings})
    >>> result = compare_recommenders(frame, 4, epsilon=5.0, catalogue=range(40))
    >>> bool(result.measures["private"]["rmse"] < 1.2 * result.measures["without privacy"]["rmse"])
    True
    """
    say = progress or (lambda stage: None)
    if budgets is not None and epsilon is not None:
        raise InvalidInputError("either an epsilon or budgets of the users", words("both"), "Leave one of them out.")
    if non_negative and (features is not None or budgets is not None):
        raise InvalidInputError(
            "non-negative factors without features and without budgets of the users",
            words("one of them"),
            "Leave them out, or fit factors of any sign.",
        )
    if epsilon is not None:
        check_epsilon(epsilon)
    private = epsilon is not None or budgets is not None
    frame = _frame(ratings)
    check_fraction(held_out)
    if not private:
        out = held_out_by_seed(len(frame), fraction=held_out, random_state=random_state)
    elif catalogue is None:
        raise InvalidInputError(
            "a catalogue of all items for a private fit",
            words("none: the items that occur in the ratings are private"),
            "Give the list of all items that can be rated, rated or not: set catalogue=.",
        )
    else:
        out = held_out_pairs(frame["user"], frame["item"], fraction=held_out)
    train, test = frame.filter(~out), frame.filter(out)
    say("fitting without privacy, to compare")
    plain: Recommender | RatingNMF = (RatingNMF if non_negative else Recommender)(
        n_factors, rating_range=rating_range, random_state=random_state
    ).fit(train)
    models: dict[str, RatingModel] = {"without privacy" if private else "fitted": plain}
    measures = _scores(models, test)
    if len(test):
        measures[OWN_MEAN] = {"rmse": _own_mean_error(train, test)}
    curve: dict[float, float] = {}
    drawn: Frontier | None = None
    if private:
        # everything that can fail has been tried on the other fits before the private one is charged
        settings: dict[str, Any] = {"delta": delta, "rating_range": rating_range, "catalogue": list(catalogue or ())}
        kind = PrivateRatingNMF if non_negative else PrivateRecommender
        if not non_negative:
            settings["features"] = features
        curve = _errors_by_epsilon(kind, train, test, n_factors, other_epsilons, settings, say)
        say("fitting with privacy")
        wanted: Any = epsilon if budgets is None else dict(budgets)
        account = account_of(ledger, dataset, ratings)
        model = kind(n_factors, epsilon=wanted, ledger=ledger, dataset=account, **settings).fit(train)
        keep_release(model, RecommenderComparison.model_name)
        say("measuring")
        models = {"private": model, **models}
        measures = {**_scores({"private": model}, test), **measures}
        if curve and epsilon is not None:
            curve[epsilon] = measures["private"]["rmse"]
        if frontier:
            drawn = ratings_frontier(model, train["user"].n_unique(), len(train))
    return RecommenderComparison(
        next(iter(models.values())),
        plain,
        measures,
        curve,
        {name: _by_popularity(model, train, test) for name, model in models.items()} if len(test) else {},
        train.group_by("user").len()["len"].to_numpy(),
        len(train),
        len(test),
        source or {},
        frame["rating"].n_unique() == 1,
        drawn,
    )


def _frame(ratings: IntoDataFrame) -> polars.DataFrame:
    """Return the ratings as a polars frame with the columns user, item and rating."""
    import narwhals as nw
    import polars as pl

    names = ("user", "item", "rating")
    try:
        frame = nw.from_native(ratings, eager_only=True)
    except TypeError:
        frame = None
    if frame is None or not set(names) <= set(frame.columns):
        raise InvalidInputError(
            "a data frame with the columns user, item and rating",
            words("other columns" if frame is not None else f"a {type(ratings).__name__}"),
            "Rename the columns.",
        )
    native = frame.to_native()
    if isinstance(native, pl.DataFrame):
        return native.select(names)
    return pl.DataFrame({name: frame[name].to_list() for name in names})


def _scores(models: Mapping[str, RatingModel], test: polars.DataFrame) -> dict[str, dict[str, float]]:
    return {name: model.evaluate(test).values() for name, model in models.items() if len(test)}


def _errors_by_epsilon(
    kind: type[PrivateRecommender] | type[PrivateRatingNMF],
    train: polars.DataFrame,
    test: polars.DataFrame,
    n_factors: int,
    epsilons: Sequence[float],
    settings: dict[str, Any],
    say: Callable[[str], None],
) -> dict[float, float]:
    if not len(test) or not len(epsilons):
        return {}
    say("fitting with other epsilons")
    errors = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # meant for the fit that is released
        for epsilon in epsilons:
            model = kind(n_factors, epsilon=epsilon, **settings).fit(train)
            errors[epsilon] = model.evaluate(test).rmse
    return errors


def _own_mean_error(train: polars.DataFrame, test: polars.DataFrame) -> float:
    """Predict each user's own mean, which costs no privacy; the overall mean for users without fitted ratings."""
    import polars as pl

    means = train.group_by("user").agg(pl.col("rating").mean().alias("mean"))
    joined = test.join(means, on="user", how="left").with_columns(pl.col("mean").fill_null(train["rating"].mean()))
    squares: Any = ((joined["rating"] - joined["mean"]) ** 2).mean()
    return math.sqrt(float(squares))


def _by_popularity(
    model: RatingModel,
    train: polars.DataFrame,
    test: polars.DataFrame,
) -> list[float]:
    """Return the RMSE in groups of equal numbers of held-out ratings, by ascending popularity of the items."""
    import polars as pl

    counts = train.group_by("item").agg(pl.len().alias("count"))
    known = test.join(counts, on="item", how="left").with_columns(pl.col("count").fill_null(0))
    errors = model.predict(known["user"], known["item"], unknown="mean") - known["rating"].to_numpy()
    order = np.argsort(known["count"].to_numpy(), kind="stable")
    return [math.sqrt(float(np.mean(errors[part] ** 2))) for part in np.array_split(order, GROUPS) if len(part)]
