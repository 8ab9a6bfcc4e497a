"""Parties on one computer: real processes, real sockets and real TLS on loopback, from one call."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import InvalidInputError, PartyError, TacitError, kind_of, parameter, words
from tacit.estimators.base import pickling_everything
from tacit.estimators.registry import JOBS
from tacit.parties.identity import Identity
from tacit.parties.job import Job, Party
from tacit.parties.join import Part, join
from tacit.parties.link import Traffic
from tacit.parties.memory import keep_freed_memory
from tacit.parties.models import PartyData, check_party_data
from tacit.parties.relations import are_relations, check_sites, outlines_of, site_of
from tacit.progress import part_named, tell

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Progress = Callable[[int, int, Traffic], None]
Arguments = tuple[Job, Identity, PartyData, str | os.PathLike[str], dict[str, Any]]
"""Those of `join`, by place and by name."""
Model = TypeVar("Model")


def run_local(
    estimator: Model,
    parts: Sequence[Any],
    targets: Sequence[Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    on_round: Progress | None = None,
    **settings: Any,
) -> list[Model]:
    """Fit an estimator among parties, each a process of its own on this computer, and return the fitted estimators.

    Parameters
    ----------
    estimator : estimator
        Any that runs its programs over a channel; it is copied to every party.
    parts : sequence of array-like or sparse matrix
        One table per party, all with the same columns. For coupled models one `Relation` or a list of relations per party:
        factors with the same name are the same factor, and those that several parties use are shared.
    targets : sequence of array-like, optional
        One per party, where `fit` takes a `y`.
    names : sequence of str, optional
    folder : path, optional
        Where checkpoints are kept; a temporary one if not given.
    on_round : callable, optional
        Called with the party, the round and the traffic after every round.
    **settings
        Of the `Job`: ``colluding``, ``word_bits``, ``fraction_bits``, ``hide_norms``, ``timeout``.

    Returns
    -------
    list of estimators
        One per party, in order, with the party's own attributes; ``traffic_`` says what it sent and how long it waited.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateMoments
    >>> from tacit.parties import run_local
    >>> X = np.random.default_rng(0).dirichlet(np.ones(3), size=900)
    >>> models = run_local(PrivateMoments(epsilon=1.0, delta=1e-6), [X[:300], X[300:500], X[500:]])  # doctest: +SKIP
    >>> bool((models[0].mean_ == models[2].mean_).all())  # doctest: +SKIP
    True
    """
    from sklearn.base import clone

    held = list(parts)
    quiet = clone(estimator).set_params(verbose=False) if hasattr(estimator, "verbose") else estimator
    identities = [Identity.create(name) for name in names or [f"party-{place}" for place in range(len(held))]]
    features = _features(held, [identity.name for identity in identities], estimator)
    job = local_job(identities, "local", {}, features, model=type(estimator).__name__, **settings)
    data = [
        PartyData(site_of(features, identity.name, part))
        if are_relations(part)
        else check_party_data(PartyData(part, None if targets is None else targets[place]), job, identity.name)
        for place, (part, identity) in enumerate(zip(held, identities, strict=True))
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(part_named(type(estimator).__name__, verbose=getattr(estimator, "verbose", False)))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()) if folder is None else folder)
        arguments = [
            (job, identity, data[index], place / identity.name, {"estimator": quiet})
            for index, identity in enumerate(identities)
        ]
        fitted = in_processes(arguments, _telling(on_round), all_tell=on_round is not None)
        tell("done")
    for part in fitted:
        part.estimator.traffic_ = part.summary()
    return [part.estimator for part in fitted]


def _telling(on_round: Progress | None) -> Progress:
    """Return a function that tells the rounds of the first party, and calls `on_round` for all of them."""

    def told(party: int, number: int, traffic: Traffic) -> None:
        if party == 0:
            tell("round", number)
        if on_round is not None:
            on_round(party, number, traffic)

    return told


def _features(parts: Sequence[Any], names: Sequence[str], estimator: Any) -> list[str]:
    """Return the columns of the parties' tables, or a line for each of their relations."""
    private = getattr(estimator, "private", None)
    if any(are_relations(part) for part in parts):
        for part, name in zip(parts, names, strict=True):
            if not are_relations(part):
                raise InvalidInputError(f"relations from {name}, as from others", kind_of(part), "Give a list.")
        lines = [
            line for part, name in zip(parts, names, strict=True) for line in outlines_of(part, name, private=private)
        ]
        check_sites(lines, names, private, estimator)
        return lines
    width = {part.shape[1] for part in parts}
    if len(width) != 1:
        raise InvalidInputError(
            "the same number of columns from every party", parameter(sorted(width)), "Use the same columns."
        )
    return [f"column {place}" for place in range(width.pop())]


