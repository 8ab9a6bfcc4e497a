"""Which cells of a relation are known: all, the stored ones, a mask, or all but some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter
from tacit.factor.coupled.cells import Coords, checked_cells


class AllBut:
    """Every cell is known but these: single cells, and whole slices.

    Parameters
    ----------
    cells : array_like of shape (n_cells, order), optional
        Cells that are not known, one a row.
    slices : mapping of axis to indices, optional
        Whole slices that are not known: ``{0: [3, 7]}`` hides everything about entities 3 and 7 of the first axis. They
        cost nothing, however large they are.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import AllBut, Relation
    >>> counts = np.arange(12.0).reshape(3, 4)
    >>> relation = Relation(counts, "ir,jr->ij", ("user", "item"), observed=AllBut([[0, 1]], slices={0: [2]}))
    >>> relation.n_observed
    7
    """

    def __init__(self, cells: Any = (), *, slices: Mapping[int, Any] | None = None) -> None:
        self.cells = cells
        self.slices = dict(slices or {})

    def resolved(self, shape: Sequence[int]) -> tuple[Coords, tuple[NDArray[np.bool_] | None, ...]]:
        """Return the single cells outside the hidden slices, and for every axis which entities are kept (None for all)."""
        keep: list[NDArray[np.bool_] | None] = [None] * len(shape)
        for axis, hidden in self.slices.items():
            if axis not in range(len(shape)):
                raise InvalidInputError(
                    f"slices along an axis from 0 to {len(shape) - 1}", parameter(axis), "Name an axis of the data."
                )
            indices = checked_cells(np.asarray(hidden).reshape(-1, 1), (shape[axis],), f"slices of axis {axis}")
            kept = np.ones(shape[axis], bool)
            kept[indices[:, 0]] = False
            keep[axis] = kept
        cells = checked_cells(self.cells, shape, "the cells of AllBut")
        cells = cells[in_kept(cells, keep)]
        return np.ascontiguousarray(np.unique(cells, axis=0)), tuple(keep)


def in_kept(cells: Coords, keep: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_]:
    """Whether each cell lies outside all hidden slices."""
    inside = np.ones(len(cells), bool)
    for axis, kept in enumerate(keep):
        if kept is not None:
            inside &= kept[cells[:, axis]]
    return inside


def checked_observed(observed: Any, shape: Sequence[int]) -> str | AllBut | NDArray[np.bool_]:
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
            "For a list of cells that are not known, give AllBut(cells).",
        )
    if mask.shape != tuple(shape):
        raise InvalidInputError(
            f"a mask of the data's shape {tuple(shape)}", parameter(mask.shape), "Give one truth value per cell."
        )
    return mask
