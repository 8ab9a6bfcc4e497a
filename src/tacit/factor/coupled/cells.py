"""Lists of cells of a tensor by their coordinates, and the specification of which cells of a relation are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.factor.arrays import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

Coords = NDArray[np.int32]
TensorLike: TypeAlias = "ArrayLike | spmatrix | sparray | tuple[ArrayLike, ArrayLike, ArrayLike]"
"""A matrix or tensor that a user gives: dense, a scipy sparse array, or ``(coords, values, shape)``."""
ObservedLike: TypeAlias = "ArrayLike | AllBut | None"
"""Which cells are known: a mask, "all", "stored" or `AllBut`."""


def checked_cells(cells: ArrayLike, shape: Sequence[int], what: str) -> Coords:
    """Return cells as integers, one cell per row, all within `shape`; an empty list gives no cells."""
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
                "Count indices from 0, and give the whole shape if the last entities have no cells.",
            )
    return np.ascontiguousarray(array, dtype=np.int32)


def keys(cells: Coords, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return one number per cell, in the order of the cells in memory."""
    if math.prod(shape) >= 2**63:
        raise InvalidInputError("a shape with fewer than 2**63 cells", parameter(tuple(shape)), "Split the relation.")
    places = np.zeros(len(cells), np.int64)
    for axis, size in enumerate(shape):
        places *= size
        places += cells[:, axis]
    return places


def refuse_duplicates(cells: Coords, shape: Sequence[int], what: str) -> None:
    """Raise if a cell is listed twice."""
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


class AllBut:
    """Every cell is known except these: single cells, and whole slices.

    Parameters
    ----------
    cells : array_like of shape (n_cells, order), optional
        Unknown cells, one per row.
    slices : mapping of axis to indices, optional
        Unknown slices: ``{0: [3, 7]}`` hides all cells of entities 3 and 7 of the first axis. Their cells are not listed, so
        they may be large.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import AllBut, Relation
    >>> counts = np.arange(12.0).reshape(3, 4)
    >>> relation = Relation(counts, "ir,jr->ij", ("user", "item"), observed=AllBut([[0, 1]], slices={0: [2]}))
    >>> relation.n_observed
    7
    """

    def __init__(self, cells: ArrayLike = (), *, slices: Mapping[int, ArrayLike] | None = None) -> None:
        self.cells = cells
        self.slices = dict(slices or {})

    def resolved(self, shape: Sequence[int]) -> tuple[Coords, tuple[NDArray[np.bool_] | None, ...]]:
        """Return the single cells outside the hidden slices, and for every axis, which entities are kept (None for all)."""
        keep: list[NDArray[np.bool_] | None] = [None] * len(shape)
        for axis, hidden in self.slices.items():
            if axis not in range(len(shape)):
                raise InvalidInputError(
                    f"slices along an axis from 0 to {len(shape) - 1}",
                    parameter(axis),
                    "Give the number of an axis of the data.",
                )
            indices = checked_cells(np.asarray(hidden).reshape(-1, 1), (shape[axis],), f"slices of axis {axis}")
            kept = np.ones(shape[axis], bool)
            kept[indices[:, 0]] = False
            keep[axis] = kept
        cells = checked_cells(self.cells, shape, "the cells of AllBut")
        cells = cells[in_kept(cells, keep)]
        return np.ascontiguousarray(np.unique(cells, axis=0)), tuple(keep)


def in_kept(cells: Coords, keep: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_]:
    """Whether each cell is outside all hidden slices."""
    inside = np.ones(len(cells), bool)
    for axis, kept in enumerate(keep):
        if kept is not None:
            inside &= kept[cells[:, axis]]
    return inside


def checked_observed(observed: ObservedLike, shape: Sequence[int]) -> str | AllBut | NDArray[np.bool_]:
    """Return "all", "stored", an `AllBut` or a boolean mask."""
    if observed is None or (isinstance(observed, str) and observed in ("all", "stored")):
        return observed or "all"
    if isinstance(observed, AllBut):
        return observed
    mask = None if isinstance(observed, str) else np.asarray(observed)
    if mask is None or mask.dtype != np.bool_:
        raise InvalidInputError(
            'observed to be "all", "stored", a boolean mask or AllBut(...)',
            kind_of(observed),
            "For a list of unknown cells, give AllBut(cells).",
        )
    if mask.shape != tuple(shape):
        raise InvalidInputError(
            f"a mask of the data's shape {tuple(shape)}", parameter(mask.shape), "Give one truth value per cell."
        )
    return mask


def added(places: Integers, terms: Floats, size: int) -> Floats:
    """Add rows of `terms` at their places, in the order of the cells."""
    flat = terms.reshape(len(terms), math.prod(terms.shape[1:]))
    sums = np.empty((size, flat.shape[1]))
    for column in range(flat.shape[1]):
        sums[:, column] = np.bincount(places, flat[:, column], minlength=size)
    return sums.reshape(size, *terms.shape[1:])
