"""One run's line in a ledger: charged with its whole plan, settled to what it released."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.privacy.guarantee import Guarantee
    from tacit.privacy.ledger import Ledger
    from tacit.privacy.ledger_book import Charge


@dataclass
class Spending:
    """Charge a run to a data set's account.

    Parameters
    ----------
    ledger : Ledger
    dataset : str
        The account's name.
    purpose : str
        What the run was for, in a few words.
    """

    ledger: Ledger
    dataset: str
    purpose: str
    _charge: Charge | None = field(default=None, init=False)

    @classmethod
    def on(cls, ledger: Ledger, dataset: Any, purpose: str) -> Spending:
        """Name the account by `dataset` if it is a name, otherwise by the fingerprint of the data."""
        from tacit.privacy.fingerprint import fingerprint

        return cls(ledger, dataset if isinstance(dataset, str) else fingerprint(dataset), purpose)

    def charge(self, guarantee: Guarantee) -> None:
        """Charge `guarantee`; raises before anything is released if the account cannot afford it."""
        self._charge = self.ledger.charge(self.dataset, guarantee, self.purpose)

    def settle(self, guarantee: Guarantee) -> None:
        """Correct the charge to what was really released."""
        if self._charge is not None:
            self.ledger.settle(self._charge, guarantee)
