"""Ratings from a file: a table with a column each for users, items and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError

NAMES = ("user", "item", "rating")


def read_ratings_file(path: Path, columns: str) -> Any:
    """Return a polars frame with the columns user, item and rating; `columns` names them in the file, in this order."""
    import polars

    chosen = [name.strip() for name in columns.split(",")]
    if len(chosen) != len(NAMES):
        raise InvalidInputError("three column names, as in user,item,rating", columns, "Give --columns.")
    try:
        frame = polars.read_parquet(path) if path.suffix == ".parquet" else polars.read_csv(path)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise InvalidInputError(
            "a csv or parquet file with ratings", str(path), f"It cannot be read ({type(error).__name__})."
        ) from error
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"columns {', '.join(chosen)} in {path.name}",
            frame.columns,
            "Name the columns with --columns user,item,rating.",
        )
    return frame.select(polars.col(given).alias(name) for given, name in zip(chosen, NAMES, strict=True))
