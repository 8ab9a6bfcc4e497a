"""What all pages share: the state of the app, templates, forms and refusals."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tacit.app.datasets import DataSet, DataSets
from tacit.app.files import Roots
from tacit.app.runner import Runner
from tacit.app.security import FORM_TOKEN, Sessions
from tacit.app.uploads import Uploads
from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.rounding import exact, rounded_down, rounded_up

HERE = Path(__file__).parent
LEDGER_SECONDS = 3.0
"""A page waits this long for another process that has locked the ledger."""
MOST_FIELDS = 20_000
"""Fields of a form: a table of 2,000 columns has 5 for each."""


@dataclass(frozen=True)
class AppSite:
    """The app's state, all of it on disk, and its pages' common parts.

    Attributes
    ----------
    folder : Path
        Where the app keeps everything.
    ledger : Path
        The ledger's file, which may not exist yet.
    roots : Roots
    datasets : DataSets
    runner : Runner
    sessions : Sessions
    uploads : Uploads
    command : list of str
        What runs `tacit` on this computer.
    port, most_uploaded : int
    """

    folder: Path
    ledger: Path
    roots: Roots
    datasets: DataSets
    runner: Runner
    sessions: Sessions
    uploads: Uploads
    command: list[str]
    port: int
    most_uploaded: int

    def book(self) -> Ledger | None:
        """Return the ledger; None if nobody has opened an account."""
        return Ledger(self.ledger, create=False, timeout=LEDGER_SECONDS) if self.ledger.exists() else None

    def page(self, request: Request | None, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        session = request.state.session if request is not None else ""
        token = self.sessions.form_token(session) if session else ""
        path = request.url.path if request is not None else ""
        text = TEMPLATES.get_template(template).render(
            form_token=token,
            path=path,
            signed_in=bool(session),
            wrong=values.pop("wrong", {}),
            labels=values.pop("labels", {}),
            **values,
        )
        return HTMLResponse(text, status)

    def refusal(self, status: int, heading: str, sentence: str) -> HTMLResponse:
        """Return the page of a refusal, which shows nothing else."""
        return self.page(None, "refusal.html", status, heading=heading, sentence=sentence)

    def data(self, request: Request) -> DataSet:
        """Return the data set that the path names."""
        data = self.datasets.get(request.path_params["data"])
        if data is None:
            raise NoSuchPage
        return data


class NoSuchPage(Exception):  # noqa: N818 - not an error of the program
    """The address names nothing."""


Handler = Callable[..., Response]


def get(site: AppSite, path: str, handler: Handler) -> Route:
    """Return the route of a page; the handler runs in a thread, so that a slow one does not stop others."""

    async def endpoint(request: Request) -> Response:
        return await _answered(site, handler, request)

    return Route(path, endpoint, methods=["GET"])


def post(site: AppSite, path: str, handler: Handler) -> Route:
    """Return the route of a form; a form without its session's token is refused.

    The handler is called with the form's fields. Files are not among them: `Uploads` receives them beforehand.
    """

    async def endpoint(request: Request) -> Response:
        try:
            fields = fields_of(await request.body())
        except ValueError:
            return site.refusal(400, "Refused", "The form could not be read. Load the page again, and send it again.")
        if not from_own_page(site, request, fields.pop(FORM_TOKEN, "")):
            return expired(site)
        return await _answered(site, handler, request, fields)

    return Route(path, endpoint, methods=["POST"])


def from_own_page(site: AppSite, request: Request, token: str) -> bool:
    """Return whether a token is that of the session's pages."""
    return hmac.compare_digest(site.sessions.form_token(request.state.session).encode(), token.encode())


def expired(site: AppSite) -> Response:
    """Return the refusal of a form that carries the token of no page, or of another session's."""
    return site.refusal(403, "Refused", "The form has expired. Go back, load the page again, and send it again.")


async def _answered(site: AppSite, handler: Handler, request: Request, *further: object) -> Response:
    try:
        return await run_in_threadpool(handler, request, *further)
    except NoSuchPage:
        return site.refusal(404, "No such page", "It may have been removed. Begin at the first page.")
    except TacitError as error:  # whose message holds no value of the data
        return site.page(request, "refusal.html", 422, heading="This was not possible", sentence=str(error))


def go(path: str) -> RedirectResponse:
    """Return a redirection after a form, so that reloading does not send it again."""
    return RedirectResponse(path, 303)


def fields_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form as browsers encode them without files; raise a ValueError if it is none."""
    pairs = parse_qsl(
        body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=MOST_FIELDS, errors="strict"
    )
    return {name: value.strip() for name, value in pairs}


def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "up": rounded_up,
        "down": rounded_down,
        "exact": exact,
        "moment": _moment,
        "size": _size,
        "pair": lambda text: (text, text),
    }
    return made


def _moment(time: str) -> str:
    """Return a time for people, from ISO 8601 in UTC."""
    return f"{time[:10]} {time[11:19]} UTC" if time else ""


def _size(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1000:
        return f"{count} bytes"
    if count < 1e6:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


TEMPLATES = _templates()
