"""Where a run is charged: an account of a ledger, and the charge that one run owns."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidInputError, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.book import Charge

LedgerOrPath = Ledger | str | os.PathLike[str]
"""A ledger, or where it is."""


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
    def on(cls, ledger: Ledger, dataset: object, purpose: str) -> Spending:
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


def open_ledger(ledger: LedgerOrPath) -> Ledger:
    """Return the ledger, or open the existing one at this path."""
    return ledger if isinstance(ledger, Ledger) else Ledger(ledger, create=False)


def account_of(ledger: LedgerOrPath | None, dataset: str | None, data: object) -> str | None:
    """Return the name of the account of a fit that gets a part of `data`: as for all of them, whatever the part is.

    A part that was drawn at random has another fingerprint each time, and would be another account.
    """
    if ledger is None or dataset is not None:
        return dataset
    from tacit.privacy.fingerprint import fingerprint

    return fingerprint(data)


def voided_by(
    epsilon: ArrayLike | Mapping[Any, float], insecure_seed: int | None, *, unprotected: bool = False
) -> tuple[str, str] | None:
    """Return what takes the guarantee from a private fit with these settings, and what to do instead; None if nothing does."""
    listed = epsilon.values() if isinstance(epsilon, Mapping) else np.atleast_1d(np.asarray(epsilon, dtype=object))
    # among users with budgets of their own, those with an infinite one are volunteers; the others are protected
    if all(isinstance(one, numbers.Real) and math.isinf(one) for one in listed) and len(listed):
        return "epsilon=inf, which adds no noise", "Give a finite epsilon"
    if unprotected:
        return 'method="published", which has no guarantee', "Choose another method"
    if insecure_seed is not None:
        return "insecure_seed, with which anyone can subtract the noise", "Leave out insecure_seed"
    return None


def check_chargeable(
    ledger: LedgerOrPath | None,
    epsilon: ArrayLike | Mapping[Any, float],
    insecure_seed: int | None,
    *,
    unprotected: bool = False,
) -> None:
    """Refuse a fit without a guarantee where a ledger is attached, which could not account for it."""
    voided = voided_by(epsilon, insecure_seed, unprotected=unprotected)
    if ledger is not None and voided is not None:
        raise InvalidInputError(
            "a fit that a ledger can account for",
            words(voided[0]),
            f"{voided[1]}, or leave out the ledger: the account would not show what such a fit reveals.",
        )
