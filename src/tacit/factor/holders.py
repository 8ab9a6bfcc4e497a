"""What estimators that run among holders share: being observed by `tacit.privacy.ksdp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from tacit.channel import Program, observing
from tacit.privacy.ksdp_observation import Observation


class AmongHolders:
    """Mixin of estimators with ``_program(X, y)``, one holder's program, and ``_learned(outcome)``, which keeps what it found."""

    def _program(self, X: Any, y: Any = None) -> Program:
        """Return this holder's program, for any channel; the other holders' must have the same parameters and columns."""
        raise NotImplementedError

    def _observed(self, rows: Any, others: Sequence[Any] = ()) -> Observation:
        """Return what others see of a fit of these rows, among holders of `others`, when sums are secure."""
        return observing(lambda part: clone(self)._program(part))(rows, others)
