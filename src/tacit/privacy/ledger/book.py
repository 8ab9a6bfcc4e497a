"""What the entries of a ledger mean: accounts, charges and settlements, read in order from the first one."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.errors import BudgetError, InvalidInputError, LedgerError, UnaccountableError, parameter, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_noise_multiplier, least_multiplier
from tacit.privacy.guarantee import PRIVATE, Guarantee
from tacit.privacy.ledger.store import LedgerEntry, canonical_json, tampered
from tacit.privacy.records import checked_record, is_integer, is_list_of_records, is_number, is_text
from tacit.privacy.releases import ADJACENCIES, UNITS, GaussianRelease, Release, merge, release_from_dict
from tacit.privacy.rounding import exact, rounded_down, shown_delta, shown_epsilon
from tacit.validation import check_choice, check_delta, check_epsilon

ACCOUNT, CHARGE, SETTLEMENT, AUDIT, LATER = "account", "charge", "settlement", "audit", "later release"
TOLERANCE = 1e-9
"""Relative amount by which a total may exceed the budget, so that rounding does not refuse a budget spent in full."""
FINGERPRINT = "sha256:[0-9a-f]{64}"
"""What `fingerprint` returns; a name that begins like one must be a whole one."""
_LISTED = 8  # data sets listed in an error, so that it stays readable
_FIELDS = {
    ACCOUNT: {"epsilon": is_number, "delta": is_number, "unit": is_text, "adjacency": is_text},
    CHARGE: {"purpose": is_text, "releases": is_list_of_records, "epsilon_after": is_number},
    SETTLEMENT: {"charge": is_integer, "releases": is_list_of_records},
    AUDIT: {"certificate": is_text, "releases": is_list_of_records},
    LATER: {"charge": is_integer, "number": is_integer},
}


@dataclass(frozen=True)
class Account:
    """The budget of a data set. It is set once and never changes."""

    dataset: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    time: str

    def allows(self, epsilon: float) -> bool:
        """Return whether a total of `epsilon` is within the budget; NaN is not."""
        return epsilon <= self.epsilon * (1 + TOLERANCE)

    def terms(self) -> str:
        """Return the terms as text."""
        return f"epsilon {exact(self.epsilon)} at delta {exact(self.delta)} per {self.unit}, {self.adjacency}"


@dataclass(frozen=True)
class Charge:
    """What one run was charged with.

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
        What the data set had spent, this charge included, at the delta of its account, when it was charged.
    hash : str
        Hash of its entry, which ties it to one ledger.
    settled : tuple of Release or None
        What was really released, once the charge was settled; None means that it counts in full. See `Book.counted` for when
        a settled charge counts for less.
    later : int
        How many later parts, which this charge pays for too, were begun: releases of a schedule, what was left of a run that
        went on from a checkpoint, and the end of such a run.
    owned : bool
        Whether this is the object that `Ledger.charge` returned. Only that one can be settled, so that no one who reads
        the history takes back the charge of a run that has released everything.
    counts_in_full : bool
        Whether all its releases count against the budget, as `history` found it (see `Book.counted`).
    """

    id: int
    dataset: str
    time: str
    purpose: str
    releases: tuple[Release, ...]
    epsilon_after: float
    hash: str
    settled: tuple[Release, ...] | None = None
    later: int = 0
    owned: bool = field(default=False, compare=False, repr=False)
    counts_in_full: bool = field(default=True, compare=False, repr=False)

    @property
    def state(self) -> str:
        """How it counts, in words."""
        if self.later:
            return f"charged in full, for {self.later} later part{'s' if self.later > 1 else ''} too"
        if self.settled is None:
            return "charged in full"
        return "stopped early; counts in full" if self.counts_in_full else "settled to what was released"

    @property
    def effective(self) -> tuple[Release, ...]:
        """What was released, as far as is known: everything, unless the charge was settled."""
        return self.releases if self.settled is None else self.settled


@dataclass(frozen=True)
class NotedAudit:
    """An audit of a model of a data set: the digest of its certificate, and when it was noted."""

    id: int
    dataset: str
    time: str
    certificate: str


@dataclass(frozen=True)
class Remaining:
    """What is left of a budget.

    Attributes
    ----------
    dataset : str
    budget, delta : float
        The terms of the account.
    spent : float
        Epsilon of everything that counts, at that delta (`Book.counted`).
    epsilon : float
        ``budget - spent``, at least 0. Charges compose to less than their sum, so that a charge of more than this may
        still fit: `Ledger.affordable` returns the largest, `Ledger.can_afford` tests one.
    """

    dataset: str
    budget: float
    delta: float
    spent: float
    epsilon: float


@dataclass(frozen=True)
class Book:
    """The account of one data set and its charges, oldest first."""

    account: Account
    charges: tuple[Charge, ...] = ()
    audits: tuple[NotedAudit, ...] = ()

    def counted(self, further: Iterable[Release] = ()) -> tuple[Release, ...]:
        """Return the releases that count against the budget: those of the charges, and `further` ones.

        A run may have stopped because of what it had released, and what its settlement leaves of the budget is then spent
        depending on that. For full-batch Gaussian releases the total holds all the same (Smith & Thakurta 2022). For others
        there is no such theorem: where one of them is in the account, a run that released anything counts in full.
        """
        further = tuple(further)
        begun = [charge for charge in self.charges if charge.effective]
        if self._settlements_free(further):
            return (*(release for charge in begun for release in charge.effective), *further)
        return (*(release for charge in begun for release in charge.releases), *further)

    def _settlements_free(self, further: Iterable[Release] = ()) -> bool:
        planned = [release for charge in self.charges if charge.effective for release in charge.releases]
        return all(isinstance(one, GaussianRelease) and one.sampling_rate == 1 for one in (*planned, *further))

    def history(self) -> list[Charge]:
        """Return the charges, oldest first; each says whether it counts in full."""
        frees = self._settlements_free()
        return [
            replace(charge, counts_in_full=charge.settled is None or not (frees or charge.settled == ()))
            for charge in self.charges
        ]

    def accountant(self, further: Iterable[Release] = ()) -> Accountant:
        """Return the accountant of everything that counts, with `further` releases."""
        return Accountant(self.account.adjacency, self.counted(further))

    def spent(self, further: Iterable[Release] = ()) -> float:
        """Return the epsilon of everything that counts, with `further` releases, at the account's delta."""
        return self.accountant(further).epsilon(self.account.delta)

    def overspent(self) -> bool:
        """Return whether what counts, composed again, exceeds the budget by more than the tolerance."""
        accountant = self.accountant()
        return not accountant.epsilon(self.account.delta) <= self.account.epsilon * (1 + accountant.tolerance)

    def affordable(self, delta: float, count: int = 1) -> float:
        """Return the largest epsilon at `delta` of each of `count` more full-batch Gaussian releases that fit; 0 if none do."""
        account = self.account
        if not account.allows(self.spent()):
            return 0.0
        # what fits an account without charges; with charges the noise must be larger
        start = gaussian_noise_multiplier(account.epsilon, account.delta, steps=count, adjacency=account.adjacency)
        try:
            noise = least_multiplier(lambda z: self.spent([_gaussian(z, count)]), account.epsilon, start=start)
        except InvalidInputError:  # the budget is spent to the last digit: no noise is large enough
            return 0.0
        return Accountant(account.adjacency, (_gaussian(noise),)).epsilon(delta)


