"""Private estimators that are released again and again for one budget, with correlated noise."""

from __future__ import annotations

import copy
import io
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from tacit.channel import Clear, Noisy, Outcome, Program, Split, run
from tacit.channel.asks import Total
from tacit.errors import BudgetError, InvalidInputError, parameter, words
from tacit.estimators.base import in_file, learned, public, withheld
from tacit.estimators.private import PrivateFit
from tacit.estimators.saved import as_saved, read_model
from tacit.estimators.schedule_file import ScheduleFile
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending, open_ledger
from tacit.privacy.schedules import RunningTotal, Schedule

Arrays = Mapping[str, NDArray[np.float64]]
Memory = TypeVar("Memory", bound="ScheduledSums")


@dataclass(frozen=True)
class PaidSchedule:
    """The charge of a schedule in a ledger, which notes every later release of it: one that it has is not begun again."""

    ledger: Ledger
    dataset: str
    charge: str
    """Hash of the charge."""

    def begin(self, release: int) -> None:
        """Note that a release (counted from 0) begins, or raise."""
        self.ledger.begin_later(self.dataset, self.charge, release)


class Turns:
    """Which releases of one schedule were begun. All copies of an estimator share it; other processes cannot use it.

    The budget of a schedule pays for each release once. One that was begun may have released something before it failed, so
    that it is not begun again: not by a second attempt, not by a copy, and not by a fork. A ledger knows it too (`paid`).
    """

    def __init__(self) -> None:
        self.paid: PaidSchedule | None = None
        self._last = 0
        self._process: int | None = os.getpid()
        self._lock = threading.Lock()

    def begin(self, release: int) -> None:
        """Take the turn of a release (the first is number 0, and a ledger is charged with it); raise if it was taken."""
        with self._lock:
            if os.getpid() != self._process:
                raise _turn_refused("one that another process made")
            if release != self._last + 1:
                raise _turn_refused(f"one whose release number {release + 1} was begun before, here or by a copy")
            self._note_in_ledger(release)
            self._last = release

    def _note_in_ledger(self, release: int) -> None:
        if self.paid is not None:
            self.paid.begin(release)

    def __deepcopy__(self, memo: dict[int, Any]) -> Turns:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": self._last}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._last, self._process, self._lock, self.paid = state["_last"], None, threading.Lock(), None


class TurnsInFile(Turns):
    """Which releases of one schedule were begun, by any process that has its file."""

    def __init__(self, file: ScheduleFile) -> None:
        super().__init__()
        self.file = file

    def begin(self, release: int) -> None:
        """Take the turn of a release; raise if it was taken."""
        # the ledger notes it within the file's transaction: if the ledger refuses, or is locked, the file is as it was
        if not self.file.begin(release, then=lambda: self._note_in_ledger(release)):
            raise _turn_refused(f"one whose release number {release + 1} was begun before, here or by another process")

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file, "paid": self.paid}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["file"])  # type: ignore[misc]
        self.paid = state["paid"]


@dataclass(frozen=True)
class Turn:
    """The account of a later release: it takes the turn before anything is released, and never gives it back."""

    turns: Turns
    release: int

    def charge(self, guarantee: Guarantee) -> Turn:
        """Take the turn, or raise."""
        self.turns.begin(self.release)
        return self

    def settle(self, guarantee: Guarantee) -> None:
        """Do nothing: a release that ended early was begun."""


@dataclass(frozen=True)
class WholeSchedule:
    """The account of a first release: it charges for all releases, and the charge stays as it is.

    What the first release leaves out may be released by a later one, which is not charged.
    """

    spending: Spending
    turns: Turns

    def charge(self, guarantee: Guarantee) -> WholeSchedule:
        """Charge the ledger, or raise."""
        made = self.spending.charge(guarantee).charge
        self.turns.paid = PaidSchedule(self.spending.ledger, made.dataset, made.hash)
        return self

    def settle(self, guarantee: Guarantee) -> None:
        """Do nothing."""


def _turn_refused(got: str) -> BudgetError:
    return BudgetError(
        "a schedule whose next release was not begun",
        words(got),
        "Nothing was released now. A release that was begun may have released something, and its budget is spent: begin a new "
        "schedule with `fit` or with a new estimator, for a budget of its own.",
    )


