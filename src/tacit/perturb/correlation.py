"""Which columns go with the label, and how much."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words


def label_codes(y: Any, n_rows: int, classes: Any) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the class of each row as a number, and the classes in order.

    Parameters
    ----------
    y : array_like of shape (n_rows,)
    n_rows : int
    classes : sequence, optional
        All classes in their order; sorted if not given.
    """
    if y is None:
        raise InvalidInputError("one label per row", words("none"), "Call fit(X, y): this method uses the classes.")
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            "one label per row",
            words(f"labels in {labels.ndim} dimensions" if labels.ndim != 1 else "more or fewer labels than rows"),
            "Give the labels in the order of the rows.",
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InvalidInputError("a label for every row", words("missing ones"), "Drop the rows without a label.")
    found, codes = np.unique(labels, return_inverse=True)
    if classes is not None:
        order = {value: place for place, value in enumerate(np.asarray(classes).tolist())}
        if any(value not in order for value in found.tolist()):
            raise InvalidInputError(
                "labels among the classes given", words("other labels"), "Name all classes in `classes`, in order."
            )
        codes, found = np.array([order[value] for value in found.tolist()])[codes], np.asarray(classes)
    if len(np.unique(codes)) < 2:
        raise InvalidInputError("at least two classes", words("one"), "Give labels of two or more classes.")
    return codes.astype(np.intp), found


def label_correlations(rows: NDArray[np.float64], codes: NDArray[np.intp], *, ordered: bool) -> NDArray[np.float64]:
    """Return each column's largest absolute correlation with the label.

    Two classes, or ordered ones, are correlated as numbers. Others are compared two at a time, as 0 and 1, and the largest
    counts (Thapa 2013, section 5.8).
    """
    present = np.unique(codes)
    if ordered or len(present) == 2:
        return _correlations(rows, codes.astype(np.float64))
    found = np.zeros(rows.shape[1])
    for first, second in combinations(present, 2):
        both = (codes == first) | (codes == second)
        found = np.maximum(found, _correlations(rows[both], (codes[both] == second).astype(np.float64)))
    return found


def _correlations(rows: NDArray[np.float64], label: NDArray[np.float64]) -> NDArray[np.float64]:
    away, label = rows - rows.mean(axis=0), label - label.mean()
    size = np.linalg.norm(away, axis=0) * np.linalg.norm(label)
    together = np.abs(label @ away)
    # a column that is constant among these rows tells nothing about them
    found: NDArray[np.float64] = np.divide(
        together, size, out=np.zeros_like(together), where=size > 1e-12 * np.abs(rows).max(initial=1.0)
    )
    return found
