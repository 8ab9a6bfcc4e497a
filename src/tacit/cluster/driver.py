"""The driver's side: it assigns partitions to workers, adds up, adds the noise once, and hands the answers back."""

from __future__ import annotations

import math
import os
import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import TypeVar

import numpy as np

from tacit.channel.asks import Sum, Total, normalise_columns
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import LIMIT, Grid
from tacit.channel.noisy import Noisy
from tacit.channel.peers import Alone
from tacit.channel.run import Channel, interposed, is_alone
from tacit.cluster.here import Cluster, ClusterTask
from tacit.cluster.journal import ClusterJournal, JournalledAccount
from tacit.cluster.worker import (
    AT_DRIVER,
    Answer,
    Contribution,
    FitSpec,
    Header,
    Load,
    LostStateError,
    add_contributions,
    advance,
    described,
    encode,
    forget,
)
from tacit.errors import InvalidInputError, PartyError, ProtocolError, kind_of, words
from tacit.estimators.base import Estimator
from tacit.privacy.ledger.spending import Spending, open_ledger
from tacit.progress import tell
from tacit.validation import check_count

FAN_IN = 8
"""Contributions of this many workers are added in one task: few enough to fit in its memory, many enough for a flat tree."""
POLL_SECONDS = 1.0
"""How often the driver looks whether workers that it waits for are still there."""
SLOWER, LEAST_SECONDS = 3.0, 20.0
"""A worker that takes this many times as long as half of them took, and at least this long, loses its partitions to others; but
not before twice the time that these would need to repeat all rounds."""

ONE_PARTITION = "a unit that is added, removed or replaced changes one partition of the data and no other"


@dataclass(frozen=True)
class Progress:
    """Where a fit on a cluster is; nothing in it depends on the data.

    Attributes
    ----------
    rounds : int
        Totals so far.
    planned : int or None
        All totals of a private fit; None where the number is not known in advance.
    partitions, workers : int
        Partitions of the data, and workers that have some of them.
    dashboard : str or None
        The address of Dask's dashboard, if there is one.
    """

    rounds: int
    planned: int | None
    partitions: int
    workers: int
    dashboard: str | None = None

    def __str__(self) -> str:
        of = "" if self.planned is None else f" of {self.planned}"
        return f"total {self.rounds}{of}, {self.partitions} partitions on {self.workers} workers"


OnRound = Callable[[Progress], None]
Model = TypeVar("Model", bound=Estimator)


def drive(
    client: Cluster,
    estimator: Model,
    sources: Sequence[object],
    load: Load,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    threads: int = 1,
    resident: int | None = None,
    patience: float = 300.0,
    keep_checkpoint: bool = False,
    on_round: OnRound | None = None,
) -> Model:
    """Fit an estimator to the sources, one per partition, that `load` reads on the workers; see `tacit.cluster.run_on`."""
    alone = is_alone()
    if checkpoint is not None and not alone:
        raise InvalidInputError(
            "no checkpoint of the cluster for a fit among parties",
            words("one"),
            "The checkpoint of the party keeps the totals: a cluster that is lost is made anew, and gets them again.",
        )
    journal = ClusterJournal.at(checkpoint)
    try:
        run = _ClusterRun(
            client,
            estimator,
            sources,
            load,
            journal,
            threads=check_count(threads, "threads"),
            resident=resident,
            patience=patience,
        )
        try:
            run.fit(on_round or (lambda progress: None))
        finally:
            run.close()
        if not keep_checkpoint:
            journal.end()
    finally:
        journal.release()
    return estimator


class _Resumable(Alone):
    """The memory of a run that a checkpoint can continue."""

    def __init__(self, journal: ClusterJournal) -> None:
        self._journal = journal

    @property
    def resumable(self) -> bool:  # type: ignore[override]
        return self._journal.keeps

    @property
    def charged(self) -> bool:  # type: ignore[override]
        return self._journal.charged

    def note_charge(self) -> None:
        """Do nothing: `JournalledAccount` has noted it."""


