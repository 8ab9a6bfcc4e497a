"""One party's part in a job: connect, greet, fit over the masked channel, and leave with the model and its own rows."""

from __future__ import annotations

import contextlib
import copy
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.channel.masked import among
from tacit.channel.run import interpose
from tacit.errors import InvalidInputError, PartyError, words
from tacit.estimators.base import Estimator
from tacit.parties.handshake import GoOnError, greet
from tacit.parties.identity import Identity, check_valid
from tacit.parties.job import Job
from tacit.parties.journal import RoundJournal, begun_in
from tacit.parties.link import AbsentError, Link, Traffic
from tacit.parties.models import PartyData, check_party_data, estimator_of
from tacit.parties.payoff import HeldOutRecords, Payoff, hold_out, measured
from tacit.parties.session import MissingRoundError, Session
from tacit.parties.wire import Wire
from tacit.privacy.fingerprint import fingerprint

CHECKPOINT = "checkpoint.db"
CONNECT_SECONDS = 60.0
"""Most time that a party waits for the others to connect, unless the caller says otherwise. Set by hand."""
AGAIN_SECONDS = 0.3
"""Between two attempts."""
PORT_SECONDS = 10.0
"""How long an attempt waits for the port of the one before."""


@dataclass(frozen=True)
class Part:
    """What a party has at the end.

    Attributes
    ----------
    estimator : estimator
        Fitted.
    traffic : Traffic
    seconds, processor : float
        What the run took; `processor` counts all cores.
    payoff : Payoff or None
        Whether joining paid off, if records were held out; it stays with the party.
    payoff_text : str
        The same in words, or why it was not measured.
    left : dict of str to int
        Parties that left for good, and the first round (counted from 1) without their records.
    """

    estimator: Estimator
    traffic: Traffic
    seconds: float
    processor: float
    payoff: Payoff | None = None
    payoff_text: str = ""
    left: dict[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, float]:
        """Return rounds, bytes and seconds as plain values."""
        return {
            **asdict(self.traffic),
            "seconds": self.seconds,
            "computing": max(0.0, self.seconds - self.traffic.waiting - self.traffic.connecting),
            "processor": self.processor,
        }


def join(
    job: Job,
    identity: Identity,
    data: PartyData,
    folder: str | os.PathLike[str],
    *,
    estimator: Estimator | None = None,
    resume: bool = False,
    retry: float = 0.0,
    held_out: float = 0.0,
    listen: str = "",
    connect_seconds: float = CONNECT_SECONDS,
    timeout: float | None = None,
    proxy: bool = False,
    on_begin: Callable[[], None] = lambda: None,
    on_round: Callable[[int, Traffic], None] = lambda number, traffic: None,
    on_wait: Callable[[str], None] = lambda text: None,
) -> Part:
    """Take part in `job` with this party's records, and return the fitted estimator.

    Parameters
    ----------
    job : Job
    identity : Identity
        The party's own; its certificate is in the job.
    data : PartyData
    folder : path
        Where the checkpoint is kept.
    estimator : estimator, optional
        The job's, if not given.
    resume : bool, default=False
        Go on from the checkpoint.
    retry : float, default=0
        Seconds that this party waits for a peer that was lost, and then goes on by itself; every completed round grants
        them anew. An existing checkpoint is then resumed without `resume`. With 0, a job that survives the loss waits for
        `connect_seconds` before it goes on without the peer; other jobs end.
    held_out : float, default=0
        Fraction of this party's rows or ratings that the fit does not see. The party's own model and the joint one are
        compared on them (`tacit.parties.payoff`); what comes out stays here.
    listen : str, optional
        ``host:port`` to listen at, where that differs from the job's address.
    connect_seconds : float, default=60
        How long to wait for the others to come.
    timeout : float, optional
        Seconds without a sign of life after which a party counts as gone, in place of the job's.
    proxy : bool, default=False
        Reach the others through the proxy that the environment names.
    on_begin : callable, optional
        Called before the first number is sent, and again before the first one of every later attempt or resumed run.
    on_round : callable, optional
        Called after every round with its number and the traffic so far.
    on_wait : callable, optional
        Called with a line of text when this party waits for others: whom it waits for, and for how long it will.
    """
    index = _place(job, identity)
    estimator = estimator_of(job) if estimator is None else estimator
    check_party_data(data, job, identity.name, private=getattr(estimator, "private", None))
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = {
        "job": job.identity,
        "party": identity.name,
        "data": fingerprint(data.content),
        "held-out fraction": repr(float(held_out)),
    }
    start, processor, traffic = time.monotonic(), time.process_time(), Traffic()
    resume = resume or (retry > 0 and (place / CHECKPOINT).exists())
    patience = _Patience(job, retry, connect_seconds, on_wait, place / CHECKPOINT, start + connect_seconds)
    if retry > 0:  # the port may still be that of a process that is about to end
        patience.failed = start
    fitted: _Fitted | None = None
    while True:
        link = Link(job, index, timeout=timeout, on_wait=lambda names: on_wait(f"waiting for {', '.join(names)}"))
        link.traffic = traffic
        settings = {"listen": listen, "beat_seconds": link.beat_seconds, "proxy": proxy}
        try:
            with _opened(job, identity, index, link, settings) as stack:
                journal = stack.enter_context(
                    contextlib.closing(RoundJournal(place / CHECKPOINT, about, resume=resume))
                )
                patience.without |= set(journal.left)
                kept, held = _divided(data, job, estimator, held_out, journal)
                given = (job, index, link, journal, copy.copy(estimator), kept, patience)
                fitted = _fit(*given, on_begin, on_round)
            if not patience.serves(fitted, traffic):
                break
        except InvalidInputError:
            if link.wire is not None or not patience.waits_for_port():
                raise
        except GoOnError as dropped:
            patience.leave_out(dropped.without)
        except PartyError as error:
            if not patience.goes_on(error, traffic):
                if fitted is None:
                    raise
                break
        resume = resume or (place / CHECKPOINT).exists()
        time.sleep(AGAIN_SECONDS)
    left = {job.parties[party].name: number + 1 for party, number in fitted.left.items()}
    part = Part(fitted.estimator, traffic, time.monotonic() - start, time.process_time() - processor, left=left)
    if held is None:
        return part
    payoff, text = measured(estimator, kept, fitted.estimator, held)
    return replace(part, payoff=payoff, payoff_text=text)


