"""What every private estimator does the same way: validate, plan, charge, run once, keep the guarantee, save."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar

from tacit.channel import Channel, Clear, Noisy, Outcome, Plan, Program, Step, run
from tacit.errors import PrivacyWarning
from tacit.factor.saved import SavedModel
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.spending import Spending
from tacit.validation import check_epsilon


class PrivateFit(SavedModel):
    """Mixin of private estimators.

    A class states in `_released` the attributes that may leave the holder: `save` writes these and no others, and the
    shared privacy check compares them. It has the parameters `epsilon`, `delta`, `adjacency`, `max_rows`, `ledger`,
    `dataset` and `insecure_seed`.
    """

    _unit: ClassVar[str] = "row"

    epsilon: float
    delta: float
    adjacency: str
    max_rows: int
    ledger: Any
    dataset: str | None
    insecure_seed: int | None
    guarantee_: Guarantee

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # fresh noise every time is the point
        return tags

    def _plan(self, steps: int | Iterable[Step], choices: Iterable[float] = ()) -> Plan | None:
        """Calibrate the noise for these sums and choices; None where epsilon is infinite and there is none."""
        if math.isinf(check_epsilon(self.epsilon, infinite=True)):
            return None
        return Plan.for_budget(
            self.epsilon, self.delta, steps=steps, unit=self._unit, adjacency=self.adjacency, choices=choices
        )

    def _run(self, given: Any, program: Program, plan: Plan | None) -> Outcome:
        """Run `program` over the channel that the plan asks for; keep what it earned.

        `given` is the data as the caller gave it, whose content names the account if no `dataset` does.
        """
        if hasattr(self, "guarantee_") and self.ledger is None and self.guarantee_.holds:
            warnings.warn(
                "This estimator was fitted before: fitting it again on the same people is a second release, and the two "
                "guarantees add up. Attach a ledger to have that counted.",
                PrivacyWarning,
                stacklevel=3,
            )
        outcome = run(program, self._channel(given, plan))
        self.guarantee_ = outcome.channel.guarantee
        return outcome

    def _channel(self, given: Any, plan: Plan | None) -> Channel:
        if plan is None:
            return Clear()
        spending = None
        if self.ledger is not None:
            account = given if self.dataset is None else self.dataset
            spending = Spending.on(self.ledger, account, type(self).__name__)
        return Noisy(plan, max_units=self.max_rows, spending=spending, insecure_seed=self.insecure_seed)
