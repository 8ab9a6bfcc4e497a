"""Reading files: finding them, tables as data frames, and errors that name the file."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError, TacitError, parameter, words

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl


def existing_file(path: str | Path) -> Path:
    """Return `path` if it is a file."""
    file = Path(path)
    if not file.is_file():
        got = f"the folder {file}" if file.is_dir() else f"{file}, which does not exist"
        raise InvalidInputError("a file to read", words(got), "Check the path.")
    return file


def files_under(folder: str | Path, suffixes: Collection[str]) -> tuple[Path, list[Path]]:
    """Return the folder, and all files with one of the suffixes in it or in its subfolders, in the order of their names."""
    root = Path(folder)
    listed = ", ".join(sorted(suffixes))
    if not root.is_dir():
        got = f"the file {root}" if root.is_file() else f"{root}, which does not exist"
        raise InvalidInputError(f"a folder with {listed} files", words(got), "Check the path.")
    files = [path for path in root.rglob("*") if path.suffix.lower() in suffixes and path.is_file()]
    if not files:
        raise InvalidInputError(
            f"{root} to have files that end in {listed}", words("none, also in its subfolders"), "Check the folder."
        )
    # Sorted by parts, not by the path with the platform's separator: the order is the same on all platforms.
    return root, sorted(files, key=lambda path: path.relative_to(root).parts)


@contextmanager
def reading(what: Path | str, kind: str, *failures: type[BaseException], fix: str = "") -> Iterator[None]:
    """Replace any of `failures`, and the usual errors of a broken file, by an error that names the file.

    If each file is a record, `what` names the folder, because the name of a file may be the name of a person. The message of a
    parser may quote the file, so only the type of its error is shown.
    """
    expected: tuple[type[BaseException], ...] = (OSError, ValueError, EOFError, *failures)
    try:
        yield
    except TacitError:
        raise
    except expected as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        advice = fix or "Check that the file is complete and has the format of its name."
        raise InvalidInputError(
            f"{what} to be {kind}", words(f"a file that cannot be read as such ({reason})"), advice
        ) from None


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
MARKS_OF_EMPTY_CELLS = ("NA", "N/A", "NaN", "nan", "null", "NULL")
"""What other programs write into an empty cell of a column of numbers. In a column of names, NA is a name."""
LONGEST_FIRST_LINE = 1 << 20
"""Most bytes that are read in search of the column names: 1 MB holds tens of thousands of names."""


def read_frame(
    path: str | Path,
    *,
    as_text: bool = False,
    text: Sequence[str] = (),
    max_rows: int | None = None,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Read a CSV (also compressed), TSV or Parquet file with named columns.

    Parameters
    ----------
    path : str or Path
    as_text : bool
        Read every cell of a CSV or TSV file as text. Otherwise the type of a column is inferred from all its cells, which must
        not be done with private rows: one row could change how all others are read. The columns of a Parquet file have the
        types that the file states.
    text : sequence of str
        Columns of a CSV or TSV file to read as text, such as ids; the others are inferred.
    max_rows : int, optional
        Read at most this many rows of a CSV or TSV file.
    columns : sequence of str, optional
        Read these columns of a Parquet file; all, if not given.
    """
    import polars as pl

    file = existing_file(path)
    name = file.name.lower()
    if name.endswith(".parquet"):
        # a damaged file can make the reader panic, which is neither a PolarsError nor an Exception
        with reading(file, "a table in Parquet", pl.exceptions.PolarsError, pl.exceptions.PanicException):
            # memory_map=False: the numbers must not change if the file is changed or removed
            chosen = None if columns is None else list(columns)
            return pl.read_parquet(file, columns=chosen, memory_map=False, hive_partitioning=False)
    if name.endswith((".csv", ".csv.gz", ".tsv")):
        with reading(file, "a table in CSV with column names in its first line", pl.exceptions.PolarsError):
            # infer the type of a column from all lines, not from the first hundred
            table = pl.read_csv(
                file,
                separator=_separator(file),
                infer_schema=not as_text,
                infer_schema_length=None,
                schema_overrides=_as_text(file, text),
                n_rows=max_rows,
            )
        if _looks_like_a_record(table.columns):
            raise InvalidInputError(
                f"the first line of {file} to have the names of the columns",
                words("numbers"),
                "Add a line with names, so that the first record is not read as names. A name must not be a number, unless "
                "the columns are numbered from 0 or 1.",
            )
        return table if as_text else _without_marks(table, text)
    raise InvalidInputError(
        "a file that ends in .csv, .csv.gz, .tsv or .parquet", parameter(str(file)), "Convert it to one of these."
    )


def _separator(file: Path) -> str:
    """Return what separates the cells of a CSV or TSV file: a comma, unless its first line has none but another separator."""
    if file.name.lower().endswith(".tsv"):
        return "\t"
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    with opened(file, "rb") as stream:
        names = stream.readline(LONGEST_FIRST_LINE)
    others = [mark for mark in (";", "\t", "|") if mark.encode() in names]
    return others[0] if others and b"," not in names else ","


