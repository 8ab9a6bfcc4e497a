"""A holder's table, dense or sparse, and the two products that factorisation needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.estimators.input import Rows
from tacit.factor.arrays import SomeFloats
from tacit.factor.kernels import count_columns, multiply, multiply_dense, multiply_transposed, parallel_for, set_aside

BLOCK_NUMBERS = 1 << 20
"""Numbers of a dense block: 8 MB in double precision. Set by hand; it bounds the memory."""
ROWS_AT_ONCE = 1 << 8
"""Rows whose products are in memory at the same time. Set by hand; it bounds the memory."""


class Table:
    """The rows of one holder.

    Parameters
    ----------
    X : ndarray or CSR matrix, of float32 or float64
        Kept as it is, and not copied, unless it is sparse and the entries of a row are not in the order of the columns.
        It is never made dense, except `clean_blocks` of a few rows.
    """

    def __init__(self, X: Rows) -> None:
        # `dense` says which of the two it is
        self.X: Any = X if isinstance(X, np.ndarray) or X.has_sorted_indices else X.sorted_indices()
        self.shape: tuple[int, int] = X.shape
        self.dtype: np.dtype[np.floating] = X.dtype
        self.dense = isinstance(X, np.ndarray)

    def times(self, factor: SomeFloats) -> SomeFloats:
        """Return ``X @ factor``, in the table's own precision."""
        factor = np.ascontiguousarray(factor, dtype=self.dtype)
        if self.dense:
            product: SomeFloats = self.X @ factor
            return product
        product = np.empty((self.shape[0], factor.shape[1]), dtype=self.dtype)
        parallel_for(
            lambda start, stop: self._multiply(factor, product[start:stop], start, stop),
            self.X.indptr.astype(np.int64) * factor.shape[1],
        )
        return product

    def each_product(self, factor: SomeFloats, use: Callable[[SomeFloats, int, int], object], work_a_row: int) -> None:
        """Call ``use(X[start:stop] @ factor, start, stop)`` for ranges of rows that cover all of them, on all cores.

        The product with a narrow factor can be as large as the data; here only a few rows of it exist at a time. The
        product of a row depends on that row and the factor alone, bit for bit.

        Parameters
        ----------
        factor : ndarray of shape (n_columns, k)
            C-ordered, in the table's precision.
        use : callable
        work_a_row : int
            What `use` costs per row, in operations, so that all threads get the same work.
        """

        def multiply_and_use(start: int, stop: int) -> None:
            product = np.empty((ROWS_AT_ONCE, factor.shape[1]), dtype=self.dtype)
            for first in range(start, stop, ROWS_AT_ONCE):
                last = min(first + ROWS_AT_ONCE, stop)
                self._multiply(factor, product, first, last)
                use(product[: last - first], first, last)

        rows = np.arange(self.shape[0] + 1)
        entries = rows * self.shape[1] if self.dense else self.X.indptr.astype(np.int64)
        parallel_for(multiply_and_use, entries * factor.shape[1] + rows * work_a_row)

    def _multiply(self, factor: SomeFloats, product: SomeFloats, start: int, stop: int) -> None:
        if self.dense:
            multiply_dense(np.ascontiguousarray(self.X[start:stop]), factor, product, 0, stop - start)
            return
        ends = self.X.indptr[start : stop + 1]
        multiply(self.X.data, self.X.indices, ends, factor, product, 0, stop - start)

    def transposed_times(self, factor: SomeFloats, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return ``X.T @ factor`` in double precision, in `out` if given (C-ordered)."""
        factor = np.ascontiguousarray(factor, dtype=self.dtype)
        product = np.empty((self.shape[1], factor.shape[1])) if out is None else out
        if self.dense:
            if self.dtype == product.dtype:
                return np.matmul(self.X.T, factor, out=product)
            product[:] = self.X.T @ factor
            return product
        parallel_for(
            lambda start, stop: multiply_transposed(
                self.X.data, self.X.indices, self.X.indptr, factor, product, start, stop
            ),
            self._column_ends * factor.shape[1],
            pieces_per_thread=2,  # each of them passes over all rows
        )
        return product

    @cached_property
    def _column_ends(self) -> NDArray[np.int64]:
        """How many entries of a sparse table are in the columns up to each."""
        counts = np.zeros(self.shape[1] + 1, dtype=np.int64)
        count_columns(self.X.indices, counts)
        return np.cumsum(counts)

    @cached_property
    def squares(self) -> float:
        """The sum of the squares of all entries."""
        entries = (self.X if self.dense else self.X.data).ravel()
        blocks = range(0, entries.size, ROWS_AT_ONCE**2)  # the squares of all at once would be a second table
        return float(sum(np.sum(np.square(entries[b : b + ROWS_AT_ONCE**2]), dtype=np.float64) for b in blocks))

    def clean_blocks(
        self, W: SomeFloats, T: SomeFloats, threshold: float, bound: float
    ) -> Iterator[tuple[slice, SomeFloats, float]]:
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
        T = np.ascontiguousarray(T, dtype=self.dtype)
        for rows, block in self.dense_blocks():
            cleaned, size = clean(block, W[rows], T, threshold, bound)
            yield rows, cleaned, size

    def dense_blocks(self) -> Iterator[tuple[slice, SomeFloats]]:
        """Yield ranges of rows that cover all of them, and these rows as a C-ordered array."""
        step = max(1, BLOCK_NUMBERS // self.shape[1])
        for start in range(0, self.shape[0], step):
            rows = slice(start, min(start + step, self.shape[0]))
            yield rows, np.ascontiguousarray(self.X[rows] if self.dense else self.X[rows].toarray())


def clean(rows: SomeFloats, W: SomeFloats, T: SomeFloats, threshold: float, bound: float) -> tuple[SomeFloats, float]:
    """Return ``rows - R`` for the outliers R that are best for these W and T, and the sum of ``|R|``."""
    cleaned, sizes = product_of(W, T), np.empty(len(rows))
    parallel_for(
        lambda start, stop: set_aside(rows, cleaned, threshold, bound, sizes, start, stop),
        np.arange(len(rows) + 1) * rows.shape[1],
    )
    return cleaned, float(sizes.sum())


def product_of(rows: SomeFloats, factor: SomeFloats) -> SomeFloats:
    """Return ``rows @ factor`` on all cores, each row by itself, bit for bit; both are C-ordered and of one precision."""
    product = np.empty((len(rows), factor.shape[1]), dtype=rows.dtype)
    parallel_for(
        lambda start, stop: multiply_dense(rows, factor, product, start, stop),
        np.arange(len(rows) + 1) * factor.size,
    )
    return product
