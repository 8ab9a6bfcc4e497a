"""`run_on`: a fit of data in partitions, on a cluster that is given or that is started for it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, TypeVar

from tacit.cluster.driver import OnRound, drive
from tacit.cluster.here import Cluster, Here, working_here
from tacit.cluster.journal import ClusterJournal
from tacit.cluster.partitions import RatingReader, RowReader, check_units_apart, partition_paths, sources_of
from tacit.errors import InvalidInputError, ProtocolError, TacitError, kind_of, words
from tacit.estimators.base import Estimator
from tacit.estimators.input import is_dask
from tacit.estimators.registry import ESTIMATORS, RATINGS, RECORDS, RELATIONS
from tacit.validation import check_count

Model = TypeVar("Model", bound=Estimator)
NO_PROGRAMS = ("ImplicitRecommender", "LocalCountFactorization", "Recommender")
"""Estimators that are no programs over a channel."""
INTERACTIONS = ("PrivateImplicitRecommender",)
"""Estimators of interactions, whose third column is a weight, and is not needed."""
PROBE_SECONDS = 20.0
"""How long to wait for workers to say which version of tacit they have."""
QUIET_DASK = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
"""What Dask does beside the tasks for its dashboard only, switched off or made rare where there is none: with Dask's defaults
three processes use 6.6% of a core while nothing happens, with these 2.3%."""
SMALL_BYTES = 32 * 2**20
"""Files of less than this are fitted in this process: a cluster takes some seconds to start."""


class MissingDaskError(TacitError, ImportError):
    """Dask is not installed; the rest of tacit works without it."""

    exit_code = 2


def run_on(
    client: Cluster | str | None,
    estimator: Model,
    partitions: Any,
    *,
    workers: int | None = None,
    target: str | None = None,
    vocabulary: Sequence[str] | None = None,
    unit_rows: bool = False,
    columns: Sequence[str] | None = None,
    item_type: str | None = None,
    blocks: int = 1,
    resident: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    keep_checkpoint: bool = False,
    threads: int = 1,
    patience: float = 300.0,
    dashboard: bool = False,
    on_round: OnRound | None = None,
) -> Model:
    """Fit an estimator to data in partitions on the workers of a Dask cluster, and return it, fitted.

    Parameters
    ----------
    client : distributed.Client or None
        The cluster. None starts one process per core of this machine, for this fit; files of less than 32 MB together are
        fitted in this process, with the same result, unless `workers` or `dashboard` is given.
    estimator : estimator
        Any that runs its programs over a channel. Its ledger, if it has one, is charged by the driver; `dataset` must name
        the account, because the driver does not see the data.
    partitions : Dask collection, str, or sequence of paths
        A Dask data frame or array; files, or a pattern as in ``"ratings/*.parquet"``. Each file is one partition: parquet, csv,
        tsv, npz, npy, mtx; or jsonl, texts with one JSON text, or object with a "text", per line. For ratings, all ratings
        of a user must be in one partition; a Dask data frame is shuffled by user.
    workers : int, optional
        How many processes to start where no client was given.
    target : str, optional
        The column of the targets, for estimators that have some.
    vocabulary : sequence of str, optional
        Public terms, for texts.
    unit_rows : bool, default=False
        Scale every row by itself to norm 1.
    columns : sequence of str, optional
        The columns of users, items and ratings (or weights) in the files.
    item_type : {"integer", "text"}, optional
        Read the items as whole numbers or as text, as those of the catalogue are.
    blocks : int, default=1
        Divide every file into this many partitions, which are read batch by batch: a file need not fit in memory.
    resident : int, optional
        How many partitions a worker keeps in memory. The others are read and fitted from the start in every round: data that is
        larger than all memory can be fitted, in more time.
    checkpoint : path-like, optional
        Folder in which all answers are kept, so that a run whose driver or scheduler died goes on from there, and is charged
        once. Only the holder may read it.
    keep_checkpoint : bool, default=False
        Do not empty the folder at the end, for a model that is not saved yet: the same call gives the same model again, and is
        not charged. `tacit.cluster.end_checkpoint` empties it.
    threads : int, default=1
        Of the compiled kernels in one worker; it must be the same in a run that is resumed.
    patience : float, default=300
        Seconds to wait for a worker when none is left.
    dashboard : bool, default=False
        Serve Dask's dashboard on this machine (it needs bokeh), where no client was given.
    on_round : callable, optional
        Called with a `Progress` after each total.

    Privacy
    -------
    The workers belong to the holder and are trusted with the records. What leaves the cluster is what leaves a single
    holder: totals with noise, which the driver draws once, after the sum. A partition is a holder of
    `tacit.channel.noisy`, so that one unit moves the integers of one partition, by the sensitivity that is accounted for.
    Under replace-one adjacency the unit's replacement must stay in the same partition: partition by something that does not
    change with the unit's data, as its place or its id.
    """
    name = type(estimator).__name__
    entry = ESTIMATORS.get(name)
    if entry is None or entry.data == RELATIONS or name in NO_PROGRAMS:
        raise InvalidInputError(
            "an estimator of rows or ratings that is a program, for data in partitions",
            kind_of(estimator),
            "Coupled relations and estimators without privacy that need all data at once are fitted on one machine.",
        )
    ratings, by_place = entry.data == RATINGS, getattr(estimator, "adjacency", "") == "replace-one"
    read: RatingReader | RowReader
    if ratings:
        if estimator.catalogue is None:
            raise InvalidInputError(
                "a catalogue of all items, for ratings in partitions",
                words("none"),
                "Give catalogue=: no partition knows the items of the others.",
            )
        names = ("user", "item", "weight" if name in INTERACTIONS else "rating")
        chosen = tuple(columns or (names[:2] if name in INTERACTIONS else names))
        read = RatingReader(chosen, names[: len(chosen)], item_type, compact=True)
    else:
        terms = None if vocabulary is None else tuple(vocabulary)
        read = RowReader(target, terms, unit_rows, as_table=entry.data == RECORDS)
    by_user = chosen[0] if ratings else None
    small = workers is None and not dashboard and is_small(partitions)
    with estimator._fitting(), cluster_of(client, workers, dashboard=dashboard, small=small) as cluster:
        check_workers(cluster)
        sources = sources_of(
            partitions, cluster, by_user=by_user, blocks=check_count(blocks, "blocks"), by_place=by_place
        )
        if isinstance(read, RatingReader) and not is_dask(partitions):  # which was shuffled by user
            check_units_apart(cluster, sources, read)
        return drive(
            cluster,
            estimator,
            sources,
            read,
            checkpoint=checkpoint,
            keep_checkpoint=keep_checkpoint,
            threads=threads,
            resident=None if resident is None else check_count(resident, "resident"),
            patience=patience,
            on_round=on_round,
        )


def end_checkpoint(checkpoint: str | os.PathLike[str]) -> None:
    """Empty the folder of a run that `run_on` kept: the model is saved, and the answers that led to it are not needed."""
    ClusterJournal.at(checkpoint).end()


def is_small(partitions: Any) -> bool:
    """Whether the data is in files that are fitted sooner than a cluster starts."""
    return not is_dask(partitions) and sum(os.path.getsize(path) for path in partition_paths(partitions)) < SMALL_BYTES


def check_workers(client: Cluster) -> None:
    """Raise unless every worker has this version of tacit; the function is sent as it is, for workers that have none."""
    if isinstance(client, Here):
        return

    def installed_version() -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return str(version("tacit"))
        except PackageNotFoundError:
            return "none"

    versions: set[str] = set()

    def ask() -> None:
        with suppress(OSError):  # a worker that went away
            answers = client.run(installed_version, on_error="ignore") or {}  # none from a client that was closed
            versions.update(answers.values())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_SECONDS)  # a worker that hangs does not answer; each is asked again with its first task
    own = version("tacit")
    others = sorted(versions - {own})
    if others:
        raise ProtocolError(
            f"tacit {own} on every worker, as on the driver",
            words(f"{', '.join(others)} on some"),
            "Install the same version everywhere.",
        )


@contextmanager
def cluster_of(
    client: Cluster | str | None, workers: int | None = None, *, dashboard: bool = False, small: bool = False
) -> Iterator[Cluster]:
    """Yield the client, or that of a cluster on this machine which ends with the block; text is a scheduler's address.

    Where no client is given, `small` data is fitted in this process.
    """
    if client is None and small:
        with working_here() as here:
            yield here
        return
    if client is not None and not isinstance(client, str):
        yield client
        return
    try:
        import dask.config
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingDaskError(
            "Dask for data in partitions",
            words("an environment without it"),
            "Install it with: pip install 'tacit[dask]'.",
        ) from None
    if client is not None:
        try:
            connected = Client(client)
        except (OSError, ValueError):
            raise InvalidInputError(
                "the address of a scheduler that answers, as in tcp://host:8786",
                words("one that does not"),
                "Start `dask scheduler` and its workers, or leave the address out.",
            ) from None
        with connected:
            yield connected
        return
    with warnings.catch_warnings(), dask.config.set({} if dashboard else QUIET_DASK):
        warnings.filterwarnings("ignore", message="Port")  # another cluster has Dask's usual one
        cluster = LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=True,  # keys for this cluster alone: other users of the machine cannot give it tasks
            dashboard_address="127.0.0.1:0" if dashboard else None,
            silence_logs=50,
        )
    with cluster, Client(cluster) as made:
        yield made
