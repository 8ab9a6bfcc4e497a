"""The base of estimators that can run among holders: running the program, and observing it for `tacit.measure.ksdp`."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.base import clone

from tacit.channel import Clear, Outcome, Program, RunOutcome, run
from tacit.measure.ksdp import observing
from tacit.measure.ksdp.observation import Observation
from tacit.validation import TableLike


class AmongHolders:
    """Mixin of estimators with ``_program(X, y)``, one holder's program, and ``_learned(outcome)``, which sets the attributes."""

    def _program(self, X: TableLike, y: object = None) -> Program:
        """Return this holder's program, for any channel; all holders must have the same parameters and columns."""
        raise NotImplementedError

    def _learned(self, outcome: Outcome) -> object:
        """Set the fitted attributes from the outcome."""
        raise NotImplementedError

    def _run(self, program: Program) -> RunOutcome:
        """Run this holder's program, alone or (within `tacit.parties.join`) among parties; set attributes and guarantee."""
        outcome = run(program, Clear())
        self._learned(outcome)
        self.guarantee_ = outcome.channel.guarantee
        return outcome

    def _observed(self, rows: TableLike, others: Sequence[TableLike] = ()) -> Observation:
        """Return what other holders, with the rows `others`, see of a fit of these rows over secure sums."""
        return observing(lambda part: clone(self)._program(part))(rows, others)
