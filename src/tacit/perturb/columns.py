"""The columns of a table that a method changes: reading them, filling missing values, scaling, and writing them back.

Methods work on the chosen numeric columns, scaled. The perturbed table has the units of the original, and all other columns are
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import as_frame
from tacit.data.schema import looks_like_identifier
from tacit.errors import InvalidInputError, Undisclosed, listed, words
from tacit.validation import TableLike, check_choice, reason_of

if TYPE_CHECKING:
    import narwhals as nw

MISSING = ("refuse", "mean", "median")
SCALES = ("range", "unit", "standard", "none")


@dataclass(frozen=True, repr=False)
class NumericColumns(Undisclosed):
    """The chosen columns of a table, as numbers, and the table itself.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_chosen)
        NaN where a value is missing.
    names : tuple of str
        Names of the chosen columns; their indices, for an array.
    places : ndarray of int
        Their indices among all columns.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    places: NDArray[np.intp]
    table: NDArray[np.float64] | nw.DataFrame[Any]

    def rebuilt(self, released: NDArray[np.float64]) -> Any:
        """Return a table of the same form, with the chosen columns replaced and the same names and order."""
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


def read_chosen(
    X: TableLike, columns: Sequence[str] | Sequence[int] | None = None, unchanged: Sequence[str] | Sequence[int] = ()
) -> NumericColumns:
    """Return the columns to change of an array or a data frame.

    Every column must be changed or named in `unchanged`.

    Parameters
    ----------
    X : array_like or data frame
    columns : sequence of str or int, optional
        Columns to change, by name (data frame) or index. If not given, all that are not in `unchanged`; in a data frame they must
        be numeric and must not look like identifiers.
    unchanged : sequence of str or int
        Columns to release unchanged.
    """
    frame = as_frame(X)
    array = _as_array(X) if frame is None else None
    names = [str(place) for place in range(array.shape[1])] if array is not None else list(frame.columns)  # type: ignore[union-attr]
    kept = set(_places(unchanged, names).tolist())
    places = (
        np.array([place for place in range(len(names)) if place not in kept], dtype=np.intp)
        if columns is None
        else _places(columns, names)
    )
    both = [names[place] for place in places if place in kept]
    neither = [name for place, name in enumerate(names) if place not in kept and place not in places]
    if both or neither:
        raise InvalidInputError(
            "every column to be changed (columns=, --columns) or released unchanged (unchanged=, --pass)",
            words(f"{'both' if both else 'neither'} for {listed(both or neither)}"),
            "Name each column in one of them, or drop it from the table.",
        )
    if not len(places):
        raise InvalidInputError("at least one column to change", words("none"), "Name fewer columns in unchanged=.")
    chosen = tuple(names[place] for place in places)
    if array is not None:
        return NumericColumns(np.ascontiguousarray(array[:, places]), chosen, places, array)
    assert frame is not None
    text = [name for name in chosen if not frame.schema[name].is_numeric()]
    values = [_numbers(frame[name]) for name in chosen if name not in text]
    numeric = [name for name in chosen if name not in text]
    identifying = (
        [name for name, cells in zip(numeric, values, strict=True) if looks_like_identifier(name, cells)]
        if columns is None
        else []
    )
    if text or identifying:
        raise _unusable(text, identifying)
    return NumericColumns(np.column_stack(values), chosen, places, frame)


def _unusable(text: Sequence[str], identifying: Sequence[str]) -> InvalidInputError:
    """Return one error for all columns that cannot be changed, so that one more attempt is enough."""
    problems, fixes = [], []
    if identifying:
        problems.append(
            f"{listed(identifying)}, by name or because all rows have different integers, as identifiers do"
        )
        fixes.append("Drop identifiers (--drop). If they are none, name all columns to change in columns= (--columns).")
    if text:
        problems.append(f"other kinds in the columns {listed(text)}")
        fixes.append(
            "Drop columns that are not numbers (--drop), or name them in unchanged= (--pass) to release them as they are."
        )
    return InvalidInputError(
        "numeric columns to change that do not look like identifiers", words("; ".join(problems)), " ".join(fixes)
    )


def fill_missing(
    values: NDArray[np.float64], missing: str, names: Sequence[str], fills: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return the values with missing ones filled, the fill values, and the number of missing values; or raise an error.

    Parameters
    ----------
    values : ndarray
        NaN is missing; infinities always raise an error.
    missing : {"refuse", "mean", "median"}
    names : sequence of str
        Names of the columns, for the message.
    fills : ndarray, optional
        The fill values of the fit; computed from `values` if not given.
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


def _as_array(X: TableLike) -> NDArray[np.float64]:
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


def _places(columns: Sequence[str] | Sequence[int], names: Sequence[str]) -> NDArray[np.intp]:
    """Return the indices of columns that are given by name or index."""
    asked: list[str | int] = [columns] if isinstance(columns, str) else list(columns)
    known: dict[str | int, int] = {
        **{place: place for place in range(len(names))},
        **{n: p for p, n in enumerate(names)},
    }
    places = [known.get(name) for name in asked]
    unknown = [str(name) for name, place in zip(asked, places, strict=True) if place is None]
    if unknown or len(set(places)) < len(places):
        what = f"{listed(unknown)}, which the table does not have" if unknown else "one of them twice"
        raise InvalidInputError("columns of the table, each once", words(what), f"The table has {listed(names)}.")
    return np.array(places, dtype=np.intp)


@dataclass(frozen=True, repr=False)
class Scaling(Undisclosed):
    """A shift and a factor per column: ``scaled = (values - shift) / factor``."""

    shift: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], kind: str) -> Scaling:
        """Learn the scale of columns that vary.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
        kind : {"range", "unit", "standard", "none"}
            To the range [0, 1] (equation (2.1) of Thapa (2013), without its first factor, a misprint); to columns of
            norm 1 (equation (2.2)); to mean 0 and variance 1; or no scaling.
        """
        check_choice(kind, "scale", SCALES)
        zero, one = np.zeros(values.shape[1]), np.ones(values.shape[1])
        match kind:
            case "range":
                return cls(values.min(axis=0), np.ptp(values, axis=0))
            case "unit":
                return cls(zero, np.linalg.norm(values, axis=0))
            case "standard":
                return cls(values.mean(axis=0), values.std(axis=0))
        return cls(zero, one)

    def down(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scaled values."""
        scaled: NDArray[np.float64] = (values - self.shift) / self.factor
        return scaled

    def up(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in the table's units."""
        values: NDArray[np.float64] = scaled * self.factor + self.shift
        return values
