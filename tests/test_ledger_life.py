"""Random sequences of fits and errors on one account: the ledger never has less than the cost of the releases.

Random sequences of fits (again with other settings, broken half-way, refused, in threads, in forked processes, by several
models) run on one account. Every release is counted at the moment it leaves the channel. After every action the epsilon of
all releases so far, composed, must be at most the epsilon that the ledger says is spent.
"""

import contextlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from tacit import PrivateMoments, PrivateNMF
from tacit.channel import Noisy
from tacit.data import make_images
from tacit.errors import BudgetError, TacitError
from tacit.privacy import Ledger, gaussian_epsilon

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DELTA = 1e-5
EPSILON = 6.0
IMAGES = make_images(40, side=3, n_parts=1).images


class BrokenFitError(RuntimeError):
    """What a broken fit raises."""


class World:
    """One account, the models on it, and the log of what left; the log is a file, so that forks write to it too."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = Ledger(folder / "budget.db")
        self.ledger.open_account("people", epsilon=EPSILON, delta=DELTA)
        self.log = folder / "log"
        self.log.touch()
        self.break_at: int | None = None
        attached = {"ledger": folder / "budget.db", "dataset": "people", "delta": 1e-7}
        self.models = [
            (PrivateMoments(**attached), (IMAGES,)),
            (PrivateNMF(2, **attached), (IMAGES,)),
            (PrivateNMF(2, method="rounds", rounds=3, **attached), (IMAGES,)),
        ]
        self._watch(monkeypatch)

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        released = Noisy._released

        def watched(channel: Noisy, ask, measured, shares):
            with self.log.open("a") as log:
                # one number per release: the squared ratio of what one unit can move to the noise that is added
                log.write(f"{sum((m.sensitivity / shares[name]) ** 2 for name, m in measured.items())!r}\n")
            left = released(channel, ask, measured, shares)
            if self.break_at is not None:
                self.break_at -= 1
                if self.break_at < 0:
                    raise BrokenFitError
            return left

        monkeypatch.setattr(Noisy, "_released", watched)

    def released_epsilon(self) -> float:
        """Return the epsilon of everything that left, composed without the help of the ledger."""
        precisions = [float(line) for line in self.log.read_text().split()]
        # sums over all units compose to one Gaussian release: their squared ratios add up
        return gaussian_epsilon(sum(precisions) ** -0.5, DELTA) if precisions else 0.0

    def check(self, what: str) -> None:
        released, spent = self.released_epsilon(), self.ledger.remaining("people").spent
        assert released <= spent * (1 + 1e-6), f"after {what}: {released:.4f} released, {spent:.4f} charged"
        assert spent <= EPSILON

    def fit(self, random: np.random.Generator) -> None:
        model, data = self.models[random.integers(len(self.models))]
        with contextlib.suppress(BudgetError, BrokenFitError):  # refused, or broken on purpose
            model.set_params(epsilon=float(random.uniform(0.1, 1.5))).fit(*data)

    def break_a_fit(self, random: np.random.Generator) -> None:
        self.break_at = int(random.integers(3))
        self.fit(random)
        self.break_at = None
        self.fit(random)  # and again

    def fit_in_threads(self, random: np.random.Generator) -> None:
        threads = []
        for seed in random.integers(2**31, size=2):
            model, data = self.models[random.integers(len(self.models))]
            twin = clone(model).set_params(epsilon=float(np.random.default_rng(seed).uniform(0.1, 1.0)))
            threads.append(threading.Thread(target=fit_or_refuse, args=(twin, data)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def fit_in_a_fork(self, random: np.random.Generator) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.fit(random)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.fit(random)

    def refuse(self, random: np.random.Generator) -> None:
        model, data = self.models[random.integers(len(self.models))]
        for settings in ({"epsilon": 50.0}, {"epsilon": np.inf}, {"insecure_seed": 1}):
            with pytest.raises(TacitError):
                clone(model).set_params(**settings).fit(*data)


def fit_or_refuse(model, data) -> None:
    with contextlib.suppress(BudgetError):
        model.fit(*data)


ACTIONS = (World.fit, World.break_a_fit, World.fit_in_threads, World.fit_in_a_fork, World.refuse)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_ledger_is_never_below_what_was_released(seed, tmp_path, monkeypatch):
    random, world = np.random.default_rng(seed), World(tmp_path, monkeypatch)
    done = []
    for action in random.choice(len(ACTIONS), size=10):
        done.append(ACTIONS[action].__name__)
        ACTIONS[action](world, random)
        world.check(", ".join(done))
    assert world.released_epsilon() > 0
    assert world.ledger.verify()


def test_the_check_sees_a_release_that_nobody_paid_for(tmp_path, monkeypatch):
    world = World(tmp_path, monkeypatch)
    model, data = world.models[0]
    clone(model).set_params(ledger=None, dataset=None).fit(*data)
    with pytest.raises(AssertionError, match="released"):
        world.check("a fit without the ledger")
