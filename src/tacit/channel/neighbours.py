"""The shared privacy check: replay a private fit on a neighbouring data set and see what moves.

Differential privacy of an adaptive run says: *given the same answers so far*, the next statistic moves by at most its
bound, and nothing else moves at all. So the fit is run once with its real noise, recording every answer; then it is
run on the neighbour, given the recorded answers. Every ask must agree in kind, names, shapes, bound and weight; the
integers that get noise must differ by at most the sensitivity that sized the noise; the number of rounds and
everything released must be identical, bit by bit. (The idea of replaying with frozen noise is dp-recorder's, 2026.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, Sample, Sum, Total
from tacit.channel.noisy import Noisy
from tacit.channel.run import Channel, interpose, same_values
from tacit.channel.sensitivity import Measured
from tacit.channel.transcript import Transcript
from tacit.errors import PrivacyViolationError, words
from tacit.privacy.guarantee import Guarantee

Data = TypeVar("Data")
ROUNDING_ALLOWANCE = 1e-9


@dataclass(frozen=True)
class NeighbourReport:
    """What moved: for every sum, the distance between the two statistics over the distance allowed (at most 1)."""

    moved: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest share of a bound that was used; far below 1 everywhere, the bound is loose."""
        return max(self.moved, default=0.0)


@dataclass
class _Round:
    signature: tuple[Any, ...]
    answer: Any
    measured: dict[str, Measured] | None = None
    scores: NDArray[np.int64] | None = None
    last_unit_sampled: bool = True


@dataclass
class _Log:
    rounds: list[_Round] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    place: int = 0


def check_neighbours(
    fit: Callable[[Data], Mapping[str, Any]], data: Data, neighbour: Data, *, name: str = "the fit"
) -> NeighbourReport:
    """Raise `PrivacyViolationError` unless `fit` treats `neighbour` as its guarantee says.

    Parameters
    ----------
    fit : callable
        Takes a data set, runs its programs over `tacit.channel.Noisy` channels (through `run`), and returns
        everything that is released, by name. It must be deterministic apart from the channels' noise and samples.
    data, neighbour : object
        Neighbouring data sets: one without the other's **last** unit, or with another last unit. (The last, so that a
        unit keeps its place in the Poisson samples.)
    name : str
        For messages.

    Returns
    -------
    NeighbourReport
    """
    log = _Log()
    with interpose(lambda channel: _Recorder(channel, log, name)):
        released = dict(fit(data))
    with interpose(lambda channel: _Replayer(channel, log, name)):
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
    return NeighbourReport(tuple(log.moved))


