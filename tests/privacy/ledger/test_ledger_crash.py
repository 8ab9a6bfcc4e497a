"""A ledger whose processes are killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forks import forked, outcome

from tacit.privacy import GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger

DELTA = 1e-6
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def killed_at_random(act: Callable[[], None], randomness: random.Random, longest: float, *, first_act: bool) -> None:
    """Let a fork `act` again and again; kill it, without warning, up to `longest` seconds after it began.

    With `first_act` the time counts from the end of the first act, so that there is progress on a slow machine too.
    """
    ready, begin = os.pipe()

    def act_for_ever() -> None:
        if first_act:
            act()
        os.write(begin, b".")
        while True:
            act()

    child = forked(act_for_ever)
    os.close(begin)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    time.sleep(randomness.uniform(0.0, longest))
    os.kill(child, signal.SIGKILL)
    assert outcome(child) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_charge_whose_release_happened_survives_a_kill(tmp_path: Path, seed: int) -> None:
    path, released = tmp_path / "ledger.db", tmp_path / "released"
    Ledger(path).open_account("films", 1.0, DELTA)
    released.touch()
    two = Guarantee.from_releases([GaussianRelease(noise_multiplier=1e4, count=2)], delta=DELTA)
    one = Guarantee.from_releases([GaussianRelease(noise_multiplier=1e4)], delta=DELTA)

    def charge_and_release() -> None:
        ledger = Ledger(path)
        charge = ledger.charge("films", two, f"by {os.getpid()}")
        file = os.open(released, os.O_WRONLY | os.O_APPEND)
        os.write(file, f"{charge.id} {charge.hash}\n".encode())
        os.fsync(file)
        os.close(file)
        if charge.id % 2:
            ledger.settle(charge, one)

    randomness, seen = random.Random(seed), set()
    for kills in range(1, 11):
        killed_at_random(charge_and_release, randomness, longest=0.08, first_act=kills % 2 == 0)
        ledger = Ledger(path, create=False)
        ledger.verify()
        remembered = {(str(charge.id), charge.hash) for charge in ledger.history("films")}
        assert seen <= remembered  # nothing that was there is gone
        happened = [tuple(line.split()) for line in released.read_text().splitlines()]
        assert len(happened) == len(set(happened)) >= kills // 2
        assert set(happened) <= remembered
        # a kill can fall between a charge and its release, which costs budget but not privacy; once for each kill
        assert len(remembered) - len(happened) <= kills
        assert all(charge.settled in (None, one.releases) for charge in ledger.history("films"))
        seen = remembered


@pytest.mark.slow
def test_a_kill_while_a_ledger_is_created_leaves_a_whole_one_or_none(tmp_path: Path) -> None:
    randomness, made_by_one = random.Random(0), iter(range(10**6))

    def create() -> None:
        Ledger(tmp_path / f"{os.getpid()}-{next(made_by_one)}.db")

    for _ in range(10):
        killed_at_random(create, randomness, longest=0.03, first_act=True)
    made = [item for item in tmp_path.glob("*.db") if not item.name.startswith(".")]
    assert len(made) >= 10
    for path in made:
        ledger = Ledger(path, create=False)
        assert ledger.verify() == 0
        ledger.open_account("films", 1.0, DELTA)
