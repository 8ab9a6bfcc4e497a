"""A ledger that is interrupted, killed, refused by the disk or locked at every single line of its code.

The property is always the same: when `charge` has returned, its caller may release, so the ledger must hold the charge;
when `settle` was called, its caller has released what it states, so the ledger must hold at least that.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from forks import forked, outcome

from tacit.errors import BudgetError, LedgerError
from tacit.privacy import Accountant, GaussianRelease, Guarantee
from tacit.privacy import ledger as ledger_module
from tacit.privacy.ledger import Ledger, book, store

DELTA = 1e-6
FOUR = Guarantee.from_releases([GaussianRelease(noise_multiplier=20.0, count=4)], delta=DELTA)
ONE = Guarantee.from_releases([GaussianRelease(noise_multiplier=20.0)], delta=DELTA)
TINY = Guarantee.from_releases([GaussianRelease(noise_multiplier=1e6)], delta=DELTA)
TOO_MUCH = Guarantee.from_releases([GaussianRelease(noise_multiplier=0.5)], delta=DELTA)
NOTHING = Guarantee.from_releases([], delta=DELTA)
CODE = {module.__file__ for module in (ledger_module, book, store)}
MOST_LINES = 2000
"""No operation has as many lines; a test that gets here is not ending."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@contextmanager
def fault_at_line(number: int, fault: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call `fault` before the `number`-th line that the ledger's code executes; yield whether that line was reached."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in CODE:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                fault()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lambda: lines >= number
    finally:
        sys.settrace(before)


def interrupt() -> None:
    raise KeyboardInterrupt


def run_out_of_memory() -> None:
    raise MemoryError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db", timeout=2.0)
    made.open_account("films", 2.0, DELTA)
    return made


def spent(ledger: Ledger) -> float:
    return Ledger(ledger.path, create=False, timeout=0.5).remaining("films").spent


def cost(*guarantees: Guarantee) -> float:
    return Accountant("add-remove", tuple(r for guarantee in guarantees for r in guarantee.releases)).epsilon(DELTA)


def every_line(ledger: Ledger, act: Callable[[Ledger, int], bool]) -> int:
    """Let `act` fail at its first line, its second, and so on, each on a fresh copy; return how many lines it has."""
    for number in range(1, MOST_LINES):
        copy = ledger.path.with_name(f"{number}.db")
        shutil.copy(ledger.path, copy)
        fresh = Ledger(copy, create=False, timeout=2.0)
        reached = act(fresh, number)
        fresh.verify()
        fresh.charge("films", TINY, "the file is not locked, and still takes charges")
        copy.unlink()
        if not reached:
            return number - 1
    raise AssertionError("the operation does not end")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [interrupt, run_out_of_memory])
def test_a_charge_interrupted_at_any_line_is_whole_or_absent(ledger: Ledger, fault: Callable[[], None]) -> None:
    completed = []

    def act(fresh: Ledger, number: int) -> bool:
        returned = False
        with fault_at_line(number, fault) as reached, suppress(KeyboardInterrupt, MemoryError):
            fresh.charge("films", ONE, "a run")
            returned = True  # the caller has its charge, and releases
        history = fresh.history("films")
        assert [charge.releases for charge in history] in ([], [ONE.releases])
        assert spent(fresh) >= (cost(ONE) if returned else 0.0)
        completed.append(returned)
        return reached()

    lines = every_line(ledger, act)
    assert lines > 50
    assert completed == [False] * lines + [True]


@pytest.mark.slow
def test_a_refused_charge_interrupted_at_any_line_writes_nothing(ledger: Ledger) -> None:
    def act(fresh: Ledger, number: int) -> bool:
        with fault_at_line(number, interrupt) as reached, pytest.raises((KeyboardInterrupt, BudgetError)):
            fresh.charge("films", TOO_MUCH, "too much")
        assert fresh.history("films") == []
        return reached()

    assert every_line(ledger, act) > 50


