"""How the noisy moments divide a budget: computed before the first sum, from sizes, parameters and the planned noise only.

All inputs are public, so the decisions cost no privacy. MOST_MEAN_BLUR was chosen on the tables of
docs/results/private_coupled.md; the weights of the mean, MOST_EDGE and MOST_BLUR were chosen with the first of the three
MovieLens splits there; the other constants were set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.channel import Split, Step
from tacit.factor.noisy_moments.constants import FIRST, REGRESSION_FRACTIONS, REGRESSIONS, SECOND
from tacit.factor.noisy_moments.symmetric import semicircle_edge

MEAN_ERROR, LEAST_MEAN_WEIGHT, MOST_MEAN_WEIGHT = 0.02, 0.005, 0.8
"""The mean gets the weight that makes its standard error this small, on a scale from -1 to 1, within these limits."""
MOST_MEAN_BLUR = 0.1
"""If the whole budget gives the mean a larger standard error than this, only the mean is released."""
MEAN_VARIANCE = 0.05
"""Prior variance of the mean around 0, the middle of the range."""
MOST_EDGE = 0.03
"""A second moment is released only if the edge of its noise is below this fraction of the number of entities."""
MOST_BLUR = 0.15
"""Regressions are made only if the noise of their averages is below this fraction of the number of entities."""
OWN = 0.25
"""Fraction of the budget (without that of the mean) for the entities' own factors, if these are released."""


@dataclass(frozen=True)
class Sites:
    """What follows from the relations of all sites; public.

    Attributes
    ----------
    rows, lead, all : float
        How many times its bound at one site a unit can move a sum over all sites (`Problem.repeats`): a sum over the rows of
        all factors, one over those of the lead, and one to whose numbers all sites add.
    fractions : mapping of factor to float
        The fraction of the listed entities that are at sites with the factor; 1 for those that are not named.
    most_factors : int or None
        The largest number of factors of one relation; None for that of the only relation.
    lead_entities : slices of the protected entities' rows, or None
        Those of the sites that have the lead; None for all rows.
    """

    rows: float = 1.0
    lead: float = 1.0
    all: float = 1.0
    fractions: Mapping[str, float] = field(default_factory=dict)
    most_factors: int | None = None
    lead_entities: tuple[slice, ...] | None = None


ONE_SITE = Sites()


@dataclass(frozen=True)
class CoupledMomentSettings:
    """Public settings, the same for all holders.

    Attributes
    ----------
    rank : int
        Maximum number of factors.
    rounds : int
        Number of regressions.
    max_columns : int
        Maximum number of rows of the largest factor in the second moment.
    lead : str or None
        The shared factor with the most rows; None if none is shared.
    release_own : bool
        Whether the protected entities' factors are released.
    planned_noise : float
        The noise multiplier of one sum with the whole budget; public. The split depends on it, and is made before the plan.
    n_listed : int
        Expected number of units, from public knowledge.
    sites : Sites, optional
        What follows from the relations of all sites; if not given, there is one.
    """

    rank: int
    rounds: int
    max_columns: int
    lead: str | None
    release_own: bool
    planned_noise: float
    n_listed: int
    sites: Sites = ONE_SITE

    @property
    def mean_blur(self) -> float:
        """Standard error of the mean, if the whole budget were spent on it."""
        return self.planned_noise * math.sqrt(2) / self.n_listed

    @property
    def only_the_mean(self) -> bool:
        """Whether the noise allows no more than the mean; the model is then a constant."""
        return self.mean_blur > MOST_MEAN_BLUR

    @property
    def mean_weight(self) -> float:
        """Fraction of the budget for the mean."""
        if self.only_the_mean:
            return 1.0
        return min(max((self.mean_blur / MEAN_ERROR) ** 2, LEAST_MEAN_WEIGHT), MOST_MEAN_WEIGHT)

    @property
    def left(self) -> float:
        """Fraction of the budget that is left for the moments."""
        return (1 - self.mean_weight) * (1 - OWN if self.release_own else 1.0)

    @property
    def own_weight(self) -> float:
        """Fraction of the budget for the entities' own factors."""
        return (1 - self.mean_weight) * OWN if self.release_own else 0.0

    def worth_a_second_moment(self, entities: int, bound: float, weight: float) -> bool:
        """Whether a direction could exceed the noise of a second moment; if not, the other sums get its budget."""
        edge = semicircle_edge(self.planned_noise * bound / math.sqrt(weight), self.max_columns)
        return self.lead is not None and self.rank > 0 and edge <= MOST_EDGE * entities

    @property
    def split(self) -> Split:
        """How the sums divide the budget. Sums that would be all noise are left out, and the others get their parts."""
        if self.only_the_mean:
            return Split(mean=1.0)
        parts = {"first": FIRST}
        if self.worth_a_second_moment(self.n_listed, 1.0, SECOND):
            parts["second"] = SECOND
        # 4 is the bound of a Gram matrix of size 1, see `user_moments`
        blur = 4 * self.planned_noise / math.sqrt(REGRESSIONS / self.rounds * REGRESSION_FRACTIONS["gram"])
        if blur <= MOST_BLUR * self.n_listed:
            parts["regressions"] = REGRESSIONS
        steps: dict[str, float | Step] = {name: self.left * part / sum(parts.values()) for name, part in parts.items()}
        if "regressions" in parts:
            weight = self.left * REGRESSIONS / sum(parts.values()) / self.rounds
            steps["regressions"] = Step(count=self.rounds, weight=weight)
        own: dict[str, float | Step] = {"own": self.own_weight} if self.release_own else {}
        return Split(mean=self.mean_weight, **steps, **own)
