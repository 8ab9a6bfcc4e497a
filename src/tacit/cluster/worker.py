"""A worker's side: one fit per partition, each stopped where it waits for its next total.

A partition's fit is the estimator's own `fit`, in a thread, with its channels replaced: where the channel of a single holder
would add noise and answer, this one hands its contribution to the driver and waits. The contribution of a noisy channel is the
integers that get noise (`tacit.channel.noisy`), those of a clear channel numbers that are put on a common grid, so that all
contributions are added exactly and in any order.

The state of a fit is a function of its partition and of the answers so far. A worker that gets a partition from another one
runs the fit from the start with the recorded answers, and is then in the same state, bit for bit.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, Sample, Sum, Total
from tacit.channel.fixedpoint import Grid, exact_sum
from tacit.channel.noisy import Noisy
from tacit.channel.plan import Plan
from tacit.channel.run import Channel, Transcript, interpose, lengths_of
from tacit.errors import InvalidInputError, PrivacyWarning, ProtocolError, TacitError, Undisclosed, words
from tacit.estimators.base import Estimator
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import keyed_generator

Arrays = Mapping[str, NDArray[np.float64]]
Answer = Total | int
"""What the driver answers: a total, or the candidate that was chosen."""
AT_DRIVER = "the noise is added at the driver"
"""Why the fit of a partition has no guarantee of its own."""


@dataclass(frozen=True, repr=False)
class Loaded(Undisclosed):
    """The data of one partition.

    Attributes
    ----------
    arguments : tuple
        Those of `fit`.
    rows : int
        A partition without rows adds nothing, and is not fitted.
    columns : tuple of str, optional
        The names of the columns, where the file has them: the same in every partition.
    free : callable, optional
        Frees what `fit` does not need any more when it asks for its first total, as it has a table of its own by then.
    """

    arguments: tuple[Any, ...]
    rows: int
    columns: tuple[str, ...] | None = None
    free: Callable[[], None] | None = None


Load = Callable[[object], Loaded]


@dataclass(frozen=True, repr=False)
class FitSpec(Undisclosed):
    """What every worker needs to fit any partition.

    Attributes
    ----------
    run : str
        The identity of the run.
    estimator : estimator
        Not fitted; without ledger, data set and seed, which stay at the driver.
    load : callable
        Reads the source of a partition.
    secret : bytes
        The key of the Poisson samples.
    threads : int
        Of the compiled kernels and BLAS in one fit; the same everywhere, so that rounding is the same.
    version : str
        Of tacit.
    resident : int, optional
        How many partitions a worker keeps in memory from round to round; all of them, if not given.
    one_owner : bool
        Whether nobody but the owner of the cluster sees the totals: it is not a party among others.
    """

    run: str
    estimator: Estimator
    load: Load
    secret: bytes
    threads: int
    version: str
    resident: int | None = None
    one_owner: bool = False


@dataclass(frozen=True)
class Header:
    """The public part of what a fit waits for: the same in every partition.

    Attributes
    ----------
    channel : int
        Which of the fit's channels asks, from 0.
    kind : {"sum", "choose", "end"}
    signature : tuple
        Of the ask; of the public result, at the end.
    rate : float
        Of the Poisson sample that was drawn for this sum.
    plan : Plan or None
        Of a noisy channel.
    max_units : int
        Of a noisy channel: the most units of one partition.
    """

    channel: int
    kind: str
    signature: tuple[Any, ...]
    rate: float = 1.0
    plan: Plan | None = None
    max_units: int = 0


@dataclass(frozen=True, repr=False)
class Contribution(Undisclosed):
    """What one partition, or several together, add to a total.

    Attributes
    ----------
    header : Header or None
        None if the partitions have no rows: they add nothing to any total.
    integers : dict of str to ndarray of int64
        By name; empty until the grid is known, for a channel without noise.
    largest : dict of str to float
        Largest magnitude by name, for a channel without noise.
    units : int
    released : dict, optional
        At the end: the released attributes of the estimator.
    concluded : tuple of ndarray
        At the end: what the runs of the fit call public, in short (`lengths_of`).
    guarantee : Guarantee, optional
        At the end: that of the partition's fit. It holds nothing, for the reason `AT_DRIVER`, and has the assumptions that the
        estimator makes; an estimator whose method protects nothing says so.
    label : str
        The name of the partition, or of the first one.
    columns : tuple of str, optional
        With the first total: the names of the columns.
    """

    header: Header | None
    integers: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    units: int = 0
    released: dict[str, object] | None = None
    concluded: tuple[NDArray[np.float64], ...] = ()
    guarantee: Guarantee | None = None
    label: str = ""
    columns: tuple[str, ...] | None = None


def label_of(number: int, source: object) -> str:
    """Return the name of a partition for messages: that of its file, if it is one."""
    path = getattr(source, "path", source)
    return Path(path).name if isinstance(path, str) else f"partition {number + 1}"


def described(source: Any) -> str:
    """Return what tells a partition from another one without reading it: the name and size of its file, and its block."""
    path = getattr(source, "path", source)
    if not isinstance(path, str):
        return "a part of a collection"
    of = f"block {source.number} of {source.of} {source.by_place}" if source is not path else "all"
    size = Path(path).stat().st_size if Path(path).exists() else 0
    return f"{Path(path).name} {size} {of}"


class _AbandonedError(Exception):
    """Ends the thread of a fit that nobody waits for."""


class PartitionFit:
    """The fit of one partition, in a thread of its own that stops at every ask."""

    def __init__(self, spec: FitSpec, partition: int, source: object) -> None:
        self._spec, self._partition, self._label = spec, partition, label_of(partition, source)
        self._columns: tuple[str, ...] | None = None
        self._free: Callable[[], None] | None = None
        self._concluded: list[NDArray[np.float64]] = []
        self._posted: queue.SimpleQueue[tuple[int, Contribution, Arrays] | BaseException] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | _AbandonedError] = queue.SimpleQueue()
        self._channels = self._asked = self._samples = 0
        self._waiting: tuple[int, Contribution, Arrays] | None = None
        self._thread = threading.Thread(target=self._work, args=(source,), daemon=True, name=f"partition-{partition}")
        self._thread.start()

    def at(self, place: int, answers: Sequence[Answer]) -> tuple[Contribution, Arrays]:
        """Return what the fit waits for after the first `place` answers; giving it those that it does not have yet.

        It may be called again for the same place, as a task that is run twice does.
        """
        while True:
            if self._waiting is None:
                posted = self._posted.get()
                if isinstance(posted, BaseException):
                    raise posted
                self._waiting = posted
            asked, contribution, arrays = self._waiting
            if asked == place or contribution.header is None:
                return contribution, arrays
            if asked > place:  # it went further than the driver knows, for a driver that was restarted
                raise ProtocolError(f"a fit at answer {place}", words(f"one at answer {asked}"), "Start the run again.")
            self._waiting = None
            self._answers.put(answers[asked])

    def abandon(self) -> None:
        """End the thread."""
        self._answers.put(_AbandonedError())

    def _work(self, source: object) -> None:
        try:
            loaded = self._spec.load(source)
            if not loaded.rows:
                self._posted.put((0, Contribution(None, label=self._label, columns=loaded.columns), {}))
                return
            self._columns, self._free = loaded.columns, loaded.free
            with interpose(self._relay, one_owner=self._spec.one_owner):
                fitted = _fresh(self._spec.estimator).fit(*loaded.arguments)
            released = {name: vars(fitted)[name] for name in fitted._released if name in vars(fitted)}
            header = Header(self._channels, "end", tuple(map(repr, lengths_of(released).tolist())))
            ended = Contribution(header, released=released, concluded=tuple(self._concluded), label=self._label)
            self._posted.put((self._asked, replace(ended, guarantee=fitted.guarantee_), {}))
        except _AbandonedError:
            self._posted.put(LostStateError())  # for a task that is waiting
        except InvalidInputError as error:
            named = error.expected if self._label in error.expected else f"{error.expected} in {self._label}"
            self._posted.put(InvalidInputError(named, words(error.got), error.fix))
        except TacitError as error:
            self._posted.put(error)
        except BaseException as error:  # its text could show a value of the data
            self._posted.put(RuntimeError(f"{self._label} failed with {type(error).__name__}"))

    def _relay(self, channel: Channel) -> Channel:
        self._channels += 1
        return _Relay(channel, self, self._channels - 1)

    def ask(self, contribution: Contribution, arrays: Arrays) -> Answer:
        """Post what the fit waits for, and wait."""
        if self._free is not None and not self._asked:
            self._free()
        named = replace(contribution, label=self._label, columns=None if self._asked else self._columns)
        self._posted.put((self._asked, named, arrays))
        self._asked += 1
        answer = self._answers.get()
        if isinstance(answer, _AbandonedError):
            raise answer
        return answer

    def conclude(self, public: Mapping[str, object]) -> None:
        """Note what a run of the fit calls public."""
        self._concluded.append(lengths_of(public))

    def sampler(self) -> np.random.Generator:
        """Return the generator of the next Poisson sample: unpredictable, and the same on every worker."""
        self._samples += 1
        numbers = b"".join(number.to_bytes(8, "big") for number in (self._partition, self._samples))
        return keyed_generator(hashlib.sha256(self._spec.secret + numbers).digest()[:16])


class _Relay:
    """A channel that hands contributions over and answers with what comes back."""

    def __init__(self, channel: Channel, fit: PartitionFit, number: int) -> None:
        self._channel, self._fit, self._number = channel, fit, number
        self._rate = 1.0
        self.transcript = Transcript()

    def open(self) -> None:
        self._channel.open()

    def close(self) -> None:
        self._channel.close()

    def conclude(self, public: Mapping[str, object]) -> None:
        """Note it: the driver compares what the estimators release in the end, and parties what is public."""
        self._fit.conclude(public)

    def _header(self, kind: str, signature: tuple[object, ...]) -> Header:
        rate, self._rate = self._rate, 1.0
        if isinstance(self._channel, Noisy):
            return Header(self._number, kind, signature, rate, self._channel.plan, self._channel.max_units)
        return Header(self._number, kind, signature, rate)

    def exchange(self, asks: Sequence[Sum]) -> Total:
        (ask,) = asks
        if isinstance(self._channel, Noisy):
            integers = {name: array.integers for name, array in self._channel.measure(asks).items()}
            contribution = Contribution(self._header("sum", ask.signature()), integers, units=ask.units or 0)
            answer = self._fit.ask(contribution, {})
        else:
            header = self._header("sum", ask.signature())
            contribution = Contribution(header, largest=_largest(ask.arrays), units=ask.units or 0)
            answer = self._fit.ask(contribution, ask.arrays)
        assert isinstance(answer, Total)  # the driver answers a sum with one
        return answer

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        self._rate = asks[0].rate
        return [self._fit.sampler().random(ask.units) < ask.rate for ask in asks]

    def choose(self, asks: Sequence[Choose]) -> int:
        (ask,) = asks
        if isinstance(self._channel, Noisy):
            scores, sensitivity = self._channel.measure_scores(asks)
            header = self._header("choose", (*ask.signature(), sensitivity))
            answer = self._fit.ask(Contribution(header, {"scores": scores}), {})
        else:
            header = self._header("choose", (*ask.signature(), 0.0))
            scored = {"scores": ask.scores}
            answer = self._fit.ask(Contribution(header, largest=_largest(scored)), scored)
        assert isinstance(answer, int)  # the driver answers a choice with the index of the winner
        return answer

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.none(AT_DRIVER)


def _fresh(estimator: Estimator) -> Estimator:
    from sklearn.base import clone

    fresh: Estimator = clone(estimator)
    return fresh


def _largest(arrays: Arrays) -> dict[str, float]:
    return {name: float(np.max(np.abs(array), initial=0.0)) for name, array in arrays.items()}


@dataclass
class _Run:
    spec: FitSpec
    used: float = field(default_factory=time.monotonic)
    """When a task last needed it."""
    answers: list[Answer] = field(default_factory=list)
    fits: dict[int, PartitionFit] = field(default_factory=dict)
    waiting: dict[int, tuple[int, Contribution, Arrays]] = field(default_factory=dict)
    """What fits that were dropped from memory waited for when they were."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, number: int, source: object, place: int) -> tuple[Contribution, Arrays]:
        """Return what the fit of a partition waits for after the first `place` answers.

        All but the last of the partitions that may stay in memory do stay. The others take turns in the last place: their fits
        are run again from the start in every round.
        """
        if number in self.waiting and self.waiting[number][0] == place:
            return self.waiting[number][1:]
        fit = self.fits.get(number) or PartitionFit(self.spec, number, source)
        contributed = fit.at(place, self.answers)
        resident = self.spec.resident
        if number in self.fits or resident is None or len(self.fits) < resident - 1:
            self.fits[number] = fit
        else:
            fit.abandon()
            if contributed[1]:  # will be asked for again, on a grid; integers are not
                self.waiting[number] = (place, *contributed)
        return contributed


