"""What a partition is: a file, a block of its rows, or a part of a Dask collection; and how a worker reads it."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.cluster.here import Cluster
from tacit.cluster.worker import Loaded
from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.estimators.input import Rows, is_dask

if TYPE_CHECKING:
    import polars as pl

BATCH = 65_536
"""Rows that are read at a time where a file is divided into blocks."""
HASH_RANGES = 16
"""Users are compared in this many parts, by a hash of their ids, so that no process holds all of them."""
TEXT_ENDING = ".jsonl"
Paths = str | Sequence[str | os.PathLike[str]]
"""Files with the partitions, or a pattern of their names."""


@dataclass(frozen=True, repr=False)
class Block(Undisclosed):
    """A part of the rows of a file.

    Attributes
    ----------
    path : str
    number, of : int
        The rows (or users) whose hash is `number` modulo `of`.
    by_place : bool
        Divide by the place of a row in the file, not by a hash of its values.

    Privacy
    -------
    Adding or removing a row must change one partition, so rows are divided by their own values and not by their place, which
    others would move. Where a row is replaced, its place stays and its values change. Users are divided by their ids.
    """

    path: str
    number: int
    of: int
    by_place: bool = False


def sources_of(
    data: Any, client: Any, *, by_user: str | None = None, blocks: int = 1, by_place: bool = False
) -> list[object]:
    """Return one source per partition: a path, a block of a file, or the future of a part of a collection.

    `by_user` is the column of the users, whose ratings must be together: a collection is shuffled by it.
    """
    if is_dask(data):
        from distributed import futures_of

        if blocks > 1:
            raise InvalidInputError(
                "blocks=1 for a Dask collection", parameter(blocks), "Repartition it: it has parts already."
            )
        if by_user is None:
            whole_rows = hasattr(data, "rechunk") and getattr(data, "ndim", 2) == 2
            collection = data.rechunk({1: -1}) if whole_rows else data
        elif by_user in getattr(data, "columns", ()):
            collection = data.shuffle(by_user)
        else:
            raise InvalidInputError(
                f"a Dask data frame with a column {by_user!r}",
                words("none"),
                "Name the columns of users, items and ratings: columns=.",
            )
        kept = client.persist(collection)
        return sorted(futures_of(kept), key=lambda future: _number(future.key))
    paths = partition_paths(data)
    if blocks == 1:
        return list(paths)
    by_place = by_place and by_user is None
    return [Block(path, number, blocks, by_place) for path in paths for number in range(blocks)]


def partition_paths(data: Paths) -> list[str]:
    """Return the files that a pattern or a list names, as absolute paths, in order."""
    if isinstance(data, str):
        paths = [data] if Path(data).is_file() else sorted(glob.glob(data))
    else:
        paths = [os.fspath(part) for part in data]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing or not paths:
        raise InvalidInputError(
            "files with the partitions",
            words(f"{len(missing)} that do not exist" if missing else "none that match the pattern"),
            "Check the paths.",
        )
    return [os.path.abspath(path) for path in paths]


def _number(key: object) -> tuple[int, ...]:
    return tuple(part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, int))


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a partition, on the worker.

    Parameters
    ----------
    target : str, optional
        The column of the targets, which is no feature.
    vocabulary : tuple of str, optional
        Public terms, for texts: the columns.
    unit_rows : bool
        Scale every row by itself to norm 1.
    as_table : bool
        Give the table as it is, with text and categories, for synthetic tables.
    """

    target: str | None = None
    vocabulary: tuple[str, ...] | None = None
    unit_rows: bool = False
    as_table: bool = False

    def __call__(self, source: object) -> Loaded:
        """Return the rows, and the targets if there are some."""
        path = source.path if isinstance(source, Block) else source
        if not isinstance(path, str):
            return self._of_collection(source)
        if path.lower().endswith(TEXT_ENDING):
            return self._of_texts(source, path)
        if self.as_table:
            return self._of_table(source, path)
        X, names = _matrix(source, path)
        y: tuple[NDArray[np.floating], ...] = ()
        if self.target is not None:
            if names is None or self.target not in names:
                raise InvalidInputError(
                    f"a column {self.target!r} in {Path(path).name}", words("none"), "Name the column of the targets."
                )
            place = names.index(self.target)
            y, X = (X[:, place],), np.delete(X, place, axis=1)
            names = names[:place] + names[place + 1 :]
        return Loaded((self._scaled(X), *y), X.shape[0], names)

    def _of_collection(self, part: Any) -> Loaded:
        names = tuple(map(str, part.columns)) if hasattr(part, "columns") else None
        if self.target is None:
            return Loaded((part,), len(part), names)
        return Loaded((part.drop(columns=[self.target]), part[self.target]), len(part), names)

    def _of_texts(self, source: object, path: str) -> Loaded:
        from tacit.data import read_text_lines, term_counts, tfidf

        if self.vocabulary is None:
            raise InvalidInputError(
                "a vocabulary for partitions of texts",
                words("none"),
                "Give the public terms: vocabulary=, --vocabulary.",
            )
        texts = read_text_lines(path)
        if not texts:
            return Loaded((), 0)
        X = tfidf(term_counts(texts, vocabulary=self.vocabulary)).X
        if isinstance(source, Block):
            X = X[in_block(X, source, start=0)]
        return Loaded((X,), X.shape[0])

    def _of_table(self, source: object, path: str) -> Loaded:
        from tacit.data.files import read_frame

        if isinstance(source, Block):
            raise InvalidInputError("blocks=1 for a table with text", parameter(source.of), "Write smaller files.")
        frame = read_frame(
            path, as_text=True
        )  # the schema says what a cell is; inferred types would depend on the rows
        return Loaded((frame,), frame.height, tuple(frame.columns))

    def _scaled(self, X: Rows) -> Rows:
        if not self.unit_rows or not X.shape[0]:
            return X
        from sklearn.preprocessing import normalize

        scaled: Rows = normalize(X)
        return scaled


