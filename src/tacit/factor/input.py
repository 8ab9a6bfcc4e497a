"""What estimators accept: tables of finite numbers, dense or CSR; anything else is refused with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, words


def validated(estimator: Any, X: Any, *, reset: bool, dtype: Any = np.float64, non_negative: bool = False) -> Any:
    """Return `X` as a C-ordered array or CSR matrix of floats; remember (`reset`) or check its columns in `estimator`.

    Parameters
    ----------
    estimator : scikit-learn estimator
    X : array_like, sparse matrix or data frame
    reset : bool
        True for the data of a fit, False for later data, which must have the same columns.
    dtype : dtype or list of dtypes
        The first is converted to, unless `X` has another of them.
    non_negative : bool
        Whether entries below zero are refused too.
    """
    from sklearn.utils.validation import validate_data

    try:
        X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype, order="C")
    except ValueError as error:
        first, *rest = str(error).splitlines()
        raise InvalidInputError(
            "a table of finite numbers, one row a record",
            words(first),
            " ".join([*rest[-1:], "Convert, impute or drop what is not a number; nothing was charged."]),
        ) from error
    if non_negative and (X if isinstance(X, np.ndarray) else X.data).min(initial=0) < 0:
        raise InvalidInputError(
            "a table without negative entries",
            words("negative ones"),
            f"Shift or clip by a public amount. Negative values in data passed to {type(estimator).__name__} have no meaning.",
        )
    return X


def check_components(n_components: int, shape: tuple[int, int]) -> None:
    """Refuse more components than columns."""
    rows, columns = shape
    if n_components > columns:
        raise InvalidInputError(
            f"n_components of at most n_features = {columns} (n_features={columns})",
            words(f"{n_components}, with n_samples={rows}"),
            "Ask for fewer components.",
        )