def _without_marks(table: pl.DataFrame, text: Sequence[str]) -> pl.DataFrame:
    """Return the table with numbers in columns that hold only numbers and marks of empty cells."""
    import polars as pl

    read = {}
    for name in (name for name, kind in table.schema.items() if kind == pl.String and name not in text):
        cells = table[name].str.strip_chars()
        known = cells.set(cells.is_in(MARKS_OF_EMPTY_CELLS), None)
        if known.null_count() == cells.null_count() or known.null_count() == len(known):
            continue
        for kind in (pl.Int64, pl.Float64):
            numbers = known.cast(kind, strict=False)
            if numbers.null_count() == known.null_count():
                read[name] = numbers
                break
    return table.with_columns(**read)


def _as_text(file: Path, columns: Sequence[str]) -> dict[str, type[pl.DataType]]:
    """Return the types of the columns that shall be read as text, if the file has them."""
    import polars as pl

    return {name: pl.String for name in read_columns(file) if name in columns} if columns else {}


def scan_frame(path: str | Path, rows: int, *, text: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table as `read_frame` reads it, at most about `rows` at a time; at least one frame, which may be empty.

    Parameters
    ----------
    path : str or Path
    rows : int
    text : sequence of str
        As for `read_frame`.
    """
    import polars as pl

    file = existing_file(path)
    name = file.name.lower()
    failures = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
    with reading(file, "a table in Parquet or in CSV with column names in its first line", *failures):
        if name.endswith(".parquet"):
            scanned = pl.scan_parquet(file, hive_partitioning=False)
        else:
            scanned = pl.scan_csv(
                file, separator=_separator(file), infer_schema_length=None, schema_overrides=_as_text(file, text)
            )
        if _looks_like_a_record(scanned.collect_schema().names()):
            raise ValueError
        some = False
        for batch in scanned.collect_batches(chunk_size=rows, maintain_order=True):
            some = True
            yield batch
        if not some:
            yield scanned.head(0).collect()


def as_item_type(items: pl.Series, kind: str) -> pl.Series:
    """Return a polars series of items as whole numbers ("integer") or as text ("text"), as those of a catalogue are."""
    import polars as pl

    if kind == "text" and items.dtype == pl.String:
        return items
    if kind == "integer" and items.dtype == pl.String:
        numbers = items.cast(pl.Int64, strict=False)
        if not numbers.null_count():
            return numbers
    elif kind == "text" and items.dtype.is_integer():
        return items.cast(pl.String)
    elif kind == "integer" and items.dtype.is_integer():
        return items.cast(pl.Int64)
    raise InvalidInputError(
        "items of the catalogue's type, whole numbers or names",
        words("other items"),
        "Correct the items, or the catalogue.",
    )


def read_columns(path: str | Path) -> dict[str, str]:
    """Return the names of a table's columns, with the type that the file states: "text" for all columns of a CSV or TSV file.

    No rows are read. For a Parquet file the type is one of "text", "integer", "number", "boolean" and "other".
    """
    import polars as pl

    file = existing_file(path)
    if not file.name.lower().endswith(".parquet"):
        return dict.fromkeys(read_frame(file, as_text=True, max_rows=0).columns, "text")
    with reading(file, "a table in Parquet", pl.exceptions.PolarsError, pl.exceptions.PanicException):
        stated = pl.read_parquet_schema(file)
    return {name: _kind(dtype) for name, dtype in stated.items()}


def _kind(dtype: pl.DataType) -> str:
    for kind, is_of_kind in (("integer", dtype.is_integer()), ("number", dtype.is_numeric())):
        if is_of_kind:
            return kind
    return {"String": "text", "Categorical": "text", "Enum": "text", "Boolean": "boolean"}.get(str(dtype), "other")


def _looks_like_a_record(header: list[str]) -> bool:
    """Whether a first line has numbers among its cells, other than the numbering of columns that many programs write.

    Names of columns may be shown in messages, so a record must not be read as names.
    """
    # polars adds a suffix to a repeated name
    cells = [name.partition("_duplicated_")[0].strip() for name in header]
    numbers = [float(cell) for cell in cells if _NUMBER.fullmatch(cell)]
    counts = [list(range(start, start + len(numbers))) for start in (0, 1)]
    return bool(numbers) and (numbers not in counts or len(numbers) == 1 < len(cells))


def as_frame(X: object) -> nw.DataFrame[Any] | None:
    """Return the data as a narwhals data frame; None if it is not a data frame."""
    from narwhals.dependencies import is_into_dataframe

    if isinstance(X, np.ndarray) or not is_into_dataframe(X):
        return None
    import narwhals as nw

    frame: nw.DataFrame[Any] = nw.from_native(X, eager_only=True)
    return frame
