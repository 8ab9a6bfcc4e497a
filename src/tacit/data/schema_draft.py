"""Draft the schema of a table from its rows, for a person to check, correct and confirm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.identifiers import looks_like_identifier
from tacit.data.schema import CategoryColumn, ColumnSpec, IntegerColumn, NumberColumn, TableSchema
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    import polars as pl

MOST_CATEGORIES = 50
"""Text with more different values than this is left out: it is more likely free text than a category."""
FEW_INTEGERS = 2
"""Integers with at most this many different values are drafted as categories: flags, not quantities."""


def draft_schema(frame: pl.DataFrame) -> TableSchema:
    """Return a schema that fits the rows, marked as not public.

    The rows are looked at without protection: kinds and categories are those that they show, bounds are rounded outwards to 1, 2
    or 5 times a power of ten. Columns that look like identifiers or free text are left out. A private model refuses the
    draft until a person has corrected and confirmed it.

    Parameters
    ----------
    frame : polars.DataFrame
        Best with cells as text (`read_frame(path, as_text=True)`), in which categories keep their spelling.
    """
    if not frame.height or not frame.columns:
        raise InvalidInputError("a table with rows and columns", words("an empty one"), "Give the table with its rows.")
    drafted = {name: _column(name, frame[name]) for name in frame.columns}
    columns = {name: spec for name, spec in drafted.items() if spec is not None}
    return TableSchema(columns, tuple(name for name, spec in drafted.items() if spec is None), public=False)


def _column(name: str, cells: pl.Series) -> ColumnSpec | None:
    """Return the column that fits these cells; None for a column to leave out."""
    import polars as pl

    known = cells.drop_nulls()
    read = known.cast(pl.Float64, strict=False) if not known.dtype.is_temporal() else pl.Series([None])
    numeric = len(known) > 0 and known.dtype != pl.Boolean and read.null_count() == 0 and bool(read.is_finite().all())
    if looks_like_identifier(name, read.to_numpy() if numeric else known.cast(pl.String, strict=False).to_numpy()):
        return None
    if numeric:
        values = read.to_numpy()
        if not (values == np.floor(values)).all():
            return NumberColumn(*_rounded_outwards(values))
        distinct = np.unique(values)
        if len(distinct) <= FEW_INTEGERS:
            return CategoryColumn(tuple(int(value) for value in distinct))
        low, high = _rounded_outwards(values)
        return IntegerColumn(math.floor(low), math.ceil(high))
    if known.dtype == pl.Boolean:
        return CategoryColumn((False, True))
    text = known.cast(pl.String, strict=False).unique().sort().to_list()
    if cells.null_count() and "" not in text:
        text = ["", *text]
    return CategoryColumn(tuple(text)) if 0 < len(text) <= MOST_CATEGORIES else None


def _rounded_outwards(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    first, last = (0.0 if low >= 0 else -_step_above(-low)), (0.0 if high <= 0 else _step_above(high))
    return (first, last) if first < last else (first, first + 1.0)


def _step_above(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is at least `value`.

    Examples
    --------
    >>> _step_above(87.0), _step_above(0.2), _step_above(5000.0)
    (100.0, 0.2, 5000.0)
    """
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-12))
