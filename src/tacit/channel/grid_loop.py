"""The compiled loop of `tacit.channel.fixedpoint.Grid.encode`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def put_on_grid(values: NDArray[np.float64], factor: float, limit: float, integers: NDArray[np.int64]) -> bool:
    """Round the products with `factor` to integers, halves to even; return whether all are below `limit` in magnitude."""
    fits = True
    for place in range(values.size):
        scaled = np.rint(values[place] * factor)
        inside = abs(scaled) < limit  # false for NaN
        fits &= inside
        integers[place] = np.int64(scaled if inside else 0.0)
    return fits
