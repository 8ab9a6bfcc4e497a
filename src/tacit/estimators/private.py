"""The base of private estimators: it plans, charges, runs the program once, and keeps the guarantee."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from tacit.channel import Channel, Clear, Noisy, Plan, Program, RunOutcome, Split, Step, run
from tacit.channel.budget import ChargedAccount
from tacit.errors import PrivacyWarning
from tacit.estimators.base import public, withheld
from tacit.estimators.saved import SavedModel
from tacit.estimators.verdict import Concern, about_guarantee, warn_of
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending, check_chargeable, open_ledger, voided_by
from tacit.validation import check_epsilon

if TYPE_CHECKING:
    from sklearn.utils import Tags

AGAIN = (
    "This estimator has released a result before. On the same data this is a second release, and the two guarantees add up. "
    "Attach a ledger to have that counted."
)


class PrivateFit(SavedModel):
    """Base of private estimators.

    A class declares with `released` the attributes that may leave the holder: files and pickles hold these and no
    others, and the shared privacy check compares them.
    """

    _withholds: ClassVar[bool] = True
    _unit: ClassVar[str] = "row"
    _unprotected_methods: ClassVar[tuple[str, ...]] = ()
    """Values of `method` that have no guarantee."""

    epsilon: float = public(default=1.0)
    delta: float = public(default=1e-6)
    adjacency: str = public(default="add-remove")
    max_units: int = public(default=2**20)
    ledger: Ledger | str | os.PathLike[str] | None = withheld(default=None)
    dataset: str | None = withheld(default=None)
    insecure_seed: int | None = withheld(default=None)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # the noise is new in every fit
        return tags

    def voided_by(self) -> str | None:
        """Return in words which setting voids the guarantee of this model; None if none does."""
        voided = voided_by(self.epsilon, self.insecure_seed, unprotected=self._unprotected)
        return None if voided is None else voided[0]

    @property
    def _unprotected(self) -> bool:
        return getattr(self, "method", None) in self._unprotected_methods

    def _before_fit(self) -> None:
        self.check_chargeable()

    def _after_fit(self) -> None:
        if "guarantee_" in vars(self):
            noted = vars(self).get("_data_concerns", ())
            warn_of([*about_guarantee(self.guarantee_, None), *noted, *self._concerns()])

    def _concerns(self) -> list[Concern]:
        """Return concerns about what was released; a subclass adds its own, and notes those about the data while it has them."""
        return []

    def _note_concerns(self, concerns: Iterable[Concern]) -> None:
        """Keep concerns about the data, for the holder, until the end of the fit."""
        self._data_concerns = tuple(concerns)

    def check_chargeable(self) -> None:
        """Raise if a ledger is attached that could not account for this fit."""
        check_chargeable(self.ledger, self.epsilon, self.insecure_seed, unprotected=self._unprotected)

    def _plan(self, steps: int | Split | Iterable[Step], choices: Iterable[float] = ()) -> Plan | None:
        """Calibrate the noise for these sums and choices; None if epsilon is infinite."""
        if math.isinf(check_epsilon(self.epsilon, infinite=True)):
            return None
        return Plan.for_budget(
            self.epsilon, self.delta, steps=steps, unit=self._unit, adjacency=self.adjacency, choices=choices
        )

    def _run(
        self, given: object, program: Program, plan: Plan | None, account: ChargedAccount | None = None
    ) -> RunOutcome:
        """Run `program` over the channel of the plan, and keep its guarantee.

        `given` is the data as the caller gave it; its fingerprint names the account if there is no `dataset`. `account` is
        charged in place of the ledger's.
        """
        outcome = run(program, self._channel(given, plan, account))
        self.guarantee_ = outcome.channel.guarantee
        return outcome

    def _channel(self, given: object, plan: Plan | None, account: ChargedAccount | None = None) -> Channel:
        self._ready_to_release(plan)
        if plan is None:
            return Clear()
        spending = self._spending(given) if account is None else account
        return Noisy(plan, max_units=self.max_units, spending=spending, insecure_seed=self.insecure_seed)

    def _spending(self, given: object) -> Spending | None:
        """Return the ledger's account for this data; None without a ledger."""
        if self.ledger is None:
            return None
        account = given if self.dataset is None else self.dataset
        return Spending.on(open_ledger(self.ledger), account, type(self).__name__)

    def _ready_to_release(self, plan: Plan | None) -> None:
        """Try what could fail after the charge, and warn if this is a second release.

        Released attributes that do not come from the channel must be set before, so that they are tried.
        """
        self._check_storable()
        if plan is None:
            return
        if getattr(self, "_has_released", False) and self.ledger is None:
            warnings.warn(AGAIN, PrivacyWarning, stacklevel=4)
        self._has_released = True