@pytest.mark.slow
@pytest.mark.parametrize("released", [ONE, NOTHING])
def test_a_settlement_interrupted_at_any_line_never_forgets_a_release(ledger: Ledger, released: Guarantee) -> None:
    charge = ledger.charge("films", FOUR, "a run")
    outcomes = set()

    def act(fresh: Ledger, number: int) -> bool:
        with fault_at_line(number, interrupt) as reached, suppress(KeyboardInterrupt):
            fresh.settle(charge, released)
        (found,) = fresh.history("films")
        assert found.settled in (None, released.releases)
        assert spent(fresh) >= cost(released)
        outcomes.add(found.settled)
        if found.settled is not None:  # whether the caller knows of it or not, a settlement is made once
            with pytest.raises(LedgerError, match="settled once"):
                fresh.settle(charge, NOTHING)
        return reached()

    assert every_line(ledger, act) > 30
    assert outcomes == {None, released.releases}


@pytest.mark.slow
@needs_fork
def test_a_charge_killed_at_any_line_is_whole_or_absent(ledger: Ledger) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def charge_and_release(fresh: Ledger, number: int) -> None:
        with fault_at_line(number, die):
            charge = fresh.charge("films", ONE, "until it is killed")
            fresh.path.with_suffix(".released").write_text(charge.hash)

    def act(fresh: Ledger, number: int) -> bool:
        killed = outcome(forked(lambda: charge_and_release(fresh, number))) == -signal.SIGKILL
        released = fresh.path.with_suffix(".released")
        assert killed or released.exists()
        if released.exists():
            assert released.read_text() in {charge.hash for charge in fresh.history("films")}
        return killed

    assert every_line(ledger, act) > 50


class FailingConnection(sqlite3.Connection):
    """A connection whose `left`-th statement from now on fails as on a full disk, after or before it is executed."""

    left = 0
    executed_first = False

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        FailingConnection.left -= 1
        if FailingConnection.left != 0:
            return super().execute(*arguments)
        if FailingConnection.executed_first:
            super().execute(*arguments)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


@pytest.mark.parametrize("executed_first", [False, True])
def test_a_disk_that_fails_at_any_statement_loses_no_charge(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, executed_first: bool
) -> None:
    monkeypatch.setattr(FailingConnection, "executed_first", executed_first)

    def act(fresh: Ledger, number: int) -> bool:
        released = NOTHING
        with monkeypatch.context() as patched, suppress(LedgerError):
            patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailingConnection))
            FailingConnection.left = number
            charge = fresh.charge("films", FOUR, "a run")
            released = ONE
            fresh.settle(charge, ONE)
        assert spent(fresh) >= cost(released)
        return FailingConnection.left <= 0

    assert every_line(ledger, act) > 10


@pytest.mark.slow
def test_a_locked_ledger_refuses_and_a_retry_is_charged(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, timeout=0.2)
    with ledger._store.transaction(write=True):
        for _ in range(2):
            with pytest.raises(LedgerError, match="locked"):
                impatient.charge("films", ONE, "while it is locked")
    assert ledger.history("films") == []
    charge = impatient.charge("films", FOUR, "a retry")
    with ledger._store.transaction(write=True), pytest.raises(LedgerError, match="locked"):
        impatient.settle(charge, NOTHING)
    assert spent(ledger) == cost(FOUR)  # a settlement that failed leaves the charge in full


def test_threads_that_charge_and_settle_at_once_are_all_counted(ledger: Ledger) -> None:
    patient = Ledger(ledger.path, timeout=60.0)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                patient.settle(patient.charge("films", FOUR, "a thread"), ONE)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert spent(ledger) == cost(*[ONE] * 16)
    ledger.verify()


@needs_fork
def test_a_fork_cannot_settle_what_its_parent_charged_twice(ledger: Ledger) -> None:
    charge = ledger.charge("films", FOUR, "before the fork")
    assert outcome(forked(lambda: ledger.settle(charge, ONE))) == 0
    with pytest.raises(LedgerError, match="settled once"):
        ledger.settle(charge, NOTHING)
    assert spent(ledger) == cost(ONE)
