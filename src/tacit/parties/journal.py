"""The checkpoint of a party: a SQLite file from which a run continues after a failure.

The order of writing is what makes a failure harmless:

1. A round is noted as *begun*, on the disk, before anything of it is sent; with noise, the numbers themselves are kept.
2. When the masked numbers of all peers have arrived at an owner of the sum, it notes the round as *heard*: all peers have
   begun it. Before that, nobody can have learned anything from the round. Parties that total nothing hear it with step 3.
3. The total is kept. What was sent for it is then deleted.

So a round that was sent is never forgotten, and a party whose checkpoint was replaced by an older copy is found: its peers
have heard more rounds of it than it has begun.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import InvalidInputError, words

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (
    number INTEGER PRIMARY KEY, label BLOB NOT NULL, bytes INTEGER NOT NULL, heard INTEGER NOT NULL, sent BLOB, total BLOB
);
CREATE TABLE IF NOT EXISTS opening (party INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""
PAGE_BYTES = 16384
"""Pages of SQLite. A note rewrites a whole page, and a total has one entry for each of its pages; of 4 to 64 KB this takes the
least processor time for notes of some bytes and totals of 0.2 MB."""
WRITTEN_BACK_PAGES = 4096
"""Pages after which the write-ahead log is written back: 64 MB. Writing back takes as long as several rounds."""


@dataclass(frozen=True)
class Begun:
    """A round that was begun.

    Attributes
    ----------
    label : bytes
        Digest of what was asked for.
    size : int
        Most bytes of its total.
    sent : bytes or None
        With noise, the numbers that are sent, until the total is known.
    total : bytes or None
    """

    label: bytes
    size: int
    sent: bytes | None
    total: bytes | None


class RoundJournal:
    """The rounds of one run: which were begun, what was sent, and the totals.

    Parameters
    ----------
    path : path
    about : mapping of str to str
        What the run is (job, party, data). A journal of something else is refused, if a round of it was begun.
    resume : bool
        Whether a run that has begun is continued. Without it, a journal with a begun round is refused.
    """

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, str], *, resume: bool) -> None:
        place = Path(path)
        if resume and not place.exists():
            raise InvalidInputError(f"a checkpoint at {place}", words("none"), "Start without --resume.")
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(descriptor, 0o600)  # also of one that was copied back from a backup
        os.close(descriptor)
        self._file = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
        try:
            self._open(place, about, resume=resume)
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise InvalidInputError(
                f"a checkpoint of this version at {place}",
                words("another file, or a damaged one"),
                "Use another output folder. Keep the file if a run of it has begun.",
            ) from error
        except BaseException:
            self._file.close()
            raise

    def _open(self, place: Path, about: Mapping[str, str], *, resume: bool) -> None:
        self._file.execute(f"PRAGMA page_size={PAGE_BYTES}")
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute(f"PRAGMA wal_autocheckpoint={WRITTEN_BACK_PAGES}")
        self._waits: bool | None = None
        self._on_disk(True)
        self._file.executescript(_SCHEMA)
        if self.begun and not resume:
            raise InvalidInputError(
                f"no checkpoint of a run that has begun at {place}",
                words("one of an earlier run"),
                "Use --resume to go on. To start again, use another output folder: the other parties keep what they learned "
                "from this run, and on changed data the difference of two totals gives a record away.",
            )
        others = [key for key, value in about.items() if self._value(key) != value.encode()]
        if self.begun and others:
            raise InvalidInputError(
                f"the {others[0]} of the run that is resumed",
                words(f"another {others[0]}"),
                "Resume with the same job, party and data. To run on changed data, start a new run in another output folder.",
            )
        if others:  # of a run that sent nothing: its charge and its secrets are not those of this one
            self._file.execute("DELETE FROM about")
        for key, value in about.items():
            self._keep(key, value.encode())

    @property
    def begun(self) -> int:
        """How many rounds were begun."""
        return int(self._file.execute("SELECT COUNT(*) FROM rounds").fetchone()[0])

    @property
    def heard(self) -> int:
        """How many rounds all peers have begun, as far as this party has heard."""
        return int(self._file.execute("SELECT COUNT(*) FROM rounds WHERE heard").fetchone()[0])

    @property
    def complete(self) -> int:
        """How many rounds have their total."""
        return int(self._file.execute("SELECT COUNT(*) FROM rounds WHERE total IS NOT NULL").fetchone()[0])

    def round(self, number: int) -> Begun | None:
        """Return what is known of a round; None if it was not begun."""
        query = "SELECT label, bytes, sent, total FROM rounds WHERE number = ?"
        row = self._file.execute(query, (number,)).fetchone()
        return None if row is None else Begun(*row)

    def totals(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the labels and totals of all complete rounds, in order."""
        yield from self._file.execute("SELECT label, total FROM rounds WHERE total IS NOT NULL ORDER BY number")

    def begin(self, number: int, label: bytes, size: int, sent: bytes | None) -> None:
        """Note, on the disk, that a round is about to be sent; with noise, keep the numbers."""
        self._on_disk(True)
        self._file.execute("INSERT INTO rounds VALUES (?, ?, ?, 0, ?, NULL)", (number, label, size, sent))

    def hear(self, number: int) -> None:
        """Note that all peers have begun a round."""
        self._on_disk(False)
        self._file.execute("UPDATE rounds SET heard = 1 WHERE number = ?", (number,))

    def keep_total(self, number: int, total: bytes | memoryview) -> None:
        """Keep the total of a round that was begun; what was sent for it is not needed any more.

        The disk may take its time: if the computer fails before, what was sent is still there, or the others have the total.
        """
        self._on_disk(False)
        with self._together():  # what opens a round must not outlive it
            self._file.execute("UPDATE rounds SET heard = 1, sent = NULL, total = ? WHERE number = ?", (total, number))
            self._file.execute("DELETE FROM opening")

    def keep_opening(self, contents: Mapping[int, bytes]) -> None:
        """Keep, on the disk, what opens the round under way: see `tacit.channel.surviving.OpeningMemory`."""
        self._on_disk(True)
        with self._together():
            self._file.executemany("INSERT OR REPLACE INTO opening VALUES (?, ?)", list(contents.items()))

    def opening(self) -> dict[int, bytes]:
        """Return what is known of the opening of the round that has no total."""
        return dict(self._file.execute("SELECT party, content FROM opening"))

    def discard_opening(self) -> None:
        """Forget a round that was broken off before it could be opened."""
        self._on_disk(True)
        self._file.execute("DELETE FROM opening")

    @property
    def left(self) -> dict[int, int]:
        """The parties that the run goes on without, and from which round on."""
        return {int(party): number for party, number in json.loads(self._value("left") or b"{}").items()}

    def leave_out(self, left: Mapping[int, int]) -> None:
        """Note that the run goes on without some parties."""
        self._on_disk(True)
        self._keep("left", json.dumps(left).encode())

    @property
    def run(self) -> bytes:
        """The identity of the run; empty if the parties have not agreed on one."""
        return self._value("run") or b""

    def name_run(self, run: bytes) -> None:
        """Keep the identity of a run of which no round was begun."""
        assert not self.begun
        self._on_disk(True)
        self._keep("run", run)

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

    @property
    def concluded(self) -> bool:
        """Whether all totals are here and all parties had the same result: this party needs the others no more."""
        return self._value("concluded") is not None

    def conclude(self) -> None:
        """Remember that the run has come to its end."""
        self._keep("concluded", b"yes")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        """Within the block, write all or nothing."""
        self._file.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def _on_disk(self, waits: bool) -> None:
        """Say whether what is written next must be on the disk when its statement returns."""
        if waits is not self._waits:
            self._file.execute(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
            self._waits = waits

    def _value(self, key: str) -> bytes | None:
        row = self._file.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def _keep(self, key: str, value: bytes) -> None:
        self._file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))


def begun_in(path: Path) -> int:
    """Return how many rounds were begun in a checkpoint that is not open; 0 if there is none, or another file."""
    if not path.is_file():
        return 0
    file = sqlite3.connect(path)
    try:
        return int(file.execute("SELECT COUNT(*) FROM rounds").fetchone()[0])
    except sqlite3.DatabaseError:  # `Journal` refuses it
        return 0
    finally:
        file.close()


def chained(history: bytes, label: bytes, total: bytes) -> bytes:
    """Return the digest of a history of totals with one more total; the first history is the identity of the run."""
    return hashlib.sha256(history + label + len(total).to_bytes(8, "big") + total).digest()
