"""The tables of the thesis, as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.reproduce.catalogue import ItemRun

Matrix = NDArray[np.float64]
CLASSIFIED = ("spambase", "magic04", "winequality")
TITLES = {
    "spambase": "Spambase",
    "magic04": "Magic Gamma",
    "winequality": "Wine Quality",
    "iris": "Iris",
    "yeast": "Yeast",
    "sonar": "Sonar",
}
GOOD_WINE = 6
"""Quality from which a wine counts as good. The thesis has two classes of its 4,898 white wines, and does not say which."""


def numbers(run: ItemRun, name: str) -> Matrix:
    """Return the numeric attributes of a table."""
    return labelled(run, name)[0]


def labelled(run: ItemRun, name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the numeric attributes and the classes, as numbers."""
    frame = run.data[name]
    if name == "winequality":
        white = frame.filter(frame["is_red"] == 0)
        return (
            white.drop("quality", "is_red").to_numpy().astype(np.float64),
            (white["quality"] >= GOOD_WINE).to_numpy().astype(np.int64),
        )
    _, classes = np.unique(frame["y"].to_numpy(), return_inverse=True)
    return frame.drop("y").to_numpy().astype(np.float64), classes.astype(np.int64)


def split(
    run: ItemRun, name: str, fraction: float, seed: int, *, by_class: bool = False
) -> tuple[Matrix, NDArray[np.int64], Matrix, NDArray[np.int64]]:
    """Return training rows and classes, test rows and classes; `by_class` sorts by class, as most of the files are."""
    A, y = labelled(run, name)
    draw = np.random.default_rng(seed)
    if run.quick:
        few = np.sort(draw.choice(len(A), 500, replace=False))
        A, y = A[few], y[few]
        A = A[:, np.ptp(A, axis=0) > 0]
    if by_class:
        order = np.argsort(y, kind="stable")
        A, y = A[order], y[order]
    test = draw.random(len(A)) < fraction
    return A[~test], y[~test], A[test], y[test]