class _ClusterRun:
    def __init__(
        self,
        client: Cluster,
        estimator: Estimator,
        sources: Sequence[object],
        load: Load,
        journal: ClusterJournal,
        *,
        threads: int = 1,
        resident: int | None = None,
        patience: float = 300.0,
    ) -> None:
        if not sources:
            raise InvalidInputError("at least one partition", words("none"), "Give the files or parts of the data.")
        self._client, self._estimator, self.journal, self._patience = client, estimator, journal, patience
        self._sources = dict(enumerate(sources))
        ledger, dataset = getattr(estimator, "ledger", None), getattr(estimator, "dataset", None)
        if ledger is not None and dataset is None:
            raise InvalidInputError(
                "dataset= with ledger= for a fit on a cluster",
                words("none"),
                "Name the account: the driver does not see the data that would name it.",
            )
        self._spending = None if ledger is None else Spending.on(open_ledger(ledger), dataset, type(estimator).__name__)
        journal.begin(estimator, f"{threads} {load!r} {[described(source) for source in sources]}", self._spending)
        self._spec = FitSpec(
            f"{journal.identity}-{secrets.token_hex(4)}",  # answers are replayed to workers that a dead driver left behind
            _without_secrets(estimator),
            load,
            journal.secret,
            threads,
            version("tacit"),
            resident,
            is_alone(),
        )
        self._answers: list[Answer] = []
        self._given: dict[str, int] = {}
        self._place: dict[int, str] = {}
        self._avoided: set[str] = set()
        self._computed = 0.0  # seconds that half of the workers took, over all rounds
        self._channels: dict[int, Channel] = {}
        self._alone = is_alone()
        self._counter = self._first = 0

    def fit(self, on_round: OnRound) -> None:
        while True:
            contribution = self._collected()
            if contribution.header is None:
                raise InvalidInputError("rows in at least one partition", words("none"), "Check the files.")
            if contribution.header.kind == "end":
                break
            self._answers.append(self._answer(contribution, contribution.header))
            progress = self._progress(contribution.header)
            tell("sum", progress.rounds, progress.planned)
            on_round(progress)
        if not self._answers:
            raise InvalidInputError(
                "an estimator that asks for totals", kind_of(self._estimator), "Fit it in memory: it is no program."
            )
        for channel in self._channels.values():
            channel.close()
        self.journal.conclude(self._spending)
        self._take_over(contribution)

    def _progress(self, header: Header) -> Progress:
        plan = header.plan
        planned = None if plan is None else sum(step.count for step in plan.steps) + len(plan.choices)
        workers = len(set(self._place.values()))
        return Progress(len(self._answers), planned, len(self._sources), workers, dashboard_of(self._client))

    def close(self) -> None:
        """Let the workers forget the run; settle what was charged and not released."""
        for channel in self._channels.values():
            channel.close()
        with suppress(Exception):  # a cluster that is gone has forgotten
            self._client.run(
                forget, self._spec.run, on_error="ignore", wait=False
            )  # a worker that hangs would not answer

    def _take_over(self, ended: Contribution) -> None:
        estimator = self._estimator
        for name, value in (ended.released or {}).items():
            setattr(estimator, name, value)
        channels = list(self._channels.values())
        if len(channels) > 1 and any(isinstance(channel, Noisy) for channel in channels):
            raise ProtocolError("one private run per fit on a cluster", words(f"{len(channels)}"), "Fit one by one.")
        for channel, lengths in zip(channels, ended.concluded, strict=False):
            if not self._alone:
                channel.conclude({f"{place:06}": np.array([one]) for place, one in enumerate(lengths)})
        stated = ended.guarantee
        if stated is None or stated.reason == AT_DRIVER:
            assumed = () if stated is None else stated.assumptions
            own = (ONE_PARTITION,) if len(self._sources) > 1 and channels[0].guarantee.holds else ()
            estimator.guarantee_ = channels[0].guarantee.assuming(*assumed, *own)
        else:  # the estimator itself says that it protects nothing, and why
            estimator.guarantee_ = stated

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer(self, contribution: Contribution, header: Header) -> Answer:
        """Return the answer to what all partitions wait for; it is kept in the journal before anyone sees it."""
        number = len(self._answers)
        recorded = self.journal.answer(number)
        channel = self._channel(header)
        if recorded is not None:
            if isinstance(channel, Noisy) and isinstance(recorded, Total):
                channel.recall(Sum.described(header.signature), recorded, rate=header.rate)
            elif isinstance(channel, Noisy) and isinstance(recorded, int):
                channel.recall_choice(recorded)
            return recorded
        self.journal.go_on(self._spending)
        if isinstance(channel, Noisy) and header.kind == "choose":
            answer: Answer = channel.choose_from(contribution.integers["scores"], header.signature[-1])
        elif isinstance(channel, Noisy):
            ask = Sum.described(header.signature)
            measured = channel.scaled(ask, contribution.integers)
            answer = channel.release(ask, measured, units=contribution.units, rate=header.rate)
        elif isinstance(channel, Clear):
            answer = _in_the_clear(contribution, header, self._grids(contribution))
        else:
            answer = self._elsewhere(channel, contribution, header)
        self.journal.keep(number, answer)
        return answer

    def _elsewhere(self, channel: Channel, contribution: Contribution, header: Header) -> Total:
        """Hand the total of this cluster to a channel that reaches further: the exact sums among parties, or an observer."""
        if header.kind != "sum" or header.rate != 1:
            raise ProtocolError(
                "sums over all units, over this channel",
                words(f"a {header.kind} or a sample"),
                "Fit it on one cluster.",
            )
        ask = Sum.described(header.signature[:5])
        if header.plan is None:
            grids = self._grids(contribution)
        else:
            made = Noisy(header.plan, max_units=header.max_units)
            grids = {name: array.grid for name, array in made.scaled(ask, {}).items()}
        ask.arrays = {name: grids[name].decode(array) for name, array in contribution.integers.items()}
        ask.units = min(contribution.units, header.max_units) if header.plan is not None else contribution.units
        return channel.exchange([ask])

    def _channel(self, header: Header) -> Channel:
        if header.channel not in self._channels:
            channel: Channel = Clear()
            if header.plan is not None:
                seed = getattr(self._estimator, "insecure_seed", None)
                spending = None if self._spending is None else JournalledAccount(self._spending, self.journal)
                channel = Noisy(header.plan, max_units=header.max_units, spending=spending, insecure_seed=seed)
            channel = channel if self._alone else interposed(channel)
            if self._alone and isinstance(channel, Noisy):
                channel.joined(_Resumable(self.journal))
            channel.open()
            self._channels[header.channel] = channel
        return self._channels[header.channel]

    def _grids(self, contribution: Contribution) -> dict[str, Grid]:
        return {name: _grid_for(size, len(self._sources)) for name, size in contribution.largest.items()}

    # ------------------------------------------------------------------------------------------------ tasks and workers

    def _collected(self) -> Contribution:
        """Return the sum of all partitions' next contributions, whatever happens to workers on the way."""
        place = len(self._answers)
        while True:
            try:
                if self._all_released():  # what is left is post-processing, the same in every partition
                    summed = self._everyone(self._advance, place, least=True)
                    if summed.header is not None and summed.header.kind == "end":
                        return summed
                summed = self._everyone(self._advance, place)
                if summed.largest:
                    exact = self._everyone(self._encode, place, self._grids(summed))
                    summed = replace(summed, integers=exact.integers)
            except _WorkerLostError:
                continue
            except CancelledError as error:  # Dask cancels all tasks when it loses its scheduler
                if self._client.status != "running":
                    raise _scheduler_lost() from error
                continue
            except OSError as error:  # the scheduler does not answer
                raise _scheduler_lost() from error
            return summed

    def _all_released(self) -> bool:
        """Whether a private fit has all totals that were planned."""
        plans = [channel.plan for channel in self._channels.values() if isinstance(channel, Noisy)]
        if len(plans) != 1 or len(self._channels) != 1:
            return False
        return len(self._answers) >= sum(step.count for step in plans[0].steps) + len(plans[0].choices)

    def _advance(self, worker: str, numbers: Sequence[int], place: int) -> ClusterTask:
        spec = None if worker in self._given else self._spec
        known = self._given.get(worker, 0)
        self._given[worker] = place
        answers = self._answers[known:place]
        return self._submit(worker, advance, self._spec.run, place, known, answers, self._of(numbers), spec)

    def _encode(self, worker: str, numbers: Sequence[int], place: int, grids: Mapping[str, Grid]) -> ClusterTask:
        return self._submit(worker, encode, self._spec.run, place, self._of(numbers), grids)

    def _of(self, numbers: Sequence[int]) -> dict[int, object]:
        return {number: self._sources[number] for number in numbers}

    def _submit(self, worker: str, function: Callable[..., object], *arguments: object) -> ClusterTask:
        self._counter += 1
        key = f"tacit-{function.__name__}-{self._spec.run}-{self._counter}"
        with warnings.catch_warnings():
            # a total is sent once to every worker, with its next task; Dask would warn of more than 10 MB
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._client.submit(
                function, *arguments, key=key, workers=[worker], allow_other_workers=False, pure=False, retries=0
            )

    def _everyone(self, submit: Callable[..., ClusterTask], *arguments: object, least: bool = False) -> Contribution:
        """Submit one task per worker for its partitions, wait for all, and return their sum; `least` takes one partition."""
        self._assign()
        groups: dict[str, list[int]] = {}
        for number, worker in sorted(self._place.items()):
            if not least or number == self._first:
                groups.setdefault(worker, []).append(number)
        futures = {worker: submit(worker, numbers, *arguments) for worker, numbers in groups.items()}
        self._wait(futures)
        parts = list(futures.values())
        while len(parts) > FAN_IN:  # a tree, so that the driver gets few arrays
            parts = [
                self._client.submit(add_contributions, *parts[start : start + FAN_IN], pure=False)
                for start in range(0, len(parts), FAN_IN)
            ]
        try:
            return add_contributions(*self._client.gather(parts))
        except (OSError, KeyError) as error:  # what a worker computed was lost before it was read
            if self._client.status != "running":
                raise
            raise _WorkerLostError from error

    def _wait(self, futures: Mapping[str, ClusterTask]) -> None:
        """Wait for all tasks; raise what a partition raised, and `_WorkerLostError` if a worker went away."""
        begun, half = time.monotonic(), math.inf
        while True:
            if any(future.status == "pending" for future in futures.values()):
                from distributed import wait

                with suppress(TimeoutError):
                    wait(list(futures.values()), timeout=POLL_SECONDS)
            alive, lost = self._alive(), []
            for worker, future in futures.items():
                if future.status == "error":
                    error = future.exception()
                    assert error is not None  # the task failed
                    if not isinstance(error, LostStateError) and not _means_death(error):
                        raise error
                    lost.append(worker)
                elif future.status in ("cancelled", "lost") or (worker not in alive and future.status != "finished"):
                    lost.append(worker)
            waited, open_ones = time.monotonic() - begun, [w for w, one in futures.items() if one.status != "finished"]
            if len(futures) > 1 and 2 * len(open_ones) <= len(futures):
                half = min(half, waited)
            slow = open_ones if not lost and waited > self._patience_with(half) else []
            self._avoided |= set(slow)
            lost += slow
            if lost:
                for worker in lost:
                    self._given.pop(worker, None)
                    if worker not in alive or worker in slow:
                        self._place = {n: w for n, w in self._place.items() if w != worker}
                self._client.cancel([futures[worker] for worker in lost])
                raise _WorkerLostError
            if not open_ones:
                self._computed += min(half, waited)
                return

    def _patience_with(self, half: float) -> float:
        """Return how long to wait for the last workers where half of them took `half` seconds."""
        held = max(Counter(self._place.values()).values(), default=1)
        return max(SLOWER * half, LEAST_SECONDS, half + 2 * (self._computed + half) / held)

    def _assign(self) -> None:
        """Give every partition without a worker to the one with the fewest; wait for one if there is none."""
        deadline = time.monotonic() + self._patience
        while not (alive := sorted(self._alive())):
            if time.monotonic() > deadline:
                raise PartyError(
                    f"a worker within {self._patience:g} seconds",
                    words("none"),
                    "Start workers. With a checkpoint, the same call goes on where this one stopped.",
                )
            time.sleep(POLL_SECONDS)
        self._place = {number: worker for number, worker in self._place.items() if worker in alive}
        alive = [worker for worker in alive if worker not in self._avoided] or alive
        load = dict.fromkeys(alive, 0)
        for worker in self._place.values():
            load[worker] = load.get(worker, 0) + 1
        for number in self._sources:
            if number not in self._place:
                worker = min(alive, key=lambda one: (load[one], one))
                self._place[number], load[worker] = worker, load[worker] + 1

    def _alive(self) -> set[str]:
        if self._client.status != "running":
            raise _scheduler_lost()
        return set(self._client.scheduler_info(n_workers=-1)["workers"])


