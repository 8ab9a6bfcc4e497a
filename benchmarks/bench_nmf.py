"""Time and memory of NMF until it reaches the loss at which scikit-learn's coordinate descent stops.

Both start from the same NNDSVD factors; the time of that start and of compilation is not counted. The two alternate for
several rounds, and the best time of each counts: other work on the machine affects the best time least. The number of
sweeps that reach the loss is determined first, and then a fit of that many sweeps is timed as a user would call it.
Memory is the growth of a new process's peak while it fits, printed with the size of the data and of both factors.
Factorisation has many local optima: "tacit ends" is the loss that tacit reaches if it continues.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import Part, main
from real_data import data_folder
from scipy import sparse
from sklearn import decomposition
from sklearn.feature_extraction.text import TfidfTransformer

from tacit import NMF
from tacit.factor.nmf.start import nndsvd

CASES = {
    "20newsgroups": ("text/20newsgroups_bydate_vocab10000.npz", 20),
    "tdt2": ("text/tdt2_9394x36771.npz", 30),
    "cbcl": ("faces/cbcl_19x19.npz", 49),
}
ROUNDS = 5
MOST_SWEEPS = 400


def read(case: str) -> tuple[Any, int]:
    """Return TF-IDF counts (sparse) or faces in [0, 1] (dense), and the rank."""
    path, rank = CASES[case]
    with np.load(data_folder() / path) as archive:
        if "X" in archive:
            return archive["X"] / 255.0, rank
        parts = (archive["data"].astype(np.float64), archive["indices"], archive["indptr"])
        counts = sparse.csr_array(parts, shape=tuple(archive["shape"]))
    return TfidfTransformer().fit_transform(counts).tocsr(), rank


def timed(task: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def megabytes(*arrays: Any) -> float:
    parts = [part for x in arrays for part in ((x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,))]
    return sum(part.nbytes for part in parts) / 1e6


def speed_of(case: str, rounds: int) -> None:
    X, rank = read(case)
    W, T = nndsvd(X, rank)
    theirs = decomposition.NMF(rank, init="custom", solver="cd", tol=1e-4, max_iter=4000)
    NMF(rank, init=T, max_iter=2, tol=0).fit(X)  # compiles, or loads what an earlier run compiled

    scikit_time, _ = timed(lambda: theirs.fit_transform(X, W=W.copy(), H=T.copy()))
    target = theirs.reconstruction_err_**2 / 2
    curve = NMF(rank, init=T, max_iter=MOST_SWEEPS, tol=0).fit(X).loss_curve_
    if curve[-1] > target:
        print(f"{case:<13} {scikit_time:>8.2f}s: its loss {target:.3f} was not reached, we end at {curve[-1]:.3f}")
        return
    sweeps = int(np.argmax(curve <= target)) + 1
    ours = NMF(rank, init=T, max_iter=sweeps, tol=0)
    our_time, _ = timed(lambda: ours.fit(X))
    for _ in range(rounds - 1):
        scikit_time = min(scikit_time, timed(lambda: theirs.fit_transform(X, W=W.copy(), H=T.copy()))[0])
        our_time = min(our_time, timed(lambda: ours.fit(X))[0])
    print(
        f"{case:<13} {scikit_time:>8.2f}s {theirs.n_iter_:>6} {our_time:>8.2f}s {sweeps:>6} {our_time / scikit_time:>7.3f} "
        f"{target:>11.3f} {curve[-1]:>11.3f}",
        flush=True,
    )


def memory_of(case: str) -> None:
    """Run in a separate process: print the growth of the peak while fitting, and the sizes of data and factors."""
    X, rank = read(case)
    T = np.random.default_rng(0).random((rank, X.shape[1]))
    NMF(2, max_iter=2, init="random").fit(X[:300])  # compiled code and threads are not the fit's memory
    # reset the peak of the work before (reading, TF-IDF); the kernel's VmHWM is the peak since then
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_megabytes()
    NMF(rank, init=T, max_iter=5, tol=0).fit(X)
    size, factors = megabytes(X), megabytes(T) + 8e-6 * X.shape[0] * rank
    total = size + peak_megabytes() - before
    print(
        f"{case:<13} {size:>8.1f} {factors:>9.1f} {total:>12.1f} {total / size:>9.2f} {total / (2 * size + factors):>22.2f}"
    )


def peak_megabytes() -> float:
    """Return the peak memory of this process since it was last reset (Linux)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024 / 1e6


def speed(cases: Sequence[str] = tuple(CASES), rounds: int = ROUNDS) -> None:
    print(
        f"{'data':<13} {'scikit':>9} {'iter.':>6} {'tacit':>9} {'sweeps':>6} {'ratio':>7} {'loss':>11} {'tacit ends':>11}"
    )
    for case in cases:
        speed_of(case, rounds)


def memory(cases: Sequence[str] = tuple(CASES)) -> None:
    data_folder()
    print(f"{'MB':<13} {'input':>8} {'factors':>9} {'input + fit':>12} {'/ input':>9} {'/ (2 input + factors)':>22}")
    for case in cases:
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "memory_of", case], check=True)


PARTS = {
    "speed": Part(speed, quick={"cases": ("cbcl",), "rounds": 1}),
    "memory": Part(memory, quick={"cases": ("cbcl",)}),
}

if __name__ == "__main__":
    main(__doc__, PARTS, children={"memory_of": memory_of})
