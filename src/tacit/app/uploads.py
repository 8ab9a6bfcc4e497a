"""Files that a browser sends, each as the body of a request of its own, before the form that names it.

A form with a file in it would need a parser of multipart bodies, which writes what it reads to a temporary folder. Here
the script of the page sends the file's bytes as they are; they go to a file that only its owner may read, and the form
then names it. A form is so always a short list of fields.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from tacit.app.files import PRIVATE_FILE, is_id, new_id, private_folder
from tacit.errors import InvalidInputError, words

FILE, UPLOAD = "file", "upload"
"""Fields of a form: the name of the file that a person chose, and the id under which it was received."""
STALE_SECONDS = 3600
"""A file that no form has named for this long is deleted: the page was left. Set by hand; a form follows at once."""


@dataclass(frozen=True)
class Upload:
    """A received file: the name that it has on the person's computer, and where it is now."""

    name: str
    path: Path


class Uploads:
    """The files that were received and not yet named by a form; those of an earlier run of the app are deleted."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._folder = private_folder(folder)

    async def receive(self, body: AsyncIterator[bytes]) -> str:
        """Keep a body, and return its id; if it breaks off or is too large, nothing of it is kept."""
        await run_in_threadpool(self._drop_stale)
        name = new_id()
        path = self._folder / name
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as kept:
                async for part in body:
                    await run_in_threadpool(kept.write, part)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return name

    @contextmanager
    def named_by(self, fields: Mapping[str, str]) -> Iterator[Upload]:
        """Give the file that a form names, which may be moved away; otherwise it is deleted at the end."""
        chosen, received = fields.get(FILE, ""), fields.get(UPLOAD, "")
        if not chosen:
            raise InvalidInputError("a file", words("none"), "Choose one.")
        path = self._folder / received
        if not is_id(received) or not path.is_file():
            raise InvalidInputError(
                "a file that the page has sent",
                words("none"),
                "Choose it again. If the browser runs no scripts, start `tacit app` with the file's folder and pick it there.",
            )
        try:
            yield Upload(chosen, path)
        finally:
            path.unlink(missing_ok=True)

    def _drop_stale(self) -> None:
        for path in self._folder.iterdir():
            try:
                if path.stat().st_mtime < time.time() - STALE_SECONDS:
                    path.unlink()
            except FileNotFoundError:  # a form has taken it meanwhile
                continue