class ScheduledSums:
    """The sums of one release after another, by the step of the budget that they belong to, and what was fixed at the first.

    Parameters
    ----------
    schedule : Schedule
    steps : iterable of str
        Names of the steps.
    max_units : int
        Public upper bound on the number of units of one release.
    """

    def __init__(self, schedule: Schedule, steps: Iterable[str], max_units: int) -> None:
        self.schedule = schedule
        self.reach = schedule.reach(max_units)
        """How far a unit moves the sums of all releases together, over how far it moves one total."""
        self.running = {step: RunningTotal(schedule) for step in steps}
        self.fixed: dict[str, NDArray[Any]] = {}
        """What an early release chose, from released totals, for all later ones."""
        self.kept: list[dict[str, NDArray[Any]]] = []
        """Of each release before that choice: the data that a later step needs."""
        self.turns = Turns()
        self.withheld: dict[str, str | int | None] = {}
        """The settings of the first release that stay with the holder."""

    def terms(self, step: str, new: Arrays) -> dict[str, NDArray[np.float64]]:
        """Return the terms that this release asks to be totalled, given its own."""
        return self.running[step].next_terms(new)

    def totals(self, step: str, answer: Total) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the running totals, and the noise in them; the answer may be that of several releases, one after the other."""
        running = self.running[step]
        count = len(running.terms) - len(running.answers)
        parts = {name: np.split(np.asarray(answer[name]), count) for name in answer}
        for place in range(count):
            sums = running.total({name: part[place] for name, part in parts.items()})
        return sums, {name: running.noise(answer.noise[name]) for name in answer}

    def take_over(self, earlier: ScheduledSums) -> None:
        """Go on from what earlier releases left, as a copy: what changes here does not change there."""
        vars(self).update(copy.deepcopy(vars(earlier)))

    @property
    def released(self) -> int:
        """Number of releases so far; where nothing is worth a later step, all of them have the first."""
        return max(len(one.answers) for one in self.running.values())


class ScheduledFit(PrivateFit):
    """Base of private estimators with a `partial_fit` whose releases share one budget.

    The first release charges the ledger with the whole budget. What later releases need stays in memory, or in the file
    `schedule_file`, from which another process goes on. Every later release is begun once, by one of the copies of an
    estimator (`Turns`), with the settings of the first.
    """

    schedule: int | tuple[int, ...] | list[int] | None = public(default=None)
    schedule_file: str | os.PathLike[str] | None = withheld(default=None)
    _memory: ScheduledSums = learned()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "partial_fit" in vars(cls):
            # tools of scikit-learn call `partial_fit` wherever there is one, and without a schedule it cannot be called
            cls.partial_fit = available_if(_has_schedule)(vars(cls)["partial_fit"])

    def _goes_on(self) -> bool:
        # the first release of a schedule, and one that goes on from a file, have nothing of an earlier fit of this object
        return hasattr(self, "_memory")

    def _after_fit(self) -> None:
        memory: ScheduledSums | None = getattr(self, "_memory", None)
        if memory is not None and isinstance(memory.turns, TurnsInFile):
            content = io.BytesIO()
            self._write(content)
            paid = memory.turns.paid
            notes = {
                "withheld": memory.withheld,
                "names": [str(name) for name in getattr(self, "feature_names_in_", ())],
                "paid": None if paid is None else {"dataset": paid.dataset, "charge": paid.charge},
            }
            memory.turns.file.keep(
                memory.released - 1, memory.running, memory.fixed, memory.kept, notes, content.getvalue()
            )
        super()._after_fit()

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
        if hasattr(self, "_memory"):
            self._check_unchanged()
        if self.ledger is not None and self.dataset is None:
            raise InvalidInputError(
                "dataset= with a ledger and a schedule",
                words("none"),
                "Name the account: every release has other data, and one account is charged for all of them.",
            )
        return planned

    def _read_schedule(self, file: ScheduleFile, make: Callable[[Schedule, int], Memory]) -> Memory:
        """Return what the releases in the file left, and take over the model of the last."""
        content, notes = file.read_model()
        header, arrays = read_model(io.BytesIO(content), {type(self).__name__: type(self)})
        self._restored(type(self)._restore(header, arrays)._result)
        if notes["names"]:
            self.feature_names_in_ = np.array(notes["names"], dtype=object)
        memory = make(self._planned(), self.max_units)
        memory.fixed, memory.kept = file.read_sums(memory.running)
        memory.withheld = notes["withheld"]
        memory.turns = TurnsInFile(file)
        if notes["paid"] is not None and self.ledger is not None:  # without it the settings are refused
            memory.turns.paid = PaidSchedule(open_ledger(self.ledger), **notes["paid"])
        return memory

    def _check_unchanged(self) -> None:
        """Raise if a setting is not that of the first release: its noise and bounds are those of the whole schedule."""
        in_files = in_file(type(self))  # the others are of methods without a schedule
        before, now = (
            {**{name: as_saved(public[name]) for name in in_files}, **stays}
            for public, stays in (
                (self._result.parameters, self._memory.withheld),
                (self._public_parameters(), self._withheld_settings()),
            )
        )
        changed = sorted(name for name in now if not _equal(before[name], now[name]))
        if changed:
            raise InvalidInputError(
                "the settings of the first release of the schedule",
                words(f"another {' and another '.join(changed)}"),
                "Set them as they were, or begin a new schedule with a new estimator. Nothing was released.",
            )

    def _withheld_settings(self) -> dict[str, str | int | None]:
        ledger = self.ledger.path if isinstance(self.ledger, Ledger) else self.ledger
        paths = {"ledger": ledger, "schedule_file": self.schedule_file}
        absolute = {name: None if path is None else str(Path(path).absolute()) for name, path in paths.items()}
        seed = None if self.insecure_seed is None else int(self.insecure_seed)
        return {**absolute, "dataset": self.dataset, "insecure_seed": seed}

    def _run_scheduled(self, given: object, program: Program, split: Split, memory: ScheduledSums) -> Outcome:
        """Run one release: the first is charged for all, later ones add their noise at no further cost."""
        if not hasattr(self, "_memory"):
            outcome = self._first_run(given, program, split, memory.turns)
            self.guarantee_ = self.guarantee_.assuming(_covers(self._planned()))
            return outcome
        plan = self._plan(split)
        if plan is None:
            if self.schedule_file is not None:
                self._memory.turns.begin(self._memory.released)
            return run(program, Clear())
        # equal noise in two releases would cancel
        seed = None if self.insecure_seed is None else self.insecure_seed + self._memory.released
        turn = Turn(self._memory.turns, self._memory.released)
        return run(program, Noisy(plan, max_units=self.max_units, spending=turn, insecure_seed=seed))

    def _first_run(self, given: object, program: Program, split: Split, turns: Turns) -> Outcome:
        plan, spending = self._plan(split), self._spending(given)
        account = None if spending is None else WholeSchedule(spending, turns)
        if not isinstance(turns, TurnsInFile):
            return self._run(given, program, plan, account)
        if not turns.file.begin(0):
            raise _turn_refused("one whose first release another process has begun")
        try:
            return self._run(given, program, plan, account)
        except BaseException:
            turns.file.cancel_first()
            raise

    def _continued(self, make: Callable[[Schedule, int], Memory]) -> Memory:
        """Return what the earlier releases left, as a copy that a failed release does not change, or a new one.

        `make` is called with the schedule and `max_units`.
        """
        if not hasattr(self, "_memory") and self.schedule_file is not None:
            file = ScheduleFile(self.schedule_file)
            if file.ended:
                self._memory = self._read_schedule(file, make)
                self._check_unchanged()
        memory = make(self._planned(), self.max_units)
        if hasattr(self, "_memory"):
            memory.take_over(self._memory)
            return memory
        memory.withheld = self._withheld_settings()
        if self.schedule_file is not None:
            memory.turns = TurnsInFile(ScheduleFile(self.schedule_file))
        return memory


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


def _equal(one: object, other: object) -> bool:
    """Return whether two settings are equal, as a file gives them back: tables are arrays."""
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return one is other or (type(one) is type(other) and bool(one == other))
