"""Parties as threads of one process, over real sockets and TLS on loopback: quick to start, and each can be tampered with."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from light import DATA, Mixer, Scene, parts

from tacit.parties.join import Part, join
from tacit.parties.models import PartyData

__all__ = ["DATA", "Box", "Mixer", "Threads"]


class Box:
    """What became of one party: a `part`, or an `error`."""

    part: Part
    error: BaseException | None = None

    def __init__(self, work: Any) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.part = self._work()
        except BaseException as error:
            self.error = error

    def wait(self, seconds: float = 300.0) -> Box:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the party still runs"
        return self

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.part.estimator.result_


class Threads(Scene):
    """A job whose parties are threads; what is given as a dict is given by party."""

    def start(self, place: int, model: Any = None, **given: Any) -> Box:
        folder = given.pop("folder", self.folder / f"party-{place}")
        data = PartyData(given.pop("data", parts(self.parties)[place]))
        job, given = given.pop("job", self.job), {"connect_seconds": 15.0, **given}
        return Box(lambda: join(job, self.identities[place], data, Path(folder), estimator=model or Mixer(), **given))

    def all(self, models: dict[int, Any] | None = None, **given: Any) -> list[Box]:
        boxes = [
            self.start(
                place,
                (models or {}).get(place),
                **{
                    name: value[place] if isinstance(value, dict) else value
                    for name, value in given.items()
                    if not isinstance(value, dict) or place in value
                },
            )
            for place in range(self.parties)
        ]
        return [box.wait() for box in boxes]


def expected(parties: int = 3) -> np.ndarray:
    """The result of an undisturbed run of the exact `Mixer`, computed with integers."""
    v = np.ones(DATA.shape[1])
    for _ in range(Mixer.rounds):
        total = np.zeros(DATA.shape[1], dtype=np.int64)
        for X in parts(parties):
            term = np.tanh(X @ v) @ X
            total += np.rint(np.ldexp(term / max(np.linalg.norm(term), 1.0), 40)).astype(np.int64)
        v = np.ldexp(total.astype(float), -40)
    return v
