"""Fits of data in partitions: time and memory beside a fit in memory, deaths of workers, Spark and dask-ml, and a simulation.

    python benchmarks/bench_cluster.py ratings --set sizes=1000000,10000000
    PEERS_PYTHON=venv/bin/python python benchmarks/bench_cluster.py spark svd    # an environment with pyspark and dask-ml

The peers have an environment of their own, because they need other versions of common packages.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness import Part, SkippedError, main, peer

import tacit
from tacit.cluster.driver import SLOWER
from tacit.data import make_rating_parts

PEERS = "PEERS_PYTHON"
PER_USER = 100
PART = 2_000_000
"""Ratings of one partition."""


def _listed(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return given if isinstance(given, tuple) else (given,)


def _write_ratings(folder: Path, ratings: int, n_items: int) -> int:
    """Write about so many ratings in partitions, and return how many there are."""
    import polars as pl

    users, count, first = max(ratings // PER_USER, 10), 0, 0
    parts = max(ratings // PART, 2)
    for place, part in enumerate(
        make_rating_parts(users, n_items, parts, ratings_per_user=min(PER_USER, n_items // 2))
    ):
        frame = pl.DataFrame({"user": part.users + first, "item": part.items, "rating": part.ratings})
        frame.write_parquet(folder / f"ratings{place:04}.parquet")
        count, first = count + frame.height, first + part.shape[0]
    return count


def _write_rows(folder: Path, rows: int, columns: int, per_row: int) -> int:
    """Write a sparse matrix of counts in partitions: rows of `per_row` entries on average."""
    from scipy.sparse import save_npz

    parts = max(rows * per_row // PART, 2)
    for place, part in enumerate(make_rating_parts(rows, columns, parts, ratings_per_user=per_row)):
        save_npz(folder / f"rows{place:04}.npz", part.to_csr(), compressed=False)
    return rows


def _estimator(kind: str, n_items: int) -> Any:
    if kind == "ratings":
        return tacit.PrivateRecommender(16, epsilon=2.0, catalogue=list(range(n_items)))
    if kind == "implicit":
        return tacit.PrivateImplicitRecommender(epsilon=2.0, catalogue=list(range(n_items)))
    return tacit.NMF(10, max_iter=8, tol=0)


def in_memory(kind: str, folder: str, n_items: str) -> None:
    """Fit all partitions at once in this process; print seconds and memory."""
    import polars as pl
    from scipy.sparse import load_npz, vstack

    _warm()
    paths, started, used = sorted(Path(folder).iterdir()), time.perf_counter(), time.process_time()
    model = _estimator(kind, int(n_items))
    if kind == "nmf":
        model.fit(vstack([load_npz(path) for path in paths], format="csr"))
    else:
        frame = pl.concat([pl.read_parquet(path) for path in paths])
        model.fit(frame if kind == "ratings" else frame.select("user", "item"))
    spent = time.process_time() - used
    print(json.dumps({"seconds": time.perf_counter() - started, "processor": spent, "gigabytes": _peak()}))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _child(*arguments: str, python: str = sys.executable, script: str = __file__) -> dict[str, Any]:
    ended = subprocess.run([python, script, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SkippedError(f"{Path(script).name} {arguments[0]} failed: {ended.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    from tacit.cluster.run import cluster_of

    peer("distributed", "dask[distributed]")
    with cluster_of(None, workers) as client:
        _warm()
        client.run(_warm)  # imports, as in the fit in memory
        yield client


def _warm() -> None:
    import polars  # noqa: F401

    from tacit.factor.implicit.private import PrivateImplicitRecommender  # noqa: F401
    from tacit.factor.nmf.estimator import NMF  # noqa: F401
    from tacit.factor.ratings.private import PrivateRecommender  # noqa: F401


def _on_cluster(client: Any, kind: str, folder: Path, n_items: int, **settings: Any) -> tuple[Any, float]:
    from tacit.cluster import run_on

    started = time.perf_counter()
    model = run_on(client, _estimator(kind, n_items), str(folder / "*"), **settings)
    return model, time.perf_counter() - started


def _compare(
    kind: str, sizes: int | tuple[int, ...], n_items: int, workers: int, write: Callable[[Path, int], int]
) -> None:
    """Print seconds, and processor seconds of all processes, on the cluster and in memory; a busy machine slows the first."""
    print(f"{'size':>10} {'':>10} {'seconds':>8} {'processor':>10} {'us a unit':>10} {'largest process GB':>19}")
    for size in _listed(sizes):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            count = write(folder, size)
            with _cluster(workers) as client:
                before = sum(client.run(time.process_time).values()) + time.process_time()
                _, taken = _on_cluster(client, kind, folder, n_items)
                spent = sum(client.run(time.process_time).values()) + time.process_time() - before
                used = max([*client.run(_peak).values(), _peak()])
            alone = _child("in_memory", kind, str(folder), str(n_items))
            rows = {"cluster": (taken, spent, used)}
            rows["in memory"] = (alone["seconds"], alone["processor"], alone["gigabytes"])
            for where, (seconds, processor, memory) in rows.items():
                each = 1e6 * processor / count
                print(
                    f"{count:>10} {where:>10} {seconds:>8.1f} {processor:>10.1f} {each:>10.2f} {memory:>19.2f}",
                    flush=True,
                )
            ratios = taken / alone["seconds"], spent / alone["processor"]
            print(f"{'':>10} {'ratio':>10} {ratios[0]:>8.2f} {ratios[1]:>10.2f}", flush=True)


def ratings(sizes: tuple[int, ...] = (1_000_000, 10_000_000), n_items: int = 50_000, workers: int = 2) -> None:
    """The private recommender."""
    _compare("ratings", sizes, n_items, workers, lambda folder, size: _write_ratings(folder, size, n_items))


def engine(
    kinds: tuple[str, ...] = ("ratings", "implicit"),
    sizes: tuple[int, ...] = (1_000_000, 4_000_000),
    n_items: int = 2_000,
) -> None:
    """The driver and one worker in one process, without Dask: what partitions cost by themselves, in processor seconds."""
    import polars as pl

    from tacit.cluster.driver import _ClusterRun
    from tacit.cluster.here import Here
    from tacit.cluster.journal import ClusterJournal
    from tacit.cluster.partitions import RatingReader

    heads = {
        "kind": 9,
        "ratings": 9,
        "partitions": 11,
        "in partitions s": 16,
        "in memory s": 12,
        "ratio": 6,
        "us a rating": 12,
    }
    print(" ".join(f"{name:>{width}}" for name, width in heads.items()))
    for size in _listed(sizes):
        with tempfile.TemporaryDirectory() as name:
            count = _write_ratings(Path(name), size, n_items)
            paths = sorted(map(str, Path(name).iterdir()))
            for kind in kinds:
                names = ("user", "item", "rating") if kind == "ratings" else ("user", "item")
                spent = {"alone": [], "parts": []}  # type: dict[str, list[float]]
                for _ in range(2):  # the first time compiles
                    begun = time.process_time()
                    _estimator(kind, n_items).fit(pl.concat([pl.read_parquet(path) for path in paths]).select(names))
                    spent["alone"].append(time.process_time() - begun)
                    begun = time.process_time()
                    made = _estimator(kind, n_items)
                    run = _ClusterRun(Here(), made, paths, RatingReader(names, names), ClusterJournal.at(None))
                    run.fit(lambda progress: None)
                    run.close()
                    spent["parts"].append(time.process_time() - begun)
                parts, alone = spent["parts"][1], spent["alone"][1]
                print(
                    f"{kind:>9} {count:>9} {len(paths):>11} {parts:>16.2f} {alone:>12.2f} {parts / alone:>6.2f} "
                    f"{1e6 * parts / count:>12.2f}",
                    flush=True,
                )


def implicit(sizes: tuple[int, ...] = (1_000_000, 10_000_000), n_items: int = 50_000, workers: int = 2) -> None:
    """The private recommender of interactions."""
    _compare("implicit", sizes, n_items, workers, lambda folder, size: _write_ratings(folder, size, n_items))


def nmf(
    sizes: tuple[int, ...] = (100_000, 1_000_000), n_items: int = 2_000, per_row: int = 10, workers: int = 2
) -> None:
    """NMF of a sparse matrix."""
    _compare("nmf", sizes, n_items, workers, lambda folder, size: _write_rows(folder, size, n_items, per_row))


def totals(users: int = 2_000, items: tuple[int, ...] = (1_000, 10_000, 50_000)) -> None:
    """How many numbers the totals of a fit have: what every worker sends in a round, and what the driver sends back."""
    from tacit.channel.run import interpose

    for kind in ("ratings", "implicit", "nmf"):
        for n_items in _listed(items):
            made = next(make_rating_parts(users, n_items, 1, ratings_per_user=min(20, n_items // 2)))
            channels: list[Any] = []
            with interpose(lambda channel, seen=channels: seen.append(channel) or channel):
                if kind == "nmf":
                    _estimator(kind, n_items).fit(made.to_csr())
                else:
                    values = (made.ratings,) if kind == "ratings" else ()
                    _estimator(kind, n_items).fit(made.users, made.items, *values)
            sizes = [entry.numbers for channel in channels for entry in channel.transcript]
            largest = 8 * max(sizes) / 2**20
            print(
                f"{kind:>9}, {n_items:>6} items: {len(sizes)} totals of {sizes[:8]} numbers, the largest {largest:.1f} MB"
            )


def deaths(rows: int = 200_000, n_items: int = 2_000, workers: int = 5) -> None:
    """One of five workers killed at a random moment: the same bits, and the time."""
    with tempfile.TemporaryDirectory() as name, _cluster(workers) as client:
        folder = Path(name)
        _write_rows(folder, rows, n_items, 10)
        _on_cluster(client, "nmf", folder, n_items)  # compilation
        whole, quiet = _on_cluster(client, "nmf", folder, n_items)
        moment = float(np.random.default_rng().uniform(0.1, 0.8))
        process = sorted(client.run(os.getpid).values())[0]
        killer = threading.Timer(moment * quiet, os.kill, (process, signal.SIGKILL))
        killer.start()
        broken, taken = _on_cluster(client, "nmf", folder, n_items)
        killer.join()
        same = broken.components_.tobytes() == whole.components_.tobytes()
        print(
            f"killed 1 of {workers} workers after {moment:.0%} of the time; same bits: {same}; {taken / quiet:.2f} times the time"
        )


def overhead(rows: int = 10_000) -> None:
    """Start of a cluster, and a small fit with and without one."""
    from tacit.cluster.run import cluster_of, run_on

    peer("distributed", "dask[distributed]")
    X = np.random.default_rng(0).random((rows, 20))
    tacit.PrivateMoments(epsilon=1.0, row_norm=5.0).fit(X[:100])  # imports and compilation
    started = time.perf_counter()
    tacit.PrivateMoments(epsilon=1.0, row_norm=5.0).fit(X)
    alone = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as name:
        for place, part in enumerate(np.array_split(X, 4)):
            np.save(Path(name) / f"rows{place}.npy", part)
        started = time.perf_counter()
        with cluster_of(None, 2):
            start = time.perf_counter() - started
        taken = []
        for workers in (None, 2):  # small files need no cluster, unless workers are asked for
            started = time.perf_counter()
            run_on(None, tacit.PrivateMoments(epsilon=1.0, row_norm=5.0), str(Path(name) / "*.npy"), workers=workers)
            taken.append(time.perf_counter() - started)
    print(
        f"start of the cluster {start:.1f} s; fit of {rows} rows: {alone:.2f} s in memory, {taken[0]:.2f} s from files, "
        f"{taken[1]:.1f} s with a cluster of its own"
    )


def _peers_python() -> str:
    python = os.environ.get(PEERS)
    if not python:
        raise SkippedError(f"it needs {PEERS}, the Python of an environment with pyspark, dask-ml, polars and pyarrow")
    return python


def spark(ratings: int = 1_000_000, n_items: int = 5_000, workers: int = 2) -> None:
    """The private recommender beside Spark's ALS (10 iterations, 16 factors, no privacy), on the same files."""
    python, script = _peers_python(), str(Path(__file__).with_name("peer_cluster.py"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = _write_ratings(folder, ratings, n_items)
        with _cluster(workers) as client:
            _, taken = _on_cluster(client, "ratings", folder, n_items)
            used = sum(client.run(_peak).values()) + _peak()
        theirs = _child("spark_als", name, str(workers), python=python, script=script)
        print(
            f"{count} ratings: tacit {taken:.1f} s, {used:.1f} GB in all processes; ALS {theirs}; {theirs['seconds'] / taken:.2f}"
        )


def svd(rows: int = 200_000, columns: int = 100, workers: int = 2) -> None:
    """SVD beside dask-ml's TruncatedSVD (tsqr), on the same dense files."""
    from tacit.cluster import run_on

    python, script = _peers_python(), str(Path(__file__).with_name("peer_cluster.py"))
    with tempfile.TemporaryDirectory() as name:
        generator = np.random.default_rng(0)
        base = generator.standard_normal((8, columns))
        for place in range(4):
            part = generator.standard_normal((rows // 4, 8)) @ base + 0.1 * generator.standard_normal(
                (rows // 4, columns)
            )
            np.save(Path(name) / f"rows{place}.npy", part)
        with _cluster(workers) as client:
            started, before = time.perf_counter(), sum(client.run(time.process_time).values()) + time.process_time()
            model = run_on(client, tacit.SVD(8, hide_singular_values=False), str(Path(name) / "*.npy"))
            taken, used = time.perf_counter() - started, sum(client.run(_peak).values()) + _peak()
            spent = sum(client.run(time.process_time).values()) + time.process_time() - before
        theirs = _child("dask_svd", name, str(workers), python=python, script=script)
        ours = np.asarray(model.singular_values_)
        apart = float(np.max(np.abs(ours - np.array(theirs.pop("values"))) / ours))
        print(
            f"{rows} x {columns}: tacit {taken:.1f} s, {spent:.1f} s of processor time, {used:.1f} GB in all processes; "
            f"dask-ml {theirs['seconds']:.1f} s, {theirs['processor']:.1f} s, {theirs['gigabytes']} GB; dask-ml over tacit "
            f"{theirs['seconds'] / taken:.2f}, {theirs['processor'] / spent:.2f}; singular values differ by {apart:.1e}"
        )


def simulation(
    partitions: int = 10_000,
    workers: int = 1_000,
    rounds: int = 6,
    seconds: float = 1.0,
    stragglers: float = 0.02,
    slowdown: float = 5.0,
    failures: float = 0.01,
    repeats: int = 20,
) -> None:
    """The driver's policy in virtual time: partitions stay with their worker; those of a dead or slow one are replayed elsewhere.

    A worker takes `seconds` per partition and round, with a spread of 20%; a fraction of them is slower in a round by `slowdown`;
    a fraction of them dies in a round, at a random moment.
    """
    plain = rounds * seconds * partitions / workers
    taken = {"no faults": [], "stragglers": [], "stragglers and deaths": []}  # type: dict[str, list[float]]
    for repeat in range(repeats):
        for name, found in taken.items():
            generator = np.random.default_rng(repeat)
            slow = stragglers if name != "no faults" else 0.0
            die = failures if "deaths" in name else 0.0
            found.append(_simulated(generator, partitions, workers, rounds, seconds, slow, slowdown, die))
    print(f"{partitions} partitions, {workers} workers, {rounds} totals: {plain:.0f} s if all were equal")
    for name, found in taken.items():
        print(f"{name:>24}: {np.mean(found) / plain:.2f} times, at most {np.max(found) / plain:.2f} in {repeats} runs")


def _simulated(
    generator: np.random.Generator,
    partitions: int,
    workers: int,
    rounds: int,
    seconds: float,
    stragglers: float,
    slowdown: float,
    failures: float,
) -> float:
    """Return the time of one run; every partition is counted once per round, or the simulation stops."""
    held = np.bincount(np.arange(partitions) % workers, minlength=workers)
    taken = computed = 0.0
    for done in range(rounds):
        speed = seconds * generator.lognormal(0.0, 0.2, workers)
        speed[generator.random(workers) < stragglers] *= slowdown
        ends = held * speed
        dead = np.flatnonzero(generator.random(workers) < failures)
        counted = int(held.sum() - held[dead].sum())
        if len(dead):  # replaced by an empty worker; the partitions go to those with the fewest, and replay all rounds
            moved = int(held[dead].sum())
            noticed = ends[dead] * generator.random(len(dead))
            held[dead], ends[dead] = 0, 0.0
            order = np.argsort(held, kind="stable")
            given = np.bincount(order[np.arange(moved) % workers], minlength=workers)
            held += given
            ends = np.where(given > 0, np.maximum(ends, noticed.max()) + given * (done + 1) * speed, ends)
            counted += moved
        finished = float(np.median(ends))
        computed += finished
        patience = max(SLOWER * finished, finished + 2 * computed * workers / partitions)  # as in the driver
        late = np.flatnonzero(ends > patience)
        if len(late):  # their partitions go to others, which begin when the driver's patience ends
            moved, held[late] = int(held[late].sum()), 0
            order = np.argsort(np.where(np.isin(np.arange(workers), late), np.inf, held), kind="stable")[
                : workers - len(late)
            ]
            given = np.bincount(order[np.arange(moved) % len(order)], minlength=workers)
            held, ends[late] = held + given, patience
            ends = np.where(given > 0, np.maximum(ends, patience) + given * (done + 1) * speed, ends)
        assert counted == partitions == held.sum()
        taken += float(ends.max())
    return taken


QUICK_RATINGS = {"sizes": (20_000,), "n_items": 200}
PARTS = {
    "overhead": Part(overhead, {"rows": 1_000}),
    "simulation": Part(simulation, {"partitions": 1_000, "workers": 100, "repeats": 2}),
    "engine": Part(engine, {"sizes": (20_000,), "n_items": 200}),
    "ratings": Part(ratings, QUICK_RATINGS),
    "implicit": Part(implicit, QUICK_RATINGS),
    "totals": Part(totals, {"users": 200, "items": (100,)}),
    "nmf": Part(nmf, {"sizes": (5_000,), "n_items": 200}),
    "deaths": Part(deaths, {"rows": 5_000, "n_items": 200, "workers": 3}),
    "spark": Part(spark, {"ratings": 20_000, "n_items": 200}),
    "svd": Part(svd, {"rows": 4_000, "columns": 20}),
}

if __name__ == "__main__":
    main(__doc__, PARTS, children={"in_memory": in_memory})
