"""Tables as data frames, whatever their columns hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.files import existing_file, reading
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def read_frame(path: str | Path, *, as_text: bool = False) -> pl.DataFrame:
    """Read a CSV (also compressed), TSV or Parquet file with named columns.

    Parameters
    ----------
    path : str or Path
    as_text : bool
        Read every cell of a CSV or TSV file as text. Otherwise all cells of a column decide together on its type, which must
        not happen to private rows: one of them could change how all others are read. The columns of a Parquet file have the
        types that the file states.
    """
    import polars as pl

    file = existing_file(path)
    name = file.name.lower()
    if name.endswith(".parquet"):
        # a damaged file can make the reader panic, which is neither a PolarsError nor an Exception
        with reading(file, "a table in Parquet", pl.exceptions.PolarsError, pl.exceptions.PanicException):
            # memory_map=False: the numbers must not change or vanish when the file does
            return pl.read_parquet(file, memory_map=False, hive_partitioning=False)
    if name.endswith((".csv", ".csv.gz", ".tsv")):
        with reading(file, "a table in CSV with column names in its first line", pl.exceptions.PolarsError):
            # all lines decide on the type of a column, not the first hundred
            separator = "\t" if name.endswith(".tsv") else ","
            table = pl.read_csv(file, separator=separator, infer_schema=not as_text, infer_schema_length=None)
        if _looks_like_a_record(table.columns):
            raise InvalidInputError(
                f"the first line of {file} to have the names of the columns",
                words("numbers"),
                "Add a line with names, so that the first record is not lost; a name must not be a number, unless the "
                "columns are numbered from 0 or 1.",
            )
        return table
    raise InvalidInputError(
        "a file that ends in .csv, .csv.gz, .tsv or .parquet", parameter(str(file)), "Convert it to one of these."
    )


def _looks_like_a_record(header: list[str]) -> bool:
    """Whether a first line has numbers among its cells, other than the count of columns that many programs write there.

    Names of columns may be in messages, so that a record must not pass for names.
    """
    # polars adds a suffix to a repeated name
    cells = [name.partition("_duplicated_")[0].strip() for name in header]
    numbers = [float(cell) for cell in cells if _NUMBER.fullmatch(cell)]
    counts = [list(range(start, start + len(numbers))) for start in (0, 1)]
    return bool(numbers) and (numbers not in counts or len(numbers) == 1 < len(cells))


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame that narwhals reads as such, None for anything else."""
    from narwhals.dependencies import is_into_dataframe

    if isinstance(X, np.ndarray) or not is_into_dataframe(X):
        return None
    import narwhals as nw

    frame: nw.DataFrame[Any] = nw.from_native(X, eager_only=True)
    return frame
