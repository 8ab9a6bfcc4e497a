"""Read a table that a user names on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    import polars as pl


def read_table(path: Path, *, as_text: bool = False) -> pl.DataFrame:
    """Read a table, and refuse one without rows: its columns would be taken for text."""
    from tacit.data.frames import read_frame

    frame = read_frame(path, as_text=as_text)
    if not frame.height:
        raise InvalidInputError(f"{path} to have rows", words("names of columns only"), "Give the table with its rows.")
    return frame
