"""Matrices from files: sparse and dense archives, MatrixMarket, and tables of numbers."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import existing_file, read_frame, reading
from tacit.data.schema import named_as_identifier
from tacit.errors import InvalidInputError, Undisclosed, kind_of, listed, parameter, words
from tacit.validation import check_choice

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

Numbers: TypeAlias = "NDArray[np.floating] | csr_array[np.floating, tuple[int, int]]"
"""Rows of numbers that were read: an array, or a sparse matrix by rows."""

# Errors that numpy does not catch, from the zip file and from the header, which is Python text, of a damaged array.
_NUMPY_FAILURES = (
    *(zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError),
    *(SyntaxError, tokenize.TokenError, TypeError, MemoryError),
)
_NO_PICKLE = (
    "Arrays of Python objects are refused, because opening them can run code. Save numbers as numbers and terms "
    "as np.array(terms, dtype=str)."
)


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Undisclosed):
    """A matrix read from a file.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n_rows, n_columns)
        Finite numbers in float64, or in float32 if the file has float32.
    names : tuple of str or None
        The name or the term of each column, if the file has them.
    kind : {"sparse", "array", "table"}
        The content of the file: a sparse matrix, a plain array, or a table with named columns.
    """

    X: Numbers
    names: tuple[str, ...] | None
    kind: Literal["sparse", "array", "table"]


def read_matrix(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str | float = "refuse",
    empty: bool = False,
) -> Matrix:
    """Read a matrix, with one record per row, from a file of one of these types.

    - ``.npz``: a file of `scipy.sparse.save_npz`, or a numpy archive with one 2-d array among its arrays; the
      names of the columns are in an array ``terms`` of the same archive.
    - ``.npy``: a 2-d numpy array.
    - ``.mtx``: MatrixMarket; the names of the columns are in a file with the same name that ends in ``.terms``, with one
      term per line.
    - ``.csv``, ``.csv.gz``, ``.tsv``, ``.parquet``: a table whose columns are all numbers; the first line of a CSV file has
      the names of the columns.

    A column of text, a missing number or a pickled array is an error, and so is a column of a table that is named as an
    identifier, unless `columns` names it.

    Parameters
    ----------
    path : str or Path
        The file.
    columns : sequence of str, optional
        For tables: the columns to read, in this order; all if not given.
    drop : sequence of str
        For tables: columns to leave out.
    missing : {"refuse", "mean", "median"} or float
        For tables: refuse empty cells, or fill them with the mean or median of the column, or with a number. For a private
        fit it must be a number that is chosen without looking at the data: a mean would be a release without a charge.
    empty : bool, default=False
        Whether a file without rows is allowed.

    Returns
    -------
    Matrix
        The numbers and the names of the columns.
    """
    file = existing_file(path)
    name = file.name.lower()
    for ending, reader in READERS.items():
        if name.endswith(ending):
            if reader is _read_table:
                matrix = numbers_of(read_frame(file), file, columns=columns, drop=drop, missing=missing, empty=empty)
            elif columns is not None or drop or missing != "refuse":
                raise InvalidInputError(
                    "a table (csv, tsv or parquet) with columns=, drop= or missing=",
                    parameter(str(file)),
                    "Leave them out: a matrix is read as it is.",
                )
            else:
                matrix = reader(file)
            _check(matrix, file, empty=empty)
            return matrix
    raise InvalidInputError(
        f"a file that ends in {', '.join(READERS)}", parameter(str(file)), "Convert it to one of these."
    )


def _read_npz(file: Path) -> Matrix:
    from scipy.sparse import csr_array, load_npz

    with reading(file, "a numpy archive without pickled objects", *_NUMPY_FAILURES, fix=_NO_PICKLE):
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise _not_a_matrix(file, "a single array")
        with archive:
            names = tuple(map(str, archive["terms"])) if "terms" in archive.files else None
            if {"format", "shape", "data"} <= set(archive.files):
                X = csr_array(load_npz(file))
                # The cheap check of the constructor accepts column indices that are out of bounds.
                X.check_format(full_check=True)
                return Matrix(X=_as_float(X, file), names=names, kind="sparse")
            arrays = {key: archive[key] for key in archive.files if key != "terms"}
    matrices = [key for key, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise _not_a_matrix(file, f"{len(matrices)} of them")
    return Matrix(X=_as_float(arrays[matrices[0]], file), names=names, kind="array")


def _read_npy(file: Path) -> Matrix:
    with reading(file, "a numpy array without pickled objects", *_NUMPY_FAILURES, fix=_NO_PICKLE):
        array = np.load(file, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        got = f"{array.ndim} dimensions" if isinstance(array, np.ndarray) else "an archive"
        raise InvalidInputError(f"{file} to be a 2-d array", words(got), "Give one row per record.")
    return Matrix(X=_as_float(array, file), names=None, kind="array")


def _not_a_matrix(file: Path, got: str) -> InvalidInputError:
    return InvalidInputError(
        f"{file} to be an archive with one 2-d array", words(got), "Save the matrix in a file of its own."
    )


def _read_mtx(file: Path) -> Matrix:
    from scipy.io import mmread
    from scipy.sparse import csr_array, issparse

    with reading(file, "a MatrixMarket file", OverflowError, MemoryError):
        text = file.read_bytes()
        if b"\0" in text:
            raise ValueError
        # If a file ends inside its last number, the parser reads past the end and crashes, unless a line ends there.
        # It then reads the first part of the number as a whole: 2.5E-1 without its end is 2.5.
        content = mmread(BytesIO(text.rstrip() + b"\n"))
        float(text.rsplit(maxsplit=1)[-1])
    beside = file.with_suffix(".terms")
    names = read_terms(beside) if beside.is_file() else None
    if issparse(content):
        return Matrix(X=_as_float(csr_array(content), file), names=names, kind="sparse")
    return Matrix(X=_as_float(np.asarray(content), file), names=names, kind="array")


def read_terms(path: str | Path) -> tuple[str, ...]:
    """Read a file with one term per line; white space around terms and empty lines are removed."""
    file = existing_file(path)
    with reading(file, "text in UTF-8 with one term on each line"):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    return tuple(term for term in map(str.strip, lines) if term)


def _read_table(file: Path) -> Matrix:
    return numbers_of(read_frame(file), file)


def numbers_of(
    table: pl.DataFrame,
    file: Path,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str | float = "refuse",
    empty: bool = False,
) -> Matrix:
    """Return the chosen columns of a table, which must be numbers; see `read_matrix` for the parameters."""
    import polars as pl

    unknown = [name for name in (*(columns or ()), *drop) if name not in table.columns]
    if unknown:
        raise InvalidInputError(
            f"columns of {file} in columns= and drop=", words(f"no column {listed(unknown)} there"), "Check the names."
        )
    if not table.height and empty:  # the types of a csv file without rows are not known
        names = tuple(name for name in columns or table.columns if name not in drop)
        return Matrix(X=np.zeros((0, len(names))), names=names, kind="table")
    if not table.height:
        raise InvalidInputError(f"{file} to have at least one row", words("names of columns only"), "Check the file.")
    table = table.select(table.columns if columns is None else list(columns)).drop(drop)
    identifying = [name for name in table.columns if columns is None and named_as_identifier(name)]
    text = [
        name
        for name, kind in table.schema.items()
        if name not in identifying and not (kind.is_numeric() or kind == pl.Boolean)
    ]
    partly = [name for name, count in zip(table.columns, table.null_count().row(0), strict=True) if count]
    gaps = [name for name in partly if name not in (*identifying, *text)]
    if identifying or text or (gaps and missing == "refuse"):
        raise _unusable(file, identifying, text, gaps if missing == "refuse" else [])
    kind = pl.Float32 if set(table.dtypes) == {pl.Float32} else pl.Float64
    numbers = table.select(pl.all().cast(kind))
    if gaps:
        numbers = numbers.with_columns(_filled(numbers, gaps, missing, file))
    return Matrix(X=np.ascontiguousarray(numbers.to_numpy()), names=tuple(table.columns), kind="table")


def _unusable(file: Path, identifying: list[str], text: list[str], gaps: list[str]) -> InvalidInputError:
    """Return one error for everything that keeps a table from being read, so that one more attempt is enough."""
    problems = {"names of identifiers": identifying, "other kinds": text, "empty cells": gaps}
    fixes = []
    if identifying or text:
        fixes.append(f"Leave columns out with drop={','.join((*identifying, *text)[:MOST_SUGGESTED])}.")
    if gaps:
        fixes.append("Fill empty cells by a number that you choose, as in missing=0.")
    if identifying:
        fixes.append("A column that is not an identifier can be used: name all columns in columns=.")
    return InvalidInputError(
        f"the columns of {file} to be numbers",
        words("; ".join(f"{what} in {listed(names)}" for what, names in problems.items() if names)),
        " ".join(fixes),
    )


MOST_SUGGESTED = 20
"""Most columns in a suggested option. Set by hand."""


def _filled(numbers: pl.DataFrame, gaps: list[str], missing: str | float, file: Path) -> list[pl.Series]:
    """Return the columns with gaps, filled."""
    if not isinstance(missing, str):
        return [numbers[name].fill_null(float(missing)) for name in gaps]
    check_choice(missing, "missing", ("refuse", "mean", "median"))
    if any(numbers[name].null_count() == len(numbers) for name in gaps):
        raise InvalidInputError(
            f"at least one number per column of {file}", words("a column without"), "Leave it out with drop=."
        )
    return [numbers[name].fill_null(getattr(numbers[name], missing)()) for name in gaps]


READERS = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".mtx": _read_mtx,
    ".csv": _read_table,
    ".csv.gz": _read_table,
    ".tsv": _read_table,
    ".parquet": _read_table,
}


def _as_float(X: Any, file: Path) -> Numbers:
    """Return X in float64, or in float32 where it is so: sums and squares of narrow integers would overflow."""
    if X.dtype.kind not in "biuf":
        raise InvalidInputError(f"{file} to have real numbers", kind_of(X), "Save it as numbers.")
    numbers: Numbers = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    return numbers


def _check(matrix: Matrix, file: Path, *, empty: bool) -> None:
    shape = matrix.X.shape
    if 0 in shape[int(empty) :]:
        raise InvalidInputError(
            f"{file} to have at least one row and column", words("an empty table"), "Check the file."
        )
    if matrix.names is not None and len(matrix.names) != shape[1]:
        raise InvalidInputError(
            f"one term for each of the {shape[1]} columns of {file}",
            words("more or fewer terms"),
            "Give the terms that belong to the matrix; if its rows are the terms, transpose it.",
        )
    entries = matrix.X if isinstance(matrix.X, np.ndarray) else matrix.X.data
    if not np.isfinite(entries).all():
        raise InvalidInputError(
            f"{file} to have finite numbers", words("NaN or infinity"), "Fill them or drop the records."
        )
