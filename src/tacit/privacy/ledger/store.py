"""The file under a ledger: one SQLite database of entries that form a hash chain.

Every transaction opens its own connection. So an instance can be used after a fork and shared by threads, and a process
that is killed leaves nothing but SQLite's own log, which the next process that opens the file recovers.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import InvalidInputError, LedgerError, TamperedLedgerError, kind_of, words

APPLICATION_ID = 0x74616369  # "taci" in ASCII: distinguishes a ledger from any other SQLite file
VERSION = 1
"""Of the file format; a file with another version is refused."""
GENESIS = "0" * 64
"""The head of a ledger without entries."""

# The triggers only prevent accidents: whoever can edit the file can drop them. The hash chain finds edits.
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, dataset TEXT NOT NULL,
    kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE TABLE meta (entries INTEGER NOT NULL, head TEXT NOT NULL);
INSERT INTO meta VALUES (0, '{GENESIS}');
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the entries of a ledger are not changed'); END;
CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'the entries of a ledger are not removed'); END;
COMMIT;
"""
_LOWEST_SEQ = -(2**63)  # SQLite's smallest integer, so that inserted rows with negative numbers are found too
_FAILURES = (sqlite3.Error, UnicodeDecodeError)  # the second where the file holds damaged text
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_UNUSABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)


@dataclass(frozen=True)
class LedgerEntry:
    """One row of the chain. `body` is canonical JSON; `hash` covers the other fields and the hash of the row before."""

    seq: int
    time: str
    dataset: str
    kind: str
    body: str
    hash: str

    def expected_hash(self, previous: str) -> str:
        """Return the hash that this entry must have after an entry with the hash `previous`."""
        fields = {name: value for name, value in vars(self).items() if name != "hash"}
        return hashlib.sha256(f"{previous}\n{canonical_json(fields)}".encode("ascii")).hexdigest()


def canonical_json(value: object) -> str:
    """Return the only JSON text of `value`: sorted keys, no spaces, ASCII, numbers of NumPy as plain numbers."""
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain_number
        )
    except (TypeError, ValueError):
        raise InvalidInputError(
            "releases of finite numbers and strings",
            kind_of(value),
            "Give plain numbers; a name must be a string.",
        ) from None


def _plain_number(value: object) -> int | float:
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} cannot be stored in a ledger")


def tampered(entry: int, what: str) -> TamperedLedgerError:
    """Return the error that names a bad entry."""
    return TamperedLedgerError(
        "a ledger whose entries are as they were written",
        words(f"entry {entry}, {what}"),
        "Do not rely on this file: restore a copy whose head you noted, and find out who could write to it.",
    )


