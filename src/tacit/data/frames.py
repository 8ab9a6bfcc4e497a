"""Tables as data frames, whatever their columns hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tacit.data.files import existing_file, reading
from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    import polars as pl


def read_frame(path: str | Path) -> pl.DataFrame:
    """Read a CSV (also compressed), TSV or Parquet file with named columns."""
    import polars as pl

    file = existing_file(path)
    name = file.name.lower()
    with reading(file, "a table in CSV or Parquet", pl.exceptions.PolarsError, pl.exceptions.PanicException):
        if name.endswith(".parquet"):
            return pl.read_parquet(file, memory_map=False, hive_partitioning=False)
        if name.endswith((".csv", ".csv.gz", ".tsv")):
            # all lines decide on the type of a column, not the first hundred
            return pl.read_csv(file, separator="\t" if name.endswith(".tsv") else ",", infer_schema_length=None)
    raise InvalidInputError(
        "a file that ends in .csv, .csv.gz, .tsv or .parquet", parameter(str(file)), "Convert it to one of these."
    )
