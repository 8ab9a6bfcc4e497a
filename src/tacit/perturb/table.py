"""What a release reads and gives back: the chosen numeric columns of a table; all other columns stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_choice, reason_of

if TYPE_CHECKING:
    import narwhals as nw

OTHERS = ("refuse", "pass")
MISSING = ("refuse", "mean", "median")


@dataclass(frozen=True)
class Chosen:
    """The chosen columns of a table, as numbers, and the table they came from.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_chosen)
        May hold NaN where a value is missing.
    names : tuple of str
        Of the chosen columns; their places, for an array.
    places : ndarray of int
        Where they stand among all columns.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    places: NDArray[np.intp]
    table: NDArray[Any] | nw.DataFrame[Any]

    def rebuilt(self, released: NDArray[np.float64]) -> Any:
        """Return a table like the one given, with the chosen columns replaced; names and order stay."""
        if isinstance(self.table, np.ndarray):
            changed = np.array(self.table, dtype=np.float64)
            changed[:, self.places] = released
            return changed
        import narwhals as nw

        backend = self.table.implementation
        columns = [
            nw.new_series(name, np.ascontiguousarray(released[:, place]), nw.Float64, backend=backend)
            for place, name in enumerate(self.names)
        ]
        return self.table.with_columns(*columns).to_native()


def read_chosen(X: Any, columns: Any = None, others: str = "refuse") -> Chosen:
    """Return the chosen columns of an array or a data frame.

    Parameters
    ----------
    X : array_like or data frame
    columns : sequence of str or int, optional
        Names (data frame) or places (array or data frame); all numeric columns if not given.
    others : {"refuse", "pass"}
        What to do with columns that are not numeric.
    """
    check_choice(others, "others", OTHERS)
    frame = as_frame(X)
    if frame is None:
        array = _as_array(X)
        places = np.arange(array.shape[1]) if columns is None else _places(columns, range(array.shape[1]))
        names = tuple(str(place) for place in places)
        return Chosen(np.ascontiguousarray(array[:, places]), names, places, array)
    text = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    if text and others == "refuse":
        raise InvalidInputError(
            "a table of numbers",
            words(f"other kinds in the columns {listed(text)}"),
            "Drop them, code them as numbers, or give others='pass' (--others pass) to release them as they are.",
        )
    names_in = frame.columns
    numeric = [place for place, name in enumerate(names_in) if name not in text]
    places = np.array(numeric, dtype=np.intp) if columns is None else _places(columns, names_in)
    names = tuple(names_in[place] for place in places)
    unusable = [name for name in names if name in text]
    if unusable:
        raise InvalidInputError(
            "numeric columns to change", words(f"text or other kinds in {listed(unusable)}"), "Choose other columns."
        )
    if not names:
        raise InvalidInputError("at least one numeric column", words("none"), "There is nothing to change.")
    values = np.column_stack([_numbers(frame[name]) for name in names])
    return Chosen(values, names, places, frame)


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame that narwhals reads as such, None for anything else."""
    from narwhals.dependencies import is_into_dataframe

    if isinstance(X, np.ndarray) or not is_into_dataframe(X):
        return None
    import narwhals as nw

    frame: nw.DataFrame[Any] = nw.from_native(X, eager_only=True)
    return frame


def fill_missing(
    values: NDArray[np.float64], missing: str, names: Sequence[str], fills: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return the values with gaps filled, what they are filled with, and how many there were; or refuse gaps.

    Parameters
    ----------
    values : ndarray
        NaN is missing; infinities are refused always.
    missing : {"refuse", "mean", "median"}
    names : sequence of str
        Of the columns, for the message.
    fills : ndarray, optional
        What a fit learned to fill with; from `values` if not given.
    """
    check_choice(missing, "missing", MISSING)
    if np.isinf(values).any():
        raise InvalidInputError("finite numbers", words("infinite numbers (inf)"), "Drop or replace them.")
    gaps = np.isnan(values)
    count = int(gaps.sum())
    if count and missing == "refuse":
        where = [name for name, has in zip(names, np.any(gaps, axis=0).tolist(), strict=True) if has]
        raise InvalidInputError(
            "a table without missing values (NaN or null)",
            words(f"missing values in the columns {listed(where)}"),
            "Fill them, or give missing='mean' or 'median' (--missing mean).",
        )
    if gaps.all(axis=0).any() and fills is None:
        where = [name for name, has in zip(names, np.all(gaps, axis=0).tolist(), strict=True) if has]
        raise InvalidInputError(
            "at least one value per column", words(f"none in the columns {listed(where)}"), "Leave these columns out."
        )
    if fills is None:
        average = np.nanmedian if missing == "median" else np.nanmean
        fills = average(values, axis=0)
    return np.where(gaps, fills, values), fills, count


def listed(names: Sequence[str]) -> str:
    """Return a few of the names, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _as_array(X: Any) -> NDArray[np.float64]:
    from sklearn.utils.validation import check_array

    try:
        array: NDArray[np.float64] = check_array(X, dtype=np.float64, ensure_all_finite=False)
    except TypeError as error:
        raise TypeError(reason_of(error)) from None
    except ValueError as error:
        fix = "Reshape your data to one row per record, and code text as numbers, or give a data frame."
        raise InvalidInputError("a table of numbers", reason_of(error), fix) from None
    return array


def _numbers(column: nw.Series[Any]) -> NDArray[np.float64]:
    import narwhals as nw

    return column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _places(columns: Any, names: Sequence[Any]) -> NDArray[np.intp]:
    asked = [columns] if isinstance(columns, str) else list(columns)
    known: dict[Any, int] = {name: place for place, name in enumerate(names)}
    by_place: dict[Any, int] = {place: place for place in range(len(names))}
    found = [known.get(name, by_place.get(name)) for name in asked]
    unknown = [str(name) for name, place in zip(asked, found, strict=True) if place is None]
    if unknown or not found or len(set(found)) < len(found):
        what = f"{listed(unknown)}, which are not there" if unknown else f"{asked}"
        raise InvalidInputError(
            "columns of the table, each once", words(what), f"The table has {listed([str(name) for name in names])}."
        )
    return np.array(found, dtype=np.intp)
