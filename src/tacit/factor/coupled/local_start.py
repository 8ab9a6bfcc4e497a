"""Where a sampler of noisy count tables starts: at their main directions, in which most of the noise averages out.

It would get there from anywhere, but the stronger the noise, the slower: a cell then says little of its count.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

LEAST = 0.05


def start_of(
    tables: Sequence[NDArray[np.int64]], observed: Sequence[NDArray[np.bool_]], rank: int, seed: int
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Return positive rows of every table, and shared columns of mean about 1, from tables with the same columns."""
    joined = np.concatenate([_filled(table, mask) for table, mask in zip(tables, observed, strict=True)])
    left, values, right = np.linalg.svd(joined, full_matrices=False)
    smooth = np.maximum((left[:, :rank] * values[:rank]) @ right[:rank], LEAST)
    used = min(rank, *smooth.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not have converged
        model = NMF(used, init="random", max_iter=100, random_state=seed)
        found = model.fit_transform(smooth)
    scales = model.components_.mean(axis=1) + LEAST
    rows, shared = np.full((len(joined), rank), LEAST), np.full((joined.shape[1], rank), LEAST)
    rows[:, :used] += found * scales
    shared[:, :used] += (model.components_ / scales[:, None]).T
    ends = np.cumsum([0, *(len(table) for table in tables)])
    return [rows[first:last] for first, last in itertools.pairwise(ends)], shared


def _filled(table: NDArray[np.int64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the table with its unknown cells set to row mean times column mean over the mean."""
    known = np.where(observed, table, 0).astype(np.float64)
    rows = known.sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    columns = known.sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    level = max(float(known.sum() / max(observed.sum(), 1)), LEAST)
    return np.where(observed, known, np.maximum(np.outer(rows, columns) / level, 0.0))
