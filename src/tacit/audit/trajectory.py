"""One run of a private fit, seen by an attacker who knows everything but one bit: the exact sums of both data sets.

A fit runs on one of two neighbouring data sets with its real noise. Every answer is recorded. Then it runs on the other one
and gets the recorded answers, so that the statistics of both data sets are known *along the same trajectory*: from these and
the answers the likelihood ratio follows exactly. In a sampled step the unit is in the sample with the stated rate, which
makes the likelihood a mixture.

A fit is stopped after its last answer: what it computes from answers is of no use to this attacker.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, Sample, Sum, Total
from tacit.channel.fixedpoint import exact_sum
from tacit.channel.noisy import Measured, Noisy
from tacit.channel.plan import Plan
from tacit.channel.run import Channel, Transcript, interpose
from tacit.errors import PrivacyViolationError, words
from tacit.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from tacit.audit.units import Units

Integers = Mapping[str, NDArray[np.int64]]


class Enough(BaseException):
    """The fit has made its last exchange. Not an `Exception`, so that no fit handles it."""


@dataclass(frozen=True)
class World:
    """One of two neighbouring data sets. With `has_unit`, its last unit is the audited one, or the one in its place."""

    data: Units
    has_unit: bool


@dataclass
class Answered:
    """One exchange: what was asked, answered and measured. `kind` is "sum", "sample" or "choose"."""

    kind: str
    public: tuple[object, ...]
    answer: Any
    measured: dict[str, Measured] = field(default_factory=dict)
    joint: bool = False
    rate: float = 1.0


@dataclass
class Recorded:
    """All exchanges of one run, and its plan."""

    world: World
    plan: Plan | None = None
    rounds: list[Answered] = field(default_factory=list)
    sums: list[Integers] = field(default_factory=list)
    """Filled by a run that follows another: its exact sums, on the grid of the run that it follows."""

    @property
    def answered(self) -> list[Answered]:
        """The sums among the exchanges."""
        return [one for one in self.rounds if one.kind == "sum"]


class _Watched:
    """A noisy channel seen from outside. `plan_of` counts the exchanges that are still to come."""

    def __init__(self, channel: Channel, record: Recorded) -> None:
        if not isinstance(channel, Noisy):
            raise PrivacyViolationError(
                "every statistic to leave through a noisy channel",
                words(f"a {type(channel).__name__} channel"),
                "There is no noise whose likelihood could be computed: attack what is released instead.",
            )
        self.channel = channel
        self.record = record
        self.left = sum(step.count for step in channel.plan.steps) + len(channel.plan.choices)

    @property
    def transcript(self) -> Transcript:
        return self.channel.transcript

    @property
    def guarantee(self) -> Guarantee:
        return self.channel.guarantee

    def open(self) -> None:
        self.channel.open()

    def conclude(self, public: Mapping[str, object]) -> None:
        self.channel.conclude(public)

    def close(self) -> None:
        self.channel.close()

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Enough


class _TrajectoryRecorder(_Watched):
    """Answers as the channel does, and notes all of it."""

    def open(self) -> None:
        super().open()
        self.record.plan = self.channel.plan

    def exchange(self, asks: Sequence[Sum]) -> Total:
        measured = self.channel.measure(asks)
        last = self.record.rounds[-1] if self.record.rounds else None
        sampled = last if last is not None and last.kind == "sample" else None
        answer = self.channel.exchange(asks)
        self.record.rounds.append(
            Answered(
                "sum",
                asks[0].signature()[:2],
                answer,
                measured,
                joint=not isinstance(asks[0].bound, dict),
                rate=1.0 if sampled is None else sampled.rate,
            )
        )
        self._count()
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        masks = self.channel.sample(asks)
        self.record.rounds.append(Answered("sample", asks[0].signature(), masks, rate=asks[0].rate))
        return masks

    def choose(self, asks: Sequence[Choose]) -> int:
        winner = self.channel.choose(asks)
        self.record.rounds.append(Answered("choose", asks[0].signature(), winner))
        self._count()
        return winner


class _Follower(_Watched):
    """Gives the recorded answers, and notes the sums on the recorded grids; the unit is in every sample if `unit_in`."""

    def __init__(self, channel: Channel, record: Recorded, followed: Recorded, world: World, unit_in: bool) -> None:
        super().__init__(channel, record)
        self._followed, self._world, self._unit_in = followed, world, unit_in
        self._answers = iter(followed.rounds)

    def _next(self, kind: str, public: tuple[object, ...]) -> Answered:
        recorded = next(self._answers, None)
        if recorded is None or (recorded.kind, recorded.public) != (kind, public):
            raise PrivacyViolationError(
                "the same asks on both data sets",
                words("others on the neighbour"),
                "What a program asks for must not depend on the data.",
            )
        return recorded

    def exchange(self, asks: Sequence[Sum]) -> Total:
        recorded = self._next("sum", asks[0].signature()[:2])
        self.record.sums.append(
            {
                name: exact_sum([array.grid.encode(ask.arrays[name]) for ask in asks])
                for name, array in recorded.measured.items()
            }
        )
        self._count()
        answer: Total = recorded.answer
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        recorded = self._next("sample", asks[0].signature())
        return [self._resized(mask, ask.units) for mask, ask in zip(recorded.answer, asks, strict=True)]

    def _resized(self, mask: NDArray[np.bool_], units: int) -> NDArray[np.bool_]:
        """Return the same sample of the other units, with the audited unit, which is the last, in it or not."""
        others = mask[:-1] if self._followed.world.has_unit else mask
        sized = np.append(others, self._unit_in) if self._world.has_unit else others
        if len(sized) != units:
            raise PrivacyViolationError(
                "a sample of all units but the audited one",
                words("another number of units"),
                "Sample the units of the guarantee.",
            )
        return sized

    def choose(self, asks: Sequence[Choose]) -> int:
        winner: int = self._next("choose", asks[0].signature()).answer
        self._count()
        return winner


def observe(fit: Callable[[Units], object], data: Units, channel_of: Callable[[Channel], Channel]) -> None:
    """Run a fit up to its last exchange."""
    with warnings.catch_warnings(), interpose(channel_of):
        warnings.simplefilter("ignore")
        with suppress(Enough):
            fit(data)


@dataclass(frozen=True)
class Loss:
    """What one run tells an attacker.

    Attributes
    ----------
    present : bool
        Whether the unit was in the data.
    score : float
        Logarithm of the likelihood ratio of "present" to "absent".
    mu : float
        Root of the information: the distance of the two data sets' sums, in stated standard deviations of the noise.
    along : float
        The noise along that distance, in stated standard deviations: standard normal if the noise is as stated.
    squares, numbers : float, int
        Sum of the squares of all noise numbers, in stated standard deviations, and how many there were.
    drawn, expected, draws : float
        How many units all samples had, how many the stated rates let expect, and of how many.
    least : float
        The smallest distance among the sums of one run.
    cost : float
        Root of the sum of squares of sensitivity over stated noise: what the accountant should have counted.
    """

    present: bool
    score: float
    mu: float
    along: float
    squares: float
    numbers: int
    drawn: float
    expected: float
    draws: float
    least: float
    cost: float


def recorded(fit: Callable[[Units], object], world: World) -> Recorded:
    """Run a fit in one world, and return all its exchanges and its plan."""
    run = Recorded(world)
    observe(fit, world.data, lambda channel: _TrajectoryRecorder(channel, run))
    return run


def measured_loss(fit: Callable[[Units], object], present: World, absent: World, *, unit_present: bool) -> Loss:
    """Run a fit in one of two worlds, follow its trajectory in the other, and return what the answers tell.

    Parameters
    ----------
    fit : callable
        Takes a data set and fits it over a noisy channel.
    present, absent : World
        The data with the audited unit, and without it or with another in its place.
    unit_present : bool
        In which of the two the fit runs.
    """
    here, there = (present, absent) if unit_present else (absent, present)
    run = recorded(fit, here)

    def follow(world: World, unit_in: bool) -> Sequence[Integers]:
        followed = Recorded(world)
        observe(fit, world.data, lambda channel: _Follower(channel, followed, run, world, unit_in))
        if len(followed.sums) != len(run.answered):
            raise PrivacyViolationError(
                "the same number of sums on both data sets", words("another"), "Fix the rounds before the first."
            )
        return followed.sums

    own = [{name: array.integers for name, array in one.measured.items()} for one in run.answered]
    if any(one.kind == "sample" for one in run.rounds):
        sums = follow(present, True), follow(absent, True), follow(present, False)
    else:
        other = follow(there, True)
        sums = (own, other, other) if unit_present else (other, own, own)
    return _loss(run, own, *sums, unit_present)


def _loss(
    run: Recorded,
    own: Sequence[Integers],
    present: Sequence[Integers],
    absent: Sequence[Integers],
    neither: Sequence[Integers],
    unit_present: bool,
) -> Loss:
    """Compute the likelihood ratio; `neither` are the sums of the other units alone, for sampled steps."""
    score = information = along = squares = cost = 0.0
    numbers, least = 0, np.inf
    assert run.plan is not None
    # `sensitivity` is half the distance under replace-one (see `Noisy._norm_of`)
    factor = 2.0 if run.plan.adjacency == "replace-one" else 1.0
    for one, exact, with_unit, without, others in zip(run.answered, own, present, absent, neither, strict=True):
        moved = 0.0
        likely = np.zeros(3)  # logarithms of the likelihood with the unit, without it, and with neither
        parts = []
        for name, array in one.measured.items():
            parts.append(factor * array.sensitivity / array.sigma)
            if not np.isfinite(one.answer.noise[name]):  # only the direction of the total was released
                continue
            released = np.rint(one.answer[name] / array.grid.step)
            noise = (released - exact[name]) / array.sigma
            distance = (with_unit[name] - without[name]) / array.sigma
            likely -= [_half_square((released - mean[name]) / array.sigma) for mean in (with_unit, without, others)]
            moved += float(np.vdot(distance, distance))
            along += float(np.vdot(noise, distance))
            squares += float(np.vdot(noise, noise))
            numbers += noise.size
        if one.rate < 1:
            drawn, left = np.log(one.rate) + likely[:2], np.log1p(-one.rate) + likely[2]
            likely = np.logaddexp(drawn, left)
        score += float(likely[0] - likely[1])
        information += moved
        least = min(least, float(np.sqrt(moved)))
        cost += max(parts) ** 2 if one.joint else sum(part**2 for part in parts)
    masks = [(mask, one.rate) for one in run.rounds if one.kind == "sample" for mask in one.answer]
    root = float(np.sqrt(information))
    return Loss(
        unit_present,
        score,
        root,
        along / root if root > 0 else 0.0,
        squares,
        numbers,
        float(sum(mask.sum() for mask, _ in masks)),
        float(sum(rate * len(mask) for mask, rate in masks)),
        float(sum(len(mask) for mask, _ in masks)),
        least,
        float(np.sqrt(cost)),
    )


def _half_square(numbers: NDArray[np.float64]) -> float:
    return float(np.vdot(numbers, numbers)) / 2
