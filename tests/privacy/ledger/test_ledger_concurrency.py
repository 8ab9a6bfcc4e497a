"""A ledger under processes and threads that charge at once, overtake or lock out one another."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from forks import forked, outcome

import tacit.privacy.ledger as ledger_module
from tacit.errors import BudgetError, InvalidInputError, LedgerError
from tacit.privacy import Accountant, GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger

DELTA = 1e-6
PLAN = Guarantee.from_releases([GaussianRelease(noise_multiplier=30.0)], delta=DELTA)
PROCESSES, TRIES, AFFORDABLE = 8, 10, 40

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

CHARGING_PROGRAM = """
import json, os, sys, time
from tacit.errors import BudgetError
from tacit.privacy import GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger

path, go, me, tries = sys.argv[1:]
plan = Guarantee.from_releases([GaussianRelease(noise_multiplier=30.0)], delta=1e-6)
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.005)
ledger, accepted, refused = Ledger(path), {}, []
for turn in range(int(tries)):
    purpose = f"process {me}, try {turn}"
    try:
        accepted[purpose] = ledger.charge("films", plan, purpose).id
    except BudgetError:
        refused.append(purpose)
print(json.dumps([accepted, refused]))
"""


def affordable(count: int) -> float:
    return Accountant("add-remove", (GaussianRelease(noise_multiplier=30.0, count=count),)).epsilon(DELTA)


def check_accepted_and_refused(ledger: Ledger, accepted: dict[str, int], refused: list[str], budget: float) -> None:
    history = ledger.history("films")
    assert {charge.purpose: charge.id for charge in history} == accepted
    assert len(history) == len(accepted)
    assert not {charge.purpose for charge in history} & set(refused)
    assert ledger.remaining("films").spent <= budget * (1 + 1e-9)
    assert ledger.verify() == len(accepted) + 1


@pytest.mark.slow
def test_processes_that_charge_at_once_never_overspend(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", affordable(AFFORDABLE), DELTA)
    go = tmp_path / "go"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHARGING_PROGRAM, str(ledger.path), str(go), str(number), str(TRIES)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    go.touch()
    accepted: dict[str, int] = {}
    refused: list[str] = []
    for child in children:
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        done, not_done = json.loads(output)
        accepted |= done
        refused += not_done
    assert len(accepted) + len(refused) == PROCESSES * TRIES
    assert len(accepted) == AFFORDABLE  # all charges are equal, so what fits does not depend on who comes first
    check_accepted_and_refused(ledger, accepted, refused, affordable(AFFORDABLE))


def test_threads_share_an_instance(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", affordable(12), DELTA)
    accepted: dict[str, int] = {}
    refused: list[str] = []
    failures: list[BaseException] = []

    def charge_some(me: int) -> None:
        for turn in range(6):
            purpose = f"thread {me}, try {turn}"
            try:
                accepted[purpose] = ledger.charge("films", PLAN, purpose).id
            except BudgetError:
                refused.append(purpose)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=charge_some, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(accepted) == 12
    check_accepted_and_refused(ledger, accepted, refused, affordable(12))


@needs_fork
def test_an_instance_made_before_a_fork_works_on_both_sides(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", 1.0, DELTA)
    ledger.charge("films", PLAN, "before")
    children = [forked(lambda: ledger.charge("films", PLAN, "child") and None) for _ in range(3)]
    ledger.charge("films", PLAN, "parent")
    assert [outcome(child) for child in children] == [0, 0, 0]
    purposes = sorted(charge.purpose for charge in ledger.history("films"))
    assert purposes == ["before", "child", "child", "child", "parent"]
    assert ledger.verify() == 6


@pytest.mark.slow
@needs_fork
def test_processes_that_create_a_ledger_at_once_share_it(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"ledger {number}.db"
        start = time.monotonic() + 0.02

        def create_and_open(me: int, path: Path = path, start: float = start) -> None:
            time.sleep(max(0.0, start - time.monotonic()))
            Ledger(path).open_account(f"set {me}", 1.0, DELTA)

        children = [forked(lambda me=me: create_and_open(me)) for me in range(6)]  # type: ignore[misc]
        assert [outcome(child) for child in children] == [0] * 6
        assert Ledger(path, create=False).verify() == 6
    assert sorted(item.name for item in tmp_path.iterdir()) == [f"ledger {number}.db" for number in range(5)]


def gaussian(noise: float) -> Guarantee:
    return Guarantee.from_releases([GaussianRelease(noise_multiplier=noise)], delta=DELTA)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db")
    made.open_account("films", epsilon=2.0, delta=DELTA)
    return made


def test_a_locked_ledger_is_an_error_that_says_so(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, timeout=0.2)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(LedgerError, match=r"unlocked within 0\.2 s.*locked by another process"):
        impatient.charge("films", PLAN, "now")
    assert 0.15 < time.monotonic() - started < 5
    assert impatient.remaining("films").spent == 0.0  # reading goes on
    holder.execute("ROLLBACK")
    holder.close()
    impatient.charge("films", PLAN, "now")
    for timeout in (0, -1, float("nan"), None):
        with pytest.raises(InvalidInputError, match="timeout"):
            Ledger(ledger.path, timeout=timeout)  # type: ignore[arg-type]


def test_what_is_committed_is_flushed(ledger: Ledger) -> None:
    with ledger._store.transaction(write=True) as transaction:
        connection = transaction._connection
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def is_locked(ledger: Ledger) -> bool:
    connection = sqlite3.connect(ledger.path, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


def interfere(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, dataset: str, times: int, noise: float) -> list[bool]:
    """Let another process charge `dataset` just after a charge was composed, a given number of times.

    Returns a list that gets, for each composition, whether the file was locked meanwhile.
    """
    original = ledger_module.planned_charge
    locked: list[bool] = []

    def planned(*arguments: object) -> object:
        body = original(*arguments)  # type: ignore[arg-type]
        locked.append(is_locked(ledger))
        if len(locked) <= times:
            with monkeypatch.context() as plain:
                plain.setattr(ledger_module, "planned_charge", original)
                Ledger(ledger.path).charge(dataset, gaussian(noise), "somebody else's")
        return body

    monkeypatch.setattr(ledger_module, "planned_charge", planned)
    return locked


@pytest.mark.parametrize("times", [1, 3, ledger_module._ATTEMPTS])
def test_a_charge_that_others_overtake_is_composed_anew(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    locked = interfere(monkeypatch, ledger, "films", times, noise=30.0)
    charge = ledger.charge("films", gaussian(20.0), "overtaken")
    # no charge waits for another's composition, until one was overtaken too often
    assert locked == [False] * times + [times == ledger_module._ATTEMPTS]
    others = GaussianRelease(noise_multiplier=30.0, count=times)
    expected = Accountant("add-remove", (others, GaussianRelease(noise_multiplier=20.0)))
    assert charge.epsilon_after == expected.epsilon(DELTA)
    assert len(ledger.history("films")) == times + 1


def test_being_overtaken_never_overspends(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    interfere(monkeypatch, ledger, "films", 1, noise=3.0)
    assert ledger.can_afford("films", gaussian(3.0))
    with pytest.raises(BudgetError):
        ledger.charge("films", gaussian(3.0), "too late")
    assert [charge.purpose for charge in ledger.history("films")] == ["somebody else's"]


def test_a_charge_of_another_data_set_is_no_reason_to_compose_anew(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open_account("books", 2.0, DELTA)
    locked = interfere(monkeypatch, ledger, "books", 1, noise=30.0)
    ledger.charge("films", PLAN, "alone")
    assert locked == [False]
    assert ledger.verify() == 4


@pytest.mark.skipif(sys.platform == "win32", reason="locks of Windows belong to a file handle, not to a process")
def test_looking_at_a_ledger_does_not_drop_the_locks_of_this_process(ledger: Ledger) -> None:
    # a process that closes any handle of a file loses its locks on it; then others take the log away under its feet
    visit = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM meta').fetchall(); c.close()"
    )
    log = ledger.path.with_name(ledger.path.name + "-wal")
    with ledger._store.transaction() as transaction:
        assert len(transaction.entries()) == 1
        Ledger(ledger.path)
        subprocess.run([sys.executable, "-c", visit, str(ledger.path)], check=True)
        assert log.exists()
    assert not log.exists()
