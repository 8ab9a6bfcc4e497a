"""A schedule of releases in a file of the holder, so that each release can be made by another process.

The file is an SQLite database that grows by one release at a time. A release is noted as begun before anything of it is
released, in one transaction: two processes cannot both make it. Its terms, its answers and the model are kept when it has
ended. The terms are sums of the data without noise, so that only the file's owner can read it.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.privacy.schedules import RunningTotal

FORMAT = "tacit schedule 1"
TERMS, ANSWERS, KEPT = "terms", "answers", "kept"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS releases (number INTEGER PRIMARY KEY, ended INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS sums (
    number INTEGER NOT NULL, step TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, numbers BLOB NOT NULL,
    PRIMARY KEY (number, step, kind, name)
);
CREATE TABLE IF NOT EXISTS fixed (name TEXT PRIMARY KEY, numbers BLOB NOT NULL);
"""


class ScheduleFile:
    """The releases of one schedule: which were begun, what they asked and were answered, and the model of the last.

    Parameters
    ----------
    path : path
        Created with the first release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._schedule: str | None = None
        """Which schedule this object began or read: another one in a new file of the same name is refused."""

    @property
    def ended(self) -> int:
        """How many releases ended; 0 if there is no file."""
        if not self.path.exists():
            return 0
        with self._open() as file:
            return int(file.execute("SELECT COUNT(*) FROM releases WHERE ended").fetchone()[0])

    def begin(self, number: int, then: Callable[[], None] | None = None) -> bool:
        """Note that a release (counted from 0) begins; return False, and note nothing, if it was begun or is not the next.

        `then` is called before the note is written; nothing is noted if it raises.
        """
        with self._open(create=number == 0) as file:
            begun, ended = file.execute("SELECT COUNT(*), COALESCE(SUM(ended), 0) FROM releases").fetchone()
            if not number == begun == ended:
                return False
            file.execute("INSERT INTO releases (number) VALUES (?)", (number,))
            schedule = self._schedule
            if number == 0:
                schedule = secrets.token_hex(16)
                file.execute("INSERT OR REPLACE INTO about VALUES ('schedule', ?)", (schedule,))
            if then is not None:
                then()
        self._schedule = schedule
        return True

    def cancel_first(self) -> None:
        """Forget a first release that failed: another attempt pays for itself."""
        with self._open() as file:
            file.execute("DELETE FROM releases WHERE number = 0 AND NOT ended")

    def keep(
        self,
        number: int,
        running: Mapping[str, RunningTotal],
        fixed: Mapping[str, NDArray[np.generic]],
        kept: Sequence[Mapping[str, NDArray[np.generic]]],
        notes: Mapping[str, object],
        model: bytes,
    ) -> None:
        """Keep a release that has ended, with what all of them have in common."""
        with self._open() as file:
            for step, one in running.items():
                self._add(file, step, TERMS, one.terms)
                self._add(file, step, ANSWERS, one.answers)
            if kept:
                self._add(file, "", KEPT, kept)
            else:  # data that no later release needs
                file.execute("DELETE FROM sums WHERE kind = ?", (KEPT,))
            for name, array in fixed.items():
                file.execute("INSERT OR REPLACE INTO fixed VALUES (?, ?)", (name, _written(array)))
            for name, value in (("notes", json.dumps(dict(notes)).encode()), ("model", model)):
                file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
            file.execute("UPDATE releases SET ended = 1 WHERE number = ?", (number,))

    def read_model(self) -> tuple[bytes, dict[str, Any]]:
        """Return the model of the last release, as `save` writes it, and what else the holder noted."""
        with self._open() as file:
            about = dict(file.execute("SELECT name, value FROM about"))
        self._schedule = about["schedule"]
        return about["model"], json.loads(about["notes"])

    def read_sums(
        self, running: Mapping[str, RunningTotal]
    ) -> tuple[dict[str, NDArray[np.generic]], list[dict[str, NDArray[np.generic]]]]:
        """Fill in the terms and answers of all releases; return what was fixed, and the data that was kept."""
        kept: list[dict[str, NDArray[np.generic]]] = []
        with self._open() as file:
            query = "SELECT step, kind, number, name, numbers FROM sums ORDER BY number"
            for step, kind, number, name, numbers in file.execute(query):
                past = kept if kind == KEPT else running[step].terms if kind == TERMS else running[step].answers
                if len(past) <= number:
                    past.append({})
                past[number][name] = _read(numbers)
            fixed = {name: _read(numbers) for name, numbers in file.execute("SELECT name, numbers FROM fixed")}
        return fixed, kept

    @staticmethod
    def _add(file: sqlite3.Connection, step: str, kind: str, past: Sequence[Mapping[str, NDArray[np.generic]]]) -> None:
        """Add what the file does not have yet; one release may add that of several."""
        query = "SELECT COALESCE(MAX(number) + 1, 0) FROM sums WHERE step = ? AND kind = ?"
        first = int(file.execute(query, (step, kind)).fetchone()[0])
        for number in range(first, len(past)):
            rows = [(number, step, kind, name, _written(array)) for name, array in past[number].items()]
            file.executemany("INSERT INTO sums VALUES (?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Within the block there is one transaction, which no other process can come between."""
        if create:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            address = f"{self.path.as_uri()}?mode=rw"  # which does not make a file
            with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=60)) as file:
                file.execute("PRAGMA synchronous=FULL")
                file.execute("PRAGMA secure_delete=ON")  # rows that are not needed any more are overwritten
                file.execute("BEGIN IMMEDIATE")
                self._check(file, create=create)
                yield file
                file.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise InvalidInputError(
                f"a schedule's file of this version at {self.path}",
                words(f"a file that cannot be used as one ({type(error).__name__})"),
                "Name another file for a new schedule. Keep this one if a release of it was made.",
            ) from None

    def _check(self, file: sqlite3.Connection, *, create: bool) -> None:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and create:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                file.execute(statement)
            file.execute("INSERT INTO about VALUES ('format', ?)", (FORMAT.encode(),))
        elif "about" not in tables or (FORMAT.encode(),) not in list(
            file.execute("SELECT value FROM about WHERE name = 'format'")
        ):
            raise sqlite3.DatabaseError
        elif self._schedule is not None and (self._schedule,) not in list(
            file.execute("SELECT value FROM about WHERE name = 'schedule'")
        ):
            raise InvalidInputError(
                f"the schedule that this object began or read, at {self.path}",
                words("another one"),
                "The file was replaced. Go on with a new object that reads it. Nothing was released.",
            )


def _written(array: NDArray[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read(content: bytes) -> NDArray[np.generic]:
    array: NDArray[np.generic] = np.load(io.BytesIO(content), allow_pickle=False)
    return array
