"""What a party keeps of a run, so that it can go on after a failure: a SQLite file that a killed process cannot break."""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path

from tacit.errors import InvalidInputError, words

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (number INTEGER PRIMARY KEY, label BLOB NOT NULL, sent BLOB, total BLOB);
"""
PAGE_BYTES = 65536


class Journal:
    """The totals of all rounds so far, and the numbers that were sent for a total that did not arrive.

    Parameters
    ----------
    path : path
    about : mapping of str to str
        What the run is (job, party, data). A journal of another run is refused.
    resume : bool
        Whether the file must exist; if not, it must not, or must be that of a run that ended before anything was sent.
    """

    def __init__(self, path: str | os.PathLike[str], about: dict[str, str], *, resume: bool) -> None:
        place = Path(path)
        if not resume:
            _forget_unstarted(place)
        if place.exists() != resume:
            raise InvalidInputError(
                f"a checkpoint at {place}" if resume else f"no checkpoint at {place}",
                words("none" if resume else "one of an earlier run"),
                "Start without --resume."
                if resume
                else "Use --resume to go on, or another output folder to start again.",
            )
        place.touch(mode=0o600)
        self._file = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
        self._file.execute(f"PRAGMA page_size={PAGE_BYTES}")  # a round's numbers are many pages of the usual size
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.executescript(_SCHEMA)
        for key, value in about.items():
            known = self._value(key)
            if known is not None and known != value.encode():
                raise InvalidInputError(
                    f"the {key} of the run that is resumed",
                    words(f"another {key}"),
                    "Resume with the same job and data.",
                )
            self._keep(key, value.encode())
        self.resumed = resume

    @property
    def complete(self) -> int:
        """How many rounds have their total."""
        row = self._file.execute("SELECT COUNT(*) FROM rounds WHERE total IS NOT NULL").fetchone()
        return int(row[0])

    def total(self, number: int) -> tuple[bytes, bytes] | None:
        """Return label and total of a round, if known."""
        query = "SELECT label, total FROM rounds WHERE number = ? AND total IS NOT NULL"
        row = self._file.execute(query, (number,)).fetchone()
        return None if row is None else (row[0], row[1])

    def sent(self, number: int) -> tuple[bytes, bytes] | None:
        """Return the label of a round whose total is not known, and what was sent for it."""
        query = "SELECT label, sent FROM rounds WHERE number = ? AND sent IS NOT NULL"
        row = self._file.execute(query, (number,)).fetchone()
        return None if row is None else (row[0], row[1])

    def keep_sent(self, number: int, label: bytes, sent: bytes | memoryview) -> None:
        """Remember what is about to be sent, on the disk before it is sent."""
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.execute("INSERT INTO rounds VALUES (?, ?, ?, NULL)", (number, label, sent))

    def keep_total(self, number: int, label: bytes, total: bytes | memoryview) -> None:
        """Remember a total; what was sent for it is not needed any more.

        The disk may take its time: if the computer fails before, what was sent is still there, or the others have the total.
        """
        self._file.execute("PRAGMA synchronous=NORMAL")
        self._file.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, NULL, ?)", (number, label, total))

    def secret(self, name: str) -> bytes:
        """Return 32 random bytes that stay the same when the run is resumed, and never leave."""
        known = self._value(name)
        if known is None:
            known = secrets.token_bytes(32)
            self._keep(name, known)
        return known

    @property
    def charged(self) -> bool:
        """Whether the run was charged to a ledger."""
        return self._value("charged") is not None

    def note_charge(self) -> None:
        """Remember that it was."""
        self._keep("charged", b"yes")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _value(self, key: str) -> bytes | None:
        row = self._file.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def _keep(self, key: str, value: bytes) -> None:
        self._file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))


def _forget_unstarted(place: Path) -> None:
    """Delete the checkpoint of a run that stopped before its first round: because of a port in use, or nobody came."""
    if not place.is_file():
        return
    file = sqlite3.connect(place)
    try:
        rounds = file.execute("SELECT COUNT(*) FROM rounds").fetchone()[0]
        charged = file.execute("SELECT COUNT(*) FROM about WHERE key = 'charged'").fetchone()[0]
    except sqlite3.DatabaseError:  # another's file, or a broken one: not ours to delete
        return
    finally:
        file.close()
    if not rounds and not charged:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{place}{suffix}").unlink(missing_ok=True)
