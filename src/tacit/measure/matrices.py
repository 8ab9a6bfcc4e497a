"""What the measures accept as a matrix, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, kind_of, words
from tacit.validation import reason_of


def as_matrix(values: Any, name: str) -> Any:
    """Return a dense matrix as an ndarray and a sparse one as CSR, or say what is wrong with it.

    The type of number stays: a matrix of small integers in float64 could be eight times as large.
    """
    from scipy.sparse import csr_array, issparse

    is_sparse = issparse(values)
    try:
        matrix: Any = csr_array(values) if is_sparse else np.asarray(values)
    except ValueError as error:
        fix = "Give rows of equal length, at least one."
        raise InvalidInputError(f"{name} to be a matrix of numbers", reason_of(error), fix) from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or 0 in matrix.shape:
        got = kind_of(matrix) if 0 not in matrix.shape else words("no rows or no columns")
        raise InvalidInputError(f"{name} to be a matrix of numbers", got, "Give rows of equal length, at least one.")
    if not np.isfinite(matrix.data if is_sparse else matrix).all():
        raise InvalidInputError(f"{name} to have finite entries", words("NaN or infinity"), "Drop or fill them first.")
    return matrix


def as_dense(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a dense matrix in float64, or say what is wrong with it."""
    array = as_matrix(values, name)
    if not isinstance(array, np.ndarray):
        raise InvalidInputError(f"{name} to be dense", words("a sparse matrix"), "Call its toarray().")
    return array.astype(np.float64, copy=False)