def _matrix(source: object, path: str) -> tuple[Any, tuple[str, ...] | None]:
    from tacit.data import read_matrix

    if not isinstance(source, Block):
        matrix = read_matrix(path, empty=True)
        return matrix.X, matrix.names
    kept: list[NDArray[np.floating]] = []
    names, start = None, 0
    for part, named in _batches(path):
        kept.append(part[in_block(part, source, start=start)])
        names, start = named, start + part.shape[0]
    return (kept[0] if len(kept) == 1 else np.concatenate(kept)), names


def _batches(path: str) -> Iterator[tuple[Any, tuple[str, ...] | None]]:
    """Yield the rows of a file, a batch at a time; a sparse matrix at once, because it is small."""
    from tacit.data import read_matrix
    from tacit.data.tables import numbers_of

    name = path.lower()
    if name.endswith((".parquet", ".csv", ".csv.gz", ".tsv")):
        from tacit.data.files import scan_frame

        for batch in scan_frame(path, BATCH):
            matrix = numbers_of(batch, Path(path), empty=True)
            yield matrix.X, matrix.names
    elif name.endswith(".npy"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"{Path(path).name} to be a 2-d array of numbers", words("another one"), "Convert it."
            )
        for start in range(0, max(len(array), 1), BATCH):
            yield np.asarray(array[start : start + BATCH], dtype=np.float64), None
    else:
        matrix = read_matrix(path, empty=True)
        yield matrix.X, matrix.names


def in_block(X: Rows, block: Block, *, start: int) -> NDArray[np.bool_]:
    """Return which rows are in a block; `start` is the place of the first one in the file.

    The hash is a sum modulo 2^64 of the bits of the values, each times a constant of its column: the same for a row wherever
    it is, and dense or sparse.
    """
    if block.by_place:
        return np.asarray(np.arange(start, start + X.shape[0]) % block.of == block.number)
    drawn = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64)
    factors = np.multiply(drawn, 2, dtype=np.uint64) + np.uint64(1)
    if isinstance(X, np.ndarray):
        hashes = ((X + 0.0).astype(np.float64).view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    else:
        from scipy.sparse import csr_array

        bits = X.data.astype(np.float64).view(np.uint64)
        hashes = csr_array((bits, X.indices, X.indptr), shape=X.shape) @ factors
    mixed = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(block.of) == block.number)