@dataclass(frozen=True)
class _Fitted:
    """The result of an attempt that finished: the model, who left before being done (`behind`), and who left for good."""

    estimator: Estimator
    behind: list[str]
    left: dict[int, int]


@dataclass
class _Patience:
    """How long a party tries again, and which parties it goes on without."""

    job: Job
    retry: float
    connect_seconds: float
    on_wait: Callable[[str], None]
    checkpoint: Path
    wait_until: float
    reached: int = -1
    failed: float = 0.0
    without: frozenset[int] = frozenset()

    def may_wait(self, traffic: Traffic, seconds: float | None = None) -> bool:
        """Whether the time that `retry` grants (or these seconds) is not over; completed rounds grant it anew."""
        granted = self.retry if seconds is None else seconds
        if traffic.rounds > self.reached:
            self.reached, self.wait_until = traffic.rounds, time.monotonic() + granted
        return granted > 0 and time.monotonic() < self.wait_until

    def waits_for_port(self) -> bool:
        """Whether the port may be that of the attempt before, which is free in a moment."""
        return self.failed > 0 and time.monotonic() < self.failed + PORT_SECONDS

    def serves(self, fitted: _Fitted, traffic: Traffic) -> bool:
        """Whether this party, which is done, stays because other parties may lack the last total."""
        self.failed = time.monotonic()
        listed = ", ".join(fitted.behind)
        if self.may_wait(traffic) and fitted.behind:
            self.on_wait(f"finished; waiting for {listed}, which may lack the last total")
            return True
        if fitted.behind:
            warnings.warn(
                f"{listed} left before the end. This party has its model; {listed} may need it to come back (--resume) to get "
                "the last total.",
                UserWarning,
                stacklevel=3,
            )
        return False

    def goes_on(self, error: PartyError, traffic: Traffic) -> bool:
        """Whether to try again after a peer was lost: with it, or without it where the job allows that."""
        self.failed = time.monotonic()
        may_leave_out = len(self.without) < self.job.survive and begun_in(self.checkpoint) > 0
        # a job that survives the loss waits for the lost one as long as for parties that come, and then goes on without it
        may_wait = self.may_wait(traffic, self.retry or (self.connect_seconds if may_leave_out else 0.0))
        absent = self.without | set(error.parties) if isinstance(error, AbsentError) else self.without
        if may_leave_out and self.without < absent and len(absent) <= self.job.survive:
            self.leave_out(absent)
            return True
        if not may_wait:
            return False
        self.on_wait(f"{error.got}; trying again for {self.wait_until - time.monotonic():.0f} s")
        return True

    def may_go_alone(self, journal: RoundJournal, error: PartyError, traffic: Traffic) -> bool:
        """Whether a party that cannot greet the others may try to finish from the totals that it has.

        As long as `retry` says it waits for them, because they may lack a total. If it has compared results with all of them,
        they lack none, and it waits only for those that were here a moment ago.
        """
        are_absent = isinstance(error, AbsentError)
        if self.may_wait(traffic) and not (journal.concluded and are_absent):
            return False
        return journal.concluded or (are_absent and 0 < journal.begun == journal.complete)

    def leave_out(self, parties: frozenset[int]) -> None:
        """Try to go on without some parties."""
        names = ", ".join(self.job.parties[party].name for party in sorted(parties))
        self.on_wait(f"going on without {names}, if the others miss the same")
        self.without, self.failed = parties, time.monotonic()
        self.wait_until = self.failed + max(self.retry, self.connect_seconds)


