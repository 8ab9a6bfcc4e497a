"""Measures of a released table: time and memory on 200,000 x 20, nearest rows against scikit-learn.

    scale      time and memory of all metrics and attacks
    search     nearest rows, compared with scikit-learn
    chance     how often attacks report a leak where there is none

There are two tables: "factors", 20 columns of which 5 factors explain all but a tenth, as in many tables of
measurements; and "independent", 20 independent normal columns, the worst case for any search. Releases have noise of
0.3 standard deviations.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Part, main
from numpy.typing import NDArray

from tacit import measure
from tacit.measure import attacks
from tacit.measure.neighbours import nearest

ROWS, COLUMNS, SECONDS, GIGABYTES = 200_000, 20, 60, 4


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
    value = action(*tables, **settings)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:<32} {getattr(value, 'recovered', value):>12.5g} {spent[0]:>8.2f} {spent[1]:>8.2f}", flush=True)
    return spent


def search(n_rows: int = ROWS) -> None:
    """Find the 10 nearest neighbours of 1,000 rows among all; CPU time, including building the tree."""
    from sklearn.neighbors import NearestNeighbors

    for kind in ("factors", "independent"):
        points = table(kind, n_rows)
        queries = points[:1000]
        spent, neighbours = {}, {}
        nearest(points[:2000], queries, 10)  # the first use of a library takes longer
        start = time.process_time()
        neighbours["tacit"] = nearest(points, queries, 10)[0]
        spent["tacit"] = time.process_time() - start
        for algorithm in ("brute", "kd_tree"):
            start = time.process_time()
            peer = NearestNeighbors(n_neighbors=10, algorithm=algorithm).fit(points)
            neighbours[algorithm] = peer.kneighbors(queries, return_distance=False)
            spent[algorithm] = time.process_time() - start
        for name, seconds in spent.items():
            same = np.mean(neighbours[name] == neighbours["tacit"])
            print(
                f"{kind:<12} {name:<10} {seconds:>8.2f} s, {seconds / spent['tacit']:>6.2f} times ours, same rows {same:.4f}"
            )


def chance(repeats: int = 200) -> None:
    """Attack independent tables of one distribution: an attack should report a leak in 2.5% of the cases, up to chance."""
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
    "chance": Part(chance, quick={"repeats": 2}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
