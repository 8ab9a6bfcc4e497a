"""Ratings from a file: a table with a column each for users, items and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words

NAMES = ("user", "item", "rating")


def read_ratings_file(path: Path, columns: str) -> Any:
    """Return a polars frame with the columns user, item and rating; `columns` names them in the file, in this order."""
    import polars

    from tacit.data.frames import read_frame

    chosen = [name.strip() for name in columns.split(",")]
    if len(chosen) != len(NAMES):
        raise InvalidInputError("three column names, as in user,item,rating", parameter(columns), "Give --columns.")
    frame = read_frame(path)
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"columns {', '.join(chosen)} in {path.name}",
            words(f"no column {', '.join(missing)}"),
            "Name the columns of users, items and ratings with --columns.",
        )
    return frame.select(polars.col(given).alias(name) for given, name in zip(chosen, NAMES, strict=True))