class _WorkerLostError(Exception):
    """A worker went away: its partitions are given to others, and the round is collected again."""


def _scheduler_lost() -> PartyError:
    return PartyError(
        "a scheduler that answers",
        words("none"),
        "Start the cluster again. With a checkpoint, the same call goes on where this one stopped, and is charged once.",
    )


def dashboard_of(client: Cluster) -> str | None:
    """Return the address of Dask's dashboard; None if the scheduler has none, where Dask names an address all the same."""
    served = "dashboard" in client.scheduler_info(n_workers=0).get("services", {}) and find_spec("bokeh") is not None
    return str(client.dashboard_link) if served else None


def _means_death(error: BaseException) -> bool:
    """Whether a task failed because its worker did."""
    return isinstance(error, OSError) or type(error).__name__ == "KilledWorker"


def _without_secrets(estimator: Estimator) -> Estimator:
    """Return a copy of the estimator for the workers: nothing that they do not need."""
    from sklearn.base import clone

    settings = {**estimator.get_params(deep=False), "verbose": False}  # the driver tells
    settings |= dict.fromkeys({"ledger", "dataset", "insecure_seed"} & settings.keys())
    if settings.get("catalogue") is not None:
        from tacit.factor.ratings.table import as_ids

        # an array is copied at once, here and per partition; `clone` copies a list item by item
        settings["catalogue"] = as_ids(settings["catalogue"], "catalogue")
    fresh: Estimator = clone(type(estimator)(**settings))
    return fresh


def _grid_for(largest: float, partitions: int) -> Grid:
    """Return the finest grid on which a sum of this many numbers of this size cannot leave the range."""
    if not math.isfinite(largest):
        raise InvalidInputError("finite statistics from every partition", words("NaN or infinity"), "Correct the data.")
    if largest == 0:
        return Grid(0)
    return Grid(max(math.ceil(math.log2(largest * partitions / LIMIT)) + 1, -900))


def _in_the_clear(contribution: Contribution, header: Header, grids: Mapping[str, Grid]) -> Answer:
    totals = {name: grids[name].decode(integers) for name, integers in contribution.integers.items()}
    if header.kind == "choose":
        return int(np.argmax(totals["scores"]))
    if header.signature[0] == "normed-sum":
        totals = {name: normalise_columns(array) for name, array in totals.items()}
    return Total(totals)
