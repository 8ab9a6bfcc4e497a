"""The app as a whole, and the server that shows it on this computer."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles

from tacit.app import pages_audits, pages_data, pages_ledger, pages_parties, pages_question, pages_runs
from tacit.app.datasets import DataSets
from tacit.app.files import Roots, private_folder
from tacit.app.runner import Runner
from tacit.app.security import SESSION_SECONDS, Guard, Sessions
from tacit.app.site import HERE, AppSite
from tacit.app.uploads import Uploads
from tacit.errors import InvalidInputError, parameter

HOST = "127.0.0.1"
"""The app is for this computer; there is no option to show it to others."""


def build(site: AppSite) -> Guard:
    """Return the ASGI application of a site."""

    async def enter(request: Request) -> Response:
        """Take the token of the printed address and give a session for it."""
        session = site.sessions.enter(request.query_params.get("token", ""))
        if session is None and request.state.session:
            return site.page(None, "entered.html")
        if session is None:
            return site.refusal(
                403,
                "Wrong or used address",
                "The printed address works once. Stop the app and start it again: it prints a new one, and nothing is lost.",
            )
        # a page and not a redirection: a browser that came from another site would not send the new cookie with that
        response = site.page(None, "entered.html")
        response.set_cookie(
            guard.cookie, session, max_age=SESSION_SECONDS, httponly=True, samesite="strict", path="/", secure=False
        )
        return response

    missing = site.refusal(404, "No such page", "Begin at the first page.")
    pages = (pages_data, pages_question, pages_runs, pages_ledger, pages_audits, pages_parties)
    routes = [route for page in pages for route in page.routes(site)]
    static = Mount("/static", StaticFiles(directory=HERE / "static"))
    guard = Guard(
        # a router and not a Starlette, which answers errors by itself and lets the server log them with their values
        Router([Route("/enter", enter, methods=["GET"]), static, *routes], redirect_slashes=False, default=missing),
        sessions=site.sessions,
        port=site.port,
        most_uploaded=site.most_uploaded,
        refuse=site.refusal,
    )
    return guard


def serve(
    folders: Sequence[Path],
    *,
    state: Path,
    ledger: Path,
    command: Sequence[str],
    port: int,
    memory: int,
    most_uploaded: int,
    ready: Callable[[str], None],
) -> None:
    """Serve the app until it is interrupted.

    Parameters
    ----------
    folders : sequence of Path
        Where files can be picked.
    state : Path
        The folder in which the app keeps everything.
    ledger : Path
    command : sequence of str
        What runs `tacit` on this computer.
    port : int
        0 for any that is free.
    memory : int
        Bytes that a run may use; 0 for no limit.
    most_uploaded : int
        Bytes of an uploaded file.
    ready : callable
        Called with the address, once the app answers.
    """
    os.umask(0o077)
    private_folder(state)
    runner = Runner(state / "runs", memory=memory)
    listening = _listen(port)
    bound = listening.getsockname()[1]
    runner.start()
    try:
        site = AppSite(
            folder=state,
            ledger=ledger,
            roots=Roots.of(folders, state),
            datasets=DataSets(state / "data"),
            runner=runner,
            sessions=Sessions(state / "sessions.json"),
            uploads=Uploads(state / "received"),
            command=list(command),
            port=bound,
            most_uploaded=most_uploaded,
        )
        # no log of requests: addresses and times of a person's work are private
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        config = uvicorn.Config(build(site), log_config=None, access_log=False, server_header=False, lifespan="off")
        ready(f"http://{HOST}:{bound}/enter?token={site.sessions.new_token()}")
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        runner.stop()
        listening.close()


def _listen(port: int) -> socket.socket:
    # with the protocol named, asyncio turns Nagle's algorithm off; without, each answer waits 40 ms for an acknowledgement
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError:
        listener.close()
        raise InvalidInputError(
            "a free port", parameter(port), "Another program uses it: give another --port."
        ) from None
    listener.listen()  # a browser that comes before the server answers waits, and is not refused
    return listener
