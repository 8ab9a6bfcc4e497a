"""How the noisy moments divide a budget: from sizes, parameters and the expected noise, all public, before the first sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.channel import Split, Step
from tacit.factor.noisy_moments.constants import FIRST, REGRESSIONS, SECOND

REGRESSION_FRACTIONS = {"rows": 0.94, "grams": 0.04, "activity": 0.02}
MEAN_ERROR, LEAST_MEAN_WEIGHT, MOST_MEAN_WEIGHT = 0.02, 0.005, 0.8
"""The mean gets what it takes to know it to this, on a scale from -1 to 1, within limits."""
MOST_MEAN_BLUR = 0.1
"""If the whole budget tells the mean no better than this, nothing finer is asked for."""
MEAN_VARIANCE = 0.05
"""Of the mean around the middle of the range, which is at 0."""
MOST_EDGE = 0.03
"""A second moment is asked for only if the edge of its noise lies below this share of the entities."""
MOST_BLUR = 0.15
"""Regressions are made only if the noise of their averages lies below this share of the entities."""
OWN = 0.25
"""Share of the budget of the entities' own factors, where these are released."""


@dataclass(frozen=True)
class CoupledMomentSettings:
    """What all holders agree on.

    Attributes
    ----------
    rank : int
        At most so many factors.
    rounds : int
        Number of regressions.
    max_columns : int
        At most so many rows of the largest factor enter the second moment.
    lead : str or None
        The shared factor with the most rows; None if none is shared.
    release_own : bool
        Whether the protected entities' factors are released.
    planned_noise : float
        The noise multiplier of one sum with the whole budget; public. The split is decided by it, before the plan.
    n_listed : int
        Number of units to expect, as far as it is public.
    """

    rank: int
    rounds: int
    max_columns: int
    lead: str | None
    release_own: bool
    planned_noise: float
    n_listed: int

    @property
    def mean_blur(self) -> float:
        """The noise in the mean, were the whole budget spent on it. Like all that follows from it, this is public."""
        return self.planned_noise * math.sqrt(2) / self.n_listed

    @property
    def only_the_mean(self) -> bool:
        """Whether noise would drown all but the mean; then the model is a constant."""
        return self.mean_blur > MOST_MEAN_BLUR

    @property
    def mean_weight(self) -> float:
        """The share of the budget of the mean: what it takes to know it well, within limits."""
        if self.only_the_mean:
            return 1.0
        return min(max((self.mean_blur / MEAN_ERROR) ** 2, LEAST_MEAN_WEIGHT), MOST_MEAN_WEIGHT)

    @property
    def left(self) -> float:
        """The share of the budget that is neither the mean's nor the own factors'."""
        return (1 - self.mean_weight) * (1 - OWN if self.release_own else 1.0)

    @property
    def own_weight(self) -> float:
        """The share of the budget of the entities' own factors."""
        return (1 - self.mean_weight) * OWN if self.release_own else 0.0

    def worth_a_second_moment(self, entities: int, bound: float, share: float) -> bool:
        """Whether a direction could rise above the noise of a second moment; if not, its budget goes elsewhere."""
        edge = math.sqrt(2 * self.max_columns) * self.planned_noise * bound / math.sqrt(share)
        return self.lead is not None and self.rank > 0 and edge <= MOST_EDGE * entities

    @property
    def split(self) -> Split:
        """How the sums divide the budget; what noise would drown is left out, and its part goes to the others."""
        if self.only_the_mean:
            return Split(mean=1.0)
        parts = {"first": FIRST}
        if self.worth_a_second_moment(self.n_listed, 1.0, SECOND):
            parts["second"] = SECOND
        blur = 4 * self.planned_noise / math.sqrt(REGRESSIONS / self.rounds * REGRESSION_FRACTIONS["grams"])
        if blur <= MOST_BLUR * self.n_listed:
            parts["regressions"] = REGRESSIONS
        steps: dict[str, float | Step] = {name: self.left * part / sum(parts.values()) for name, part in parts.items()}
        if "regressions" in parts:
            weight = self.left * REGRESSIONS / sum(parts.values()) / self.rounds
            steps["regressions"] = Step(count=self.rounds, weight=weight)
        own: dict[str, float | Step] = {"own": self.own_weight} if self.release_own else {}
        return Split(mean=self.mean_weight, **steps, **own)
