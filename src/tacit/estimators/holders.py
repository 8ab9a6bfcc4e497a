"""What estimators that run among holders share: running, and being observed by `tacit.measure.ksdp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from tacit.channel import Clear, Outcome, Program, run
from tacit.measure.ksdp import observing
from tacit.measure.ksdp.observation import Observation


class AmongHolders:
    """Mixin of estimators with ``_program(X, y)``, one holder's program, and ``_learned(outcome)``, which keeps what it found."""

    def _program(self, X: Any, y: Any = None) -> Program:
        """Return this holder's program, for any channel; the other holders' must have the same parameters and columns."""
        raise NotImplementedError

    def _learned(self, outcome: Outcome) -> Any:
        """Take over what a run of `_program` found."""
        raise NotImplementedError

    def _run(self, program: Program) -> Outcome:
        """Run this holder's program, alone or (within `tacit.parties.join`) among parties; keep what it found and earned."""
        outcome = run(program, Clear())
        self._learned(outcome)
        self.guarantee_ = outcome.channel.guarantee
        return outcome

    def _observed(self, rows: Any, others: Sequence[Any] = ()) -> Observation:
        """Return what others see of a fit of these rows, among holders of `others`, when sums are secure."""
        return observing(lambda part: clone(self)._program(part))(rows, others)
