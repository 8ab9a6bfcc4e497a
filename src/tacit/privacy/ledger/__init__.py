"""The ledger: the privacy budgets of data sets.

A second model that is fitted to the same data spends from the same budget. A ledger keeps the accounts in one file that
several processes may use at once. It refuses a charge that exceeds a budget, before the data are used.

May be imported by whoever may import `privacy`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tacit.errors import BudgetError, InvalidInputError, LedgerError, TamperedLedgerError, kind_of, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger.book import (
    ACCOUNT,
    AUDIT,
    CHARGE,
    FINGERPRINT,
    LATER,
    SETTLEMENT,
    Account,
    Book,
    Charge,
    NotedAudit,
    Remaining,
    account_names,
    book_of,
    checked_name,
    checked_releases,
    covered,
    planned_charge,
    read_account,
    read_charge,
    releases_to_charge,
    replay,
    write_releases,
)
from tacit.privacy.ledger.store import GENESIS, LedgerEntry, LedgerStore, Transaction, tampered
from tacit.privacy.releases import ADJACENCIES, UNITS
from tacit.validation import check_choice, check_count, check_delta, check_epsilon, check_positive

__all__ = ["Account", "Charge", "Ledger", "NotedAudit", "Remaining"]

_ATTEMPTS = 8
"""How often a charge is composed without locking the file. After that many charges by others came in between, the file is
locked while it is composed: slow for the others, but this charge does get its turn."""


class Ledger:
    """The accounts of data sets, in one file.

    Parameters
    ----------
    path : str or path
        The file, on a local disk. A new file can be read and written by its owner only, because purposes and
        fingerprints say something about the data.
    create : bool
        Whether to create a file that does not exist; otherwise that is an error.
    timeout : float
        Seconds to wait for another process that has locked the file.

    Notes
    -----
    Charges compose by their *releases*: what a data set has spent is ``Accountant(adjacency, all releases).epsilon(delta)``,
    which is less than the sum of the epsilons. For full-batch Gaussian releases this holds even if later charges are chosen
    after seeing earlier results [1]_. With other kinds of releases it holds if their parameters do not depend on earlier
    results: decide on them beforehand. For the same reason a settlement frees budget only in an account that has nothing but
    full-batch Gaussian releases; in others a run that released anything counts in full.

    Charge the whole plan, then use the data, then `settle` if less was released. After a crash, or if the run is
    interrupted at any line of `charge` or `settle`, the ledger holds at least what the caller was allowed to release.

    Every operation first checks the hash chain of the entries; see `verify` for what that finds. Instances may be
    shared by threads and used after a fork.

    References
    ----------
    .. [1] A. Smith, A. Thakurta. Fully Adaptive Composition for Gaussian Differential Privacy. 2022.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.privacy import GaussianRelease, Guarantee
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.db")
    >>> account = ledger.open_account("ratings 2024", epsilon=3.0, delta=1e-6)
    >>> plan = Guarantee.from_releases([GaussianRelease(noise_multiplier=10.0, count=20)], delta=1e-6)
    >>> charge = ledger.charge("ratings 2024", plan, "a first model")
    >>> round(ledger.remaining("ratings 2024").spent, 2)
    1.99
    >>> ledger.can_afford("ratings 2024", plan)
    True
    >>> round(ledger.affordable("ratings 2024"), 2)
    2.1
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, timeout: float = 30.0) -> None:
        self._store = LedgerStore(path, create=create, timeout=check_positive(timeout, "timeout"))

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    @property
    def head(self) -> str:
        """Hash of the last entry. If you note it outside the file, `verify` can find that the file was replaced."""
        entries = self._entries()
        return entries[-1].hash if entries else GENESIS

    def open_account(
        self, dataset: str, epsilon: float, delta: float, *, unit: str = "row", adjacency: str = "add-remove"
    ) -> Account:
        """Set the total budget of a data set. It cannot be changed later.

        Parameters
        ----------
        dataset : str
            A name, or what `fingerprint` returns.
        epsilon, delta : float
            The budget for everything that will ever be released from this data set.
        unit : {"cell", "row", "user", "site"}
        adjacency : {"add-remove", "replace-one"}

        Raises
        ------
        LedgerError
            If the data set has an account already.
        """
        dataset = checked_name(dataset)
        terms = {
            "epsilon": check_epsilon(epsilon),
            "delta": check_delta(delta),
            "unit": check_choice(unit, "unit", UNITS),
            "adjacency": check_choice(adjacency, "adjacency", ADJACENCIES),
        }
        with self._store.transaction(write=True) as transaction:
            book = replay(dataset, transaction.entries())
            if book is not None:
                same = all(getattr(book.account, name) == value for name, value in terms.items())
                raise LedgerError(
                    f"a data set without an account; {dataset!r} has one since {book.account.time}",
                    words("the same terms again" if same else f"other terms than its {book.account.terms()}"),
                    "The account is open: charge it as it is."
                    if same
                    else "The terms of an account never change, because what was released cannot be taken back.",
                )
            return read_account(transaction.append(_now(), dataset, ACCOUNT, terms))

    def charge(self, dataset: str, guarantee: Guarantee, purpose: str) -> Charge:
        """Charge all releases of a guarantee to a data set, or refuse. Call it before you use the data.

        Parameters
        ----------
        dataset : str
        guarantee : Guarantee
            Of the kind "differential privacy", with the unit and adjacency of the account. Its releases are counted at
            the delta of the account, not at its own.
        purpose : str
            What the releases are for, in words.

        Returns
        -------
        Charge
            The only object with which the charge can be settled.

        Raises
        ------
        BudgetError
            If the budget would be exceeded. Nothing was written.
        """
        dataset = checked_name(dataset)
        if not isinstance(purpose, str) or not purpose.strip():
            raise InvalidInputError("a purpose in words", parameter(purpose), "State what the releases are for.")
        for attempt in itertools.count():
            if attempt == _ATTEMPTS:
                with self._store.transaction(write=True) as transaction:
                    body = planned_charge(book_of(dataset, transaction.entries()), guarantee, purpose)
                    return _write_charge(transaction, dataset, body)
            entries = self._entries()
            body = planned_charge(book_of(dataset, entries), guarantee, purpose)
            with self._store.transaction(write=True) as transaction:
                newer = transaction.entries(after=entries[-1])
                if not any(entry.dataset == dataset for entry in newer):
                    return _write_charge(transaction, dataset, body)
        raise AssertionError("unreachable")

    def settle(self, charge: Charge, guarantee: Guarantee) -> None:
        """Replace a charge by what was really released, for a run that stopped early.

        Parameters
        ----------
        charge : Charge
            The object that `charge` returned. It can be settled once. A charge from `history` cannot be settled: nobody
            but the run that was charged knows what it released.
        guarantee : Guarantee
            Of what was released: releases that were charged, none of them more often. It may be of none at all.

        Notes
        -----
        The decision to stop must not depend on data that were not released. A run may stop because of what it has
        released, or because the machine failed. A run that stops because of the data themselves reveals that about them.

        What the settlement leaves can be spent where the account has full-batch Gaussian releases only, now and later. With
        Poisson samples, choices or other kinds in the account, the settlement is on record, but the charge counts in full,
        unless nothing at all was released: no theorem covers a budget that is spent depending on when such a run stopped.
        """
        if not isinstance(charge, Charge) or not charge.owned:
            raise InvalidInputError(
                "the Charge that `charge` returned",
                words("one from the history") if isinstance(charge, Charge) else kind_of(charge),
                "Only the run that was charged can settle; after a crash the charge counts in full.",
            )
        with self._store.transaction(write=True) as transaction:
            book = book_of(charge.dataset, transaction.entries())
            known = next((item for item in book.charges if item.hash == charge.hash), None)
            if known is None:
                raise LedgerError(
                    f"a charge of {charge.dataset!r} in {self.path}",
                    words(f"charge {charge.id}, which is not in it"),
                    "Settle it in the ledger where it was made.",
                )
            if known.settled is not None or known.later:
                raise LedgerError(
                    "a charge that was not settled yet, and pays for one run",
                    words(f"charge {charge.id}, which {'pays for later parts too' if known.later else 'was'}"),
                    "A charge is settled once. Make a new charge for further releases.",
                )
            settled = checked_releases(guarantee, book.account)
            if not covered(settled, known.releases):
                raise InvalidInputError(
                    "a settlement within the charge: the same releases, none of them more often",
                    words("; ".join(f"{release.count} x {release.describe()}" for release in settled)),
                    "Make a new charge for what exceeds it.",
                )
            body = {"charge": known.id, "releases": write_releases(settled)}
            transaction.append(_now(), charge.dataset, SETTLEMENT, body)

    def begin_later(self, dataset: str, charge: str, number: int) -> None:
        """Note that a later part begins that an earlier charge pays for, or refuse: each begins once.

        A part is a release of a schedule, what is left of a run that goes on from a checkpoint, or the end of such a run.

        Parameters
        ----------
        dataset : str
        charge : str
            The hash of the charge (`Charge.hash`).
        number : int
            The first after the charge's own run is number 1.

        Raises
        ------
        BudgetError
            If it is not the next one. Nothing was written.
        """
        dataset = checked_name(dataset)
        with self._store.transaction(write=True) as transaction:
            book = book_of(dataset, transaction.entries())
            known = next((item for item in book.charges if item.hash == charge), None)
            if known is None or known.settled is not None:
                raise LedgerError(
                    f"the charge of the schedule or run in {self.path}",
                    words("a ledger without it, or where it was settled"),
                    "Use the ledger that it was charged to. Nothing was released.",
                )
            if number != known.later + 1:
                raise BudgetError(
                    f"part number {known.later + 2} of what charge {known.id} pays for",
                    words(f"part number {number + 1}"),
                    "The ledger has this part as begun: the schedule, or the run with a checkpoint, goes on from an older copy. "
                    "Nothing was released. Go on from the newest copy, or begin anew, for a budget of its own.",
                )
            transaction.append(_now(), dataset, LATER, {"charge": known.id, "number": number})

    def can_afford(self, dataset: str, guarantee: Guarantee) -> bool:
        """Return whether the budget allows this guarantee now. What `charge` refuses for other reasons raises here too."""
        book = self._read(dataset)
        return book.account.allows(book.spent(releases_to_charge(guarantee, book.account)))

    def affordable(self, dataset: str, delta: float | None = None, *, releases: int = 1) -> float:
        """Return the largest epsilon that still fits the budget, for one or several equal full-batch Gaussian releases.

        Parameters
        ----------
        dataset : str
        delta : float, optional
            The delta at which that epsilon is stated, for a fit that runs with another delta than the account's. The
            charge itself is always counted at the account's delta. By default they are the same.
        releases : int, default=1
            How many such releases are planned; the result is the epsilon of each.

        Returns
        -------
        float
            0 if nothing fits. Several full-batch Gaussian sums with this total epsilon fit as well, because they cost
            the same as one. Poisson-sampled sums, choices and other kinds compose differently: test those with
            `can_afford`.
        """
        book = self._read(dataset)
        count = check_count(releases, "releases")
        return book.affordable(book.account.delta if delta is None else check_delta(delta), count)

    def remaining(self, dataset: str, *, after: Guarantee | None = None) -> Remaining:
        """Return what is spent and what is left of the budget of a data set; see `affordable` for what still fits.

        With `after`, return what would be spent and left after this guarantee was charged, whether or not it fits.
        """
        book = self._read(dataset)
        account = book.account
        spent = book.spent(() if after is None else releases_to_charge(after, account))
        return Remaining(account.dataset, account.epsilon, account.delta, spent, max(account.epsilon - spent, 0.0))

    def history(self, dataset: str) -> list[Charge]:
        """Return all charges of a data set, oldest first."""
        return self._read(dataset).history()

    def note_audit(self, dataset: str, certificate: str) -> NotedAudit:
        """Chain the certificate of an audit into the account of a data set. It costs nothing: it stays with the holder.

        Publishing the certificate of an audit of private data is a release without a guarantee. No charge covers it, and the
        ledger has no entry for it.

        Parameters
        ----------
        dataset : str
        certificate : str
            The digest of the certificate: ``"sha256:"`` and 64 hexadecimal digits.
        """
        dataset = checked_name(dataset)
        if not isinstance(certificate, str) or not re.fullmatch(FINGERPRINT, certificate):
            raise InvalidInputError(
                "the digest of a certificate: sha256: and 64 hexadecimal digits",
                kind_of(certificate),
                "Give the digest that the audit states.",
            )
        with self._store.transaction(write=True) as transaction:
            book_of(dataset, transaction.entries())
            body = {"certificate": certificate, "releases": []}
            entry = transaction.append(_now(), dataset, AUDIT, body)
        return NotedAudit(entry.seq, dataset, entry.time, certificate)

    def audits(self, dataset: str) -> list[NotedAudit]:
        """Return the audits that were noted for a data set, oldest first."""
        return list(self._read(dataset).audits)

    def account(self, dataset: str) -> Account:
        """Return the account of a data set: its budget and terms."""
        return self._read(dataset).account

    def datasets(self) -> list[str]:
        """Return the data sets that have an account, in the order in which the accounts were opened."""
        return account_names(self._entries())

    def verify(self, expected_head: str | None = None) -> int:
        """Check the whole file: hash chain, order, every entry's fields and total, and that no budget is exceeded.

        Parameters
        ----------
        expected_head : str, optional
            A `head` that you noted earlier, outside the file. It must be in the chain.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        TamperedLedgerError
            Names the first bad entry.

        Notes
        -----
        A row that was changed, removed, moved or inserted is found. A hash chain alone cannot find a file that was
        written again from the beginning by someone who computes all hashes, or a file that was replaced by an older copy.
        Both are found with `expected_head`, if it was noted where the attacker cannot change it.
        """
        if expected_head is not None and not re.fullmatch("[0-9a-f]{64}", str(expected_head)):
            raise InvalidInputError(
                "a head of 64 hexadecimal digits", parameter(expected_head), "Give the `head` of a ledger."
            )
        entries = self._entries()
        entries_of: dict[str, list[LedgerEntry]] = {}
        for entry in entries:
            entries_of.setdefault(entry.dataset, []).append(entry)
        for dataset, own in entries_of.items():
            book = replay(dataset, own, recompute=True)
            if book is not None and book.overspent():
                raise tampered(book.charges[-1].id, f"with which {dataset!r} exceeds its budget")
        if expected_head is not None and expected_head not in {GENESIS, *(entry.hash for entry in entries)}:
            raise TamperedLedgerError(
                f"a ledger with the entry {expected_head}",
                words(f"one of {len(entries)} entries without it"),
                "The file was replaced, perhaps by an older copy: restore the one whose head you noted.",
            )
        return len(entries)

    def _entries(self) -> list[LedgerEntry]:
        with self._store.transaction() as transaction:
            return transaction.entries()

    def _read(self, dataset: str) -> Book:
        return book_of(checked_name(dataset), self._entries())


def _write_charge(transaction: Transaction, dataset: str, body: Mapping[str, object]) -> Charge:
    return replace(read_charge(transaction.append(_now(), dataset, CHARGE, body)), owned=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
