"""The shared privacy check: replay a private fit on a neighbouring data set and compare.

Differential privacy of an adaptive run says: *given the same answers so far*, the next statistic moves by at most its
bound, and nothing else moves at all. So the fit runs once with its real noise, and every answer is recorded; then it runs
on the neighbour and gets the recorded answers. What must agree:

* every channel's plan (epsilon, delta, steps, noise, unit, adjacency) and `max_units`;
* every ask in kind, names, shapes, bound, fractions and step, and the grid and noise that the channel gives it;
* the number of rounds, and everything released, bit by bit.

The integers that get noise may differ by at most the sensitivity that sized the noise. In a sampled step they may differ
only if the unit is in the sample: not by one grid step otherwise. So a fit with sampled steps is replayed twice, with the
unit in every other sample, the first time in the even ones and the second time in the odd ones.

The idea of replaying with frozen noise is dp-recorder's (2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, Sample, Sum, Total
from tacit.channel.noisy import Measured, Noisy
from tacit.channel.run import Channel, Transcript, interpose, same_values
from tacit.errors import PrivacyViolationError, words
from tacit.privacy.guarantee import Guarantee

Data = TypeVar("Data")
Held = TypeVar("Held")
ROUNDING_ALLOWANCE = 1e-9
"""Relative; the distance between two integer vectors is computed in floating point."""


@dataclass(frozen=True)
class NeighbourReport:
    """What moved: for every sum, the distance between the two statistics over the distance allowed (at most 1)."""

    moved: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest fraction of a bound that was used; if it is far below 1 everywhere, the bound is loose."""
        return max(self.moved, default=0.0)


@dataclass
class _Round:
    signature: tuple[object, ...]
    answer: Any = None
    measured: dict[str, Measured] | None = None
    scores: NDArray[np.int64] | None = None
    unit_sampled: bool = True


@dataclass
class _Log:
    """The rounds of one run, and where its replay has got to."""

    name: str
    unit: int
    first_sampled: bool
    rounds: list[_Round] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    place: int = 0

    @property
    def samples(self) -> int:
        return sum(one.signature[0] == "sample" for one in self.rounds)


def check_neighbours(
    fit: Callable[[Data], Mapping[str, object]],
    data: Data,
    neighbour: Data,
    *,
    unit: int = -1,
    for_the_holder: bool = False,
    name: str = "the fit",
) -> NeighbourReport:
    """Raise `PrivacyViolationError` unless `fit` treats `neighbour` as its guarantee says.

    Parameters
    ----------
    fit : callable
        Takes a data set, runs its programs over `tacit.channel.Noisy` channels (through `run`), and returns
        everything that is released, by name: arrays, numbers, texts, or the bytes of files. It must be deterministic apart
        from the channels' noise and samples.
    data, neighbour : object
        Neighbouring data sets: one without one of the other's units, or with one unit replaced.
    unit : int, default=-1
        The place of that unit among the units that the programs sample: in `data` if the neighbour lacks it or has another
        in its place, in `neighbour` if that has one more. The last, if not given.
    for_the_holder : bool, default=False
        True for a fit that also computes figures for its holder, as a command does: channels without noise are then not
        observed. What they lead to must not be among what is returned.
    name : str
        For messages.

    Returns
    -------
    NeighbourReport
    """
    moved: list[float] = []
    for first_sampled in (True, False):
        log = _Log(name, unit, first_sampled)
        with interpose(_observer(_Recorder, log, for_the_holder)):
            released = dict(fit(data))
        with interpose(_observer(_Replayer, log, for_the_holder)):
            released_again = dict(fit(neighbour))
        if log.place != len(log.rounds):
            raise _violation(name, f"{len(log.rounds)} rounds on both data sets", f"{log.place} on the neighbour")
        for key in sorted(set(released) | set(released_again)):
            if not same_values(_only(released, key), _only(released_again, key)):
                raise _violation(
                    name,
                    f"the released {key!r} to be the same when all answers are the same",
                    "a different one: it depends on the data by a way around the channel",
                )
        moved += log.moved
        if not log.samples:
            break
    return NeighbourReport(tuple(moved))


def _observer(kind: type[_Observed], log: _Log, for_the_holder: bool) -> Callable[[Channel], Channel]:
    def observed(channel: Channel) -> Channel:
        if for_the_holder and not isinstance(channel, Noisy):
            return channel
        return kind(channel, log)  # type: ignore[return-value]

    return observed


def _only(values: Mapping[str, Held], key: str) -> dict[str, Held]:
    return {key: values[key]} if key in values else {}


class _Observed:
    """A noisy channel seen from outside; anything else in a private fit is a leak."""

    def __init__(self, channel: Channel, log: _Log) -> None:
        if not isinstance(channel, Noisy):
            raise _violation(
                log.name, "every statistic to leave through a noisy channel", f"a {type(channel).__name__} channel"
            )
        self.channel = channel
        self.log = log

    @property
    def transcript(self) -> Transcript:
        return self.channel.transcript

    @property
    def guarantee(self) -> Guarantee:
        return self.channel.guarantee

    def open(self) -> None:
        self.channel.open()
        self._note(("channel", self.channel.plan, self.channel.max_units))

    def _note(self, signature: tuple[object, ...]) -> None:
        raise NotImplementedError

    def conclude(self, public: Mapping[str, object]) -> None:
        self.channel.conclude(public)

    def close(self) -> None:
        self.channel.close()


