"""What is public about the columns of a private table: the kind of each column, and its bounds or its categories.

A private model must not infer these things from its data: one more row could turn a column of integers into one of fractions
or add a category, and everybody who sees the result would know. A `TableSchema` states them. A person writes it, in Python or
in a TOML or JSON file; `tacit tables schema` drafts one.

Each cell of a table is read by itself, as its column's kind says, whatever the other cells hold.
"""

from __future__ import annotations

import json
import math
import numbers
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import existing_file
from tacit.errors import InvalidInputError, listed, parameter, words
from tacit.validation import check_count

Value = str | bool | int | float
VERSION = 1
LARGEST_INTEGER = 2**53
"""Integers up to this size are exact in float64, in which cells are read."""
DRAFT = """\
# A DRAFT, made by looking at the rows of the table. It is not public yet.
# A private table takes everything in this file as known to everybody. Go through it line by line:
# - bounds: replace what the rows showed by what is known without them (an age is between 0 and 120);
# - categories: list all values that the column may have, also those that no row has now, and no value that only the rows show;
# - left_out: columns that are not released at all.
# Then set public = true. That is your statement that everything here is known without the private rows.
"""


@dataclass(frozen=True)
class ColumnSpec(ABC):
    """What is public about one column. Each kind of column is a subclass, listed in `KINDS`.

    A kind says how a cell is read, in which bin of a histogram it counts, and how a value of a bin is written.
    """

    kind: ClassVar[str]

    @abstractmethod
    def size(self, bins: int) -> int:
        """Return the number of bins of a histogram of this column; `bins` is what a model would like."""

    @abstractmethod
    def codes(self, column: NDArray[Any], size: int, name: str) -> NDArray[np.intp]:
        """Return the bin of each cell; raise, naming the column and no cell, where a cell is not of this kind."""

    @abstractmethod
    def values(self, codes: NDArray[np.intp], within: NDArray[np.float64], size: int) -> NDArray[Any]:
        """Return a value for each of these bins; `within`, in [0, 1], says where in its bin a number lies."""

    def numbers(self, column: NDArray[Any], name: str) -> NDArray[np.float64] | None:
        """Return the cells as numbers, raising as `codes` does; None where the kind is no quantity."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON or TOML; fields that were not given are left out."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        return {"kind": self.kind, **{name: value for name, value in plain.items() if value is not None}}


@dataclass(frozen=True)
class NumberColumn(ColumnSpec):
    """A column of numbers between two bounds; values beyond a bound count as at the bound.

    Parameters
    ----------
    low, high : float
    decimals : int, optional
        Digits after the decimal point of the values that are written; all of them if not given.
    """

    kind: ClassVar[str] = "number"
    low: float
    high: float
    decimals: int | None = None

    def __post_init__(self) -> None:
        _check_bounds(self)
        if self.decimals is not None:
            check_count(self.decimals, "decimals", least=0)
            if any(round(bound, self.decimals) != bound for bound in (self.low, self.high)):
                raise InvalidInputError(
                    f"bounds with at most {self.decimals} decimals",
                    parameter((self.low, self.high)),
                    "Round them outwards.",
                )

    def size(self, bins: int) -> int:
        """Return `bins`."""
        return bins

    def numbers(self, column: NDArray[Any], name: str) -> NDArray[np.float64]:
        """Return the cells as numbers."""
        return _finite_numbers(column, name)

    def codes(self, column: NDArray[Any], size: int, name: str) -> NDArray[np.intp]:
        """Return bins of equal width."""
        inside = np.clip(self.numbers(column, name), self.low, self.high)
        places = np.floor((inside - self.low) / (self.high - self.low) * size)
        return np.minimum(places, size - 1).astype(np.intp)

    def values(self, codes: NDArray[np.intp], within: NDArray[np.float64], size: int) -> NDArray[Any]:
        """Return floats."""
        values = self.low + (codes + within) * (self.high - self.low) / size
        return np.asarray(values if self.decimals is None else np.round(values, self.decimals))


@dataclass(frozen=True)
class IntegerColumn(ColumnSpec):
    """A column of integers from `low` to `high`, both included; values beyond count as at the bound.

    A cell may be spelled 3 or 3.0; 3.5 is refused.
    """

    kind: ClassVar[str] = "integer"
    low: int
    high: int

    def __post_init__(self) -> None:
        _check_bounds(self)
        if not all(isinstance(bound, int) and abs(bound) <= LARGEST_INTEGER for bound in (self.low, self.high)):
            raise InvalidInputError(
                "bounds of integers to be integers of at most 2**53",
                parameter((self.low, self.high)),
                "Give integers, or declare the column as numbers.",
            )

    def size(self, bins: int) -> int:
        """Return one bin for each integer, or `bins` if there are more integers."""
        return min(bins, self.high - self.low + 1)

    def numbers(self, column: NDArray[Any], name: str) -> NDArray[np.float64]:
        """Return the cells as integral floats."""
        read = _finite_numbers(column, name)
        if (read != np.floor(read)).any():
            raise InvalidInputError(
                f"integers in the column {name}",
                words("a number that is none"),
                "Declare the column as numbers, or correct it.",
            )
        return read

    def codes(self, column: NDArray[Any], size: int, name: str) -> NDArray[np.intp]:
        """Return bins of nearly equal numbers of integers."""
        inside = np.clip(self.numbers(column, name), self.low, self.high)
        return np.asarray(np.searchsorted(self._edges(size), inside, side="right") - 1, dtype=np.intp)

    def values(self, codes: NDArray[np.intp], within: NDArray[np.float64], size: int) -> NDArray[Any]:
        """Return integers."""
        edges = self._edges(size)
        first, last = edges[codes], edges[codes + 1] - 1
        return np.minimum(first + np.floor(within * (last - first + 1)).astype(np.int64), last)

    def _edges(self, size: int) -> NDArray[np.int64]:
        """Return the first integer of each bin, and the one after the last bin."""
        count = self.high - self.low + 1
        return np.array([self.low + place * count // size for place in range(size + 1)], dtype=np.int64)


@dataclass(frozen=True)
class CategoryColumn(ColumnSpec):
    """A column with one of a few values: all text, all integers, all floats or all booleans.

    Text has to match to the letter; an empty or missing cell is the text "". Numbers match by value: 3.0 is 3.

    Parameters
    ----------
    categories : sequence
        All values that the column may have. Their order is the order of the bins; they are written as they are spelled here.
    other : str, int, float or bool, optional
        One of the categories, which stands for every cell that is none of them. Such cells are refused if it is not given.
    """

    kind: ClassVar[str] = "category"
    categories: tuple[Value, ...]
    other: Value | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", tuple(_plain(value) for value in self.categories))
        kinds = {type(value) for value in self.categories}
        if len(kinds) != 1 or len(set(self.categories)) < len(self.categories) or not kinds <= {str, bool, int, float}:
            raise InvalidInputError(
                "different categories, all text, all integers, all floats or all booleans",
                parameter(self.categories),
                "Name each category once.",
            )
        if self.other is not None and self.other not in self.categories:
            raise InvalidInputError("other to be one of the categories", parameter(self.other), "Add it to them.")

    def size(self, bins: int) -> int:
        """Return the number of categories."""
        return len(self.categories)

    def codes(self, column: NDArray[Any], size: int, name: str) -> NDArray[np.intp]:
        """Return the place of each cell's category."""
        known: dict[Any, int] = {value: place for place, value in enumerate(self.categories)}
        unknown = -1 if self.other is None else known[self.other]
        cells = self._cells(column, name)
        codes = np.fromiter((known.get(cell, unknown) for cell in cells), dtype=np.intp, count=len(cells))
        if (codes < 0).any():
            raise InvalidInputError(
                f"only declared categories in the column {name}",
                words("a cell with another value"),
                "Declare every category that the column may have, from public knowledge, or state which one stands for all "
                "others (other=).",
            )
        return codes

    def values(self, codes: NDArray[np.intp], within: NDArray[np.float64], size: int) -> NDArray[Any]:
        """Return categories as the schema spells them."""
        return np.array(self.categories)[codes]

    def _cells(self, column: NDArray[Any], name: str) -> list[Any]:
        """Return cells that can be compared with the categories; a cell that cannot be read is None."""
        text = _text_cells(column)
        first = self.categories[0]
        if isinstance(first, str):
            if text is None:
                raise _mismatch(name, "text", "numbers or other values")
            return text
        if isinstance(first, bool):
            if text is not None:
                return [{"true": True, "false": False}.get(cell.strip().lower()) for cell in text]
            if column.dtype.kind != "b":
                raise _mismatch(name, "booleans", "other values")
            return list(column.tolist())
        if column.dtype.kind not in "iufOUT":
            raise _mismatch(name, "numbers", "other values")
        if text is None:
            return [_number_or_none(cell) for cell in column.tolist()]
        read = {cell: _number_or_none(cell) for cell in set(text)}  # each spelling once: tables have few
        return [read[cell] for cell in text]


