"""Matrices from files: sparse and dense archives, MatrixMarket, and tables of numbers."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import existing_file, reading
from tacit.data.frames import read_frame
from tacit.errors import InvalidInputError, Undisclosed, kind_of, listed, parameter, words

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# What numpy lets through from the zip file and from the header, which is Python text, of a damaged array.
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
        The numbers, all of them finite, as float64, or as float32 where the file has float32.
    names : tuple of str or None
        The name or the term of each column, where the file has them.
    kind : {"sparse", "array", "table"}
        What the file was: a sparse matrix, a plain array, or a table with named columns.
    """

    X: NDArray[Any] | csr_array[Any, tuple[int, int]]
    names: tuple[str, ...] | None
    kind: Literal["sparse", "array", "table"]


def read_matrix(path: str | Path) -> Matrix:
    """Read a matrix, with one record in each row, from a file of one of these kinds.

    - ``.npz``: what `scipy.sparse.save_npz` writes, or a numpy archive with one 2-d array among its arrays; the
      names of the columns are taken from an array ``terms`` in the same archive.
    - ``.npy``: a 2-d numpy array.
    - ``.mtx``: MatrixMarket; the names of the columns are taken from a file beside it that has the same name but
      ends in ``.terms``, one term on each line.
    - ``.csv``, ``.csv.gz``, ``.parquet``: a table whose columns are all numbers; the first line of a CSV file has
      the names of the columns.

    Nothing is guessed and nothing is dropped: a column of text, a missing number or a pickled array is an error.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Matrix
        The numbers and the names of the columns.
    """
    file = existing_file(path)
    name = file.name.lower()
    for ending, reader in _READERS.items():
        if name.endswith(ending):
            matrix = reader(file)
            _check(matrix, file)
            return matrix
    raise InvalidInputError(
        f"a file that ends in {', '.join(_READERS)}", parameter(str(file)), "Convert it to one of these."
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
                # The cheap check of the constructor lets column indices through that are out of bounds.
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
        # Where a file is cut inside its last number, the parser runs past the end and crashes unless a line ends
        # there, and then takes the part of the number that it has for the whole: 2.5E-1 without its end is 2.5.
        content = mmread(BytesIO(text.rstrip() + b"\n"))
        float(text.rsplit(maxsplit=1)[-1])
    beside = file.with_suffix(".terms")
    names = read_terms(beside) if beside.is_file() else None
    if issparse(content):
        return Matrix(X=_as_float(csr_array(content), file), names=names, kind="sparse")
    return Matrix(X=_as_float(np.asarray(content), file), names=names, kind="array")


def read_terms(path: str | Path) -> tuple[str, ...]:
    """Read a file with one term on each line; white space around terms and empty lines are dropped."""
    file = existing_file(path)
    with reading(file, "text in UTF-8 with one term on each line"):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    return tuple(term for term in map(str.strip, lines) if term)


def _read_table(file: Path) -> Matrix:
    import polars as pl

    table = read_frame(file)
    text = [name for name, kind in table.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    if text:
        raise InvalidInputError(
            f"all columns of {file} to be numbers",
            words(f"other kinds in {listed(text)}"),
            "Drop these columns, or code them as numbers.",
        )
    gaps = [name for name, count in zip(table.columns, table.null_count().row(0), strict=True) if count]
    if gaps:
        raise InvalidInputError(
            f"{file} to have no empty cells", words(f"some in {listed(gaps)}"), "Fill them or drop the records."
        )
    kind = pl.Float32 if set(table.dtypes) == {pl.Float32} else pl.Float64
    X = np.ascontiguousarray(table.select(pl.all().cast(kind)).to_numpy())
    return Matrix(X=X, names=tuple(table.columns), kind="table")


_READERS = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".mtx": _read_mtx,
    ".csv": _read_table,
    ".csv.gz": _read_table,
    ".parquet": _read_table,
}


def _as_float(X: Any, file: Path) -> Any:
    """Return X in float64, or in float32 where it is so: sums and squares of narrow integers would overflow."""
    if X.dtype.kind not in "biuf":
        raise InvalidInputError(f"{file} to have real numbers", kind_of(X), "Save it as numbers.")
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def _check(matrix: Matrix, file: Path) -> None:
    shape = matrix.X.shape
    if 0 in shape:
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
