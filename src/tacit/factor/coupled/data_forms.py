"""The forms that a relation's data may come in."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.factor.coupled.cells import Coords, checked_cells, refuse_duplicates
from tacit.factor.coupled.divergence import Floats


def taken(data: Any, name: str) -> tuple[tuple[int, ...], Floats | None, Coords | None, Floats | None]:
    """Return the shape, and either the dense array or the stored cells and their values; the others are None."""
    if hasattr(data, "tocoo"):
        entries = data.tocoo()
        coords, values, shape = np.stack([*entries.coords], axis=1), entries.data, entries.shape
    elif isinstance(data, tuple) and len(data) == 3 and np.ndim(data[2]) == 1 and np.ndim(data[0]) == 2:
        coords, values, shape = data
    else:
        dense = _finite(data, name, unknown=True)
        if not dense.shape or 0 in dense.shape:
            raise InvalidInputError(f"data with cells in {name!r}", words("no cells"), "Give a matrix or a tensor.")
        return dense.shape, dense, None, None
    sizes = tuple(int(size) for size in shape)
    numbers = _finite(values, name)
    cells = checked_cells(coords, sizes, f"the stored cells of {name!r}")
    if numbers.shape != (len(cells),):
        raise InvalidInputError(
            f"one value for each stored cell of {name!r}",
            words("more or fewer values than cells"),
            "Give coords of shape (n, order) and values of shape (n,).",
        )
    refuse_duplicates(cells, sizes, f"the stored cells of {name!r}")
    return sizes, None, cells, numbers


def _finite(data: Any, name: str, *, unknown: bool = False) -> Floats:
    """Return numbers as floats; NaN is left for later where it may stand for a cell that is not known."""
    try:
        array = np.array(data, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"numbers in {name!r}", words("text, objects, or rows of different lengths"), "Give an array of numbers."
        ) from None
    if np.isinf(array).any() or (not unknown and np.isnan(array).any()):
        raise InvalidInputError(f"finite numbers in {name!r}", words("NaN or infinity"), "Drop or fill them.")
    return array