def _gaussian(noise_multiplier: float, count: int = 1) -> GaussianRelease:
    return GaussianRelease(noise_multiplier=noise_multiplier, count=count)


def covered(settled: Iterable[Release], charged: Iterable[Release]) -> bool:
    """Return whether every release in `settled` was charged: the same apart from its count, which is not larger."""
    charged_counts = {replace(release, count=1): release.count for release in merge(charged)}
    return all(release.count <= charged_counts.get(replace(release, count=1), 0) for release in merge(settled))


def checked_releases(guarantee: Guarantee, account: Account) -> tuple[Release, ...]:
    """Return the releases of a guarantee as they will be stored, or refuse it if it cannot be charged to this account."""
    if not isinstance(guarantee, Guarantee) or guarantee.kind != PRIVATE:
        raise InvalidInputError(
            "a guarantee of differential privacy, the only kind that can be charged",
            words(str(guarantee)) if isinstance(guarantee, Guarantee) else parameter(guarantee),
            "Give the Guarantee of a private run. No budget bounds a release without one.",
        )
    if not guarantee.holds:
        raise InvalidInputError(
            "a guarantee with a finite epsilon",
            parameter(guarantee.epsilon),
            "Add noise: no budget covers an unbounded loss.",
        )
    if (guarantee.unit, guarantee.adjacency) != (account.unit, account.adjacency):
        raise InvalidInputError(
            f"a guarantee per {account.unit} under {account.adjacency}, the terms of {account.dataset!r}",
            words(f"one per {guarantee.unit} under {guarantee.adjacency}"),
            f"Losses for different units or adjacencies do not add up. Run with the terms of the account, or open another one "
            f"with unit={guarantee.unit} and adjacency={guarantee.adjacency} (in the shell: tacit budget open NAME --unit "
            f"{guarantee.unit}).",
        )
    if not guarantee.releases and guarantee.epsilon != 0:
        raise InvalidInputError(
            "a guarantee with the releases that its epsilon was computed from",
            words(f"epsilon {shown_epsilon(guarantee.epsilon)} from no releases"),
            "Build it with Guarantee.from_releases. Record a bound that is proven elsewhere as an ApproximateRelease.",
        )
    return read_releases(json.loads(canonical_json(write_releases(guarantee.releases))))


