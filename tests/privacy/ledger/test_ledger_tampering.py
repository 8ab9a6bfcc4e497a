"""Ledgers that were edited, replaced or damaged."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.errors import InvalidInputError, LedgerError, TamperedLedgerError
from tacit.privacy import GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.store import GENESIS, LedgerEntry

DELTA = 1e-6
ENTRIES = 7
COLUMNS = ("seq", "time", "dataset", "kind", "body", "hash")
Edit = Callable[[sqlite3.Connection], object]


def plan(noise: float = 20.0, count: int = 1) -> Guarantee:
    return Guarantee.from_releases([GaussianRelease(noise_multiplier=noise, count=count)], delta=DELTA)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db")
    made.open_account("films", 3.0, DELTA)
    made.open_account("books", 1.0, DELTA)
    for dataset in ("films", "books", "films"):
        charge = made.charge(dataset, plan(count=2), f"a model of {dataset}")
    made.settle(charge, plan())
    made.charge("films", plan(15.0), "the last")
    assert made.verify() == ENTRIES
    return made


def edit(ledger: Ledger, *changes: str | Edit) -> None:
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("DROP TRIGGER entries_are_not_changed")
    connection.execute("DROP TRIGGER entries_are_not_removed")
    for change in changes:
        if isinstance(change, str):
            connection.execute(change)
        else:
            change(connection)
    connection.close()


def assert_found(ledger: Ledger, message: str) -> None:
    """The edit is found by `verify`, and by everything that would otherwise believe the file."""
    before = ledger.path.read_bytes()
    for operation in (
        ledger.verify,
        ledger.datasets,
        lambda: ledger.head,
        lambda: ledger.remaining("films"),
        lambda: ledger.charge("films", plan(), "unsuspecting"),
        lambda: ledger.open_account("new", 1.0, DELTA),
    ):
        with pytest.raises(TamperedLedgerError, match=message):
            operation()
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
@pytest.mark.parametrize("column", COLUMNS[1:])
def test_any_changed_field_is_found(ledger: Ledger, seq: int, column: str) -> None:
    edit(ledger, f"UPDATE entries SET {column} = substr({column}, 1, length({column}) - 1) || '_' WHERE seq = {seq}")
    assert_found(ledger, f"entry {seq}, whose hash")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE entries SET seq = 100 WHERE seq = 4", "entry 4, which is missing"),
        ("UPDATE entries SET seq = 100 WHERE seq = 7", "entry 7, which is missing"),
        (
            "UPDATE entries SET body = replace(body, '\"epsilon\":3.0', '\"epsilon\":9.0') WHERE seq = 1",
            "entry 1, whose",
        ),
        (
            "UPDATE entries SET body = replace(body, '\"delta\":1e-06', '\"delta\":1e-05') WHERE seq = 1",
            "entry 1, whose",
        ),
        ("UPDATE entries SET body = replace(body, ':', ': ') WHERE seq = 3", "entry 3, whose"),
        ("UPDATE entries SET body = CAST(body AS BLOB) WHERE seq = 3", "entry 3, whose"),
        ("UPDATE entries SET time = 7 WHERE seq = 3", "entry 3, whose"),
        ("UPDATE entries SET dataset = 'films' WHERE seq = 4", "entry 4, whose"),
        ("UPDATE entries SET body = CAST(X'FF' AS TEXT) WHERE seq = 3", "Could not decode"),
        ("DELETE FROM entries WHERE seq = 1", "entry 1, which is missing"),
        ("DELETE FROM entries WHERE seq = 4", "entry 4, which is missing"),
        ("DELETE FROM entries WHERE seq = 7", "entry 7, which is missing: 7 were recorded, 6"),
        ("DELETE FROM entries", "entry 1, which is missing"),
        ("INSERT INTO entries SELECT 0, time, dataset, kind, body, hash FROM entries WHERE seq = 1", "entry 0"),
        ("INSERT INTO entries SELECT 8, time, dataset, kind, body, hash FROM entries WHERE seq = 7", "entry 8, whose"),
        ("UPDATE meta SET entries = 6", "entry 7, which was inserted"),
        ("UPDATE meta SET entries = 8", "entry 8, which is missing"),
        ("UPDATE meta SET entries = 'many'", "record of the head is broken"),
        ("UPDATE meta SET head = (SELECT hash FROM entries WHERE seq = 6)", "entry 7, whose hash is not the recorded"),
        ("UPDATE meta SET head = CAST(head AS BLOB)", "entry 7, whose hash is not the recorded"),
        ("DELETE FROM meta", "record of the head is broken"),
        ("INSERT INTO meta SELECT * FROM meta", "record of the head is broken"),
        ("DROP TABLE meta", "no such table"),
        ("DROP TABLE entries", "no such table"),
        ("ALTER TABLE entries RENAME COLUMN body TO corpus", "no such column"),
    ],
)
def test_edits_are_found_and_named(ledger: Ledger, change: str, message: str) -> None:
    edit(ledger, change)
    assert_found(ledger, message)


def entries_of(connection: sqlite3.Connection) -> list[LedgerEntry]:
    return [LedgerEntry(*row) for row in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY seq")]


def swap(first: int, second: int) -> Edit:
    def change(connection: sqlite3.Connection) -> None:
        for old, new in ((first, -1), (second, first), (-1, second)):
            connection.execute("UPDATE entries SET seq = ? WHERE seq = ?", (new, old))

    return change


def remove_and_close_the_gap(seq: int) -> Edit:
    def change(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM entries WHERE seq = ?", (seq,))
        connection.execute("UPDATE entries SET seq = seq - 1 WHERE seq > ?", (seq,))
        connection.execute("UPDATE meta SET entries = entries - 1")

    return change


def forge_last(hash_of: Callable[[LedgerEntry, str], str], *, count: bool) -> Edit:
    """Append a made-up entry with the hash that an attacker thinks it needs; perhaps count it."""

    def change(connection: sqlite3.Connection) -> None:
        last = entries_of(connection)[-1]
        forged = LedgerEntry(last.seq + 1, last.time, last.dataset, last.kind, last.body, "")
        values = (*list(vars(forged).values())[:-1], hash_of(forged, last.hash))
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", values)
        if count:
            connection.execute("UPDATE meta SET entries = entries + 1")

    return change


def hash_of_body(entry: LedgerEntry, _: str) -> str:
    return hashlib.sha256(entry.body.encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swap(3, 5), "entry 3, whose"),
        (swap(6, 7), "entry 6, whose"),
        (swap(1, 2), "entry 1, whose"),
        (remove_and_close_the_gap(1), "entry 1, whose"),
        (remove_and_close_the_gap(4), "entry 4, whose"),
        (remove_and_close_the_gap(7), "entry 6, whose hash is not the recorded head"),
        (forge_last(hash_of_body, count=False), "entry 8, whose"),
        (forge_last(hash_of_body, count=True), "entry 8, whose"),
        (forge_last(LedgerEntry.expected_hash, count=False), "entry 8, which was inserted"),
        (forge_last(LedgerEntry.expected_hash, count=True), "entry 8, whose hash is not the recorded head"),
    ],
)
def test_moved_removed_and_forged_entries_are_found(ledger: Ledger, change: Edit, message: str) -> None:
    edit(ledger, change)
    assert_found(ledger, message)


@pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
def test_an_entry_changed_together_with_its_hash_is_found_by_the_next(ledger: Ledger, seq: int) -> None:
    def change(connection: sqlite3.Connection) -> None:
        entries = entries_of(connection)
        before = entries[seq - 2].hash if seq > 1 else GENESIS
        forged = replace(entries[seq - 1], time="2020-02-02T20:20:20.000000+00:00")
        values = (forged.time, forged.expected_hash(before), seq)
        connection.execute("UPDATE entries SET time = ?, hash = ? WHERE seq = ?", values)

    edit(ledger, change)
    assert_found(ledger, f"entry {min(seq + 1, ENTRIES)}, whose hash (is not|does not match)")


def test_rows_are_not_changed_by_accident(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    for change in ("UPDATE entries SET time = 'now'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="entries of a ledger are not"):
            connection.execute(change)
    connection.close()
    assert ledger.verify() == ENTRIES


def append(ledger: Ledger, dataset: str, kind: str, body: dict[str, object]) -> None:
    with ledger._store.transaction(write=True) as transaction:
        transaction.append("2024-01-01T00:00:00+00:00", dataset, kind, body)


def big(**changes: object) -> list[dict[str, object]]:
    return [{**GaussianRelease(noise_multiplier=0.5).to_dict(), **changes}]


TINY = [GaussianRelease(noise_multiplier=1e9).to_dict()]


@pytest.mark.parametrize(
    ("dataset", "kind", "body", "message"),
    [
        (
            "films",
            "charge",
            {"purpose": "x", "releases": big(), "epsilon_after": 0.5},
            "entry 8, .*stated total",
        ),
        ("films", "charge", {"purpose": "x", "releases": big(), "epsilon_after": 3.5}, "entry 8, .*exceeds the budget"),
        (
            "films",
            "charge",
            {"purpose": "x", "releases": big(count=0), "epsilon_after": 0.5},
            "entry 8, .*cannot follow",
        ),
        ("films", "charge", {"purpose": "x"}, "entry 8, .*no field releases, epsilon_after"),
        ("films", "charge", {"purpose": "x", "releases": TINY, "epsilon_after": 1.0}, "entry 8, .*stated total"),
        ("films", "charge", {"purpose": "x", "releases": TINY, "epsilon_after": 0.1}, "entry 8, .*stated total"),
        ("films", "charge", {"purpose": 3, "releases": TINY, "epsilon_after": 0.5}, "entry 8, .*wrong type in purpose"),
        (
            "films",
            "charge",
            {"purpose": "x", "releases": TINY, "epsilon_after": 0.5, "y": 1},
            "entry 8, .*unknown field",
        ),
        (
            "films",
            "charge",
            {"purpose": "x", "releases": [{"kind": "gaussian", "noise_multiplier": 1e9}], "epsilon_after": 0.5},
            "entry 8, .*no field name",
        ),
        ("films", "settlement", {"charge": 3.0, "releases": []}, "entry 8, .*wrong type in charge"),
        ("films", "settlement", {"releases": []}, "entry 8, .*no field charge"),
        ("new", "account", {"epsilon": 9.0, "delta": DELTA, "unit": "row"}, "entry 8, .*no field adjacency"),
        ("films", "settlement", {"charge": 3, "releases": big()}, "entry 8, .*more than was charged"),
        ("films", "settlement", {"charge": 5, "releases": []}, "entry 8, .*not the first settlement"),
        ("films", "settlement", {"charge": 4, "releases": []}, "entry 8, .*cannot follow"),
        ("films", "account", {"epsilon": 9.0, "delta": DELTA, "unit": "row", "adjacency": "add-remove"}, "entry 8"),
        ("films", "later release", {"charge": 4, "number": 1}, "entry 8, .*no charge that counts in full"),
        ("films", "later release", {"charge": 3, "number": 2}, "entry 8, .*not the next release"),
        ("films", "later release", {"charge": 3, "number": True}, "entry 8, .*wrong type in number"),
        ("films", "gift", {"charge": 3, "releases": []}, "entry 8, .*cannot follow"),
        ("new", "charge", {"purpose": "x", "releases": [], "epsilon_after": 0.5}, "entry 8, .*no account was opened"),
    ],
)
def test_an_entry_with_the_right_hash_must_also_make_sense(
    ledger: Ledger, dataset: str, kind: str, body: dict[str, object], message: str
) -> None:
    append(ledger, dataset, kind, body)
    with pytest.raises(TamperedLedgerError, match=message):
        ledger.verify()


def test_a_replaced_file_is_found_with_a_noted_head_only(ledger: Ledger, tmp_path: Path) -> None:
    early = ledger.head
    shutil.copy(ledger.path, tmp_path / "old copy")
    ledger.charge("films", plan(), "noted")
    noted = ledger.head
    assert ledger.verify(early) == ledger.verify(noted) == ledger.verify(GENESIS) == ENTRIES + 1
    shutil.copy(tmp_path / "old copy", ledger.path)
    assert ledger.verify() == ledger.verify(early) == ENTRIES
    with pytest.raises(TamperedLedgerError, match="older copy"):
        ledger.verify(noted)
    ledger.path.unlink()
    Ledger(ledger.path).open_account("films", 3.0, DELTA)
    assert ledger.verify() == 1
    for head in (early, noted):
        with pytest.raises(TamperedLedgerError, match="replaced"):
            ledger.verify(head)
    with pytest.raises(InvalidInputError, match="64 hexadecimal"):
        ledger.verify("noted")


@pytest.mark.slow
def test_damage_anywhere_is_an_error_of_the_ledger_or_harmless(ledger: Ledger) -> None:
    whole, head, randomness = ledger.path.read_bytes(), ledger.head, random.Random(0)
    found = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[randomness.randrange(len(whole))] ^= randomness.randrange(1, 256)
        ledger.path.write_bytes(damaged)
        try:
            assert Ledger(ledger.path).verify() == ENTRIES
            assert ledger.head == head
        except LedgerError:
            found += 1
    assert found > 20
    for length in (4096, len(whole) // 2, len(whole) - 1):
        ledger.path.write_bytes(whole[:length])
        with pytest.raises(LedgerError):
            Ledger(ledger.path).verify()
    ledger.path.write_bytes(whole)
    assert ledger.verify() == ENTRIES
