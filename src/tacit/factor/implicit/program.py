r"""The items' side of a recommender from interactions, under user-level differential privacy, in two noisy sums.

1. *Popularity*: every user's row, divided by its own norm, and the number of users. A user with ten thousand interactions
   moves the sum no further than one with ten.
2. *Co-occurrence*: the second moment of the users' rows over the items that are popular enough to be learned about. Most
   of a row points in the direction of all users together, which is known from 1: that part is multiplied by 0.3, so that
   the norm, for which the noise is sized, is spent on the differences between users.

Everything else is post-processing (`tacit.factor.implicit.item_model`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.channel.asks import Total
from tacit.estimators.scheduled import ScheduledSums
from tacit.factor.implicit.co_occurrence import ChosenItems, second_moment
from tacit.factor.implicit.item_model import broad_and_narrow, estimated_moment, item_regression
from tacit.factor.noisy_moments.symmetric import unpack
from tacit.factor.ratings.table import RatingTable
from tacit.privacy.schedules import Schedule
from tacit.progress import tell

SPLIT = Split(popularity=0.1, pairs=0.9)
"""How the two sums divide the budget. All constants of this module were chosen on validation users of MovieLens 1M and of the
anime log, drawn from users that no reported figure is measured on."""
POPULARITY_FRACTIONS = {"users": 0.02, "items": 0.98}
"""Fractions of the first sum: the number of users, which needs little accuracy, and the weight of each item."""
KEPT = 0.3
"""Of a row's part along the popularity."""
LEARNABLE, LEARNABLE_POWER = 0.075, 0.4
"""An item is learned about if its popularity per user is above ``LEARNABLE * (noise / users) ** LEARNABLE_POWER``: the noise of a
second moment grows with its size, and rare items add noise and no signal."""
NOISE_ITEMS = 50
"""And if its popularity is above what noise alone gives to more than this many items of the catalogue."""
LATEST_CHOICE = 0.25
"""In a schedule, the items are chosen after this part of the releases at the latest; before that, lists have popular items."""
LEAST_CHOSEN = 16
"""At least this many items are chosen, whatever the noise."""
RIDGE = 2e-4
"""Added to the diagonal of the second moment per user; every user counts about 1 in the sum of the diagonal."""
RIDGE_OF_NOISE = 2.0
"""And this times the noise of the second moment: what is read from a history through noisy loadings varies more."""


@dataclass(frozen=True)
class ReleasedItems:
    """What the two sums released, of all users so far, and how much noise it carries.

    Attributes
    ----------
    users : float
        Number of users.
    weights : ndarray of shape (n_items,)
        Popularities: sums over users of rows of norm 1.
    weight_noise : float
    chosen : ChosenItems
        The items of the second moment.
    pairs : ndarray
        The second moment, as `tacit.factor.implicit.co_occurrence.second_moment` packs it; empty for fewer than two items.
    pair_noise : float
    """

    users: float
    weights: NDArray[np.float64]
    weight_noise: float
    chosen: ChosenItems
    pairs: NDArray[np.float64]
    pair_noise: float

    def public(self) -> dict[str, Any]:
        """Return the arrays and numbers by name, for an `Outcome`."""
        return {
            **{name: value for name, value in vars(self).items() if name != "chosen"},
            **{name: getattr(self.chosen, name) for name in ("items", "direction")},
        }

    @classmethod
    def of(cls, public: Mapping[str, Any]) -> ReleasedItems:
        """Return what an outcome made with `public` holds."""
        chosen = ChosenItems(public["items"], public["direction"], KEPT)
        names = ("users", "weights", "weight_noise", "pairs", "pair_noise")
        return cls(chosen=chosen, **{name: public[name] for name in names})


