"""SVD compared with scipy and scikit-learn: time, precision and exchanges.

Times are the best of several alternating rounds in one process; on a shared machine, compare the ratios only.
"angle" is the largest angle to the subspace of ARPACK at its full precision. Alone, tacit uses ARPACK too. Its cost among
holders is its exchanges: ARPACK needs one product after the other, and each would be one exchange. "power" is the
block power iteration of Algorithm 4, from the same start with the same block, to the same angle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import Part, main
from real_data import data_folder
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from tacit import SVD
from tacit.channel import Clear, run
from tacit.factor.svd.search import first_directions

TEXTS = {
    "20newsgroups": "20newsgroups_bydate_vocab10000.npz",
    "reuters": "reuters21578_8293x18933.npz",
    "enron": "enron_6mailboxes_vocab8000.npz",
}
ROUNDS = 3
MOST_POWER_STEPS = 400


def read(case: str) -> Any:
    if case == "cbcl":
        with np.load(data_folder() / "faces" / "cbcl_19x19.npz") as archive:
            return archive["X"] / 255.0
    counts = sparse.load_npz(data_folder() / "text" / TEXTS[case]).astype(np.float64)
    return TfidfTransformer().fit_transform(counts).tocsr()


def timed(task: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def arpack_products(X: Any, rank: int, tol: float) -> int:
    """Return the number of products with X'X that ARPACK computes."""
    asked = 0

    def product(vector: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += 1
        return X.T @ (X @ vector)

    eigsh(LinearOperator((X.shape[1],) * 2, matvec=product), k=rank, tol=tol, v0=np.ones(X.shape[1]))
    return asked


def power_steps(X: Any, rank: int, right: np.ndarray, angle: float) -> str:
    """Return the number of steps that block power iteration needs for the angle that tacit reached."""
    Q = first_directions(X.shape[1], rank + 10, 0)
    for step in range(1, MOST_POWER_STEPS + 1):
        Q = np.linalg.qr(X.T @ (X @ Q))[0]
        if step % 10 == 0 and subspace_angles(Q[:, :rank], right.T).max() <= angle:
            return str(step)
    return f"> {MOST_POWER_STEPS}"


def among_holders(X: Any, rank: int, tol: float) -> SVD:
    """Fit as one of several holders would, but without the others: what leaves is totalled over one."""
    model = SVD(rank, tol=tol)
    return model._learned(run(model._program(X), Clear()))


def speed_of(case: str, rank: int, rounds: int, *, power: bool) -> None:
    X = read(case)
    SVD(2, max_iter=2).fit(X[:200])  # compiles, or loads what an earlier run compiled
    right = svds(X, k=rank, random_state=0, tol=0)[2]
    tasks: dict[str, Callable[[], Any]] = {
        "scipy svds": lambda: svds(X, k=rank, random_state=0, tol=1e-9)[2],
        "scikit-learn": lambda: TruncatedSVD(rank, random_state=0).fit(X).components_,
        "tacit": lambda: SVD(rank).fit(X),
        "tacit, tol 0": lambda: SVD(rank, tol=0.0).fit(X),
        "search among holders": lambda: among_holders(X, rank, 1e-9),
        "search, tol 1e-4": lambda: among_holders(X, rank, 1e-4),
    }
    best, last = dict.fromkeys(tasks, np.inf), dict[str, Any]()
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds, last[name] = timed(task)
            best[name] = min(best[name], seconds)
    for name, fitted in last.items():
        angle = subspace_angles((fitted.components_ if isinstance(fitted, SVD) else fitted).T, right.T).max()
        exchanges = str(fitted.n_iter_) if isinstance(fitted, SVD) else "-"
        if name == "scipy svds":
            exchanges = f"({arpack_products(X, rank, 1e-9)})"
        ratio = best[name] / best["scipy svds"]
        print(
            f"{case:<13} {rank:>4} {name:<20} {best[name]:>7.2f}s {ratio:>7.2f} {angle:>9.1e} {exchanges:>9}",
            flush=True,
        )
    if power:
        own = last["search among holders"]
        reached = max(subspace_angles(own.components_.T, right.T).max(), 1e-9)
        steps = power_steps(X, rank, right, reached)
        print(f"{case:<13} {rank:>4} power, to the angle of the search {'':>20} {steps:>9}", flush=True)


def speed(cases: Sequence[str] = ("20newsgroups", "reuters", "cbcl"), rounds: int = ROUNDS, power: bool = True) -> None:
    print(f"{'data':<13} {'k':>4} {'method':<20} {'best':>8} {'ratio':>7} {'angle':>9} {'exchanges':>9}")
    for case in cases:
        speed_of(case, 20, rounds, power=power)


PARTS = {
    "speed": Part(speed, quick={"cases": ("cbcl",), "rounds": 1}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