_RUNS: dict[str, _Run] = {}
"""By identity: what this process holds of the runs that it takes part in."""
IDLE_SECONDS = 600.0
"""When another run begins, a run that no task has needed for so long is dropped: its driver was killed, and could not say so.
A driver that was only slow gives its workers everything again."""


def advance(
    run: str,
    place: int,
    known: int,
    answers: Sequence[Answer],
    sources: Mapping[int, object],
    spec: FitSpec | None = None,
) -> Contribution:
    """Bring the fits of these partitions to their ask number `place`, and return what they add together.

    Parameters
    ----------
    run : str
        The identity of the run.
    place : int
        Number of answers so far.
    known : int
        How many of them this worker was given before; `answers` are the others.
    answers : sequence
    sources : mapping of int to object
        The partitions of this worker, by number.
    spec : FitSpec, optional
        Not given to a worker that has it.
    """
    return _added(contribution for contribution, _ in _at(run, place, known, answers, sources, spec))


def encode(run: str, place: int, sources: Mapping[int, object], grids: Mapping[str, Grid]) -> Contribution:
    """Return the sum of the waiting arrays of a channel without noise, on grids that suit all workers."""
    return _added(
        replace(part, integers={name: grids[name].encode(array) for name, array in arrays.items()}, largest={})
        for part, arrays in _at(run, place, place, (), sources)
    )


