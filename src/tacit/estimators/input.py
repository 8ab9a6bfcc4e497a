"""Checks of the data of estimators (tables of finite numbers, dense or CSR), and clipping of rows to a public norm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.validation import TableLike, check_positive, reason_of, refuse_dates

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.estimators.base import Estimator

PARTITION_ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".npz", ".npy", ".mtx", ".jsonl")
"""Of files that are partitions of a table."""
NUMBERS = "Reshape your data to one row per record, convert text, fill or drop missing values; nothing was charged."

Rows: TypeAlias = "NDArray[np.floating] | csr_array[np.floating, tuple[int, int]]"
"""Rows of numbers that were checked: an array, or a sparse matrix by rows."""


def validated(
    estimator: Estimator,
    X: TableLike,
    *,
    reset: bool,
    dtype: DTypeLike | list[DTypeLike] = np.float64,
    non_negative: bool = False,
) -> Rows:
    """Return `X` as a C-ordered array or CSR matrix of floats; set (`reset`) or check the columns of `estimator`.

    Parameters
    ----------
    estimator : scikit-learn estimator
    X : array_like, sparse matrix or data frame
    reset : bool
        True for the data of a fit, False for later data, which must have the same columns.
    dtype : dtype or list of dtypes
        `X` is converted to the first, unless it has another of them.
    non_negative : bool
        Whether to raise an error for entries below zero.
    """
    from sklearn.utils.validation import validate_data

    refuse_dates(X, "a table")
    try:
        rows: Rows = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype, order="C")
    except TypeError as error:
        raise TypeError(reason_of(error)) from None
    except ValueError as error:
        raise InvalidInputError("a table of finite numbers, one row per record", reason_of(error), NUMBERS) from None
    if non_negative and (rows if isinstance(rows, np.ndarray) else rows.data).min(initial=0) < 0:
        raise InvalidInputError(
            f"a table of non-negative numbers for {type(estimator).__name__}",
            words("Negative values in data"),
            "Shift or clip the data by a public amount.",
        )
    return rows


def as_numbers(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return values as an array of floats; numpy's own error would quote a value."""
    refuse_dates(values, what)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{what} that are numbers", kind_of(values), "Convert text to numbers.") from None


def check_components(n_components: int, shape: tuple[int, int]) -> None:
    """Raise if there are more components than columns."""
    columns = shape[1]
    if n_components > columns:
        raise InvalidInputError(
            f"n_components <= {columns}, the number of columns (n_features={columns})",
            words(f"n_components={n_components}"),
            "Ask for fewer components.",
        )


ROUNDING = 1e-9
"""Relative difference of lengths that counts as rounding. Set by hand: far above that of sums of millions of squares."""


def row_norms(X: Rows) -> NDArray[np.float64]:
    """Return the L2 norm of every row of a dense or CSR matrix."""
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        wide = X.astype(np.float64)  # squares of small integers would overflow their own type
        squares = np.asarray(wide.multiply(wide).sum(axis=1)).ravel()
    norms: NDArray[np.float64] = np.sqrt(squares)
    return norms


@overload
def clip_rows(X: NDArray[np.floating], norm: float) -> NDArray[np.float64]: ...
@overload
def clip_rows(X: Rows, norm: float) -> Rows: ...
def clip_rows(X: Rows, norm: float) -> Rows:
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


def clipped_fraction(X: Rows, norm: float) -> float:
    """Return the fraction of rows that `clip_rows` shortens by more than rounding: scaled rows may be a last bit too long."""
    return float((row_norms(X) > norm * (1 + ROUNDING)).mean())


def checked_range(given: Any, n_features: int, name: str = "feature_range") -> NDArray[np.float64]:
    """Return the public lowest and highest value of every feature (or target) as two rows."""
    try:
        low, high = (np.broadcast_to(np.asarray(side, np.float64), n_features) for side in given)
    except (TypeError, ValueError):
        low = high = np.full(n_features, np.nan)
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise InvalidInputError(
            f"{name} to be the lowest and the highest value (two numbers, or two lists of {n_features}), low < high",
            parameter(given),
            f"Give {name}=(low, high), known without looking at the data.",
        )
    return np.stack([low, high])


def is_partitioned(data: object) -> bool:
    """Return whether data comes in partitions: a Dask collection, a pattern of files, or a list of files."""
    if is_dask(data):
        return True
    if isinstance(data, str):
        return data.endswith(PARTITION_ENDINGS)
    if not isinstance(data, list | tuple) or not data:
        return False
    return all(isinstance(part, str | os.PathLike) and str(part).endswith(PARTITION_ENDINGS) for part in data)


def is_dask(data: object) -> bool:
    """Return whether data is a Dask collection; Dask is not imported for it."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr")
