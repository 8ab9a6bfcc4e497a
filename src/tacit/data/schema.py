"""The public description of the columns of a private table: the kind of each column, and its bounds or its categories.

A private model must not infer these from its data: one more row could turn a column of integers into one of fractions or add
a category, and the result would reveal it. A `TableSchema` states them. A person writes it, in Python or in a TOML or JSON file;
`tacit tables schema` drafts one.

Each cell of a table is read by itself, according to the kind of its column, and does not depend on other cells.
"""

from __future__ import annotations

import json
import math
import numbers
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.constraints import AtMost, Constraint, Implies, constraint_from_dict
from tacit.data.files import MARKS_OF_EMPTY_CELLS, existing_file
from tacit.errors import InvalidInputError, listed, parameter, words
from tacit.validation import check_count

if TYPE_CHECKING:
    import polars as pl


Value = str | bool | int | float
VERSION = 1
"""Version of the schema's file format."""
MOST_CELLS = 256
"""Integers (or numbers with few decimals) that have at most this many values are counted one by one."""
EVEN_CELLS, OWN_CELLS, DECADES = 200, 200, 5
"""The grid of wider columns: at least 200 even steps, at least 200 round values with cells of their own (less than 2.5 times
these numbers), and ratios that reach down to 1e-5 of the range. Of 50, 100, 200 and 400 round values, by the error of single
columns that are not reported: invoice lines and customers of a shop, news articles."""
ROUND_STEPS, ROUND_RATIOS = (1, 2, 5), (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""Edges are round numbers: people count above 1,000 or 2.5 and not above 1,052, and often write round values."""
LARGEST_INTEGER = 2**53
"""Integers up to this size are exact in float64, in which cells are read."""
DRAFT = """\
# A DRAFT, made by looking at the rows of the table. It is not public yet.
# A private table takes everything in this file as known to everybody. Go through it line by line:
# - bounds: replace what the rows showed by what is known without them (an age is between 0 and 120);
# - categories: list all values that the column may have, also those that no row has now, and no value that only the rows show;
# - missing = true: cells may be empty, and synthetic ones will be, too. Without it, an empty cell is refused;
# - left_out: columns that are not released at all.
# Then set public = true. That is your statement that everything here is known without the private rows.
"""


@dataclass(frozen=True)
class ColumnSpec(ABC):
    """The public description of one column. Each kind of column is a subclass, listed in `KINDS`.

    A kind divides the values that a column may have into *cells*, the finest resolution at which a private model counts them. It
    says in which cell a value lies, and writes a value of a cell.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Number of cells, the one for missing values included."""

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring cells hold neighbouring values."""
        return True

    @property
    def has_missing(self) -> bool:
        """Whether the last cell is that of missing values, beside the ordered ones."""
        return False

    @property
    def widths(self) -> NDArray[np.float64]:
        """How much each cell would hold if values were spread evenly."""
        return np.ones(self.n_cells)

    @abstractmethod
    def cells(self, column: NDArray[np.generic], name: str) -> NDArray[np.intp]:
        """Return the cell of each value; raise, naming the column and no value, where one is not of this kind."""

    @abstractmethod
    def values(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.generic]:
        """Return a value for each of these cells; `within`, in [0, 1), says where in its cell a number lies."""

    def numbers(self, column: NDArray[np.generic], name: str) -> NDArray[np.float64] | None:
        """Return the values as numbers, NaN where missing, raising as `cells` does; None where the kind is not a quantity."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON or TOML; fields that were not given are left out."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, (value, _) in given.items()}
        return {"kind": self.kind, **{name: value for name, value in plain.items() if value != given[name][1]}}


class Quantity(ColumnSpec):
    """What columns of numbers, integers and dates share: bounds, a grid of cells, and a cell for missing values."""

    low: Any
    high: Any
    missing: bool

    @property
    @abstractmethod
    def step(self) -> float | None:
        """Distance of neighbouring values; None where there is none."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds, as numbers."""
        return self.low, self.high

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return grid(*self.bounds, self.step)

    @property
    def n_cells(self) -> int:
        """Number of cells of the grid, and one for missing values if there may be any."""
        return len(self._edges) - 1 + self.missing

    @property
    def has_missing(self) -> bool:
        """As declared."""
        return self.missing

    @property
    def widths(self) -> NDArray[np.float64]:
        """Lengths of the cells."""
        return np.append(np.maximum(np.diff(self._edges), 1e-300), [1.0] * self.missing)

    def cells(self, column: NDArray[np.generic], name: str) -> NDArray[np.intp]:
        """Return cells of the grid; values beyond a bound count as at the bound."""
        read = self.numbers(column, name)
        assert read is not None
        inside = np.clip(read, *self.bounds)
        if self.step is not None and (self.step % 1 or self.bounds[0] % 1):
            inside = (
                inside + self.step / 2
            )  # sums of fractional steps are not exact; those of integers are, up to 2**53
        cells = np.searchsorted(self._edges, inside, side="right") - 1
        return np.where(np.isnan(read), len(self._edges) - 1, np.minimum(cells, len(self._edges) - 2)).astype(np.intp)

    def positions(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers in these cells, NaN for the cell of missing values."""
        edges, known = self._edges, np.minimum(cells, len(self._edges) - 2)
        first, last = edges[known], edges[known + 1]
        if self.step is None:  # a value that has a cell of its own stays what it is
            positions = np.where(last > np.nextafter(first, np.inf), first + within * (last - first), first)
        else:
            steps = np.maximum(np.round((last - first) / self.step), 1)
            positions = first + np.minimum(np.floor(within * steps), steps - 1) * self.step
        return np.where(cells > known, np.nan, np.clip(positions, *self.bounds))


@dataclass(frozen=True)
class NumberColumn(Quantity):
    """A column of numbers between two bounds; values beyond a bound count as at the bound.

    The bounds and zero have cells of their own, so that columns that are mostly zero keep their zeros. The other cells are narrow
    near zero and wide far from it, for skewed columns.

    Parameters
    ----------
    low, high : float
    decimals : int, optional
        Digits after the decimal point of the values that are written (2 for money); all of them if not given.
    missing : bool, default=False
        Whether cells may be missing. Missing is a value of its own, and synthetic rows have it too.
    """

    kind: ClassVar[str] = "number"
    low: float
    high: float
    decimals: int | None = None
    missing: bool = False

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

    @property
    def step(self) -> float | None:
        """The last decimal."""
        return None if self.decimals is None else 10.0**-self.decimals

    def numbers(self, column: NDArray[np.generic], name: str) -> NDArray[np.float64]:
        """Return the cells as numbers."""
        read = _finite_numbers(column, name, missing=self.missing)
        return read if self.decimals is None else np.round(read, self.decimals)

    def values(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.generic]:
        """Return floats."""
        positions = self.positions(cells, within)
        return positions if self.decimals is None else np.round(positions, self.decimals)


@dataclass(frozen=True)
class IntegerColumn(Quantity):
    """A column of integers from `low` to `high`, both included; values beyond count as at the bound.

    A cell may be spelled 3 or 3.0; 3.5 is refused. Up to 256 integers have one cell each; the cells of wider columns are those of
    `NumberColumn`.

    Parameters
    ----------
    low, high : int
    missing : bool, default=False
        Whether cells may be missing; see `NumberColumn`.
    """

    kind: ClassVar[str] = "integer"
    low: int
    high: int
    missing: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self)
        if not all(isinstance(bound, int) and abs(bound) <= LARGEST_INTEGER for bound in (self.low, self.high)):
            raise InvalidInputError(
                "bounds of integers to be integers of at most 2**53",
                parameter((self.low, self.high)),
                "Give integers, or declare the column as numbers.",
            )

    @property
    def step(self) -> float:
        """Always 1."""
        return 1.0

    def numbers(self, column: NDArray[np.generic], name: str) -> NDArray[np.float64]:
        """Return the cells as integral floats."""
        read = _finite_numbers(column, name, missing=self.missing)
        if (read[~np.isnan(read)] % 1 != 0).any():
            raise InvalidInputError(
                f"integers in the column {name}",
                words("a number that is not an integer"),
                "Declare the column as numbers, or correct it.",
            )
        return read

    def values(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.generic]:
        """Return integers; floats, with NaN for missing values, if there may be any."""
        positions = self.positions(cells, within)
        return positions if self.missing else positions.astype(np.int64)


@dataclass(frozen=True)
class DateColumn(Quantity):
    """A column of dates from `low` to `high`, both included; dates beyond count as at the bound.

    Cells are dates, times (whose day counts), or text as in 2024-02-29.

    Parameters
    ----------
    low, high : str or date
    missing : bool, default=False
        Whether cells may be missing; see `NumberColumn`.
    """

    kind: ClassVar[str] = "date"
    low: str
    high: str
    missing: bool = False

    def __post_init__(self) -> None:
        try:
            low, high = (str(np.datetime64(str(bound), "D")) for bound in (self.low, self.high))
        except ValueError:
            low = high = ""
        if not low < high:
            raise InvalidInputError(
                "dates as in 2024-02-29 with low < high", parameter((self.low, self.high)), "Correct the bounds."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def step(self) -> float:
        """Always 1."""
        return 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds, as days since 1970."""
        low, high = np.array([self.low, self.high], dtype="datetime64[D]").astype(np.int64).tolist()
        return low, high

    def numbers(self, column: NDArray[np.generic], name: str) -> NDArray[np.float64]:
        """Return the cells as days since 1970."""
        cells = column if column.dtype.kind == "M" else np.array([_date_text(cell) for cell in column.tolist()])
        try:
            days = cells.astype("datetime64[D]")
        except (TypeError, ValueError):
            days = np.array(["NaT"], dtype="datetime64[D]")
        read = np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))
        if len(read) != len(column) or (np.isnan(read).any() and not self.missing):
            raise InvalidInputError(
                f"dates in the column {name}, as in 2024-02-29" + ("" if self.missing else ", none missing"),
                words("a cell that is none"),
                "Correct the table; if cells may be missing, declare the column with missing=True.",
            )
        return read

    def values(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.generic]:
        """Return dates."""
        positions = self.positions(cells, within)
        days = np.where(np.isnan(positions), 0, positions).astype(np.int64).astype("datetime64[D]")
        return np.where(np.isnan(positions), np.datetime64("NaT", "D"), days)


