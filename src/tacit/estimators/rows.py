"""Bounding what one row can contribute, for dense and sparse data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check_positive


def row_norms(X: Any) -> NDArray[np.float64]:
    """Return the L2 norm of every row of a dense or CSR matrix."""
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        wide = X.astype(np.float64)  # squares of small integers would overflow their own type
        squares = np.asarray(wide.multiply(wide).sum(axis=1)).ravel()
    norms: NDArray[np.float64] = np.sqrt(squares)
    return norms


def clip_rows(X: Any, norm: float) -> Any:
    """Scale every row with an L2 norm above `norm` down to it; the others stay as they are.

    Each row is treated by itself, so that adding or removing one leaves the others alone. Sparse rows stay sparse.
    """
    bound = check_positive(norm, "row_norm")
    lengths = row_norms(X)
    factors = np.where(lengths > bound, bound / np.where(lengths > 0, lengths, 1.0), 1.0)
    if isinstance(X, np.ndarray):
        return X * factors[:, None]
    from scipy.sparse import diags_array

    return (diags_array(factors) @ X).tocsr()
