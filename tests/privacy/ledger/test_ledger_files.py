"""Paths that cannot hold a ledger, or hold something else, and new files."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.errors import LedgerError
from tacit.privacy import GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.store import APPLICATION_ID, GENESIS

DELTA = 1e-6
PLAN = Guarantee.from_releases([GaussianRelease(noise_multiplier=20.0)], delta=DELTA)


def make_sqlite(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("CREATE TABLE people (name)", "INSERT INTO people VALUES ('x')", *statements):
        connection.execute(statement)
    connection.close()


NOT_LEDGERS: dict[str, Callable[[Path], object]] = {
    "random": lambda path: path.write_bytes(random.Random(0).randbytes(10_000)),
    "empty": lambda path: path.touch(),
    "text": lambda path: path.write_text("dear diary\n"),
    "header": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "folder": lambda path: path.mkdir(),
    "database": make_sqlite,
    "database with a log": lambda path: make_sqlite(path, "PRAGMA journal_mode = WAL"),
    "a name that leads nowhere": lambda path: path.symlink_to(path.parent / "gone"),
    "newer": lambda path: make_sqlite(path, f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 2"),
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("kind", NOT_LEDGERS)
def test_what_is_not_a_ledger_is_refused_and_left_alone(tmp_path: Path, kind: str, create: bool) -> None:
    path = tmp_path / "some ? file #1 %41.db"
    NOT_LEDGERS[kind](path)
    before = path.read_bytes() if path.is_file() else None
    expected = "version 2.*newer" if kind == "newer" else "path of a ledger"
    with pytest.raises(LedgerError, match=expected):
        Ledger(path, create=create)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    assert before == (path.read_bytes() if path.is_file() else None)


def test_a_missing_file_is_made_only_where_that_is_wanted_and_possible(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"which does not. .* first account is opened"):
        Ledger(tmp_path / "ledger.db", create=False)
    with pytest.raises(LedgerError, match="an existing folder"):
        Ledger(tmp_path / "folder" / "ledger.db")
    assert not list(tmp_path.iterdir())
    made = Ledger(tmp_path / "some ? file #1 %41.db")
    assert (made.verify(), made.head, made.datasets()) == (0, GENESIS, [])
    assert [item.name for item in tmp_path.iterdir()] == ["some ? file #1 %41.db"]
    made.path.unlink()
    with pytest.raises(LedgerError):
        made.verify()
    assert not list(tmp_path.iterdir())


def test_a_relative_path_is_meant_where_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    ledger.open_account("films", 1.0, DELTA)
    assert Ledger(tmp_path / "ledger.db").datasets() == ["films"]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        Path(folder).chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("mode", "message"), [(0o000, "path of a ledger"), (0o444, "in a folder that can be written")])
def test_a_ledger_without_permission_is_an_error(public_folder: Path, mode: int, message: str) -> None:
    ledger = Ledger(public_folder / "ledger.db")
    ledger.open_account("films", 1.0, DELTA)
    ledger.path.chmod(mode)
    public_folder.chmod(0o555)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            Ledger(ledger.path).charge("films", PLAN, "without permission")
        except LedgerError as error:
            status = 0 if message in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [item.name for item in public_folder.iterdir()] == ["ledger.db"]