@dataclass(frozen=True)
class CategoryColumn(ColumnSpec):
    """A column with a few possible values: all text, all integers, all floats or all booleans.

    Text must match exactly; an empty or missing cell is the text "". Numbers match by value: 3.0 is 3.

    Parameters
    ----------
    categories : sequence
        All values that the column may have. Their order is the order of the bins; values are written with this spelling.
    other : str, int, float or bool, optional
        One of the categories, which stands for every cell that is none of them. Such cells are refused if it is not given.
    ordered : bool, default=False
        Whether the order of the categories means something, as in low, middle, high.
    """

    kind: ClassVar[str] = "category"
    categories: tuple[Value, ...]
    other: Value | None = None
    ordered: bool = False

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

    @property
    def n_cells(self) -> int:
        """The number of categories."""
        return len(self.categories)

    @property
    def is_ordered(self) -> bool:
        """As declared."""
        return self.ordered

    def cells(self, column: NDArray[np.generic], name: str) -> NDArray[np.intp]:
        """Return the place of each value's category."""
        known: dict[object, int] = {value: place for place, value in enumerate(self.categories)}
        unknown = -1 if self.other is None else known[self.other]
        cells = self._cells(column, name)
        codes = np.fromiter((known.get(cell, unknown) for cell in cells), dtype=np.intp, count=len(cells))
        if (codes < 0).any():
            raise InvalidInputError(
                f"only declared categories in the column {name}",
                words("a cell with another value"),
                "Declare every category that the column may have, from public knowledge, or state which one replaces all "
                "other values (other=).",
            )
        return codes

    def values(self, cells: NDArray[np.intp], within: NDArray[np.float64]) -> NDArray[np.generic]:
        """Return categories as the schema spells them."""
        return np.array(self.categories)[cells]

    def _cells(self, column: NDArray[np.generic], name: str) -> Sequence[object]:
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


