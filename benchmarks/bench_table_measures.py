"""Measures of a released table: time and memory on 200,000 x 20, the search beside scikit-learn's, rotations of real tables.

    scale      time and memory of all metrics and attacks
    search     nearest rows beside scikit-learn
    rotation   Table 7.5 of Thapa (2013)
    chance     how often attacks see a leak where there is none

Two tables: "factors", 20 columns that 5 factors explain but for a tenth, as tables of measurements are; and "independent", 20
independent normal columns, the worst for any search. Releases have noise of 0.3 standard deviations.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from harness import Part, Quoted, main
from numpy.typing import NDArray
from real_data import data_folder

from tacit import measure
from tacit.measure import attacks
from tacit.measure.neighbours import nearest

ROWS, COLUMNS, SECONDS, GIGABYTES = 200_000, 20, 60, 4
ROTATED = Quoted(
    "KnnM(5), KnnM(10) and KnnM(15) after a rotation, Table 7.5 of Thapa (2013)",
    {
        "iris": (4.833333, 9.36, 13.7234),
        "winequality": (4.994767, 9.9823, 14.960135),
        "spambase": (4.996522, 9.980656, 14.953054),
    },
)


def table(kind: str, n_rows: int, seed: int = 0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    if kind == "independent":
        return generator.normal(size=(n_rows, COLUMNS))
    factors = generator.normal(size=(n_rows, 5)) @ generator.normal(size=(5, COLUMNS))
    return factors + 0.1 * generator.normal(size=factors.shape)


def noisy(original: NDArray[np.float64], level: float = 0.3, seed: int = 1) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=original.shape)
    return original + level * original.std(axis=0) * noise


def scale(n_rows: int = ROWS) -> None:
    for kind in ("factors", "independent"):
        print(f"\n{kind}: {n_rows:,} x {COLUMNS}\n{'':<32} {'value':>12} {'wall s':>8} {'CPU s':>8}")
        original = table(kind, n_rows)
        released = noisy(original)
        time_asked(original, released)
        time_others(original, released)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"peak memory so far {peak:.2f} GB, asked: {GIGABYTES} GB", flush=True)


def time_asked(original: NDArray[np.float64], released: NDArray[np.float64]) -> None:
    asked = (
        *(measure.value_difference, measure.rank_position, measure.rank_maintenance, measure.attribute_rank_change),
        *(measure.attribute_rank_maintenance, measure.correlation_measure, measure.canonical_correlation),
        *(measure.neighbour_overlap, measure.neighbour_rank_change, attacks.record_linkage),
    )
    spent = [timed(metric.__name__, metric, original, released) for metric in asked]
    wall, cpu = (sum(parts) for parts in zip(*spent, strict=True))
    print(f"{'metrics and linkage together':<32} {'':>12} {wall:>8.1f} {cpu:>8.1f}   asked: {SECONDS} s")


def time_others(original: NDArray[np.float64], released: NDArray[np.float64]) -> None:
    timed("linkage of every row", attacks.record_linkage, original, released, sample=None)
    timed("clustering_accuracy", measure.clustering_accuracy, original, released, n_clusters=5, n_init=3)
    for attack in (
        *(attacks.spectral_filtering, attacks.noise_estimation, attacks.known_sample_regression),
        *(attacks.attribute_inference, attacks.membership),
    ):
        timed(attack.__name__, attack, original, released)


def timed(name: str, action: Callable[..., Any], *tables: NDArray[np.float64], **settings: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = action(*tables, **settings)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:<32} {getattr(found, 'recovered', found):>12.5g} {spent[0]:>8.2f} {spent[1]:>8.2f}", flush=True)
    return spent


def search(n_rows: int = ROWS) -> None:
    """The 10 nearest of 1,000 rows among all; CPU time, building a tree included."""
    from sklearn.neighbors import NearestNeighbors

    for kind in ("factors", "independent"):
        points = table(kind, n_rows)
        queries = points[:1000]
        spent, found = {}, {}
        nearest(points[:2000], queries, 10)  # the first use of a library takes longer
        start = time.process_time()
        found["tacit"] = nearest(points, queries, 10)[0]
        spent["tacit"] = time.process_time() - start
        for algorithm in ("brute", "kd_tree"):
            start = time.process_time()
            peer = NearestNeighbors(n_neighbors=10, algorithm=algorithm).fit(points)
            found[algorithm] = peer.kneighbors(queries, return_distance=False)
            spent[algorithm] = time.process_time() - start
        for name, seconds in spent.items():
            same = np.mean(found[name] == found["tacit"])
            print(
                f"{kind:<12} {name:<10} {seconds:>8.2f} s, {seconds / spent['tacit']:>6.2f} times ours, same rows {same:.4f}"
            )


def rotation(tables: Sequence[str] = tuple(ROTATED)) -> None:
    from scipy.stats import ortho_group

    for name, thesis in ((name, ROTATED[name]) for name in tables):
        frame = pl.read_csv(data_folder() / "uci" / f"{name}.csv.gz").select(pl.selectors.numeric())
        values = frame.drop([column for column in ("y", "quality", "is_red") if column in frame.columns]).to_numpy()
        turned = values.astype(float) @ ortho_group.rvs(values.shape[1], random_state=0)
        for k, theirs in zip((5, 10, 15), thesis, strict=True):
            ours = measure.neighbour_overlap(values, turned, k, sample=None)
            print(f"{name:<12} k = {k:>2}: tacit {ours:.6f}, thesis* {theirs:.6f}")


def chance(repeats: int = 200) -> None:
    """Independent tables of the same law: each attack should see a leak in 2.5% of the cases at most, but for luck."""
    counts: dict[str, int] = {}
    for seed in range(repeats):
        both = table("factors", 1000, seed)
        for finding in measure.all_attacks(both[:500, :6], both[500:, :6], random_state=seed):
            counts[finding.attack] = counts.get(finding.attack, 0) + finding.leaks
    for attack, count in counts.items():
        print(f"{attack:<42} {count} leaks seen in {repeats} unrelated tables")


PARTS = {
    "scale": Part(scale, quick={"n_rows": 2000}),
    "search": Part(search, quick={"n_rows": 5000}),
    "rotation": Part(rotation, quick={"tables": ("iris",)}, quoted=(ROTATED,)),
    "chance": Part(chance, quick={"repeats": 2}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
