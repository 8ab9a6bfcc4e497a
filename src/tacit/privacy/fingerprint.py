"""Fingerprints: names of data sets that are computed from their content, for use in a ledger."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words

if TYPE_CHECKING:
    import narwhals as nw

_CHUNK_VALUES = 1 << 16  # values converted at a time: half a megabyte
_CHUNK_BYTES = 1 << 20  # bytes of a file read at a time
_NUMBERS = {
    "b": ("boolean", "?"),
    "i": ("integer", "<i8"),
    "u": ("large integer", "<u8"),  # only where some do not fit the line above
    "f": ("real", "<f8"),
    "c": ("complex", "<c16"),
}
_COARSER_UNITS = {"ns": "us", "us": "ms", "ms": "s"}
_FINEST_UNIT = {"W": "s", "D": "s", "h": "s", "m": "s", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}


def fingerprint(data: object) -> str:
    """Return a name for a data set: a hash of its content.

    A fingerprint is a hash of private data. Someone who has it and can guess the data can confirm the guess, so keep a
    ledger that contains fingerprints where the data are.

    Parameters
    ----------
    data : ndarray, scipy sparse matrix or array, data frame, pathlib.Path, or tuple of such
        * Of arrays, the shape, the kind (boolean, integer, real, complex, text, time) and the values are hashed. The
          memory layout, the byte order and the width of the numbers do not matter, nor do the sign of a zero and the
          bits of a NaN.
        * Sparse matrices likewise, in any format; duplicates are added and stored zeros dropped. The fingerprint differs
          from that of the same matrix as a dense array.
        * Of data frames (polars, pandas and others that narwhals reads), the names, the order, the kinds and the values
          of the columns are hashed; an index is not. A missing real number is a NaN.
        * Of a file, the bytes are hashed and not the name; of a folder, the relative names and the bytes of its files.

    Returns
    -------
    str
        ``"sha256:"`` and 64 hexadecimal digits.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(2, 3)
    >>> fingerprint(X) == fingerprint(np.asfortranarray(X, dtype=np.float32))
    True
    >>> fingerprint(X) == fingerprint(X.T)
    False
    """
    return f"sha256:{_digest(data).hex()}"


def _digest(data: object) -> bytes:
    from narwhals.dependencies import is_into_dataframe
    from scipy.sparse import issparse

    if isinstance(data, np.ndarray):
        return _array_digest(data)
    if isinstance(data, Path):
        return _path_digest(data)
    if isinstance(data, tuple):
        return _joined("tuple", *[_digest(item) for item in data])
    if issparse(data):
        return _sparse_digest(data)
    if is_into_dataframe(data):
        return _frame_digest(data)
    raise InvalidInputError(
        "an array, a sparse matrix, a data frame, a pathlib.Path or a tuple of such",
        kind_of(data),
        "Convert it with numpy.asarray, wrap a file's name in pathlib.Path, or collect a lazy frame.",
    )


def _joined(kind: str, *parts: bytes) -> bytes:
    """Hash parts with their lengths, so that different sequences of parts, or kinds of data, have different hashes."""
    total = hashlib.sha256()
    for part in (b"tacit fingerprint 1", kind.encode(), *parts):
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.digest()


def _array_digest(array: NDArray[np.generic]) -> bytes:
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidInputError("an array without a mask", words("a masked array"), "Fill the masked values first.")
    kind, chunks = _canonical(array)
    values = hashlib.sha256()
    for chunk in chunks:
        values.update(chunk)
    shape = ",".join(map(str, array.shape))
    return _joined("array", kind.encode(), shape.encode(), values.digest())


def _canonical(array: NDArray[np.generic]) -> tuple[str, Iterator[bytes]]:
    """Return the kind of an array and the bytes of its values, in C order and independent of the width of its dtype."""
    kind = array.dtype.kind
    if kind == "u" and (array.size == 0 or array.max() <= np.iinfo(np.int64).max):
        kind = "i"
    if kind in _NUMBERS:
        name, dtype = _NUMBERS[kind]
        _check_fits(array, dtype)
        return name, (_tidy(chunk).tobytes() for chunk in _chunks(array, dtype))
    if kind in "US":
        name = "text" if kind == "U" else "bytes"
        return name, (b"".join(map(_text, chunk.tolist())) for chunk in _chunks(array, array.dtype.str))
    if kind in "mM":
        unit, counts = _coarsest_times(array)
        name = "duration" if kind == "m" else "time"
        return f"{name} in {unit}", (chunk.tobytes() for chunk in _chunks(counts, "<i8"))
    raise InvalidInputError(
        "an array of plain values",
        kind_of(array),
        "Convert it to numbers, booleans, texts or times.",
    )


def _chunks(array: NDArray[np.generic], dtype: str) -> Iterator[NDArray[np.generic]]:
    """Iterate over an array in C order, in chunks, without copying the whole."""
    chunks = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_dtypes=[np.dtype(dtype)],
        order="C",
        casting="same_kind" if array.dtype.kind != "u" else "unsafe",  # checked to fit before
        buffersize=_CHUNK_VALUES,
    )
    for chunk in chunks:
        yield np.array(chunk)


def _tidy(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Replace -0.0 by 0.0, and every NaN by the same NaN."""
    if values.dtype.kind not in "fc":
        return values
    reals = values.view("<f8") + 0.0  # -0.0 becomes 0.0
    reals[np.isnan(reals)] = np.nan
    return reals


def _check_fits(array: NDArray[np.generic], dtype: str) -> None:
    too_wide = array.dtype.kind in "fc" and array.dtype.itemsize > np.dtype(dtype).itemsize
    if too_wide and not np.array_equal(array, array.astype(dtype), equal_nan=True):
        raise InvalidInputError(
            "numbers that double precision holds", words(f"dtype {array.dtype}"), "Round them to float64 first."
        )


