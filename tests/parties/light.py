"""What the tests of parties share: a model that needs nothing heavy, and parties as processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from tacit.channel import Clear, Columnwise, Noisy, Outcome, Plan, Sum, run
from tacit.errors import TacitError
from tacit.parties import handshake
from tacit.parties.identity import Identity
from tacit.parties.join import join
from tacit.parties.local import local_job
from tacit.parties.models import PartyData

PLAN = Plan.for_budget(5.0, 1e-6, steps=12)
DATA = np.random.default_rng(7).random((30, 4))


class Mixer:
    """Twelve sums, each of which depends on the one before; with `noise`, private ones. It writes every answer to a file.

    Without noise the parties divide the work on every other one. `extra_columns` are all `filler`.
    """

    rounds = 12

    def __init__(self, noise: bool = False, log: str = "", extra_columns: int = 0, filler: float = 0.0) -> None:
        self.noise, self.log, self.extra_columns, self.filler = noise, log, extra_columns, filler

    def fit(self, X: Any, y: Any = None) -> Mixer:
        outcome = run(self._program(X), Noisy(PLAN) if self.noise else Clear())
        self.result_ = outcome.public["v"]
        self.guarantee_ = outcome.channel.guarantee
        return self

    def _program(self, X: Any) -> Any:
        v = np.ones(X.shape[1] + self.extra_columns)
        for place in range(self.rounds):
            term = np.tanh(X @ v[: X.shape[1]]) @ X
            term = term / max(np.linalg.norm(term), 1.0)
            term = np.concatenate([term, np.full(self.extra_columns, self.filler)])
            if place % 2 and not self.noise:  # work that the parties divide
                total = yield Sum(v=term[None], one=[1.0], columnwise=Columnwise("v", 1, _same))
                v = total.v[0] if total.worked is None else total.worked[:, 0]
            else:
                total = yield Sum(v=term, bound=1.0, units=1)
                v = total.v
            if self.log:
                with open(self.log, "a", encoding="utf-8") as file:
                    file.write(f"{place} {v.tobytes().hex()}\n")
        return Outcome({"v": v})


def _same(columns: slice, total: np.ndarray, rest: Any) -> np.ndarray:
    assert rest["one"][0] > 1  # one for every party
    return total.T


def expired(name: str) -> Identity:
    """Return an identity whose certificate ran out a week ago."""
    with mock.patch("tacit.parties.identity.datetime") as clock:
        clock.now.return_value = datetime.now(UTC) - timedelta(days=10)
        return Identity.create(name, days=3)


def parts(parties: int) -> list[np.ndarray]:
    return np.array_split(DATA, parties)


@dataclass
class Scene:
    """A job and its parties' identities, in a folder."""

    folder: Path
    parties: int = 3
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.identities = [Identity.create(f"party-{place}") for place in range(self.parties)]
        self.job = local_job(
            self.identities, "test", {}, ["a", "b", "c", "d"], model="mixer", **{"timeout": 20.0, **self.settings}
        )

    def run(
        self, *, kill: tuple[int, int] | None = None, silent: int | None = None, wait: float = 60.0, **changes: Any
    ) -> list[Any]:
        """Run all parties; return of each its result or its error (None if it was killed).

        `kill` is (party, round): that party is killed by SIGKILL when it says that it reached the round. The party
        `silent` is not listened to, and killed in the end. Changes are given by name, for all parties or as a dict by party.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["light"])
        pipes, processes = [], []
        for place, identity in enumerate(self.identities):
            given = {
                name: value[place] if isinstance(value, dict) and place in value else value
                for name, value in changes.items()
                if not isinstance(value, dict) or place in value
            }
            job = given.pop("job", self.job)
            identity = given.pop("identity", identity)  # noqa: PLW2901
            model = given.pop("model", Mixer())
            folder = self.folder / identity.name
            ours, theirs = context.Pipe()
            arguments = (theirs, job, identity, parts(self.parties)[place], folder, model, wait, given)
            process = context.Process(target=_party, args=arguments, daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        try:
            heard = [place for place in _order(self.parties, kill) if place != silent]
            results = {place: _result(pipes, place, processes, kill) for place in heard}
            if silent is not None:
                processes[silent].kill()
            return [results.get(place) for place in _order(self.parties, kill)]
        finally:
            for process in processes:
                process.join(20)
                if process.is_alive():
                    process.kill()
                    process.join()


def _order(parties: int, kill: tuple[int, int] | None) -> list[int]:
    """The one to be killed is listened to first."""
    order = list(range(parties))
    if kill is not None:
        order.remove(kill[0])
        order.insert(0, kill[0])
    return order


def _result(pipes: list[Any], place: int, processes: list[Any], kill: tuple[int, int] | None) -> Any:
    while True:
        try:
            kind, content = pipes[place].recv()
        except EOFError:
            return None
        if kind == "end":
            return content
        if kill is not None and place == kill[0] and content >= kill[1]:
            os.kill(processes[place].pid, signal.SIGKILL)
            return None


def _party(
    pipe: Any, job: Any, identity: Any, X: Any, folder: Path, model: Any, wait: float, given: dict[str, Any]
) -> None:
    shift = given.pop("clock", 0.0)
    if shift:  # a computer whose clock is off
        right = time.time
        handshake.time = SimpleNamespace(time=lambda: right() + shift)
    try:
        part = join(
            job,
            identity,
            PartyData(X),
            folder,
            estimator=model,
            connect_seconds=wait,
            on_round=lambda number, traffic: pipe.send(("round", number)),
            **given,
        )
        pipe.send(("end", (part.estimator.result_, part.summary(), str(part.estimator.guarantee_))))
    except TacitError as error:
        pipe.send(("end", error))