def local_job(
    identities: Sequence[Identity],
    name: str,
    model_settings: Mapping[str, Any],
    features: Sequence[str],
    **settings: Any,
) -> Job:
    """Return a job for parties on this computer, each at a free port."""
    ports = free_ports(len(identities))
    parties = [
        Party(identity.name, f"127.0.0.1:{port}", identity.certificate)
        for identity, port in zip(identities, ports, strict=True)
    ]
    return Job.parse(Job(name, settings=model_settings, features=features, parties=parties, **settings).text())


def in_processes(
    arguments: Sequence[Arguments], on_round: Progress | None = None, *, all_tell: bool = True
) -> list[Part]:
    """Run `join` for each set of arguments in a new process; raise the first error, if there is one.

    `on_round` is called with the rounds of all processes, or of the first one only.
    """
    # the parties are forked from a server that has imported what they need and has no threads of gRPC: they start quickly
    context = multiprocessing.get_context("forkserver")
    models = [entry.module for entry in JOBS.values()]
    context.set_forkserver_preload([*models, "tacit.parties.join", "tacit.parties.warm"])
    threads = max(1, (os.cpu_count() or 1) // len(arguments))
    processes, pipes = [], []
    for place, given in enumerate(arguments):
        ours, theirs = context.Pipe()
        tells = on_round is not None and (all_tell or place == 0)
        process = context.Process(target=_party, args=(theirs, given, threads, tells), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        pipes.append(ours)
    try:
        return _collected(pipes, [given[1].name for given in arguments], on_round)
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _party(pipe: Connection, given: Arguments, threads: int, tell: bool) -> None:
    from threadpoolctl import threadpool_limits

    from tacit.factor import kernels

    keep_freed_memory()
    job, identity, data, folder, settings = given
    kernels.THREADS = threads
    threadpool_limits(threads)

    def say(number: int, traffic: Traffic) -> None:
        if tell:
            pipe.send(("round", number, traffic))

    try:
        part = join(job, identity, data, folder, on_round=say, **settings)
        with pickling_everything():  # from one process of this holder to another
            pipe.send(("done", part))
    except BaseException as error:
        told = error if isinstance(error, TacitError) else RuntimeError(f"a party failed: {type(error).__name__}")
        pipe.send(("error", told))


def _collected(pipes: list[Connection], names: list[str], on_round: Progress | None) -> list[Part]:
    from multiprocessing.connection import wait

    parts: dict[int, Part] = {}
    errors: list[BaseException] = []
    waiting, places = list(pipes), {id(pipe): index for index, pipe in enumerate(pipes)}
    while waiting:
        for ready in wait(waiting):
            index = places[id(ready)]
            content: list[Any]
            try:
                kind, *content = pipes[index].recv()
            except EOFError:
                kind, content = "error", [PartyError(f"{names[index]} to finish", words("its process died"), "Resume.")]
            if kind == "round" and on_round is not None:
                on_round(index, *content)
            elif kind != "round":
                waiting.remove(pipes[index])
                if kind == "done":
                    parts[index] = content[0]
                else:
                    errors.append(content[0])
    if errors:
        # an error about a party's own data or settings explains more than the error of a party that lost it
        raise next((error for error in errors if not isinstance(error, PartyError)), errors[0])
    return [parts[index] for index in range(len(pipes))]
