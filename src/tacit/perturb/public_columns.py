"""What is public about the columns of a private table: bounds, categories, classes; and rows as numbers of bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.perturb.table import as_frame, listed

Value = float | int | str | bool


@dataclass(frozen=True)
class PublicColumn:
    """One column: numbers between bounds, in bins of equal width, or one of some categories.

    Attributes
    ----------
    name : str
    bins : int
    low, high : float
        Bounds of numbers; both 0 for categories.
    values : tuple
        Categories, in order; empty for numbers.
    """

    name: str
    bins: int
    low: float = 0.0
    high: float = 0.0
    values: tuple[Value, ...] = ()

    def codes(self, column: NDArray[Any]) -> NDArray[np.intp]:
        """Return each value's bin; numbers beyond the bounds count as at the bound, unknown categories are refused."""
        if self.values:
            known = {value: code for code, value in enumerate(self.values)}
            if any(value not in known for value in column.tolist()):
                raise InvalidInputError(
                    f"only the public categories {listed([str(value) for value in self.values])} in the column {self.name}",
                    words("others"),
                    "Name all categories that the column may have, from public knowledge.",
                )
            return np.array([known[value] for value in column.tolist()], dtype=np.intp)
        try:
            numbers = column.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"numbers in the column {self.name}", words("text"), "Give its values in categories=."
            ) from None
        if not np.isfinite(numbers).all():
            raise InvalidInputError(
                f"finite numbers in the column {self.name}", words("NaN or infinity (inf)"), "Fill or drop them."
            )
        places = np.floor((np.clip(numbers, self.low, self.high) - self.low) / (self.high - self.low) * self.bins)
        return np.minimum(places, self.bins - 1).astype(np.intp)

    def decoded(self, codes: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[Any]:
        """Return values of these bins; `within`, in [0, 1], says where in its bin a number lies."""
        if self.values:
            return np.array(self.values)[codes]
        return np.asarray(self.low + (codes + within) * (self.high - self.low) / self.bins)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "bins": self.bins, "low": self.low, "high": self.high, "values": list(self.values)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PublicColumn:
        """Invert `to_dict`."""
        return cls(values["name"], values["bins"], values["low"], values["high"], tuple(values["values"]))


@dataclass(frozen=True)
class RawTable:
    """Columns by name, in order, as they are in the file."""

    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    n_rows: int
    kind: str


def raw_table(X: Any) -> RawTable:
    """Return the columns of an array or a data frame; those of an array are named by their places."""
    frame = as_frame(X)
    if frame is not None:
        columns = tuple(frame[name].to_numpy() for name in frame.columns)
        return RawTable(tuple(frame.columns), columns, len(frame), frame.implementation.name.lower())
    array = np.asarray(X)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError("a table with rows and columns", kind_of(array), "Reshape your data.")
    names = tuple(str(place) for place in range(array.shape[1]))
    return RawTable(names, tuple(array.T), len(array), "array")


def public_columns(
    names: Sequence[str], bounds: Any, categories: Mapping[Any, Sequence[Any]] | None, bins: int
) -> tuple[PublicColumn, ...]:
    """Return what is public of each column, from the caller's words; a column of which nothing is public is refused.

    Parameters
    ----------
    names : sequence of str
    bounds : pair, sequence of pairs or mapping from column to pair
        One pair for all columns, one a column, or by name (or place).
    categories : mapping from column to values
    bins : int
        Of columns of numbers.
    """
    named = {str(name): values for name, values in (categories or {}).items()}
    unknown = sorted(set(named) - set(names))
    pairs = _pairs(names, bounds)
    missing = [name for name in names if name not in named and name not in pairs]
    if missing or unknown:
        what = f"none for {listed(missing)}" if missing else f"unknown columns {listed(unknown)}"
        raise InvalidInputError(
            "public bounds or categories for every column",
            words(what),
            "Give bounds=(low, high) known without the data: those of the data themselves would be a release.",
        )
    return tuple(
        PublicColumn(name, len(named[name]), values=_categories(name, named[name]))
        if name in named
        else PublicColumn(name, bins, *pairs[name])
        for name in names
    )


def _pairs(names: Sequence[str], bounds: Any) -> dict[str, tuple[float, float]]:
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        given = {str(name): pair for name, pair in bounds.items()}
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise InvalidInputError(
                "bounds of columns of the table", words(f"unknown {listed(unknown)}"), "Check the names."
            )
    else:
        array = np.asarray(bounds, dtype=np.float64)
        if array.shape not in ((2,), (len(names), 2)):
            raise InvalidInputError(
                f"bounds as one pair or one for each of the {len(names)} columns",
                words(f"shape {array.shape}"),
                "Give pairs.",
            )
        given = dict(zip(names, np.broadcast_to(array, (len(names), 2)).tolist(), strict=True))
    for name, (low, high) in given.items():
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InvalidInputError(
                f"bounds (low, high) with low < high for {name}",
                parameter((low, high)),
                "Choose them without looking at the data.",
            )
    return {name: (float(low), float(high)) for name, (low, high) in given.items()}


def _categories(name: str, values: Sequence[Any]) -> tuple[Value, ...]:
    plain = tuple(np.asarray(values).tolist())
    if not plain or len(set(plain)) < len(plain):
        raise InvalidInputError(f"different categories of {name}", parameter(values), "Name each once.")
    return plain