KINDS: dict[str, type[ColumnSpec]] = {spec.kind: spec for spec in (NumberColumn, IntegerColumn, CategoryColumn)}
"""Every kind of column, by the name that a schema file uses."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table, and what is public about each of them.

    Parameters
    ----------
    columns : mapping from str to ColumnSpec
    left_out : sequence of str
        Columns that the table has and that are not released: identifiers, free text.
    public : bool, default=True
        Whether a person states that all of this is known without the private rows. A drafted schema says False until it is
        `confirmed`; private models refuse it.

    Examples
    --------
    >>> from tacit.data import CategoryColumn, IntegerColumn, TableSchema
    >>> schema = TableSchema({"age": IntegerColumn(0, 120), "sex": CategoryColumn(("f", "m"))}, left_out=["name"])
    >>> schema.for_columns(["name", "sex", "age"])
    {'sex': CategoryColumn(categories=('f', 'm'), other=None), 'age': IntegerColumn(low=0, high=120)}
    """

    columns: Mapping[str, ColumnSpec]
    left_out: tuple[str, ...] = ()
    public: bool = True

    def __post_init__(self) -> None:
        columns = {str(name): spec for name, spec in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "left_out", tuple(str(name) for name in self.left_out))
        wrong = [name for name, spec in columns.items() if not isinstance(spec, ColumnSpec)]
        if wrong:
            raise InvalidInputError(
                "a NumberColumn, IntegerColumn or CategoryColumn for every column",
                words(f"something else for {listed(wrong)}"),
                "Declare the column, as in NumberColumn(0, 120).",
            )
        twice = [name for name in columns if name in self.left_out]
        if twice:
            raise InvalidInputError(
                "columns that are declared or left out", words(f"both for {listed(twice)}"), "Decide for one."
            )

    @classmethod
    def of(cls, given: Any, names: Sequence[str]) -> TableSchema:
        """Return a schema from what a caller may give in its place: a mapping, or one column for all `names`."""
        if isinstance(given, TableSchema):
            return given
        if isinstance(given, ColumnSpec):
            return cls(dict.fromkeys(names, given))
        if isinstance(given, Mapping):
            return cls(given)
        raise InvalidInputError(
            "a schema: what is public about every column",
            words("none" if given is None else f"a value of type {type(given).__name__}"),
            "Give schema={'age': IntegerColumn(0, 120), ...} or TableSchema.load(file), from public knowledge. Kinds, bounds "
            "and categories that were read off the data would be a release.",
        )

    def for_columns(self, names: Sequence[str]) -> dict[str, ColumnSpec]:
        """Return the declared columns of a table with these columns, in its order; raise where the two do not agree."""
        absent = [name for name in (*self.columns, *self.left_out) if name not in names]
        if absent:
            raise InvalidInputError(
                "a table with all columns of the schema", words(f"none called {listed(absent)}"), "Check the names."
            )
        undeclared = [name for name in names if name not in self.columns and name not in self.left_out]
        if undeclared:
            raise InvalidInputError(
                "a schema that declares every column of the table",
                words(f"nothing about {listed(undeclared)}"),
                "State the column's kind and its bounds or categories, from public knowledge, or name it in left_out.",
            )
        return {name: self.columns[name] for name in names if name in self.columns}

    def confirmed(self) -> TableSchema:
        """Return the same schema with your statement that everything in it is known without the private rows."""
        return replace(self, public=True)

    def check_public(self) -> None:
        """Raise unless a person has stated that the schema is public."""
        if not self.public:
            raise InvalidInputError(
                "a schema that a person has confirmed",
                words("a draft, which was made from the private rows"),
                "Go through it, and set public = true in its file (or call confirmed()): that is your statement that it is "
                "known without the rows.",
            )

    def joined(self, other: TableSchema) -> TableSchema:
        """Return the columns of both; a column that both declare is refused."""
        twice = [name for name in other.columns if name in self.columns]
        if twice:
            raise InvalidInputError(
                "each column to be declared once", words(f"{listed(twice)} declared twice"), "Decide for one."
            )
        return TableSchema(
            {**self.columns, **other.columns}, (*self.left_out, *other.left_out), self.public and other.public
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are in a file."""
        return {
            "version": VERSION,
            "public": self.public,
            "left_out": list(self.left_out),
            "columns": {name: spec.to_dict() for name, spec in self.columns.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """Invert `to_dict`."""
        _check_keys(values, {"version", "public", "columns"}, {"left_out"}, "a table schema")
        if values["version"] != VERSION:
            raise InvalidInputError(
                f"a table schema of version {VERSION}",
                parameter(values["version"]),
                "Read it with the version of tacit that it was written for.",
            )
        if not isinstance(values["public"], bool) or not isinstance(values["columns"], Mapping):
            raise InvalidInputError(
                "public = true or false, and a table of columns", words("something else"), "See docs/tables.md."
            )
        columns = {name: column_from_dict(spec, name) for name, spec in values["columns"].items()}
        return cls(columns, tuple(values.get("left_out", ())), values["public"])

    @classmethod
    def load(cls, path: str | Path) -> TableSchema:
        """Read a TOML or JSON file."""
        file = existing_file(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
            values = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
        except ValueError as error:
            raise InvalidInputError(
                f"{file} to be a table schema in TOML or JSON", words(" ".join(str(error).split())), "Correct the file."
            ) from None
        if not isinstance(values, Mapping):
            raise InvalidInputError(f"{file} to be a table schema", words("something else"), "See docs/tables.md.")
        return cls.from_dict(values)

    def save(self, path: str | Path) -> None:
        """Write a TOML file, or a JSON file if the name ends in .json."""
        file = Path(path)
        values = self.to_dict()
        text = json.dumps(values, indent=2) + "\n" if file.suffix.lower() == ".json" else self.toml()
        file.write_text(text, encoding="utf-8")

    def toml(self) -> str:
        """Return the schema as TOML; a draft begins with what to do about it."""
        values = self.to_dict()
        lines = [f"{key} = {_toml(values[key])}" for key in ("version", "public", "left_out")]
        for name, spec in values["columns"].items():
            lines += ["", f"[columns.{_toml(name)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in spec.items()]
        return ("" if self.public else DRAFT + "\n") + "\n".join(lines) + "\n"


def column_from_dict(values: Mapping[str, Any], name: str) -> ColumnSpec:
    """Return the column that `ColumnSpec.to_dict` described; `name` is for messages."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind not in KINDS:
        raise InvalidInputError(
            f"the kind of the column {name} to be one of {', '.join(KINDS)}", parameter(kind), "State its kind."
        )
    spec = KINDS[kind]
    known = [field.name for field in fields(spec)]
    required = {field.name for field in fields(spec) if field.default is MISSING}
    _check_keys(values, {"kind", *required}, set(known), f"the column {name}, of kind {kind}")
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "kind"}
    try:
        return spec(**given)
    except (InvalidInputError, TypeError) as error:
        wrong = error.got if isinstance(error, InvalidInputError) else words("a value of another type")
        expected = error.expected if isinstance(error, InvalidInputError) else "values of the right types"
        raise InvalidInputError(f"{expected}, in the column {name}", wrong, "Correct the schema.") from None