class Transaction:
    """Reads and appends entries while one transaction is open on the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries(self, after: LedgerEntry | None = None) -> list[LedgerEntry]:
        """Return all entries, or those after `after`, if they agree with the hash chain and the recorded head."""
        first = _LOWEST_SEQ if after is None else after.seq + 1
        rows = self._connection.execute(
            "SELECT seq, time, dataset, kind, body, hash FROM entries WHERE seq >= ? ORDER BY seq", (first,)
        )
        position, head = (0, GENESIS) if after is None else (after.seq, after.hash)
        entries = []
        for row in rows:
            position += 1
            entry = LedgerEntry(*row)
            if type(entry.seq) is not int or entry.seq > position:
                raise tampered(position, "which is missing")
            if entry.seq < position:
                raise tampered(entry.seq, "which was inserted")
            if not all(type(field) is str for field in row[1:]) or entry.hash != entry.expected_hash(head):
                raise tampered(position, "whose hash does not match its content and the entries before it")
            head = entry.hash
            entries.append(entry)
        self._check_head(position, head)
        return entries

    def _check_head(self, entries: int, head: str) -> None:
        recorded = self._connection.execute("SELECT entries, head FROM meta").fetchall()
        if len(recorded) != 1 or type(recorded[0][0]) is not int:
            raise tampered(entries, "after which the record of the head is broken")
        count, recorded_head = recorded[0]
        if count > entries:
            raise tampered(entries + 1, f"which is missing: {count} were recorded, {entries} are in the file")
        if count < entries:
            raise tampered(count + 1, f"which was inserted: {count} were recorded, {entries} are in the file")
        if recorded_head != head:
            raise tampered(entries, "whose hash is not the recorded head")

    def append(self, time: str, dataset: str, kind: str, body: Mapping[str, object]) -> LedgerEntry:
        """Add an entry at the end of the chain and update the head, in the open transaction."""
        count, head = self._connection.execute("SELECT entries, head FROM meta").fetchone()
        unsealed = LedgerEntry(count + 1, time, dataset, kind, canonical_json(body), hash="")
        entry = LedgerEntry(**{**vars(unsealed), "hash": unsealed.expected_hash(head)})
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", tuple(vars(entry).values()))
        self._connection.execute("UPDATE meta SET entries = ?, head = ?", (entry.seq, entry.hash))
        return entry


class LedgerStore:
    """A file that exists and is a ledger; see `tacit.privacy.ledger.Ledger` for the parameters."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool, timeout: float) -> None:
        self.path = Path(path).absolute()  # a later change of directory must not change the ledger
        self._timeout = timeout
        if create and not os.path.lexists(self.path):
            self._create()
        self._recognise()

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Transaction]:
        """Open a consistent view of the file; with `write`, hold the only write lock and commit at the end.

        An exception inside, of any kind, closes the connection without a commit: nothing was written.
        """
        with self._errors_explained(), closing(self._connect("mode=rw")) as connection:
            connection.execute("PRAGMA synchronous = FULL")  # a commit returns when the data are on disk
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield Transaction(connection)
            connection.execute("COMMIT")

    def _connect(self, options: str) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.as_uri()}?{options}", uri=True, timeout=self._timeout, isolation_level=None)

    def _create(self) -> None:
        # Created under another name and linked into place: nobody ever sees an incomplete ledger, and if several
        # processes create the same one at once, one wins and the others use its file.
        try:
            handle, unfinished = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=".new", dir=self.path.parent)
            os.close(handle)
            try:
                with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
                    connection.executescript(_SCHEMA)
                with suppress(FileExistsError):
                    os.link(unfinished, self.path)
                _flush_folder(self.path.parent)
            finally:
                os.unlink(unfinished)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                "a path where a new ledger can be written",
                words(f"{self.path} ({error})"),
                "Name a file in an existing folder on a local disk, with permission to write.",
            ) from error

    def _recognise(self) -> None:
        # "immutable" reads without locks and without a log, so that a file of another kind is not changed and no other
        # file appears beside it. Reading it with open() would be wrong: closing it drops this process's locks.
        try:
            with closing(self._connect("mode=ro&immutable=1")) as connection:
                # without this, a file that another process is extending at this moment looks damaged
                connection.execute("PRAGMA writable_schema = ON")
                application = connection.execute("PRAGMA application_id").fetchone()[0]
                version = connection.execute("PRAGMA user_version").fetchone()[0]
        except _FAILURES as error:
            raise self._not_a_ledger(str(error)) from error
        if application != APPLICATION_ID:
            raise self._not_a_ledger("a file of another kind")
        if version != VERSION:
            raise LedgerError(
                f"a ledger of version {VERSION}",
                words(f"{self.path}, of version {version}"),
                "Use the version of tacit that wrote it, or a newer one.",
            )

    def _not_a_ledger(self, why: str) -> LedgerError:
        if not os.path.lexists(self.path):
            return LedgerError(
                "a ledger that exists",
                words(f"{self.path}, which does not"),
                "Check the path. A ledger is made when its first account is opened, with "
                "open_account(dataset, epsilon, delta).",
            )
        return LedgerError(
            "the path of a ledger",
            words(f"{self.path} ({why})"),
            "Name a ledger, or a file that does not exist to create a new one. This path was not changed.",
        )

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            # a UnicodeDecodeError has no SQLite code; it means that the file is damaged. The low byte is the primary code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _LOCKED:
                raise LedgerError(
                    f"the ledger to be unlocked within {self._timeout:g} s",
                    words(f"{self.path}, locked by another process"),
                    "Nothing was written. Try again later, or open the ledger with a longer timeout.",
                ) from error
            if code in _UNUSABLE:
                raise LedgerError(
                    "a ledger that can be written, in a folder that can be written",
                    words(f"{self.path} ({error})"),
                    "Give this user permission to write both; reading needs it too, for SQLite's log beside the file.",
                ) from error
            if code in _DAMAGED:
                raise TamperedLedgerError(
                    "a ledger with intact tables",
                    words(f"{self.path} ({error})"),
                    "The file is damaged or was edited: restore a copy whose head you noted.",
                ) from error
            raise LedgerError(
                "a ledger that can be read and written",
                words(f"{self.path} ({error})"),
                "Check the disk. Treat the operation as failed and release nothing on it.",
            ) from error


def _flush_folder(folder: Path) -> None:
    """Write a new name in `folder` to disk, where the platform can do that."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
