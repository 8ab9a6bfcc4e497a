"""What the entries of a ledger mean: accounts, charges and settlements, replayed from the beginning."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import BudgetError, InvalidInputError, LedgerError, parameter, words
from tacit.privacy.accountant import LOSS_DISTRIBUTION, Accountant
from tacit.privacy.guarantee import PRIVATE, Guarantee
from tacit.privacy.ledger_store import Entry, canonical_json, tampered
from tacit.privacy.releases import ADJACENCIES, UNITS, Release, merge, release_from_dict
from tacit.privacy.rounding import exact, rounded_down, shown_epsilon
from tacit.validation import check_choice, check_delta, check_epsilon

ACCOUNT, CHARGE, SETTLEMENT = "account", "charge", "settlement"
TOLERANCE = 1e-9
"""Relative; what rounding may add to a budget that is meant to be spent in full."""
_LISTED = 8  # data sets named in an error
_RECOMPUTED_TOLERANCE = 1e-3  # numerical compositions of another version may come out a little higher


@dataclass(frozen=True)
class Account:
    """The budget of a data set, as it was opened; it never changes."""

    dataset: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    time: str

    def allows(self, epsilon: float) -> bool:
        """Whether a total of `epsilon` is within the budget; NaN is not."""
        return epsilon <= self.epsilon * (1 + TOLERANCE)

    def terms(self) -> str:
        """Return the terms in words."""
        return f"epsilon {exact(self.epsilon)} at delta {exact(self.delta)} per {self.unit}, {self.adjacency}"


@dataclass(frozen=True)
class Charge:
    """What one run was charged.

    Attributes
    ----------
    id : int
        Number of its entry in the ledger.
    dataset, purpose : str
    time : str
        When it was charged, in UTC (ISO 8601).
    releases : tuple of Release
        What was charged.
    epsilon_after : float
        What the data set had spent with this charge, at the delta of its account, when it was made.
    settled : tuple of Release or None
        What was really released, once the charge was settled; None means that it counts in full.
    hash : str
        Hash of its entry, which ties it to one ledger.
    """

    id: int
    dataset: str
    time: str
    purpose: str
    releases: tuple[Release, ...]
    epsilon_after: float
    hash: str
    settled: tuple[Release, ...] | None = None

    @property
    def effective(self) -> tuple[Release, ...]:
        """What counts against the budget."""
        return self.releases if self.settled is None else self.settled


@dataclass(frozen=True)
class Remaining:
    """What is left of a budget.

    Attributes
    ----------
    dataset : str
    budget, delta : float
        The terms of the account.
    spent : float
        Epsilon of all effective charges together, at that delta.
    epsilon : float
        ``budget - spent``, at least 0. Composition is sub-additive: a charge of more than this may still fit. The
        test is `Ledger.can_afford`.
    """

    dataset: str
    budget: float
    delta: float
    spent: float
    epsilon: float


@dataclass(frozen=True)
class Book:
    """The account of one data set and its charges, in the order in which they were made."""

    account: Account
    charges: tuple[Charge, ...] = ()

    def accountant(self, further: Iterable[Release] = ()) -> Accountant:
        """Return the accountant of everything that counts, and of `further` releases."""
        counted = [release for charge in self.charges for release in charge.effective]
        return Accountant(self.account.adjacency, (*counted, *further))

    def spent(self, further: Iterable[Release] = ()) -> float:
        """Return the epsilon of everything that counts, and of `further` releases, at the account's delta."""
        return self.accountant(further).epsilon(self.account.delta)

    def overspent(self) -> bool:
        """Whether what counts, composed again here and now, exceeds the budget."""
        accountant = self.accountant()
        exact = accountant.method != LOSS_DISTRIBUTION
        allowed = self.account.epsilon * (1 + (TOLERANCE if exact else _RECOMPUTED_TOLERANCE))
        return not accountant.epsilon(self.account.delta) <= allowed


def covered(settled: Iterable[Release], charged: Iterable[Release]) -> bool:
    """Whether every release in `settled` was charged: the same apart from its count, which is not larger."""
    charged_counts = {replace(release, count=1): release.count for release in merge(charged)}
    return all(release.count <= charged_counts.get(replace(release, count=1), 0) for release in merge(settled))


def checked_releases(guarantee: Guarantee, account: Account) -> tuple[Release, ...]:
    """Return the releases of a guarantee, as they will be stored, if they can be charged to this account."""
    if not isinstance(guarantee, Guarantee) or guarantee.kind != PRIVATE:
        raise InvalidInputError(
            "a guarantee of differential privacy, which is the only kind that can be charged",
            words(str(guarantee)) if isinstance(guarantee, Guarantee) else parameter(guarantee),
            "Give the Guarantee of a private run; without one there is nothing a budget could bound.",
        )
    if not guarantee.holds:
        raise InvalidInputError(
            "a guarantee with a finite epsilon",
            parameter(guarantee.epsilon),
            "Add noise: no budget covers an unbounded loss.",
        )
    if (guarantee.unit, guarantee.adjacency) != (account.unit, account.adjacency):
        raise InvalidInputError(
            f"a guarantee for the {account.unit} under {account.adjacency}, the terms of {account.dataset!r}",
            words(f"one for the {guarantee.unit} under {guarantee.adjacency}"),
            "Losses for different neighbours do not add up: run with the terms of the account.",
        )
    if not guarantee.releases and guarantee.epsilon != 0:
        raise InvalidInputError(
            "a guarantee with the releases that its epsilon was computed from",
            words(f"epsilon {shown_epsilon(guarantee.epsilon)} from no releases"),
            "Build it with Guarantee.from_releases; a bound proven elsewhere is an ApproximateRelease.",
        )
    return read_releases(json.loads(canonical_json(write_releases(guarantee.releases))))