def _only(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {key: values[key]} if key in values else {}


class _Observed:
    """A noisy channel seen from outside; anything else in a private fit is a leak."""

    def __init__(self, channel: Channel, log: _Log, name: str) -> None:
        if not isinstance(channel, Noisy):
            raise _violation(
                name, "every statistic to leave through a noisy channel", f"a {type(channel).__name__} channel"
            )
        self.channel = channel
        self.log = log
        self.name = name

    @property
    def transcript(self) -> Transcript:
        return self.channel.transcript

    @property
    def guarantee(self) -> Guarantee:
        return self.channel.guarantee

    def open(self) -> None:
        self.channel.open()

    def conclude(self, public: Mapping[str, Any]) -> None:
        self.channel.conclude(public)

    def close(self) -> None:
        self.channel.close()


class _Recorder(_Observed):
    def exchange(self, asks: Sequence[Sum]) -> Total:
        measured = self.channel.measure(asks)
        answer = self.channel.exchange(asks)
        self.log.rounds.append(_Round(asks[0].signature(), answer, measured))
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        masks = self.channel.sample(asks)
        # see the last unit both in and out of the sample, whatever the rate: every other sample has it
        in_sample = sum(taken.signature[0] == "sample" for taken in self.log.rounds) % 2 == 0
        for mask in masks:
            mask[-1:] = in_sample
        self.log.rounds.append(_Round(asks[0].signature(), masks, last_unit_sampled=in_sample))
        return masks

    def choose(self, asks: Sequence[Choose]) -> int:
        scores, _ = self.channel.measure_scores(asks)
        winner = self.channel.choose(asks)
        self.log.rounds.append(_Round(asks[0].signature(), winner, scores=scores))
        return winner


class _Replayer(_Observed):
    def _next(self, signature: tuple[Any, ...]) -> _Round:
        if self.log.place >= len(self.log.rounds):
            raise _violation(self.name, f"{len(self.log.rounds)} rounds on both data sets", "more on the neighbour")
        recorded = self.log.rounds[self.log.place]
        if recorded.signature != signature:
            raise _violation(
                self.name,
                f"round {self.log.place} to ask for {recorded.signature} on both data sets",
                f"{signature} on the neighbour",
            )
        self.log.place += 1
        return recorded

    def exchange(self, asks: Sequence[Sum]) -> Total:
        recorded = self._next(asks[0].signature())
        measured = self.channel.measure(asks)
        self._compare(asks[0], recorded, measured)
        self.channel.exchange(asks)  # so that the channel knows which steps of its plan are used up
        answer: Total = recorded.answer
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        recorded = self._next(asks[0].signature())
        self.channel.sample(asks)
        pairs = zip(asks, recorded.answer, strict=True)
        return [_resized(mask, ask.units, recorded.last_unit_sampled) for ask, mask in pairs]

    def choose(self, asks: Sequence[Choose]) -> int:
        recorded = self._next(asks[0].signature())
        scores, allowed = self.channel.measure_scores(asks)
        self.channel.choose(asks)
        assert recorded.scores is not None
        distance = float(np.abs(scores - recorded.scores).max())
        self.log.moved.append(distance / allowed)
        if distance > allowed:
            raise _violation(
                self.name, f"scores to move by at most {allowed:.6g} grid steps", f"one that moved by {distance:.6g}"
            )
        winner: int = recorded.answer
        return winner

    def _compare(self, ask: Sum, recorded: _Round, measured: dict[str, Measured]) -> None:
        assert recorded.measured is not None
        place = self.log.place - 1
        before = self.log.rounds[place - 1] if place > 0 else None
        took_part = before is None or before.last_unit_sampled
        distances = {
            key: float(np.linalg.norm((array.integers - recorded.measured[key].integers).astype(np.float64)))
            for key, array in measured.items()
        }
        if not isinstance(ask.bound, dict):  # one bound for all arrays joined
            joint = float(np.linalg.norm(list(distances.values())))
            distances = {next(iter(distances)): joint}
        for key, distance in distances.items():
            array = measured[key]
            # `sensitivity` is half the distance under replace-one with everyone taking part (see Noisy._norm_of)
            factor = 2.0 if self.channel.plan.adjacency == "replace-one" else 1.0
            allowed = factor * array.sensitivity if took_part else 0.0
            self.log.moved.append(distance / allowed if allowed else 0.0)
            if distance > allowed * (1 + ROUNDING_ALLOWANCE):
                raise _violation(
                    self.name,
                    f"{key!r} in round {place} to move by at most {allowed * array.grid.step:.6g}"
                    + ("" if took_part else " (the unit was not in the sample)"),
                    f"{distance * array.grid.step:.6g}",
                )


def _resized(mask: NDArray[np.bool_], units: int, last: bool) -> NDArray[np.bool_]:
    """The same sample for a data set with one unit fewer or more at the end."""
    if units <= len(mask):
        return mask[:units]
    return np.concatenate([mask, np.full(units - len(mask), last)])


def _violation(name: str, expected: str, got: str) -> PrivacyViolationError:
    return PrivacyViolationError(
        f"{expected} ({name})",
        words(got),
        "Clip each unit's contribution, and let nothing but answers of the channel reach what is public.",
    )
