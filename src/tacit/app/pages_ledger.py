"""The ledger: accounts, their history as a picture, the check of the record, and a plan for a year."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tacit.app.budget import picture
from tacit.app.pages_question import open_account
from tacit.app.site import AppSite, NoSuchPage, get, go, post
from tacit.errors import TacitError
from tacit.privacy.releases import UNITS

MOST_PLANNED = 10_000
"""Releases in a year's plan."""


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the ledger's pages."""
    pages = LedgerPages(site)
    return [
        get(site, "/ledger", pages.show),
        get(site, "/ledger/account", pages.account),
        post(site, "/ledger/open", pages.open),
        post(site, "/ledger/verify", pages.verify),
    ]


class LedgerPages:
    """The pages of the ledger."""

    def __init__(self, site: AppSite) -> None:
        self.site = site

    def show(
        self, request: Request, wrong: dict[str, str] | None = None, checked: str = "", status: int = 200, **fields: str
    ) -> Response:
        """List the accounts."""
        book = self.site.book()
        rows = []
        for name in book.datasets() if book is not None else ():
            assert book is not None
            rows.append((book.account(name), book.remaining(name), book.affordable(name), len(book.history(name))))
        return self.site.page(
            request,
            "ledger.html",
            status,
            ledger=str(self.site.ledger),
            head=book.head if book is not None else "",
            rows=rows,
            units=UNITS,
            checked=checked,
            fields={"name": "", "unit": "row", "total_epsilon": "3", "total_delta": "1e-6", "head": "", **fields},
            wrong=wrong or {},
        )

    def account(self, request: Request) -> Response:
        """Show one account, with its history and a year's plan."""
        book, name = self.site.book(), request.query_params.get("name", "")
        if book is None or name not in book.datasets():
            raise NoSuchPage
        wrong, each, text = {}, None, request.query_params.get("releases", "12")
        if text.isdigit() and 1 <= int(text) <= MOST_PLANNED:
            each = book.affordable(name, releases=int(text))
        else:
            wrong["releases"] = f"Give a whole number from 1 to {MOST_PLANNED}."
        history = book.history(name)
        return self.site.page(
            request,
            "account.html",
            422 if wrong else 200,
            account=book.account(name),
            left=book.remaining(name),
            fits=book.affordable(name),
            charges=history,
            picture=picture(book.account(name), history),
            releases=text,
            each=each,
            wrong=wrong,
        )

    def open(self, request: Request, fields: dict[str, str]) -> Response:
        """Open an account by hand."""
        unit = fields.get("unit", "row")
        wrong = {}
        if unit not in UNITS:
            wrong["unit"] = "Choose one of the list."
        if not fields.get("name"):
            wrong["name"] = "Give the name of the data set."
        if not wrong:
            wrong = open_account(self.site, fields["name"], fields, unit)
        if wrong:
            return self.show(request, wrong, status=422, **fields)
        return go("/ledger")

    def verify(self, request: Request, fields: dict[str, str]) -> Response:
        """Check the whole record."""
        book, head = self.site.book(), fields.get("head", "")
        if book is None:
            return go("/ledger")
        try:
            entries = book.verify(head or None)
        except TacitError as error:
            return self.show(request, {"head": str(error)}, status=422, head=head)
        return self.show(request, checked=f"{entries} entries verify.", head=head)
