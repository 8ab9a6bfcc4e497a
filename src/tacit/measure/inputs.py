"""Checks of the input of the measures: matrices, and a table with its release.

Matrices are dense or sparse. A table and its release are arrays or data frames with the same rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, kind_of, listed, words
from tacit.validation import TableLike, reason_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix: TypeAlias = "NDArray[np.number] | csr_array[np.number, tuple[int, int]]"
"""A matrix of numbers that was checked: an array, or a sparse one by rows."""


def as_matrix(values: Any, name: str) -> Matrix:
    """Return a dense matrix as an ndarray and a sparse one as CSR, or raise an error.

    The dtype does not change: a matrix of small integers in float64 could be eight times as large.
    """
    from scipy.sparse import csr_array, issparse

    is_sparse = issparse(values)
    try:
        matrix: Matrix = csr_array(values) if is_sparse else np.asarray(values)
    except ValueError as error:
        fix = "Give rows of equal length, at least one."
        raise InvalidInputError(f"{name} to be a matrix of numbers", reason_of(error), fix) from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or 0 in matrix.shape:
        got = kind_of(matrix) if 0 not in matrix.shape else words("no rows or no columns")
        raise InvalidInputError(f"{name} to be a matrix of numbers", got, "Give rows of equal length, at least one.")
    if not np.isfinite(matrix if isinstance(matrix, np.ndarray) else matrix.data).all():
        raise InvalidInputError(f"{name} to have finite entries", words("NaN or infinity"), "Drop or fill them first.")
    return matrix


def as_dense(values: TableLike, name: str) -> NDArray[np.float64]:
    """Return a dense matrix in float64, or raise an error."""
    array = as_matrix(values, name)
    if not isinstance(array, np.ndarray):
        raise InvalidInputError(f"{name} to be dense", words("a sparse matrix"), "Call its toarray().")
    return array.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class TablePair(Undisclosed):
    """A table and its release, with the same rows and columns.

    Parameters
    ----------
    original, released : ndarray of shape (n_rows, n_columns)
        The numbers, finite, in float64.
    names : tuple of str
        The columns' names; those of an array are "column 0", "column 1" and so on.
    """

    original: NDArray[np.float64]
    released: NDArray[np.float64]
    names: tuple[str, ...]


def table_pair(original: TableLike, released: TableLike, *, least_rows: int = 1, varying: bool = False) -> TablePair:
    """Check that two tables can be compared, and return them as arrays.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        If both are data frames, columns are paired by name, otherwise by position.
    least_rows : int
        The smallest number of rows that the caller can use.
    varying : bool
        Whether every column of the original must have at least two values. Columns of the release may be constant, because
        the release may have made them so.
    """
    first, names = as_table(original, "original")
    second, second_names = as_table(released, "released")
    if names is not None and second_names is not None:
        second = _in_order(second, second_names, names)
    if first.shape != second.shape:
        raise InvalidInputError(
            f"released to have {first.shape[0]} rows and {first.shape[1]} columns, as original has",
            words(f"{second.shape[0]} rows and {second.shape[1]} columns"),
            "Give the release of the same table, with the rows in the same order.",
        )
    if first.shape[0] < least_rows:
        raise InvalidInputError(f"tables of at least {least_rows} rows", words(f"{first.shape[0]}"), "Give more rows.")
    pair = TablePair(
        first, second, names or second_names or tuple(f"column {place}" for place in range(first.shape[1]))
    )
    if varying:
        refuse_constant(pair.original, pair.names)
    return pair


def as_table(values: TableLike, name: str) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return the numbers of a table and, for a data frame, the names of its columns."""
    from narwhals.dependencies import is_into_dataframe

    if not is_into_dataframe(values):
        return as_dense(values, name), None
    import narwhals as nw

    frame = nw.from_native(values, eager_only=True)
    text = [column for column, kind in frame.schema.items() if not (kind.is_numeric() or kind == nw.Boolean)]
    if text:
        raise InvalidInputError(
            f"all columns of {name} to be numbers",
            words(f"other kinds in {listed(text)}"),
            "Leave these columns out of both tables, or code them as numbers.",
        )
    gaps = {column: frame[column].null_count() for column in frame.columns}
    if any(gaps.values()):
        with_gaps = [column for column, count in gaps.items() if count]
        raise InvalidInputError(
            f"{name} to have no missing values",
            words(f"missing values in {listed(with_gaps)}"),
            "Fill them or drop the rows, in both tables.",
        )
    columns = [np.asarray(frame[column].to_numpy(), dtype=np.float64) for column in frame.columns]
    return as_dense(np.column_stack(columns) if columns else np.empty((len(frame), 0)), name), tuple(
        map(str, frame.columns)
    )


def refuse_constant(table: NDArray[np.float64], names: tuple[str, ...]) -> None:
    """Raise an error that names the columns with only one value."""
    constant = [name for name, is_one in zip(names, np.ptp(table, axis=0) == 0, strict=True) if is_one]
    if constant:
        raise InvalidInputError(
            "every column of original to have at least two values",
            words(f"a single value in {listed(constant)}"),
            "Leave out constant columns.",
        )


def _in_order(table: NDArray[np.float64], names: tuple[str, ...], wanted: tuple[str, ...]) -> NDArray[np.float64]:
    if names == wanted:
        return table
    if set(names) != set(wanted):
        missing = [name for name in wanted if name not in names]
        extra = [name for name in names if name not in wanted]
        raise InvalidInputError(
            "released to have the columns of original",
            words(
                "; ".join(f"{kind} {listed(some)}" for kind, some in (("without", missing), ("with", extra)) if some)
            ),
            "Compare the columns that both have.",
        )
    return table[:, [names.index(name) for name in wanted]]