class Fresh:
    """The sums of this fit alone; subclasses add them to those of earlier fits."""

    sensitivity = 1.0
    """What a unit can move in all fits together, over what it can move in one."""

    @property
    def chosen(self) -> ChosenItems | None:
        """The items of the second moment; chosen from the first sum if None."""
        return None

    @property
    def earlier(self) -> Sequence[Mapping[str, NDArray[Any]]]:
        """The rows (`ends`, `columns`, `values`) of earlier fits whose pairs were not counted yet."""
        return ()

    def choose(self, weights: NDArray[np.float64], noise: float, users: float, max_columns: int) -> ChosenItems | None:
        """Return the items of the second moment; None if it is too early to choose them."""
        return choose_items(weights, noise, users, max_columns)

    def wait(self, table: RatingTable) -> None:
        """Keep the rows of a fit for the choice of a later one."""

    def forget(self) -> None:
        """Forget them: their pairs are counted."""

    def terms(self, name: str, new: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """Return the terms that this fit asks to be totalled, given its own."""
        return dict(new)

    def totals(self, name: str, answer: Total) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the totals of all fits, and the noise in them."""
        return dict(answer), dict(answer.noise)


class AddedTo(Fresh):
    """The sums of this fit added to what an earlier one released, with noise of its own."""

    def __init__(self, earlier: ReleasedItems) -> None:
        self._chosen = earlier.chosen
        self._arrays = {"users": np.array([earlier.users]), "items": earlier.weights, "pairs": earlier.pairs}
        self._noise = {"users": 0.0, "items": earlier.weight_noise, "pairs": earlier.pair_noise}

    @property
    def chosen(self) -> ChosenItems | None:
        """The items of the earlier fit."""
        return self._chosen

    def totals(self, name: str, answer: Total) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the totals of both fits, and the noise in them."""
        sums = {key: answer[key] + self._arrays[key] for key in answer}
        return sums, {key: math.hypot(answer.noise[key], self._noise[key]) for key in answer}


class Scheduled(ScheduledSums, Fresh):
    """One of many releases with correlated noise."""

    def __init__(self, schedule: Schedule, max_units: int) -> None:
        super().__init__(schedule, SPLIT, max_units)
        self.sensitivity = self.reach

    @property
    def chosen(self) -> ChosenItems | None:
        """The items of the second moment, which are chosen once; None before that."""
        return ChosenItems(self.fixed["items"], self.fixed["direction"], KEPT) if self.fixed else None

    @property
    def earlier(self) -> Sequence[Mapping[str, NDArray[Any]]]:
        """The rows of the releases before the choice."""
        return self.kept

    def choose(self, weights: NDArray[np.float64], noise: float, users: float, max_columns: int) -> ChosenItems | None:
        """Return the items; None as long as noise hides items that could be learned about at the end of the schedule.

        At the latest they are chosen when `LATEST_CHOICE` of the releases are made.
        """
        planned, made = self.schedule, len(self.running["popularity"].answers)
        grown = planned.relative_noise(planned.releases - 1) / planned.relative_noise(made - 1)
        at_end = noise * grown, users * planned.releases / made
        early = users * learnable(*at_end) < lifted_by(noise, len(weights))
        if early and made < LATEST_CHOICE * planned.releases:
            return None
        chosen = choose_items(weights, noise, users, max_columns, learnable(*at_end))
        self.fixed = {"items": chosen.items, "direction": chosen.direction}
        return chosen

    def wait(self, table: RatingTable) -> None:
        """Keep the rows of a release for the choice of a later one."""
        self.kept.append({"ends": table.ends, "columns": table.columns, "values": table.values})

    def forget(self) -> None:
        """Forget them: their pairs are counted."""
        self.kept = []


def implicit_program(
    table: RatingTable,
    max_columns: int,
    features: NDArray[np.float64] | None,
    memory: Fresh | None = None,
) -> Program:
    """One holder's view.

    Parameters
    ----------
    table : RatingTable
        Positive values.
    max_columns : int
        At most this many items enter the second moment.
    features : ndarray of shape (n_items, n_features), optional
        Public.
    memory : Fresh, optional
        Earlier fits to which this one adds.
    """
    memory = memory or Fresh()
    tell("counting items")
    n_items, units = len(table.items), len(table.users)
    rows = np.bincount(table.columns, unit_rows(table), minlength=n_items).astype(np.float64)
    terms = memory.terms("popularity", {"users": np.array([float(units)]), "items": rows})
    total = yield Sum(
        users=terms["users"],
        items=terms["items"],
        # rows are not negative and of norm 1 (0 without interactions)
        bound={
            "users": memory.sensitivity,
            "items": Bound(memory.sensitivity, change=math.sqrt(2) * memory.sensitivity),
        },
        fractions=POPULARITY_FRACTIONS,
        step=SPLIT["popularity"],
        units=units,
    )
    sums, noise = memory.totals("popularity", total)
    users, weights = max(float(sums["users"][0]), 1.0), sums["items"]
    chosen = memory.chosen or memory.choose(weights, noise["items"], users, max_columns)
    if chosen is None:
        memory.wait(table)
        chosen = ChosenItems(np.zeros(0, dtype=np.int64), np.zeros(0), KEPT)
    if len(chosen.items) < 2:
        release = ReleasedItems(users, weights, noise["items"], chosen, np.zeros(0), 0.0)
        nothing = np.zeros((len(chosen.items), len(chosen.items)), dtype=np.float32)
        return Outcome({**release.public(), "regression": nothing})
    tell("counting pairs of items")
    rows_of_fits = [(one["ends"], one["columns"], one["values"]) for one in memory.earlier]
    rows_of_fits.append((table.ends, table.columns, table.values))
    terms_of_fits = [
        memory.terms("pairs", {"pairs": second_moment(*one, n_items, chosen)})["pairs"] for one in rows_of_fits
    ]
    total = yield Sum(
        pairs=np.concatenate(terms_of_fits),
        # outer products of vectors of norm 1, which are at most sqrt(2) apart
        bound=Bound(memory.sensitivity, change=math.sqrt(2) * memory.sensitivity),
        step=SPLIT["pairs"],
        units=max(len(ends) - 1 for ends, _, _ in rows_of_fits),  # each fit's term is added up by itself
    )
    memory.forget()
    pairs, pair_noise = memory.totals("pairs", total)
    tell("learning about items")
    release = ReleasedItems(users, weights, noise["items"], chosen, pairs["pairs"], pair_noise["pairs"])
    popularity = positive_weights(weights, noise["items"])[chosen.items]
    broad, narrow = (None if part is None else part[chosen.items] for part in broad_and_narrow(features))
    estimate = estimated_moment(
        unpack(release.pairs, len(chosen.items)),
        release.pair_noise,
        users,
        chosen,
        popularity,
        broad,
        narrow,
    )
    estimate[np.diag_indices_from(estimate)] += RIDGE * users + RIDGE_OF_NOISE * release.pair_noise
    return Outcome({**release.public(), "regression": item_regression(estimate)})


def unit_rows(table: RatingTable) -> NDArray[np.float64]:
    """Return the values, those of each user divided by their norm."""
    filled = table.counts > 0
    largest = np.ones(len(table.users))
    if filled.any():
        largest[filled] = np.maximum.reduceat(table.values, table.ends[:-1][filled])
    scaled = table.values / largest[table.rows]  # squares of very large or very small weights would leave the range
    norms = np.sqrt(table.per_user(scaled**2))
    rows: NDArray[np.float64] = scaled / norms[table.rows]
    return rows


def choose_items(
    weights: NDArray[np.float64], noise: float, users: float, max_columns: int, least: float | None = None
) -> ChosenItems:
    """Return the items that enter the second moment, from what was released.

    `least` is the least popularity per user; that of `learnable` if not given.
    """
    least = learnable(noise, users) if least is None else least
    threshold = max(users * least, lifted_by(noise, len(weights)))
    count = max(int((weights > threshold).sum()), LEAST_CHOSEN)
    items = np.sort(np.argsort(-weights, kind="stable")[: min(count, max_columns, len(weights))])
    direction = positive_weights(weights, noise)[items]
    return ChosenItems(items.astype(np.int64), direction / np.linalg.norm(direction), KEPT)


def learnable(noise: float, users: float) -> float:
    """Return the popularity per user above which an item is learned about."""
    return LEARNABLE * float((noise / users) ** LEARNABLE_POWER)


def lifted_by(noise: float, n_items: int) -> float:
    """Return the popularity that noise alone gives to more than `NOISE_ITEMS` items of the catalogue."""
    return noise * float(ndtri(1 - min(NOISE_ITEMS / n_items, 0.5)))


def positive_weights(weights: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return popularities of at least the noise: what is below it is not known to be smaller."""
    return np.maximum(weights, max(noise, float(np.abs(weights).max()) * 1e-9, 1e-9))
