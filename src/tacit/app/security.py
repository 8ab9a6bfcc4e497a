"""Who may talk to the app: one browser on this computer, which was given the printed address.

A page of another site, open in the same browser, can send requests to a server on this computer. It is kept out by the
`Host` header (which a rebound name does not pass), by the session's cookie (which the browser does not send with requests
of other sites), by `Origin`, and by a token in every form. What an error says holds no value of the data.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from tacit.app.files import read_json, write_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SESSION_SECONDS = 7 * 24 * 3600
"""A browser signs in again after a week. Set by hand: convenience against the worth of a stolen cookie."""
MOST_FORM_BYTES = 4 << 20
"""Of a form; 200 columns with their categories are far below."""
DRAINED = 2
"""A body of up to this many times the limit is read to its end and dropped, so that the browser shows the refusal."""
OPEN = ("/enter", "/static/")
"""Paths that need no session."""
UPLOADS = "/upload"
"""The path that takes files; all others take forms."""
FORM_TOKEN, FORM_TOKEN_HEADER = "form_token", "x-form-token"
"""The field of a form, and the header of a file, with the token of the session's pages."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'"
"""Of a report: a page of its own, with inline style and pictures, and without any script."""
log = logging.getLogger("tacit.app")


class Sessions:
    """The one-time tokens of printed addresses, and the sessions that browsers got for them.

    Sessions are kept on disk, by their hash, so that a restart of the app does not end them. Tokens are not.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        kept = read_json(file) or {}
        self._key = bytes.fromhex(kept.get("key") or secrets.token_hex(32))
        self._until: dict[str, float] = dict(kept.get("sessions", {}))
        self._tokens: set[str] = set()
        self._save()

    def new_token(self) -> str:
        """Return a token that opens one session."""
        token = secrets.token_urlsafe(32)
        self._tokens.add(_hash(token))
        return token

    def enter(self, token: str) -> str | None:
        """Return a new session for a token, which is then used up; None for a wrong one."""
        digest = _hash(token)
        if digest not in self._tokens:
            return None
        self._tokens.discard(digest)
        session = secrets.token_urlsafe(32)
        self._until[_hash(session)] = time.time() + SESSION_SECONDS
        self._save()
        return session

    def holds(self, session: str) -> bool:
        """Return whether this is a session that has not expired."""
        return self._until.get(_hash(session), 0.0) > time.time()

    def form_token(self, session: str) -> str:
        """Return the token that the forms of a session carry."""
        return hmac.new(self._key, session.encode(), "sha256").hexdigest()

    def _save(self) -> None:
        self._until = {name: until for name, until in self._until.items() if until > time.time()}
        write_json(self._file, {"key": self._key.hex(), "sessions": self._until})


class TooLargeError(Exception):
    """A request's body is larger than what its path takes."""


class Guard:
    """Wraps the app: checks every request before it, and adds the same headers to every response.

    Parameters
    ----------
    app : ASGI application
    sessions : Sessions
    port : int
    most_uploaded : int
        Bytes of an uploaded file.
    refuse : callable
        Makes the page of a refusal from a status, a heading and a sentence.
    """

    def __init__(
        self,
        app: App,
        *,
        sessions: Sessions,
        port: int,
        most_uploaded: int,
        refuse: Callable[[int, str, str], App],
    ) -> None:
        self.app, self.sessions, self.refuse, self.most_uploaded = app, sessions, refuse, most_uploaded
        self.cookie = f"tacit-{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message["headers"], *_missing_headers(message["headers"])]}
            await send(message)

        limit = self.most_uploaded if scope["path"] == UPLOADS else MOST_FORM_BYTES
        limited = _Limited(receive, limit)
        try:
            await self._checked(scope)(scope, limited.receive, with_headers)
        except TooLargeError:
            await limited.drain()
            page = self.refuse(
                413, "Too large", f"A request to this page may have {limit / 2**20:.0f} MB. Nothing was kept."
            )
            await page(scope, receive, with_headers)
        except HTTPException as error:
            await self.refuse(error.status_code, "No such page", "Begin at the first page.")(
                scope, receive, with_headers
            )
        except Exception as error:
            # the message of an unforeseen error may hold values of the data: only its type and place are shown
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
            log.error("unexpected %s", said)
            if not begun:
                page = self.refuse(500, "An error of tacit", f"Unexpected {said}. Nothing was charged by this page.")
                await page(scope, receive, with_headers)

    def _checked(self, scope: Scope) -> App:
        """Return what may answer a request: the app, or a refusal."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, path, method = headers.get("host", ""), scope["path"], scope["method"]
        if host not in self.hosts:
            return self.refuse(421, "Wrong address", "Open the address that `tacit app` printed.")
        if method not in ("GET", "HEAD", "POST"):
            return self.refuse(405, "Not possible", "This page is read or sent a form, and nothing else.")
        if method == "POST" and headers.get("origin") != f"http://{host}":
            return self.refuse(403, "Refused", "The form did not come from a page of this app.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return self.refuse(403, "Refused", "The request came from a page of another site.")
        session = _cookie(headers.get("cookie", ""), self.cookie)
        known = bool(session) and self.sessions.holds(session)
        scope.setdefault("state", {})
        scope["state"]["session"] = session if known else ""
        if not known and not path.startswith(OPEN):
            return self.refuse(
                401,
                "Not signed in",
                "Open the whole address that `tacit app` printed; it works once. If it was used, stop the app and start it "
                "again: it prints a new one, and nothing is lost.",
            )
        return self.app


class _Limited:
    """Reads a body, and stops when it is too large."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit, self._read, self._more = receive, limit, 0, True

    async def receive(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        self._more = bool(message.get("more_body"))
        if self._read > self._limit:
            raise TooLargeError
        return message

    async def drain(self) -> None:
        while self._more and self._read <= DRAINED * self._limit:
            message = await self._receive()
            self._read += len(message.get("body", b""))
            self._more = message["type"] == "http.request" and bool(message.get("more_body"))


_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",  # with no-referrer, browsers send forms with the Origin "null"
    b"cache-control": b"no-store",
}


def _missing_headers(present: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in present}
    return [(name, value) for name, value in _HEADERS.items() if name not in there]


def _cookie(header: str, name: str) -> str:
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
