"""Reconstruction errors of factors, and of a dictionary on held-out rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, kind_of, words
from tacit.measure.inputs import as_dense, as_matrix
from tacit.validation import TableLike

# Rows are converted to float64 this many at a time, so that the copy stays small beside the matrix.
_ROWS_AT_ONCE = 4096
# Lawson and Hanson's method usually needs about as many steps as topics; far more means that it does not converge.
_STEPS_PER_TOPIC = 30


def reconstruction_error(X: TableLike, W: ArrayLike, T: ArrayLike) -> float:
    r"""Return half the mean squared distance between the rows of X and those of W T.

    .. math::
        \frac{1}{2n} \sum_i \lVert x_i - w_i T \rVert^2
        = \frac{1}{2n} \Big( \lVert X \rVert_F^2 - 2 \langle X T^\top, W \rangle
        + \langle W^\top W, T T^\top \rangle \Big)

    The right-hand side is computed in float64: W T is never formed, and sparse data stay sparse. Its rounding error is
    about 1e-15 of the mean of :math:`\lVert x_i \rVert^2`, so an exact fit gives nearly zero.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_columns)
        The data.
    W : array-like of shape (n_rows, n_topics)
        The weights of the topics in each row.
    T : array-like of shape (n_topics, n_columns)
        The dictionary.

    Returns
    -------
    float
        The error, at least zero.

    Examples
    --------
    >>> reconstruction_error([[3.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]], [[1.0, 0.0]])
    1.25
    """
    matrix, weights, dictionary = as_matrix(X, "X"), as_dense(W, "W"), as_dense(T, "T")
    _check_columns(matrix.shape, dictionary.shape)
    if weights.shape != (matrix.shape[0], dictionary.shape[0]):
        raise InvalidInputError(
            f"W to have {matrix.shape[0]} rows and {dictionary.shape[0]} columns",
            words(f"shape {weights.shape}"),
            "Give one row for each row of X and one column for each row of T.",
        )
    total = float(np.vdot(weights.T @ weights, dictionary @ dictionary.T))
    for start in range(0, matrix.shape[0], _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        rows = matrix[block].astype(np.float64)
        entries = rows if isinstance(rows, np.ndarray) else rows.data
        total += float(np.vdot(entries, entries)) - 2 * float(np.vdot(np.asarray(rows @ dictionary.T), weights[block]))
    n_rows: int = matrix.shape[0]
    return max(total, 0.0) / (2 * n_rows)


def non_negative_rows(X: TableLike, T: ArrayLike) -> NDArray[np.float64]:
    r"""Return for each row x of X the non-negative h that minimises :math:`\lVert x - hT \rVert`.

    With :math:`T^\top = QR`, the squared distance differs only by a constant from :math:`\lVert Q^\top x - Rh \rVert^2`, a
    problem of the size of T's rank, independent of the number of columns. It is solved exactly, by the active-set method of
    Lawson and Hanson (1974, chapter 23), also if topics are zero or equal, or if there are more topics than columns.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_columns)
        The data.
    T : array-like of shape (n_topics, n_columns)
        The dictionary.

    Returns
    -------
    ndarray of shape (n_rows, n_topics)
        The weights; if equal topics leave a choice, any of the best.
    """
    from scipy.optimize import nnls

    matrix, dictionary = as_matrix(X, "X"), as_dense(T, "T")
    _check_columns(matrix.shape, dictionary.shape)
    basis, triangle = np.linalg.qr(dictionary.T)
    n_topics = dictionary.shape[0]
    weights = np.empty((matrix.shape[0], n_topics))
    for start in range(0, matrix.shape[0], _ROWS_AT_ONCE):
        projected = matrix[start : start + _ROWS_AT_ONCE].astype(np.float64) @ basis
        for row, target in enumerate(projected, start):
            weights[row] = nnls(triangle, target, maxiter=_STEPS_PER_TOPIC * n_topics)[0]
    return weights


def held_out_error(X: TableLike, T: ArrayLike, rows: ArrayLike | None = None) -> float:
    r"""Return the error of the best approximation of rows by a dictionary.

    .. math::
        \frac{1}{n} \sum_i \min_{h \ge 0} \frac{1}{2} \lVert x_i - hT \rVert^2

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_columns)
        The data.
    T : array-like of shape (n_topics, n_columns)
        The dictionary, fitted to other rows.
    rows : array-like of int or of bool, optional
        The rows to measure on, as indices or as a mask; all of them if not given.

    Returns
    -------
    float
        The error, at least zero.

    Examples
    --------
    >>> held_out_error([[3.0, 1.0], [-1.0, 0.0]], [[2.0, 0.0]])
    0.5
    """
    matrix = as_matrix(X, "X")
    if rows is not None:
        matrix = matrix[_row_indices(rows, matrix.shape[0])]
    return reconstruction_error(matrix, non_negative_rows(matrix, T), T)


def _row_indices(rows: ArrayLike, n_rows: int) -> NDArray[np.intp]:
    chosen = np.asarray(rows)
    if chosen.dtype == bool and chosen.shape == (n_rows,):
        chosen = np.flatnonzero(chosen)
    is_list = chosen.ndim == 1 and chosen.size > 0 and chosen.dtype.kind in "iu"
    if not is_list or chosen.min() < 0 or chosen.max() >= n_rows:
        raise InvalidInputError(
            f"rows to choose among the {n_rows} rows of X",
            kind_of(chosen),
            "Give the indices of at least one row, or a mask with one entry for each row.",
        )
    return chosen


def _check_columns(of_data: tuple[int, ...], of_dictionary: tuple[int, ...]) -> None:
    if of_data[1] != of_dictionary[1]:
        raise InvalidInputError(
            f"T to have {of_data[1]} columns, as X has",
            words(f"shape {of_dictionary}"),
            "Give a dictionary for the same columns in the same order.",
        )