def _at(
    run: str,
    place: int,
    known: int,
    answers: Sequence[Answer],
    sources: Mapping[int, object],
    spec: FitSpec | None = None,
) -> Iterator[tuple[Contribution, Arrays]]:
    """Yield what each of the fits waits for: one fit after the other, so that one at a time needs memory to work in."""
    held = _held(run, spec)
    with held.lock:
        if not held.fits:
            _limit_threads(held.spec.threads)
        if known > len(held.answers):  # this worker was restarted under the same address
            raise LostStateError
        held.answers[known:] = answers
        for number, source in sources.items():
            held.used = time.monotonic()
            yield held.at(number, source, place)
        held.used = time.monotonic()


def _held(run: str, spec: FitSpec | None) -> _Run:
    """Return what this process holds of a run; begin to hold it if it does not, and drop runs whose driver is gone."""
    if run in _RUNS:
        return _RUNS[run]
    if spec is None:  # this worker was restarted under the same address
        raise LostStateError
    if version("tacit") != spec.version:
        raise ProtocolError(
            f"tacit {spec.version} on every worker, as on the driver",
            words(f"tacit {version('tacit')}"),
            "Install the same version everywhere.",
        )
    identity, now = run.split("-", maxsplit=1)[0], time.monotonic()
    for other, held in list(_RUNS.items()):
        if other.split("-")[0] == identity or now - held.used > IDLE_SECONDS:
            forget(other)
    return _RUNS.setdefault(run, _Run(spec))