def _divided(
    data: PartyData, job: Job, estimator: Estimator, fraction: float, journal: RoundJournal
) -> tuple[PartyData, HeldOutRecords | None]:
    """Hold records out by a secret of the run, so that a resumed run holds out the same."""
    if fraction == 0:
        return data, None
    adjacency = getattr(estimator, "adjacency", "add-remove")
    unit = getattr(estimator, "unit", "row")
    return hold_out(data, job, fraction, journal.secret("held out"), adjacency=adjacency, unit=unit)


@contextlib.contextmanager
def _opened(
    job: Job, identity: Identity, index: int, link: Link, settings: dict[str, Any]
) -> Iterator[contextlib.ExitStack]:
    """Listen, and tell the others in the end if something went wrong."""
    with contextlib.ExitStack() as stack:
        # open the port first: only the process that holds it may touch the checkpoint
        link.wire = Wire(job, identity, index, link, **settings)
        stack.callback(link.wire.close)
        try:
            yield stack
        except BaseException as error:
            link.stop(error)
            raise


def _fit(
    job: Job,
    index: int,
    link: Link,
    journal: RoundJournal,
    estimator: Estimator,
    data: PartyData,
    patience: _Patience,
    on_begin: Callable[[], None],
    on_round: Callable[[int, Traffic], None],
) -> _Fitted:
    """Greet the others and fit; a party that has all totals fits without them if they do not come."""
    start = time.monotonic()
    agreement, missed = None, None
    try:
        agreement = greet(link, job, journal, patience.wait_until, patience.without)
    except PartyError as error:
        missed = error
        if not patience.may_go_alone(journal, error, link.traffic):
            raise
    link.traffic.connecting += time.monotonic() - start

    def reached(number: int) -> None:
        link.traffic.rounds = number
        on_round(number, link.traffic)

    session = Session(
        job,
        index,
        journal,
        None if agreement is None else link,
        agreement,
        on_begin=on_begin,
        on_round=reached,
    )
    try:
        settings = {"fraction_bits": job.fraction_bits, "words": job.word_bits // 64}
        start = time.monotonic()
        with interpose(lambda channel: among(channel, session, **settings)):
            estimator.fit(data.X) if data.y is None else estimator.fit(data.X, data.y)
        link.traffic.fitting += time.monotonic() - start
        if not journal.concluded:
            warnings.warn(
                "The other parties are gone. This party has all totals, and its model is made of them; it was not compared "
                "with the models of the others.",
                UserWarning,
                stacklevel=3,
            )
        return _Fitted(estimator, [] if agreement is None else link.finish(), journal.left)
    except MissingRoundError:
        assert missed is not None
        raise missed from None
    finally:
        session.close()


def _place(job: Job, identity: Identity) -> int:
    index = job.place(identity.name)
    for party in job.parties:  # a job may be read long before it is joined
        check_valid(party.certificate, party.name)
    if job.parties[index].fingerprint != identity.fingerprint:
        raise InvalidInputError(
            f"the identity of {identity.name} that the job names ({job.parties[index].fingerprint[:19]})",
            words(f"another one ({identity.fingerprint[:19]})"),
            "Use the folder with the right identity, or have the job made anew.",
        )
    return index
