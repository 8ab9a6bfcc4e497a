"""Cells of a tensor by their coordinates: checking lists of them, and finding one list in another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words

Coords = NDArray[np.int32]


def checked_cells(cells: Any, shape: Sequence[int], what: str) -> Coords:
    """Return cells as whole numbers, one cell a row, all within `shape`; an empty list is no cell."""
    array = np.asarray(cells)
    if array.size == 0:
        return np.zeros((0, len(shape)), np.int32)
    if array.ndim != 2 or array.shape[1] != len(shape):
        raise InvalidInputError(
            f"{what} as a table with one row per cell and {len(shape)} columns",
            kind_of(array),
            "Give the index of each cell on every axis, in the order of the axes.",
        )
    if array.dtype.kind not in "iu":
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64, copy=True) if array.dtype.kind in "fb" else None
        if whole is None or not np.array_equal(whole, array):
            raise InvalidInputError(
                f"{what} to be whole numbers", kind_of(array), "Give integer indices, counted from 0."
            )
        array = whole
    for axis, size in enumerate(shape):
        column = array[:, axis]
        if column.min() < 0 or column.max() >= size:
            raise InvalidInputError(
                f"{what} within the shape {tuple(shape)}: 0 to {size - 1} on axis {axis}",
                words("an index outside"),
                "Count indices from 0, and give the whole shape if the last entities have no cell.",
            )
    return np.ascontiguousarray(array, dtype=np.int32)


def keys(cells: Coords, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return one number a cell, in the order of the cells in memory."""
    if math.prod(shape) >= 2**63:
        raise InvalidInputError("a shape with fewer than 2**63 cells", parameter(tuple(shape)), "Split the relation.")
    found = np.zeros(len(cells), np.int64)
    for axis, size in enumerate(shape):
        found *= size
        found += cells[:, axis]
    return found


def refuse_duplicates(cells: Coords, shape: Sequence[int], what: str) -> None:
    """Raise where a cell is listed twice."""
    places = np.sort(keys(cells, shape))
    if (places[1:] == places[:-1]).any():
        raise InvalidInputError(
            f"every cell once in {what}",
            words("duplicate cells"),
            "Add up or average the duplicates first.",
        )


def is_among(cells: Coords, others: Coords, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Whether each cell is one of `others`."""
    if not len(others) or not len(cells):
        return np.zeros(len(cells), bool)
    return np.isin(keys(cells, shape), keys(others, shape))
