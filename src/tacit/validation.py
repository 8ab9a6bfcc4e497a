"""Checks of parameters, shared by all public functions, so that the same mistake gives the same message everywhere."""

from __future__ import annotations

import math
import numbers
import re
import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsFloat, TypeAlias, TypeGuard

from tacit.errors import ConcernWarning, InvalidInputError, Words, parameter, words

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix

TableLike: TypeAlias = "ArrayLike | spmatrix | sparray | IntoDataFrame"
"""A table that a user gives: what becomes an array of numbers, a sparse matrix, or a data frame that narwhals reads."""

LARGEST_FIT_DELTA = 0.01
"""Private fits refuse a larger delta: even among a hundred units it would allow one to be published outright."""

_WITHOUT_VALUES = re.compile(
    r"Input \w+ contains (NaN|infinity or a value too large for dtype\('\w+'\))"
    r"|Complex data not supported"
    r"|Found array with \d+ sample\(s\) \(shape=[\d, ()]+\) while a minimum of \d+ is required.*"
    r"|Found array with \d+ feature\(s\) \(shape=[\d, ()]+\) while a minimum of \d+ is required.*"
    r"|Found array with dim \d+, while dim <= 2 is required.*"
    r"|Expected 2D array, got (1D|scalar) array instead"
    r"|X has \d+ features, but \w+ is expecting \d+ features as input"
    r"|The feature names should match those that were passed during fit"
    r"|Feature names are only supported if all input features have string names, .*"
    r"|Sparse data was passed.*"
    r"|np\.matrix is not supported.*"
    r"|Singular matrix|(SVD|Eigenvalues) did not converge"
    r"|(float|int)\(\) argument must be a string(, a bytes-like object)? or a real number, not '\w+'"
)
"""First lines of messages of scikit-learn and numpy that hold no values of the data; all others may."""

SMALLEST = sys.float_info.min
"""Probabilities below it have lost digits; accounting with them overflows."""


def _is_real(value: object) -> TypeGuard[SupportsFloat]:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:  # a Python integer beyond the largest float
        return False


def check_positive(value: object, name: str, *, infinite: bool = False) -> float:
    """Return `value` as a float greater than zero; infinity only when `infinite` allows it."""
    if not _is_real(value) or not float(value) > 0 or (math.isinf(float(value)) and not infinite):
        kind = "a positive number" if infinite else "a positive finite number"
        raise InvalidInputError(f"{name} to be {kind}", parameter(value), f"Give {name} > 0.")
    return float(value)


def check_non_negative(value: object, name: str) -> float:
    """Return `value` as a finite float of at least zero."""
    if not _is_real(value) or not 0 <= float(value) < math.inf:
        raise InvalidInputError(f"{name} to be a finite number of at least 0", parameter(value), f"Give {name} >= 0.")
    return float(value)


def check_epsilon(value: object, *, infinite: bool = False) -> float:
    """Return a privacy loss epsilon > 0."""
    if not _is_real(value) or not float(value) > 0 or (math.isinf(float(value)) and not infinite):
        raise InvalidInputError(
            "epsilon to be a positive finite number" if not infinite else "epsilon to be a positive number",
            parameter(value),
            "Give the total privacy loss of the whole fit, for example epsilon=1.0.",
        )
    return float(value)


def check_delta(value: object) -> float:
    """Return a failure probability strictly between 0 and 1."""
    if not _is_real(value) or not SMALLEST <= float(value) < 1:
        raise InvalidInputError(
            "delta to be strictly between 0 and 1",
            parameter(value),
            "Give a probability well below one over the number of units, for example delta=1e-6.",
        )
    return float(value)


def check_fit_delta(value: object) -> float:
    """Return the delta of a private fit: a failure probability of at most `LARGEST_FIT_DELTA`.

    With delta of one over the number of units or more, a mechanism may publish a unit outright. That number is private
    under add-remove adjacency, so the limit is a constant; `warn_about_delta` tells the holder about the number.
    """
    delta = check_delta(value)
    if delta > LARGEST_FIT_DELTA:
        raise InvalidInputError(
            f"delta of a private fit to be at most {LARGEST_FIT_DELTA:g}",
            parameter(value),
            "Give a probability well below one over the number of units, for example delta=1e-6.",
        )
    return delta