def _text(value: str | bytes | None) -> bytes:
    if value is None:
        return b"-"
    coded = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return b"+" + len(coded).to_bytes(8, "little") + coded


def _coarsest_times(array: NDArray[Any]) -> tuple[str, NDArray[np.int64]]:
    """Return times as counts of the coarsest unit that holds all of them exactly, so that their unit does not matter."""
    unit, step = np.datetime_data(array.dtype)
    if unit not in _FINEST_UNIT or step != 1:
        raise InvalidInputError(
            "times in weeks to nanoseconds", words(f"dtype {array.dtype}"), "Convert them to nanoseconds."
        )
    unit = _FINEST_UNIT[unit]
    counts = array.astype(f"{array.dtype.kind}8[{unit}]").view(np.int64)
    present = ~np.isnat(array)
    while unit in _COARSER_UNITS and not np.any(counts[present] % 1000):
        counts = np.where(present, counts // 1000, counts)
        unit = _COARSER_UNITS[unit]
    return unit, counts


def _sparse_digest(matrix: Any) -> bytes:
    if matrix.ndim != 2 or matrix.dtype.kind not in _NUMBERS:
        raise InvalidInputError(
            "a sparse matrix of numbers with two dimensions",
            kind_of(matrix),
            "Reshape it to two dimensions, or give its coordinates and values as a tuple of arrays.",
        )
    wide = _NUMBERS[matrix.dtype.kind][1]  # first, or the sum of duplicates might overflow
    rows = matrix.astype(wide).tocsr(copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    shape = ",".join(map(str, matrix.shape))
    parts = [_array_digest(part) for part in (rows.indptr, rows.indices, rows.data)]
    return _joined("sparse", shape.encode(), *parts)


def _frame_digest(data: Any) -> bytes:
    import narwhals as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except nw.exceptions.NarwhalsError as error:
        got = words(f"another one ({type(error).__name__})")
        raise InvalidInputError(
            "a data frame with distinct columns", got, "Rename columns with the same name."
        ) from None
    columns = []
    for column in frame.iter_columns():
        kind, read = _column_reader(column)
        values = hashlib.sha256()
        for start in range(0, len(column), _CHUNK_VALUES):
            values.update(read(column[start : start + _CHUNK_VALUES]))
        columns.append(_joined("column", repr(column.name).encode(), kind.encode(), values.digest()))
    return _joined("frame", str(len(frame)).encode(), *columns)


def _column_reader(column: nw.Series[Any]) -> tuple[str, Callable[[nw.Series[Any]], bytes]]:
    """Return the kind of a column, and a function that turns its values and gaps into bytes."""
    import narwhals as nw

    dtype = column.dtype
    read: Callable[[nw.Series[Any]], bytes]
    if dtype.is_float():
        kind, read = "real", lambda part: _array_digest(_filled(part, float("nan")))
    elif dtype.is_integer():
        kind, read = "integer", lambda part: _with_gaps(part, _filled(part, 0))
    elif isinstance(dtype, nw.Boolean):
        kind, read = "boolean", lambda part: _with_gaps(part, _filled(part, False).astype(bool))
    elif isinstance(dtype, nw.String):
        kind, read = "text", _texts
    elif isinstance(dtype, nw.Categorical | nw.Enum):
        kind, read = "category", lambda part: _texts(part.cast(nw.String))
    elif isinstance(dtype, nw.Date | nw.Duration):
        kind, read = type(dtype).__name__.lower(), lambda part: _array_digest(part.to_numpy())
    elif isinstance(dtype, nw.Datetime):
        kind, read = f"time in zone {dtype.time_zone}", _times
    else:
        raise InvalidInputError(
            "columns of numbers, booleans, texts or times",
            words(f"column {column.name!r} of type {type(dtype).__name__}"),
            "Convert the column, or leave it out.",
        )
    return kind, read


def _filled(part: nw.Series[Any], value: float) -> NDArray[np.generic]:
    return np.asarray(part.fill_null(value).to_numpy())


def _with_gaps(part: nw.Series[Any], values: NDArray[np.generic]) -> bytes:
    missing = np.asarray(part.is_null().to_numpy(), dtype=bool)
    return _joined("values", _array_digest(missing), _array_digest(values))


def _texts(part: nw.Series[Any]) -> bytes:
    missing = part.is_null().to_list()
    return _joined("texts", *(_text(None if gap else text) for gap, text in zip(missing, part.to_list(), strict=True)))


def _times(part: nw.Series[Any]) -> bytes:
    if part.dtype.time_zone is not None:  # type: ignore[attr-defined]
        part = part.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return _array_digest(part.to_numpy())


def _path_digest(path: Path) -> bytes:
    try:
        if path.is_file():
            return _joined("file", _file_digest(path))
        if not path.is_dir():
            raise InvalidInputError("a file or a folder", parameter(path), "Give a path that exists.")
        files = {os.fsencode(item.relative_to(path).as_posix()): item for item in _files(path)}
        return _joined("folder", *(part for name in sorted(files) for part in (name, _file_digest(files[name]))))
    except OSError as error:
        raise InvalidInputError(
            "a file or a folder that can be read",
            parameter(path),
            f"Reading failed: {error.strerror or 'unknown reason'}.",
        ) from None


def _files(folder: Path) -> Iterator[Path]:
    for item in folder.iterdir():
        if item.is_file():
            yield item
        elif item.is_dir() and not item.is_symlink():
            yield from _files(item)
        else:  # links may form cycles, and reading a device does not end
            raise InvalidInputError(
                "a folder of files and folders", words("a link or a device"), "Remove it, or name the files one by one."
            )


def _file_digest(path: Path) -> bytes:
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            content.update(block)
    return content.digest()
