"""What estimators accept: tables of finite numbers, dense or CSR; anything else is refused with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, words
from tacit.validation import reason_of

NUMBERS = "Reshape your data to one row per record, convert text, fill or drop missing values; nothing was charged."


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
    except TypeError as error:
        raise TypeError(reason_of(error)) from None
    except ValueError as error:
        raise InvalidInputError("a table of finite numbers, one row per record", reason_of(error), NUMBERS) from None
    if non_negative and (X if isinstance(X, np.ndarray) else X.data).min(initial=0) < 0:
        raise InvalidInputError(
            f"a table of non-negative numbers for {type(estimator).__name__}",
            words("Negative values in data"),
            "Shift or clip the data by a public amount.",
        )
    return X


def as_numbers(values: Any, what: str) -> NDArray[np.float64]:
    """Return values as an array of floats; the error of numpy would quote what is no number."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{what} that are numbers", kind_of(values), "Convert text to numbers.") from None


def check_components(n_components: int, shape: tuple[int, int]) -> None:
    """Refuse more components than columns."""
    columns = shape[1]
    if n_components > columns:
        raise InvalidInputError(
            f"n_components <= {columns}, the number of columns (n_features={columns})",
            words(f"n_components={n_components}"),
            "Ask for fewer components.",
        )