KINDS: dict[str, type[ColumnSpec]] = {
    spec.kind: spec for spec in (NumberColumn, IntegerColumn, DateColumn, CategoryColumn)
}
"""Every kind of column, by the name that a schema file uses."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table, with the public description of each.

    Parameters
    ----------
    columns : mapping from str to ColumnSpec
    left_out : sequence of str
        Columns of the table that are not released: identifiers, free text.
    public : bool, default=True
        Whether a person states that all of this is known without the private rows. A drafted schema says False until it is
        `confirmed`; private models refuse it.
    constraints : sequence of AtMost, Implies or Determines
        Statements about two columns that hold in every row, of the private table and of synthetic ones.

    Examples
    --------
    >>> from tacit.data import CategoryColumn, IntegerColumn, TableSchema
    >>> schema = TableSchema({"age": IntegerColumn(0, 120), "sex": CategoryColumn(("f", "m"))}, left_out=["name"])
    >>> list(schema.for_columns(["name", "sex", "age"]))
    ['sex', 'age']
    """

    columns: Mapping[str, ColumnSpec]
    left_out: tuple[str, ...] = ()
    public: bool = True
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        columns = {str(name): spec for name, spec in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "left_out", tuple(str(name) for name in self.left_out))
        wrong = [name for name, spec in columns.items() if not isinstance(spec, ColumnSpec)]
        if wrong:
            raise InvalidInputError(
                "a NumberColumn, IntegerColumn, DateColumn or CategoryColumn for every column",
                words(f"something else for {listed(wrong)}"),
                "Declare the column, as in NumberColumn(0, 120).",
            )
        object.__setattr__(self, "constraints", tuple(self.constraints))
        for constraint in self.constraints:
            _check_constraint(constraint, columns)
        twice = [name for name in columns if name in self.left_out]
        if twice:
            raise InvalidInputError(
                "columns that are declared or left out", words(f"both for {listed(twice)}"), "Choose one."
            )

    @classmethod
    def of(cls, given: object, names: Sequence[str]) -> TableSchema:
        """Return a schema from a schema, a mapping, or one column specification for all `names`."""
        if isinstance(given, TableSchema):
            return given
        if isinstance(given, ColumnSpec):
            return cls(dict.fromkeys(names, given))
        if isinstance(given, Mapping):
            return cls(given)
        raise InvalidInputError(
            "a schema, the public description of every column",
            words("none" if given is None else f"a value of type {type(given).__name__}"),
            "Give schema={'age': IntegerColumn(0, 120), ...} or TableSchema.load(file), from public knowledge. Kinds, bounds "
            "and categories that are inferred from the data would be a release.",
        )

    def for_columns(self, names: Sequence[str]) -> dict[str, ColumnSpec]:
        """Return the declared columns of a table with these columns, in its order; raise if the two do not agree."""
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
                "Check it, and set public = true in its file, or call its method confirmed(): this is your statement that "
                "it is known without the rows.",
            )

    def joined(self, other: TableSchema) -> TableSchema:
        """Return the columns of both; raise if both declare a column."""
        twice = [name for name in other.columns if name in self.columns]
        if twice:
            raise InvalidInputError(
                "each column to be declared once", words(f"{listed(twice)} declared twice"), "Choose one."
            )
        return TableSchema(
            {**self.columns, **other.columns},
            (*self.left_out, *other.left_out),
            self.public and other.public,
            (*self.constraints, *other.constraints),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are in a file."""
        return {
            "version": VERSION,
            "public": self.public,
            "left_out": list(self.left_out),
            "columns": {name: spec.to_dict() for name, spec in self.columns.items()},
            "constraints": [constraint.to_dict() for constraint in self.constraints],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """Invert `to_dict`."""
        _check_keys(values, {"version", "public", "columns"}, {"left_out", "constraints"}, "a table schema")
        if values["version"] != VERSION:
            raise InvalidInputError(
                f"a table schema of version {VERSION}",
                parameter(values["version"]),
                "Read it with the version of tacit that it was written for.",
            )
        if not isinstance(values["public"], bool) or not isinstance(values["columns"], Mapping):
            raise InvalidInputError(
                "public = true or false, and a table of columns", words("something else"), "See docs/guide/tables.md."
            )
        columns = {name: column_from_dict(spec, name) for name, spec in values["columns"].items()}
        constraints = tuple(constraint_from_dict(one) for one in values.get("constraints", ()))
        return cls(columns, tuple(values.get("left_out", ())), values["public"], constraints)

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
            raise InvalidInputError(
                f"{file} to be a table schema", words("something else"), "See docs/guide/tables.md."
            )
        return cls.from_dict(values)

    def save(self, path: str | Path) -> None:
        """Write a TOML file, or a JSON file if the name ends in .json."""
        file = Path(path)
        values = self.to_dict()
        text = json.dumps(values, indent=2) + "\n" if file.suffix.lower() == ".json" else self.toml()
        file.write_text(text, encoding="utf-8")

    def toml(self) -> str:
        """Return the schema as TOML; a draft begins with instructions."""
        values = self.to_dict()
        lines = [f"{key} = {_toml(values[key])}" for key in ("version", "public", "left_out")]
        for name, spec in values["columns"].items():
            lines += ["", f"[columns.{_toml(name)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in spec.items()]
        for constraint in values["constraints"]:
            lines += ["", "[[constraints]]", *(f"{key} = {_toml(value)}" for key, value in constraint.items())]
        return ("" if self.public else DRAFT + "\n") + "\n".join(lines) + "\n"


def _check_constraint(constraint: Constraint, columns: Mapping[str, ColumnSpec]) -> None:
    """Raise unless a constraint is about two declared columns of kinds that it can hold for."""
    if not isinstance(constraint, Constraint):
        raise InvalidInputError(
            "constraints AtMost, Implies or Determines", words("something else"), "Use one of them."
        )
    one, other = columns.get(constraint.first), columns.get(constraint.second)
    if isinstance(constraint, AtMost):
        fits = (
            isinstance(one, Quantity)
            and isinstance(other, Quantity)
            and (one.kind, one.step) == (other.kind, other.step)
            and one.bounds[0] <= other.bounds[1]
        )
        wanted = "numbers, integers or dates of one kind, whose bounds allow it"
    elif isinstance(constraint, Implies):
        fits = (
            isinstance(one, CategoryColumn)
            and isinstance(other, CategoryColumn)
            and constraint.value in one.categories
            and len(constraint.values) > 0
            and set(constraint.values) <= set(other.categories)
        )
        wanted = "columns of categories, with categories that they have"
    else:
        fits, wanted = one is not None and other is not None, "declared columns"
    if not fits or constraint.first == constraint.second:
        raise InvalidInputError(
            f"the constraint between {constraint.first} and {constraint.second} to be about two {wanted}",
            words("others"),
            "Correct the constraint or the columns.",
        )


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


def _check_keys(values: Mapping[str, object], required: set[str], optional: set[str], what: str) -> None:
    absent, unknown = sorted(required - set(values)), sorted(set(values) - required - optional)
    if absent or unknown:
        got = f"no {listed(absent)}" if absent else f"unknown {listed(unknown)}"
        raise InvalidInputError(f"{', '.join(sorted(required))} in {what}", words(got), "Correct the schema.")


def _check_bounds(column: Quantity) -> None:
    """Check the bounds of a column of numbers, and make them plain Python numbers."""
    low, high = _plain(column.low), _plain(column.high)
    numeric = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in (low, high))
    if not (numeric and math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(
            "finite bounds with low < high", parameter((low, high)), "Choose them without looking at the data."
        )
    object.__setattr__(column, "low", low)
    object.__setattr__(column, "high", high)


def grid(low: float, high: float, step: float | None) -> NDArray[np.float64]:
    """Return the edges of the cells of a column of numbers: cell i holds the values from edge i to just below edge i + 1.

    Where values lie on a lattice of at most MOST_CELLS points, each point is a cell. Otherwise the edges are round numbers:
    even steps, and distances from zero (from the bound next to zero, if zero is outside) that grow by about the same ratio. The
    roundest of them, the bounds and zero have cells of their own, since many rows may have just that value.

    Examples
    --------
    >>> grid(1, 3, 1.0)
    array([1., 2., 3., 4.])
    """
    if step is not None and round((high - low) / step) < MOST_CELLS:
        return np.asarray(low + step * np.arange(round((high - low) / step) + 2), dtype=np.float64)
    centre = min(max(low, 0.0), high)
    top = math.floor(math.log10(high - low))
    away = np.concatenate([_tens(np.array(ROUND_RATIOS), power - 1) for power in range(top - DECADES, top + 1)])
    round_values = np.concatenate([_multiples(low, high, OWN_CELLS), centre - away, centre + away])
    inner, own = (
        values[(values > low) & (values < high)] for values in (_multiples(low, high, EVEN_CELLS), round_values)
    )
    own = np.concatenate([own, [low, centre, high]])
    if step is None:
        edges = np.concatenate([inner, own, np.nextafter(own, np.inf)])
    else:
        inner, own = (low + np.ceil((values - low) / step - 1e-9) * step for values in (inner, own))
        edges = low + np.round((np.concatenate([inner, own, own + step]) - low) / step) * step
    return np.unique(edges)


def _finite_numbers(column: NDArray[np.generic], name: str, *, missing: bool = False) -> NDArray[np.float64]:
    """Return cells as finite numbers, each read by itself; NaN for missing ones, if there may be any."""
    wrong = InvalidInputError(
        f"finite numbers in the column {name} (no text, {'' if missing else 'no missing cell, '}no infinity)",
        words("a cell that is none"),
        "Correct the table, declare the column as categories, or, if cells may be missing, with missing=True.",
    )
    if column.dtype.kind not in "biufOUT":
        raise wrong
    if column.dtype.kind in "OUT" and missing:
        column = np.array(
            [
                np.nan if _is_missing(cell) or cell == "" or cell in MARKS_OF_EMPTY_CELLS else cell
                for cell in column.tolist()
            ],
            dtype=object,
        )
    try:
        read = column.astype(np.float64)
    except (TypeError, ValueError):
        raise wrong from None  # the error of numpy would show the cell
    if not (np.isfinite(read) | (np.isnan(read) & missing)).all():
        raise wrong
    return read


def _date_text(cell: object) -> str:
    """Return the day of a cell as text; "NaT" for a missing one."""
    return "NaT" if _is_missing(cell) or cell == "" or str(cell) == "NaT" else str(cell)[:10]


def _text_cells(column: NDArray[np.generic]) -> list[str] | None:
    """Return cells of text, with "" for missing ones; None for a column that holds something else."""
    if column.dtype.kind in "UT":
        return [str(cell) for cell in column.tolist()]
    if column.dtype.kind != "O":
        return None
    cells = column.tolist()
    if not all(isinstance(cell, str) or _is_missing(cell) for cell in cells):
        return None
    return [cell if isinstance(cell, str) else "" for cell in cells]


def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or type(cell).__name__ == "NAType"


def _number_or_none(cell: object) -> object:
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


def _toml(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


NAMES = {"id", "ids", "uuid", "guid", "ssn", "email", "mail", "phone", "telephone", "passport", "iban"}
"""Words in the name of a column that suggest that it identifies people."""
FEWEST_ROWS = 20
"""In tables with fewer rows, different values in all rows do not suggest an identifier. Set by hand."""


def looks_like_identifier(name: str, cells: NDArray[np.generic]) -> bool:
    """Return whether a column looks like an identifier: by its name, or because all rows have different integers or texts.

    Examples
    --------
    >>> import numpy as np
    >>> looks_like_identifier("PatientID", np.zeros(3)), looks_like_identifier("paid", np.zeros(3))
    (True, False)
    >>> looks_like_identifier("row", np.arange(20.0)), looks_like_identifier("height", np.arange(20) + 0.5)
    (True, False)
    """
    if named_as_identifier(name):
        return True
    if len(cells) < FEWEST_ROWS:
        return False
    if cells.dtype.kind == "f":
        known = cells[np.isfinite(cells)]
        return len(known) >= FEWEST_ROWS and bool((known == np.floor(known)).all()) and _all_differ(known.tolist())
    return _all_differ(cells.tolist())


def named_as_identifier(name: str) -> bool:
    """Return whether the name of a column suggests that it identifies people; the rows are not looked at."""
    return bool(NAMES & {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)})


def _all_differ(values: list[Hashable]) -> bool:
    return len(set(values)) == len(values)


MOST_CATEGORIES = 50
"""Text with more different values than this is left out, as free text rather than categories. Set by hand."""
MOST_DECIMALS = 2
"""Numbers with at most this many digits after the point are drafted with that many: prices, rates. Set by hand."""
FEW_INTEGERS = 2
"""Integers with at most this many different values are drafted as categories: flags, not quantities. Set by hand."""


def draft_schema(frame: pl.DataFrame) -> TableSchema:
    """Return a schema that fits the rows, marked as not public.

    The rows are used without protection: kinds and categories are those of the rows, and bounds are rounded outwards to 1, 2 or 5
    times a power of ten. Columns that look like identifiers or free text, or have one value only, are left out. A private model
    refuses the draft until a person has corrected and confirmed it.

    Parameters
    ----------
    frame : polars.DataFrame
        Preferably with cells as text (`read_frame(path, as_text=True)`), so that categories keep their spelling.
    """
    if not frame.height or not frame.columns:
        raise InvalidInputError("a table with rows and columns", words("an empty one"), "Give the table with its rows.")
    drafted = {name: _column(name, frame[name]) for name in frame.columns}
    kept = {name: spec for name, spec in drafted.items() if spec is not None and not _has_one_value(spec)}
    return TableSchema(kept, tuple(name for name in drafted if name not in kept), public=False)


def _has_one_value(column: ColumnSpec) -> bool:
    return isinstance(column, CategoryColumn) and len(column.categories) == 1


def _column(name: str, cells: pl.Series) -> ColumnSpec | None:
    """Return the column that fits these cells; None for a column to leave out."""
    import polars as pl

    marked = cells.set(cells.is_in(MARKS_OF_EMPTY_CELLS), None) if cells.dtype == pl.String else cells
    if 0 < marked.drop_nulls().cast(pl.Float64, strict=False).count() == marked.count():
        cells = marked  # numbers, beside NA and the like
    known = cells.drop_nulls()
    read = known.cast(pl.Float64, strict=False) if not known.dtype.is_temporal() else pl.Series([None])
    numeric = len(known) > 0 and known.dtype != pl.Boolean and read.null_count() == 0 and bool(read.is_finite().all())
    days = None if numeric else _days(known)
    if days is not None and not named_as_identifier(name):  # a day that only one row has is not an identifier
        return DateColumn(f"{days[0][:4]}-01-01", f"{days[1][:4]}-12-31", missing=cells.null_count() > 0)
    if looks_like_identifier(name, read.to_numpy() if numeric else known.cast(pl.String, strict=False).to_numpy()):
        return None
    if numeric:
        return _numeric_column(read.to_numpy(), _decimals(known), missing=cells.null_count() > 0)
    if known.dtype == pl.Boolean:
        return CategoryColumn((False, True))
    text = known.cast(pl.String, strict=False).unique().sort().to_list()
    if cells.null_count() and "" not in text:
        text = ["", *text]
    return CategoryColumn(tuple(text)) if 0 < len(text) <= MOST_CATEGORIES else None


def _numeric_column(values: NDArray[np.float64], decimals: int | None, *, missing: bool) -> ColumnSpec:
    """Return the column of numbers, integers or flags that fits these values."""
    if not (values == np.floor(values)).all():
        return NumberColumn(*_rounded_outwards(values), decimals=decimals, missing=missing)
    distinct = np.unique(values)
    if len(distinct) <= FEW_INTEGERS and not missing:
        return CategoryColumn(tuple(int(value) for value in distinct))
    low, high = _rounded_outwards(values)
    return IntegerColumn(math.floor(low), math.ceil(high), missing=missing)


def _days(known: pl.Series) -> tuple[str, str] | None:
    """Return the first and the last day of cells that are all dates, or text as in 2024-02-29; None for other cells."""
    import polars as pl

    text = known.cast(pl.String, strict=False).str.slice(0, 10)
    if not len(text) or not text.str.contains(r"^\d{4}-\d{2}-\d{2}$").all():
        return None
    days = text.str.to_date("%Y-%m-%d", strict=False)
    return None if days.null_count() else (str(days.min()), str(days.max()))


def _decimals(known: pl.Series) -> int | None:
    """Return the digits after the decimal point of cells of text, if they are few, as in money; None for other cells."""
    import polars as pl

    if known.dtype != pl.String or known.str.contains("[eE]").any():
        return None
    digits = known.str.extract(r"\.(\d+)\s*$").str.len_chars().max()
    return digits if isinstance(digits, int) and digits <= MOST_DECIMALS else None


def _rounded_outwards(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    first, last = (0.0 if low >= 0 else -_step_above(-low)), (0.0 if high <= 0 else _step_above(high))
    return (first, last) if first < last else (first, first + 1.0)


def _multiples(low: float, high: float, steps: int) -> NDArray[np.float64]:
    """Return the multiples, around a range, of the largest round number that gives at least `steps` of them.

    Examples
    --------
    >>> _multiples(8.0, 9.0, 4)
    array([8. , 8.2, 8.4, 8.6, 8.8, 9. ])
    """
    widest = (high - low) / steps * (1 + 1e-12)
    power = math.floor(math.log10(widest))
    unit = max(step for step in ROUND_STEPS if step == 1 or step * 10.0**power <= widest)
    first, last = (math.floor(bound / (unit * 10.0**power)) for bound in (low, high))
    return _tens(unit * np.arange(first, last + 2), power)[: last + 1 - first + (last * unit * 10.0**power < high)]


def _tens(numbers: NDArray[np.int_], power: int) -> NDArray[np.float64]:
    """Return integers times a power of ten, as they are read from text: 94 tenths are 9.4, not 94 * 0.1."""
    return np.asarray(numbers / 10.0**-power if power < 0 else numbers * 10.0**power)


def _step_above(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is at least `value`.

    Examples
    --------
    >>> _step_above(87.0), _step_above(0.2), _step_above(5000.0)
    (100.0, 0.2, 5000.0)
    """
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (*ROUND_STEPS, 10) if step * power >= value * (1 - 1e-12))
