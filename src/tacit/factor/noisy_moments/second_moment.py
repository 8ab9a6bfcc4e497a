"""The sum that finds factors: second moments of the units' residuals, each unit with a norm of at most 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.factor.arrays import Floats, Integers

BLOCK = 2048
"""Units that are dense at the same time. It bounds the memory (4 MB for 250 columns) and does not change the sum."""


def second_moment(
    units: Integers,
    columns: NDArray[np.integer],
    values: Floats,
    popular: NDArray[np.intp],
    *,
    n_units: int,
    n_columns: int,
    radius: float = 0.0,
    scales: Floats | None = None,
) -> Floats:
    r"""Return :math:`\sum_u s_u\, a_u a_u^\top` without its diagonal, where :math:`a_u = v_u / \max(\|v_u\|, R)`.

    The diagonal is zero because it would hold the variance of single values, which is not signal.

    Parameters
    ----------
    units : ndarray of shape (n,)
        The unit u of every value, ascending.
    columns : ndarray of shape (n,)
        The column of every value; values of one unit at the same column are added.
    values : ndarray of shape (n,)
        The entries of v.
    popular : ndarray of int
        The columns that take part; the other values are left out.
    n_units, n_columns : int
    radius : float
        R. Zero divides every vector by its own norm.
    scales : ndarray of shape (n_units,), optional
        s, at most 1; 1 if not given.
    """
    place = np.full(n_columns, -1)
    place[popular] = np.arange(len(popular))
    taken = place[columns] >= 0
    units, columns, values = units[taken], place[columns[taken]], values[taken]
    outer = np.zeros((len(popular), len(popular)))
    for start in range(0, n_units, BLOCK):
        stop = min(start + BLOCK, n_units)
        cells = slice(*np.searchsorted(units, [start, stop]))
        shape = stop - start, len(popular)
        dense = csr_array((values[cells], (units[cells] - start, columns[cells])), shape=shape).toarray()
        norms = np.maximum(np.linalg.norm(dense, axis=1), radius)
        weights = np.ones(stop - start) if scales is None else np.sqrt(scales[start:stop])
        dense *= (weights / np.where(norms > 0, norms, 1.0))[:, None]
        outer += dense.T @ dense
    np.fill_diagonal(outer, 0.0)
    return outer