def write_releases(releases: Iterable[Release]) -> list[dict[str, object]]:
    """Return releases as plain values."""
    return [release.to_dict() for release in merge(releases)]


def read_releases(values: Iterable[Mapping[str, object]]) -> tuple[Release, ...]:
    """Return the releases that `write_releases` wrote."""
    return tuple(release_from_dict(value) for value in values)


def checked_name(dataset: str) -> str:
    """Return the name of a data set as it is stored."""
    if not isinstance(dataset, str) or not dataset or not dataset.isprintable() or dataset != dataset.strip():
        raise InvalidInputError(
            "the name of a data set: printable characters, without spaces at either end",
            parameter(dataset),
            "Give a name, or the fingerprint of the data.",
        )
    if dataset.startswith("sha256:") and not re.fullmatch(FINGERPRINT, dataset):
        raise InvalidInputError(
            "a whole fingerprint: sha256: and 64 hexadecimal digits",
            words("a part of one, or a name that looks like one"),
            "Copy the whole fingerprint, or choose a name that does not begin with sha256:.",
        )
    return unicodedata.normalize("NFC", dataset)  # two spellings that look the same are one data set


def releases_to_charge(guarantee: Guarantee, account: Account) -> tuple[Release, ...]:
    """Return the releases that a guarantee would charge to this account; there must be some."""
    releases = checked_releases(guarantee, account)
    if not releases:
        raise InvalidInputError(
            "a guarantee with releases", words("one without any"), "There is nothing to charge: go on without a charge."
        )
    return releases


def planned_charge(book: Book, guarantee: Guarantee, purpose: str) -> dict[str, object]:
    """Return the body of a charge, if the budget allows it."""
    releases, account = releases_to_charge(guarantee, book.account), book.account
    total = book.spent(releases)
    if not account.allows(total):
        raise _refused(book, guarantee, releases, total)
    return {"purpose": purpose, "releases": write_releases(releases), "epsilon_after": total}


def _refused(book: Book, guarantee: Guarantee, releases: tuple[Release, ...], total: float) -> BudgetError:
    """Return the error that says how far a charge is beyond the budget, and whether delta is the reason."""
    account = book.account
    delta, alone = shown_delta(account.delta), Book(account).spent(releases)
    got = f"one of epsilon {shown_epsilon(alone)} at that delta, {shown_epsilon(total)} with the earlier charges"
    fix = "Add noise or release less."
    if math.isinf(total):
        got = f"releases that have no finite epsilon at that delta, {delta}"
        fix = "The failure probabilities of the releases exceed the account's delta: release with a smaller delta."
    elif guarantee.delta > account.delta:
        planned = f"epsilon {shown_epsilon(guarantee.epsilon)} at delta {shown_delta(guarantee.delta)}"
        got += f" (its guarantee is {planned})"
        fix = f"The account counts at delta {delta}: run with a delta of at most that, and add noise or release less."
    fits = book.affordable(account.delta)
    return BudgetError(
        f"a charge within the budget of {account.dataset!r} ({account.terms()}), of which one Gaussian release of epsilon "
        f"{rounded_down(fits)} still fits",
        words(got),
        f"Nothing was charged. {fix}",
    )


