"""The life of a private run: planned, charged, running, closed. A run is used once, and what it released stays charged."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import Protocol

from tacit.channel.plan import Plan, Step
from tacit.errors import BudgetError, ProtocolError, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import ExponentialRelease, Release, merge


class PaidCharge(Protocol):
    """A charge that a ledger accepted; one run owns it."""

    def settle(self, guarantee: Guarantee) -> None:
        """Correct the charge to what was really released."""


class ChargedAccount(Protocol):
    """Where a run is charged; `tacit.privacy.Spending` is one."""

    def charge(self, guarantee: Guarantee) -> PaidCharge:
        """Charge the whole plan before anything is released, or refuse by raising."""


class Memory(Protocol):
    """What a run that may be resumed in another process remembers of its charge."""

    @property
    def resumable(self) -> bool:
        """Whether an interrupted run can go on, so that its charge must stay as it is."""

    @property
    def charged(self) -> bool:
        """Whether this run was charged before it was interrupted."""

    def note_charge(self) -> None:
        """Remember that the run was charged."""


class State(Enum):
    """Where a run is in its life."""

    PLANNED = "planned"
    CHARGED = "charged"
    RUNNING = "running"
    CLOSED = "closed"


class BudgetedRun:
    """The account of one run: which planned steps were released, and what the ledger was charged for them.

    Parameters
    ----------
    plan : Plan
    account : ChargedAccount, optional
        Charged with the whole plan before the first release, settled when the run is closed.
    memory : Memory
        Of a run that other processes take part in.

    Notes
    -----
    The order is: check, charge, count, release. `take` returns only after the ledger has accepted the whole plan and the
    step is counted, and the caller releases after that. So an exception or an interrupt at any line leaves the ledger at
    or above what was released; after a kill the charge stands in full. A charge that is refused leaves nothing charged and
    nothing counted, and the next `take` asks the ledger again.

    A run belongs to one process: a fork of it can neither release nor settle.
    """

    def __init__(self, plan: Plan, account: ChargedAccount | None, memory: Memory) -> None:
        self.plan = plan
        self.memory = memory
        self.state = State.PLANNED
        self._account = account
        self._charge: PaidCharge | None = None
        self._opened = False
        self._planned: Counter[Step] = Counter()
        for step in plan.steps:
            self._planned[_key(step, step.sampling_rate)] += step.count
        self._used: Counter[Step] = Counter()
        self._choices = 0
        self._releases: list[Release] = []
        self._process = os.getpid()
        self._lock = threading.RLock()

    @property
    def releases(self) -> tuple[Release, ...]:
        """Everything that was released, for the accountant.

        Of a run that has ended, also what it had planned and left out: when a program ends may depend on what was released,
        and the epsilon of the part that was released holds only for an end that was fixed beforehand.
        """
        if self.state is not State.CLOSED or not self._releases:
            return merge(self._releases)
        left = [replace(step, count=count) for step, count in (self._planned - self._used).items()]
        return merge([*self._releases, *self.plan.releases(left, self.plan.choices[self._choices :])])

    def open(self) -> None:
        """Begin the one run that this object is for."""
        with self._lock:
            self._check_usable()
            if self._opened:
                raise _used_up("one that another run uses")
            self._opened = True

    def planned(self, step: Step, rate: float) -> Step:
        """Return the step of the plan that a sum is; raise `BudgetError` if no such sum is left."""
        key = _key(step, rate)
        if self._planned[key] <= self._used[key]:
            name = f"{step.name!r}" if step.name else f"of weight {step.weight:g}"
            raise _not_planned(f"no further sum {name} at sampling rate {rate:g}")
        return key

    def take(self, step: Step, release: Release) -> None:
        """Charge the plan if that was not done, and count one sum of this step as released; then it may be released."""
        with self._lock:
            self._check_usable()
            self.planned(step, step.sampling_rate)
            self._charge_once()
            self._used[step] += 1
            self._releases.append(release)
            self.state = State.RUNNING

    def take_choice(self) -> ExponentialRelease:
        """Charge the plan if that was not done, and count the next choice as released; then it may be released."""
        with self._lock:
            self._check_usable()
            if self._choices >= len(self.plan.choices):
                raise _not_planned(f"{len(self.plan.choices)} choices")
            release = ExponentialRelease("choice", epsilon=self.plan.choices[self._choices])
            self._charge_once()
            self._choices += 1
            self._releases.append(release)
            self.state = State.RUNNING
            return release

    def close(self) -> None:
        """End the run; correct the ledger if less than the plan was released and the run cannot be resumed."""
        with self._lock:
            if self.state is State.CLOSED or os.getpid() != self._process:
                return
            self.state = State.CLOSED
            if self._charge is None or self.memory.resumable:
                return
            if self._planned != self._used or self._choices < len(self.plan.choices):
                done = [replace(step, count=count) for step, count in self._used.items()]
                self._charge.settle(self.plan.guarantee(done, self._choices))

    def _charge_once(self) -> None:
        if self.state is not State.PLANNED:
            return
        if self._account is not None and not self.memory.charged:
            # the handle is kept before the state changes: a refusal or an interrupt leaves the run planned
            self._charge = self._account.charge(self.plan.guarantee())
            self.memory.note_charge()
        self.state = State.CHARGED

    def _check_usable(self) -> None:
        if self.state is State.CLOSED:
            raise _used_up("one that has ended")
        if os.getpid() != self._process:
            raise _used_up("one that another process made")


@lru_cache(maxsize=64)
def _key(step: Step, rate: float) -> Step:
    return replace(step, count=1, sampling_rate=rate)


def _used_up(got: str) -> ProtocolError:
    return ProtocolError(
        "a noisy channel that has not been used",
        words(got),
        "Make a new channel (and plan) for every run. Nothing was released.",
    )


def _not_planned(planned: str) -> BudgetError:
    return BudgetError(
        f"{planned}, as planned",
        words("one more"),
        "Plan all sums and choices before the first: their number may not depend on the data. Nothing was released.",
    )