def _added(parts: Iterator[Contribution]) -> Contribution:
    """Add contributions as they come, so that two of them are in memory at a time."""
    total = next(parts)
    for part in parts:
        total = add_contributions(total, part)
    return total


def _limit_threads(count: int) -> None:
    """Use this many threads in every fit of this process, so that sums are rounded the same on every worker.

    Warnings of a fit concern all partitions together, and the driver repeats those that matter.
    """
    from threadpoolctl import threadpool_limits

    from tacit.factor import kernels

    kernels.THREADS = count
    threadpool_limits(count)
    warnings.simplefilter("ignore", PrivacyWarning)


class LostStateError(Exception):
    """The worker does not have the answers that the driver gave it before."""


def forget(run: str) -> None:
    """Drop everything that this process holds of a run."""
    held = _RUNS.pop(run, None)
    for fit in [] if held is None else held.fits.values():
        fit.abandon()


def add_contributions(*parts: Contribution) -> Contribution:
    """Add what several partitions or workers contribute: exactly, so that the order does not matter."""
    named = next((part for part in parts if part.columns is not None), parts[0])
    present = [part for part in parts if part.header is not None]
    first = present[0] if present else parts[0]
    for part in parts:
        if part.columns is not None and part.columns != named.columns:
            raise _different(part.label, named.label, "columns with other names, or in another order")
        if part.header is not None and part.header != first.header:
            if part.header.kind == "end":
                raise InvalidInputError(
                    "an estimator whose result follows from totals alone, for data in partitions",
                    words("one that has another result in every partition"),
                    "Choose another method, or fit all data in memory.",
                )
            raise _different(part.label, first.label, "columns or types")
    if len(present) < 2:
        return replace(first, columns=named.columns)
    integers = {name: exact_sum([part.integers[name] for part in present]) for name in first.integers}
    largest = {name: max(part.largest[name] for part in present) for name in first.largest}
    units = sum(part.units for part in present)
    return replace(first, integers=integers, largest=largest, units=units, columns=named.columns)


def _different(label: str, other: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        "the same columns and types in every partition",
        words(f"{label}, which differs from {other} in its {what}"),
        "Write all partitions with the same columns, in the same order, with the same types.",
    )