def replay(dataset: str, entries: Iterable[LedgerEntry], *, recompute: bool = False) -> Book | None:
    """Return the book of a data set from its entries; None if it has no account.

    With `recompute`, the total that each charge states must be that of its releases and of those before it, neither less
    nor more. That composes all charges again, one after the other.
    """
    account: Account | None = None
    charges: dict[int, Charge] = {}
    audits: list[NotedAudit] = []
    for entry in entries:
        if entry.dataset != dataset:
            continue
        try:
            if account is None:
                account = read_account(entry)
            elif entry.kind == CHARGE:
                charges[entry.seq] = read_charge(entry)
                _check_total(Book(account, tuple(charges.values())), recompute)
            elif entry.kind == AUDIT:
                audits.append(_read_audit(entry))
            elif entry.kind == LATER:
                charge = _read_later(entry, charges)
                charges[charge.id] = charge
            else:
                charge = _read_settlement(entry, charges)
                charges[charge.id] = charge
        except (ValueError, UnaccountableError) as error:
            # its hash is right, so somebody wrote it on purpose, but not with this program
            raise tampered(entry.seq, f"which cannot follow the entries before it ({error})") from error
    return None if account is None else Book(account, tuple(charges.values()), tuple(audits))


def _check_total(book: Book, recompute: bool) -> None:
    """Check the total that the last charge states."""
    stated = book.charges[-1].epsilon_after
    if not book.account.allows(stated):
        raise ValueError("it exceeds the budget")
    if recompute and not (accountant := book.accountant()).agrees(stated, accountant.epsilon(book.account.delta)):
        raise ValueError("its stated total is not that of its releases and of those before it")


def read_account(entry: LedgerEntry) -> Account:
    """Return the account that an entry opens."""
    if entry.kind != ACCOUNT:
        raise ValueError("no account was opened before it")
    body = _body(entry)
    return Account(
        dataset=entry.dataset,
        epsilon=check_epsilon(body["epsilon"]),
        delta=check_delta(body["delta"]),
        unit=check_choice(body["unit"], "unit", UNITS),
        adjacency=check_choice(body["adjacency"], "adjacency", ADJACENCIES),
        time=entry.time,
    )


def read_charge(entry: LedgerEntry) -> Charge:
    """Return the charge that an entry holds."""
    body = _body(entry)
    return Charge(
        id=entry.seq,
        dataset=entry.dataset,
        time=entry.time,
        purpose=body["purpose"],
        releases=read_releases(body["releases"]),
        epsilon_after=float(body["epsilon_after"]),
        hash=entry.hash,
    )


def _read_settlement(entry: LedgerEntry, charges: dict[int, Charge]) -> Charge:
    if entry.kind != SETTLEMENT:
        raise ValueError("it is of a kind that cannot stand there")
    body = _body(entry)
    charge = charges.get(body["charge"])
    if charge is None or charge.settled is not None or charge.later:
        raise ValueError("it is not the first settlement of a charge for one run")
    settled = read_releases(body["releases"])
    if not covered(settled, charge.releases):
        raise ValueError("it settles more than was charged")
    return replace(charge, settled=settled)


def _read_later(entry: LedgerEntry, charges: dict[int, Charge]) -> Charge:
    body = _body(entry)
    charge = charges.get(body["charge"])
    if charge is None or charge.settled is not None:
        raise ValueError("it is a release of no charge that counts in full")
    if body["number"] != charge.later + 1:
        raise ValueError("it is not the next release of its charge")
    return replace(charge, later=charge.later + 1)


def _read_audit(entry: LedgerEntry) -> NotedAudit:
    body = _body(entry)
    if not re.fullmatch(FINGERPRINT, body["certificate"]):
        raise ValueError("it names no certificate")
    if body["releases"]:
        raise ValueError("an audit that stays with its holder releases nothing")
    return NotedAudit(entry.seq, entry.dataset, entry.time, body["certificate"])


def _body(entry: LedgerEntry) -> dict[str, Any]:
    """Return the body of an entry: exactly the fields of its kind, written in the one way that the ledger writes them."""
    body = checked_record(json.loads(entry.body), f"the body of a ledger's {entry.kind}", _FIELDS[entry.kind])
    if canonical_json(body) != entry.body:
        raise ValueError("its body is not written as a ledger writes it")
    return body


def account_names(entries: Sequence[LedgerEntry]) -> list[str]:
    """Return the data sets that have an account, in the order in which the accounts were opened."""
    return [entry.dataset for entry in entries if entry.kind == ACCOUNT]


def book_of(dataset: str, entries: Sequence[LedgerEntry]) -> Book:
    """Return the book of a data set, which must have an account."""
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
