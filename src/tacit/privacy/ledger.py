"""The ledger: budgets belong to data sets, not to models.

Whoever fits a second model to the same data spends from the same budget. A ledger keeps that account in one file that
several processes may use at once, and refuses what would overspend it before the data is touched.
"""

from __future__ import annotations

import itertools
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, LedgerError, TamperedLedgerError, parameter, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger_book import (
    ACCOUNT,
    CHARGE,
    SETTLEMENT,
    Account,
    Book,
    Charge,
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
from tacit.privacy.ledger_store import GENESIS, Entry, LedgerStore, Transaction, tampered
from tacit.privacy.releases import ADJACENCIES, UNITS
from tacit.validation import check_choice, check_delta, check_epsilon, check_positive

__all__ = ["Account", "Charge", "Ledger", "Remaining"]

_PATIENCE = 8  # times that others may come first, before a charge is composed with the file locked


class Ledger:
    """Accounts of data sets, in one file.

    Parameters
    ----------
    path : str or path
        The file, on a local disk. A new one can be read and written by its owner only: its purposes and fingerprints
        say something about the data.
    create : bool
        Whether a file that does not exist is made; if not, it is an error.
    timeout : float
        Seconds to wait for another process that holds the file before giving up.

    Notes
    -----
    Charges compose by their *releases*: what a data set has spent is ``Accountant(adjacency, releases of all effective
    charges).epsilon(delta)``, which is less than the sum of the epsilons. For full-batch Gaussian releases this holds
    even where later charges are chosen after seeing earlier results [1]_. Where other kinds take part, the composition
    is that of releases whose parameters do not depend on earlier results: decide on them beforehand.

    The usual order is: charge the whole plan, then touch the data, then `settle` if less was released. After a crash
    the charge counts in full.

    Every operation checks the hash chain of the entries before it believes them; see `verify` for what that finds.
    Instances may be shared by threads and used after a fork.

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
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, timeout: float = 30.0) -> None:
        self._store = LedgerStore(path, create=create, timeout=check_positive(timeout, "timeout"))

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    @property
    def head(self) -> str:
        """Hash of the last entry; noted outside the file, it lets `verify` find a file that was replaced."""
        entries = self._entries()
        return entries[-1].hash if entries else GENESIS

    def open_account(
        self, dataset: str, epsilon: float, delta: float, *, unit: str = "row", adjacency: str = "add-remove"
    ) -> Account:
        """Set the total budget of a data set, once and for all.

        Parameters
        ----------
        dataset : str
            A name, or what `fingerprint` returns.
        epsilon, delta : float
            The budget of everything that will ever be released from this data set.
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
                    f"a data set without an account; {dataset!r} has had one since {book.account.time}",
                    words("the same terms again" if same else f"other terms than its {book.account.terms()}"),
                    "It is open: charge it as it is."
                    if same
                    else "The terms of an account are never changed: what was released cannot be taken back.",
                )
            return read_account(transaction.append(_now(), dataset, ACCOUNT, terms))

    def charge(self, dataset: str, guarantee: Guarantee, purpose: str) -> Charge:
        """Charge all the releases of a guarantee to a data set, or refuse; call it before touching the data.

        Parameters
        ----------
        dataset : str
        guarantee : Guarantee
            Of the kind "differential privacy", for the unit and adjacency of the account.
        purpose : str
            What the releases are for, in words.

        Raises
        ------
        BudgetError
            If the data set would be overspent. Nothing was written.
        """
        dataset = checked_name(dataset)
        if not isinstance(purpose, str) or not purpose.strip():
            raise InvalidInputError("a purpose in words", parameter(purpose), "Say what the releases are for.")
        for attempt in itertools.count():
            if attempt == _PATIENCE:  # others keep coming first: lock them out for as long as the composition takes
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
        """Replace a charge by what was really released, for a run that stopped half-way.

        Parameters
        ----------
        charge : Charge
            As `charge` returned it, or from `history`. It can be settled once.
        guarantee : Guarantee
            Of what was released: releases that were charged, none of them more often. It may be of none at all.

        Notes
        -----
        What was not released must have had no say in the matter: a run may stop because of what it released so far, or
        because the machine failed, but one that stops because of the data themselves tells that much about them.
        """
        if not isinstance(charge, Charge):
            raise InvalidInputError(
                "a Charge", parameter(charge), "Give what `charge` returned, or one from `history`."
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
            if known.settled is not None:
                raise LedgerError(
                    "a charge that was not settled yet",
                    words(f"charge {charge.id}, which was"),
                    "A charge is settled once; charge anew what is released from now on.",
                )
            settled = checked_releases(guarantee, book.account)
            if not covered(settled, known.releases):
                raise InvalidInputError(
                    "a settlement within the charge: the same releases, none of them more often",
                    words("; ".join(f"{release.count} x {release.describe()}" for release in settled)),
                    "Charge what goes beyond it on its own.",
                )
            body = {"charge": known.id, "releases": write_releases(settled)}
            transaction.append(_now(), charge.dataset, SETTLEMENT, body)

    def can_afford(self, dataset: str, guarantee: Guarantee) -> bool:
        """Whether `charge` would accept this guarantee now; what it refuses for other reasons is an error here too."""
        book = self._read(dataset)
        return book.account.allows(book.spent(releases_to_charge(guarantee, book.account)))

    def remaining(self, dataset: str) -> Remaining:
        """Return what is spent and what is left of the budget of a data set."""
        book = self._read(dataset)
        account, spent = book.account, book.spent()
        return Remaining(account.dataset, account.epsilon, account.delta, spent, max(account.epsilon - spent, 0.0))

    def history(self, dataset: str) -> list[Charge]:
        """Return all charges of a data set, the oldest first."""
        return list(self._read(dataset).charges)

    def account(self, dataset: str) -> Account:
        """Return the terms of a data set."""
        return self._read(dataset).account

    def datasets(self) -> list[str]:
        """Return the data sets that have an account, in the order in which they were opened."""
        return account_names(self._entries())

    def verify(self, expected_head: str | None = None) -> int:
        """Check the whole file: hash chain, sequence, meaning of every entry, and that no account is overspent.

        Parameters
        ----------
        expected_head : str, optional
            A `head` noted earlier, outside the file; it must be in the chain.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        TamperedLedgerError
            Naming the first bad entry.

        Notes
        -----
        A row that was changed, removed, moved or put in is found. What no chain can find on its own is a file written
        anew from the beginning by someone who computes all hashes, or one set back to an earlier state, such as an old
        copy. Both are found with `expected_head`, if it was noted where they cannot reach it.
        """
        if expected_head is not None and not re.fullmatch("[0-9a-f]{64}", str(expected_head)):
            raise InvalidInputError(
                "a head of 64 hexadecimal digits", parameter(expected_head), "Give a noted `head` of a ledger."
            )
        entries = self._entries()
        entries_of: dict[str, list[Entry]] = {}
        for entry in entries:
            entries_of.setdefault(entry.dataset, []).append(entry)
        for dataset, own in entries_of.items():
            book = replay(dataset, own)
            if book is not None and book.overspent():
                last = book.charges[-1].id
                raise tampered(last, f"by which {dataset!r} is overspent")
        if expected_head is not None and expected_head not in {GENESIS, *(entry.hash for entry in entries)}:
            raise TamperedLedgerError(
                f"a ledger with the entry {expected_head}",
                words(f"one of {len(entries)} entries without it"),
                "The file was replaced or set back: go back to the one whose head you noted.",
            )
        return len(entries)

    def _entries(self) -> list[Entry]:
        with self._store.transaction() as transaction:
            return transaction.entries()

    def _read(self, dataset: str) -> Book:
        return book_of(checked_name(dataset), self._entries())


def _write_charge(transaction: Transaction, dataset: str, body: dict[str, Any]) -> Charge:
    return read_charge(transaction.append(_now(), dataset, CHARGE, body))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