@dataclass(frozen=True)
class RatingReader:
    """Reads the ratings or interactions of a partition, on the worker.

    Parameters
    ----------
    columns : tuple of str
        The columns of users, items and ratings (or weights) in the files; interactions need no third one.
    names : tuple of str
        What the estimator calls them.
    item_type : {"integer", "text"}, optional
        Of the catalogue's ids: the items are read as such, whatever else is in the file.
    compact : bool
        For a fit: number the users, use half as many bytes where no number changes, and keep the ratings until the fit asks
        for its first total, when it has indexed them.
    """

    columns: tuple[str, ...] = ("user", "item", "rating")
    names: tuple[str, ...] = ("user", "item", "rating")
    item_type: str | None = None
    compact: bool = False

    def __call__(self, source: Any) -> Loaded:
        """Return the ratings as a data frame."""
        path = source.path if isinstance(source, Block) else source
        if not isinstance(path, str):
            self._check_columns(source.columns, "the data frame")
            frame = source[list(self.columns)]
            return Loaded((frame.rename(columns=dict(zip(self.columns, self.names, strict=True))),), len(frame))
        import polars as pl

        from tacit.data.files import as_item_type, read_columns, read_frame, scan_frame

        self._check_columns(read_columns(path), Path(path).name)
        # ids are text: whether 07 and 7 are one user must not depend on the other ids of a partition
        text = self.columns[:1] if self.item_type is None else self.columns[:2]
        if isinstance(source, Block):
            kept = [
                batch.select(self.columns).filter(hashed(batch[self.columns[0]]) % source.of == source.number)
                for batch in scan_frame(path, BATCH, text=text)
            ]
            frame = pl.concat(kept)
        else:
            frame = read_frame(path, text=text).select(self.columns)
        frame = frame.rename(dict(zip(self.columns, self.names, strict=True)))
        if self.item_type is not None:
            frame = frame.with_columns(as_item_type(frame["item"], self.item_type))
        if self.compact and frame.height:
            frame = frame.with_columns(frame["user"].rank("dense").cast(pl.Int32), *map(_halved, frame[:, 1:]))
            return Loaded((frame,), frame.height, free=lambda: _empty(frame))
        return Loaded((frame,), frame.height)

    def users(self, source: object) -> pl.Series:
        """Return the users of the ratings of a partition, and read nothing else of a Parquet file."""
        if not isinstance(source, str) or not source.lower().endswith(".parquet"):
            users: pl.Series = replace(self, compact=False)(source).arguments[0]["user"]  # their ids, not their numbers
            return users
        from tacit.data.files import read_columns, read_frame

        self._check_columns(read_columns(source), Path(source).name)
        return read_frame(source, columns=self.columns[:1])[self.columns[0]]

    def _check_columns(self, names: Collection[str], where: str) -> None:
        missing = [name for name in self.columns if name not in names]
        if missing:
            raise InvalidInputError(
                f"the columns {', '.join(self.columns)} in {where}",
                words(f"no column {', '.join(missing)}"),
                "Rename the columns, or name those of the files.",
            )


def _empty(frame: pl.DataFrame) -> None:
    for name in frame.columns:
        frame.drop_in_place(name)


def _halved(column: pl.Series) -> pl.Series:
    """Return a polars series of numbers in 32 bits if they are the same there, and others as they are."""
    import polars as pl

    if column.dtype.is_integer():
        fits = column.null_count() == 0 and bool(column.is_between(-(2**30), 2**30, closed="none").all())
        return column.cast(pl.Int32) if fits else column
    if column.dtype != pl.Float64:
        return column
    small = column.cast(pl.Float32)
    return small if bool((small.cast(pl.Float64) == column).all()) else column


def hashed(ids: pl.Series) -> pl.Series:
    """Return a hash of every id, the same for a number and its text."""
    import polars as pl

    return pl.Series(ids).cast(pl.String).hash(seed=0)


def check_units_apart(client: Cluster, sources: Sequence[object], read: RatingReader) -> None:
    """Raise if a user has ratings in two partitions: the guarantee is per user, and a partition bounds its own users only.

    The check is private to the holder of the data: only whether it failed is said. Every partition is read once, and hashes of
    users stay on the workers.
    """
    hashes = [client.submit(users_by_range, read, source, pure=False) for source in sources]
    repeated = [client.submit(_any_twice, part, *hashes, pure=False) for part in range(HASH_RANGES)]
    if any(client.gather(repeated)):
        raise InvalidInputError(
            "all ratings of a user in one partition",
            words("a user in two"),
            "Bring the ratings of each user together: give a Dask data frame, which is shuffled, or write one file per "
            "group of users.",
        )


def users_by_range(read: RatingReader, source: object) -> list[NDArray[np.uint64]]:
    """Return a hash per user of a partition, in parts by its value."""
    hashes = hashed(read.users(source).unique()).to_numpy()
    return [hashes[hashes % HASH_RANGES == part] for part in range(HASH_RANGES)]


def _any_twice(part: int, *hashes: list[NDArray[np.uint64]]) -> bool:
    joined = np.concatenate([one[part] for one in hashes])
    return len(np.unique(joined)) < len(joined)
