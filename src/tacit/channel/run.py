"""Programs and how they run: one holder alone, or several in one process, in lock-step over one channel.

A program is a generator: an algorithm from one holder's view. It yields what it asks for (`tacit.channel.asks`), receives
totals, and returns an `Outcome`. The channel keeps a `Transcript` of everything that left the holders.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Ask, Choose, Sample, Sum, Total
from tacit.errors import InvalidInputError, ProtocolError, Undisclosed, kind_of, words
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import Release, merge
from tacit.progress import tell

Result = TypeVar("Result")


@dataclass(frozen=True, repr=False)
class TranscriptEntry(Undisclosed):
    """One exchange: its public description, the release it was, and (if kept) the very numbers.

    Attributes
    ----------
    round : int
        Counted from zero.
    kind : str
        "sum" or "normed-sum".
    shapes : mapping
        The shape of each array by name.
    release : Release or None
        What the accountant makes of it; None in channels without noise.
    totals : mapping or None
        What everyone received.
    terms : sequence or None
        What each holder revealed on its own, where the channel reveals that.
    """

    round: int
    kind: str
    shapes: Mapping[str, tuple[int, ...]]
    release: Release | None = None
    totals: Mapping[str, NDArray[np.float64]] | None = None
    terms: Sequence[Mapping[str, NDArray[np.float64]]] | None = None

    @property
    def numbers(self) -> int:
        """How many numbers were totalled."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


@dataclass(repr=False)
class Transcript(Undisclosed):
    """All exchanges of one run; `keep_values` also keeps the numbers, for measuring what they leak."""

    keep_values: bool = False
    entries: list[TranscriptEntry] = field(default_factory=list)

    def add(
        self,
        kind: str,
        totals: Mapping[str, NDArray[np.float64]],
        *,
        release: Release | None = None,
        terms: Sequence[Mapping[str, NDArray[np.float64]]] | None = None,
    ) -> None:
        """Record one exchange."""
        kept = {name: array.copy() for name, array in totals.items()} if self.keep_values else None
        shown = None
        if self.keep_values and terms is not None:
            shown = [{name: array.copy() for name, array in term.items()} for term in terms]
        shapes = {name: array.shape for name, array in totals.items()}
        self.entries.append(TranscriptEntry(len(self.entries), kind, shapes, release, kept, shown))

    @property
    def releases(self) -> tuple[Release, ...]:
        """What the accountant composes."""
        return merge(entry.release for entry in self.entries if entry.release is not None)

    def __iter__(self) -> Iterator[TranscriptEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, repr=False)
class Outcome(Undisclosed):
    """What a program returns.

    Parameters
    ----------
    public : mapping
        What was learned from totals alone: the same for every holder, and free to be released as far as the channel's
        guarantee goes.
    private : mapping
        What depends on this holder's records in other ways (its rows' factors, its loss). It stays with the holder.
    """

    public: Mapping[str, Any]
    private: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class RunOutcome(Outcome):
    """What `run` returns: what the program returned, and over which channel.

    Parameters
    ----------
    public, private : mapping
        As the program returned them.
    channel : Channel
        The channel that the program ran over, and so what was earned. Among parties it is not the one that the caller gave.
    """

    channel: Channel = field(kw_only=True, compare=False)


Answer = Total | NDArray[np.bool_] | int
"""To a `Sum`, a `Sample` or a `Choose`."""
Program = Generator[Ask, Any, Outcome]
"""Yields a `Sum`, `NormedSum`, `Sample` or `Choose`; receives a `Total`, a mask or an index; returns an `Outcome`."""


class Channel(Protocol):
    """What every channel does."""

    @property
    def transcript(self) -> Transcript:
        """Everything that left through this channel so far."""

    def open(self) -> None:
        """Called once, before a run's first ask; a channel that serves one run only refuses the second."""

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Total the asks of the holders in this process (and of others, if the channel reaches them)."""

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        """Draw each holder's own sample."""

    def choose(self, asks: Sequence[Choose]) -> int:
        """Return the index of the candidate with the highest total score."""

    def conclude(self, public: Mapping[str, object]) -> None:
        """Called with what a program calls public; raises `ProtocolError` if holders elsewhere ended with something else."""

    def close(self) -> None:
        """Called once, when the run ends, well or badly."""

    @property
    def guarantee(self) -> Guarantee:
        """What the transcript so far has earned."""


_interposed: ContextVar[Callable[[Channel], Channel] | None] = ContextVar("interposed", default=None)
_one_owner: ContextVar[bool] = ContextVar("one_owner", default=False)


@contextmanager
def interpose(wrap: Callable[[Channel], Channel], *, one_owner: bool = False) -> Iterator[None]:
    """Within the block, every run's channel is wrapped by `wrap`; this is how a fit is observed from outside.

    `one_owner` says that all holders whom the wrapped channel reaches are one owner's own machines.
    """
    token, owner = _interposed.set(wrap), _one_owner.set(one_owner)
    try:
        yield
    finally:
        _one_owner.reset(owner)
        _interposed.reset(token)


def is_alone() -> bool:
    """Whether a fit that starts here is one holder's own: not among parties, and not observed."""
    return _interposed.get() is None


def has_one_owner() -> bool:
    """Whether the totals of a fit that starts here are seen by other machines of the same owner, and by nobody else."""
    return _one_owner.get()


