"""Time to reach the error of TensorLy and pyttb, in the same run, and memory against the number of stored cells.

TensorLy and pyttb are not needed to use tacit: install them to run `dense` and `sparse`. Compilation is excluded.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_coupled import CP, lastfm_triples
from harness import Part, main, peer

from tacit import CoupledFactorization, Relation
from tacit.channel import Clear, run
from tacit.factor.coupled.plain.program import CoupledSettings, coupled_program
from tacit.factor.coupled.plain.terms import ZerosTerm


def sweeps_to(
    relations: list[Relation], start: Any, shared: tuple[str, ...], target: float, most: int
) -> tuple[float, int, float]:
    """Return the time, sweeps and cost of a run that stops when its cost reaches the target; compilation excluded."""
    run(coupled_program(relations, start, shared=shared, settings=CoupledSettings(max_iter=2, tol=0)), Clear())
    curve = run(
        coupled_program(relations, start, shared=shared, settings=CoupledSettings(max_iter=most, tol=0)), Clear()
    ).public["loss_curve"]
    reached = np.flatnonzero(curve <= target)
    count = int(reached[0]) + 1 if len(reached) else most
    begin = time.perf_counter()
    outcome = run(
        coupled_program(relations, start, shared=shared, settings=CoupledSettings(max_iter=count, tol=0)), Clear()
    )
    return time.perf_counter() - begin, count, float(outcome.public["loss"])


def dense(rank: int = 10, size: int = 200, iterations: int = 50, sweeps: int = 300) -> None:
    peer("tensorly")
    from tensorly.decomposition import coupled_matrix_tensor_3d_factorization

    rng = np.random.default_rng(0)
    a, b, c, v = (rng.random((length, rank)) for length in (size, size, size, 300))
    x = np.einsum("ir,jr,kr->ijk", a, b, c)
    y = a @ v.T
    x += 0.1 * x.std() * rng.standard_normal(x.shape)
    y += 0.1 * y.std() * rng.standard_normal(y.shape)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, _, errors = coupled_matrix_tensor_3d_factorization(x, y, rank, n_iter_max=iterations)
    theirs, target = time.perf_counter() - begin, float(errors[-1]) / 2
    relations = [
        Relation(x, CP, ("a", "b", "c"), divergence="euclid", name="x"),
        Relation(y, "ir,mr->im", ("a", "v"), divergence="euclid", name="y"),
    ]
    start = {name: rng.random((length, rank)) for name, length in (("a", size), ("b", size), ("c", size), ("v", 300))}
    ours, sweeps, cost = sweeps_to(relations, start, ("a",), target * (1 + 1e-4), sweeps)
    print(
        f"Dense {size}^3 with {size} x 300, rank {rank}, to the error of TensorLy's coupled_matrix_tensor_3d_factorization"
    )
    print(
        f"  TensorLy {theirs:.2f} s ({len(errors)} iterations, {target:.6g}); tacit {ours:.2f} s ({sweeps} sweeps, {cost:.6g})"
    )
    print(f"  ratio {theirs / ours:.1f}", flush=True)


def sparse(rank: int = 10, iterations: int = 3, sweeps: int = 60) -> None:
    pyttb = peer("pyttb")
    triples, _, sizes = lastfm_triples()
    shape = tuple(sizes.values())
    rng = np.random.default_rng(0)
    start = {name: rng.random((size, rank)) for name, size in sizes.items()}
    relation = Relation((triples, np.ones(len(triples)), shape), CP, tuple(sizes), name="tags")
    table = pyttb.sptensor(triples.astype(int), np.ones((len(triples), 1)), shape)
    begin = time.perf_counter()
    first = pyttb.ktensor([factor.copy() for factor in start.values()], np.ones(rank))
    decomposition, _, _ = pyttb.cp_apr(
        table, rank, algorithm="mu", init=first, maxiters=iterations, printitn=0, printinneritn=0
    )
    theirs = time.perf_counter() - begin
    factors = [factor.copy() for factor in decomposition.factor_matrices]
    factors[0] = factors[0] * decomposition.weights
    target = ZerosTerm(relation).loss(tuple(factors))
    ours, sweeps, cost = sweeps_to([relation], start, (), target, sweeps)
    print(
        f"Last.fm triples ({len(triples)}), KL CP, rank {rank}, to the likelihood of pyttb's cp_apr after {iterations} iterations"
    )
    print(
        f"  pyttb {theirs:.1f} s ({target:.7g}); tacit {ours:.2f} s ({sweeps} sweeps, {cost:.7g}); ratio {theirs / ours:.1f}",
        flush=True,
    )


def memory(sizes: Sequence[float] = (0.2, 2.0, 20.0)) -> None:
    print(
        "Memory of a sparse KL CP fit of rank 10, 3 sweeps, 20,000 x 50,000 x 10,000: growth of a fresh process's peak"
    )
    rng, shape = np.random.default_rng(0), (20_000, 50_000, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        for millions in sizes:
            places = np.unique(rng.integers(0, 10**13, int(millions * 1e6)))
            cells = np.stack(np.unravel_index(places, shape), axis=1).astype(np.int32)
            np.savez(Path(folder) / "cells.npz", cells=cells, values=rng.poisson(1.0, len(cells)) + 1.0, shape=shape)
            command = [sys.executable, __file__, "child", str(Path(folder) / "cells.npz")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print("  " + (done.stdout.strip() or done.stderr.strip()[-300:]), flush=True)


def child(path: str) -> None:
    """Fit data that another process generated, so that generating it is not measured."""
    CoupledFactorization(10, max_iter=2).fit(Relation(([[0, 0, 0]], [1.0], (1, 1, 1)), CP, ("a", "b", "c")))
    with np.load(path) as archive:
        cells, values, shape = archive["cells"], archive["values"], tuple(archive["shape"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    CoupledFactorization(10, max_iter=3, tol=0).fit(Relation((cells, values, shape), CP, ("a", "b", "c")))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    taken = f"{len(cells):,} entries: {time.perf_counter() - begin:.1f} s, grew by {grown / 1e6:.0f} MB"
    print(f"{taken}, {grown / len(cells):.0f} bytes per entry beyond the input's {cells.itemsize * 3 + 8}")


PARTS = {
    "dense": Part(dense, quick={"size": 20, "iterations": 2, "sweeps": 3}),
    "sparse": Part(sparse, quick={"rank": 2, "iterations": 1, "sweeps": 2}),
    "memory": Part(memory, quick={"sizes": (0.02,)}),
}

if __name__ == "__main__":
    main(__doc__, PARTS, children={"child": child})
