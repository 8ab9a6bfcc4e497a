"""SVD beside scipy and scikit-learn: time, precision and exchanges; and what holders gain by a joint decomposition.

Times are the best of several rounds, taken in turn, in one process; the ratio is what counts on a shared machine.
"angle" is the largest angle to the subspace of ARPACK at its full precision. tacit's cost among holders is its
exchanges: ARPACK asks for one product after the other, which among holders would be one exchange each. "power" is the
block power iteration of Algorithm 4, from the same start with the same block, to the same angle.

Gains are those of Figure 5 of Tsikhanovich et al. 2019: by how many percent the joint components lower the error on
held-out rows against each holder's own, for holders of several sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars
from harness import Part, main
from real_data import data_folder
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from tacit import SVD, PrincipalComponentRegression
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
    """Return how many products with X'X ARPACK asks for."""
    asked = 0

    def product(vector: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += 1
        return X.T @ (X @ vector)

    eigsh(LinearOperator((X.shape[1],) * 2, matvec=product), k=rank, tol=tol, v0=np.ones(X.shape[1]))
    return asked


def power_steps(X: Any, rank: int, right: np.ndarray, angle: float) -> str:
    """Return how many steps block power iteration takes to the angle that tacit reached."""
    Q = first_directions(X.shape[1], rank + 10, 0)
    for step in range(1, MOST_POWER_STEPS + 1):
        Q = np.linalg.qr(X.T @ (X @ Q))[0]
        if step % 10 == 0 and subspace_angles(Q[:, :rank], right.T).max() <= angle:
            return str(step)
    return f"> {MOST_POWER_STEPS}"


def speed_of(case: str, rank: int, rounds: int) -> None:
    X = read(case)
    SVD(2, max_iter=2).fit(X[:200])  # compiles, or loads what an earlier run compiled
    right = svds(X, k=rank, random_state=0, tol=0)[2]
    tasks: dict[str, Callable[[], Any]] = {
        "scipy svds": lambda: svds(X, k=rank, random_state=0, tol=1e-9)[2],
        "scikit-learn": lambda: TruncatedSVD(rank, random_state=0).fit(X).components_,
        "tacit": lambda: SVD(rank).fit(X),
        "tacit, tol 1e-4": lambda: SVD(rank, tol=1e-4).fit(X),
    }
    best, last = dict.fromkeys(tasks, np.inf), dict[str, Any]()
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds, last[name] = timed(task)
            best[name] = min(best[name], seconds)
    for name, found in last.items():
        angle = subspace_angles((found.components_ if isinstance(found, SVD) else found).T, right.T).max()
        exchanges = str(found.n_iter_) if isinstance(found, SVD) else "-"
        if name == "scipy svds":
            exchanges = f"({arpack_products(X, rank, 1e-9)})"
        ratio = best[name] / best["scipy svds"]
        print(
            f"{case:<13} {rank:>4} {name:<16} {best[name]:>7.2f}s {ratio:>7.2f} {angle:>9.1e} {exchanges:>9}",
            flush=True,
        )
    own = SVD(rank).fit(X)
    reached = max(subspace_angles(own.components_.T, right.T).max(), 1e-9)
    print(
        f"{case:<13} {rank:>4} power, to the same angle {'':>25} {power_steps(X, rank, right, reached):>9}", flush=True
    )


def gains(cases: Sequence[str] = ("20newsgroups", "enron")) -> None:
    print(f"\n{'percent gained by the joint components':<44} " + "".join(f"{share:>9.1%}" for share in SHARES))
    for case, rank in ((case, 20) for case in cases):
        X = read(case)
        print(f"{'low-rank approximation, ' + case + f', k = {rank}':<44} " + approximation_gains(X, rank), flush=True)
    frame = polars.read_parquet(data_folder() / "regression" / "online_news_popularity_7928x58.parquet")
    y = np.log(frame["shares"].to_numpy().astype(np.float64))
    table = frame.drop("shares").to_numpy().astype(np.float64)
    table = (table - table.mean(axis=0)) / np.where(table.std(axis=0) > 0, table.std(axis=0), 1)
    print(f"{'PC regression, online news, k = 20':<44} " + regression_gains(table, y, 20), flush=True)


SHARES = (0.005, 0.01, 0.03, 0.1, 0.333)


def approximation_gains(X: Any, rank: int) -> str:
    order = np.random.default_rng(0).permutation(X.shape[0])
    test, train = X[order[: len(order) // 5]], X[order[len(order) // 5 :]]
    joint, cells = lost(test, SVD(rank, tol=1e-4).fit(train)), ""
    for share in SHARES:
        size = max(int(share * X.shape[0]), rank + 1)
        own = [lost(test, SVD(rank, tol=1e-4).fit(train[start : start + size])) for start in (0, size)]
        cells += f"{100 * (1 - joint / np.mean(own)):>9.2f}"
    return cells


def lost(rows: Any, model: SVD) -> float:
    """Return |X - X V V'|_F."""
    squares = float(np.sum(np.square(rows.data if sparse.issparse(rows) else rows)))
    return float(np.sqrt(max(squares - np.sum(model.transform(rows) ** 2), 0.0)))


def regression_gains(X: np.ndarray, y: np.ndarray, rank: int) -> str:
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    joint, cells = rmse(PrincipalComponentRegression(rank).fit(X[train], y[train]), X[test], y[test]), ""
    for share in SHARES:
        size = max(int(share * len(X)), rank + 5)
        own = []
        for start in range(0, min(5 * size, len(train) - size + 1), size):
            rows = train[start : start + size]
            own.append(rmse(PrincipalComponentRegression(rank).fit(X[rows], y[rows]), X[test], y[test]))
        cells += f"{100 * (1 - joint / np.mean(own)):>9.2f}"
    return cells


def rmse(model: PrincipalComponentRegression, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def speed(cases: Sequence[str] = ("20newsgroups", "reuters", "cbcl"), rounds: int = ROUNDS) -> None:
    print(f"{'data':<13} {'k':>4} {'method':<16} {'best':>8} {'ratio':>7} {'angle':>9} {'exchanges':>9}")
    for case in cases:
        speed_of(case, 20, rounds)


PARTS = {
    "speed": Part(speed, quick={"cases": ("cbcl",), "rounds": 1}),
    "gains": Part(gains, quick={"cases": ("enron",)}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