def interposed(channel: Channel) -> Channel:
    """Return the channel that a run over `channel` would use here: among parties, or observed, it is another one."""
    wrap = _interposed.get()
    return channel if wrap is None else wrap(channel)


def run(program: Program, channel: Channel) -> RunOutcome:
    """Run one holder's program to its end over `channel`."""
    return run_together([program], channel)[0]


def run_alone(program: Generator[Ask, Any, Result]) -> Result:
    """Return what a program returns whose holder has all the data: every total is its own term.

    No channel is involved: nothing is released, charged, observed or recorded, also where a fit runs among parties. It is for
    post-processing of what was released. Private data that were used here all the same would show in what the calling
    program releases in the end.
    """
    total: Total | None = None
    while True:
        try:
            ask = program.send(total)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        if type(ask) is not Sum:
            raise ProtocolError("a Sum", kind_of(ask), "Run the program over a channel.")
        total = Total(ask.arrays)


def run_together(programs: Sequence[Program], channel: Channel) -> list[RunOutcome]:
    """Run several holders' programs in lock-step; all must ask for the same things and learn the same public things."""
    if not programs:
        raise InvalidInputError("at least one holder", words("none"), "Give one program per holder.")
    used = interposed(channel)
    used.open()  # before the block that closes it: a channel in use elsewhere stays open
    try:
        outcomes = _lock_step(list(programs), used)
        used.conclude(outcomes[0].public)
        return [RunOutcome(outcome.public, outcome.private, channel=used) for outcome in outcomes]
    finally:
        for program in programs:
            program.close()
        used.close()


def _lock_step(programs: list[Program], channel: Channel) -> list[Outcome]:
    answers: list[Answer | None] = [None] * len(programs)
    ended: list[object] = []
    planned, sums = planned_sums(channel), 0
    for turn in itertools.count():
        asks: list[Ask] = []
        for program, answer in zip(programs, answers, strict=True):
            try:
                asks.append(program.send(answer))
            except StopIteration as stop:
                ended.append(stop.value)  # checked below: an error raised here would show the value in its context
        if ended and asks:
            raise ProtocolError(
                "all holders to end in the same round",
                words(f"{len(ended)} of {len(programs)} ended in round {turn}"),
                "The number of rounds must not depend on a holder's data.",
            )
        if ended:
            outcomes = [_checked_outcome(value) for value in ended]
            _check_same_public(outcomes)
            return outcomes
        answers = _answer(asks, channel, turn)
        if not isinstance(asks[0], Sample):
            sums += 1
            tell("sum", sums, planned)
            if sums == planned:
                tell("computing the result")
    raise AssertionError("unreachable")


def planned_sums(channel: Channel) -> int | None:
    """Return how many sums and choices a channel will release; None if it has no plan."""
    plan = getattr(channel, "plan", None)
    return None if plan is None else sum(step.count for step in plan.steps) + len(plan.choices)


def _answer(asks: list[Ask], channel: Channel, turn: int) -> list[Answer | None]:
    for index, ask in enumerate(asks):
        if not isinstance(ask, Sum | Sample | Choose):
            raise ProtocolError(
                "a Sum, NormedSum, Sample or Choose", kind_of(ask), "Yield one of these from the program."
            )
        if ask.signature() != asks[0].signature():
            raise ProtocolError(
                f"all holders to ask for the same in round {turn}: {asks[0].signature()}",
                words(f"holder {index} asked for {ask.signature()}"),
                "Names, shapes and bounds must be the same everywhere.",
            )
    if isinstance(asks[0], Sample):
        return list(channel.sample([ask for ask in asks if isinstance(ask, Sample)]))
    if isinstance(asks[0], Choose):
        return [channel.choose([ask for ask in asks if isinstance(ask, Choose)])] * len(asks)
    return [channel.exchange([ask for ask in asks if isinstance(ask, Sum)])] * len(asks)


def _checked_outcome(value: object) -> Outcome:
    if not isinstance(value, Outcome):
        raise ProtocolError(
            "a program that returns an Outcome", kind_of(value), "Return Outcome(public=..., private=...)."
        )
    return value


def _check_same_public(outcomes: list[Outcome]) -> None:
    for index, outcome in enumerate(outcomes[1:], start=1):
        if not same_values(outcome.public, outcomes[0].public):
            raise ProtocolError(
                "all holders to learn the same public result",
                words(f"holder {index} differs from holder 0"),
                "What is public may depend on totals only; put the rest into Outcome.private.",
            )


def lengths_of(public: Mapping[str, object]) -> NDArray[np.float64]:
    """Return the norm of every public array, in the order of their names: enough to see that two results differ."""
    arrays = [np.asarray(public[name]) for name in sorted(public)]
    return np.array([float(np.linalg.norm(array)) for array in arrays if array.dtype.kind in "fiub"])


def same_values(left: Mapping[str, object], right: Mapping[str, object]) -> bool:
    """Whether two mappings hold the same keys and bit-for-bit the same values."""
    if set(left) != set(right):
        return False
    return all(_same(left[key], right[key]) for key in left)


def _same(left: object, right: object) -> bool:
    if isinstance(left, bytes | str) or isinstance(right, bytes | str):
        return type(left) is type(right) and bool(left == right)  # an array of bytes would drop zeros at the end
    one, other = np.asarray(left), np.asarray(right)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