class _Recorder(_Observed):
    def _note(self, signature: tuple[object, ...]) -> None:
        self.log.rounds.append(_Round(signature))

    def exchange(self, asks: Sequence[Sum]) -> Total:
        measured = self.channel.measure(asks)
        answer = self.channel.exchange(asks)
        self.log.rounds.append(_Round(_described(asks[0], measured), answer, measured))
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        masks = self.channel.sample(asks)
        # the unit is in every other sample, whatever the rate
        sampled = (self.log.samples % 2 == 0) == self.log.first_sampled
        for mask in masks:
            if -len(mask) <= self.log.unit < len(mask):
                mask[self.log.unit] = sampled
        self.log.rounds.append(_Round(asks[0].signature(), masks, unit_sampled=sampled))
        return masks

    def choose(self, asks: Sequence[Choose]) -> int:
        scores, _ = self.channel.measure_scores(asks)
        winner = self.channel.choose(asks)
        self.log.rounds.append(_Round(asks[0].signature(), winner, scores=scores))
        return winner


class _Replayer(_Observed):
    def _note(self, signature: tuple[object, ...]) -> None:
        self._next(signature)

    def _next(self, signature: tuple[object, ...]) -> _Round:
        if self.log.place >= len(self.log.rounds):
            raise _violation(self.log.name, f"{len(self.log.rounds)} rounds on both data sets", "more on the neighbour")
        recorded = self.log.rounds[self.log.place]
        if recorded.signature != signature:
            raise _violation(
                self.log.name,
                f"round {self.log.place} to ask for {recorded.signature} on both data sets",
                f"{signature} on the neighbour",
            )
        self.log.place += 1
        return recorded

    def exchange(self, asks: Sequence[Sum]) -> Total:
        measured = self.channel.measure(asks)
        recorded = self._next(_described(asks[0], measured))
        self._compare(asks[0], recorded, measured)
        self.channel.exchange(asks)  # so that the channel knows which steps of its plan are used up
        answer: Total = recorded.answer
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        recorded = self._next(asks[0].signature())
        self.channel.sample(asks)
        pairs = zip(asks, recorded.answer, strict=True)
        return [_resized(mask, ask.units, self.log.unit, recorded.unit_sampled) for ask, mask in pairs]

    def choose(self, asks: Sequence[Choose]) -> int:
        recorded = self._next(asks[0].signature())
        scores, allowed = self.channel.measure_scores(asks)
        self.channel.choose(asks)
        assert recorded.scores is not None
        distance = float(np.abs(scores - recorded.scores).max())
        self._allow("scores", distance, allowed, 1.0, "")
        winner: int = recorded.answer
        return winner

    def _compare(self, ask: Sum, recorded: _Round, measured: dict[str, Measured]) -> None:
        assert recorded.measured is not None
        place = self.log.place - 1
        before = self.log.rounds[place - 1] if place > 0 else None
        took_part = before is None or before.unit_sampled
        distances = {
            key: float(np.linalg.norm((array.integers - recorded.measured[key].integers).astype(np.float64)))
            for key, array in measured.items()
        }
        if not isinstance(ask.bound, dict):  # one bound for all arrays joined
            joint = float(np.linalg.norm(list(distances.values())))
            distances = {next(iter(distances)): joint}
        # `sensitivity` is half the distance under replace-one with everyone taking part (see Noisy._norm_of)
        factor = 2.0 if self.channel.plan.adjacency == "replace-one" else 1.0
        for key, distance in distances.items():
            array = measured[key]
            allowed = factor * array.sensitivity if took_part else 0.0
            where = f" in round {place}" + ("" if took_part else " (the unit was not in the sample)")
            self._allow(repr(key), distance, allowed, array.grid.step, where)

    def _allow(self, what: str, distance: float, allowed: float, step: float, where: str) -> None:
        self.log.moved.append(distance / allowed if allowed else 0.0)
        if not distance <= allowed * (1 + ROUNDING_ALLOWANCE):
            raise _violation(
                self.log.name, f"{what}{where} to move by at most {allowed * step:.6g}", f"{distance * step:.6g}"
            )


def _described(ask: Sum, measured: dict[str, Measured]) -> tuple[object, ...]:
    """Return everything public about a sum: the ask, and the grid and the noise that its arrays get."""
    scales = tuple((name, array.grid, array.sensitivity, array.sigma) for name, array in measured.items())
    return (*ask.signature(), scales)


def _resized(mask: NDArray[np.bool_], units: int, unit: int, sampled: bool) -> NDArray[np.bool_]:
    """The same sample for a data set without the unit, with another in its place, or with one more there."""
    if units == len(mask):
        return mask
    if units < len(mask):
        return np.delete(mask, unit)[:units]
    more = np.full(units - len(mask), sampled)
    return np.concatenate([mask, more]) if unit == -1 else np.insert(mask, unit, more)


def _violation(name: str, expected: str, got: str) -> PrivacyViolationError:
    return PrivacyViolationError(
        f"{expected} ({name})",
        words(got),
        "Clip each unit's contribution, and let nothing but answers of the channel reach what is public.",
    )
