"""`tacit budget`: open a data set's account, show its budget and charges, verify the ledger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.output import charged, print_json, print_table
from tacit.errors import InvalidInputError, LedgerError, listed, words

if TYPE_CHECKING:
    from tacit.privacy.ledger import Charge, Ledger

app = typer.Typer(
    help="The privacy budgets of data sets: open an account, show what is left, verify the ledger.",
    no_args_is_help=True,
)

LEDGER = typer.Option(Path("tacit-ledger.db"), "--ledger", envvar="TACIT_LEDGER", help="The ledger's file.")
NAME = typer.Argument(None, help="The data set's name.")
DATA = typer.Option(None, "--data", help="Name the data set by the content of this file or folder instead.")
JSON = typer.Option(False, "--json", help="Print one JSON object.")


@app.command("open")
def open_account(
    name: str | None = NAME,
    epsilon: float = typer.Option(..., help="Total privacy loss that the data set may ever cost."),
    delta: float = typer.Option(..., help="Failure probability of all releases together."),
    unit: str = typer.Option("row", help="What is protected: cell, row, user or site."),
    adjacency: str = typer.Option("add-remove", help="add-remove or replace-one."),
    data: Path | None = DATA,
    ledger: Path = LEDGER,
    as_json: bool = JSON,
) -> None:
    """Open an account for a data set."""
    dataset = _dataset(name, data)
    # checked before the file is created, so that a wrong number does not leave an empty ledger
    from tacit.validation import check_delta, check_epsilon

    check_epsilon(epsilon)
    check_delta(delta)
    account = _ledger(ledger, create=True).open_account(dataset, epsilon, delta, unit=unit, adjacency=adjacency)
    if as_json:
        print_json(vars(account))
    else:
        typer.echo(f"opened {account.dataset}: {account.terms()}")


@app.command("show")
def show(name: str | None = NAME, ledger: Path = LEDGER, as_json: bool = JSON) -> None:
    """Show the budget of one data set or of all, what is spent, and the largest epsilon that still fits.

    The last is the epsilon of one more full-batch Gaussian release at the account's delta. It is more than the budget minus
    what is spent, because charges compose to less than their sum.
    """
    from tacit.privacy.rounding import exact, rounded_down, rounded_up

    book = _ledger(ledger)
    rows = [
        (book.account(name), book.remaining(name).spent, book.affordable(name), len(book.history(name)))
        for name in (book.datasets() if name is None else [name])
    ]
    if as_json:
        print_json(
            [
                {**vars(account), "spent": spent, "affordable": fits, "charges": charges}
                for account, spent, fits, charges in rows
            ]
        )
        return
    print_table(
        f"Budgets in {ledger}",
        ["data set", "unit", "adjacency", "epsilon", "delta", "spent", "still fits", "charges"],
        [
            [
                account.dataset,
                account.unit,
                account.adjacency,
                exact(account.epsilon),
                exact(account.delta),
                rounded_up(spent),
                rounded_down(fits),
                str(charges),
            ]
            for account, spent, fits, charges in rows
        ],
    )


@app.command("history")
def history(name: str | None = NAME, data: Path | None = DATA, ledger: Path = LEDGER, as_json: bool = JSON) -> None:
    """List the charges of a data set."""
    from tacit.privacy.rounding import rounded_up

    charges = _ledger(ledger).history(_dataset(name, data))
    if as_json:
        print_json([_charge_dict(charge) for charge in charges])
        return
    print_table(
        "Charges, oldest first",
        ["id", "time", "purpose", "releases", "epsilon spent after it", "state"],
        [
            [
                str(charge.id),
                charge.time,
                charge.purpose,
                "; ".join(f"{release.count} x {release.describe()}" for release in charge.effective) or "none",
                rounded_up(charge.epsilon_after),
                charge.state,
            ]
            for charge in charges
        ],
    )


@app.command("verify")
def verify(
    ledger: Path = LEDGER,
    head: str | None = typer.Option(None, "--head", help="A head hash noted earlier; it must still be in the chain."),
    as_json: bool = JSON,
) -> None:
    """Check that no entry was changed, removed, added or reordered, and that nothing is overspent."""
    book = _ledger(ledger)
    entries = book.verify(expected_head=head)
    if as_json:
        print_json({"entries": entries, "head": book.head, "verified": True})
    else:
        typer.echo(f"{entries} entries verify; head {book.head}")
        typer.echo("Note the head elsewhere: only with it can you detect that the whole file was replaced.")


def _ledger(path: Path, *, create: bool = False) -> Ledger:
    from tacit.privacy.ledger import Ledger

    return Ledger(path, create=create)


def _dataset(name: str | None, data: Path | None) -> str:
    if (name is None) == (data is None):
        raise InvalidInputError(
            "a data set's name, or --data with its file",
            words("both" if name is not None else "neither"),
            "Give the name of the account, or a file whose content names it.",
        )
    if name is not None:
        return name
    from tacit.privacy.fingerprint import fingerprint

    return fingerprint(data)


def account(ledger: Path | None, dataset: str | None, data: Path, *, private: bool = True) -> dict[str, Any]:
    """Return the parameters with which an estimator charges a ledger; the account must exist.

    The account has the name that `tacit budget open` gives it: its own name, or the fingerprint of the whole of `data`. The
    fingerprint is a hash of private data, and must not be written to anything that is passed on.

    A fit that is not private cannot be charged. A ledger or an account that was given for one is refused; a ledger from
    TACIT_LEDGER, which is for all commands, is ignored.
    """
    if ledger is None and dataset is not None:
        raise InvalidInputError(
            "a ledger with --dataset", words("none"), "Give --ledger FILE, or set TACIT_LEDGER, or leave --dataset out."
        )
    if not private:
        if dataset is not None or (ledger is not None and str(ledger) != os.environ.get("TACIT_LEDGER")):
            raise InvalidInputError(
                "a private fit (--epsilon) with --ledger or --dataset",
                words("one without privacy, which cannot be charged"),
                "Make the fit private, or leave the ledger out.",
            )
        return {}
    if ledger is None:
        return {}
    from tacit.privacy.fingerprint import fingerprint

    book, name = _ledger(ledger), dataset or fingerprint(data)
    if dataset is None and name not in book.datasets():
        known = book.datasets()
        raise LedgerError(
            f"an account of {ledger} for these data",
            words(f"none that is named by their content; its accounts are {listed(known)}" if known else "no account"),
            f"Name the account with --dataset, or open one with tacit budget open NAME --epsilon E --delta D --ledger {ledger}.",
        )
    book.account(name)  # raises if there is no such account, before anything is computed
    charged.set((book, name))
    return {"ledger": book, "dataset": name}


def _charge_dict(charge: Charge) -> dict[str, object]:
    values = dict(vars(charge))
    values["releases"] = [release.to_dict() for release in charge.releases]
    values["settled"] = None if charge.settled is None else [release.to_dict() for release in charge.settled]
    return values