def write_releases(releases: Iterable[Release]) -> list[dict[str, Any]]:
    """Return releases as plain values."""
    return [release.to_dict() for release in merge(releases)]


def read_releases(values: Iterable[dict[str, Any]]) -> tuple[Release, ...]:
    """Return the releases that `write_releases` wrote."""
    return tuple(release_from_dict(value) for value in values)


def checked_name(dataset: str) -> str:
    """Return the name of a data set as it is stored."""
    if not isinstance(dataset, str) or not dataset or not dataset.isprintable() or dataset != dataset.strip():
        raise InvalidInputError(
            "the name of a data set: printable characters, without spaces around them",
            parameter(dataset),
            "Give a name, or the fingerprint of the data.",
        )
    return unicodedata.normalize("NFC", dataset)  # two spellings that look the same are one data set


def releases_to_charge(guarantee: Guarantee, account: Account) -> tuple[Release, ...]:
    """Return the releases that a guarantee would charge to this account; there must be some."""
    releases = checked_releases(guarantee, account)
    if not releases:
        raise InvalidInputError(
            "a guarantee with releases", words("one of none"), "There is nothing to charge: go on without a charge."
        )
    return releases


def planned_charge(book: Book, guarantee: Guarantee, purpose: str) -> dict[str, Any]:
    """Return the body of a charge, if the budget allows it."""
    releases, account = releases_to_charge(guarantee, book.account), book.account
    total = book.spent(releases)
    if not account.allows(total):
        spent, alone = book.spent(), Book(account).spent(releases)
        left = max(account.epsilon - spent, 0.0)
        raise BudgetError(
            f"a charge that the budget of {account.dataset!r} allows: {account.terms()}, of which {rounded_down(left)} is left",
            words(f"one of epsilon {shown_epsilon(alone)}, which makes {shown_epsilon(total)} in all"),
            "Nothing was charged. Add noise, release less, or leave this data set alone.",
        )
    return {"purpose": purpose, "releases": write_releases(releases), "epsilon_after": total}


def replay(dataset: str, entries: Iterable[Entry]) -> Book | None:
    """Return the book of a data set as its entries tell it; None if it has no account."""
    account: Account | None = None
    charges: dict[int, Charge] = {}
    for entry in entries:
        if entry.dataset != dataset:
            continue
        try:
            if account is None:
                account = read_account(entry)
            elif entry.kind == CHARGE:
                charges[entry.seq] = charge = read_charge(entry)
                if not account.allows(charge.epsilon_after):
                    raise ValueError("it goes beyond the budget")
            else:
                charge = _read_settlement(entry, charges)
                charges[charge.id] = charge
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # its hash is right, so it was written on purpose, but by no version of this program
            raise tampered(entry.seq, f"which makes no sense where it stands ({error})") from error
    return None if account is None else Book(account, tuple(charges.values()))


def read_account(entry: Entry) -> Account:
    """Return the account that an entry opens."""
    if entry.kind != ACCOUNT:
        raise ValueError("no account was opened before")
    body = json.loads(entry.body)
    return Account(
        dataset=entry.dataset,
        epsilon=check_epsilon(body["epsilon"]),
        delta=check_delta(body["delta"]),
        unit=check_choice(body["unit"], "unit", UNITS),
        adjacency=check_choice(body["adjacency"], "adjacency", ADJACENCIES),
        time=entry.time,
    )


def read_charge(entry: Entry) -> Charge:
    """Return the charge that an entry makes."""
    body = json.loads(entry.body)
    return Charge(
        id=entry.seq,
        dataset=entry.dataset,
        time=entry.time,
        purpose=str(body["purpose"]),
        releases=read_releases(body["releases"]),
        epsilon_after=float(body["epsilon_after"]),
        hash=entry.hash,
    )


def _read_settlement(entry: Entry, charges: dict[int, Charge]) -> Charge:
    body = json.loads(entry.body)
    charge = charges[body["charge"]]
    if entry.kind != SETTLEMENT or charge.settled is not None:
        raise ValueError("it is not the first settlement of a charge")
    settled = read_releases(body["releases"])
    if not covered(settled, charge.releases):
        raise ValueError("it settles more than was charged")
    return replace(charge, settled=settled)


def account_names(entries: Sequence[Entry]) -> list[str]:
    """Return the data sets that have an account, in the order in which they were opened."""
    return [entry.dataset for entry in entries if entry.kind == ACCOUNT]


def book_of(dataset: str, entries: Sequence[Entry]) -> Book:
    """Return the book of a data set that has one."""
    book = replay(dataset, entries)
    if book is None:
        known = account_names(entries)
        listed = ", ".join(map(repr, known[:_LISTED])) + (", ..." if len(known) > _LISTED else "")
        raise LedgerError(
            f"a data set with an account (known: {listed or 'none yet'})",
            parameter(dataset),
            "Open one with open_account(dataset, epsilon, delta), or correct the name.",
        )
    return book
