"""Ratings from a file: a table with a column each for users, items and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words

NAMES = ("user", "item", "rating")


def read_ratings_file(path: Path, columns: str, catalogue: Any = None) -> Any:
    """Return a polars frame with the columns user, item and rating; `columns` names them in the file, in this order.

    With a catalogue, the items have the type of its ids, whatever type the file's other items suggest.
    """
    import polars

    from tacit.data.frames import read_frame

    chosen = _column_names(columns)
    frame = read_frame(path)
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"columns {', '.join(chosen)} in {path.name}",
            words(f"no column {', '.join(missing)}"),
            "Name the columns of users, items and ratings with --columns.",
        )
    frame = frame.select(polars.col(given).alias(name) for given, name in zip(chosen, NAMES, strict=True))
    return frame if catalogue is None else frame.with_columns(as_type_of(frame["item"], catalogue))


def read_catalogue(path: Path, columns: str) -> Any:
    """Return all items as a polars series: of a table's column of items (or only column), or one per line."""
    import polars

    from tacit.data.frames import read_frame

    name = _column_names(columns)[1]
    if path.suffix.lower() == ".txt":
        from tacit.data import read_terms

        items = polars.Series(name, list(read_terms(path)))
        numbers = items.cast(polars.Int64, strict=False)
        return (items if numbers.null_count() else numbers).alias("item")
    frame = read_frame(path)
    if name not in frame.columns and len(frame.columns) == 1:
        name = frame.columns[0]
    if name not in frame.columns:
        raise InvalidInputError(f"a column {name!r} in {path.name}", words("none"), "Name the columns with --columns.")
    return frame[name].drop_nulls().unique(maintain_order=True).alias("item")


def as_type_of(items: Any, ids: Any) -> Any:
    """Return a polars series of items with the type of `ids`: whole numbers, or text."""
    import polars

    if items.dtype == ids.dtype:
        return items
    if ids.dtype.is_integer() and items.dtype == polars.String:
        found = items.cast(polars.Int64, strict=False)
        if not found.null_count():
            return found
    elif ids.dtype == polars.String and items.dtype.is_integer():
        return items.cast(polars.String)
    elif ids.dtype.is_integer() and items.dtype.is_integer():
        return items.cast(polars.Int64)
    raise InvalidInputError(
        "items of the catalogue's kind, whole numbers or names", words("others"), "Correct the items, or the catalogue."
    )


def _column_names(columns: str) -> list[str]:
    chosen = [name.strip() for name in columns.split(",")]
    if len(chosen) != len(NAMES):
        raise InvalidInputError("three column names, as in user,item,rating", parameter(columns), "Give --columns.")
    return chosen
