r"""Many releases of a growing total for one budget: correlated noise by the square root of the prefix sums.

A model is released again every week, from everything up to then. Its statistics are prefix sums :math:`A x` of the weekly
terms :math:`x`, with A the lower triangular matrix of ones. A factorises as :math:`A = C C` with the Toeplitz matrix C
whose coefficients are :math:`c_j = \binom{2j}{j} / 4^j` [1]_. Week t releases :math:`y_t = (C x)_t` plus independent noise,
and everybody computes the running total as :math:`(C y)_t`. All weeks together are **one** Gaussian mechanism, whose
sensitivity is the largest norm of the columns of C, added up over the weeks in which a unit takes part. This holds if later
terms are chosen in the light of earlier answers too [2]_.

For a unit that takes part k times, at least b weeks apart, the largest norm has the weeks 0, b, ..., (k - 1) b: the
coefficients are positive and decreasing, so that the earliest and closest weeks are the worst [3]_.

References
----------
.. [1] H. Fichtenberger, M. Henzinger, J. Upadhyay. Constant matters: fine-grained error bound on differentially private
   continual observation. ICML 2023.
.. [2] S. Denisov et al. Improved differential privacy for SGD via optimal private linear operators on adaptive streams.
   NeurIPS 2022.
.. [3] N. Kalinin, C. Lampert. Banded square root matrix factorization for differentially private model training.
   NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_count

Arrays = Mapping[str, NDArray[np.float64]]

FLOAT_UNIT = 2.0**-53
"""Unit roundoff of double precision."""
ROUNDED_PART = 2.0**-13
"""Largest part of a sum's bound that its rounding to the grid is (LEAST_STEPS_PER_ROUNDING of the noisy channel is 2**13)."""


@dataclass(frozen=True)
class Schedule:
    """A number of releases of one growing total, and how often a unit takes part.

    Parameters
    ----------
    releases : int
        How many there will be; public, and fixed before the first.
    participations : int, default=1
        In how many of them a unit has new data, at most.
    separation : int, default=1
        Two of a unit's participations are at least this many releases apart.

    Examples
    --------
    A year of weekly releases, for units that appear once: the last has 2.32 times the noise of a single release.

    >>> from tacit.privacy.schedules import Schedule
    >>> round(Schedule(52).relative_noise(51), 2)
    2.32
    """

    releases: int
    participations: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        for name in ("releases", "participations", "separation"):
            check_count(getattr(self, name), name)

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """The first column of C: c_0 = 1, c_j = c_{j-1} (2j - 1) / (2j)."""
        steps = np.arange(1, self.releases)
        column: NDArray[np.float64] = np.cumprod(np.r_[1.0, (2 * steps - 1) / (2 * steps)], dtype=np.float64)
        return column

    @cached_property
    def sensitivity(self) -> float:
        """Largest norm of all that one unit contributes to C x, for terms of norm 1; rounded up."""
        total = np.zeros(self.releases)
        for start in range(0, min(self.participations * self.separation, self.releases), self.separation):
            total[start:] += self.coefficients[: self.releases - start]
        return float(np.linalg.norm(total)) * (1 + 1e-12)

    def reach(self, max_units: int) -> float:
        r"""Return the bound of the sums of all releases together, over that of a unit's new terms, for a noisy channel.

        The channel counts the rounding of one sum. Here there are two more kinds. First, each of the T releases is rounded to
        its own grid, by at most `ROUNDED_PART` of the bound, so that all of them together move by at most :math:`\sqrt T`
        times that. Second, a release adds up the terms of all earlier ones: with u the unit roundoff and N units in each term,
        this errs by at most :math:`(T + 1) u \sum_j c_j N` on each of two neighbouring data sets (Higham 2002, section 4.2), in
        each of the T releases.

        Parameters
        ----------
        max_units : int
            Public upper bound on the number of units of one release.
        """
        count = self.releases
        added = (count + 1) * FLOAT_UNIT * float(self.coefficients.sum()) * check_count(max_units, "max_units")
        return (self.sensitivity + 2 * math.sqrt(count) * added) / (1 - math.sqrt(count) * ROUNDED_PART)

    def relative_noise(self, release: int) -> float:
        """Noise of the total at a release (counted from 0), over that of a single release for the same budget; rounded up."""
        if not 0 <= release < self.releases:
            raise InvalidInputError(
                f"a release from 0 to {self.releases - 1}", words("another"), "The schedule has no more releases."
            )
        return self.sensitivity * float(np.linalg.norm(self.coefficients[: release + 1])) * (1 + 1e-12)

    @property
    def separate_noise(self) -> float:
        """Noise of each release, over that of a single one, where every release is a fit of everything, paid for by itself."""
        return math.sqrt(self.releases)

    @property
    def mean_noise(self) -> float:
        """Root mean square of `relative_noise` over the releases."""
        noise = [self.relative_noise(release) for release in range(self.releases)]
        return math.sqrt(float(np.mean(np.square(noise))))

    @property
    def helps(self) -> bool:
        """Whether correlated noise is smaller, in root mean square over the releases, than that of separate fits."""
        return self.mean_noise < self.separate_noise

    def check_helps(self) -> None:
        """Raise if separate fits have less noise: where units take part in most of the releases."""
        if not self.helps:
            raise InvalidInputError(
                "units that take part in few of the releases",
                words(
                    f"up to {self.participations} of {self.releases}, at least {self.separation} apart: correlated noise would "
                    f"be {self.mean_noise:.1f} times that of one release, separate fits of everything have "
                    f"{self.separate_noise:.1f} times that"
                ),
                "Release less often, or pay for each fit by itself (a ledger adds them up).",
            )


class RunningTotal:
    """One holder's side of a schedule: what to send at each release, and the running total from the answers.

    The terms stay with the holder. The answers are released.

    Parameters
    ----------
    schedule : Schedule
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.terms: list[dict[str, NDArray[np.float64]]] = []
        self.answers: list[dict[str, NDArray[np.float64]]] = []

    def next_terms(self, new: Arrays) -> dict[str, NDArray[np.float64]]:
        """Return what this release asks to be totalled, (C x)_t, given the new terms.

        The sensitivity of all releases together is `schedule.sensitivity` times the bound of a unit's new terms.
        """
        if len(self.terms) >= self.schedule.releases:
            raise InvalidInputError(
                f"at most {self.schedule.releases} releases",
                words("one more"),
                "The budget of the schedule is spent: plan a new one.",
            )
        self.terms.append({name: np.array(array, dtype=np.float64) for name, array in new.items()})
        return self._combined(self.terms)

    def total(self, answer: Arrays) -> dict[str, NDArray[np.float64]]:
        """Return the running totals, (C y)_t, given the noisy answer."""
        self.answers.append({name: np.array(answer[name], dtype=np.float64) for name in answer})
        return self._combined(self.answers)

    def noise(self, spread: float) -> float:
        """Return the noise of the running total, given that of each answer."""
        return spread * float(np.linalg.norm(self.schedule.coefficients[: len(self.answers)]))

    def _combined(self, past: Sequence[dict[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
        newest_first = list(reversed(past))
        return {
            name: sum(c * one[name] for c, one in zip(self.schedule.coefficients, newest_first, strict=False))
            for name in newest_first[0]
        }
