"""Where a run is charged: an account of a ledger, and the charge that one run owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.privacy.guarantee import Guarantee
    from tacit.privacy.ledger import Ledger
    from tacit.privacy.ledger_book import Charge


@dataclass(frozen=True)
class Spending:
    """A data set's account, to charge runs to. It has no state: every charge is a value of its own.

    Parameters
    ----------
    ledger : Ledger
    dataset : str
        The account's name.
    purpose : str
        What the run is for, in a few words.
    """

    ledger: Ledger
    dataset: str
    purpose: str

    @classmethod
    def on(cls, ledger: Ledger, dataset: Any, purpose: str) -> Spending:
        """Name the account by `dataset` if it is a name, otherwise by the fingerprint of the data."""
        from tacit.privacy.fingerprint import fingerprint

        return cls(ledger, dataset if isinstance(dataset, str) else fingerprint(dataset), purpose)

    def charge(self, guarantee: Guarantee) -> OpenCharge:
        """Charge `guarantee`; raises before anything is released if the account cannot afford it."""
        return OpenCharge(self.ledger, self.ledger.charge(self.dataset, guarantee, self.purpose))


@dataclass(frozen=True)
class OpenCharge:
    """A charge in a ledger, owned by the run that was charged."""

    ledger: Ledger
    charge: Charge

    def settle(self, guarantee: Guarantee) -> None:
        """Correct the charge to what was really released; it can be done once."""
        self.ledger.settle(self.charge, guarantee)
