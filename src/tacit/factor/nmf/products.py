"""A holder's table, dense or sparse, and the two products that factorisation needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import multiply, set_aside, share_out

BLOCK_NUMBERS = 1 << 20


class Table:
    """The rows of one holder.

    Parameters
    ----------
    X : ndarray or CSR matrix, of float32 or float64
        Kept as it is. A sparse one is copied once, transposed, when `transposed_times` is first called: with it both
        products run over independent rows, on all cores. It is never made dense, except `blocks` of a few rows.
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape: tuple[int, int] = X.shape
        self.dtype: np.dtype[Any] = X.dtype
        self.dense = isinstance(X, np.ndarray)

    @cached_property
    def _transposed(self) -> Any:
        return self.X.T.tocsr()

    def times(self, factor: NDArray[Any]) -> NDArray[Any]:
        """Return ``X @ factor``, in the table's own precision."""
        factor = np.ascontiguousarray(factor, dtype=self.dtype)
        return self.X @ factor if self.dense else _sparse_product(self.X, factor, self.dtype)

    def transposed_times(self, factor: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``X.T @ factor`` in double precision."""
        factor = np.ascontiguousarray(factor, dtype=self.dtype)
        product = self.X.T @ factor if self.dense else _sparse_product(self._transposed, factor, np.float64)
        return product.astype(np.float64, copy=False)

    @cached_property
    def squares(self) -> float:
        """The sum of the squares of all entries."""
        entries = self.X if self.dense else self.X.data
        return float(np.sum(np.square(entries), dtype=np.float64))

    def clean_blocks(
        self, W: NDArray[Any], T: NDArray[Any], threshold: float, bound: float
    ) -> Iterator[tuple[slice, NDArray[Any], float]]:
        """Yield ``X - R`` for a few rows at a time, where R holds the outliers that are best for these W and T.

        R is never stored: it follows from the residual, entry by entry. It is not confined to the stored entries of
        a sparse table (a word that is missing where the topics expect it is an outlier too), so the work is that of a
        dense table, but the memory is one block's.

        Yields
        ------
        rows : slice
        cleaned : ndarray
            ``X[rows] - R[rows]``.
        size : float
            The sum of ``|R[rows]|``.
        """
        step = max(1, BLOCK_NUMBERS // self.shape[1])
        T = np.asarray(T, dtype=self.dtype)
        for start in range(0, self.shape[0], step):
            rows = slice(start, min(start + step, self.shape[0]))
            block = self.X[rows] if self.dense else self.X[rows].toarray()
            cleaned = W[rows] @ T
            sizes = np.empty(len(block))
            _set_aside(block, cleaned, threshold, bound, sizes)
            yield rows, cleaned, float(sizes.sum())


def _set_aside(
    block: NDArray[Any], fitted: NDArray[Any], threshold: float, bound: float, sizes: NDArray[np.float64]
) -> None:
    work = np.arange(len(block) + 1) * block.shape[1]
    share_out(lambda start, stop: set_aside(block, fitted, threshold, bound, sizes, start, stop), work)


def _sparse_product(X: Any, factor: NDArray[Any], dtype: Any) -> NDArray[Any]:
    product = np.empty((X.shape[0], factor.shape[1]), dtype=dtype)
    share_out(
        lambda start, stop: multiply(X.data, X.indices, X.indptr, factor, product, start, stop),
        X.indptr.astype(np.int64) * factor.shape[1],
    )
    return product