def warn_about_delta(delta: float, units: int) -> None:
    """Warn the holder if delta is not below one over the number of units. The warning depends on that number."""
    if units and delta >= 1 / units:
        warnings.warn(
            f"For the holder only: delta = {delta:g} is not below one over the number of units. A mechanism that publishes one "
            "unit's data outright, chosen at random, has such a delta. Give a delta well below it.",
            ConcernWarning,
            stacklevel=2,
        )


def check_rate(value: object, name: str = "sampling_rate") -> float:
    """Return a sampling rate in (0, 1]."""
    if not _is_real(value) or not SMALLEST <= float(value) <= 1:
        raise InvalidInputError(
            f"{name} to be in (0, 1]",
            parameter(value),
            f"Give the probability with which each unit is drawn; {name}=1 uses all.",
        )
    return float(value)


def check_count(value: object, name: str, *, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise InvalidInputError(
            f"{name} to be an integer of at least {least}", parameter(value), f"Give a whole number for {name}."
        )
    return int(value)


def check_range(value: object, name: str, *, example: tuple[float, float] = (0, 1)) -> tuple[float, float]:
    """Return a public range: two finite numbers, the smaller one first."""
    ends = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    if len(ends) != 2 or not all(_is_real(end) and math.isfinite(end) for end in ends) or not ends[0] < ends[1]:
        raise InvalidInputError(
            f"{name} to be two finite numbers, the smaller one first",
            parameter(value),
            f"Give public limits, chosen without looking at the data, for example {name}={example}.",
        )
    return float(ends[0]), float(ends[1])


def check_flag(value: object, name: str) -> bool:
    """Return a value that is true or false."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # NumPy has one, too
        raise InvalidInputError(f"{name} to be True or False", parameter(value), f"Set {name} to one of them.")
    return bool(value)


def check_seed(value: object, name: str = "random_state") -> int:
    """Return a seed; None is refused, because a fit with it could not be repeated."""
    return check_count(value, name, least=0)


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise InvalidInputError(f"{name} to be one of {listed}", parameter(value), "Choose one of them.")
    return value


def refuse_dates(data: object, what: str) -> None:
    """Raise if `data` holds dates, times or durations; numpy converts them to counts of days or nanoseconds.

    Parameters
    ----------
    data : data frame, series, array or anything else
        The columns of a data frame are checked one by one, and the message names them.
    what : str
        What the data is for, in the message ("a table").
    """
    from narwhals.dependencies import is_into_dataframe, is_into_series

    dates: list[str] = []
    if getattr(getattr(data, "dtype", None), "kind", "") in ("m", "M"):
        dates = [what]
    elif is_into_dataframe(data) or is_into_series(data):
        import narwhals as nw

        native = nw.from_native(data, eager_only=True, allow_series=True)
        kinds = native.schema if isinstance(native, nw.DataFrame) else {what: native.dtype}
        dates = [f"column {name!r}" if name != what else what for name, kind in kinds.items() if kind.is_temporal()]
    if dates:
        raise InvalidInputError(
            f"{what} of numbers",
            words(f"dates, times or durations in {', '.join(dates)}"),
            "Leave them out, or convert them to numbers in units of your choice, for example days since a public date.",
        )


def reason_of(error: Exception) -> Words:
    """Return why scikit-learn or numpy refused data, without values of the data and without the number of rows.

    Raise what it is used for ``from None``: a traceback would show the message of `error` as it is.
    """
    first = str(error).partition("\n")[0].rstrip(".:")
    if not _WITHOUT_VALUES.fullmatch(first):
        return words(f"something else ({type(error).__name__})")
    return words(re.sub(r"(?<=shape=\()\d+(?=, 0\))", "", first))
