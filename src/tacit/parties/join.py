"""One party's part in a job: connect, greet, fit over the masked channel, and leave with the model and its own rows."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.channel.masked import among
from tacit.channel.run import interpose
from tacit.errors import InvalidInputError, words
from tacit.parties.handshake import greet
from tacit.parties.identity import Identity, check_valid
from tacit.parties.job import Job
from tacit.parties.journal import Journal
from tacit.parties.link import Link, Traffic
from tacit.parties.models import PartyData, check_party_data, estimator_of
from tacit.parties.session import Session
from tacit.parties.wire import Wire
from tacit.privacy.fingerprint import fingerprint

CHECKPOINT = "checkpoint.db"
CONNECT_SECONDS = 60.0


@dataclass(frozen=True)
class Part:
    """What a party has at the end: the fitted estimator, and what the run took (`processor`: seconds of all cores)."""

    estimator: Any
    traffic: Traffic
    seconds: float
    processor: float

    def summary(self) -> dict[str, Any]:
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
    estimator: Any = None,
    resume: bool = False,
    listen: str = "",
    connect_seconds: float = CONNECT_SECONDS,
    on_round: Callable[[int, Traffic], None] = lambda number, traffic: None,
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
    listen : str, optional
        ``host:port`` to listen at, where that differs from the job's address.
    connect_seconds : float, default=60
        How long to wait for the others to come.
    on_round : callable, optional
        Called after every round with its number and the traffic so far.
    """
    index = _place(job, identity)
    estimator = estimator_of(job) if estimator is None else estimator
    check_party_data(data, job, identity.name, private=getattr(estimator, "private", None))
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    about = {
        "job": job.digest,
        "party": identity.name,
        "data": fingerprint(data.content),
    }
    link = Link(job, index)
    start, processor = time.monotonic(), time.process_time()
    with contextlib.ExitStack() as stack:
        # the port first: who holds it is the only one to touch the checkpoint
        link.wire = Wire(job, identity, index, link.arrived, listen=listen)
        stack.callback(link.wire.close)
        journal = Journal(place / CHECKPOINT, about, resume=resume)
        stack.callback(journal.close)
        link.wire.connect(connect_seconds)
        try:
            agreement = greet(link, job, rounds=journal.complete, resumed=resume)
            link.traffic.connecting, link.traffic.waiting = time.monotonic() - start, 0.0
            session = Session(job, link, agreement, journal, on_round=lambda number: on_round(number, link.traffic))
            stack.callback(session.close)
            settings = {"fraction_bits": job.fraction_bits, "words": job.word_bits // 64}
            with interpose(lambda channel: among(channel, session, **settings)):
                estimator.fit(data.X) if data.y is None else estimator.fit(data.X, data.y)
            session.finish()
        except BaseException as error:
            link.stop(error)
            raise
    return Part(estimator, link.traffic, time.monotonic() - start, time.process_time() - processor)


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