def _check_keys(values: Mapping[str, Any], required: set[str], optional: set[str], what: str) -> None:
    absent, unknown = sorted(required - set(values)), sorted(set(values) - required - optional)
    if absent or unknown:
        got = f"no {listed(absent)}" if absent else f"unknown {listed(unknown)}"
        raise InvalidInputError(f"{', '.join(sorted(required))} in {what}", words(got), "Correct the schema.")


def _check_bounds(column: Any) -> None:
    """Check the bounds of a column of numbers, and make them plain Python numbers."""
    low, high = _plain(column.low), _plain(column.high)
    numeric = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in (low, high))
    if not (numeric and math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(
            "finite bounds with low < high", parameter((low, high)), "Choose them without looking at the data."
        )
    object.__setattr__(column, "low", low)
    object.__setattr__(column, "high", high)


def _finite_numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return cells as finite numbers, each read by itself."""
    wrong = InvalidInputError(
        f"finite numbers in the column {name} (no text, no missing cell, no infinity)",
        words("a cell that is none"),
        "Correct the table, or declare the column as categories.",
    )
    if column.dtype.kind not in "biufOUT":
        raise wrong
    try:
        read = column.astype(np.float64)
    except (TypeError, ValueError):
        raise wrong from None  # the error of numpy would show the cell
    if not np.isfinite(read).all():
        raise wrong
    return read


def _text_cells(column: NDArray[Any]) -> list[str] | None:
    """Return cells of text, with "" for missing ones; None for a column that holds something else."""
    if column.dtype.kind in "UT":
        return [str(cell) for cell in column.tolist()]
    if column.dtype.kind != "O":
        return None
    cells = column.tolist()
    if not all(isinstance(cell, str) or _is_missing(cell) for cell in cells):
        return None
    return [cell if isinstance(cell, str) else "" for cell in cells]


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or type(cell).__name__ == "NAType"


def _number_or_none(cell: Any) -> Any:
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            return None
    return cell if isinstance(cell, numbers.Number) and not isinstance(cell, bool) else None


def _mismatch(name: str, expected: str, got: str) -> InvalidInputError:
    return InvalidInputError(
        f"{expected} in the column {name}, as its categories are",
        words(got),
        "Declare categories of the column's kind. Read a private CSV file as text (read_frame(path, as_text=True)): kinds that "
        "a reader infers depend on the rows.",
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
