"""Private estimators that are released again and again for one budget, with correlated noise."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from tacit.channel import Clear, Noisy, Outcome, Program, Split, run
from tacit.channel.asks import Total
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, public
from tacit.estimators.private import PrivateFit
from tacit.privacy.schedules import RunningTotal, Schedule

Arrays = Mapping[str, NDArray[np.float64]]


class ScheduledSums:
    """The sums of one release after another, by the step of the budget that they belong to, and what was fixed at the first.

    Parameters
    ----------
    schedule : Schedule
    steps : iterable of str
        Names of the steps.
    """

    def __init__(self, schedule: Schedule, steps: Iterable[str]) -> None:
        self.schedule = schedule
        self.running = {step: RunningTotal(schedule) for step in steps}
        self.fixed: dict[str, Any] = {}
        """What the first release chose, from released totals, for all later ones."""

    def terms(self, step: str, new: Arrays) -> dict[str, NDArray[np.float64]]:
        """Return the terms that this release asks to be totalled, given its own."""
        return self.running[step].next_terms(new)

    def totals(self, step: str, answer: Total) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the running totals, and the noise in them."""
        sums = self.running[step].total(answer)
        return sums, {name: self.running[step].noise(answer.noise[name]) for name in answer}

    @property
    def released(self) -> int:
        """Number of releases so far."""
        return min(len(one.answers) for one in self.running.values())


class ScheduledFit(PrivateFit):
    """Base of private estimators with a `partial_fit` whose releases share one budget.

    The first release charges the ledger with the whole budget. What later releases need stays in memory.
    """

    schedule: Any = public(default=None)
    _memory: Any = learned()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "partial_fit" in vars(cls):
            # tools of scikit-learn call `partial_fit` wherever there is one, and without a schedule it cannot be called
            cls.partial_fit = available_if(_has_schedule)(vars(cls)["partial_fit"])

    def _planned(self) -> Schedule:
        """Return the schedule, or raise if it does not help."""
        given = self.schedule if isinstance(self.schedule, tuple | list) else (self.schedule,)
        if not 1 <= len(given) <= 3:
            raise InvalidInputError(
                "schedule to be the number of releases, or (releases, participations, separation)",
                parameter(self.schedule),
                "Give one to three integers.",
            )
        planned = Schedule(*given)
        planned.check_helps()
        if hasattr(self, "_memory") and self._memory.schedule != planned:
            raise InvalidInputError("the schedule of the first release", words("another"), "Do not change it.")
        return planned

    def _run_scheduled(self, given: Any, program: Program, split: Split) -> Outcome:
        """Run one release: the first is charged for all, later ones add their noise at no further cost."""
        if not hasattr(self, "_memory"):
            outcome = self._run(given, program, self._plan(split))
            self.guarantee_ = self.guarantee_.assuming(_covers(self._planned()))
            return outcome
        plan = self._plan(split)
        if plan is None:
            return run(program, Clear())
        # equal noise in two releases would cancel
        seed = None if self.insecure_seed is None else self.insecure_seed + self._memory.released
        return run(program, Noisy(plan, max_units=self.max_units, insecure_seed=seed))

    def _continued(self, make: Any) -> Any:
        """Return what the earlier releases left, as a copy that a failed release does not change, or a new one."""
        return copy.deepcopy(self._memory) if hasattr(self, "_memory") else make(self._planned())


def _has_schedule(estimator: ScheduledFit) -> bool:
    if estimator.schedule is None:
        raise InvalidInputError(
            "a schedule for partial_fit",
            words("none"),
            "Set schedule=(releases, participations, separation): see tacit.privacy.schedules.",
        )
    return True


def _covers(schedule: Schedule) -> str:
    return (
        f"the guarantee covers all {schedule.releases} releases of the schedule together, if each unit has new data in at most "
        f"{schedule.participations} of them, at least {schedule.separation} apart"
    )
